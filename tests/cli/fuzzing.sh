# The fuzzing campaign (tests/fuzz/campaign.sh) with scripts as targets: its summary, where it continues, when it fails.
. "$(dirname "$0")/tap.sh"

mkdir -p fuzz/tests/fuzz
target() { # NAME: its behaviour on stdin; $gather is the folder that gathers, $prefix where findings go
	{
		cat <<'END_OF_HEAD'
#!/bin/sh
for a; do
	case $a in
	-artifact_prefix=*) prefix=${a#*=} ;;
	-max_total_time=*) echo "time ${a#*=}" >>"$0.calls" ;;
	-*) ;;
	*) echo "folder $a" >>"$0.calls"; [ -n "${gather:-}" ] || gather=$a ;;
	esac
done
END_OF_HEAD
		cat
	} >"fuzz/tests/fuzz/fuzz_$1"
	chmod +x "fuzz/tests/fuzz/fuzz_$1"
}
target tsv <<'END'
echo x >"$gather/$(find "$gather" -type f | grep -c '')"
echo '#9 NEW    cov: 12 ft: 34 corp: 5/6b'
echo 'stat::number_of_executed_units: 99'
END
target tar <<'END'
echo x >"${prefix}crash-1"
echo 'SUMMARY: libFuzzer: deadly signal'
exit 77
END
campaign() {
	tap_run env B="$PWD/fuzz" SECONDS=7 sh "$SRC/tests/fuzz/campaign.sh" "$@"
}
GATHERED=none
export GATHERED
campaign tsv
[ "$RC" -eq 0 ]
tap_result $? "a campaign without findings" "exit $RC"
campaign tsv
check_out "a line a campaign, new inputs beside gathered ones" \
	"#target	executions	coverage	features	inputs	new	findings
tsv	99	12	34	1	1	0
tsv	99	12	34	2	1	0" cut -f 1,3- fuzz/summary.tsv
check_out "it goes on from what was gathered, and from the committed inputs" "time 7
folder $PWD/fuzz/corpus/tsv
folder tests/fuzz/corpus/tsv" sed 3q fuzz/tests/fuzz/fuzz_tsv.calls
campaign tar
[ "$RC" -eq 1 ]
tap_result $? "a finding fails it" "exit $RC"
check_grep "says what" 'deadly signal' "$OUT"
check_out "and is counted" "1" sh -c 'tail -n 1 fuzz/summary.tsv | cut -f 8'
target tar <<'END'
echo 'stat::number_of_executed_units: 1'
END
campaign tar
[ "$RC" -eq 1 ]
tap_result $? "until it is looked into" "exit $RC"
rm -f fuzz/found/tar-crash-1
campaign tar
[ "$RC" -eq 0 ]
tap_result $? "and removed" "exit $RC"
campaign model
[ "$RC" -eq 1 ]
tap_result $? "a target that is not built" "exit $RC"
mkdir -p before/tsv
echo 1 >before/tsv/one
echo 2 >before/tsv/two
tar -C before -cf - tsv | zstd -q >before.tar.zst
rm -r fuzz/corpus/tsv
GATHERED=$PWD/before.tar.zst
campaign tsv
[ "$RC" -eq 0 ]
tap_result $? "a first campaign" "exit $RC"
check_out "begins with what was kept" "99	12	34	3	1	0" sh -c 'tail -n 1 fuzz/summary.tsv | cut -f 3-'
# Inputs that earlier campaigns kept.
mkdir gathered
zstd -qdc "$SRC/tests/fuzz/gathered.tar.zst" | tar -C gathered -xf -
for target in gathered/*; do
	name=${target##*/}
	check "what reaches code of $name" "$B/tests/fuzz/fuzz_$name" -once "$target"
done
