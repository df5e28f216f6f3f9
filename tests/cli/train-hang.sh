# --hang-timeout: a training that no longer gets on says where it hangs, on stderr and in its log, and ends with 75; one that was only stopped for a
# while goes on.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 -o a.tsv . && ddm-shard -q -a a.tsv -o s . || exit 1
run="ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --validate-samples 0 --threads 1 --cluster all"
short="$run --steps 20 --checkpoint-every 5 --log-every 1"
weights=diffusion_pytorch_model.safetensors
check_exit 2 "--hang-timeout 0" $short --hang-timeout 0 -o x s
check "an undisturbed run" $short -o whole s
check "one that is watched" $short --hang-timeout 1s -o watched s
check_same "the same bytes" whole/$weights watched/$weights

# hangs NAME PHASE STEPS POINT: the disk does not answer at POINT
hangs() {
	held "$1" "$4" $short --hang-timeout 1s -o "$1" s
	gone 75 "$1: ends with 75" "$1"
	check_err "and says where it is" "^ddm-train: $1: no step has ended for [12] s: after step ($3), in $2 for [12] s \\(--hang-timeout\\); the last checkpoint is intact: run the same command again to continue\$"
	check_grep "and so does the log" "\"event\":\"hung\",\"at\":($3),\"why\":\"$1: no step has ended .* in $2 for" "$1/train.jsonl"
	check "the same command again" $short --hang-timeout 60s -o "$1" s
	check_same "the bytes of an undisturbed run" whole/$weights "$1/$weights"
	check_clean "nothing is left" "$1"
}
hangs background "the writing of a checkpoint" "[5-9]|10" step-00000005
hangs last "the writing of a checkpoint" 20 step-00000020
hangs result "the writing of the result" 20 $weights

# Nobody reads stderr, whose pipe is full: it still ends
mkfifo pipe
sleep 60 <pipe &
reader=$!
hold=$tap_dir/tap/full.hold
(
	yes 2>&1 | dd bs=4096 count=16 status=none
	HOLD=step- HOLD_AT=$hold LD_PRELOAD=$preload_hold $short --hang-timeout 1s -o full s 2>&1
	echo $? >full.rc
) >pipe </dev/null &
await "stderr that nobody reads: it ends" [ -s full.rc ]
check_grep "with 75" '^75$' full.rc
check_grep "and its log says why" '"event":"hung"' full/train.jsonl
kill $reader

# Stopped as a whole for longer than the time
$run --steps 1000000000 --log-every 1 --hang-timeout 1s -o stopped s >/dev/null 2>stopped.err </dev/null &
pid=$!
await "it trains" grep -q '"step":9,' stopped/train.jsonl
kill -STOP $pid
sleep 2
at=$(sed -n 's/^{"step":\([0-9]*\),.*/\1/p' stopped/train.jsonl | tail -n 1)
kill -CONT $pid
await "stopped for 2 s, it goes on" grep -q "\"step\":$((at + 50))," stopped/train.jsonl
kill -TERM $pid
gone 75 "until a signal" stopped
check_err "ends it" 'interrupted; step [0-9]+ of'

if has_mpi; then
	$mpi -n 2 $run --steps 1000000000 --accumulate 2 --log-every 1 --hang-timeout 2s -o ranks s 2>ranks.err </dev/null &
	pid=$!
	await "two ranks train" grep -q '"step":9,' ranks/train.jsonl
	victim=$(second_rank "^ddm-train .*-o ranks s")
	kill -STOP "$victim"
	wait $pid
	RC=$?
	kill -KILL "$victim" 2>/dev/null
	[ $RC -eq 75 ]
	tap_result $? "a rank that stands still: the other ends with 75" "exit $RC"
	check_grep "and names it" '^ddm-train: rank 0: ranks: no step has ended for [234] s: .*, waiting for rank 1 ' ranks.err
	check_grep "also in the log" '"event":"hung".*waiting for rank 1' ranks/train.jsonl
else
	skip "a rank that stands still" "built without MPI, or no mpirun"
fi
