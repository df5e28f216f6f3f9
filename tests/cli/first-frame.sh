# Image to video: experts for clips that are told the first frame, by option, in ensembles, with guidance, by several ranks; frames that do not fit.
. "$(dirname "$0")/tap.sh"

# array FILE SHAPE COUNT LEVEL: COUNT bytes of this level, in octal
array() {
	{
		printf '\223NUMPY\001\000\166\000'
		printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($2), }"
		head -c "$3" /dev/zero | tr '\000' "\\$4"
	} >"$1"
}

# The frames of a clip have one level of grey, which its first frame tells. Levels from 20 to 230; half of the clips are dark.
mkdir data && cd data || exit 1
for i in 0 1 2 3 4 5 6 7; do
	array "dark$i@0.npy" "4, 1, 8, 8" 256 "$(printf '%03o' $((20 + 6 * i)))"
	array "light$i@0.npy" "4, 1, 8, 8" 256 "$(printf '%03o' $((230 - 6 * i)))"
	echo 0 >"dark$i@0.cls"
	echo 1 >"light$i@0.cls"
done
tar cf ../clips.tar ./*
cd ..
ddm-cluster -q --by class -o a.tsv clips.tar && ddm-shard -q -a a.tsv -o shards clips.tar || exit 1
small="--model vdit-nano/1x4 --hidden 32 --depth 2 --heads 2"
train="ddm-train -q --batch 16 --lr 1e-2"

# Training
check "an expert that is told the first frame" $train $small --cluster all --first-frame --first-frame-drop .2 --steps 400 --sample-every 400 \
	-o m/expert_0 shards
check_grep "config.json says so" '"first_frame": 1' m/expert_0/config.json
check_grep "and how often it was withheld" '"first_frame_dropout": 0.2' m/expert_0/config.json
check "ddm-info" ddm-info --json m/expert_0
check_grep "says it too" '"first_frame_dropout":0.2' "$OUT"
check_exit 2 "withheld always" $train $small --cluster all --first-frame --first-frame-drop 1 --steps 1 -o bad shards
check_exit 2 "withheld without --first-frame" $train $small --cluster all --first-frame-drop .5 --steps 1 -o bad shards
check_err "needs --first-frame" '--first-frame'
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 1 -o p.tsv pics && ddm-shard -q -a p.tsv -o pshards pics || exit 1
check_exit 2 "pictures" ddm-train -q --cluster 0 --model dit-nano/4 --first-frame --steps 1 -o bad pshards
check_err "have no first frame" 'a dit network for pictures reads no first frame'
check_absent "nothing was made" bad

# Sampling: the mean of all frames of a clip follows its first frame.
array dark.npy "1, 8, 8" 64 036
array light.npy "1, 8, 8" 64 332
mkdir both
cp dark.npy both/a.npy
cp light.npy both/b.npy
cp dark.npy both/c.npy
tar cf both.tar -C both a.npy b.npy c.npy
level() {
	tar xOf "$1" "$2.npy" | tail -c 192 | od -An -v -tu1 | tr -s ' ' '\n' | awk 'NF { s += $1; n++ } END { print (s / n < 90 ? "dark" : s / n > 160 ? "light" : s / n) }'
}
sample="ddm-sample -q --steps 20 --route expert:0" sample1="ddm-sample -q --steps 20 --route expert:1"
for f in dark light; do
	check "clips that begin $f" $sample -n 3 --first-frame $f.npy -o $f.tar m
	for i in 0 1 2; do
		check_out "clip $i stays $f" $f level $f.tar 00000$i
	done
done
check "a frame for each clip" $sample -n 3 --first-frame both.tar -o each.tar m
check_out "the first is dark" dark level each.tar 000000
check_out "the second light" light level each.tar 000001
check_out "the third dark" dark level each.tar 000002
tar xOf each.tar 000001.npy >one.npy
tar xOf light.tar 000001.npy >two.npy
check_same "as if it were the frame of all" one.npy two.npy
check "in other batches" $sample -n 3 --first-frame both.tar --batch 2 -o batches.tar m
tar xOf batches.tar 000001.npy >two.npy
check_same "the same clip" one.npy two.npy
check "the second alone" $sample -n 1 --first 1 --first-frame both.tar -o second.tar m
tar xOf second.tar 000001.npy >two.npy
check_same "is the same too" one.npy two.npy
check "by a solver that chooses its steps" $sample -n 3 --solver dopri5 --first-frame both.tar -o adaptive.tar m
check_out "the second is light" light level adaptive.tar 000001
check_out "the third is dark" dark level adaptive.tar 000002
check "a clip gives its first frame" $sample -n 1 --first-frame "data/light0@0.npy" -o clip.tar m
check_out "and stays light" light level clip.tar 000000
check "without a frame" $sample -n 3 -o none.tar m
cp light.tar before.tar
check "again" $sample -n 3 --first-frame light.npy -o light.tar m
check_same "nothing to do" light.tar before.tar
check_exit 73 "with another frame" $sample -n 3 --first-frame dark.npy -o light.tar m
check_err "the frame is named" 'first_frame'

# Guidance leads away from what the expert makes without a frame. Scale 0 is that alone.
check "guided" $sample -n 1 --cfg 2 --first-frame light.npy -o guided.tar m
check_out "towards the frame" light level guided.tar 000000
check "at scale 0" $sample -n 3 --cfg 0 --first-frame light.npy -o zero.tar m
for i in 0 1 2; do
	tar xOf zero.tar 00000$i.npy >one.npy
	tar xOf none.tar 00000$i.npy >two.npy
	check_same "clip $i is one without a frame" one.npy two.npy
done
check_exit 2 "guided towards nothing" $sample -n 1 --cfg 2 -o bad.tar m
check_err "a first frame is proposed" '--class or --first-frame'

# An expert that was always told the frame
for k in 0 1; do
	$train $small --cluster $k --first-frame --first-frame-drop 0 --steps 3 -o always/expert_$k shards || exit 1
done
check_exit 2 "needs one in sampling" $sample1 -n 1 -o bad.tar always
check_err "says so" '--first-frame is missing'
check_exit 2 "has no guidance" $sample1 -n 1 --cfg 2 --first-frame dark.npy -o bad.tar always
check_err "says why" 'has no prediction without a first frame'
check_exit 2 "is not measured without" ddm-diagnose loss -n 4 --split train -o bad.json always shards
check_err "says so too" 'always needs a first frame'
check_exit 2 "trains no router" ddm-route-train -q --target error --experts always --model dit-nano/4 --steps 1 -o bad shards
check_err "nor does it" 'always needs a first frame'
check "works with one" $sample1 -n 1 --first-frame dark.npy -o always.tar always

# Frames that do not fit
array wide.npy "1, 8, 16" 128 036
array deep.npy "3, 8, 8" 192 036
array flat.npy "8, 8" 64 036
check_exit 65 "of another size" $sample -n 1 --first-frame wide.npy -o bad.tar m
check_err "both sizes are said" '1 x 8 x 16, and the frames of the clips are 1 x 8 x 8'
check_exit 65 "of other channels" $sample -n 1 --first-frame deep.npy -o bad.tar m
check_exit 65 "of no channels" $sample -n 1 --first-frame flat.npy -o bad.tar m
check_err "what is expected is said" 'an array of rank 2'
check_exit 65 "pictures of another size" $sample -n 1 --first-frame pics -o bad.tar m
cut_to wide.npy 100
check_exit 65 "a damaged array" $sample -n 1 --first-frame wide.npy -o bad.tar m
check_exit 66 "no such file" $sample -n 1 --first-frame nowhere -o bad.tar m
check_exit 2 "fewer frames than clips" $sample -n 4 --first-frame both.tar -o bad.tar m
check_err "both numbers are said" '3 samples, and clips up to number 3'
$train $small --cluster 1 --steps 3 -o plain/expert_1 shards || exit 1
check_exit 2 "an expert that reads none" $sample1 -n 1 --first-frame dark.npy -o bad.tar plain
check_err "is named" 'no expert of plain reads a first frame'
check_absent "nothing was made" bad.tar

# Ensembles: an expert that reads first frames beside one that does not, and by ranks
mkdir mixed
cp -R m/expert_0 mixed/expert_0
cp -R plain/expert_1 mixed/expert_1
check "an expert of either kind" ddm-sample -q --steps 4 --route 'uniform|top-2' -n 3 --first-frame both.tar -o mixed.tar mixed
if has_mpi; then
	for spread in pictures experts; do
		check "ranks that share the $spread" ddm-sample -q --steps 4 --route 'uniform|top-2' -n 3 --first-frame both.tar --ranks 2 --threads 1 \
			--spread $spread -o $spread.tar mixed
		check_same "make the same" mixed.tar $spread.tar
	done
	check "guided" ddm-sample -q --steps 4 --route expert:0 -n 3 --cfg 2 --first-frame both.tar -o alone.tar m
	check "with the branches of guidance on two ranks" ddm-sample -q --steps 4 --route expert:0 -n 3 --cfg 2 --first-frame both.tar --ranks 2 \
		--threads 1 --spread guidance -o branches.tar m
	check_same "the same" alone.tar branches.tar
else
	skip "ranks" "no MPI"
fi

# From an expert that reads none; other networks; trainings that are repeated from their stamps
check "a start from an expert without" ddm-train --batch 16 --cluster 0 --pretrained plain/expert_1 --first-frame --steps 3 -o from/expert_0 shards
check_err "whose patch embedding is extended" 'derived: patch_embedding\.weight$'
for model in unet-nano dit-nano/4; do
	name=$(basename "${model%/*}")
	check "$name" $train --model $model --cluster 0 --first-frame --steps 3 -o "$name/expert_0" shards
	check "$name makes clips" $sample -n 1 --first-frame dark.npy -o "$name.tar" "$name"
done
check "is proved by training again" ddm-audit --replay all --scratch scratch --pretrained plain/expert_1 from/expert_0 shards
check "the option is in the command of ddm-forget" ddm-forget -o left -m from shards "dark0@0"
check_grep "with its number" '--first-frame --first-frame-drop 0?\.1 ' "$OUT"
check "in bf16" ddm-sample -q --steps 4 --route expert:0 -n 1 --weight-dtype bf16 --first-frame light.npy -o half.tar m
