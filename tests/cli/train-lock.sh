# A trainer is paused while its folder's lock is removed or the folder is moved, and another trainer finishes the run there: the first ends with 69
# and changes nothing.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 -o a.tsv . && ddm-shard -q -a a.tsv -o s . || exit 1
run="ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --validate-samples 0 --threads 1 --cluster all"
short="$run --steps 20 --checkpoint-every 5 --log-every 1 --sample-every 7"
weights=diffusion_pytorch_model.safetensors
sums() { (cd "$1" && find . -type f ! -path '*.tmp*' -exec sha256sum {} + | sort -k 2); }

# lost DIR POINT HOW...: holds a trainer at POINT, runs HOW to take the folder away, lets another run finish there, and continues the first
lost() {
	dir=$1 point=$2
	shift 2
	held "$dir" "$point" $short -o "$dir" s
	"$@"
	check "$dir: another run to its end" $short -o "$dir" s
	sums "$dir" >before
	: >"$hold.go"
	gone 69 "$dir: the first ends with 69" "$dir"
	check_err "and says why" "$dir/\\.lock: was removed or replaced"
	sums "$dir" >after
	check_same "$dir: nothing was touched" before after
	check_clean "$dir: no temporary is left" "$dir"
	check "$dir: the finished run is found" $short -o "$dir" s
}

lost removed step- rm removed/.lock
lost moved step- mv moved moved.away
# A file that is being written under a claim (file/claim.h): there the trainer gives way only if the folder was moved.
lost sheet samples-00000014 mv sheet sheet.away
lost last step-00000020 rm last/.lock
lost configured config.json mv configured configured.away
lost published $weights mv published published.away
check_same "the bytes are those of any run" removed/$weights moved/$weights

# The same by a signal that no program can notice: stopped in the middle of its work, and continued
for take in "rm stopped/.lock" "mv stopped stopped.away"; do
	rm -rf stopped
	$run --steps 1000000000 --checkpoint-every 3 --log-every 1 -o stopped s >/dev/null 2>stopped.err </dev/null &
	pid=$!
	await "it trains" grep -q '"step":9,' stopped/train.jsonl
	kill -STOP $pid
	sleep .1
	$take
	[ ! -d stopped ] || rm -r stopped/train
	check "$take, while it is stopped: another run to its end" $short -o stopped s
	sums stopped >before
	kill -CONT $pid
	gone 69 "continued, it ends with 69" stopped
	sums stopped >after
	diff before after >"$OUT"
	check_same "nothing was touched: no checkpoint, log or result" before after
	check_same "the bytes are those of any run" removed/$weights stopped/$weights
	rm -rf stopped.away
done

# Before it writes a line of its log
$run --steps 1000000000 --checkpoint-every 1000000000 --log-every 1 -o log s >/dev/null 2>log.err </dev/null &
pid=$!
await "it trains" grep -q '"step":1,' log/train.jsonl
rm log/.lock
gone 69 "without its lock it ends by itself" log
check_err "and says why" 'log/\.lock: was removed or replaced'
check "and the folder is free" $short -o log s
