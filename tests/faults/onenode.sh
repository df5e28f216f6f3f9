# Sourced after tap.sh by the tests that need Slurm: a cluster of one machine and two nodes of one processor, without systemd, control groups or
# accounting. Jobs are run by the user of the test.
#
#	slurm_start [LINE]...   start it; each LINE is added to slurm.conf. Skips the whole test, with the reason, where it cannot be had
#	slurm_set LINE...       replace these settings of the running cluster
#	slurm_stop              stop it and whatever its jobs left; also called when the test ends in any way
#	state JOB               prints the job's state: PENDING, RUNNING, COMPLETED ..
#	in_state STATE JOB      whether it has that state
#	hurry JOB               let a requeued job start now: it would wait two minutes, the life of a credential
#	lose NODE JOB           the node dies with all that runs on it for the job; regain NODE brings it back
#	node NAME               prints the state of a node: idle, drained ..
#	due CMD...              until CMD succeeds; after two minutes a failed check, and the test ends
#
# Everything lies in the folder $cluster. Every daemon is stopped by its process number, and the processes of jobs are found by SLURM_CONF in their
# environment. Should the test be killed, a process in a session of its own does that.
cluster=$tap_dir/slurm
slurm_pids=

# sh -c "$slurm_sweep" sh CONF PID: kill every process of the cluster with this configuration but PID.
# shellcheck disable=SC2016
slurm_sweep='for p in /proc/[0-9]*; do
	[ "${p#/proc/}" = "$2" ] || [ "${p#/proc/}" = $$ ] || ! tr "\0" "\n" 2>/dev/null <"$p/environ" | grep -qxF "SLURM_CONF=$1" ||
		kill -KILL "${p#/proc/}" 2>/dev/null
done'

slurm_gone() {
	for slurm_p in $slurm_pids; do
		! kill -0 "$slurm_p" 2>/dev/null || return 1
	done
}

# The last started comes first, so that no daemon misses one that it needs.
slurm_stop() {
	for slurm_p in $slurm_pids; do
		kill "$slurm_p" 2>/dev/null
	done
	slurm_i=0
	while ! slurm_gone && [ $slurm_i -lt 100 ]; do
		sleep 0.05
		slurm_i=$((slurm_i + 1))
	done
	[ -z "$slurm_pids" ] || sh -c "$slurm_sweep" sh "$SLURM_CONF" $$
	slurm_pids=
}

slurm_lacks() {
	for slurm_p in munged slurmctld slurmd sbatch srun squeue scancel scontrol sinfo; do
		command -v $slurm_p >/dev/null 2>&1 || { echo "no $slurm_p (Debian: slurmctld slurmd slurm-client munge)"; return; }
	done
	[ "$(id -u)" -eq 0 ] || echo "slurmd must be started by root to run jobs"
}

# PROGRAM ARG...: a daemon in the background
slurm_daemon() {
	"$@" >>"$cluster/$1.out" 2>&1 </dev/null &
	slurm_pids="$! $slurm_pids"
}

slurm_idle() { [ "$(sinfo -h -N -p low -o %T 2>/dev/null | grep -c '^idle$')" -eq 2 ]; }

slurm_start() {
	PATH=$PATH:/usr/sbin:/sbin
	slurm_why=$(slurm_lacks)
	[ -z "$slurm_why" ] || skip_all "$slurm_why"
	slurm_host=$(hostname)
	# Two ports that nobody listens on, the second for the node n1 and the next for n2.
	slurm_port=$((20000 + $$ % 10000 * 3))
	mkdir -p "$cluster/state" "$cluster/job" && head -c 1024 /dev/urandom >"$cluster/key" && chmod 600 "$cluster/key" || exit 1
	cat >"$cluster/slurm.conf" <<-END
		ClusterName=ddm
		SlurmctldHost=$slurm_host(127.0.0.1)
		SlurmctldPort=$slurm_port
		SlurmdPort=$((slurm_port + 1))
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		CredType=cred/munge
		AuthInfo=socket=$cluster/munge.sock
		StateSaveLocation=$cluster/state
		SlurmdSpoolDir=$cluster/spool.%n
		SlurmctldPidFile=$cluster/slurmctld.pid
		SlurmdPidFile=$cluster/slurmd.%n.pid
		SlurmdLogFile=$cluster/slurmd.%n.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		MpiDefault=none
		SwitchType=switch/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		ReturnToService=2
		KillWait=8
		PreemptType=preempt/partition_prio
		PreemptMode=REQUEUE
		SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
		NodeName=n1 NodeHostname=$slurm_host NodeAddr=127.0.0.1 Port=$((slurm_port + 1)) CPUs=2
		NodeName=n2 NodeHostname=$slurm_host NodeAddr=127.0.0.1 Port=$((slurm_port + 2)) CPUs=2 Weight=10
		PartitionName=low Nodes=n[1-2] Default=YES PriorityTier=1 PreemptMode=REQUEUE
		PartitionName=high Nodes=n[1-2] PriorityTier=10 PreemptMode=OFF
	END
	for slurm_line; do
		echo "$slurm_line" >>"$cluster/slurm.conf"
	done
	SLURM_CONF=$cluster/slurm.conf
	export SLURM_CONF
	trap 'slurm_rc=$?; slurm_stop; (exit $slurm_rc); tap_end' EXIT
	env -u SLURM_CONF setsid sh -c 'while kill -0 "$2" 2>/dev/null; do sleep 1; done'"
		$slurm_sweep" sh "$SLURM_CONF" $$ >/dev/null 2>&1 </dev/null &
	slurm_daemon munged -F --force --key-file="$cluster/key" --socket="$cluster/munge.sock" --pid-file="$cluster/munged.pid" \
		--log-file="$cluster/munged.log" --seed-file="$cluster/munged.seed"
	until_true test -S "$cluster/munge.sock"
	slurm_daemon slurmctld -D -f "$SLURM_CONF"
	slurm_daemon slurmd -D -N n1 -f "$SLURM_CONF"
	slurm_daemon slurmd -D -N n2 -f "$SLURM_CONF"
	slurm_i=0
	while ! slurm_idle; do
		slurm_i=$((slurm_i + 1))
		[ $slurm_i -lt 200 ] || skip_all "no Slurm cluster can be started here: $(tail -n 1 "$cluster/slurmctld.out")"
		sleep 0.05
	done
}

# LINE...: replace these settings in the running cluster.
slurm_set() {
	for slurm_line; do
		sed -i "/^${slurm_line%%=*}=/d" "$SLURM_CONF"
		sed -i "1i$slurm_line" "$SLURM_CONF"
	done
	scontrol reconfigure
}

state() { scontrol show job "$1" -o 2>/dev/null | sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p' | sort -u; }

in_state() { [ "$(state "$2")" = "$1" ]; }

due() {
	until_true "$@" && return
	{ squeue; sinfo; tail -n 12 "$cluster/slurmctld.out"; } >"$OUT" 2>"$ERR"
	tap_result 1 "within two minutes: $*"
	exit 1
}

node() { sinfo -h -N -p low -n "$1" -o %T; }

# Jobs have the number in their environment, and their keepers in their title.
lose() {
	kill -KILL "$(cat "$cluster/slurmd.$1.pid")"
	for slurm_p in /proc/[0-9]*; do
		if tr '\0' '\n' 2>/dev/null <"$slurm_p/environ" | grep -qx "SLURM_JOB_ID=$2" || grep -q "^slurmstepd: \[$2\." "$slurm_p/cmdline" 2>/dev/null; then
			kill -KILL "${slurm_p#/proc/}" 2>/dev/null
		fi
	done
	scontrol update nodename="$1" state=down reason=test
}

regain() {
	slurm_daemon slurmd -D -N "$1" -f "$SLURM_CONF"
	scontrol update nodename="$1" state=resume
	due eval "[ \"\$(node $1)\" = idle ]"
}

hurry() {
	due in_state PENDING "$1"
	sleep 1.1 # a credential must be younger than the second in which the last one was revoked
	scontrol update jobid="$1" StartTime=now
}
