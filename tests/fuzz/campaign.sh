#!/bin/sh
# Runs the targets that `make fuzz` built, SECONDS each, one after the other, and ends with 1 where one found something.
#
#	B=build-fuzz SECONDS=60 tests/fuzz/campaign.sh [PATTERN]...     those whose name holds one of the patterns; all without
#
# A target begins with its committed inputs and with what earlier campaigns found ($B/corpus/NAME), and adds to that. An input that
# crashes it, is slow, or wants too much memory is kept as $B/found/NAME-*. What is worth committing, minimised:
#
#	$B/tests/fuzz/fuzz_NAME -merge=1 NEW tests/fuzz/corpus/NAME $B/corpus/NAME
set -u
SRC=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
B=$(cd "${B:-build-fuzz}" 2>/dev/null && pwd) || { echo "campaign.sh: no build directory: make fuzz" >&2; exit 1; }
cd "$SRC" || exit 1
mkdir -p "$B/found"
failed=0

wanted() {
	[ $# -gt 1 ] || return 0
	name=$1
	shift
	for p; do
		case $name in *"$p"*) return 0 ;; esac
	done
	return 1
}

for source in tests/fuzz/fuzz_*.c; do
	name=$(basename "$source" .c)
	name=${name#fuzz_}
	wanted "$name" "$@" || continue
	seeds=$(sed -n 's/^REPLAY_MAIN("\(.*\)")$/\1/p' "$source")
	mkdir -p "$B/corpus/$name"
	began=$(date +%s)
	# allocator_may_return_null: a size read from a file may be more than there is, and must then be an error.
	ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16 "$B/tests/fuzz/fuzz_$name" -max_total_time="${SECONDS:-60}" \
		-timeout=90 -rss_limit_mb=2560 -max_len=65536 -print_final_stats=1 -artifact_prefix="$B/found/$name-" \
		"$B/corpus/$name" "$seeds" >"$B/found/$name.log" 2>&1
	rc=$?
	coverage=$(grep -o 'cov: [0-9]* ft: [0-9]*' "$B/found/$name.log" | tail -n 1)
	runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$B/found/$name.log")
	echo "$name: ${runs:-0} runs in $(($(date +%s) - began)) s, ${coverage:-no coverage}, exit $rc"
	if [ "$rc" -ne 0 ]; then
		failed=1
		grep -E '^SUMMARY|ERROR|artifact' "$B/found/$name.log" | sed 's/^/  /'
	fi
done
exit $failed
