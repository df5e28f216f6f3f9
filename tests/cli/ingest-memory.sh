# --max-memory of ddm-ingest: pictures and decoders of all threads together stay below it. A picture that is too large is refused from its header. A
# decoder that runs out of its share gets the whole budget before its source counts as bad.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"

# Six pictures with 46 MiB of pixels each, in files of 60 KB.
ddm-ingest --frames 1 -o big.tar lavfi:color=red:size=4000x4000 2>/dev/null || exit 1
mkdir x six
tar xf big.tar -C x
for i in 1 2 3 4 5 6; do
	cp x/*.png six/$i.png
done
tar cf six.tar -C six .
check_exit 65 "more than three quarters of the budget" ddm-ingest --max-memory 60M -o out.tar six/1.png
check_err "is refused with its size" '1.png: 4000x4000 pixels take 45 MiB to decode, more than 45 MiB|1.png: 4000x4000 pixels take 4[0-9] MiB to decode, more than 45 MiB'
check_absent "nothing is written" out.tar
check_exit_any 65 "with --skip-bad" ddm-ingest --skip-bad --max-memory 60M -o out.tar six/1.png
check_err "it is skipped" 'skipped: .*4000x4000'
check_exit 65 "in a tar" ddm-ingest --max-memory 60M -o out.tar six.tar
check_err "too" '4000x4000 pixels take'
check "without a limit" ddm-ingest --max-memory 0 --threads 6 -o all.tar six
check "one at a time" ddm-ingest --max-memory 100M --threads 6 -o one.tar six
check_same "gives the same" all.tar one.tar
check "from a tar" ddm-ingest --max-memory 100M --threads 6 --size 64 -o small.tar six.tar
check "resized" ddm-ingest --max-memory 100M --threads 6 --size 64 -o small2.tar six
mkdir a b
tar xf small.tar -C a
tar xf small2.tar -C b
check_same "the same too" a/6.png b/6.png

# Its peak memory, which the kernel reports while the program waits for a reader of the second half of its output.
peak() { # SOURCE: its kilobytes at most, in PEAK; 0 where the kernel does not tell
	rm -f pipe
	mkfifo pipe
	ddm-ingest --max-memory 100M --threads 6 "$1" >pipe 2>/dev/null &
	pid=$!
	exec 8<pipe
	head -c 100000 <&8 >/dev/null
	PEAK=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$pid/status 2>/dev/null)
	cat <&8 >/dev/null
	exec 8<&-
	wait $pid
	PEAK=${PEAK:-0}
}

if ldd "$B/ddm-ingest" | grep -Eq 'libasan|libtsan'; then
	skip "its memory" "a sanitizer has its own"
else
	for source in six six.tar; do
		peak $source
		if [ "$PEAK" -eq 0 ]; then
			skip "$source: its memory" "the kernel does not tell"
		else
			[ "$PEAK" -lt 150000 ]
			tap_result $? "$source: six threads take no more than the budget" "$PEAK kB"
		fi
	done
fi

# FFmpeg's decoders: as many run at a time as the budget allows, each limited to its share. Only private memory is counted.
graphs=
for name in a b c d e f; do
	graphs="$graphs lavfi@$name:testsrc2=size=3000x2000"
done
sum() { # PID: the kilobytes of it and of its decoders, in SUM
	SUM=$(for p in "$1" $(cat "/proc/$1/task/"*/children 2>/dev/null); do
		cat "/proc/$p/status" 2>/dev/null
	done | awk '/^RssAnon/ { n += $2 } END { print n + 0 }')
}
peak_all() { # COMMAND...: the most that was seen of it and its decoders, in PEAK, with 0 where the kernel does not tell; its exit status in RC
	"$@" 2>"$ERR" &
	pid=$! PEAK=0
	while kill -0 $pid 2>/dev/null; do
		sum $pid
		[ "$SUM" -le $PEAK ] || PEAK=$SUM
	done
	wait $pid
	RC=$?
}
within() { # NAME KILOBYTES
	if [ $RC -eq 0 ] && [ $PEAK -eq 0 ]; then
		skip "$1" "the kernel does not tell"
	else
		[ $RC -eq 0 ] && [ $PEAK -le "$2" ]
		tap_result $? "$1" "exit $RC, $PEAK kB: $(cat "$ERR")"
	fi
}
if ldd "$B/ddm-ingest" | grep -Eq 'libasan|libtsan'; then
	skip "decoders" "a sanitizer has its own memory"
	exit 0
fi
# A share of 96 MiB, of which 64 are for the process, is too small for this graph; with one thread the share is the whole budget.
# shellcheck disable=SC2086
peak_all ddm-ingest --max-memory 300M --threads 6 --frames 2 --duplicates --size 16 -o shares.tar $graphs
within "six graphs stay within 300M" 307200
# shellcheck disable=SC2086
check "one thread" ddm-ingest --max-memory 300M --threads 1 --frames 2 --duplicates --size 16 -o serial.tar $graphs
check_same "gives the same" shares.tar serial.tar
check_exit 65 "a graph too large for the whole" ddm-ingest --max-memory 130M --threads 6 --frames 1 --size 16 -o none.tar lavfi:testsrc2=size=4000x3000
check_err "is told what a decoder has" '(Cannot allocate memory|cannot be allocated|ran out of memory)(: .*)?; a decoder may use 65 MiB, half of --max-memory'
check_exit 65 "a frame that is too large to store" ddm-ingest --max-memory 300M --frames 1 -o none.tar lavfi:color=size=5000x3000
check_err "is told its size" '5000x3000 pixels take 85 MiB to store, more than 75 MiB, a quarter of --max-memory|Cannot allocate memory'
check_absent "nothing is written" none.tar
check "a small video" ddm-ingest --max-memory 128M --frames 30 -o small.y4m.tar lavfi:testsrc2=size=320x240

# Frames that wait to be written take at most a quarter of the budget: jobs that do not fit are repeated one after another.
check "a picture of noise" ddm-ingest --frames 1 -o noise.tar 'lavfi:color=size=1500x1400,format=rgb24,noise=alls=100:allf=t:all_seed=1'
tar xf noise.tar
mv color@*.png noise.png
mkdir bmps
for i in 1 2 3 4 5 6 7 8; do
	{
		printf 'BM\066\0\0\0\0\0\0\0\066\0\0\0\050\0\0\0\350\003\0\0\350\003\0\0\001\0\030\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
		tail -c +$((i * 1000)) noise.png | head -c 3000000
	} >bmps/$i.bmp
done
check "pictures in any memory" ddm-ingest --max-memory 0 -o free.tar bmps
peak_all ddm-ingest --max-memory 90M --threads 6 -o tight.tar bmps
within "in 90M" 92160
[ "$(size_of tight.tar)" -gt 23592960 ]
tap_result $? "they do not fit into a quarter of it" "$(size_of tight.tar) bytes"
check_same "the same pictures" free.tar tight.tar

# Real clips of several folders, as it is most often called.
clips=${DDM_TEST_DATA:-$SRC/../shared/data}/clips
if [ -d "$clips" ]; then
	peak_all ddm-ingest --max-memory 200M --threads 6 --frames 2 --size 64 -o clips.tar "$clips/bunny"
	within "clips stay within 200M" 204800
else
	skip "clips" "no clips here"
fi
