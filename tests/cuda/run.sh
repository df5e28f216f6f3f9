#!/bin/sh
# Tests and measurements on a GPU, from the build tree (make check-cuda, make bench-cuda) or from a folder that `make cuda-bundle` wrote.
#
#	run.sh check [PATTERN]...      every test whose name holds a pattern; ends with "N passed, N failed, N skipped"
#	run.sh memcheck [PATTERN]...   the same under compute-sanitizer, for accesses out of bounds; racecheck: for races in shared memory
#	run.sh bench [ARGUMENT]...     bench_cuda with these arguments, as lines of tab separated values
#	run.sh peer [ARGUMENT]...      peer_cuda.py with PEER_PYTHON (python3)
#	run.sh table [PATTERN]...      both, and their ratios: parts whose name holds a pattern, each in a process of its own, so that one that
#	                               fails is named and the rest goes on. BUDGET seconds in all (540), SLICE for each line (1);
#	                               QUICK=-q PEER_DEVICE="--device cpu" DDM_TEST_DEVICE=cpu tries it without a GPU.
#	                               LOG/lines.tsv holds the lines, LOG/table.tsv name, ours, theirs, unit, and how many times as fast we are
#
# Without a GPU, which is said, all tests are skipped, which is no failure unless DDM_TEST_REQUIRE holds the word cuda. BIN is where the programs are, LOG
# where what they print is kept, DDM_TEST_TIMEOUT seconds for each test (300).
set -u
LC_ALL=C
CMOCKA_MESSAGE_OUTPUT=TAP
here=$(cd "$(dirname "$0")" && pwd) || exit 1
BIN=${BIN:-$here/bin}
LOG=${LOG:-$BIN/log}
QUICK=${QUICK:-} PEER_DEVICE=${PEER_DEVICE:-}
theirs=${LD_LIBRARY_PATH:-}
libraries=
[ -d "$here/lib" ] && libraries=$here/lib
# The product library, where it is not where the build found it: PyTorch brings one.
for dir in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /opt/*/.venv/lib/python3*/site-packages/nvidia/cu*/lib \
	/usr/lib/python3*/site-packages/nvidia/cu*/lib /usr/local/lib/python3*/*-packages/nvidia/cu*/lib; do
	[ -e "$dir/libcublasLt.so.13" ] && libraries=${libraries:+$libraries:}$dir
done
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LC_ALL CMOCKA_MESSAGE_OUTPUT LD_LIBRARY_PATH

# TAP on standard input, NAME and exit status: one line "KIND<tab>NAME: CASE" for each case.
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
		# shellcheck disable=SC2086
		timeout -k 5 "${DDM_TEST_TIMEOUT:-300}" $tool "$test" >"$LOG/$name" 2>&1 </dev/null
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

sanitizer() { # KIND
	command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer /opt/nvidia/*/compute-sanitizer 2>/dev/null | head -n 1
}

# In the libraries it brings, not in ours.
peer() { LD_LIBRARY_PATH=$theirs "${PEER_PYTHON:-python3}" "$here/peer_cuda.py" "$@"; }

left() { echo $((begun + ${BUDGET:-540} - $(date +%s))); }

# One part, its lines kept; what it says is shown.
measure() { # NAME SECONDS COMMAND...
	name=$1 most=$2 seconds=$(left)
	shift 2
	[ "$seconds" -gt "$most" ] && seconds=$most
	if [ "$seconds" -lt 10 ]; then
		echo "not begun: $name" | tee -a "$LOG/failed"
		return
	fi
	timeout -k 5 "$seconds" "$@" >"$LOG/part" </dev/null
	rc=$?
	grep -v '^#' "$LOG/part" >>"$LOG/lines.tsv"
	cat "$LOG/part"
	[ "$rc" -eq 0 ] || echo "failed, status $rc: $name" | tee -a "$LOG/failed"
}

# Lines of the peer beside ours of the same name, but for what follows: whose attention, how exact, and the batch that fits.
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
	begun=$(date +%s)
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
		measure "$part" "$ours" "$BIN/bench_cuda" $QUICK -s "$slice" "$part"
		# shellcheck disable=SC2086
		[ "$other" -eq 0 ] ||
			measure "peer $part" "$other" env LD_LIBRARY_PATH="$theirs" "${PEER_PYTHON:-python3}" "$here/peer_cuda.py" $QUICK $PEER_DEVICE \
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

what=${1:-check}
[ $# -eq 0 ] || shift
case $what in
check) check '' "$@" ;;
memcheck | racecheck | synccheck | initcheck)
	tool=$(sanitizer)
	[ -n "$tool" ] || { echo "run.sh: no compute-sanitizer here" >&2; exit 69; }
	DDM_TEST_TIMEOUT=${DDM_TEST_TIMEOUT:-1800}
	[ "$what" = memcheck ] && tool="$tool --report-api-errors no" # a test asks for more memory than there is
	check "$tool --tool $what --error-exitcode 99" "$@"
	;;
bench) exec "$BIN/bench_cuda" "$@" ;;
peer) peer "$@" ;;
table) table "$@" ;;
*)
	sed -n 's/^#	/  /p' "$0" >&2
	exit 2
	;;
esac
