# The decoder of ddm-ingest: if another process kills it, it is started again, and the source does not count as bad. Graphs may use only the listed
# filters, however they are written. Without seccomp nothing is decoded unless --no-sandbox is given.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"

# However a graph's text is quoted, the filters that FFmpeg finds in it are checked.
printf 'YUV4MPEG2 W8 H8 F25:1 Ip A1:1 Cmono\nFRAME\n%064dFRAME\n%064d' 0 1 >v.y4m
here=$PWD
for graph in "movie=$here/v.y4m" "mo\\vie=$here/v.y4m" "m\\ovie@x=$here/v.y4m" "'movie'=$here/v.y4m" "color=size=8x8[a];mov\\ie=$here/v.y4m,[a]overlay"; do
	check_exit 2 "$graph" ddm-ingest -o x.tar "lavfi@a:$graph"
	check_err "is refused by its name" "movie and amovie are not allowed in graphs|not a filter graph: .*No such filter"
done
for graph in color=size=8x8,metadata=mode=print:file=written color=size=8x8,sendcmd=filename=v.y4m testsrc2=size=8x8,lut3d=file=v.y4m \
	life=filename=v.y4m testsrc2=size=8x8,curves=psfile=v.y4m; do
	check_exit 2 "$graph" ddm-ingest -o x.tar "lavfi@a:$graph"
done
check_absent "nothing is written" x.tar written
check "other filters" ddm-ingest --frames 2 -o graph.tar 'lavfi:testsrc2=size=16x16,hflip,noise=alls=20,format=gray'
for graph in gradients=size=16x16:seed=3 mandelbrot=size=16x16 cellauto=size=16x16:seed=4 life=size=16x16:random_seed=5 sierpinski=size=16x16 \
	'nullsrc=size=16x16,geq=random(1)*255' 'color=size=8x8[a];[a]split[b][c];[b]hue=h=90[d];[c][d]hstack'; do
	check "$graph" ddm-ingest --frames 1 -o one.tar "lavfi@a:$graph"
	rm -f one.tar
done

# A kernel without seccomp, simulated by an outer filter that refuses seccomp.
cat >noseccomp.py <<'X'
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
if platform.machine() != "x86_64":
    sys.exit(99)
def op(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
prog = b"".join([
    op(0x20, 0, 0, 0),            # the number of the call
    op(0x15, 3, 0, 317),          # seccomp: refused
    op(0x15, 0, 3, 157),          # prctl
    op(0x20, 0, 0, 16),           # its first argument
    op(0x15, 0, 1, 22),           # PR_SET_SECCOMP: refused
    op(0x06, 0, 0, 0x00050001),   # EPERM
    op(0x06, 0, 0, 0x7fff0000)])  # allowed
class Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
fprog = Fprog(len(prog) // 8, prog)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(fprog), 0, 0):
    sys.exit(99)
os.execvp(sys.argv[1], sys.argv[1:])
X
check "a video" ddm-ingest -o usual.tar v.y4m
if python3 noseccomp.py true 2>/dev/null; then
	check_exit 1 "a video without seccomp" python3 noseccomp.py ddm-ingest -o x.tar v.y4m
	check_err "says how to go on" 'seccomp.*--no-sandbox'
	check_exit 1 "a graph without seccomp" python3 noseccomp.py ddm-ingest --frames 1 -o x.tar lavfi:testsrc2=size=16x16
	check_exit 1 "is no bad source" python3 noseccomp.py ddm-ingest --skip-bad -o x.tar v.y4m
	check_absent "nothing is written" x.tar
	check "--no-sandbox" python3 noseccomp.py ddm-ingest --no-sandbox -o x.tar v.y4m
	check_same "gives the same bytes" usual.tar x.tar
	check "a graph" python3 noseccomp.py ddm-ingest --no-sandbox --frames 2 -o y.tar 'lavfi:testsrc2=size=16x16,hflip,noise=alls=20,format=gray'
	check_same "too" graph.tar y.tar
	check_exit 2 "but no other filter" python3 noseccomp.py ddm-ingest --no-sandbox -o z.tar 'lavfi:color=size=8x8,metadata=mode=print:file=written'
else
	skip "without seccomp" "no python3, or no seccomp to refuse it with"
fi
check "--no-sandbox where there is one" ddm-ingest --no-sandbox -o bare.tar v.y4m
check_same "changes nothing" usual.tar bare.tar

# Killed by another process. The program is blocked on a pipe that nobody reads, so its decoder waits.
ps -eo pid,ppid,args >/dev/null 2>&1 || { skip "killed decoders" "no ps"; exit 0; }
decoder_of() { ps -eo pid,ppid,stat,args | awk -v p="$1" '$2 == p && $3 !~ /Z/ && /ingest-decoder --serve-frames/ { print $1; exit }'; }

# wait_decoder PID [OLD]: waits until the program has a decoder other than OLD, and sets DECODER
wait_decoder() {
	tries=0
	DECODER=
	while [ $tries -lt 1200 ] && kill -0 "$1" 2>/dev/null; do
		DECODER=$(decoder_of "$1")
		[ -z "$DECODER" ] || [ "$DECODER" = "${2:-}" ] || return 0
		tries=$((tries + 1))
		sleep 0.1
	done
	return 1
}

# outlives NAME WORD...: ddm-ingest WORD... whose decoder is killed on the way makes the samples of an undisturbed run
outlives() {
	name=$1
	shift
	ddm-ingest "$@" -o whole.tar 2>/dev/null
	ddm-ingest "$@" --skip-bad >pipe 2>err &
	pid=$!
	exec 8<pipe
	wait_decoder $pid
	kill -KILL "$DECODER"
	tap_result $? "a decoder of $name is killed" "none was found"
	cat <&8 >again.tar
	exec 8<&-
	wait $pid
	RC=$?
	[ $RC -eq 0 ]
	tap_result $? "the run goes on" "exit $RC: $(cat err)"
	check_same "with the same $name" whole.tar again.tar
	rm whole.tar
}
mkfifo pipe
graph=lavfi:testsrc2=size=128x96
outlives frames --frames 1500 --duplicates "$graph"

# The same of clips: what was already sent is not counted twice.
{
	printf 'YUV4MPEG2 W64 H64 F25:1 Ip A1:1 Cmono\n'
	i=0
	while [ $i -lt 300 ]; do
		printf 'FRAME\n'
		head -c $((4096 - i)) /dev/zero | tr '\0' "\\$(printf '%03o' $((i / 10 + 32)))"
		head -c $i /dev/zero
		i=$((i + 1))
	done
} >long.y4m
outlives clips --clips 4 --fps 20 --scene adaptive --duplicates long.y4m

for jobs in "--frames 1000000" "--frames 1000"; do
	# shellcheck disable=SC2086
	ddm-ingest $jobs --seeds 10000 --duplicates --skip-bad -o twice.tar "lavfi@a:testsrc2=size=64x48:sar={i:1:9}" 2>err &
	pid=$!
	wait_decoder $pid
	killed=0
	while kill -0 $pid 2>/dev/null && [ $killed -lt 1000 ]; do
		DECODER=$(decoder_of $pid)
		[ -n "$DECODER" ] && kill -KILL "$DECODER" 2>/dev/null && killed=$((killed + 1))
	done
	wait $pid
	RC=$?
	cp err "$ERR"
	[ $RC -eq 69 ]
	tap_result $? "$jobs: killed again and again, it ends" "exit $RC after $killed kills"
	check_err "says why" "decoder was killed twice"
	check_absent "and writes nothing" twice.tar
done
ddm-ingest --frames 1000000 --duplicates -o mended.tar "$graph" 2>/dev/null &
pid=$!
wait_decoder $pid
kill -SEGV "$DECODER"
wait $pid
RC=$?
[ $RC -eq 65 ]
tap_result $? "one that crashes is a damaged source" "exit $RC"
check_absent "without output" mended.tar
check_clean "nothing is left behind" .
