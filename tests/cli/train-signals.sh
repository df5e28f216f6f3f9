# ddm-train writes a checkpoint after every signal of a batch system or a terminal, also after repeated ones, and during a checkpoint.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 -o a.tsv . && ddm-shard -q -a a.tsv -o s . || exit 1
run="ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --validate-samples 0 --threads 1 --cluster all"
endless="$run --steps 1000000 --checkpoint-every 1000000 --log-every 1"
weights=diffusion_pytorch_model.safetensors

# Each signal, while it trains
for sig in TERM INT HUP QUIT USR1 USR2 XCPU; do
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
for sig in TERM XCPU USR2; do
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
held late step- $short --grace 1 -o late s
kill -TERM $pid
gone 75 "--grace: 75, with the disk still busy" late
check_err "which says so" 'no checkpoint could be written within 1 s \(--grace\); the last one is intact: run the same command again to continue'
check_absent "the checkpoint is not there" late/train/step-00000005
check "the same command again" $short --grace 1 -o late s
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
