# ddm-train --extend: a run of 30 steps that is extended to 60 has the bytes of a run of 60.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
small="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --threads 1 --optimizer adamw --lr 1e-3 --warmup 0 --ema-half-life 5 --validate-every 10 --log-every 5"
base="ddm-train -q $small --predict x0 --checkpoint-every 9 --cluster all"
run="$base --schedule constant"
weights=diffusion_pytorch_model.safetensors
tensors() { tail -c +$((9 + $(od -An -v -tu8 -N 8 "$1"))) "$1"; }
lines() { grep '^{"step"' "$1/train.jsonl" | sed 's/,"images_per_s".*//'; }

# same NAME DIR STRAIGHT: compares the last checkpoint, the tensors of the model and the lines of the log
same() {
	for f in weights ema exp_avg exp_avg_sq; do
		check_same "$1: $f" "$3/train/step-00000060/$f.safetensors" "$2/train/step-00000060/$f.safetensors"
	done
	tensors "$2/$weights" >mine
	tensors "$3/$weights" >straight.tensors
	check_same "$1: the model" straight.tensors mine
	lines "$2" >mine
	lines "$3" >straight.lines
	check_same "$1: the log" straight.lines mine
}

check "60 steps" $run --steps 60 -o straight s
check "30 steps" $run --steps 30 -o m s
cp -R m short
check_exit 73 "60 on top, without --extend" $run --steps 60 -o m s
check_err "the length is named" 'steps: 30 -> 60'
check "60 on top" $run --extend --steps 60 -o m s
same "extended" m straight
grep -aq 'extended\\":\[30\]' m/$weights
tap_result $? "the stamp says where"
check_out "the same checkpoints" "$(ls straight/train)" ls m/train
find m -exec touch -h -d 2001-01-01 {} +
check "and again" $run --extend --steps 60 -o m s
check_out "touches nothing" "" find m -newermt 2002-01-01

# Impossible requests
check_exit 73 "with another rate" $run --extend --steps 90 --lr 2e-3 -o m s
check_err "it is named" 'lr: 0\.001 -> 0\.002'
check_exit 2 "fewer steps" $run --extend --steps 50 -o m s
check_err "both are named" 'is at step 60 already, and --extend asks for only 50 steps'
check_out "touches nothing" "" find m -type f -newermt 2002-01-01
check_exit 66 "nothing to extend" $run --extend --steps 60 -o none s
check_err "is said" 'none/train: no such folder: --extend'
check_absent "and nothing made" none
cp -R short bare && rm -r bare/train/*
check_exit 66 "no checkpoint to extend" $run --extend --steps 60 -o bare s
check_err "is said" 'needs a checkpoint to continue from, and there is none'
check_same "the model stands" short/$weights bare/$weights

# Killed during the extension: the shorter model still exists, and the same command continues.
cp -R short killed
held killed step-00000045 $run --extend --steps 60 -o killed s
kill -KILL $pid
wait $pid
check_same "killed on the way: the model of 30 steps stands" short/$weights killed/$weights
check "the same command again" $run --extend --steps 60 -o killed s
check "the same bytes as at once" diff -r -x train.jsonl -x .lock m killed

# An interrupted run that is extended, and a run that is extended twice
held early step-00000018 $run --steps 30 -o early s
kill -TERM $pid
await "SIGTERM is taken note of" noted $pid
: >"$hold.go"
gone 75 "interrupted at step 18" early
check "made longer" $run --extend --steps 60 -o early s
same "an interrupted run" early straight
check "40 steps" $run --extend --steps 40 -o short s
check "and 60" $run --extend --steps 60 -o short s
same "extended twice" short straight
grep -aq 'extended\\":\[30,40\]' short/$weights
tap_result $? "the stamp says where"

# The learning rate follows the schedule of the longer run; a router can be extended too.
check "a cosine of 20 steps" $base --schedule cosine --steps 20 -o cosine s
check "of 40" $base --extend --schedule cosine --steps 40 -o cosine s
check_grep "has the rate of 40 at step 25" '"step":25,.*"lr":0\.00034' cosine/train.jsonl
check "a router" ddm-route-train -q $small --steps 20 -o router s
check "made longer" ddm-route-train -q $small --extend --steps 30 -o router s
check_grep "ends at 30" '"event":"end","step":30' router/train.jsonl
