# Clips of ddm-ingest: the frames that are shown at even times, shots, bars, facts, captions, graphs; bad videos.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
need jq

keys() { tar tf "$1" | grep npy | tr '\n' ' '; }
fact() { tar xOf "$1" "$2.json" | jq -c "$3"; } # TAR KEY FILTER
first_bytes() { tail -c $(($2 * $3)) "$1" | od -An -v -tu1 -w"$2" | tr -s ' '; } # FILE SIZE N: the numbers of the last N frames of SIZE bytes

check_exit 2 "clips without a rate" ddm-ingest --clips 4 -o x.tar v.y4m
check_err "names --fps" "clips.*--fps"
check_exit 2 "no frames" ddm-ingest --clips 0 --fps 4 -o x.tar v.y4m
check_exit 2 "--frames beside it" ddm-ingest --clips 4 --fps 4 --frames 9 -o x.tar v.y4m
check_exit 2 "--stride alone" ddm-ingest --stride 4 -o x.tar v.y4m
for scene in cuts content: content:0 content:1e9 none:3 adaptive:x; do
	check_exit 2 "--scene $scene" ddm-ingest --clips 4 --fps 4 --scene $scene -o x.tar v.y4m
	check_err "says what is possible" 'scene "'$scene'": content, content:T, adaptive, adaptive:T or none'
done
check_exit 2 "--crop" ddm-ingest --clips 4 --fps 4 --crop some -o x.tar v.y4m
check_exit 2 "--grey is of clips" ddm-ingest --grey -o x.tar v.y4m
colour='lavfi@c:color=size=16x16:rate=4,format=rgb24,geq=r=X*10:g=Y*9:b=200-N*40'
for how in "" --grey; do
	check "a graph in colours, ${how:-as it is}" ddm-ingest --clips 3 --fps 4 $how -o "c$how.tar" "$colour"
	tar xOf "c$how.tar" "$(tar tf "c$how.tar" | grep npy)" | tail -c +129 | od -An -v -tu1 -w1 | tr -d ' ' >"numbers$how"
done
check_out "its shape" "(3, 1, 16, 16)" sh -c "tar xOf c--grey.tar \$(tar tf c--grey.tar | grep npy) | head -c 128 | grep -ao '(3.*16)'"
awk '{ v[NR - 1] = $1 } END { for (f = 0; f < 3; f++) for (i = 0; i < 256; i++) { at = f * 768 + i
	print int((v[at] * 19595 + v[at + 256] * 38470 + v[at + 512] * 7471 + 32768) / 65536) } }' numbers >want
check_same "the luma of each pixel" numbers--grey want
check_exit 2 "--scores is of pictures" ddm-ingest --clips 4 --fps 4 --scores -o x.tar v.y4m

# grey NAME RATE LEVEL...: a video of 16 x 16 pixels, one frame for each level.
grey() {
	name=$1 rate=$2
	shift 2
	{
		printf 'YUV4MPEG2 W16 H16 F%s:1 Ip A1:1 Cmono\n' "$rate"
		for level in "$@"; do
			printf 'FRAME\n'
			row=$(printf '\\%03o' "$level" "$level" "$level" "$level" "$level" "$level" "$level" "$level")
			i=0
			while [ $i -lt 32 ]; do
				# shellcheck disable=SC2059
				printf "$row"
				i=$((i + 1))
			done
		done
	} >"$name"
}

# 25 frames a second; frame n has the level 16 + 2 n. At 10 a second the targets show the frames 0, 2, 5, 7, 10, ...
grey ramp.y4m 25 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64
check "a video" ddm-ingest --clips 3 --fps 10 -o ramp.tar ramp.y4m
check_err "the report" '^ddm-ingest: 3 samples, 0 cuts, 1 ends of shots with less than 3 frames left out \(1 frames\)$'
check_out "its clips, by the number of the first frame" "ramp@000000.npy ramp@000007.npy ramp@000015.npy " keys ramp.tar
tar xf ramp.tar
first_bytes ramp@000000.npy 768 3 | awk '{ printf "%s ", $1 }' >first
check_grep "the frames shown at 0, .1 and .2 s" '^16 20 26 $' first
first_bytes ramp@000015.npy 768 3 | awk '{ printf "%s ", $1 }' >first
check_grep "at .6, .7 and .8" '^46 50 56 $' first
check_grep "a numpy array" "'descr': '|u1', 'fortran_order': False, 'shape': \(3, 3, 16, 16\)" ramp@000000.npy
check_out "its facts" '[3,true,"ramp.y4m",0.6,0.9,0,16,16]' fact ramp.tar ramp@000015 \
	'[.frames, .fps == 10, .source, .start, .end, .shot, .width, .height]'
check_out "numbers alone" "true" fact ramp.tar ramp@000000 'del(.source) | map(type == "number") | all'
check_out "scores" "[0,0.666667,0,0,0]" fact ramp.tar ramp@000000 '[.sharp, .black, .frozen, .motion, .moving]'
cp ramp.tar before.tar
check "again" ddm-ingest --clips 3 --fps 10 -o ramp.tar ramp.y4m
check_same "the same bytes" ramp.tar before.tar
check_exit 73 "other clips into the same file" ddm-ingest --clips 4 --fps 10 -o ramp.tar ramp.y4m
check "threads" ddm-ingest --clips 3 --fps 10 --threads 3 -o threads.tar ramp.y4m
check_same "do not matter" ramp.tar threads.tar
check "little memory" ddm-ingest --clips 3 --fps 10 --max-memory 150M -o little.tar ramp.y4m
check_same "does not matter" ramp.tar little.tar
check "a report" ddm-ingest --clips 4 --fps 10 -o four.tar ramp.y4m
check_err "of what is left out" '2 samples, 0 cuts, 1 ends of shots with less than 4 frames left out \(2 frames\)'
check "overlapping" ddm-ingest --clips 4 --stride 2 --fps 10 -o overlap.tar ramp.y4m
check_out "every second frame begins one" "ramp@000000.npy ramp@000005.npy ramp@000010.npy ramp@000015.npy " keys overlap.tar
check "with gaps" ddm-ingest --clips 2 --stride 5 --fps 10 -o apart.tar ramp.y4m
check_out "every fifth" "ramp@000000.npy ramp@000012.npy " keys apart.tar
check "faster than the video" ddm-ingest --clips 4 --fps 50 -o fast.tar ramp.y4m
check_out "each frame twice" "16 16 18 18 " sh -c 'tar xOf fast.tar ramp@000000.npy | tail -c 3072 | od -An -v -tu1 -w768 | awk "{ printf \"%s \", \$1 }"'
check_out "-n counts clips" "2" sh -c 'ddm-ingest --clips 3 --fps 10 -n 2 ramp.y4m 2>/dev/null | tar tf - | grep -c npy'
check_exit_any 65 "too long for the video" ddm-ingest --clips 30 --fps 25 -o none.tar ramp.y4m
check_err "says how long its longest shot is" 'no clip: ramp.y4m: its longest shot has 25 of the 30 frames of a clip at 25 a second'
check_absent "nothing is written" none.tar

# Shots: cuts at 8 and 17, a flash at 21. Frames 8 to 16 are shorter than a scene, but no clip crosses 17.
grey cuts.y4m 25 40 40 42 40 41 40 43 40 200 201 200 202 203 200 201 203 202 90 91 90 92 235 90 93 90 92 91 90 94 95 90 92
check "shots" ddm-ingest --clips 4 --fps 25 --duplicates -o cuts.tar cuts.y4m
check_out "no clip crosses a jump" \
	"cuts@000000.npy cuts@000004.npy cuts@000008.npy cuts@000012.npy cuts@000017.npy cuts@000022.npy cuts@000026.npy " keys cuts.tar
check_out "shots are numbered" "[3,5]" sh -c 'for k in 000017 000022; do tar xOf cuts.tar cuts@$k.json; done | jq -cs "map(.shot + 1)"'
check "another threshold" ddm-ingest --clips 4 --fps 25 --scene content:250 -o high.tar cuts.y4m
check_out "no jumps" "8" sh -c 'tar tf high.tar | grep -c npy'
check "none" ddm-ingest --clips 4 --fps 25 --scene none -o none.tar cuts.y4m
check_out "the same clips" "8" sh -c 'tar tf none.tar | grep -c npy'
check "adaptive" ddm-ingest --clips 4 --fps 25 --scene adaptive --duplicates -o adaptive.tar cuts.y4m
check_out "no clip crosses the great jumps" "" sh -c 'tar tf adaptive.tar | grep -E "@0000(0[5-7]|1[4-6])"; true'
check "standing still" ddm-ingest --clips 2 --fps 25 -o still.tar cuts.y4m
check_out "the first two frames are equal" "1" sh -c 'tar xOf still.tar cuts@000000.json | jq .frozen'

# Files beside the video.
mkdir beside
cp ramp.y4m beside/a.y4m
cp ramp.y4m beside/b.mp4
cp ramp.y4m beside/c.y4m
echo the caption >beside/a.txt
printf 7 >beside/a.cls
echo '{"place":"sea","fps":1}' >beside/a.json
printf '1\n00:00:00,000 --> 00:00:00,250\n<i>black</i>\n\n2\n00:00:00,250 --> 00:00:00,550\ngrey\n' >beside/a.srt
echo lone >beside/d.srt
check "sidecars" ddm-ingest --clips 3 --fps 10 --duplicates -o beside.tar beside
check_err "a file that belongs to none is passed over" '1 other files passed over'
check_out "subtitles of the time" "black grey" tar xOf beside.tar a@000000.txt
check_out "of the next" "grey" tar xOf beside.tar a@000007.txt
check_out "without subtitles the caption" "the caption" tar xOf beside.tar a@000015.txt
check_out "class" 7 tar xOf beside.tar a@000007.cls
check_out "facts are added" '["sea",true]' fact beside.tar a@000007 '[.place, .fps == 10]'
check_out "others have none" "" sh -c 'tar tf beside.tar | grep -E "[bc]@.*(txt|cls)"; true'
mkdir bad
cp ramp.y4m bad/a.y4m
for text in '' 'no times\n' '\0\061\0\n' '00:00:01,000 -->'; do
	# shellcheck disable=SC2059
	printf "$text" >bad/a.srt
	ddm-ingest -q --clips 3 --fps 10 -o bad.tar bad 2>"$ERR"
	RC=$?
	case $text in
	*--*) [ $RC -eq 0 ] ;; # a cue without an end is no cue
	*) [ $RC -eq 65 ] && grep -q 'bad/a.srt: no subtitles' "$ERR" ;;
	esac
	tap_result $? "subtitles without a cue ($(printf '%s' "$text" | tr -dc a-z))" "exit $RC"
	rm -f bad.tar
done
rm bad/a.srt
for json in '[1]' '{' '"x"'; do
	echo "$json" >bad/a.json
	check_exit 65 "facts $json" ddm-ingest --clips 3 --fps 10 -o bad.tar bad
	check_err "are no object" 'a.json|json beside it is not an object'
done
rm bad/a.json
yes '00:00.000 --> 00:01.000' | head -c 17000000 >bad/a.vtt
check_exit 65 "too many subtitles" ddm-ingest --clips 3 --fps 10 -o bad.tar bad
check_err "are refused" 'bad/a.vtt'

# Pictures beside videos are passed over; samples of tars are kept.
cp "$SRC/tests/golden/stills/grey.png" beside/p.png
rm beside/b.mp4 beside/c.y4m
check "pictures" ddm-ingest --clips 3 --fps 10 -o mixed.tar beside
check_err "are passed over" '1 pictures are passed over'
check "a tar of clips" ddm-ingest -o copy.tar ramp.tar
check_out "stays as it is" "$(tar xOf ramp.tar ramp@000007.npy | cksum)" sh -c 'tar xOf copy.tar ramp@000007.npy | cksum'
check "pictures with scores" ddm-ingest --scores -o scores.tar beside/p.png
check_out "in their facts" "true" sh -c 'tar xOf scores.tar beside/p.json | jq ".sharp > 0 and .exposure > 0 and .contrast > 0 and (has(\"motion\") | not)"'
check "frames with scores" ddm-ingest --scores --fps 5 -o frames.tar ramp.y4m
check_out "too" "220" sh -c 'tar xOf frames.tar ramp@000004.json | jq ".exposure * 1000 | round"'

# Graphs: one clip for each seed.
plate='lavfi@m:mandelbrot=size=48x32:rate=8:start_scale={u:0.5:3}'
check "graphs" ddm-ingest --clips 5 --fps 8 --size 16 --seeds 30 --threads 1 -o graph.tar "$plate"
check_out "a clip each" "30 m-0029@000000" sh -c 'echo $(tar tf graph.tar | grep -c npy) $(tar tf graph.tar | tail -1 | sed s/.npy//)'
check_out "its facts" '[5,true,"m-0003",true,0.625,48,32]' fact graph.tar m-0003@000000 \
	'[.frames, .fps == 8, .source, .start == 0, .end, .width, .height]'
check "threads" ddm-ingest --clips 5 --fps 8 --size 16 --seeds 30 --threads 3 -o graph3.tar "$plate"
check_same "the same" graph.tar graph3.tar
check "one seed" ddm-ingest --clips 5 --fps 8 --size 16 --seeds 1 --seed 7 -o one.tar "$plate"
check_out "the same" "$(tar xOf graph.tar m-0007@000000.npy | cksum)" sh -c 'tar xOf one.tar m-0007@000000.npy | cksum'
check "half the rate" ddm-ingest --clips 3 --fps 4 --size 16 --seed 7 -o half.tar "$plate"
tar xOf graph.tar m-0007@000000.npy | tail -c 3840 >all
tar xOf half.tar m-0007@000000.npy | tail -c 2304 >third
{ head -c 768 all; tail -c +1537 all | head -c 768; tail -c 768 all; } >every
check_same "takes every second frame" every third
check_exit_any 65 "a graph that ends early" ddm-ingest --clips 9 --fps 8 -o short.tar lavfi:color=red:size=8x8:rate=8:duration=1
check_err "is named" 'no clip: color: its longest shot has 8 of the 9 frames'
check "many frames in a clip" ddm-ingest --clips 1100 --fps 25 --size 8 -o long.tar 'lavfi@m:testsrc2=size=16x16'
check_out "in one array" "(1100, 3, 8, 8)" sh -c 'tar xOf long.tar m@000000.npy | head -c 128 | tr -d "\000" | sed -n "s/.*shape.: \(([0-9, ]*)\).*/\1/p"'

# A motion that is known: a picture of noise that scrolls by 1/16 of 64 pixels a frame, 4 pixels.
check "a moving picture" ddm-ingest --clips 6 --fps 25 --size 64 -o move.tar \
	'lavfi@n:color=size=64x64:rate=25,format=rgb24,noise=alls=100:all_seed=3,loop=-1:1,scroll=h=0.0625'
check_out "moves so" '[1,31]' fact move.tar n@000000 '[.moving, (.motion * 1000 | round)]'

# Black bars: content of 96 x 64 in a frame of 128 x 96, written as a video.
{
	printf 'YUV4MPEG2 W128 H96 F25:1 Ip A1:1 Cmono\n'
	bar=$(printf '\\010%.0s' $(seq 16))
	white=$(printf '\\310%.0s' $(seq 16))
	for frame in 1 2 3; do
		printf 'FRAME\n'
		# shellcheck disable=SC2059
		for y in $(seq 96); do
			if [ "$y" -le 16 ] || [ "$y" -gt 80 ]; then
				printf "$bar$bar$bar$bar$bar$bar$bar$bar"
			else
				printf "$bar$white$white$white$white$white$white$bar"
			fi
		done
	done
} >bars.y4m
check "bars" ddm-ingest --clips 2 --fps 25 -o bars.tar bars.y4m
check_out "are cut off" "[96,64]" fact bars.tar bars@000000 '[.width, .height]'
check "resized" ddm-ingest --clips 2 --fps 25 --size 8 -o bars8.tar bars.y4m
check_out "nothing but content" "200" sh -c 'tar xOf bars8.tar bars@000000.npy | tail -c 384 | od -An -v -tu1 -w1 | sort -un | tr -d " "'
check "or kept" ddm-ingest --clips 2 --fps 25 --crop none -o barred.tar bars.y4m
check_out "the whole frame" "[128,96]" fact barred.tar bars@000000 '[.width, .height]'
# A colour of BT.601: Y 81, U 90, V 240 is red. Resized by half or more as planes, else as RGB, it is the same.
{
	printf 'YUV4MPEG2 W32 H32 F25:1 Ip A1:1 C420\n'
	yes FRAME | head -n 4 | while read -r frame; do
		echo "$frame"
		head -c 1024 /dev/zero | tr '\0' '\121'
		head -c 256 /dev/zero | tr '\0' '\132'
		head -c 256 /dev/zero | tr '\0' '\360'
	done
} >red.y4m
for size in 8 16 17 32; do
	check "planes, size $size" ddm-ingest --clips 2 --fps 25 --size $size -o red$size.tar red.y4m
	check_out "red" "0 254 " sh -c "tar xOf red$size.tar red@000000.npy | tail -c +129 | od -An -v -tu1 -w1 | sort -un | tr -d ' ' | tr '\n' ' '"
done
# The size of the frames changes after 8 of 16.
check "a video of two sizes" ddm-ingest --clips 3 --fps 10 --scene none --duplicates -o sizes.tar "$SRC/tests/golden/clip_sizes.ts"
check_out "no clip holds both" "0,64 3,64 8,48 11,48 " sh -c \
	'tar tf sizes.tar | grep json | while read -r m; do n=${m##*@}; echo $((1${n%.json} - 1000000)),$(tar xOf sizes.tar "$m" | jq .width); done | tr "\n" " "'
check_out "the source's name is relative" "${SRC#/}/tests/golden/clip_sizes.ts" sh -c \
	'tar xOf sizes.tar "$(tar tf sizes.tar | head -1)" | jq -r .source'
check_exit 65 "more frames than memory" ddm-ingest --clips 4000 --fps 1000 --max-memory 128M -o big.tar bars.y4m
check_err "says what to do" 'bars.y4m: 4000 frames of 128x96 pixels take 140 MiB, more than 32 MiB, a quarter of --max-memory; .*--crop none'
check_stdout "clips" ddm-ingest --clips 2 --fps 50 --duplicates ramp.y4m

# A file that refers to others is none that is decoded.
printf '#EXTM3U\n#EXTINF:1,\n%s/ramp.y4m\n' "$PWD" >list.m3u8
printf 'ffconcat version 1.0\nfile %s/ramp.y4m\n' "$PWD" >list.mp4
check_exit_any 65 "a playlist" ddm-ingest --clips 2 --fps 5 -o list.tar list.m3u8
check_exit_any 65 "under the name of a video" ddm-ingest --clips 2 --fps 5 -o list.tar list.mp4
check_absent "nothing is written" list.tar

# A small file of 100,000 equal frames: one clip, in bounded memory. The pixels of a frame are 255 digits and a newline.
{
	printf 'YUV4MPEG2 W16 H16 F1000:1 Ip A1:1 Cmono\n'
	yes "$(printf 'FRAME\n%0255d' 0)" | head -n 200000
} >bomb.y4m
check "a bomb" ddm-ingest --clips 16 --fps 1000 --max-memory 128M -o bomb.tar bomb.y4m
check_err "is one clip" '^ddm-ingest: 1 samples, 6249 equal clips dropped, 0 cuts$'

# Real videos.
[ -n "$DATA" ] && [ -d "$DATA/video" ] || { skip "real videos" "no test data"; exit 0; }
real=$DATA/video
check "cuts" ddm-ingest --clips 1 --fps 25 --size 8 --duplicates -o real.tar "$real/derived/scene_cuts.mp4"
check_err "are counted" '180 samples, 5 cuts'
check_out "and where they are" "$(jq -c .cuts_first_frame_of_new_scene "$real/derived/scene_cuts.json")" sh -c \
	'tar tf real.tar | grep json | while read -r m; do n=${m##*@}; n=${n%.json}; tar xOf real.tar "$m" | jq -c "[.shot, (\"$n\" | tonumber)]"; done |
	jq -cs "[group_by(.[0])[][0][1]][1:]"'
check "frame times" ddm-ingest --clips 1 --fps 29.97002997002997 --size 8 --scene none --duplicates -o nasa.tar "$real/torchcodec/nasa_13013.mp4"
tar tf nasa.tar | grep json | while read -r m; do tar xOf nasa.tar "$m"; done | jq -s '[.[].start]' >ours
jq '[.[].pts_time | tonumber]' "$real/torchcodec/nasa_13013.mp4.stream3.all_frames_info.json" >theirs
check_out "as torchcodec has them" "true" jq -n --slurpfile a ours --slurpfile b theirs \
	'($a[0] | length) == ($b[0] | length) and ([$a[0], $b[0]] | transpose | map((.[0] - .[1]) * 1e6 | fabs <= 2) | all)'
check_exit 65 "a truncated video" ddm-ingest --clips 4 --fps 25 --size 8 -o cut.tar "$real/derived/truncated_60pct_faststart.mp4"
check_absent "nothing is written" cut.tar
check "with --skip-bad" ddm-ingest --skip-bad --clips 4 --fps 25 --size 8 -o cut.tar "$real/derived/truncated_60pct_faststart.mp4"
check_out "the clips before the damage are kept" "true" sh -c 'n=$(tar tf cut.tar | grep -c npy); [ "$n" -ge 3 ] && [ "$n" -le 5 ] && echo true'
for bad in audio_only garbage_4k text_named truncated_60pct zero_bytes; do
	check_exit_any 65 "$bad" ddm-ingest --clips 4 --fps 25 --size 8 -o bad.tar "$real/derived/$bad.mp4"
	check_err "is named" "$bad.mp4: "
done
check_absent "nothing is written" bad.tar
check "rotated" ddm-ingest --clips 4 --fps 5 --size 16 -o rotated.tar "$real/derived/bunny_hevc_rotate90.mp4"
check_out "it stands upright" "true" sh -c 'tar xOf rotated.tar $(tar tf rotated.tar | grep json | head -1) | jq ".height > .width"'
