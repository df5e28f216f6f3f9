#!/bin/sh
# Runs a small campaign (clusters, shards, two experts, a router, samples) again and again under random faults, each command until it succeeds, and
# compares every output with that of an undisturbed campaign. Prints a table; exits 1 at the first bug. `make soak` calls it.
#
#	TIME=30     how long: seconds, or 10m, 1h. A campaign that has begun is finished
#	EVERY=60    mean seconds between two faults
#	SEED=1      of the schedule: which faults, after how long. What they hit depends on the machine
#	KINDS="..." kinds of faults (tests/faults/soak.c): kill term stop full io clock, and rank where there is MPI
#	STEPS=N     steps of each training (2000)
#	SAVE=TIME   between checkpoints (5s)
#	RANKS=N     of one of the experts (2 where there is MPI, else 1)
#
# Goodput is the time of an undisturbed campaign over that of a disturbed one. By the clock it needs a machine with nothing else to do. By processor
# time it holds on a shared one, but counts no waiting; ranks of MPI spin while they wait, so give RANKS=1 for it.
#	B=build     the build; it holds tests/soak and tests/clockjump.so
set -u
LC_ALL=C
export LC_ALL
SRC=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
B=$(cd "${B:-$SRC/build}" && pwd) || exit 1
PATH=$B:$PATH
SOAK_CLOCK=$B/tests/clockjump.so
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PATH SOAK_CLOCK OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
TIME=${TIME:-30} EVERY=${EVERY:-60} SEED=${SEED:-1} STEPS=${STEPS:-2000} SAVE=${SAVE:-5s} RANKS=${RANKS:-2}
case $TIME in
*h) TIME=$((${TIME%h} * 3600)) ;;
*m) TIME=$((${TIME%m} * 60)) ;;
*s) TIME=${TIME%s} ;;
esac
ranks=
[ -e "$B/mpi-engine.so" ] && command -v mpirun >/dev/null && [ "$RANKS" -gt 1 ] && ranks="--ranks $RANKS --accumulate 2 --comm-timeout 20"
KINDS=${KINDS:-kill term stop full io clock${ranks:+ rank}}
weights=diffusion_pytorch_model.safetensors

dir=$(mktemp -d "${TMPDIR:-/tmp}/ddm-soak.XXXXXX") || exit 1
trap 'cd / && rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$dir" || exit 1
mkdir pics
for p in a b; do
	tar xzf "$SRC/tests/golden/eval-$p.tar.gz" -C pics || exit 1
done

now() { date +%s%N | sed 's/......$//'; } # milliseconds
cpu() { # milliseconds of processor time of all commands that ended
	ticks=$(sed 's/.*) //' /proc/$$/stat | awk '{ print $14 + $15 }')
	echo $((ticks * 1000 / $(getconf CLK_TCK)))
}
bug() {
	echo "soak: SEED=$SEED: $*" >&2
	[ ! -s log ] || tail -n 5 log >&2
	exit 1
}

# The schedule: a line for each fault, "KIND PAUSE ARG".
awk -v seed="$SEED" -v every="$EVERY" -v kinds="$KINDS" 'BEGIN {
	srand(seed)
	n = split(kinds, kind, " ")
	for (i = 0; i < 20000; i++) {
		k = kind[1 + int(rand() * n)]
		pause = every * (.5 + rand())
		arg = rand()
		arg = k == "clock" ? int((arg - .5) * 2e8) : k == "stop" || k == "full" ? .2 + 2 * arg : 0
		printf "%s %.3f %.3f\n", k, pause, arg
	}
}' >schedule
exec 3<schedule
next_fault() {
	read -r kind pause arg <&3 || kind=none pause=1e9 arg=0
	due=$(awk -v now="$(now)" -v pause="$pause" 'BEGIN { printf "%.0f", now + 1000 * pause }')
}

last_step() { sed -n 's/^{"step":\([0-9]*\),.*/\1/p' "$1" 2>/dev/null | tail -n 1; }
resumed_step() { sed -n 's/^{"event":"start","step":\([0-9]*\),.*/\1/p' "$1" 2>/dev/null | tail -n 1; }

# run LOG CMD...: CMD until it succeeds, under the faults that are due. LOG is that of a training, or -.
run() {
	trainlog=$1 reached=
	shift
	refused=0 failures=0
	while :; do
		wait=$(awk -v now="$(now)" -v due="$due" 'BEGIN { w = (due - now) / 1000; print (w > 0 ? w : 0) }')
		[ "$disturbed" -eq 1 ] && hit=$kind || hit=none
		case "$hit $*" in # a full disk ends mpirun itself, with a status of its own
		full*--ranks* | io*--ranks*) hit=none ;;
		esac
		"$B/tests/soak" "$hit" "$wait" "$arg" told "$@" >>log 2>&1 </dev/null
		rc=$?
		struck=$(cat told)
		if [ -n "$reached" ] && [ $rc -ne 73 ]; then # a fault before this attempt, which has begun a log of its own
			from=$(resumed_step "$trainlog")
			[ "${from:-0}" -ge "$reached" ] || lost=$((lost + reached - ${from:-0}))
			reached=
		fi
		if [ "$struck" -eq 1 ]; then
			echo "$hit" >>struck
			next_fault
			if [ $rc -ne 0 ]; then
				ends=$((ends + 1))
				[ "$trainlog" = - ] || reached=$(last_step "$trainlog")
			fi
		fi
		case $rc in # 138: ranks get SIGTERM as SIGUSR1 (cmd/ranks.c), and may not have begun to catch signals
		0) return ;;
		73) # ranks of a killed launcher may live for a moment
			refused=$((refused + 1))
			[ $refused -lt 60 ] || bug "still refused: $*"
			sleep .2
			continue
			;;
		69 | 74 | 75 | 137 | 138 | 143) [ "$struck" -eq 1 ] && failures=0 || failures=$((failures + 1)) ;;
		*) bug "exit $rc, which no fault explains ($hit): $*" ;;
		esac
		[ $failures -lt 2 ] || bug "exit $rc twice without a fault: $*"
	done
}

campaign() {
	mkdir "$1" && cd "$1" || exit 1
	train="--model dit-nano/8 --hidden 32 --depth 2 --heads 2 --batch 16 --threads 1 --steps $STEPS --checkpoint-every $SAVE --log-every 10"
	: >log
	run - ddm-cluster -q -k 2 --holdout .2 --threads 1 -o a.tsv ../pics
	run - ddm-shard -q --threads 1 -a a.tsv --holdout .2 -o shards ../pics
	# shellcheck disable=SC2086
	run model/expert_0/train.jsonl ddm-train -q $train --predict x0 --cluster 0 --validate-every 200 -o model/expert_0 shards
	# shellcheck disable=SC2086
	run model/expert_1/train.jsonl ddm-train -q $train --predict x0 --cluster 1 --validate-every 200 $ranks -o model/expert_1 shards
	# shellcheck disable=SC2086
	run model/router/train.jsonl ddm-route-train -q $train --validate-every 200 -o model/router shards
	run - ddm-sample -q --threads 1 -n 8 --steps 10 --route top-2 -o samples.tar model
	grep -q '"event":"end"' model/*/train.jsonl || bug "a log has no end"
	rm log told
	[ ! -e struck ] || cat struck >>../struck && rm -f struck
	find . -type f ! -name train.jsonl ! -name '*.timing.json' ! -path '*/train/step-*' -exec sha256sum {} + | sort -k 2 >../sums
	left=$(find . -name '*.tmp*' -o -name '.*.part*' -o -name .lock)
	[ -z "$left" ] || bug "left behind: $left"
	cd "$dir" || exit 1
}

disturbed=0 lost=0 ends=0 due=0 kind=none arg=0
: >struck
t0=$(now) c0=$(cpu)
campaign whole
calm=$(($(now) - t0)) calm_cpu=$(($(cpu) - c0))
mv sums whole.sums
disturbed=1 rounds=0 spent=0 spent_cpu=0
next_fault
until=$(($(now) + TIME * 1000))
while [ "$(now)" -lt $until ]; do
	t0=$(now) c0=$(cpu)
	campaign round
	spent=$((spent + $(now) - t0)) spent_cpu=$((spent_cpu + $(cpu) - c0))
	rounds=$((rounds + 1))
	cmp -s whole.sums sums || bug "campaign $rounds has other bytes: $(diff whole.sums sums | grep '^>' | head -n 3)"
	rm -rf round
done
# Once more undisturbed, because the machine may have other work.
disturbed=0
t0=$(now) c0=$(cpu)
campaign round
calm=$(((calm + $(now) - t0) / 2)) calm_cpu=$(((calm_cpu + $(cpu) - c0) / 2))

for k in $KINDS; do
	printf 'faults: %s\t%d\n' "$k" "$(grep -c "^$k\$" struck)"
done
printf 'campaigns, each with the bytes of an undisturbed one\t%d\n' "$rounds"
awk -v calm_cpu=$calm_cpu -v spent_cpu=$spent_cpu -v calm=$calm -v spent=$spent -v rounds=$rounds -v lost=$lost -v ends=$ends -v steps="$STEPS" 'BEGIN {
	printf "seconds of a campaign without faults\t%.1f\nseconds of one with faults\t%.1f\n", calm / 1000, spent / rounds / 1000
	printf "goodput\t%.1f %%\ngoodput by processor time\t%.1f %%\n", 100 * calm * rounds / spent, 100 * calm_cpu * rounds / spent_cpu
	printf "attempts that a fault ended\t%d\nsteps done again for each\t%.0f of %d\n", ends, ends ? lost / ends : 0, steps
}'
