# ddm-train: requests, shards that do not fit, a repeated command, interruptions of every kind, a full disk.
. "$(dirname "$0")/tap.sh"

check_program ddm-train
weights=diffusion_pytorch_model.safetensors
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8"
few="$net --steps 6 --optimizer adamw --lr 1e-4 --checkpoint-every 2"
run="ddm-train -q"

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1

# Requests that cannot be served
check_exit 2 "no --cluster" $run $few -o m s
check_err "is named" '--cluster'
check_exit 2 "no -o" $run $few --cluster 0 s
check_err "is named" ' -o '
check_exit 2 "no shards" $run $few --cluster 0 -o m
check_exit 2 "a cluster that is no number" $run $few --cluster one -o m s
check_exit 2 "a negative cluster" $run $few --cluster -1 -o m s
check_exit 2 "a cluster that is not there" $run $few --cluster 2 -o m s
check_err "the range is named" 'no cluster 2.*0 to 1'
for o in "--time never" "--time logit-normal:1" "--time logit-normal:0,0" "--checkpoint-every 3x" "--checkpoint-every 0" \
	"--checkpoint-every -1m" "--epochs 3" "--steps 0" "--batch 0" "--lr 0" "--lr nan" "--beta2 1" "--keep 0" \
	"--accumulate 3" "--predict u" \
	"--model dit-huge/2" "--model dit-nano" "--heads 3" "--hidden 18" "--patch 5" "--device tpu" "--precision half" "--schedule never"; do
	check_exit 2 "$o" $run $few --cluster 0 $o -o m s
done
check_exit 2 "a velocity wider than the network" $run $few --predict velocity --cluster 0 -o m s
check_err "is refused with the reason" 'patch has 192 numbers, more than the network.s width of 16'
check_exit 65 "classes that are not there" $run $few --condition class --cluster 0 -o m s
check_exit 69 "a GPU that is not there" $run $few --cluster 0 --device cuda:1023 -o m s
check_exit 2 "tf32 on the CPU" $run $few --cluster 0 --device cpu --precision tf32 -o m s
check_err "is refused by name" "device cpu does not compute in tf32"
check "f32 on the CPU" $run $few --cluster 0 --device cpu --precision f32 -o float s
check "is what it does anyway" $run $few --cluster 0 --device cpu -o float s
rm -r float
check_exit 66 "no such shards" $run $few --cluster 0 -o m none
check_exit 66 "no such weights to start from" $run $few --cluster 0 --init-weights none.safetensors -o m s
check_absent "nothing was made" m
mkdir deep
check_exit 2 "a request in deep folders" $run $few --predict velocity --cluster 0 -o deep/er/m s
check_absent "leaves none of them" deep/er
echo hello >note.txt
check_exit 73 "the output is a file" $run $few --cluster 0 -o note.txt s
check_out "which is left alone" hello cat note.txt

# The plan
check "--plan" ddm-train $few --cluster 0 --plan -o m s
for key in parameters samples steps gflop_per_image weights_bytes optimizer_bytes activations_bytes experts_bytes total_bytes offloaded_bytes device_bytes free_bytes beside_bytes; do
	check_grep "--plan: $key" "^$key	[0-9.e+-]+\$" "$OUT"
done
check_grep "--plan: as many steps as asked for" '^steps	6$' "$OUT"
check_absent "--plan writes nothing" m

# A request for more memory than any machine has
huge="--model dit-xl/8 --hidden 65536 --heads 512 --batch 8 --steps 6"
check "--plan of what does not fit" ddm-train $huge --cluster 0 --device cpu --plan -o m s
check_err "says what is missing" 'cpu: out of memory: the run needs [0-9.]+ GB and [0-9.]+ .B are free \([0-9.]+ GB too little\); it would not fit even with --recompute'
check_exit 71 "a run that does not fit" $run $huge --cluster 0 --device cpu -o m s
check_err "says what is missing" 'GB too little\); it would not fit even with --recompute \([0-9.]+ GB\)'
check_absent "and makes nothing" m
# Shards that differ from their manifest
shard=cluster-0/000000.tar.zst
bad() { rm -rf bad && cp -R s bad; }
bad; rm bad/$shard
check_exit 66 "an absent shard" $run $few --cluster 0 -o m bad
check_err "is named" "$shard"
check "which another cluster does not need" $run $few --cluster 1 -o other bad
bad; cut_to bad/$shard 700
check_exit 65 "a truncated shard" $run $few --cluster 0 -o m bad
check_err "is named" "$shard"
check_exit 65 "a truncated shard, not verified" $run $few --no-verify --cluster 0 -o m bad
for at in 100 "$(($(size_of s/$shard) / 2))" "$(($(size_of s/$shard) - 5))"; do
	bad; flip bad/$shard "$at"
	check_exit 65 "a bit of byte $at flipped" $run $few --cluster 0 -o m bad
	check_err "the shard is named" "$shard"
done
bad; cp s/cluster-1/000000.tar.zst bad/$shard
check_exit 65 "another shard in its place" $run $few --cluster 0 -o m bad
check_exit 65 "another shard, not verified" $run $few --no-verify --cluster 0 -o m bad
bad; cut_to bad/MANIFEST.tsv 300
check_exit 65 "a truncated manifest" $run $few --cluster 0 -o m bad
bad; flip bad/MANIFEST.tsv 400
check_exit 65 "a bit of the manifest flipped" $run $few --cluster 0 -o m bad
bad; rm bad/MANIFEST.tsv
check_exit 66 "no manifest" $run $few --cluster 0 -o m bad
bad; flip bad/holdout/$shard 300
check_exit 65 "a damaged held-out shard" $run $few --cluster 0 -o m bad
check "which is not read without validation" $run $few --validate-samples 0 --cluster 0 -o noval bad
check_absent "nothing was made" m

# A cluster without samples: with the centroids of another site all pictures are near one of them.
mkdir here
cp pics/a/0000.png here/one.png
cp pics/a/0000.png here/two.png
ddm-cluster -q -k 2 --holdout .25 --centroids-out c.npy -o again.tsv pics || exit 1
ddm-cluster -q -k 2 --centroids c.npy -o here.tsv here && ddm-shard -q -a here.tsv -o hollow here || exit 1
k=$(awk -F '\t' '!/^#/ { print 1 - $2; exit }' here.tsv)
check_exit 65 "an empty cluster" $run $few --cluster "$k" -o m hollow
check_err "is named" "cluster $k is empty"
check_absent "nothing was made" m

# Class labels: a sample without one has the null label; an error if no sample has one.
mkdir some && cp pics/a/000[0-9].png some
for i in 1 2 3 4 5 6 7 8 9; do echo $((i % 3)) >some/000$i.cls; done
ddm-cluster -q -k 2 -o some.tsv some && ddm-shard -q -a some.tsv -o classes some || exit 1
check "a class-conditional network" $run $few --condition class --cluster all -o conditional classes
check_grep "counts the classes" '"num_classes": 3' conditional/config.json
check_exit 65 "a sample without a class, and no null label" $run $few --condition class --class-dropout 0 --cluster all -o null classes
check_err "is named" '"0000" has no class label.*--class-dropout'
check_absent "no weights were made" null/$weights
check "told the cluster" $run $few --condition cluster --cluster all -o told s
check_grep "counts the clusters" '"num_classes": 2' told/config.json
check_grep "and has no null class" '"class_dropout_prob": 0\.0' told/config.json
check "told the cluster, but for a quarter" $run $few --condition cluster --class-dropout .25 --cluster all -o e_told/expert_0 s
check_grep "which is the null class" '"class_dropout_prob": 0\.25' e_told/expert_0/config.json
check "that guidance leads away from" ddm-sample -n 2 --steps 2 --route expert:0 --class 1 --cfg 2 -o told.tar e_told
check_exit 2 "nothing to withhold" $run $few --class-dropout .25 --cluster all -o m s
check_err "is named" '--class-dropout .*--condition'

# The output
check "an expert" ddm-train $few --cluster 0 -o e/expert_0 s
check_grep "validations are said" '^step 6/6: loss [0-9.]+, val_loss [0-9.]+, ' "$ERR"
check_grep "memory is said" ', [0-9.]+ of [0-9.]+ GB free$' "$ERR"
check_grep "and logged" '"memory_peak":[0-9]+,"memory_free":[0-9]+,"memory_total":[0-9]+' e/expert_0/train.jsonl
check "--profile" ddm-train $few --cluster 0 --profile -o profiled s
for op in 'op .*GFLOP/s +peak +GB/s +copy' 'LINEAR_DW .*%$' 'ADAMW +6 ' 'all .* 100.0% '; do
	check_grep "names $op" "^(ddm-train: )?$op" "$ERR"
done
check_same "which changes no byte" e/expert_0/$weights profiled/$weights
check_grep "its configuration" '"cluster": 0' e/expert_0/config.json
check_grep "what it predicts" '"prediction": "x0"' e/expert_0/config.json
check_grep "the sizes of all clusters" '"cluster_sizes"' e/expert_0/config.json
check_absent "two checkpoints are kept" e/expert_0/train/step-00000002
[ -d e/expert_0/train/step-00000004 ] && [ -d e/expert_0/train/step-00000006 ]
tap_result $? "the newest ones"
check_clean "no temporary is left" e
check_absent "nor a lock" e/expert_0/.lock
if command -v jq >/dev/null; then
	check "every line of the log is JSON" jq -e . e/expert_0/train.jsonl
	check_out "a line per validation, with its step; by default validations take at most a tenth of the time" "2 4 6" sh -c \
		"jq -r 'select(.val_loss) | .step' e/expert_0/train.jsonl | paste -sd ' '"
	check "the last line ends the run" jq -se '.[-1] | .event == "end" and .step == 6' e/expert_0/train.jsonl
else
	skip "every line of the log is JSON" "no jq"
fi
check "the monolith" $run $few --cluster all -o e/all s
check_grep "is of no cluster" '"cluster": -1' e/all/config.json
check_differ "experts differ" e/expert_0/$weights e/all/$weights
check "another seed" $run $few --cluster 0 --seed 1 -o e/seed s
check_differ "differs" e/expert_0/$weights e/seed/$weights
check "one thread" $run $few --cluster 0 --threads 1 -o e/one s
check_same "makes the same bytes" e/expert_0/$weights e/one/$weights
check "three threads, recomputing, offloading, not verifying, other checkpoints" $run $few --cluster 0 --threads 3 --recompute --no-verify \
	--offload optimizer --checkpoint-every 90s --keep 1 --log-every 1 -o e/three s
check_same "make the same bytes" e/expert_0/$weights e/three/$weights
check_same "and the same configuration" e/expert_0/config.json e/three/config.json
check "a grid of samples" $run $few --cluster 0 --sample-every 3 -o e/grid s
check_same "changes no weight" e/expert_0/$weights e/grid/$weights
check_grep "is a PNG" PNG e/grid/train/samples-00000006.png
check "sampled from" ddm-sample -n 2 --steps 2 --route expert:0 -o p.tar e

# The same command again
find e/expert_0 | sort | xargs touch -h -d 2001-01-01
check "a finished command given again" ddm-train $few --cluster 0 -o e/expert_0 s
check_err "says so" 'finished'
check_out "touches nothing" "" find e/expert_0 -newermt 2002-01-01
check_exit 73 "other options on a finished run" $run $few --cluster 0 --lr 2e-3 --seed 4 -o e/expert_0 s
check_err "are named, old and new" 'lr: 0\.0001 -> 0\.002, seed: 0 -> 4'
check_exit 73 "another cluster" $run $few --cluster 1 -o e/expert_0 s
check_err "is named" 'cluster: 0 -> 1'
check_out "and nothing is touched" "" find e/expert_0 -type f -newermt 2002-01-01
mkdir foreign && cp "$SRC/tests/golden/small.safetensors" foreign/$weights
check_exit 73 "weights of somebody else" $run $few --cluster 0 -o foreign s
check_same "are left alone" "$SRC/tests/golden/small.safetensors" foreign/$weights

# Starting from weights
check "--init-weights" $run $few --cluster 1 --init-weights e/expert_0/$weights -o init s
check_exit 65 "--init-weights a wider network" $run $few --hidden 32 --cluster 0 --init-weights e/expert_0/$weights -o m s
check_err "names the tensor and both shapes" 'x_embedder\.proj\.weight|pos_embed|t_embedder'
check_exit 65 "--init-weights a shallower network" $run $few --depth 2 --cluster 0 --init-weights e/expert_0/$weights -o m s
check "a deeper network" $run $few --depth 2 --cluster 0 -o two s
check_exit 65 "--init-weights the deeper network" $run $few --cluster 0 --init-weights two/$weights -o m s
check_err "names what is left over" 'holds blocks\.1\.'
check_exit 65 "--init-weights something else" $run $few --cluster 0 --init-weights note.txt -o m s
cp e/expert_0/$weights cut.safetensors && cut_to cut.safetensors 5000
check_exit 65 "--init-weights truncated weights" $run $few --cluster 0 --init-weights cut.safetensors -o m s
check_absent "nothing was made" m

# Starting from a network with another prediction, size or condition
wide="--steps 6 --batch 8 --cluster 1"
check "a velocity" $run $wide --predict velocity --model dit-nano/4 --hidden 48 --depth 1 --heads 2 -o vel s
check "--pretrained: the same on another grid" ddm-train $wide --size 32 --predict velocity --model dit-nano/4 --hidden 48 --depth 1 --heads 2 --pretrained vel -o grid s
check_err "positions are derived" 'of vel, derived: pos_embed$'
check_err "the rest is taken" 'of vel, taken: .*blocks\.\*\.attn\.qkv\.weight, .*final_layer\.linear\.weight'
check_err "nothing is new" 'of vel, new: nothing'
check "another prediction, no --model" ddm-train $wide --predict x0 --pretrained vel -o other_x0 s
check_err "a new last layer" 'of vel, new: .*final_layer\.linear\.weight'
check_err "the old one is dropped" 'of vel, dropped: .*final_layer\.linear\.weight'
check_grep "the log says so" '"event":"from","taken":\{.*"derived":\{\},"new":\{.*"dropped":\{' other_x0/train.jsonl
check_grep "of that size" '"hidden_size": 48' other_x0/config.json
check_exit 73 "another network to start from" $run $wide --predict x0 --pretrained grid -o other_x0 s
check_err "is named" 'inputs\.from: '
check_exit 2 "two beginnings" $run $few --cluster 1 --pretrained vel --init-weights vel/$weights -o m s
check_exit 2 "a network of another width" $run $wide --model dit-nano/4 --hidden 32 --pretrained vel -o m s
check_err "both are named" 'width 48, .*not 32'
check_exit 66 "no network to start from" $run $few --cluster 1 --pretrained none -o m s
cp -R vel torn && cut_to torn/$weights 5000
check_exit 65 "a truncated network to start from" $run $wide --predict velocity --pretrained torn -o m s
check_absent "nothing was made" m

# Texts: features beside the pictures, all of one width, of one or two tokens
features() { # FILE TOKENS
	printf '\223NUMPY\001\000\166\000' >"$1"
	printf '%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': ($2, 3), }" >>"$1"
	awk -v n=$((3 * $2)) 'BEGIN { while (n--) printf "\\000\\074" }' | xargs -0 printf >>"$1"
}
mkdir told_pics && cp pics/a/00[01]*.png told_pics
for f in told_pics/*.png; do features "${f%.png}.text.npy" 2; done
features told_pics/0003.text.npy 1
ddm-cluster -q -k 2 --holdout .25 -o told.tsv told_pics && ddm-shard -q -a told.tsv --holdout .25 -o texts told_pics || exit 1
reads="--model paris-nano/8 --hidden 24 --depth 1 --heads 2 --predict x0 --batch 8 --steps 6 --checkpoint-every 2"
check_exit 66 "no features of no text" $run $reads --cluster all -o m texts
check_err "are asked for" 'texts/null-text\.npy: no such file: .*--text-drop 0'
features texts/null-text.npy 1
check "an expert that reads texts" ddm-train $reads --cluster all -o texted texts
for key in '"model_type": "dit_expert"' '"use_text_conditioning": true' '"use_class_conditioning": false' '"text_tokens": 2' \
	'"text_embed_dim": 3' '"cfg_dropout_prob": 0.1' '"condition": "text"'; do
	check_grep "its configuration: $key" "$key" texted/config.json
done
if command -v python3 >/dev/null 2>&1; then
	python3 - <<'X'
import struct, zipfile
head = "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 4), }"
head += " " * (-(len(head) + 11) % 64) + "\n"
null = open("texts/null-text.npy", "rb").read()
wide = null[:10] + null[10:].split(b"\n", 1)[0].replace(b"(1, 3)", b"(4, 3)") + b"\n" + null[10:].split(b"\n", 1)[1] + b"\0\x42" * 9
with zipfile.ZipFile("null.npz", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("caption_feature.npy", wide)
    z.writestr("attention_mask.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<4q", 1, 0, 0, 0))
X
	check "no text, as PixArt has it" ddm-train $reads --text-drop .5 --null-text null.npz --cluster all -o null_npz texts
	check "no text, as ours" ddm-train $reads --text-drop .5 --cluster all -o null_npy texts
	losses() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$1/train.jsonl"; }
	losses null_npz >npz.losses
	losses null_npy >npy.losses
	[ -s npz.losses ]
	tap_result $? "losses are told"
	check_same "the same training" npz.losses npy.losses
fi
check "PixArt" $run $reads --model pixart-nano/8 --text-tokens 5 --cluster all -o pixart texts
check_grep "of so many tokens" '"text_tokens": 5' pixart/config.json
check "an expert from a DiT" ddm-train $reads --hidden 16 --cluster 0 --pretrained e/expert_0 -o from_dit texts
check_err "tables are derived" 'derived: .*layers\.\*\.scale_shift_table'
check_err "the text is new" 'new: .*text_proj\.weight'
check "without guidance" $run $reads --text-drop 0 --null-text none.npy --cluster all -o unguided texts
check "--plan" ddm-train $reads --cluster all --plan -o m texts
check_exit 65 "shards without texts" $run $reads --null-text texts/null-text.npy --cluster all -o m s
check_err "are named" 'has no features of a text \(text\.npy\)'
check_exit 65 "more tokens than allowed" $run $reads --text-tokens 1 --cluster all -o m texts
check_exit 2 "a class for an expert that reads texts" $run $reads --condition class --cluster all -o m texts
check_exit 2 "--text-drop 1" $run $reads --text-drop 1 --cluster all -o m texts
check_exit 73 "other texts withheld" $run $reads --text-drop .3 --cluster all -o texted texts
check_err "is named" 'text_drop: 0\.1 -> 0\.3'
check "a router of them" ddm-route-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --steps 2 --batch 8 -o texted_router texts
check_exit 2 "a router that reads texts" ddm-route-train -q --model paris-nano/8 -o m texts
check_absent "nothing was made" m

# Interruptions: a run without any, then runs with all kinds of them, which give the same bytes.
long="$net --steps 240 --optimizer adamw --lr 1e-4 --checkpoint-every 9 --validate-every 40 --validate-samples 16 --log-every 1 --cluster all"
check "an uninterrupted run" $run $long --threads 1 -o whole s

paused term $run $long -o term s
kill -TERM $pid && kill -CONT $pid
wait $pid
RC=$?
[ $RC -eq 75 ] && [ "$(tap_lines "$ERR")" -eq 1 ]
tap_result $? "SIGTERM: exit 75, one line" "exit $RC"
check_err "which says what to do" 'saved: run the same command again'
check_absent "no weights yet" term/$weights
at=$(sed -n 's/.*; step \([0-9]*\) of 240.*/\1/p' "$ERR")
[ -f "term/train/step-$(printf %08d "${at:-0}")/MANIFEST.json" ]
tap_result $? "the step it stopped at is saved"
check_exit 73 "other options on a run half done" $run $long --lr 2e-3 -o term s
check_err "are named" 'lr: 0\.0001 -> 0\.002'
check_absent "no weights yet" term/$weights
printf '{"step":' >>term/train.jsonl
check "the same command again" ddm-train $long -o term s
check_err "goes on" "continuing from step $at of 240"
check_same "SIGTERM and again: the same bytes" whole/$weights term/$weights
if command -v jq >/dev/null; then
	check "the log is JSON throughout, after a line cut short too" jq -e . term/train.jsonl
fi

# kill -9 at three random moments, then a run to the end.
pauses=$(awk -v s="$$" 'BEGIN { srand(s); printf "%.2f %.2f %.2f", .1 + .5 * rand(), .1 + .5 * rand(), .1 + .5 * rand() }')
for pause in $pauses; do
	killed_after "$pause" $run $long --threads 2 -o killed s
	[ ! -e killed/$weights ] || cmp -s whole/$weights killed/$weights
	tap_result $? "kill -9 after $pause s: the weights are absent or whole"
done
check "to the end" $run $long -o killed s
check_same "kill -9 at $pauses s: the same bytes" whole/$weights killed/$weights
check_same "the same configuration" whole/config.json killed/config.json
check_clean "no temporary is left" killed

# A damaged checkpoint is skipped, and removed when newer good ones exist.
cp -R whole damaged && rm damaged/$weights && mv damaged/train/step-00000240 damaged/train/step-00000239
cut_to damaged/train/step-00000239/ema.safetensors 900
check "a damaged checkpoint" ddm-train $long --keep 1 -o damaged s
check_err "is passed over, by name" 'damaged checkpoint: .*step-00000239/ema\.safetensors'
check_err "for the one before it" 'continuing from step 234 of 240'
check_same "the same bytes" whole/$weights damaged/$weights
check_out "one good checkpoint is left" "step-00000240" sh -c "ls damaged/train | grep step"
cp -R damaged late && rm late/$weights && mv late/train/step-00000240 late/train/step-00000900
flip late/train/step-00000900/weights.safetensors 2000
check "one from after the end" $run $long --keep 1 -o late s
check_out "makes place too" "step-00000240" sh -c "ls late/train | grep step"

# Killed between the last checkpoint and the removal of the older ones.
cp -R whole left && rm left/$weights && cp -R left/train/step-00000234 left/train/step-00000225
check "killed before it tidied up" $run $long -o left s
check_out "as many checkpoints as without" "$(ls whole/train)" ls left/train
check_same "the same bytes" whole/$weights left/$weights

# Two trainers in one folder, the first of which is paused.
paused both $run $long -o both s
check_exit 73 "a second trainer" $run $long -o both s
check_err "names the first" "in use by another process.* $pid\\)"
kill -CONT $pid
wait $pid
RC=$?
check_same "the first is not disturbed" whole/$weights both/$weights

# A full disk: a small file system if the test may mount one, and a limit on the size of files in any case.
full() {
	for f in "$1"/$weights "$1"/config.json; do
		[ ! -e "$f" ] || cmp -s "$f" "whole/$(basename "$f")" || return 1
	done
}
(
	ulimit -f 64
	exec $run $long -o limit s
) >"$OUT" 2>"$ERR"
RC=$?
[ $RC -eq 74 ] && [ "$(tail -n 1 "$ERR" | grep -c 'step-00000240.*File too large')" -eq 1 ]
tap_result $? "files may not grow: exit 74 naming the last checkpoint" "exit $RC"
[ "$(grep -c 'step-.*File too large' "$ERR")" -eq 27 ]
tap_result $? "those before it are told, even when quiet"
if command -v jq >/dev/null; then
	check_out "and noted in the log, which may not grow either" "9 18" \
		jq -rs 'map(select(.event == "unsaved" and (.why | test("too large")))) | "\(.[0].at) \(.[1].at)"' limit/train.jsonl
fi
full limit
tap_result $? "nothing half-written"
check_clean "no temporary is left" limit
check "with room again" $run $long -o limit s
check_same "the same bytes" whole/$weights limit/$weights

cat >disk.sh <<'END'
mount -t tmpfs -o size=40k none disk || exit 99
$RUN -o disk/m s
echo $? >rc
find disk -name '*.tmp*' >litter
cp -R disk/m after
mount -o remount,size=4m disk
$RUN -o disk/m s
echo $? >>rc
cp -R disk/m finished
umount disk
END
mkdir disk
if RUN="$run $long" unshare -m sh disk.sh >"$OUT" 2>"$ERR"; then
	check_out "a full disk: exit 74, and 0 with room again" "74 0" paste -sd ' ' rc
	[ ! -s litter ]
	tap_result $? "no temporary is left" "$(cat litter)"
	full after
	tap_result $? "nothing half-written"
	check_same "with room again: the same bytes" whole/$weights finished/$weights
	if command -v jq >/dev/null; then
		check "the log is JSON throughout" jq -e . finished/train.jsonl
	fi
else
	skip "a full disk" "no right to mount one"
fi
