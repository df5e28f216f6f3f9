# ddm-route-train --target: routers that learn from the errors of frozen experts, beside one that learns the clusters.
. "$(dirname "$0")/tap.sh"

weights=model.safetensors
ddm-synth gaussians --shape 1x4x4 -k 3 --rank 2 --separation 2 --floor .3 --seed 3 -o law 2>"$ERR" &&
	ddm-synth draw -n 1500 --holdout .3 --labels a.tsv -o a.tar law 2>"$ERR" && ddm-shard -q -a a.tsv --holdout .3 -o s a.tar || exit 1

# Two trained experts, and one that is hardly trained.
small="--model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 32 --lr 3e-3 --validate-samples 0"
for k in 0 1 2; do
	# shellcheck disable=SC2086
	ddm-train -q $small --steps $((k ? 300 : 2)) --cluster $k -o uneven/expert_$k s || exit 1
done
run="ddm-route-train -q"
net="--model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 32 --lr 1e-2"
few="$net --steps 6 --checkpoint-every 2"

# Requests that cannot be served
check_exit 2 "--target without experts" $run $few --target error -o m s
check_err "says what is missing" '--target error:0.01: its experts are missing'
check_exit 2 "--experts without a target" $run $few --experts law -o m s
check_exit 2 "the target cluster needs none" $run $few --experts law --target cluster -o m s
check_err "and says so" 'needs none'
for t in errors error:0 error:x mixture:-1 variance:1; do
	check_exit 2 "--target $t" $run $few --experts law --target $t -o m s
done
check_exit 66 "no such experts" $run $few --experts none --target regret -o m s
check_exit 2 "experts are measured on the linear path" $run $few --experts law --target regret --path gvp -o m s
check_exit 2 "--label-smoothing" $run $few --experts law --target regret --label-smoothing .1 -o m s
check_exit 2 "--calibrate a mixture" $run $few --experts law --target mixture --calibrate -o m s
check_exit 2 "--calibrate a variance" $run $few --experts law --target variance --calibrate -o m s
check_exit 2 "one expert" $run $few --experts uneven/expert_0 --target mixture -o m s
check_err "is not enough" 'has one expert'
mkdir gap && cp -R uneven/expert_0 uneven/expert_2 gap
check_exit 2 "an expert is missing" $run $few --experts gap --target mixture -o m s
check_err "and named" 'gap has no expert_1'
ddm-synth gaussians --shape 1x4x4 -k 4 --rank 2 -o four 2>"$ERR" && ddm-synth gaussians --shape 2x4x4 -k 3 --rank 2 -o other 2>"$ERR" || exit 1
check_exit 65 "another number of experts" $run $few --experts four --target mixture -o m s
check_err "both are named" 'four has 4 experts, but s has 3 clusters'
check_exit 65 "experts of another shape" $run $few --experts other --target mixture -o m s
check_err "both are named" 'are for 2 x 4 x 4, but s holds samples of 1 x 4 x 4'
for k in 0 1 2; do
	# shellcheck disable=SC2086
	ddm-train -q $small --steps 2 --condition cluster --cluster all -o told/expert_$k s &&
		ddm-train -q $small --steps 2 --cluster $k --time-range 0..0.5 -o timed/expert_$k s || exit 1
done
check_exit 2 "experts that are told the cluster" $run $few --experts told --target mixture -o m s
check_exit 2 "experts for parts of the times" $run $few --experts timed --target mixture -o m s
check_err "says why" 'for parts of the times'
check_absent "nothing was made" m

# What each learns. The clusters say nothing of the bad expert, and the errors do.
for t in cluster error:.1 regret variance mixture mixture:.01; do
	mkdir "$t" && cp -R uneven/expert_* "$t" || exit 1
	if [ $t = cluster ]; then experts=; else experts="--experts uneven"; fi
	# shellcheck disable=SC2086
	check "a router by $t" $run $net --steps 200 --target $t $experts -o $t/router s
	for route in full top-1; do
		check "its $route loss" ddm-diagnose loss --routes $route -n 400 -o $t.$route $t s
	done
done
loss() { sed 's/.*"'"$2"'":\([0-9.e-]*\).*/\1/' "$1"; }
error=$(loss cluster.full loss_error)
for t in error:.1 regret variance mixture mixture:.01; do
	check_true "$t: a smaller loss of the mixture" "$(loss $t.full loss) < $(loss cluster.full loss)"
	check_true "$t: a much smaller loss of the first choice" "$(loss $t.top-1 loss) + 3 * $error < $(loss cluster.top-1 loss)"
done

# The loss that a router for a mixture logs is that of its mixture: before training, with equal weights. The states are others.
# equal_weights EXPERTS FACTOR NUMBER: the tolerance is FACTOR times this number of the measurement
equal_weights() {
	check "a router for $1 that has not learned" $run $net --lr 1e-12 --steps 1 --target mixture --experts "$1" -o "$1.still" s
	mkdir "$1.even" && cp -R "$1"/expert_* "$1.even" && ddm-diagnose loss --routes 'uniform|full' -o "$1.loss" "$1.even" s || exit 1
	if command -v jq >/dev/null; then
		jq -s 'map(select(.val_loss))[0].val_loss' "$1.still/train.jsonl" >val
		check_true "logs the loss of equal weights" "($(cat val) - $(loss "$1.loss" loss)) ^ 2 < ($2 * $(loss "$1.loss" "$3")) ^ 2"
	else
		skip "the loss logged for $1" "no jq"
	fi
}
equal_weights law 4 loss_error
if command -v jq >/dev/null; then
	check "by time too" jq -se 'map(select(.val_by_time))[-1].val_by_time | length == 10 and all(.[]; .loss > 0 and .n > 0)' mixture/router/train.jsonl
else
	skip "the loss by time" "no jq"
fi
check "--calibrate one of errors" $run $few --target error:.1 --experts uneven --calibrate -o cool s
check_grep "is logged" '"event":"calibrate"' cool/train.jsonl

# Beside an expert that predicts the noise of ddpm. The error of its velocity grows towards t = 1, so that the mean over ten times differs from that
# over all times.
# shellcheck disable=SC2086
ddm-train -q $small --steps 20 --path ddpm --predict epsilon --cluster 1 -o mixed/expert_1 s && cp -R uneven/expert_0 uneven/expert_2 mixed || exit 1
equal_weights mixed .1 loss

# Interrupted, repeated
long="$net --steps 240 --checkpoint-every 9 --target mixture --experts uneven"
check "one thread" $run $long --threads 1 -o one s
check "three threads" $run $long --threads 3 -o three s
check_same "make the same bytes" one/$weights three/$weights
for pause in $(awk -v s="$$" 'BEGIN { srand(s); printf "%.2f %.2f", .15 + .3 * rand(), .15 + .3 * rand() }'); do
	killed_after "$pause" $run $long -o cut s
	[ ! -e cut/$weights ] || cmp -s one/$weights cut/$weights
	tap_result $? "kill -9 after $pause s: the weights are absent or whole"
done
check "to the end" $run $long -o cut s
check_same "the same bytes" one/$weights cut/$weights
check_same "the same configuration" one/config.json cut/config.json
check_grep "the stamp holds the target" '"target": *"mixture"' one/config.json
check_grep "and the experts' hash" '"experts": *"[0-9a-f]{64}"' one/config.json
check_exit 73 "other experts" $run ${long%uneven}law -o one s
check_err "are another run" 'inputs'
check_exit 73 "another target" $run $net --steps 240 --target regret --experts uneven -o one s
find one | sort | xargs touch -h -d 2001-01-01
check "the same command again" $run $long -o one s
check_out "touches nothing" "" find one -newermt 2002-01-01
check "a batch in parts" $run $few --accumulate 4 --target mixture --experts uneven -o parts s
check "--plan" ddm-route-train $few --plan --target mixture --experts uneven -o m s
check_true "counts the experts" "$(awk '$1 == "experts_bytes" { print $2 }' "$OUT") > 4 * $(awk '$1 == "parameters" { print $2 }' "$OUT")"
check_absent "makes nothing" m

# Shards that are not divided, and experts of whose data nothing is known: a black box
awk -F '\t' 'BEGIN { print "#key\tcluster\tsplit" } !/^#/ { print $1 "\t0\t" $3 }' a.tsv >whole.tsv
ddm-shard -q -a whole.tsv --holdout .3 -o whole a.tar || exit 1
for k in 0 1 2; do
	mkdir -p box/expert_$k && cp uneven/expert_$k/diffusion_pytorch_model.safetensors box/expert_$k &&
		tr -d '\n' <uneven/expert_$k/config.json | sed 's/"partition": *"[^"]*",//; s/"cluster_sizes": *\[[^]]*\],//; s/, *"seal": *"[^"]*"//' >box/expert_$k/config.json || exit 1
done
check "a router for experts of an unknown partition" $run $net --steps 100 --target mixture --experts box -o box/router whole
check_grep "has as many logits as experts" '"num_clusters": 3' box/router/config.json
check_out "and no sizes of clusters" "" sed -n /cluster_sizes/p box/router/config.json
check "it routes" ddm-sample -q -n 3 --steps 2 --route top-1 -o p.tar box
