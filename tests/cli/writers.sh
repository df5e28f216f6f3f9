# Two writers of one output: while the first works, the second is refused with the first one's host and process; of several outputs all or none.
# The first is blocked at a FIFO, so that nothing depends on speed.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
G=$SRC/tests/golden
mkdir a b
tar xzf "$G/eval-a.tar.gz" -C a
tar xzf "$G/eval-b.tar.gz" -C b
mkfifo gate

# first FILE CMD...: runs CMD in the background as process pid until it has claimed FILE. Its standard input is the FIFO gate, which fd 7 opens.
first() {
	claim=$(dirname "$1")/.$(basename "$1").tmp.claim
	shift
	exec 7<>gate
	"$@" <gate >first.out 2>first.err 7>&- &
	pid=$!
	until_true [ -s "$claim" ]
	tap_result $? "$1: the first has claimed its output"
}
first_ends() { # NAME: with what it was given
	exec 7>&-
	wait $pid
	rc=$?
	[ $rc -eq 0 ]
	tap_result $? "$1" "exit $rc: $(cat first.err)"
}
refused() { # NAME FILE CMD...: while the first is at work
	name=$1 file=$2
	shift 2
	check_exit 73 "$name" "$@"
	check_err "it says which file, and who writes it" "$file: is being written by another process \(host and pid: .* $pid\)"
}

# ddm-sample is blocked at the opening of its log until the log is read.
mkfifo log
sample="ddm-sample -n 4 --steps 2 --route full"
first s.tar $sample --seed 1 --grid s.png --log log -o s.tar ensemble
refused "ddm-sample, another seed" s.tar $sample --seed 2 -o s.tar ensemble
refused "ddm-sample, the same options" s.tar $sample --seed 1 -o s.tar ensemble
refused "ddm-sample, the sheet of the first" s.png $sample --seed 2 --grid s.png -o other.tar ensemble
refused "ddm-grid onto the sheet" s.png ddm-grid --columns 2 -r 2 -s 8 -o s.png a=a
check_absent "nothing is there yet, and nothing of the second" s.tar s.png other.tar .other.tar.tmp.claim
cat log >log.jsonl
first_ends "the first ends undisturbed"
check "and has written its own" $sample --seed 1 --grid s.png -o s.tar ensemble
check_err "nothing is left to do" 'complete, nothing to do'
check_exit 73 "another seed now meets the output" $sample --seed 2 -o s.tar ensemble
check_err "and is told what differs" 'seed: 1 -> 2'
check_clean "no claim is left" .

# A killed writer does not block others.
first k.tar $sample --seed 1 --log log -o k.tar ensemble
kill -KILL $pid
wait $pid 2>/dev/null
exec 7>&-
check "after kill -9 another may write" $sample --seed 2 -o k.tar ensemble
check_clean "and tidies up" .

# A writer that ends with a signal or an error releases its claims.
check_exit 66 "an error after the claim" $sample -o e.tar nowhere
check_absent "leaves none" .e.tar.tmp.claim
check_exit 2 "two outputs of one name" $sample -o same.tar --log ./same.tar ensemble
check_absent "leave nothing" same.tar .same.tar.tmp.claim

# Sets on standard input.
first e.json ddm-eval-fid --stats-out e.npz -o e.json - b
refused "ddm-eval-fid, other options" e.json ddm-eval-fid --features rgb8 -o e.json a b
refused "ddm-eval-fid, its statistics" e.npz ddm-eval-fid --features rgb8 --stats-out e.npz -o f.json a b
check_absent "writes neither" f.json e.json e.npz
cat "$G/eval-a.tar.gz" >&7
first_ends "the first ends undisturbed"

first c.tsv ddm-cluster -q -k 2 --sheet c.png -o c.tsv -
refused "ddm-cluster, other options" c.tsv ddm-cluster -q -k 3 -o c.tsv a
refused "ddm-cluster, its sheet" c.png ddm-cluster -q -k 3 --sheet c.png -o d.tsv a
check_absent "writes neither" c.tsv c.png d.tsv
cat "$G/eval-a.tar.gz" >&7
first_ends "the first ends undisturbed"

first f.npy ddm-encode -q -m "$G/pretrained/dinov2-224" --keys f.keys -o f.npy -
refused "ddm-encode, its keys" f.keys ddm-encode -q -m "$G/pretrained/dinov2-224" --keys f.keys -o g.npy a
check_absent "writes neither" f.keys f.npy g.npy
cat "$G/eval-a.tar.gz" >&7
first_ends "the first ends undisturbed"
check_clean "no claim is left" .

# ddm-ingest, at a source that gives nothing until the gate is opened.
if command -v ddm-ingest >/dev/null; then
	lavfi='lavfi@r:testsrc=size=32x32:rate=1'
	first i.tar ddm-ingest --size 8 --frames 1000000 --threads 1 --max-memory 1G -o i.tar "$lavfi"
	refused "ddm-ingest, other options" i.tar ddm-ingest --size 16 -o i.tar a
	kill -TERM $pid
	wait $pid 2>/dev/null
	exec 7>&-
	check "after a signal another may write" ddm-ingest --size 16 -o i.tar a
	check_clean "no claim is left" .
else
	skip "ddm-ingest" "not built (--without-media)"
fi

# So few descriptors that the work fails at some point: no files are left.
ddm-cluster -q -k 2 -o few.tsv a && ddm-shard -q -a few.tsv -o few a || exit 1
mkdir w
left=
for n in 3 4 5 6 7 8 9 10; do
	for job in "ddm-shard -q --threads 1 -a few.tsv -o w/s a" "ddm-exact --threads 1 -o w/e few" "ddm-cluster -q --threads 1 -k 2 -o w/a.tsv a"; do
		# shellcheck disable=SC2086
		(ulimit -n $n && exec $job) >/dev/null 2>&1
		left="$left$(find w -name '*.tmp*')"
		rm -rf w/s w/e w/a.tsv
	done
done
[ -z "$left" ]
tap_result $? "with 3 to 10 descriptors" "left behind: $left"
