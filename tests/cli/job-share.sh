# --shard I/N: N jobs make disjoint outputs, which are together that of one job.
. "$(dirname "$0")/tap.sh"
small_pictures
cp -r pics more
mkdir boats
cp -r pics/b boats/boat
ddm-ingest -q --size 16 -o pics/boats.tar boats || exit 1
graph='lavfi@disc:nullsrc=size=16x16:rate=8,format=gray,geq=lum=255*lt(hypot(X-{i:0:8}-N\,Y-{i:4:12})\,4)'

# together NAME TAR...: the members of the tars, unpacked one over the other, none twice, are those of the folder `whole`
together() {
	together_name=$1
	shift
	rm -rf got
	mkdir got
	for tar; do
		tar xkf "$tar" -C got || { tap_result 1 "$together_name: disjoint"; return; }
	done
	check "$together_name" diff -r whole got
}

for options in "--size 16" "--size 16 --classes" "--size 16 --scores"; do
	rm -rf whole one.tar part*.tar
	mkdir whole
	# shellcheck disable=SC2086
	ddm-ingest -q $options --seeds 60 -o one.tar pics "$graph" && tar xf one.tar -C whole || exit 1
	for i in 0 1 2; do
		# shellcheck disable=SC2086
		check "job $i: $options" ddm-ingest -q $options --seeds 60 --shard $i/3 -o part$i.tar pics "$graph"
	done
	together "three jobs: $options" part0.tar part1.tar part2.tar
	for i in 0 1 2; do
		[ "$(tar tf part$i.tar | grep -c 'png$')" -lt "$(tar tf one.tar | grep -c 'png$')" ]
		tap_result $? "job $i has a part"
	done
done
check "job 0 of 1" ddm-ingest -q --size 16 --scores --seeds 60 --shard 0/1 -o all.tar pics "$graph"
together "is all" all.tar

# Another source moves none
tar tf part1.tar | sort >was
cp -r pics pics2
cp more/b/0001.png pics2/zz.png
check "one more picture" ddm-ingest -q --size 16 --scores --seeds 60 --shard 1/3 -o part1b.tar pics2 "$graph"
tar tf part1b.tar | grep -v '^zz' | sort >is
check_same "where it is not, all is as before" was is

check "a job without a source" ddm-ingest --size 16 --shard 0/2 -o none0.tar pics/a/0000.png
check "and the other" ddm-ingest --size 16 --shard 1/2 -o none1.tar pics/a/0000.png
check_out "one has the picture" 1 sh -c 'cat none0.tar none1.tar | tar tif - | grep -c png'
empty=none0.tar
[ -z "$(tar tf none0.tar)" ] || empty=none1.tar
check "the other is whole" ddm-info --check $empty
check "and can be read beside others" ddm-select -q -o x.tar "width > 0" none0.tar none1.tar
check_exit 73 "other options" ddm-ingest -q --size 16 --scores --seeds 60 --shard 0/3 -o part1.tar pics "$graph"
check_err "the job is named" 'shard'

# ddm-encode, over all that it reads
rm -rf whole
mkdir whole
ddm-cluster -q -k 2 --holdout .2 -o a.tsv more && ddm-shard -q -a a.tsv --holdout .2 -o s more || exit 1
ddm-encode -q -m "$SRC/tests/golden/autokl" --size 32 -o e.tar s && tar xf e.tar -C whole || exit 1
for i in 0 1; do
	check "encoding $i" ddm-encode -q -m "$SRC/tests/golden/autokl" --size 32 --shard $i/2 -o e$i.tar s
done
together "two encodings" e0.tar e1.tar
check "again" ddm-encode -m "$SRC/tests/golden/autokl" --size 32 --shard 0/2 -o e0.tar s
check_exit 73 "another job's output" ddm-encode -q -m "$SRC/tests/golden/autokl" --size 32 --shard 1/2 -o e0.tar s
check_exit_any 65 "no sample of this job" ddm-encode -q -m "$SRC/tests/golden/autokl" --size 32 --shard 77/1000 -o no.tar pics/a/0000.png
check_err "told" 'none of 1 samples belongs to job 77 of 1000'

for wrong in 2/2 0/0 1 1/ /2 a/b -1/2 0/2/3 0/1000001 ' 0/2'; do
	check_exit 2 "ddm-ingest --shard '$wrong'" ddm-ingest --shard "$wrong" -o no.tar pics
	check_err "named" '^ddm-ingest: --shard "'
	check_exit 2 "ddm-encode --shard '$wrong'" ddm-encode -m x --shard "$wrong" -o no.tar pics
done
ddm-ingest --shard 3/3 -o no.tar pics 2>"$ERR"
check_err "what the last is" 'of 3 jobs the last is 2, because the first is 0'
check_exit 2 "with -n" ddm-ingest -n 3 --shard 0/2 -o no.tar pics
check_exit 2 "with --dedup" ddm-ingest --dedup exact --shard 0/2 -o no.tar pics
check_absent "no output of these" no.tar
