# ddm-encode on clips: latents by autoencoders for pictures and for clips, and back; what does not change them; bounded memory; refusals.
. "$(dirname "$0")/tap.sh"

vae=$SRC/tests/golden/autokl tiny=$SRC/tests/golden/autotiny taehv=$SRC/tests/golden/taehv wan=$SRC/tests/golden/wanvae
seq 1 99999 | tr '0-9\n' '\000\030\070\120\150\200\230\270\320\350\377' >bytes

# array TYPE SHAPE ORDER: a .npy whose elements follow on stdin
array() {
	printf '\223NUMPY\001\000v\000'
	printf '%-117s\n' "{'descr': '$1', 'fortran_order': ${3:-False}, 'shape': ($2), }"
	cat
}
# clip KEY FRAMES CHANNELS HEIGHT WIDTH
clip() { head -c $(($2 * $3 * $4 * $5)) bytes | array '|u1' "$2, $3, $4, $5" >"$1.npy"; }
body() { tail -c +129 "$1"; }
members() { tar tf "$1" | sed 's/^[^.]*\.//' | sort | uniq -c | awk '{ printf "%s%s %s", s, $2, $1; s = ", " } END { print "" }'; }
# unpack TAR DIR
unpack() { rm -rf "$2" && mkdir "$2" && tar xf "$1" -C "$2"; }
# prefix FILE FILE: the elements of the first are the first ones of the second
prefix() { body "$1" >short && body "$2" | head -c "$(size_of short)" | cmp -s - short; }

mkdir clips
clip clips/a@000000 13 3 32 48
clip clips/a@000013 4 3 32 48
clip clips/b@000000 1 3 32 48
clip clips/c@000000 3 1 32 32
for k in a@000000 a@000013 b@000000 c@000000; do
	echo "a clip" >clips/$k.txt
	echo '{"frames": 13, "fps": 12.5, "motion": 0.25}' >clips/$k.json
done

# Frame by frame
check "an autoencoder for pictures" ddm-encode -m "$tiny" -o tiny.tar clips
check_err "report" '^4 samples$'
check_out "members" "json 4, npy 4, txt 4" members tiny.tar
unpack tiny.tar t
check_grep "a latent for each frame" "'<f2'.*\\(13, 5, 8, 12\\)" t/a@000000.npy
check_grep "of one frame" "\\(1, 5, 8, 12\\)" t/b@000000.npy
check_grep "of grey" "\\(3, 5, 8, 8\\)" t/c@000000.npy
check_same "the facts stay" clips/a@000000.json t/a@000000.json
check "the first frames of a clip have the same latents" prefix t/a@000013.npy t/a@000000.npy
check "so has one" prefix t/b@000000.npy t/a@000000.npy
check "back" ddm-encode -m "$tiny" -d -o seen.tar tiny.tar
check_out "clips, and a picture of one frame" "json 4, npy 3, png 1, txt 4" members seen.tar
unpack seen.tar s
check_grep "bytes" "'\\|u1'.*\\(13, 3, 32, 48\\)" s/a@000000.npy
check "the first frames are the same" prefix s/a@000013.npy s/a@000000.npy
check "a distribution" ddm-encode -q -m "$vae" --flip --dtype f32 -o kl.tar clips
check_out "members" "flip.npy 4, flip.std.npy 4, json 4, npy 4, std.npy 4, txt 4" members kl.tar
unpack kl.tar k
check_grep "of all frames" "'<f4'.*\\(13, 3, 8, 12\\)" k/a@000000.flip.std.npy
check_differ "a mirrored clip is another" k/a@000000.npy k/a@000000.flip.npy
check "a draw" ddm-encode -q -m "$vae" --posterior sample --seed 3 -o draw.tar clips
check_out "members" "json 4, npy 4, txt 4" members draw.tar
check "clips and pictures together" sh -c "cp -R clips both && tar xzf '$SRC/tests/golden/eval-a.tar.gz' -C both && ddm-encode -q -m '$tiny' -o both.tar both"
unpack both.tar m
check_same "the same latents" m/a@000000.npy t/a@000000.npy
check_grep "of three dimensions" '\(5, [0-9]+, [0-9]+\)' m/0001.npy

# TAEHV
check "an autoencoder for clips" ddm-encode -m "$taehv" -o l.tar clips
check_out "members" "json 4, npy 4, txt 4" members l.tar
unpack l.tar l
check_grep "4 k + 1 frames" "'<f2'.*\\(4, 5, 2, 3\\)" l/a@000000.npy
check_grep "four frames" '\(1, 5, 2, 3\)' l/a@000013.npy
check_grep "one frame" '\(1, 5, 2, 3\)' l/b@000000.npy
check "latents of the past do not depend on the future" prefix l/a@000013.npy l/a@000000.npy
for t in 1 3; do
	check "$t threads" ddm-encode -q -m "$taehv" --threads $t --batch $t -o t$t.tar clips
	check_same "the same bytes" l.tar t$t.tar
done
check "again" ddm-encode -m "$taehv" -o l.tar clips
check_err "told" 'l.tar: exists already'
check_exit 73 "another encoder" ddm-encode -m "$tiny" -o l.tar clips
check_err "named" 'inputs.vae'
check "back" ddm-encode -m "$taehv" -d -o d.tar l.tar
check_out "members" "json 4, npy 4, txt 4" members d.tar
unpack d.tar d
check_grep "its frames" "'\\|u1'.*\\(13, 3, 32, 48\\)" d/a@000000.npy
check_grep "of one" '\(1, 3, 32, 48\)' d/b@000000.npy
check "from stdin" sh -c "ddm-encode -q -m '$taehv' -d - <l.tar >piped.tar"
unpack piped.tar p
check "the same clips" diff -r d p
check "mirrored, too" ddm-encode -q -m "$taehv" --flip -o flip.tar clips
check_out "members" "flip.npy 4, json 4, npy 4, txt 4" members flip.tar
check "by its file" ddm-encode -q -m "$taehv/taew2_2.safetensors" -o file.tar clips
check_same "the same bytes" l.tar file.tar
mkdir -p model/vae two
cp "$taehv/taew2_2.safetensors" model/vae
check "in a model" ddm-encode -q -m model -o model.tar clips
check_same "the same bytes" l.tar model.tar
cp "$taehv/taew2_2.safetensors" taecvx.safetensors
cp "$taehv/taew2_2.safetensors" taeh3.safetensors
check "CogVideoX's: an even number of latent frames gives four for each" ddm-encode -q -m taecvx.safetensors -d -o cvx.tar l.tar
unpack cvx.tar x
check_grep "sixteen" '\(16, 3, 32, 48\)' x/a@000000.npy
check "H3's: 17 frames make 5 frames of latents, without the last 3" ddm-encode -q -m taeh3.safetensors -o h3.tar clips
unpack h3.tar x
check_grep "two" '\(2, 5, 2, 3\)' x/a@000000.npy
check "back" ddm-encode -q -m taeh3.safetensors -d -o h3d.tar h3.tar
unpack h3d.tar x
check_grep "five" '\(5, 3, 32, 48\)' x/a@000000.npy
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
check "pictures are clips of one frame" ddm-encode -q -m "$taehv" --size 32 -o pics.tar pics
unpack pics.tar x
check_grep "without that dimension" '\(5, 2, 2\)' x/0001.npy
check "back" ddm-encode -q -m "$taehv" -d -o pngs.tar pics.tar
check_out "pictures" "png $(ls pics/*.png | wc -l)" members pngs.tar
check_exit_any 2 "but not to H3's" ddm-encode -m taeh3.safetensors -o x.tar pics
check_err "told" '2 frames of latents of a picture'

# Wan 2.1
check "its autoencoder" ddm-encode -q -m "$wan" --dtype f32 -o wan.tar clips
check_out "members" "json 4, npy 4, std.npy 4, txt 4" members wan.tar
unpack wan.tar w
check_grep "4 k + 1 frames" "'<f4'.*\\(4, 3, 4, 6\\)" w/a@000000.npy
check_grep "and their deviation" "'<f4'.*\\(4, 3, 4, 6\\)" w/a@000000.std.npy
check_grep "of four frames the last three are not coded" '\(1, 3, 4, 6\)' w/a@000013.npy
check "the first frame is coded alone" prefix w/b@000000.npy w/a@000000.npy
check "three threads" ddm-encode -q -m "$wan" --dtype f32 --threads 3 --batch 2 -o wan3.tar clips
check_same "the same bytes" wan.tar wan3.tar
check "back" ddm-encode -q -m "$wan" -d -o wand.tar wan.tar
unpack wand.tar x
check_grep "its frames" "'\\|u1'.*\\(13, 3, 32, 48\\)" x/a@000000.npy
check_grep "the first of four" '\(1, 3, 32, 48\)' x/a@000013.npy
check "mirrored draws" ddm-encode -q -m "$wan" --flip --posterior sample --seed 1 -o wanf.tar clips
check_out "members" "flip.npy 4, json 4, npy 4, txt 4" members wanf.tar
check "small frames need no tiles" ddm-encode -q -m "$wan" --dtype f32 --tile -o tile.tar clips
unpack tile.tar x
check "the same latents" diff -r w x
mkdir large
clip large/x 5 3 272 16
check "large frames" ddm-encode -q -m "$wan" --dtype f32 -o large.tar large
check "in tiles" ddm-encode -q -m "$wan" --dtype f32 --tile -o tiles.tar large
check_exit 73 "are other latents" ddm-encode -q -m "$wan" --dtype f32 -o tiles.tar large
check_err "told" 'tile: 1 -> \(none\)'
check "back in tiles" ddm-encode -q -m "$wan" -d --tile -o tilesd.tar tiles.tar
unpack tilesd.tar x
check_grep "all of it" '\(5, 3, 272, 16\)' x/x.npy
check_exit 2 "tiles of texts" ddm-encode -m "$SRC/tests/golden/pretrained/text-clip" --tile -o x.tar clips
check_err "told" '--tile is for an autoencoder'
mkdir wan22
cp "$wan/diffusion_pytorch_model.safetensors" wan22
sed 's/"is_residual": false/"is_residual": true/' "$wan/config.json" >wan22/config.json
check_exit 65 "that of Wan 2.2" ddm-encode -m wan22 -o x.tar clips
check_err "told" '"is_residual" is set, as in the autoencoder of Wan 2.2'
sed 's/"base_dim": 4/"base_dim": 8/' "$wan/config.json" >wan22/config.json
check_exit 65 "weights of other sizes" ddm-encode -m wan22 -o x.tar clips
check_err "named" 'encoder.conv_in.weight'

# Sizes
mkdir odd
clip odd/o 2 3 50 37
check "cropped to multiples of the factor" ddm-encode -q -m "$taehv" -o odd.tar odd
unpack odd.tar x
check_grep "48 x 32" '\(1, 5, 3, 2\)' x/o.npy
check "the centre square" ddm-encode -q -m "$taehv" --size 16 -o square.tar odd
unpack square.tar x
check_grep "16 x 16" '\(1, 5, 1, 1\)' x/o.npy

# Shards, ranks
mkdir keys
i=0
for f in clips/*.npy; do
	i=$((i + 1))
	cp pics/000$i.png "keys/$(basename "$f" .npy).png"
done
ddm-cluster -q -k 2 -o table.tsv keys || exit 1
check "shards of latents" ddm-shard -q -a table.tsv --vae "$taehv" -o shards clips
check "decode to the same clips" sh -c "ddm-encode -q -m '$taehv' -d -o sd.tar shards"
unpack sd.tar x
check "byte for byte" diff -r d x
if has_mpi; then
	check "two ranks" ddm-encode -q --threads 1 --ranks 2 -m "$taehv" -o r.tar clips
	check_same "the same bytes" l.tar r.tar
	check "two ranks decode" ddm-encode -q --threads 1 --ranks 2 -m "$taehv" -d -o rd.tar l.tar
	check_same "the same bytes" d.tar rd.tar
else
	skip "two ranks" "no MPI here"
fi

# Memory: the clip takes 37 MB, its latents 1 MB. All its frames as floats would take 147 MB, and the network's first layer as much again.
mkdir long
for i in 1 2 3 4; do cat bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes bytes; done >long/data
head -c 36864000 long/data | array '|u1' '3000, 3, 64, 64' >long/v.npy
rm long/data
if ldd "$B/ddm-encode" | grep -Eq 'libasan|libtsan|libcuda'; then
	skip "a long clip in little memory" "a sanitizer or CUDA maps more"
else
	check "a long clip in little memory" sh -c "ulimit -v 250000; exec ddm-encode -q --threads 1 -m '$taehv' -o long.tar long"
	check "and back" sh -c "ulimit -v 250000; exec ddm-encode -q --threads 1 -m '$taehv' -d -o longd.tar long.tar"
	unpack longd.tar x
	check_grep "all frames" '\(2997, 3, 64, 64\)' x/v.npy
fi
rm -rf long long.tar longd.tar

# Refusals
# refused NAME REGEX: the only clip in bad/ is
refused() {
	check_exit 65 "$1" ddm-encode -m "$taehv" -o x.tar bad
	check_err "told" "$2"
	check_absent "nothing made" x.tar
}
mkdir bad
clip bad/x 4 2 32 32
refused "two channels" 'bytes of shape \(4, 2, 32, 32\); a clip has \(frames, channels, height, width\), with 1 or 3 channels'
head -c 12288 bytes | array '|u1' '4, 3, 32, 32' True >bad/x.npy
refused "column-major" 'in column-major order'
array '|u1' '0, 3, 32, 32' </dev/null >bad/x.npy
refused "no frames" 'shape \(0, 3, 32, 32\)'
clip bad/x 4 3 8 8
refused "too small" '"x" is 8 x 8: too small'
clip bad/x 4 3 32 32
cut_to bad/x.npy 5000
refused "cut off" 'x'
head -c 36864 bytes | array '<f4' '3, 3, 32, 32' >bad/x.npy
refused "floats are no pixels, and there is no picture" 'bad/x.npy has no picture'
clip bad/x 4 3 32 32
check_exit 65 "pixels are no latents" ddm-encode -m "$taehv" -d -o x.tar bad
check_err "told" '"x" is not a latent \(5, H, W\), nor one of a clip \(F, 5, H, W\)'
head -c 1280 /dev/zero | array '<f2' '2, 5, 8, 8' >bad/x.npy
check "zeros are" ddm-encode -q -m "$taehv" -d -o zero.tar bad
head -c 1280 /dev/zero | array '<f2' '2, 4, 8, 10' >bad/x.npy
check_exit 65 "other channels" ddm-encode -m "$taehv" -d -o x.tar bad
head -c 1280 /dev/zero | tr '\0' '\377' | array '<f2' '2, 5, 8, 8' >bad/x.npy
check_exit 65 "a NaN" ddm-encode -m "$taehv" -d -o x.tar bad
check_err "told" 'contains a NaN'
clip bad/x 4 2 32 32
clip bad/y 4 3 32 32
check "passed over" ddm-encode -m "$taehv" --skip-bad -o skip.tar bad
check_err "counted" '1 samples skipped'
check_out "the other one" "y.npy" tar tf skip.tar
cp taecvx.safetensors taeh3.safetensors two
check_exit 2 "a folder of several" ddm-encode -m two -o x.tar clips
check_err "told" 'holds the autoencoders two/taecvx.safetensors and two/taeh3.safetensors.*name one'
cut_to taecvx.safetensors 3000
check_exit_any 65 "a damaged file" ddm-encode -m taecvx.safetensors -o x.tar clips

tap_end
