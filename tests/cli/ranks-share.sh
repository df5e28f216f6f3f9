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
hidden='{ split($1, c, ","); all += c[1]; exposed += c[2] } END { exit !(all > 0 && exposed >= 0 && exposed < all) }'
check "a part of the seconds in calls was hidden" sh -c 'sed -n "s/.*\"comm_s\":\([^,]*\),\"comm_exposed_s\":\([^,]*\),.*/\1,\2/p" adamw-2/train.jsonl | awk "$1"' - "$hidden"
