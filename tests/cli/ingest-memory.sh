# --max-memory of ddm-ingest: pictures of all threads together stay within it, and one that would not is refused by its header.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"

# Six pictures of 46 MiB each in pixels, 60 KB in the file.
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

# What it took at most: the kernel tells while the program waits for somebody to read the second half of what it wrote.
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
