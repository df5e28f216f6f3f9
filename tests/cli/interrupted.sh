# Programs that keep nothing of an interrupted run say so, leave no files, and give the output of an undisturbed run when they are run again.
. "$(dirname "$0")/tap.sh"

[ -r /proc/self/status ] || skip_all "no /proc to see which signals are caught"
# Whether the program catches TERM (bit 14 of the mask) or has ended.
catches() {
	started || return 1
	! grep -q '^SigCgt' /proc/$pid/status || grep -Eq '^State:.*Z|^SigCgt:.*[4567cdef]...$' /proc/$pid/status
}

# over FILE CMD...: CMD, which writes FILE and has work for seconds, gets TERM as soon as it catches that; again where it was done before
over() {
	file=$1
	shift
	for try in 1 2 3 4 5 6 7 8 9 10; do
		rm -f "$file"
		"$@" >"$OUT" 2>"$ERR" </dev/null &
		pid=$!
		until_true catches
		kill -TERM $pid 2>/dev/null
		wait $pid
		RC=$?
		[ $RC -ne 0 ] && [ ! -e "$file" ] && break
	done
	[ $RC -eq 143 ]
	tap_result $? "$1: ends by the signal" "exit $RC"
	check_err "$1: says that nothing is kept" "^$1: interrupted; nothing was saved: the same command starts over\$"
	check_absent "$1: no output" "$file"
	check_clean "$1: nothing is left" .
}

mkdir whole a
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C a
picture=$(find a -name '*.png' | LC_ALL=C sort | head -n 1)
i=100
while [ $i -lt 1100 ]; do
	cp "$picture" a/x$i.png
	i=$((i + 1))
done
for i in 0 1 2 3 4 5 6 7 8 9; do
	tar cf $i.tar --transform "s,^a/,a/$i," a
done
cluster="ddm-cluster -q --threads 1 -k 2 --restarts 1"
over c.tsv $cluster -o c.tsv 0.tar 1.tar 2.tar 3.tar 4.tar 5.tar 6.tar 7.tar 8.tar 9.tar
check "ddm-cluster" $cluster -o whole/c.tsv 0.tar
check "ddm-cluster again" $cluster -o c.tsv 0.tar
check_same "ddm-cluster: the same bytes" whole/c.tsv c.tsv

# ddm-eval-fid while it computes from statistics, which need no reading, and while it waits for standard input.
check "statistics" ddm-eval-fid --stats-out a.npz -o whole/a.json "$SRC/tests/golden/eval-a.tar.gz" "$SRC/tests/golden/eval-a.tar.gz"
eval="ddm-eval-fid --threads 1 --metrics kid --subset-size 20"
over e.json $eval --subsets 100000 -o e.json a.npz a.npz
check "ddm-eval-fid" $eval --subsets 3 -o whole/e.json a.npz a.npz
check "ddm-eval-fid again" $eval --subsets 3 -o e.json a.npz a.npz
check_same "ddm-eval-fid: the same bytes" whole/e.json e.json

# A command that waits for standard input and holds its claim: NAME OUTPUT COMMAND...
mkfifo gate
waiting() {
	name=$1 out=$2
	shift 2
	for code in 143 130; do
		[ $code -eq 143 ] && sig=TERM || sig=INT
		exec 7<>gate
		env --default-signal=INT "$@" <gate >"$OUT" 2>"$ERR" 7>&- &
		pid=$!
		until_true [ -s ".$out.tmp.claim" ]
		kill -$sig $pid
		wait $pid
		RC=$?
		exec 7>&-
		[ $RC -eq $code ]
		tap_result $? "$name, waiting for standard input, $sig: ends by the signal" "exit $RC"
		check_err "it says that nothing is kept" "^$1: interrupted; nothing was saved: the same command starts over\$"
		check_absent "no output" "$out"
		check_clean "its claim is gone" .
	done
}
for sets in "- a.npz" "--logits - a.npz a.npz" "a.npz -"; do
	# shellcheck disable=SC2086
	waiting "ddm-eval-fid $sets" in.json ddm-eval-fid --metrics kd,is -o in.json $sets
done
waiting "ddm-cluster" in.tsv ddm-cluster -q -k 2 -o in.tsv -
waiting "ddm-cluster --features random" in.tsv ddm-cluster -q -k 2 --features random -o in.tsv -

if command -v ddm-ingest >/dev/null; then
	ingest="ddm-ingest -q --size 64 --duplicates --threads 1"
	over i.tar $ingest --frames 1000000 -o i.tar lavfi@r:testsrc=size=32x32:rate=1
	check "ddm-ingest" $ingest -o whole/i.tar a
	check "ddm-ingest again" $ingest -o i.tar a
	check_same "ddm-ingest: the same bytes" whole/i.tar i.tar
else
	skip "ddm-ingest" "not built (--without-media)"
fi
