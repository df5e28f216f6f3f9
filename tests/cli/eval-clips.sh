# ddm-eval-fid on clips: content and movement are told apart, null tests, refusals of what is no clip or not alike.
. "$(dirname "$0")/tap.sh"

# clips NAME FIRST [HOW]: NAME.tar with 60 grey clips of 6 frames of 16 x 16 from number FIRST on. Three waves glide to the right, at a speed that
# differs between the clips. HOW: shuffled, reversed, frozen: the same clips with other orders of frames; fast: at twice the speed; cold: darker;
# short: of 5 frames; wide: of 16 x 20; still: nothing moves.
clips() {
	mkdir "$1.clips"
	awk -v first="$2" -v how="${3:-}" -v dir="$1.clips" 'BEGIN {
		frames = how == "short" ? 5 : 6; width = how == "wide" ? 20 : 16
		head = sprintf("{\047descr\047: \047|u1\047, \047fortran_order\047: False, \047shape\047: (%d, 1, 16, %d), }", frames, width)
		split(how == "shuffled" ? "3 0 5 1 4 2" : how == "reversed" ? "5 4 3 2 1 0" : "0 1 2 3 4 5", at, " ")
		for (c = first; c < first + 60; c++) {
			srand(c)
			speed = (.4 + .6 * rand()) * (how == "fast" ? 2 : how == "still" ? 0 : 1)
			for (k = 0; k < 12; k++) u[k] = rand()
			one = int(6 * rand())
			file = sprintf("%s/clip%04d@000000.npy", dir, c)
			printf "\223NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, head >file
			for (t = 1; t <= frames; t++) {
				now = how == "frozen" ? one : at[t]
				for (y = 0; y < 16; y++)
					for (x = 0; x < width; x++) {
						v = how == "cold" ? 90 : 128
						for (k = 0; k < 3; k++)
							v += 25 * sin((.3 + .5 * u[4 * k]) * (x - speed * now) + (u[4 * k + 1] - .5) * y + 6.3 * u[4 * k + 2])
						printf "%c", int(v < 1 ? 1 : v > 254 ? 254 : v) >file
					}
			}
			close(file)
			print "{\"frames\":" frames ",\"fps\":8}" >(substr(file, 1, length(file) - 3) "json")
			close(substr(file, 1, length(file) - 3) "json")
		}
	}' && (cd "$1.clips" && tar cf "../$1.tar" --format=ustar --sort=name -- *)
}

# number KEY FILE
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\)[,}].*/\1/p" "$2"; }

# holds NAME CONDITION VALUE...: the awk condition over v[1], v[2] ...
holds() {
	holds_name=$1 holds_what=$2
	shift 2
	awk -v all="$*" "BEGIN { split(all, v, \" \"); exit !($holds_what) }"
	tap_result $? "$holds_name" "$holds_what: $*"
}

clips a 0
clips b 100
for how in shuffled reversed frozen fast cold; do
	clips $how 100 $how
done
check "clips" ddm-eval-fid -o plain.json a.tar b.tar
check_grep "content and motion without --metrics" '"content-pix":.*"motion-flow":' plain.json
check_grep "the recipe has the frames and the definition of motion" '"frames":6,"fps":8.0,"frames-drawn":4,"motion-hash":"[0-9a-f]{64}"' plain.json
[ ! -s "$ERR" ]
tap_result $? "the null test passed"
for what in content-pix motion-flow; do
	holds "$what: nothing beyond 4 standard errors between clips of one kind" "v[1] < 4 * v[2] && v[1] > -4 * v[2] && v[2] > 0" \
		"$(number $what plain.json)" "$(number $what-se plain.json)"
	[ -n "$(number $what-floor plain.json)" ] && [ -n "$(number $what-floor-se plain.json)" ]
	tap_result $? "$what: a floor"
done

# The null tests of the reference.
for how in shuffled reversed; do
	[ "$(number content-pix-$how plain.json)" = 0.0 ] && [ "$(number content-pix-$how-se plain.json)" = 0.0 ]
	tap_result $? "null test: $how frames leave content as it is, to the bit"
done
holds "null test: frozen frames leave content within 4 standard errors" "v[1] < 4 * v[2] && v[1] > -4 * v[2] && v[2] > 0" \
	"$(number content-pix-frozen plain.json)" "$(number content-pix-frozen-se plain.json)"
for how in shuffled reversed frozen slow; do
	holds "null test: $how frames move motion" "v[1] > 3 * v[2] && v[2] > 0 && v[3] <= .005" "$(number motion-flow-$how plain.json)" \
		"$(number motion-flow-$how-se plain.json)" "$(number motion-flow-$how-p plain.json)"
done
holds "null test: half of the reference is altered" "v[1] == 30" "$(number null-clips plain.json)"

# The same on clips that really are altered.
for how in shuffled reversed frozen fast cold; do
	check "$how clips" ddm-eval-fid -o $how.json a.tar $how.tar
done
for how in shuffled reversed; do
	[ "$(number content-pix $how.json)" = "$(number content-pix plain.json)" ]
	tap_result $? "$how clips: the same content, to the bit" "$(number content-pix $how.json), not $(number content-pix plain.json)"
done
for how in shuffled reversed frozen fast; do
	holds "$how clips: another motion" "v[1] - 4 * v[2] > v[3]" "$(number motion-flow $how.json)" "$(number motion-flow-se $how.json)" \
		"$(number motion-flow plain.json)"
	holds "$how clips: content within 4 standard errors" "v[1] < 4 * v[2]" "$(number content-pix $how.json)" "$(number content-pix-se $how.json)"
done
holds "other pictures that move alike: another content" "v[1] > 4 * v[2]" "$(number content-pix cold.json)" "$(number content-pix-se cold.json)"
holds "other pictures that move alike: the same motion" "v[1] < 4 * v[2]" "$(number motion-flow cold.json)" "$(number motion-flow-se cold.json)"

# Flicker is VBench's score: 1 of frozen clips; less of faster ones.
check "flicker" ddm-eval-fid --metrics flicker -o flicker.json frozen.tar fast.tar
check "flicker of slower clips" ddm-eval-fid --metrics flicker -o slower.json frozen.tar b.tar
[ "$(number flicker-reference flicker.json)" = 1.0 ]
tap_result $? "flicker: 1 of frozen clips"
holds "flicker: less of faster clips" "v[1] < v[2] && v[2] < 1 && v[1] > .5" "$(number flicker flicker.json)" "$(number flicker slower.json)"
[ -z "$(number motion-flow flicker.json)$(number null-clips flicker.json)" ]
tap_result $? "flicker alone: nothing else"

# The warping error is that beside movement: none of frozen clips, little of gliding ones, more of shuffled ones.
check "warp" ddm-eval-fid --metrics warp -o warp.json frozen.tar b.tar
check "warp of shuffled clips" ddm-eval-fid --metrics warp -o disorder.json a.tar shuffled.tar
holds "warp: 0 of frozen clips, then gliding, then shuffled ones" "v[1] == 0 && v[2] > 0 && 4 * v[2] < v[3]" \
	"$(number warp-error-reference warp.json)" "$(number warp-error warp.json)" "$(number warp-error disorder.json)"

# Copies of training clips; a clip whose frames are in another order is none.
check "memorised" ddm-eval-fid --metrics memorised --heldout cold.tar -o memorised.json a.tar a.clips
holds "memorised: copies, and the held-out set for comparison" "v[1] == 1 && v[2] == 0 && v[3] == 60" "$(number memorised memorised.json)" \
	"$(number memorised-floor memorised.json)" "$(number memorised-of memorised.json)"
check "memorised with --train" ddm-eval-fid --metrics motion,memorised --train b.tar -o memorised-2.json a.tar reversed.tar
holds "memorised: reversed clips are no copies" "v[1] < .1" "$(number memorised memorised-2.json)"

# FVD, with random weights: unit/test_i3d and tests/peers/peer_fvd.py check its numbers. Weights and recipe are on record.
check_exit 2 "fvd without weights" ddm-eval-fid --metrics fvd -o no.json a.tar b.tar
check_err "the option is named" 'fvd needs --i3d'
check_exit 2 "weights that nothing uses" ddm-eval-fid --i3d nowhere -o no.json a.tar b.tar
check_exit 66 "weights that are not there" ddm-eval-fid --metrics fvd --i3d nowhere -o no.json a.tar b.tar
check_exit 65 "weights of another network" ddm-eval-fid --metrics fvd --i3d "$SRC/tests/golden/small.safetensors" -o no.json a.tar b.tar
check_err "what is missing is named" 'small.safetensors is no I3D.*Conv3d_1a_7x7'
if python=$(numpy_python); then
	"$python" - <<-'END'
		import json, os, struct, numpy as np
		shapes = {}
		def conv(name, c, o, k):
		    shapes[name + ".conv3d.weight"] = (o, c, k, k, k)
		    for part in ("weight", "bias", "running_mean", "running_var"):
		        shapes[name + ".bn." + part] = (o,)
		def mixed(name, c, o):
		    for part, a, b, k in (("b0", c, o[0], 1), ("b1a", c, o[1], 1), ("b1b", o[1], o[2], 3), ("b2a", c, o[3], 1), ("b2b", o[3], o[4], 3),
		                          ("b3b", c, o[5], 1)):
		        conv("Mixed_%s.%s" % (name, part), a, b, k)
		    return o[0] + o[2] + o[4] + o[5]
		conv("Conv3d_1a_7x7", 3, 64, 7), conv("Conv3d_2b_1x1", 64, 64, 1), conv("Conv3d_2c_3x3", 64, 192, 3)
		c = 192
		for name, o in (("3b", (64, 96, 128, 16, 32, 32)), ("3c", (128, 128, 192, 32, 96, 64)), ("4b", (192, 96, 208, 16, 48, 64)),
		                ("4c", (160, 112, 224, 24, 64, 64)), ("4d", (128, 128, 256, 24, 64, 64)), ("4e", (112, 144, 288, 32, 64, 64)),
		                ("4f", (256, 160, 320, 32, 128, 128)), ("5b", (256, 160, 320, 32, 128, 128)), ("5c", (384, 192, 384, 48, 128, 128))):
		    c = mixed(name, c, o)
		shapes["logits.conv3d.weight"], shapes["logits.conv3d.bias"] = (400, 1024, 1, 1, 1), (400,)
		for seed in (1, 2):
		    rng, head, data, at = np.random.default_rng(seed), {}, [], 0
		    for name in sorted(shapes):
		        s = shapes[name]
		        v = rng.normal(size=s) * (2 / np.prod(s[1:])) ** .5 if len(s) > 1 else rng.uniform(.5, 1, size=s)
		        data.append(v.astype("<f4").tobytes())
		        head[name] = {"dtype": "F32", "shape": s, "data_offsets": [at, at + len(data[-1])]}
		        at += len(data[-1])
		    text = json.dumps(head).encode()
		    text += b" " * (-len(text) % 8)
		    open("i3d-%d.safetensors" % seed, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data))
		rng = np.random.default_rng(3)
		for d in ("p", "q"):
		    os.mkdir(d)
		    for i in range(2):
		        np.save("%s/c%d@000000.npy" % (d, i), rng.integers(0, 256 if d == "p" else 200, size=(16, 1, 16, 16)).astype(np.uint8))
	END
	for seed in 1 2; do
		check "fvd, weights $seed" ddm-eval-fid --metrics fvd --i3d i3d-$seed.safetensors -o fvd-$seed.json p q
	done
	check_err "few clips: a warning" 'fvd: 2 clips are no more than the 400 dimensions'
	holds "fvd: two numbers" "v[1] > 0 && v[2] > 0 && v[1] != v[2]" "$(number fvd-i3d fvd-1.json)" "$(number fvd-i3d fvd-2.json)"
	check_grep "the recipe is on record" '"fvd":"cd-fvd: the first 16 frames.*"i3d-hash":"[0-9a-f]{64}"' fvd-1.json
	check_exit 65 "numbers of other weights are not compared" ddm-compare --tsv -k fvd-i3d a=fvd-1.json b=fvd-2.json
	check_err "and why" 'different recipes .i3d-hash.$'
	check "a set and itself" ddm-eval-fid --metrics fvd --i3d i3d-1.safetensors -o fvd-3.json p p
	holds "a set and itself: nothing beside rounding" "v[1] < 1e-6 * v[2]" "$(number fvd-i3d fvd-3.json)" "$(number fvd-i3d fvd-1.json)"
	check_exit 65 "clips of 6 frames for fvd" ddm-eval-fid --metrics fvd --i3d i3d-1.safetensors -o no.json a.tar b.tar
	check_err "how many it takes" 'has 6 frames; fvd is defined on 16'
else
	skip "fvd" "no numpy"
fi

# How clips fit their captions. With rgb8 a frame whose left half is white and whose right half is black has the features 1 and -1; so have the
# captions. Frames of a white and a black half one above the other are orthogonal to them: 6 of 6 frames fit, and 3 of 6, in reading order.
mkdir aligned
awk 'BEGIN {
	for (c = 0; c < 2; c++) {
		file = sprintf("aligned/c%d@000000.npy", c)
		printf "\223NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, "{\047descr\047: \047|u1\047, \047fortran_order\047: False, \047shape\047: (6, 1, 16, 16), }" >file
		for (t = 0; t < 6; t++)
			for (y = 0; y < 16; y++)
				for (x = 0; x < 16; x++)
					printf "%c", (c && t % 2 ? y : x) < 8 ? 255 : 0 >file
		close(file)
	}
	file = "captions.npy"
	printf "\223NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, "{\047descr\047: \047<f4\047, \047fortran_order\047: False, \047shape\047: (2, 192), }" >file
	for (i = 0; i < 2 * 192; i++)
		printf "%c%c%c%c", 0, 0, 128, int(i / 3) % 8 < 4 ? 63 : 191 >file
}'
check "captions" ddm-eval-fid --features rgb8 --metrics clip --captions captions.npy -o clip.json a.tar aligned
holds "all frames fit, and half of them: 100 and 50" "v[1] > 74.9999 && v[1] < 75.0001 && v[2] > 24.9999 && v[2] < 25.0001" \
	"$(number clip-score-rgb8 clip.json)" "$(number clip-score-rgb8-se clip.json)"
check_grep "the recipe says how frames count" '"clip-score":"100 times the mean of the cosines of all frames, at least 0"' clip.json
check "beside other metrics" ddm-eval-fid --features rgb8 --metrics flicker,clip --captions captions.npy -o more.json a.tar aligned
holds "the same" "v[1] == v[2]" "$(number clip-score-rgb8 more.json)" "$(number clip-score-rgb8 clip.json)"
check "the same clips in another size" ddm-eval-fid --features rgb8 --size 24 --metrics clip --captions captions.npy -o large.json a.tar aligned
check_exit 65 "numbers of other recipes are not compared" ddm-compare --tsv -k clip-score-rgb8 a=clip.json b=large.json
check_exit 65 "captions of other clips" ddm-eval-fid --features rgb8 --metrics clip --captions captions.npy -o no.json a.tar b.tar
check_err "their numbers" '2 captions for 60 samples'
check_exit 65 "captions of other features" ddm-eval-fid --metrics clip --captions captions.npy -o no.json a.tar aligned
check_exit 2 "no captions" ddm-eval-fid --features rgb8 --metrics clip -o no.json a.tar aligned
check_err "what gives them" 'clip of clips needs --features clip:PATH, or --captions'

# Neither container nor threads matter; a repeated command does nothing.
for t in 1 3; do
	check "--threads $t" ddm-eval-fid --threads $t -o threads.json a.tar b.clips
	check_same "--threads $t: the same line" plain.json threads.json
	touch -d 2001-01-01 threads.json
done
[ -z "$(find threads.json -newermt 2002-01-01)" ] || check "again" ddm-eval-fid -o threads.json a.tar b.tar
ddm-eval-fid --metrics content,motion - b.tar <a.tar >stdin.json 2>/dev/null
holds "from standard input: the same numbers" "v[1] == v[2]" "$(number motion-flow stdin.json)" "$(number motion-flow plain.json)"
check "--heldout" ddm-eval-fid --heldout b.tar -o held.json a.tar reversed.tar
for key in content-pix motion-flow; do
	[ -n "$(number $key-heldout held.json)" ] && [ "$(number $key-heldout-floor held.json)" = "$(number $key plain.json)" ]
	tap_result $? "--heldout: $key, and its floor"
done
check "--size and rgb8" ddm-eval-fid --features rgb8 --size 24 -o size.json a.tar b.tar
check_grep "--size: on record" '"width":24,"height":24,.*"resize":"centre square, bicubic"' size.json

# ddm-compare takes the keys, and refuses other recipes.
check_exit 65 "other recipes are not compared" ddm-compare -k motion-flow a=plain.json b=size.json
check_err "both files are named" 'plain.json.*size.json.*different recipes .features, .*width.*resize'
check "the same recipe is compared" ddm-compare --tsv -k motion-flow,content-pix plain=plain.json fast=fast.json
check_grep "by both keys" 'motion-flow' "$OUT"

# A number that its null test does not support is withheld.
clips still 0 still
check "clips in which nothing moves" ddm-eval-fid -o still.json still.tar b.tar
check_err "motion is withheld, in words" 'motion-flow is withheld: its null test failed. Shuffled frames of 30 clips change it by 0'
[ -z "$(number motion-flow still.json)" ] && [ -n "$(number motion-flow-frozen still.json)" ] && [ -n "$(number content-pix still.json)" ]
tap_result $? "content stays, and so do the numbers of the null test"
check_exit 65 "what is withheld is not compared" ddm-compare --tsv -k motion-flow a=still.json b=plain.json
check "--no-null-test" ddm-eval-fid --no-null-test -o anyway.json still.tar b.tar
[ -n "$(number motion-flow anyway.json)" ] && [ -z "$(number null-clips anyway.json)" ]
tap_result $? "--no-null-test: motion without a test"
check_grep "--no-null-test: on record" '"null-test":0' anyway.json
mkdir few && cp a.clips/clip000[0-4]* few
check "five clips" ddm-eval-fid -o few.json few b.tar
check_err "are too few for a null test" 'withheld: its null test needs at least 16 clips in the reference, not 5'
mkdir two && cp a.clips/clip000[01]* two
check_exit 2 "two clips" ddm-eval-fid --no-null-test -o no.json two b.tar

# Refusals.
clips short 0 short
clips wide 0 wide
G=$SRC/tests/golden
check_exit 65 "pictures for motion" ddm-eval-fid --metrics motion -o no.json "$G/eval-a.tar.gz" b.tar
check_err "what they are and what is needed" '0000 is a picture; metrics of clips need clips'
check_exit 65 "pictures as samples" ddm-eval-fid -o no.json a.tar "$G/eval-b.tar.gz"
check_exit 2 "clips for kd" ddm-eval-fid --metrics kd -o no.json a.tar b.tar
check_err "the metrics of clips are named" 'a.tar holds clips; --metrics kd is of pictures. Give content, motion'
check_exit 2 "both kinds of metrics" ddm-eval-fid --metrics motion,kd -o no.json a.tar b.tar
check_exit 65 "clips of unlike lengths" ddm-eval-fid -o no.json a.tar short.tar
check_err "both lengths" 'a.tar has clips of 6 frames, short.tar of 5'
check_exit 65 "clips of unlike sizes" ddm-eval-fid -o no.json a.tar wide.tar
check_err "both sizes" '16 x 16.*20 x 16.*--size'
cp a.clips/clip0003@000000.npy short.clips/clip0009@000000.npy
check_exit 65 "unlike lengths in one set" ddm-eval-fid -o no.json short.clips b.tar
check_err "the clip is named" '"clip0009@000000" has 6 frames among clips of 5'
cp -R a.clips bad && cut_to bad/clip0002@000000.npy 900
check_exit 65 "a cut clip" ddm-eval-fid -o no.json bad b.tar
check_err "it is named" 'clip0002@000000'
check "--skip-bad" ddm-eval-fid --skip-bad -o skip.json bad b.tar
holds "--skip-bad: counted" "v[1] == 1 && v[2] == 59" "$(number skipped-reference skip.json)" "$(number n-reference skip.json)"
check_exit_any 3 "--max-errors 0" ddm-eval-fid --skip-bad --max-errors 0 -o no.json bad b.tar
# array NAME SHAPE TYPE: a clip of zeros
array() {
	printf '\223NUMPY\001\000\166\000' >"$1"
	printf '%-117s\n' "{'descr': '$3', 'fortran_order': False, 'shape': ($2), }" >>"$1"
	head -c "$4" /dev/zero >>"$1"
}
mkdir odd
for odd in '8, 4, 8, 8;<f2;4096;type <f2, such as latents' '6, 16, 16;|u1;1536;3 dimensions' '6, 2, 16, 16;|u1;3072;shape .6, 2, 16, 16.' \
	'1, 1, 16, 16;|u1;256;1 frames' '6, 1, 8, 16;|u1;768;16 x 8: too small' '6, 1, 4294967296, 65536;|u1;64;'; do
	array odd/x@000000.npy "$(echo "$odd" | cut -d';' -f1)" "$(echo "$odd" | cut -d';' -f2)" "$(echo "$odd" | cut -d';' -f3)"
	check_exit 65 "an array of $(echo "$odd" | cut -d';' -f1)" ddm-eval-fid --metrics motion -o no.json odd b.tar
	check_err "what it is" "$(echo "$odd" | cut -d';' -f4)"
done
array odd/x@000000.npy '6, 1, 16, 16' '|u1' 1536
echo '{"fps":0}' >odd/x@000000.json
check_exit 65 "no frames a second" ddm-eval-fid --metrics motion -o no.json odd b.tar
check_err "the member is named" '"fps" of x@000000.json'
printf '{"fps":' >odd/x@000000.json
check_exit 65 "facts cut short" ddm-eval-fid --metrics motion -o no.json odd b.tar
cp -R b.clips rate
for f in rate/*.json; do echo '{"frames":6,"fps":24}' >"$f"; done
check_exit 65 "clips of another rate" ddm-eval-fid -o no.json a.tar rate
check_err "both rates" '8 frames a second, rate of 24'
check "another rate with --ignore-recipe" ddm-eval-fid --ignore-recipe -o rate.json a.tar rate
check_exit 65 "vectors for motion" ddm-eval-fid --metrics motion -o no.json odd/x@000000.npy b.tar
check_exit 2 "--no-null-test of pictures" ddm-eval-fid --no-null-test -o no.json "$G/eval-a.tar.gz" "$G/eval-b.tar.gz"
for o in --cache '--stats-out x.npz' '--train a.tar'; do
	check_exit 2 "$o of clips" ddm-eval-fid $o -o no.json a.tar b.tar
	check_err "it is named" "${o%% *}"
done
check_exit 2 "a network for motion alone" ddm-eval-fid --features dinov2:nowhere --metrics motion -o no.json a.tar b.tar
check_absent "no output" no.json
check_exit 74 "a full disk" ddm-eval-fid -o /dev/full a.tar b.tar
check_clean "nothing left" .
