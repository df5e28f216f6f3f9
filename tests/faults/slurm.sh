# Sourced after tap.sh by the tests that need Slurm: a cluster of one machine and two nodes, without systemd, control groups or accounting.
#
#	slurm_start [LINE]...   start it; each LINE is added to slurm.conf. Skips the whole test, with the reason, where it cannot be had
#	slurm_stop              stop it and whatever its jobs left; also called when the test ends in any way
#	state JOB               prints the job's state: PENDING, RUNNING, COMPLETED...
#	in_state STATE JOB      whether it has that state
#	hurry JOB               let a requeued job start now: it would wait two minutes, the life of a credential
#	ended JOB               whether it has ended and its node is free again
#
# Everything lies in $cluster. Every daemon is stopped by its process number, and every process of a job by the folder in its environment.
cluster=$tap_dir/slurm
slurm_pids=

# The processes of this cluster's jobs.
slurm_left() {
	for slurm_p in /proc/[0-9]*; do
		tr '\0' '\n' <"$slurm_p/environ" 2>/dev/null | grep -qxF "SLURM_CONF=$cluster/slurm.conf" && echo "${slurm_p#/proc/}"
	done | grep -vxF "$$"
}

slurm_stop() {
	for slurm_p in $slurm_pids; do
		kill "$slurm_p" 2>/dev/null
	done
	for slurm_p in $slurm_pids; do
		wait "$slurm_p" 2>/dev/null
	done
	slurm_pids=
	slurm_left | xargs -r kill -KILL 2>/dev/null
}
