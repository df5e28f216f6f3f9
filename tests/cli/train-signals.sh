# ddm-train writes a checkpoint after every signal of a batch system or a terminal, also after repeated ones, and during a checkpoint; goes on after
# SIGUSR2; and stops before --max-time is over.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 -o a.tsv . && ddm-shard -q -a a.tsv -o s . || exit 1
run="ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --validate-samples 0 --threads 1 --cluster all"
endless="$run --steps 1000000 --checkpoint-every 1000000 --log-every 1"
weights=diffusion_pytorch_model.safetensors

# Each signal, while it trains
for sig in TERM INT HUP QUIT USR1 XCPU; do
	FOREGROUND=1 LD_PRELOAD=$preload_hold $endless -o $sig s >/dev/null 2>$sig.err </dev/null &
	pid=$!
	await "$sig: it trains" grep -q '"step":1,' $sig/train.jsonl
	kill -$sig $pid
	gone 75 "SIG$sig: 75 and one line" $sig
	check_err "which says what to do" 'interrupted; step [0-9]+ of 1000000 is saved: run the same command again'
	at=$(sed -n 's/.*; step \([0-9]*\) of .*/\1/p' "$ERR")
	[ -f "$sig/train/step-$(printf %08d "${at:-0}")/MANIFEST.json" ] && [ ! -e $sig/$weights ]
	tap_result $? "SIG$sig: that step is saved, and there are no weights"
done

# A signal while a checkpoint is written and training goes on: one is enough, and a second has no effect.
short="$run --steps 20 --checkpoint-every 5 --log-every 1"
check "an undisturbed run" $short -o whole s
for sig in TERM XCPU USR1; do
	held save-$sig step- $short -o save-$sig s
	kill -$sig $pid
	await "SIG$sig is taken note of" noted $pid
	kill -$sig $pid
	await "and again" noted $pid
	: >"$hold.go"
	gone 75 "SIG$sig twice, in a checkpoint: 75" save-$sig
	check_err "with a step up to the next checkpoint" 'interrupted; step ([5-9]|10) of 20 is saved'
	at=$(sed -n 's/.*; step \([0-9]*\) of .*/\1/p' "$ERR")
	[ -f save-$sig/train/step-00000005/MANIFEST.json ] && [ -f "save-$sig/train/step-$(printf %08d "${at:-0}")/MANIFEST.json" ]
	tap_result $? "SIG$sig: that step is saved, and the checkpoint that was being written is complete"
	check_clean "no temporary is left" save-$sig
	check "SIG$sig: the same command again" $short -o save-$sig s
	check_same "the bytes of an undisturbed run" whole/$weights save-$sig/$weights
done

# SIGUSR2 while it trains: a checkpoint, and training goes on.
said="ddm-train ${run#ddm-train -q } --steps 1000000 --checkpoint-every 1000000 --log-every 1"
FOREGROUND=1 LD_PRELOAD=$preload_hold $said -o usr2 s >/dev/null 2>usr2.err </dev/null &
pid=$!
await "USR2: it trains" grep -q '"step":1,' usr2/train.jsonl
kill -USR2 $pid
await "SIGUSR2: a checkpoint" grep -Eq '^step [0-9]+ of 1000000 is saved$' usr2.err
at=$(sed -n 's/^step \([0-9]*\) of 1000000 is saved$/\1/p' usr2.err)
[ -f "usr2/train/step-$(printf %08d "${at:-0}")/MANIFEST.json" ]
tap_result $? "SIGUSR2: the checkpoint of the step it names" "step ${at:-none}"
await "SIGUSR2: training goes on" grep -q "\"step\":$((at + 5))," usr2/train.jsonl
kill -USR2 $pid
await "SIGUSR2 again: another checkpoint" eval '[ "$(grep -c "is saved$" usr2.err)" -eq 2 ]'
kill -TERM $pid
wait $pid
RC=$?
[ $RC -eq 75 ]
tap_result $? "then SIGTERM: 75" "exit $RC"

# SIGUSR2 twice while a checkpoint is written: the run ends as one that nobody disturbed, with the same regular checkpoints.
held save-USR2 step- $short -o save-USR2 s
for n in 1 2; do
	kill -USR2 $pid
	await "SIGUSR2 $n is taken note of" noted $pid
done
: >"$hold.go"
wait $pid
RC=$?
cp save-USR2.err "$ERR"
[ $RC -eq 0 ] && [ ! -s save-USR2.err ]
tap_result $? "SIGUSR2 twice, in a checkpoint: 0, and nothing to say with -q" "exit $RC"
check_same "the bytes of an undisturbed run" whole/$weights save-USR2/$weights
(cd whole/train && ls) >whole.list
(cd save-USR2/train && ls) >usr2.list
check_same "and the same checkpoints" whole.list usr2.list
check_clean "no temporary is left" save-USR2

# --max-time: it stops in time and the same command goes on; the chain ends with the bytes of one run.
long="$run --steps 12000 --checkpoint-every 5000 --log-every 1000"
check "a longer run" $long -o once s
rounds=0
while [ $rounds -lt 60 ]; do
	tap_run $long --max-time 1s -o chain s
	[ $RC -eq 75 ] || break
	[ $rounds -gt 0 ] || cp "$ERR" first
	rounds=$((rounds + 1))
done
[ $RC -eq 0 ] && [ $rounds -gt 0 ]
tap_result $? "--max-time 1s, again and again: 75, and 0 at the end" "exit $RC after $rounds rounds"
check_grep "it says why it stops" '^ddm-train: out of time; step [0-9]+ of 12000 is saved: run the same command again$' first
check_same "the bytes of one run" once/$weights chain/$weights

# A checkpoint that took 6 s leaves no time for two more within 12 s: it stops as soon as it knows, at 6 s, not at 12.
began=$(date +%s)
held slow step- $endless --checkpoint-every 5 --max-time 12s -o slow s
sleep 6
: >"$hold.go"
gone 75 "--max-time, on a slow disk: 75" slow
check_err "out of time" 'out of time; step [0-9]+ of 1000000 is saved'
check_true "it left time for the checkpoint" "$(($(date +%s) - began)) < 11"

# The third typed SIGINT ends the program at once
held typed step- $short -o typed s
for n in 1 2; do
	kill -INT $pid
	await "SIGINT $n is taken note of" noted $pid
done
kill -INT $pid
wait $pid
RC=$?
[ $RC -eq 130 ]
tap_result $? "the third SIGINT ends it at once" "exit $RC"
check "the same command again" $short -o typed s
check_same "the bytes of an undisturbed run" whole/$weights typed/$weights
check_clean "what was left half written is removed" typed

# --grace: the disk is too slow
for t in 0 1x 2000000s; do
	check_exit 2 "--grace $t" $short --grace $t -o late s
	check_err "it says what is allowed" "--grace: '$t' is not a time (such as 90, 15m or 2h|from 1 to 1000000 seconds)\$"
done
held late step- $short --grace 1s -o late s
kill -TERM $pid
gone 75 "--grace: 75, with the disk still busy" late
check_err "which says so" 'no checkpoint could be written within 1 s \(--grace\); the last one is intact: run the same command again to continue'
check_absent "the checkpoint is not there" late/train/step-00000005
check "the same command again" $short --grace 1s -o late s
check_same "the bytes of an undisturbed run" whole/$weights late/$weights
check_clean "what was left half written is removed" late

# A signal after the last step: the model is finished.
held last $weights $short -o last s
kill -TERM $pid
await "SIGTERM is taken note of" noted $pid
: >"$hold.go"
wait $pid
RC=$?
[ $RC -eq 0 ]
tap_result $? "SIGTERM while the weights are published: 0" "exit $RC"
check_same "and they are there" whole/$weights last/$weights
: >last/.lock
check "a process that was killed behind them has left its lock: again" $short -o last s
check_absent "which is removed" last/.lock

# The router: the same handlers.
router="ddm-route-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --validate-samples 0 --threads 1 --steps 20 --log-every 1"
check "an undisturbed router" $router -o router s
held routed step- $router --checkpoint-every 5 -o routed s
kill -USR2 $pid
await "SIGUSR2 is taken note of" noted $pid
kill -TERM $pid
await "SIGTERM is taken note of" noted $pid
: >"$hold.go"
gone 75 "ddm-route-train, SIGUSR2 and SIGTERM: 75" routed
check "the same command again" $router --checkpoint-every 5 -o routed s
check_same "the bytes of an undisturbed run" router/model.safetensors routed/model.safetensors
