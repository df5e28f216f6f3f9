# Several ranks of a training whose gradient has many buckets: sums that run beside the backward pass, the same bytes as of one process.
. "$(dirname "$0")/tap.sh"

need_mpi
weights=diffusion_pytorch_model.safetensors
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
# 592,128 parameters: 37 chunks of the norm, 12 or 10 buckets
net="--model dit-nano/8 --hidden 96 --depth 3 --heads 3 --batch 8 --lr 1e-3 --threads 1 --predict x0 --cluster all"
run="ddm-train -q $net --validate-every 4 --checkpoint-every 3 --accumulate 8"

# same NAME DIR DIR: the result, the last checkpoint of step 6, and the hash chain
same() {
	for f in "$2"/*.json "$2"/*.safetensors "$2"/train/step-00000006/* "$2"/train/chain.jsonl; do
		check_same "$1: ${f#"$2"/}" "$f" "$3/${f#"$2"/}"
	done
}

for o in adamw muon schedule-free; do
	check "$o: one process" $run --steps 6 --optimizer $o -o $o-1 s
	for n in 2 4; do
		check "$o: $n ranks" $run --steps 6 --optimizer $o --ranks $n -o $o-$n s
		same "$o: $n ranks" $o-1 $o-$n
	done
done
# The backward pass of a step takes tens of milliseconds, so the thread that sums gets its turn before the pass ends.
long="--model dit-nano/8 --hidden 288 --depth 3 --heads 3 --batch 64 --accumulate 8 --lr 1e-3 --threads 1 --predict x0 --cluster all"
check "a training of long steps" ddm-train -q $long --steps 10 --ranks 2 -o long s
hidden='{ split($1, c, ","); all += c[1]; exposed += c[2] } END { exit !(all > 0 && exposed >= 0 && exposed < all) }'
check "a part of the seconds in calls was hidden" sh -c 'sed -n "s/.*\"comm_s\":\([^,]*\),\"comm_exposed_s\":\([^,]*\),.*/\1,\2/p" long/train.jsonl | awk "$1"' - "$hidden"

# The parts of a batch are added as one tree: with as few parts as ranks each rank has one.
check "no accumulation: one process" $run --steps 3 --accumulate 4 --optimizer adamw --offload optimizer -o few-1 s
check "no accumulation: four ranks" $run --steps 3 --accumulate 4 --optimizer adamw --offload optimizer --ranks 4 -o few-4 s
check_same "no accumulation: the same bytes" few-1/$weights few-4/$weights

# A router keeps its best weights, which a rank holds its share of; sheets of samples are drawn with the average.
router="ddm-route-train -q --model dit-nano/8 --hidden 96 --depth 2 --heads 3 --batch 8 --steps 6 --threads 1 --accumulate 4 --validate-every 2
	--checkpoint-every 3 --sample-every 3 --calibrate"
check "a router of one process" $router -o r1 s
for n in 2 4; do
	check "a router of $n ranks" $router --ranks $n -o r$n s
	for f in model.safetensors train/step-00000006/best.safetensors train/step-00000003/best.safetensors train/samples-00000006.png train/chain.jsonl; do
		check_same "a router of $n ranks: $f" r1/$f r$n/$f
	done
done

# Another number of ranks goes on from a checkpoint, also after a rank was killed.
stages="$run --steps 200 --optimizer adamw --checkpoint-every 5 --keep 100"
stage() { # RANKS: go on until there is another checkpoint
	before=$(ls stages/train 2>/dev/null | grep -c step-)
	$stages --ranks $1 -o stages s 2>err &
	pid=$!
	until_true sh -c "[ \$(ls stages/train 2>/dev/null | grep -c 'step-[0-9]*\$') -gt $before ]"
	kill -TERM $pid
	wait $pid
	tap_result $(($? != 75)) "a part by $1 ranks, stopped" "$(cat err)"
}
stage 1
stage 2
stage 4
check "the rest by one process" $stages -o stages s
check "one process does all of it" $stages -o alone s
for f in $weights train/step-00000200/exp_avg.safetensors train/step-00000200/ema.safetensors train/chain.jsonl; do
	check_same "the same bytes: $f" alone/$f stages/$f
done
long="$run --steps 60 --optimizer muon --checkpoint-every 4"
$mpi -n 4 $long -o killed s 2>err &
pid=$!
until_true test -e killed/train/step-00000008
kill -KILL $(second_rank "^ddm-train .*-o killed s") 2>/dev/null
wait $pid
tap_result $(($? == 0)) "a killed rank ends the training"
check "two ranks go on" $long --ranks 2 -o killed s
check "one process does all of it" $long -o whole s
check_same "the same bytes" whole/$weights killed/$weights
check_same "and the same moments" whole/train/step-00000060/exp_avg.safetensors killed/train/step-00000060/exp_avg.safetensors

# --plan says what a rank holds, and what rank 0 sends in a step.
planned() { awk -F '\t' -v k="$1" '$1 == k { print $2 }' "$2"; }
for o in adamw muon; do
	$run --steps 40 --optimizer $o --ranks 1 --plan s -o x >plan1
	for n in 2 4; do
		$run --steps 40 --optimizer $o --ranks $n --plan s -o x >plan$n
		$run --steps 40 --optimizer $o --ranks $n --log-every 10 --validate-every 40 --checkpoint-every 40 --chain-every 0 -o sent-$o-$n s
		sent=$(sed -n 's/^{"step":20,.*"comm_bytes":\([0-9]*\),.*/\1/p' sent-$o-$n/train.jsonl)
		step=$(planned comm_bytes plan$n)
		# ten steps, of which the last also gathers the gradient for its line: at most as much as a step
		[ $((sent)) -ge $((10 * step)) ] && [ $((sent)) -le $((11 * step)) ]
		tap_result $? "$o: $n ranks send what the plan says" "sent ${sent:-nothing}, planned 10 times ${step:-nothing}"
	done
done
