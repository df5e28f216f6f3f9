# Short videos are decoded side by side: the same samples, messages and order as by one thread, also with damaged ones and where memory is short.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"

# video FILE WIDTH HEIGHT RATE FRAMES LEVEL: grey frames, each a level lighter than the one before
video() {
	{
		printf 'YUV4MPEG2 W%s H%s F%s:1 Ip A1:1 Cmono\n' "$2" "$3" "$4"
		for i in $(seq "$5"); do
			printf 'FRAME\n'
			head -c $(($2 * $3)) /dev/zero | tr '\000' "\\$(printf %o $((($6 + i) % 256)))"
		done
	} >"$1"
}
mkdir v
for i in 1 2 3 4 5 6 7; do
	video v/v$i.y4m 48 32 8 $((5 + 7 * i)) $((20 * i))
	echo "caption $i" >v/v$i.txt
done
same() { # NAME OPTION...: three threads make what one makes
	name=$1
	shift
	check "$name: one thread" ddm-ingest "$@" --threads 1 -o one.tar v
	cp "$ERR" one.err
	check "$name: three" ddm-ingest "$@" --threads 3 -o three.tar v
	cp "$ERR" three.err
	check_same "$name: the same samples" one.tar three.tar
	check_same "$name: the same report" one.err three.err
	rm -f one.tar three.tar
}
same clips --clips 4 --fps 8
same "clips with overlap, resized" --clips 4 --stride 2 --fps 4 --size 16 --scene adaptive
same frames --fps 4
same "frames that are equal" --fps 16 --size 8
same "all of them" --fps 16 --size 8 --duplicates
same "some of them" --clips 4 --fps 8 -n 11
same "a job of several" --clips 4 --fps 8 --shard 1/2
same "little memory" --clips 4 --fps 8 --max-memory 128M

head -c 3000 v/v4.y4m >v/v4b.y4m
printf 'YUV4MPEG2 W48 H32 F8:1 Ip A1:1 Cmono\nFRAME\nnothing more' >v/v5b.y4m
video v/short.y4m 48 32 8 2 9
same "with damaged ones" --clips 4 --fps 8 --skip-bad
for threads in 1 3; do
	check_exit_any 65 "a damaged one ends $threads threads" ddm-ingest -q --clips 4 --fps 8 --threads $threads -o bad.tar v
	cp "$ERR" bad$threads.err
	check_absent "without a tar" bad.tar
done
check_same "with the same message" bad1.err bad3.err
rm v/v4b.y4m v/v5b.y4m

# Samples that take far more than their files: what waits for the video before would not fit into a quarter of the memory.
mkdir large && mv v small
for i in 1 2 3; do
	video large/l$i.y4m 160 120 8 9 $((50 * i))
done
mv large v
same "samples that are too large to wait" --clips 16 --fps 500 --scene none --max-memory 104M

# While one decoder stands still, another one works.
mkdir long
video frames.y4m 160 120 8 32 0
for i in 1 2 3; do
	head -n 1 frames.y4m >long/$i.y4m
	for part in $(seq 6); do
		tail -n +2 frames.y4m >>long/$i.y4m
	done
done
ddm-ingest -q --clips 4 --fps 8 --threads 2 -o beside.tar long &
pid=$!
until_true sh -c "pgrep -P $pid -f 'ingest-decoder --serve' >first"
victim=$(head -n 1 first)
kill -STOP "$victim"
until_true sh -c "pgrep -P $pid -f 'ingest-decoder --serve' | grep -qvx $victim"
tap_result $? "two decoders at once"
kill -CONT "$victim"
wait $pid
tap_result $? "which end well"
check "one thread" ddm-ingest -q --clips 4 --fps 8 --threads 1 -o alone.tar long
check_same "makes the same" alone.tar beside.tar
