#!/bin/sh
# Tests and measurements on a GPU, from the build tree (make check-cuda, make bench-cuda) or from a folder that `make cuda-bundle` wrote.
#
#	run.sh check [PATTERN]...      every test whose name holds a pattern; ends with "N passed, N failed, N skipped". BUDGET seconds in all
#	                               (540): a test that finds less than 10 s left is not run and counts as failed
#	run.sh memcheck [PATTERN]...   the same under compute-sanitizer, for accesses out of bounds; racecheck: for races in shared memory
#	run.sh sanitize                racecheck, then memcheck, of attention, norm and conv, within BUDGET seconds (540)
#	run.sh profile [PATTERN]...    where the time goes by op and by shape, and what cuBLASLt chose (train dit-xl/2 at 256 tokens, sampling by
#	                               eight experts at batch 64), with clocks, power and temperature beside; within BUDGET seconds (540).
#	                               LOG/profile.1, .2, ... hold what is printed
#	run.sh kernels [PATTERN]       Nsight Compute's report on the three slowest kernels of a line of bench_cuda (train dit-xl/2, 256), within
#	                               BUDGET seconds (540); LOG/kernels.tsv holds milliseconds, launches and name of each kernel seen
#	run.sh bench [ARGUMENT]...     bench_cuda with these arguments, as lines of tab separated values
#	run.sh peer [ARGUMENT]...      peer_cuda.py with PEER_PYTHON (python3)
#	run.sh table [PATTERN]...      both, and their ratios: parts whose name holds a pattern, each in a process of its own, so that one that
#	                               fails is named and the rest goes on. BUDGET seconds in all (540), SLICE for each line (1);
#	                               QUICK=-q PEER_DEVICE="--device cpu" DDM_TEST_DEVICE=cpu tries it without a GPU.
#	                               LOG/lines.tsv holds the lines, LOG/table.tsv name, ours, theirs, unit, and how many times as fast we are
#	run.sh cpu [PATTERN]...        the same machine's processors: training, sampling, k-means, writing and reading shards, with 1, 2, 4, 8 and
#	                               16 threads (THREADS), those that the machine has, within BUDGET seconds (540). LOG/cpu.tsv holds name, threads,
#	                               value, unit, how many times as fast as the fewest threads, and that over how many times as many they are
#	run.sh visit [PART]...         all of it in order, each part with BUDGET seconds of its own: A check, B profile, C table, D sanitize and
#	                               kernels, E cpu; or the parts whose letters are given. A part that fails does not stop the others. LOG/A, LOG/B,
#	                               .. are their folders, LOG/A.out, .. what they print; ends with a line for each: part, command, status, seconds
#
# Without a GPU all tests are skipped, with a line that says so; that is no failure unless DDM_TEST_REQUIRE holds the word cuda. BIN is the folder
# of the programs, CPU that of the processors' benchmarks, LOG the folder for their output, DDM_TEST_TIMEOUT the seconds for each test (120).
# sanitize and kernels print one line and exit with 0 where compute-sanitizer or ncu is missing. A part of profile, table or cpu that prints no line
# of its own, or a line without a finite number above 0, has failed. QUICK=-q takes tiny shapes, to try the order itself.
set -u
LC_ALL=C
CMOCKA_MESSAGE_OUTPUT=TAP
here=$(cd "$(dirname "$0")" && pwd) || exit 1
BIN=${BIN:-$here/bin}
LOG=${LOG:-$BIN/log}
# Those for AVX-512, if this machine has it; those for any x86-64; or those of the build.
instructions=cpu
if grep -q 'avx512f.*avx512dq.*avx512cd.*avx512bw.*avx512vl' /proc/cpuinfo 2>/dev/null && [ -d "$here/cpu-avx512" ]; then
	instructions=cpu-avx512
fi
CPU=${CPU:-$here/$instructions/tests/bench}
[ -d "$CPU" ] || CPU=$BIN/../bench
export BIN CPU
QUICK=${QUICK:-} PEER_DEVICE=${PEER_DEVICE:-}
begun=$(date +%s)
theirs=${LD_LIBRARY_PATH:-}
libraries=
[ -d "$here/lib" ] && libraries=$here/lib
# cuBLASLt, if it is not where the build found it: PyTorch has a copy.
for dir in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /opt/*/.venv/lib/python3*/site-packages/nvidia/cu*/lib \
	/usr/lib/python3*/site-packages/nvidia/cu*/lib /usr/local/lib/python3*/*-packages/nvidia/cu*/lib; do
	[ -e "$dir/libcublasLt.so.13" ] && libraries=${libraries:+$libraries:}$dir
done
# cuDNN, which is optional, likewise.
for dir in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /opt/*/.venv/lib/python3*/site-packages/nvidia/cudnn/lib \
	/usr/lib/python3*/site-packages/nvidia/cudnn/lib /usr/local/lib/python3*/*-packages/nvidia/cudnn/lib; do
	[ -e "$dir/libcudnn.so.9" ] && libraries=${libraries:+$libraries:}$dir
done
# NCCL likewise.
for dir in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib \
	/usr/lib/python3*/site-packages/nvidia/nccl/lib /usr/local/lib/python3*/*-packages/nvidia/nccl/lib; do
	[ -e "$dir/libnccl.so.2" ] && libraries=${libraries:+$libraries:}$dir
done
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LC_ALL CMOCKA_MESSAGE_OUTPUT LD_LIBRARY_PATH

# From TAP on standard input, NAME and the exit status, print a line "KIND<tab>NAME: CASE" for each case.
cases() {
	awk -v test="$1" -v rc="$2" -v require="${DDM_TEST_REQUIRE:-}" '
		function put(kind, text) { printf "%s\t%s: %s\n", kind, test, text; n++ }
		/^(not )?ok / {
			kind = tolower($0) ~ /# *skip/ ? "skipped" : /^not/ ? "failed" : "passed"
			text = $0
			sub(/^(not )?ok [0-9]* *-* */, "", text)
			if (kind == "skipped" && (" " require " ") ~ / cuda /)
				kind = "failed"
			if (kind == "failed")
				bad = 1
			put(kind, text)
		}
		/^1\.\.[0-9]+/ { planned = substr($0, 4) + 0 }
		END {
			if (n < planned)
				put("failed", n " results of " planned ", status " rc)
			else if (!n || (rc != 0 && !bad))
				put("failed", "ended with status " rc)
		}'
}

left() { echo $((begun + ${BUDGET:-540} - $(date +%s))); }

check() { # TOOL [PATTERN]...
	tool=$1
	shift
	mkdir -p "$LOG" || exit 1
	: >"$LOG/results"
	for test in "$BIN"/test_*; do
		name=${test##*/}
		case $name in *.*) continue ;; esac
		wanted=$([ $# -eq 0 ] && echo yes)
		for pattern; do
			case $name in *"$pattern"*) wanted=yes ;; esac
		done
		[ -n "$wanted" ] || continue
		seconds=$(left)
		if [ "$seconds" -lt 10 ]; then
			printf 'failed\t%s: not begun, the time is over\n' "$name" >>"$LOG/results"
			continue
		fi
		[ "$seconds" -lt "${DDM_TEST_TIMEOUT:-120}" ] || seconds=${DDM_TEST_TIMEOUT:-120}
		# shellcheck disable=SC2086
		timeout -k 5 "$seconds" $tool "$test" >"$LOG/$name" 2>&1 </dev/null
		rc=$?
		cases "$name" "$rc" <"$LOG/$name" >"$LOG/$name.cases"
		cat "$LOG/$name.cases" >>"$LOG/results"
		if grep -q '^failed' "$LOG/$name.cases"; then
			echo "---- $name (status $rc)"
			grep -v '^ok ' "$LOG/$name" | head -n 60
		fi
	done
	grep -v '^passed' "$LOG/results"
	if grep -q '^skipped' "$LOG/results" && ! grep -qv '^skipped' "$LOG/results"; then
		why=$(cat "$LOG"/test_* | sed -n 's/.*needs cuda: //p' | head -n 1)
		echo "no test ran: ${why:-no GPU can be used}"
	fi
	awk -F '\t' '{ n[$1]++ } END { printf "%d passed, %d failed, %d skipped\n", n["passed"], n["failed"], n["skipped"]; exit n["failed"] > 0 }' \
		"$LOG/results"
}

program() { # NAME: its path, if it is here
	# shellcheck disable=SC2012
	command -v "$1" || ls /usr/local/cuda*/bin/"$1" /opt/nvidia/*/"$1" /opt/nvidia/*/*/"$1" 2>/dev/null | head -n 1
}

sanitizer() { # KIND TOOL [PATTERN]...
	kind=$1 tool=$2
	shift 2
	[ "$kind" = memcheck ] && tool="$tool --report-api-errors no" # a test asks for more memory than there is
	check "$tool --tool $kind --error-exitcode 99" "$@"
}

sanitize() {
	tool=$(program compute-sanitizer)
	[ -n "$tool" ] || { echo "skipped: no compute-sanitizer here"; return 0; }
	status=0 logs=$LOG whole=${BUDGET:-540}
	# Races first, in half the time; then accesses out of bounds, in the rest.
	for kind in racecheck memcheck; do
		echo "# $kind"
		[ "$kind" = memcheck ] || BUDGET=$((whole / 2))
		[ "$kind" = racecheck ] || BUDGET=$whole
		LOG=$logs/$kind
		sanitizer "$kind" "$tool" attention norm conv || status=1
	done
	return $status
}

# From the output of a part, lines that begin with # left out: fails, with the reason, unless a name begins with NAME and all values are finite
# and above 0.
lines_good() { # NAME
	awk -F '\t' -v part="$1" '
		/^#/ { next }
		$2 !~ /^[0-9.]+(e[-+]?[0-9]+)?$/ || $2 + 0 <= 0 { print "not a number above 0: " $1 ": " $2; bad = 1 }
		index($1, part) == 1 { n++ }
		END { if (!n) print "no line of " part; exit bad || !n }'
}

# Each part runs beside a log of clocks, if nvidia-smi exists.
profile() { # [PATTERN]...
	[ $# -gt 0 ] || set -- "train dit-xl/2, 256" "sample 8 x xl/2, top-2, cfg, batch 64"
	mkdir -p "$LOG" || exit 1
	status=0 n=0
	for part; do
		n=$((n + 1)) seconds=$(left)
		[ "$seconds" -ge 10 ] || { echo "not begun: $part"; status=1; continue; }
		: >"$LOG/clocks.$n"
		smi=
		if command -v nvidia-smi >/dev/null; then
			nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader,nounits -lms 500 \
				>"$LOG/clocks.$n" 2>/dev/null </dev/null &
			smi=$!
		fi
		# shellcheck disable=SC2086
		{ timeout -k 5 "$seconds" "$BIN/bench_cuda" $QUICK -p -s "${SLICE:-1}" "$part" </dev/null; echo $? >"$LOG/status"; } | tee "$LOG/profile.$n"
		rc=$(cat "$LOG/status")
		[ -z "$smi" ] || { kill "$smi"; wait "$smi"; } 2>/dev/null
		[ "$rc" -eq 0 ] || { echo "failed, status $rc: $part"; status=1; }
		[ "$rc" -ne 0 ] || lines_good "$part" <"$LOG/profile.$n" || { echo "failed: $part"; status=1; }
		awk -F ', *' '
			NF == 4 { for (i = 1; i <= 4; i++) { if (!n || $i < low[i]) low[i] = $i + 0; if (!n || $i > high[i]) high[i] = $i + 0 }; n++ }
			END {
				if (n)
					printf "# %d readings: SM %d to %d MHz, memory %d to %d MHz, %d to %d W, %d to %d degrees\n", n, low[1], high[1],
						low[2], high[2], low[3], high[3], low[4], high[4]
				else
					print "# no nvidia-smi: clocks and power are not known"
			}' "$LOG/clocks.$n"
	done
	return $status
}

# First one cheap metric of every kernel, then the full report on two launches of each of the three with the longest total time. Kernels of the
# product library are left out, because we cannot change them, and its tuning launches many slow ones.
kernels() { # [PATTERN]
	tool=$(program ncu)
	[ -n "$tool" ] || { echo "skipped: no ncu here"; return 0; }
	mkdir -p "$LOG" || exit 1
	part=${1:-train dit-xl/2, 256}
	seconds=$(($(left) / 2))
	# shellcheck disable=SC2086
	timeout -k 5 "$seconds" "$tool" --csv --print-units base --print-kernel-base function --metrics gpu__time_duration.sum -c 4000 \
		"$BIN/bench_cuda" $QUICK -s 0.1 "$part" >"$LOG/ncu.csv" 2>"$LOG/ncu.err" </dev/null
	rc=$?
	# Base units: nanoseconds. Kernels are kept by name, without template arguments.
	awk -F '","' '
		/"Kernel Name"/ { for (i = 1; i <= NF; i++) { field = $i; gsub(/"/, "", field); at[field] = i }; next }
		at["Metric Value"] && NF >= at["Metric Value"] {
			if (tolower($at["Kernel Name"]) ~ /nvjet|cutlass|gemm|cublas|splitk|^sm[0-9]+_/)
				next
			value = $at["Metric Value"]
			gsub(/[",]/, "", value)
			ms[$at["Kernel Name"]] += value * 1e-6
			n[$at["Kernel Name"]]++
		}
		END { for (k in ms) printf "%.4f\t%d\t%s\n", ms[k], n[k], k }' "$LOG/ncu.csv" | sort -rn >"$LOG/kernels.tsv"
	head -n 20 "$LOG/kernels.tsv"
	if [ ! -s "$LOG/kernels.tsv" ]; then
		tail -n 20 "$LOG/ncu.err" "$LOG/ncu.csv"
		echo "failed, status $rc: ncu measured no kernel"
		return 1
	fi
	status=0
	head -n 3 "$LOG/kernels.tsv" | cut -f 3 >"$LOG/slowest"
	while read -r name; do
		seconds=$(left)
		[ "$seconds" -ge 10 ] || { echo "not begun: $name"; status=1; continue; }
		[ "$seconds" -le 90 ] || seconds=90
		echo "# $name"
		# shellcheck disable=SC2086
		timeout -k 5 "$seconds" "$tool" --print-kernel-base function --set full -k "$name" -s 2 -c 2 \
			"$BIN/bench_cuda" $QUICK -s 0.1 "$part" >"$LOG/ncu.$name" 2>&1 </dev/null || { echo "failed: ncu of $name"; status=1; }
		grep -v '^==PROF==' "$LOG/ncu.$name"
	done <"$LOG/slowest"
	return $status
}

# In the peer's libraries, not in ours.
peer() { LD_LIBRARY_PATH=$theirs "${PEER_PYTHON:-python3}" "$here/peer_cuda.py" "$@"; }

# Run one part, show its output and keep its lines, of which one must begin with LINE.
measure() { # NAME LINE SECONDS COMMAND...
	name=$1 line=$2 most=$3 seconds=$(left)
	shift 3
	[ "$seconds" -gt "$most" ] && seconds=$most
	if [ "$seconds" -lt 10 ]; then
		echo "not begun: $name" | tee -a "$LOG/failed"
		return
	fi
	# tee shows each line at once; the status is the command's, which a plain pipe would lose.
	{ timeout -k 5 "$seconds" "$@" </dev/null; echo $? >"$LOG/status"; } | tee "$LOG/part"
	rc=$(cat "$LOG/status")
	grep -v '^#' "$LOG/part" >>"$LOG/lines.tsv"
	if [ "$rc" -ne 0 ]; then
		echo "failed, status $rc: $name" | tee -a "$LOG/failed"
	elif ! lines_good "$line" <"$LOG/part"; then
		echo "failed: $name" | tee -a "$LOG/failed"
	fi
}

# The peer's lines beside ours of the same name, ignoring the suffix: the attention used, its precision, and the batch that fits.
ratios() {
	awk -F '\t' '
		function key(name) {
			sub(/^peer /, "", name)
			sub(/, (cudnn|flash|math|f32|tf32)$/, "", name)
			if (name ~ /^train /)
				sub(/, batch [0-9]+$/, "", name)
			return name
		}
		$1 !~ /^peer / { ours[key($1)] = $2; name[key($1)] = $1; next }
		key($1) in ours && $2 > 0 {
			k = key($1)
			same = $3 == "s" || $3 == "ms" ? $2 / ours[k] : ours[k] / $2
			printf "%s\t%s\t%s\t%s\t%.3f\n", substr($1, 6), ours[k], $2, $3, same
		}' "$LOG/lines.tsv"
}

table() { # [PATTERN]...
	mkdir -p "$LOG" || exit 1
	: >"$LOG/lines.tsv"
	: >"$LOG/failed"
	slice=${SLICE:-1}
	while IFS='|' read -r part ours other; do
		wanted=$([ $# -eq 0 ] && echo yes)
		for pattern; do
			case $part in *"$pattern"*) wanted=yes ;; esac
		done
		[ -n "$wanted" ] || continue
		# shellcheck disable=SC2086
		measure "$part" "$part" "$ours" "$BIN/bench_cuda" $QUICK -s "$slice" "$part"
		# shellcheck disable=SC2086
		[ "$other" -eq 0 ] ||
			measure "peer $part" "peer $part" "$other" env LD_LIBRARY_PATH="$theirs" "${PEER_PYTHON:-python3}" "$here/peer_cuda.py" $QUICK $PEER_DEVICE \
				-s "$slice" --budget "$other" "$part"
	done <<-END
		train dit-xl/2, 256|90|200
		sample|150|200
		attention|60|60
		clusters|60|60
		train dit-xl/2, 1024|60|90
		train dit-b/2|60|90
		product xl|60|0
		norm|30|0
		gate|30|0
		gelu|30|0
		add|30|0
		train dit-xl/2, 4096|60|90
		train dit-s/2|60|90
	END
	ratios >"$LOG/table.tsv"
	printf '\nname\tours\ttheirs\tunit\ttimes as fast\n'
	cat "$LOG/table.tsv"
	[ ! -s "$LOG/failed" ] || { cat "$LOG/failed"; return 1; }
}

# Programs of tests/bench. They look for ddm-shard two folders above their own. Reading from the disk does not depend on threads.
cpu() { # [PATTERN]...
	mkdir -p "$LOG" || exit 1
	: >"$LOG/all.tsv"
	: >"$LOG/failed"
	cores=$(nproc)
	for threads in ${THREADS:-1 2 4 8 16}; do
		if [ "$threads" -gt "$cores" ]; then
			echo "# not measured: $threads threads, this machine has $cores processors"
			continue
		fi
		while IFS='|' read -r program part; do
			wanted=$([ $# -eq 0 ] && echo yes)
			for pattern; do
				case $part in *"$pattern"*) wanted=yes ;; esac
			done
			[ -n "$wanted" ] || continue
			: >"$LOG/lines.tsv"
			# shellcheck disable=SC2086
			measure "$part, threads $threads" "$part" 120 "$CPU/$program" $QUICK -t "$threads" -s "${SLICE:-1}" "$part"
			awk -F '\t' -v OFS='\t' -v threads="$threads" 'NF >= 3 && $1 !~ /_cold$|disk_read$/ { print $1, threads, $2, $3 }' \
				"$LOG/lines.tsv" >>"$LOG/all.tsv"
		done <<-END
			bench_step|train dit-s/2, batch
			bench_sample|sample dit-s/2, batch
			bench_data|data.kmeans
			bench_data|data.shard_write
			bench_data|data.shard_read
		END
	done
	awk -F '\t' -v OFS='\t' '
		!($1 in first) { first[$1] = $3; fewest[$1] = $2; names[++n] = $1 }
		{ lines[$1] = lines[$1] sprintf("%s\t%.2f\t%.2f\n", $0, $3 / first[$1], $3 / first[$1] * fewest[$1] / $2) }
		END { for (i = 1; i <= n; i++) printf "%s", lines[names[i]] }' "$LOG/all.tsv" >"$LOG/cpu.tsv"
	printf '\n%s: %s\nname\tthreads\tvalue\tunit\ttimes as fast\tefficiency\n' "${CPU##*/cuda-bundle/}" \
		"$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
	cat "$LOG/cpu.tsv"
	[ ! -s "$LOG/failed" ] || { cat "$LOG/failed"; return 1; }
}

visit() { # [PART]...
	[ $# -gt 0 ] || set -- A B C D E
	mkdir -p "$LOG" || exit 1
	: >"$LOG/visit.tsv"
	status=0
	for letter; do
		case $letter in
		A) commands=check ;;
		B) commands=profile ;;
		C) commands=table ;;
		D) commands='sanitize kernels' ;;
		E) commands=cpu ;;
		*) echo "run.sh: no part $letter" >&2; exit 2 ;;
		esac
		: >"$LOG/$letter.out"
		for command in $commands; do
			start=$(date +%s)
			printf '\n==== %s %s\n' "$letter" "$command"
			{ LD_LIBRARY_PATH=$theirs LOG=$LOG/$letter sh "$here/run.sh" "$command" 2>&1; echo $? >"$LOG/visit.status"; } |
				tee -a "$LOG/$letter.out"
			rc=$(cat "$LOG/visit.status")
			[ "$rc" -eq 0 ] || status=1
			printf '%s\t%s\t%s\t%s\n' "$letter" "$command" "$rc" $(($(date +%s) - start)) >>"$LOG/visit.tsv"
		done
	done
	printf '\npart\tcommand\tstatus\tseconds\n'
	cat "$LOG/visit.tsv"
	return $status
}

what=${1:-check}
[ $# -eq 0 ] || shift
case $what in
check) check '' "$@" ;;
memcheck | racecheck | synccheck | initcheck)
	tool=$(program compute-sanitizer)
	[ -n "$tool" ] || { echo "run.sh: no compute-sanitizer here" >&2; exit 69; }
	DDM_TEST_TIMEOUT=${DDM_TEST_TIMEOUT:-1800} BUDGET=${BUDGET:-7200}
	sanitizer "$what" "$tool" "$@"
	;;
sanitize) sanitize ;;
profile) profile "$@" ;;
kernels) kernels "$@" ;;
bench) exec "$BIN/bench_cuda" "$@" ;;
peer) peer "$@" ;;
table) table "$@" ;;
cpu) cpu "$@" ;;
visit) visit "$@" ;;
*)
	sed -n 's/^#	/  /p' "$0" >&2
	exit 2
	;;
esac
