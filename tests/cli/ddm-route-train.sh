# ddm-route-train: requests, shards that do not fit, the best weights across interruptions, a repeated command.
. "$(dirname "$0")/tap.sh"

check_program ddm-route-train
weights=model.safetensors
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --lr 1e-3"
few="$net --steps 6 --checkpoint-every 2"
run="ddm-route-train -q"

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 3 --holdout .25 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1

# Requests that cannot be served
check_exit 2 "no -o" $run $few s
check_err "is named" ' -o '
check_exit 2 "no shards" $run $few -o m
check_exit 2 "two sets of shards" $run $few -o m s s
for o in "--cluster 0" "--predict velocity" "--time never" "--checkpoint-every soon" "--epochs 3" "--heads 3" "--patch 5"; do
	check_exit 2 "$o" $run $few $o -o m s
done
check_exit 66 "no such shards" $run $few -o m none
for f in cluster-2 holdout/cluster-1; do
	rm -rf bad && cp -R s bad && flip bad/$f/000000.tar.zst 200
	check_exit 65 "a bit of $f flipped" $run $few -o m bad
	check_err "is named" "$f/000000"
	cut_to bad/$f/000000.tar.zst 150
	check_exit 65 "$f truncated" $run $few -o m bad
	rm bad/$f/000000.tar.zst
	check_exit 66 "$f absent" $run $few -o m bad
done
check "--plan" ddm-route-train $few --plan -o m s
check_grep "counts the samples" '^samples	[0-9]+$' "$OUT"
check_absent "nothing was made" m

# The output
check "a router" ddm-route-train $few -o e/router s
check_grep "its configuration" '"num_clusters": 3' e/router/config.json
check_grep "is a router's" '"model_type": "router"' e/router/config.json
sizes=$(awk -F '\t' '$8 == "train" { print $3 }' s/MANIFEST.tsv | paste -sd ' ')
check_out "with the sizes of the clusters" "$sizes" sh -c "tr -d ' \n' <e/router/config.json |
	sed 's/.*\"cluster_sizes\":\[\([0-9,]*\)\].*/\1/; s/,/ /g'"
check_clean "no temporary is left" e
if command -v jq >/dev/null; then
	check "every line of the log is JSON" jq -e . e/router/train.jsonl
	check "validation by time: loss, accuracy, calibration" jq -se 'map(select(.val_by_time)) |
		length == 6 and all(.[].val_by_time[]; .loss > 0 and .accuracy >= 0 and .accuracy <= 1 and .ece >= 0 and .ece <= 1 and .ece_bins == 15 and .n > 0)' \
		e/router/train.jsonl
else
	skip "every line of the log is JSON" "no jq"
fi
check "three threads" $run $few --threads 3 -o e/three s
check "one thread" $run $few --threads 1 -o e/one s
check_same "make the same bytes" e/one/$weights e/three/$weights
check_same "as the default" e/one/$weights e/router/$weights
for k in 0 1 2; do
	ddm-train -q $net --steps 2 --predict x0 --cluster $k -o e/expert_$k s || exit 1
done
check "it routes" ddm-sample -n 3 --steps 2 --route top-1 -o p.tar e

# The same command again
find e/router | sort | xargs touch -h -d 2001-01-01
check "a finished command given again" ddm-route-train $few -o e/router s
check_out "touches nothing" "" find e/router -newermt 2002-01-01
check_exit 73 "other options on a finished run" $run $few --hidden 32 -o e/router s
check_err "are named" 'hidden: 16 -> 32'
check_exit 73 "other shards" sh -c "ddm-shard -q -a a.tsv --holdout .25 --level 9 -o t pics && $run $few -o e/router t"
check_err "are named" 'shards'
check_exit 65 "--init-weights an expert" $run $few --init-weights e/expert_0/diffusion_pytorch_model.safetensors -o m s
check_absent "nothing was made" m
check "--init-weights a router" $run $few --init-weights e/router/$weights -o init s
check_exit 73 "without --init-weights" $run $few -o init s
check_err "is another run" 'inputs'

# The best weights, not the last ones: the learning rate makes the held-out loss vary.
wild="$net --lr .02 --steps 240 --validate-every 2 --checkpoint-every 9 --ema-half-life 2"
check "a run that gets worse" $run $wild --threads 1 -o whole s
if command -v jq >/dev/null; then
	check "the best validation is not the last one" jq -se \
		'.[-1] | .event == "end" and .best_step < 240 and .best_val_loss > 0' whole/train.jsonl
	jq -s '.[-1].best_step' whole/train.jsonl >best
	check_grep "the weights say of which step they are" "\"step\":\"$(cat best)\"" whole/$weights
fi
check "--last" $run $wild --last -o last s
check_differ "takes the last weights" whole/$weights last/$weights
check_grep "and says so" '"step":"240"' last/$weights

# After SIGTERM and SIGKILL the best weights from before are still the best.
paused cut $run $wild -o cut s
kill -TERM $pid && kill -CONT $pid
wait $pid
RC=$?
[ $RC -eq 75 ] && [ "$(tap_lines "$ERR")" -eq 1 ]
tap_result $? "SIGTERM: exit 75, one line" "exit $RC"
check_absent "no weights yet" cut/$weights
check_exit 73 "--last on a run half done" $run $wild --last -o cut s
for pause in $(awk -v s="$$" 'BEGIN { srand(s); printf "%.2f %.2f", .1 + .4 * rand(), .1 + .4 * rand() }'); do
	killed_after "$pause" $run $wild -o cut s
	[ ! -e cut/$weights ] || cmp -s whole/$weights cut/$weights
	tap_result $? "kill -9 after $pause s: the weights are absent or whole"
done
check "to the end" $run $wild -o cut s
check_same "the same bytes" whole/$weights cut/$weights
check_same "the same configuration" whole/config.json cut/config.json
check_clean "no temporary is left" cut

# Softer targets and softer logits. A router that has learned 60 samples by heart is too certain of others.
ddm-synth gaussians --shape 1x4x4 -k 3 --rank 2 --separation 2 --floor .3 --seed 3 -o law 2>"$ERR" &&
	ddm-synth draw -n 1200 --holdout .95 --labels law.tsv -o law.tar law 2>"$ERR" && ddm-shard -q -a law.tsv --holdout .95 -o drawn law.tar || exit 1
heart="--model dit-nano/2 --hidden 32 --depth 1 --heads 2 --batch 16 --lr 1e-2 --steps 1200 --validate-every 1200 --last"
check "--label-smoothing" $run $few --label-smoothing .1 -o soft s
check_differ "changes the router" e/router/$weights soft/$weights
check_grep "and is in the stamp" '"label_smoothing": *0?\.1' soft/config.json
check_exit 2 "--label-smoothing 1" $run $few --label-smoothing 1 -o m s
check "--calibrate" $run $heart --calibrate -o cool drawn
if command -v jq >/dev/null; then
	check "a temperature above 1 lowers the held-out cross-entropy and the calibration error" jq -se 'map(select(.event == "calibrate")) |
		length == 1 and (.[0] | .temperature > 1.1 and .loss < .loss_before and .ece < .ece_before)' cool/train.jsonl
else
	skip "the temperature" "no jq"
fi
check "--calibrate a router that has not learned" ${run% -q} $heart --steps 6 --lr 1e-12 --calibrate -o flat drawn
check_err "ends at a bound and says so" 'that is the highest temperature tried: .* no better than chance'
check "again, killed after its last step" sh -c "cp -R cool again && rm again/$weights again/config.json && $run $heart --calibrate -o again drawn"
check_same "the same bytes" cool/$weights again/$weights
check_exit 73 "without --calibrate" $run $heart -o cool drawn
check_exit 2 "--calibrate without validation" $run $few --calibrate --validate-samples 0 -o m s

# From three clusters to four and to two. unit/test_head looks at the weights.
ddm-cluster -q -k 4 --holdout .25 -o more.tsv pics && ddm-shard -q -a more.tsv --holdout .25 -o more pics || exit 1
ddm-cluster -q -k 2 --holdout .25 -o fewer.tsv pics && ddm-shard -q -a fewer.tsv --holdout .25 -o fewer pics || exit 1
head="--steps 40 --batch 8 --checkpoint-every 3 --lr 1e-2 --head-only --from e/router"
check "a cluster more" $run $head -o four more
check_grep "is in the configuration" '"num_clusters": 4' four/config.json
check_grep "the network is that of the old router" '"hidden_size": 16' four/config.json
check "a cluster less" $run $head --rows 2,0 -o two fewer
check_grep "is in the stamp" '"rows": *"2,0"' two/config.json
check_grep "as is the head" '"head_only": *1' two/config.json
check "for experts" $run $head --target regret --experts e -o regret s
for pause in .05 .1; do
	killed_after $pause $run $head -o four-cut more
	[ ! -e four-cut/$weights ] || cmp -s four/$weights four-cut/$weights
	tap_result $? "kill -9 after $pause s: the weights are absent or whole"
done
check "to the end" $run $head -o four-cut more
check_same "the same bytes" four/$weights four-cut/$weights
check_exit 73 "another list" $run $head --rows 0,2 -o two fewer
check_exit 2 "fewer clusters without a list" $run $head -o m fewer
check_err "which clusters to keep is asked for" 'e/router has 3 clusters, and the new router has 2: say with --rows which to keep'
check_exit 2 "a list that is too short" $run $head --rows 0,1,2 -o m more
check_err "says so" '3 clusters are listed, and the new router has 4'
check_exit 2 "a cluster that is not there" $run $head --rows 0,1,3,new -o m more
check_exit 2 "--head-only alone" $run $few --head-only -o m s
check_exit 2 "--rows alone" $run $few --rows 0,1,2 -o m s
check_exit 2 "another network" $run $head --model dit-nano/4 -o m more
check_exit 2 "from an expert" $run --steps 2 --from e/expert_0 -o m more
check_exit 2 "from an exact router" $run --steps 2 --from law/router -o m more
check_exit 66 "from nothing" $run --steps 2 --from none -o m more
check_absent "nothing was made" m

# Without held-out samples there are no best weights. With an empty cluster one logit is never right.
ddm-cluster -q -k 2 --centroids-out c.npy -o two.tsv pics || exit 1
mkdir here
for i in 1 2 3 4; do cp pics/a/0000.png here/$i.png; done
ddm-cluster -q -k 2 --centroids c.npy -o here.tsv here && ddm-shard -q -a here.tsv -o hollow here || exit 1
check "an empty cluster, no held-out samples" $run $few -o one hollow
check_grep "the last weights" '"step":"' one/$weights
check_exit 2 "--calibrate without held-out samples" $run $few --calibrate -o m hollow
check_err "says what is missing" 'hollow has no held-out samples'
check_absent "nothing was made" m

# Files are limited to 32 KiB, so the weights cannot be written; without the limit they are.
(
	ulimit -f 64
	exec $run $few -o limit s
) >"$OUT" 2>"$ERR"
RC=$?
[ $RC -eq 74 ] && [ ! -e limit/$weights ]
tap_result $? "files may not grow: exit 74, no weights" "exit $RC"
check_clean "no temporary is left" limit
check "with room again" $run $few -o limit s
check_same "the same bytes" e/router/$weights limit/$weights
