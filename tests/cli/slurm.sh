# Training on a Slurm cluster of one machine, which the test starts: preemption, requeue, time limit, scancel, a drained and a lost node, arrays, and
# make LAUNCH=slurm. Whatever happens to a job, the final bytes are those of an undisturbed run.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/onenode.sh"
slurm_start
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs the tests

weights=diffusion_pytorch_model.safetensors
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 -o a.tsv . && ddm-shard -q -a a.tsv -o s . || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2"
train="ddm-train -q $net --predict x0 --batch 8 --validate-samples 0 --threads 1 --log-every 10 --steps 4000 --checkpoint-every 1000000"
for k in 0 1; do
	check "an undisturbed run of cluster $k" $train --cluster $k -o whole-$k s
done
job="$SRC/share/slurm/ddm.sbatch"

# submit NAME OPTION... COMMAND...: submits a job with the log NAME.log, which becomes $id
submit() {
	name=$1
	shift
	id=$(sbatch --parsable --output="$name.log" "$@")
}

# Prints the process of ddm-train that writes to the folder $1.
trainer_of() {
	for p in /proc/[0-9]*; do
		[ "$(readlink "$p/exe")" = "$B/ddm-train" ] && tr '\0' ' ' <"$p/cmdline" | grep -q -- "-o $1 " && echo "${p#/proc/}"
	done 2>/dev/null
}

# pause NAME: hold its training between its first lines and its end, so that it cannot be over before its job is disturbed. Slurm sends SIGCONT before
# SIGTERM, and go lets it go on.
pause() {
	due grep -q '"step":10,' "$1/train.jsonl"
	pid=$(trainer_of "$1")
	kill -STOP "$pid" && [ ! -e "$1/$weights" ]
	tap_result $? "$1: it trains"
}
go() { kill -CONT "$pid"; }

# finished NAME RESTARTS: the job ends well after so many restarts, with the bytes of an undisturbed run
finished() {
	due in_state COMPLETED "$id"
	in_state COMPLETED "$id" && scontrol show job "$id" -o | grep -q " Restarts=$2 "
	tap_result $? "$1: the job completes, after $2 restarts" "$(state "$id"): $(tail -n 3 "$1.log")"
	check_same "$1: the bytes of an undisturbed run" whole-0/$weights "$1/$weights"
	# What a killed process was writing stays while a container's first process has not yet reaped it.
	[ "$1" = lost ] || check_clean "$1: nothing is left" "$1"
}

saved() { check_grep "$1: the program has saved its state" 'interrupted; step [0-9]+ of 4000 is saved' "$1.log"; }

# The warning that comes before the time limit to the shell alone, up to a minute early. Slurm looks at times every half minute: the rest of the test
# fills this time. This Slurm has no RequeueExit, so the script requeues its job.
submit limit -w n2 --time=1 --signal=B:USR1@60 "$job" $train --cluster 0 -o limit s
pause limit
limit_pid=$pid limit_id=$id

submit preempted -w n1 --exclusive "$job" $train --cluster 0 -o preempted s
pause preempted
sbatch -p high -w n1 --exclusive --output=/dev/null --wrap true >/dev/null
hurry "$id"
saved preempted
finished preempted 1
check_grep "preempted: the log of the first attempt" 'job [0-9]+ on n1, restart 0: ddm-train' preempted.log
check_grep "preempted: the log of the second" 'job [0-9]+ on n1, restart 1: ddm-train' preempted.log

submit requeued -w n1 "$job" $train --cluster 0 -o requeued s
pause requeued
scontrol requeue "$id"
hurry "$id"
saved requeued
finished requeued 1

# cancelled NAME: a job that is cancelled stays so, and another goes on with its run
cancelled() {
	submit "$1" -w n1 "$job" $train --cluster 0 -o "$1" s
	pause "$1"
	scancel "$id"
	due in_state CANCELLED "$id"
	saved "$1"
	due grep -q 'ddm.sbatch: ended with 75' "$1.log"
	in_state CANCELLED "$id"
	tap_result $? "$1: the job stays cancelled" "$(state "$id")"
	submit "$1" -w n1 "$job" $train --cluster 0 -o "$1" s
	finished "$1" 0
}
cancelled cancelled

# Cut off by the limit, without a warning: the job has failed, but its state is saved.
submit cut -w n1 --signal=B:USR1@1 "$job" $train --cluster 0 -o cut s
pause cut
scontrol update jobid="$id" EndTime=now+1
due in_state TIMEOUT "$id"
saved cut
submit cut -w n1 "$job" $train --cluster 0 -o cut s
finished cut 0

# A drained node ends what it runs; the jobs of a lost one go elsewhere.
submit drained -w n1 "$job" $train --cluster 0 -o drained s
pause drained
scontrol update nodename=n1 state=drain reason=test
go
finished drained 0
scontrol update nodename=n1 state=resume
due eval '[ "$(node n1)" = idle ]'
submit lost "$job" $train --checkpoint-every 100 --cluster 0 -o lost s
pause lost
check_grep "lost: on the first node" 'on n1, restart 0' lost.log
lose n1 "$id"
hurry "$id"
finished lost 1
check_grep "lost: then on the second" 'on n2, restart 1' lost.log
regain n1

due grep -q 'passing on SIGUSR1' limit.log
kill -CONT "$limit_pid"
id=$limit_id
scontrol update jobid="$id" TimeLimit=10 # so that the second attempt is not warned too on a machine that is slow
hurry "$id"
saved limit
check_grep "limit: the script requeues the job" 'ddm.sbatch: interrupted; requeueing' limit.log
finished limit 1

# With RequeueExit Slurm does it, but not to a job that was cancelled either.
slurm_set RequeueExit=75
submit exit -w n1 "$job" $train --cluster 0 -o exit s
pause exit
scancel --batch --signal=USR1 "$id"
go
hurry "$id"
saved exit
finished exit 1
! grep -q requeueing exit.log
tap_result $? "exit: Slurm requeues by RequeueExit, not the script"
cancelled cancelled-too

# SIGUSR2 to the steps: a checkpoint, and the job goes on.
submit usr2 -w n1 "$job" $train --cluster 0 -o usr2 s
pause usr2
scancel --signal=USR2 "$id"
go
due sh -c 'ls usr2/train/step-*/MANIFEST.json'
finished usr2 0

# Two experts at a time on a node, of which only two are asked for; the others have nothing to do.
submit packed --array=0-2:2 --ntasks=2 --export=ALL,DDM_COUNT=2 "$job" $train --cluster %a -o packed/expert_%a s
due in_state COMPLETED "$id"
for k in 0 1; do
	check_same "packed: the bytes of expert $k" whole-$k/$weights packed/expert_$k/$weights
done
check_absent "packed: nothing else" packed/expert_2 packed/expert_3

# A recipe: an index is requeued on the way, which leaves the exit status of the array at 75, and make goes on when the experts are there.
cat >recipe.mk <<END
SAMPLES = 0000.png
PARTITION = .
RUN = run
K = 2
NET = $net --predict x0
EXPERT_EPOCHS = 4000
BATCH = 16
TRAIN_FLAGS = --validate-samples 0 --log-every 10 -q --threads 1
ROUTER_NET = $net
ROUTER_FLAGS = --steps 20 --validate-samples 0 -q --threads 1
include $SRC/share/recipes/ddm.mk
END
mkdir shards && cp -r s/. shards && cp a.tsv assign.tsv && touch shards/MANIFEST.tsv
check "a recipe, here" make -f recipe.mk RUN=here experts router
make -j -f recipe.mk LAUNCH=slurm experts router >make.out 2>&1 </dev/null &
make_pid=$!
due grep -q '"step":10,' run/model/expert_0/train.jsonl
pid=$(trainer_of run/model/expert_0)
kill -STOP "$pid"
id=$(sed -n 's/.*Submitted batch job //p' make.out | while read -r j; do scontrol show job "$j" -o | grep -q 'ArrayTaskId=' && echo "$j"; done | head -n 1)
scancel --batch --signal=USR1 "${id}_0"
go
hurry "${id}_0"
wait "$make_pid"
RC=$?
cp make.out "$OUT"
[ $RC -eq 0 ]
tap_result $? "make LAUNCH=slurm goes on when the experts are there" "exit $RC"
for f in model/expert_0/$weights model/expert_1/$weights model/router/model.safetensors; do
	check_same "the bytes of a run here: $f" here/$f run/$f
done
check_out "make LAUNCH=slurm again: nothing to do" "make: Nothing to be done for 'experts'." make -f recipe.mk LAUNCH=slurm experts
# Two indices at a time; the call is killed, and given again: it waits for the jobs that it left and submits nothing that runs beside them.
cat >slow.sh <<'END'
echo "$1 begins" >>slow.txt
until [ -e go ]; do sleep 0.1; done
echo "$1 ends" >>slow.txt
touch "made$1"
END
again="$SRC/share/slurm/ddm-submit -k 2 made%a --output=slow.log -- sh slow.sh %a"
$again >first.out 2>&1 </dev/null &
pid=$!
due eval '[ "$(grep -c begins slow.txt)" -eq 2 ]'
pkill -P $pid -x sbatch
wait $pid
$again >again.out 2>&1 </dev/null &
pid=$!
due grep -q 'Submitted' again.out
id=$(sed -n 's/Submitted batch job //p' again.out)
due eval 'scontrol show job "$id" -o | grep -q "Reason=Dependency "'
touch go
wait $pid
RC=$?
cat again.out slow.txt >"$OUT"
[ $RC -eq 0 ] && [ "$(wc -l <slow.txt)" -eq 8 ] && [ "$(head -n 4 slow.txt | cut -d ' ' -f 2 | tr '\n' ' ')" = "begins begins ends ends " ]
tap_result $? "ddm-submit, killed and called again, waits for its jobs" "exit $RC"

# A job that cannot make its file is an error, even if Slurm calls the job complete.
check_exit_any 1 "a file that does not come" "$SRC/share/slurm/ddm-submit" never --output=never.log -- true
check_err "which is named" 'ddm-submit: never is missing: see the log of the job'

slurm_stop
for p in /proc/[0-9]*; do
	tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qxF "SLURM_CONF=$SLURM_CONF" && [ "${p#/proc/}" != $$ ] && echo "$p $(tr '\0' ' ' <"$p/cmdline")"
done >left
[ ! -s left ]
tap_result $? "no process is left" "$(cat left)"
