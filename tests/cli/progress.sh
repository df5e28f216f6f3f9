# On a terminal a long operation shows its progress, elsewhere nothing. (Speed and remaining time: tests/unit/test_pace.c.)
. "$(dirname "$0")/tap.sh"

need script timeout
script -q -e -c true /dev/null >/dev/null 2>&1 </dev/null || skip_all "script(1) cannot make a terminal"

# shows NAME REGEX COMMAND: on a terminal, shows a matching line of progress and removes it at the end; without a terminal, shows none
shows() {
	shows_name=$1 shows_regex=$2 shows_command=$3
	rm -rf out*
	timeout -k 5 100 script -q -e -c "$shows_command" /dev/null >screen 2>"$ERR" </dev/null
	RC=$?
	[ $RC -eq 0 ]
	tap_result $? "$shows_name on a terminal" "exit $RC: $(tr '\r' '\n' <screen | tail -n 3)"
	tr '\r' '\n' <screen >lines
	check_grep "$shows_name: what is done" "$shows_regex" lines
	rm -rf out*
	# shellcheck disable=SC2086
	check "$shows_name elsewhere" sh -c "$shows_command"
	grep -E -q "$shows_regex" "$ERR"
	[ $? -ne 0 ]
	tap_result $? "$shows_name elsewhere: no progress"
}

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics || exit 1
ddm-cluster -q -k 2 -o a.tsv pics || exit 1
ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o shards "$SRC/tests/golden/blobs.tar.gz" || exit 1
ddm-exact -o model shards 2>/dev/null && ddm-synth gaussians --shape 4 -o law 2>/dev/null || exit 1

if command -v ddm-ingest >/dev/null; then
	shows ddm-ingest '^ddm-ingest: sources 0 of [0-9]+ \(0%\)' "ddm-ingest -o out.tar pics"
	shows "ddm-ingest --dedup" '^ddm-ingest: sources 0 of [0-9]+ \(0%\)' "ddm-ingest --dedup exact -o out.tar pics"
	printf 'YUV4MPEG2 W8 H8 F25:1 Ip A1:1 Cmono\n' >v.y4m
	for i in 1 2 3 4 5 6 7 8 9; do
		printf 'FRAME\n%064d' $i >>v.y4m
	done
	cp v.y4m w.y4m
	shows "ddm-ingest --no-sandbox" '^ddm-ingest: frames 1 of 1000 \(0%\)' "ddm-ingest --no-sandbox --frames 1000 --duplicates -o out.tar v.y4m"
	shows "ddm-ingest of two videos" '^ddm-ingest: sources 0 of 2 \(0%\)' "ddm-ingest -o out.tar v.y4m w.y4m"
else
	skip "ddm-ingest" "it is not built (--without-media)"
fi
# Only keys are read, no features.
shows "ddm-cluster --features random" '^ddm-cluster: samples [0-9]+ of [0-9]+ \([0-9]+%\)' "ddm-cluster -k 2 --features random -o out.tsv pics"
shows ddm-synth '^ddm-synth: samples 0 of 300000 \(0%\)' "ddm-synth draw -n 300000 -o out.tar law"
shows ddm-exact '^ddm-exact: samples 0 of [0-9]+ \(0%\)' "ddm-exact -o out shards"
shows ddm-check '^ddm-check: shards 0 of [0-9]+ \(0%\)' "ddm-check shards"
shows ddm-shard '^ddm-shard: samples [0-9]+ of [0-9]+ \([0-9]+%\)' "ddm-shard -a a.tsv -o out pics"
shows ddm-encode '^ddm-encode: samples( read)? [0-9]+' "ddm-encode -m $SRC/tests/golden/autotiny -o out.tar pics"
shows ddm-sample '^ddm-sample: pictures 0 of 20 \(0%\)' "ddm-sample -n 20 --route full --steps 2 --format latent -o out.tar model"
shows ddm-eval-fid '^ddm-eval-fid: kernel distance, subsets [0-9]+ of 10000 \([0-9]+%\)' \
	"ddm-eval-fid --threads 1 --metrics kid --subsets 10000 --subset-size 20 -o out.json pics pics"
