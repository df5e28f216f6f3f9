# Training on clips and pictures together: the schedule, the log, resume after kill, threads and ranks by the byte, the plan, clusters that agree, samples,
# proof and repetition of such a run, refusals.
. "$(dirname "$0")/tap.sh"

# array FILE SHAPE COUNT LEVEL TYPE: COUNT bytes of this level, in octal; TYPE |u1 where none is given
array() {
	{
		printf '\223NUMPY\001\000\166\000'
		printf '%-117s\n' "{'descr': '${5:-|u1}', 'fortran_order': False, 'shape': ($2), }"
		head -c "$3" /dev/zero | tr '\000' "\\$4"
	} >"$1"
}

# Clips of 4 frames, dark in class 0 and light in class 1, and pictures (clips of one frame) of the same kind with other keys
mkdir clips pics
for i in 0 1 2 3 4 5 6 7; do
	array "clips/dark$i@0.npy" "4, 3, 8, 8" 768 "$(printf '%03o' $((20 + 6 * i)))"
	array "clips/light$i@0.npy" "4, 3, 8, 8" 768 "$(printf '%03o' $((230 - 6 * i)))"
	array "pics/pdark$i.npy" "1, 3, 8, 8" 192 "$(printf '%03o' $((23 + 6 * i)))"
	array "pics/plight$i.npy" "1, 3, 8, 8" 192 "$(printf '%03o' $((233 - 6 * i)))"
	for f in clips/dark$i@0 pics/pdark$i; do
		echo 0 >$f.cls
	done
	for f in clips/light$i@0 pics/plight$i; do
		echo 1 >$f.cls
		echo '{"license": "CC0-1.0"}' >$f.json
	done
done
for d in clips pics; do
	(cd $d && tar cf ../$d.tar ./*) && ddm-cluster -q --by class --holdout .3 -o $d.tsv $d.tar && ddm-shard -q -a $d.tsv --holdout .3 -o s$d $d.tar || exit 1
done
mkdir photos
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C photos
ddm-cluster -q -k 1 --holdout .25 -o photos.tsv photos && ddm-shard -q -a photos.tsv --holdout .25 -o sphotos photos || exit 1
ddm-cluster -q -k 2 -o two.tsv photos && ddm-shard -q -a two.tsv -o stwo photos || exit 1
grep -q holdout sclips/MANIFEST.tsv && grep -q holdout spics/MANIFEST.tsv || exit 1

weights=diffusion_pytorch_model.safetensors
small="--model vdit-nano/1x2 --hidden 32 --depth 2 --heads 2"
train="ddm-train -q --batch 8 --lr 1e-2"
mixed="$train $small --cluster 0 --pictures spics --validate-every 4 --log-every 4 --checkpoint-every 3"

# The schedule and the log
check "clips and pictures" $mixed --steps 12 -o one sclips
check_grep "the stamp has the share" '"picture_share": ?0\.25' one/config.json
check_grep "and the pictures" '"pictures": ?"[0-9a-f]{64}"' one/config.json
check_grep "the log counts them" '"event":"start".*"samples":[0-9]+,"pictures":[0-9]+' one/train.jsonl
check_grep "each line has the loss of both" '"step":12,"loss":[0-9.]+,"loss_pictures":[0-9.]+,' one/train.jsonl
check_grep "and a validation that of both" '"val_loss":[0-9.]+,"val_loss_pictures":[0-9.]+' one/train.jsonl
check "another share" $mixed --steps 12 --picture-share .5 -o half sclips
check_differ "is another run" one/$weights half/$weights
check_exit 73 "which does not go on as this one" $mixed --steps 12 --picture-share .5 -o one sclips
check_err "the share is named" 'picture_share'
check_exit 73 "nor does one on other pictures" $train $small --cluster 0 --pictures sphotos --size 8 --validate-every 4 --log-every 4 \
	--checkpoint-every 3 --steps 12 -o one sclips
check_err "they are named" 'pictures'
check "without pictures" $train $small --cluster 0 --validate-every 4 --log-every 4 --checkpoint-every 3 --steps 12 -o alone sclips
check "no line speaks of them" sh -c '! grep -q pictures alone/train.jsonl alone/config.json'
check "a line for each step" $train $small --cluster 0 --pictures spics --log-every 1 --steps 8 -o each sclips
check_out "a quarter of the steps takes pictures: every fourth" "4 8" sh -c \
	"sed -n 's/.*\"step\":\([0-9]*\),\"loss\":null,\"loss_pictures\":[0-9].*/\1/p' each/train.jsonl | paste -sd ' '"
check_out "the others clips" "1 2 3 5 6 7" sh -c \
	"sed -n 's/.*\"step\":\([0-9]*\),\"loss\":[0-9.]*,\"loss_pictures\":null.*/\1/p' each/train.jsonl | paste -sd ' '"

# Interruptions, threads, ranks
check "two threads" $mixed --steps 12 --threads 2 -o threads sclips
check_same "make the same" one/$weights threads/$weights
check "longer" $mixed --steps 400 --schedule constant --ema-half-life 20 -o long sclips
for at in 40 120; do
	$mixed --steps 400 --schedule constant --ema-half-life 20 -o killed sclips 2>err &
	pid=$!
	until_true grep -qs "\"step\":$at," killed/train.jsonl
	kill -KILL $pid
	wait $pid 2>/dev/null
done
check "killed twice, and given again" $mixed --steps 400 --schedule constant --ema-half-life 20 -o killed sclips
check_same "the same weights" long/$weights killed/$weights
check_same "the same chain" long/train/chain.jsonl killed/train/chain.jsonl
losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),"loss_pictures":\([^,]*\),.*"val_loss_pictures":\([^,]*\),.*/\1 \2 \3 \4/p' "$1/train.jsonl"; }
check "the same losses in the log" sh -c '[ -n "$1" ] && [ "$1" = "$2" ]' - "$(losses long)" "$(losses killed)"
check "six steps" $mixed --schedule constant --ema-half-life 20 --steps 6 -o grown sclips
check "extended" $mixed --schedule constant --ema-half-life 20 --steps 400 --extend -o grown sclips
check_same "the same averages" long/train/step-00000400/ema.safetensors grown/train/step-00000400/ema.safetensors
for o in adamw muon; do
	check "one process, $o" $mixed --steps 8 --accumulate 2 --picture-share .4 --optimizer $o -o "a$o" sclips
	if has_mpi; then
		check "two ranks, $o" $mixed --steps 8 --accumulate 2 --picture-share .4 --optimizer $o --ranks 2 --threads 1 -o "b$o" sclips
		check_same "the same weights" "a$o/$weights" "b$o/$weights"
		check_same "the same chain" "a$o/train/chain.jsonl" "b$o/train/chain.jsonl"
	else
		skip "two ranks, $o" "no MPI"
	fi
done

# The plan, and passes over the clips
check "a plan" $mixed --plan --epochs 12 -o none sclips
cp "$OUT" plan
check "of clips alone" $train $small --plan --cluster 0 --epochs 12 -o none sclips
cp "$OUT" plan0
value() { sed -n "s/^$2	//p" "$1"; }
check "counts the steps of pictures beside the passes" [ "$(value plan steps)" -eq $((($(value plan0 steps) * 4 + 2) / 3)) ]
check "their batches" [ "$(value plan activations_bytes)" -gt "$(value plan0 activations_bytes)" ]
check "their work, which is less" sh -c "awk -v a=$(value plan gflop_per_image) -v b=$(value plan0 gflop_per_image) 'BEGIN { exit !(a < b && a > .75 * b) }'"
check "and the pictures" [ "$(value plan pictures)" -gt 0 ]

# Clusters
check "pictures of one cluster suit any expert" $train $small --cluster 1 --pictures sphotos --size 8 --steps 3 -o m/expert_1 sclips
check "and the monolith" $train $small --cluster all --pictures sphotos --size 8 --steps 3 -o all sclips
check "which also takes pictures that are divided otherwise" $train $small --cluster all --pictures stwo --size 8 --steps 3 -o all2 sclips
check_exit 65 "an expert does not" $train $small --cluster 1 --pictures stwo --size 8 --steps 3 -o bad sclips
check_err "and says why" 'the clusters of stwo are not those of sclips: they are of another partition'
check "told the class" $train $small --cluster all --condition class --pictures spics --steps 3 -o classes sclips
check "told the cluster" $train $small --cluster all --condition cluster --pictures spics --steps 3 -o told sclips
check_exit 65 "but not by pictures without one" $train $small --cluster all --condition cluster --pictures sphotos --size 8 --steps 3 -o bad sclips
check_err "and says why, too" 'the clusters of sphotos are not those of sclips'
check_grep "config.json counts the licences of both" '"CC0-1.0": ?[1-9]' all/config.json
sum() { sed -n 's/.*"CC0-1.0": *\([0-9]*\).*/\1/p' "$1/config.json"; }
check "added up" [ "$(sum classes)" -gt "$(sum all)" ]

# Samples have the frames of the clips.
check "an expert of many steps" $mixed --steps 200 -o m/expert_0 sclips
check "clips from it" ddm-sample -q -n 2 --steps 10 --route expert:0 -o s.tar m
tar xOf s.tar 000000.npy | head -c 128 >head
check_grep "of four frames" "'shape': \(4, 3, 8, 8\)" head

check "and pictures, as clips of one frame" ddm-sample -q -n 2 --frames 1 --steps 10 --route expert:0 -o p.tar m
tar xOf p.tar 000000.npy | head -c 128 >head
check_grep "of one frame" "'shape': \(1, 3, 8, 8\)" head

# Other networks, first frames, text
for model in dit-nano/4 vdit-full-nano/1x4; do
	name=$(basename "${model%/*}")
	check "$model" $train --model $model --cluster 0 --pictures spics --steps 3 -o "$name" sclips
done
check "first frames" $train $small --cluster 0 --first-frame --pictures spics --steps 4 --validate-every 4 -o first sclips
check_exit 2 "which must be withheld at times" $train $small --cluster 0 --first-frame --first-frame-drop 0 --pictures spics --steps 3 -o bad sclips
check_err "because pictures have none" '--first-frame-drop 0'

# of_text NAME FRAMES WIDTH: shards of samples with texts
of_text() {
	mkdir "$1"
	for i in 0 1 2 3; do
		array "$1/t$i.npy" "$2, 3, 8, 8" $((192 * $2)) 100
		array "$1/t$i.text.npy" "2, $3" $((4 * $3)) 074 '<f2'
	done
	(cd "$1" && tar cf "../$1.tar" ./*) && ddm-cluster -q --features random -k 1 -o "$1.tsv" "$1.tar" && ddm-shard -q -a "$1.tsv" -o "s$1" "$1.tar"
}
of_text tclips 4 6 && of_text tpics 1 6 && of_text twide 1 7 || exit 1
text="$train --model vdit-text-nano/1x2 --hidden 32 --depth 2 --heads 2 --cluster 0 --text-drop 0 --steps 4"
check "texts" $text --pictures stpics -o text stclips
check_exit 65 "texts of another width" $text --pictures stwide -o bad stclips
check_err "both widths are said" 'the texts of stwide have the width 7 .*, those of stclips 6'

# Proof, repetition, forgetting
check "is proved by training again" ddm-audit --replay all --scratch scratch --pictures spics one sclips
check_exit 65 "not with other pictures" ddm-audit --replay all --scratch scratch --pictures sphotos one sclips
check_grep "the input is named" 'pictures' "$OUT"
trained() { awk '!/^#/ && $2 == 0 && $4 == "train" { print $1; exit }' "$1"; }
check "a clip is forgotten" ddm-forget -o left -m one --beside spics sclips "$(trained clips.tsv)"
check_grep "the command names the pictures" '--pictures spics .*left$' "$OUT"
check "and repeats the run" sh -c "! grep -q '# *but' '$OUT'"
check "without their folder" ddm-forget -o left2 -m one sclips "$(trained clips.tsv)"
check_grep "their place is kept" '--pictures PICTURES .*left2$' "$OUT"
check "a picture is forgotten" ddm-forget -o pleft -m one --beside sclips spics "$(trained pics.tsv)"
check_grep "the network saw it" 'one: trained on cluster 0, with 1 of the samples; must be trained again' "$OUT"
check_grep "the command has the shards without it" '--pictures pleft .*sclips$' "$OUT"
check "and repeats the run" sh -c "! grep -q '# *but' '$OUT'"

# Refusals
check_exit 2 "pictures beside pictures" $train --model dit-nano/4 --cluster 0 --pictures spics --size 8 --steps 3 -o bad sphotos
check_err "is said" 'sphotos holds no clips'
check_exit 2 "a U-Net" $train --model unet-nano --cluster 0 --pictures spics --steps 3 -o bad sclips
check_err "whose weights depend on the frames" 'weights of a unet network depend on the number of frames'
check_exit 2 "patches of two frames" $train --model vdit-nano/2x2 --cluster 0 --pictures spics --steps 3 -o bad sclips
check_err "do not divide a picture" 'patches of 2 frames do not divide clips of 1 frames'
check_exit 65 "pictures of another size" $train $small --cluster 0 --pictures sphotos --steps 3 -o bad sclips
check_err "both sizes are said" 'holds samples of .*, and the frames of sclips are 3 x 8 x 8: --size resizes the pictures'
check_exit 65 "clips as pictures" $train $small --cluster 0 --pictures sclips --steps 3 -o bad sclips
check_err "are said" 'pictures are not clips'
mkdir latent
array latent/a.npy "3, 8, 8" 768 000 '<f4'
tar cf latent.tar -C latent a.npy && ddm-cluster -q --features random -k 1 -o l.tsv latent.tar || exit 1
ddm-shard -q -a l.tsv -o slatent latent.tar || exit 1
check_exit 65 "latents" $train $small --cluster 0 --pictures slatent --steps 3 -o bad sclips
check_err "beside pixels" 'slatent holds latents, and sclips clips of pixels'
for share in 0 1 -1 1.5; do
	check_exit 2 "a share of $share" $train $small --cluster 0 --pictures spics --picture-share $share --steps 3 -o bad sclips
done
check_exit 2 "a share of nothing" $train $small --cluster 0 --picture-share .5 --steps 3 -o bad sclips
check_err "needs pictures" '--pictures'
check_exit 66 "no such folder" $train $small --cluster 0 --pictures nowhere --steps 3 -o bad sclips
check_err "is named" '--pictures: nowhere'
check_absent "nothing was made" bad
