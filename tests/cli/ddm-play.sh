# ddm-play: films of clips in every format, which FFmpeg decodes to the frames that went in; what is refused.
. "$(dirname "$0")/tap.sh"

python=$(numpy_python) || skip_all "no numpy"
check_program ddm-play
# clips FOLDER COUNT SIZE...: clips of a disc that moves, of the given widths and heights
cat >clips.py <<'END'
import json, os, sys
import numpy as np
folder, count, width, height, channels, dtype = sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6]
name = folder[0]
os.makedirs(folder, exist_ok=True)
y, x = np.mgrid[:height, :width]
for k in range(count):
    frames = 6 + 2 * (k == 1)
    clip = np.full((frames, channels, height, width), 30, np.uint8)
    for f in range(frames):
        disc = (x - 6 - f * (k + 1)) ** 2 + (y - 6 - f) ** 2 < 20
        clip[f][:, disc] = np.array([200, 90 + 30 * k, 60, 90, 20])[:channels, None]
    np.save(f"{folder}/{name}@{k:06d}.npy", clip.astype(dtype))
    json.dump({"frames": frames, "fps": 5, "source": name}, open(f"{folder}/{name}@{k:06d}.json", "w"))
END
clips() { "$python" clips.py "$@"; }
clips c 3 20 20 3 uint8 && clips big 1 300 300 1 uint8 && clips grey 1 20 20 1 uint8 && clips wide 1 30 16 3 uint8 && clips latent 1 4 4 3 float32 && clips five 1 4 4 5 uint8 || exit 1
(cd c && tar cf ../c.tar --sort=name .)

for f in gif webp png; do
	check "as $f" ddm-play -q -o g.$f c.tar
	check "as $f again" ddm-play --format $f -q -o - c
	check_same "has the same bytes from a folder" g.$f "$OUT"
done
# Two columns of 140 and a gap of 2; the sheet has 8 columns and 3 rows.
size() { dd if="$1" bs=1 skip=16 count=8 2>/dev/null | od -An -tx1 | sed 's/^ //'; }
check_out "the size of the sheet" "00 00 04 6e 00 00 01 a8" size g.png
check_grep "a film's stamp" '"format": ?"gif"' g.gif.json
cp g.gif before.gif
check "the same command again" ddm-play -o g.gif c.tar
check_err "changes nothing" 'g.gif: 3 clips, unchanged'
check_same "and no byte" g.gif before.gif
check_exit 73 "other options" ddm-play --fps 9 -o g.gif c.tar
check_err "are named" 'fps: "?none"? -> 9|fps'
check_same "and the film stays" g.gif before.gif
check "grey clips" ddm-play -q -o grey.webp grey
check "clips that are not square" ddm-play -q -o wide.gif wide
check "a film of each" ddm-play -q --format webp -o each/ c wide
check_out "named by the keys" "c@000000.webp c@000001.webp c@000002.webp w@000000.webp" sh -c 'cd each && echo *.webp'
check "again" ddm-play --format webp -o each/ c wide
check_err "nothing to do" 'each/: 4 clips, unchanged'

check "clips spread over all" ddm-play -q --spread -n 2 --format webp -o apart/ c wide
check_out "the first and the one in the middle" "c@000000.webp c@000002.webp" sh -c 'cd apart && echo *.webp'
check "among others" ddm-play --spread -n 3 --format webp -o among/ c latent wide
check_out "one that is no clip is left out" "c@000000.webp c@000001.webp" sh -c 'cd among && echo *.webp'
if [ -x "$B/film-encoder" ]; then
	for f in mp4 webm; do
		check "as $f" ddm-play -q -o g.$f c.tar
		ddm-ingest -q --duplicates -o frames.tar g.$f 2>"$ERR"
		check_out "all frames of the longest" 8 sh -c 'tar tf frames.tar | grep -c png'
		if command -v ffmpeg >/dev/null; then
			for g in $f gif; do ffmpeg -v error -y -i g.$g -f rawvideo -pix_fmt rgb24 $g.raw; done
			"$python" -c "
import numpy as np
a, b = (np.fromfile(f, np.uint8).reshape(8, -1).astype(float) for f in ('$f.raw', 'gif.raw'))
print(min(10 * np.log10(255 ** 2 / ((a - b) ** 2).mean(1))))" >psnr
			check_true "$f: every frame is that of the gif, but for blurred colours: $(cat psnr) dB" "$(cat psnr) > 36"
		else
			skip "the frames of $f" "no ffmpeg"
		fi
	done
	if command -v ffmpeg >/dev/null; then
		check_out "five frames a second" "8 frames 5/1" \
			sh -c "ffprobe -v error -count_frames -show_entries stream=nb_read_frames,r_frame_rate -of csv=p=0 g.mp4 | sed 's/\(.*\),\(.*\)/\2 frames \1/'"
	fi
else
	check_exit 69 "mp4 without FFmpeg" ddm-play -o g.mp4 c.tar
fi

check_exit 2 "no output" ddm-play c.tar
check_exit 2 "an ending that names no format" ddm-play -o film.avi c.tar
check_err "names those there are" 'mp4, webm, gif, webp and png'
check_exit 2 "standard output without a format" ddm-play -o - c.tar
check_exit 66 "no such source" ddm-play -o x.gif none.tar
check_exit 65 "no clips" ddm-play -o x.gif latent
check_err "say what a clip is" 'no clip: a clip is an array of bytes \(frames, channels, height, width\), and 1 samples are others'
check_exit 65 "five channels" ddm-play -o x.gif five
check_err "are refused by name" 'f@000000: bytes of shape \(6, 5, 4, 4\)'
check_exit 65 "clips of unequal size" ddm-play -o x.gif c wide
check_err "both are named" 'w@000000: a clip of 30 x 16 with 3 channels, but c@000000 has 20 x 20 with 3'
check_exit 2 "too large" ddm-play --scale 64 -o x.png big
cp c/c@000000.npy cut.npy && cut_to cut.npy 300 && mkdir short && cp cut.npy short/v.npy
check_exit 65 "a clip that is cut off" ddm-play -o x.gif short
check_absent "nothing half-written" x.gif
[ "$FULL" -eq 1 ] && check_exit 74 "a full disk" sh -c 'ddm-play --format gif -o - c.tar >/dev/full'
check_stdout "webp" ddm-play -q --format webp -o - c.tar
