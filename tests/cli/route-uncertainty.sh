# Learned uncertainties: trained on an expert's own cluster alone (ddm-route-train --target uncertainty:K), weights of a route, ddm-diagnose
# uncertainty, and what ddm-forget says of them.
. "$(dirname "$0")/tap.sh"

ddm-synth gaussians --shape 1x4x4 -k 3 --rank 2 --separation 2 --floor .3 --seed 3 -o law 2>"$ERR" &&
	ddm-synth draw -n 1500 --holdout .3 --labels a.tsv -o a.tar law 2>"$ERR" && ddm-shard -q -a a.tsv --holdout .3 -o s a.tar || exit 1
small="--model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 32 --lr 3e-3 --validate-samples 0"
for k in 0 1 2; do
	# shellcheck disable=SC2086
	ddm-train -q $small --steps 300 --cluster $k -o m/expert_$k s || exit 1
done
run="ddm-route-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 32 --lr 1e-2"
sample="ddm-sample -q -n 3 --steps 3"

# Requests that cannot be served
check_exit 2 "without experts" $run --steps 4 --target uncertainty:0 -o x s
check_exit 2 "without a number" $run --steps 4 --target uncertainty --experts m -o x s
check_exit 2 "an expert that is not there" $run --steps 4 --target uncertainty:3 --experts m -o x s
check_err "is named" 'm: has no expert_3'
check_exit 2 "--calibrate" $run --steps 4 --target uncertainty:0 --calibrate --experts m -o x s
awk -F '\t' -v OFS='\t' 'NR == 1 { print "#key", "cluster" } !/^#/ { print $1, ($2 + 1) % 3 }' a.tsv >b.tsv && ddm-shard -q -a b.tsv -o other a.tar || exit 1
check_exit 65 "samples of another partition" $run --steps 4 --target uncertainty:0 --experts m -o x other
check_err "says so" 'was trained on another partition'
check_absent "nothing was made" x
check_exit 66 "a route without uncertainties" $sample --route 'uncertainty|full' -o x.tar m
check_err "says how they are made" 'm/uncertainty_0: no such folder: .*--target uncertainty:0 --experts m -o m/uncertainty_0 SHARDS'
check_exit 66 "their diagnosis" ddm-diagnose uncertainty m s

for k in 0 1 2; do
	check "the uncertainty of expert $k" $run --steps 200 --target uncertainty:$k --experts m -o m/uncertainty_$k s
done

# They are networks of the model.
check "ddm-info" ddm-info m
check_grep "counts them" 'uncertainties +3' "$OUT"
check_grep "and lists each" '^ +uncertainty_2 .* finished' "$OUT"
check "ddm-check" ddm-check m
cp -R m broken && dd if=/dev/zero of=broken/uncertainty_1/model.safetensors bs=1 seek=4000 count=64 conv=notrunc status=none || exit 1
check_exit 65 "a damaged one" ddm-check broken
check_err "is found" "broken/uncertainty_1/model.safetensors: altered since it was written"
rm -r broken && cp -R m broken && rm -r broken/uncertainty_1 && cp -R m/expert_1 broken/uncertainty_1 || exit 1
check_exit 65 "another network in its place" ddm-check broken
check_err "is named" "broken/uncertainty_1: is not the learned uncertainty of an expert"

# It needs nothing but its own expert and the shards of its own cluster, and writes the same bytes with other threads.
mkdir lone && cp -R m/expert_1 lone && cp -R s own && rm -r own/cluster-0 own/cluster-2 || exit 1
check "expert and cluster alone" $run --steps 200 --target uncertainty:1 --experts lone --threads 1 --no-verify -o lone/uncertainty_1 own
check_same "gives the same weights" lone/uncertainty_1/model.safetensors m/uncertainty_1/model.safetensors

# What it expects is what is measured, on its own cluster. Experts are better there than elsewhere.
check "the diagnosis" ddm-diagnose uncertainty --timesteps .3,.6,.9 --json d.json -o d.tsv m s
check_true "has a row for each time and expert" "$(grep -vc '^#' d.tsv) == 9"
check "expected and measured error agree within a fifth, and errors tell the clusters apart" awk -F '\t' \
	'!/^#/ && (($7 - $9) ^ 2 > (.2 * $9) ^ 2 || $6 < .7 || $9 > $10 || $3 + $4 != 485) { bad = 1; print } END { exit bad }' d.tsv
check "in other batches" ddm-diagnose uncertainty --timesteps .3,.6,.9 --batch 7 --threads 1 -o e.tsv m s
check_same "it is the same" d.tsv e.tsv
check "again" ddm-diagnose uncertainty --timesteps .3,.6,.9 --json d.json -o d.tsv m s
check_err "there is nothing to do" 'complete, nothing to do'

# Routes
check "weights by uncertainty" $sample --route 'uncertainty:.1|top-2' --report r.json -o a1.tar m
check "in other batches" $sample --route 'uncertainty:.1|top-2' --batch 2 --threads 1 -o a2.tar m
check_same "give the same pictures" a1.tar a2.tar
check "as a part of a schedule" $sample --route 'uniform|full@1,uncertainty|top-1@.5' -o a3.tar m
check "a solver with discrete time" $sample --solver ddim --route 'uncertainty|full' -o a4.tar m
loss() { ddm-diagnose loss --routes "$1" -n 200 -o - m s | sed 's/.*"loss":\([0-9.e-]*\).*/\1/'; }
cold=$(loss 'uncertainty:1e-6|full') first=$(loss 'uncertainty|top-1') even=$(loss 'uniform|full') warm=$(loss 'uncertainty:1e6|full')
check_true "at temperature 0 the most certain expert alone predicts" "$cold == $first"
check_true "at a high temperature all do" "($warm - $even) ^ 2 < 1e-8"

# Of other weights, or of parts of the times
cp -R m n || exit 1
ddm-train -q $small --steps 20 --cluster 1 -o n2/expert_1 s && rm -r n/expert_1 && cp -R n2/expert_1 n || exit 1
check_exit 65 "an expert that was trained again" $sample --route 'uncertainty|full' -o x.tar n
check_err "is named" 'n/uncertainty_1: was trained with other weights of expert_1'
rm -r n/uncertainty_1 && cp -R m/expert_1 n/uncertainty_1 || exit 1
check_exit 65 "not an uncertainty" $sample --route 'uncertainty|full' -o x.tar n
mkdir part && ddm-train -q $small --steps 2 --cluster 0 --time-range 0..0.5 -o part/expert_0 s &&
	ddm-train -q $small --steps 2 --cluster 0 --time-range 0.5..1 -o part/expert_1 s || exit 1
check_exit 2 "experts for parts of the times" $sample --route 'uncertainty|full' -o x.tar part

# A sample that is taken out
key=$(awk -F '\t' '!/^#/ && $2 == 1 && $NF != "holdout" { print $1; exit }' a.tsv)
check "which networks saw a sample" ddm-forget -m m -o f s "$key"
check_grep "its expert's uncertainty did" '^# m/uncertainty_1: trained on cluster 1, with 1 of the samples; must be trained again$' "$OUT"
check_grep "others did not" '^# m/uncertainty_0: trained on cluster 0, without them; stays$' "$OUT"
cp "$OUT" again.sh
check "the trainings that forget it" sh again.sh
check "give an ensemble whose uncertainties fit" $sample --route 'uncertainty|full' -o forgot.tar m.new
