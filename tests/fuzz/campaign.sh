#!/bin/sh
# Runs the targets that `make fuzz` built, SECONDS each, one after the other, and exits with 1 if one found something.
#
#	B=build-fuzz SECONDS=60 tests/fuzz/campaign.sh [PATTERN]...     those whose name holds one of the patterns; all without
#
# A target begins with its committed inputs and with what earlier campaigns gathered ($B/corpus/NAME; the first time GATHERED, which is
# tests/fuzz/gathered.tar.zst), and adds to that. An input that crashes it, is slow, or wants too much memory is kept as
# $B/found/NAME-*; until it is gone from there the campaign fails.
#
# $B/summary.tsv has a line for every target and campaign, the newest last: target, seconds, executions, coverage (edges), features,
# inputs (in the gathered corpus, at the end), new (of them from this campaign), findings (in $B/found, in all). gather.sh keeps what
# is worth it.
set -u
SRC=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
B=$(cd "${B:-build-fuzz}" 2>/dev/null && pwd) || { echo "campaign.sh: no build directory: make fuzz" >&2; exit 1; }
cd "$SRC" || exit 1
mkdir -p "$B/found"
limit=${SECONDS:-60}
gathered=${GATHERED:-tests/fuzz/gathered.tar.zst}
failed=0
summary=$B/summary.tsv
[ -s "$summary" ] || printf '#target\tseconds\texecutions\tcoverage\tfeatures\tinputs\tnew\tfindings\n' >"$summary"

count() { find "$@" -type f | grep -c ''; }

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
	[ -x "$B/tests/fuzz/fuzz_$name" ] || { echo "campaign.sh: $name is not built: make fuzz" >&2; failed=1; continue; }
	seeds=$(sed -n 's/^REPLAY_MAIN("\(.*\)")$/\1/p' "$source")
	if [ ! -d "$B/corpus/$name" ]; then
		mkdir -p "$B/corpus/$name"
		zstd -qdc "$gathered" 2>/dev/null | tar -C "$B/corpus" -xf - "$name" 2>/dev/null
	fi
	log=$B/found/$name.log
	before=$(count "$B/corpus/$name")
	began=$(date +%s)
	# allocator_may_return_null: a size from a file may exceed the memory, which must be an error.
	ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16 "$B/tests/fuzz/fuzz_$name" -max_total_time="$limit" \
		-timeout=90 -rss_limit_mb=2560 -max_len=65536 -print_final_stats=1 -artifact_prefix="$B/found/$name-" \
		"$B/corpus/$name" "$seeds" >"$log" 2>&1
	rc=$?
	spent=$(($(date +%s) - began))
	coverage=$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -n 1)
	edges=$(echo "$coverage" | cut -d ' ' -f 2) features=$(echo "$coverage" | cut -d ' ' -f 4)
	runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
	inputs=$(count "$B/corpus/$name")
	found=$(find "$B/found" -name "$name-*" | grep -c '')
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$spent" "${runs:-0}" "${edges:-0}" "${features:-0}" "$inputs" \
		$((inputs - before)) "$found" >>"$summary"
	echo "$name: ${runs:-0} runs in $spent s, ${coverage:-no coverage}, $((inputs - before)) new inputs, $found findings, exit $rc"
	if [ "$rc" -ne 0 ] || [ "$found" -ne 0 ]; then
		failed=1
		grep -E '^SUMMARY|ERROR|artifact' "$log" | sed 's/^/  /'
	fi
done
exit $failed
