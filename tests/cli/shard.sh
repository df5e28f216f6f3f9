# ddm-shard: which samples are in which shard, standard tools, equal bytes, a repeated command, contradictions, bad input.
. "$(dirname "$0")/tap.sh"

check_program ddm-shard
check_exit 2 "no -a" ddm-shard -o s .
check_exit 2 "no -o" ddm-shard -a a.tsv .
check_exit 66 "no such table" ddm-shard -a none.tsv -o s .

mkdir pics
for set in a b c; do
	tar xzf "$SRC/tests/golden/eval-$set.tar.gz" -C pics
	(cd pics && for f in 0*.png; do mv "$f" "$set$f"; done)
done
first=a0000
echo 4 >"pics/$first.cls"
echo "a caption" >"pics/$first.txt"
ddm-cluster -q -k 3 --holdout .3 --seed 2 -o a.tsv pics || exit 1

check "shards" ddm-shard -a a.tsv --holdout .3 -o s pics
check_grep "report" '^70 samples, [0-9]+ held out, 3 clusters, 6 shards$' "$ERR"
check "sha256sum -c" sh -c "cd s && sha256sum -c --quiet SHA256SUMS"
check_out "nothing else in it" "cluster-0/000000.tar.zst cluster-1/000000.tar.zst cluster-2/000000.tar.zst holdout/cluster-0/000000.tar.zst holdout/cluster-1/000000.tar.zst holdout/cluster-2/000000.tar.zst MANIFEST.tsv SHA256SUMS" \
	sh -c "cd s && find . -type f | sed 's,^\./,,' | LC_ALL=C sort -f | paste -sd ' '"
check_grep "facts: classes, sizes, clusters" '"classes":5,"equal_sizes":true,"clusters":3' s/MANIFEST.tsv
rows() { grep -v '^#' a.tsv | awk -F '\t' -v c="$1" -v s="$2" '$2 == c && $4 == s { print $1 }'; }
for c in 0 1 2; do
	zstd -dc s/cluster-$c/000000.tar.zst | tar tf - | sed -n 's/\.png$//p' >in.txt
	rows $c train >want.txt
	check_same "cluster $c: the training keys, in order" want.txt in.txt
	zstd -dc s/holdout/cluster-$c/000000.tar.zst | tar tf - | sed -n 's/\.png$//p' >in.txt
	rows $c holdout >want.txt
	check_same "cluster $c: the held-out keys, in order" want.txt in.txt
done
mkdir out
for f in s/cluster-?/*.zst s/holdout/cluster-?/*.zst; do zstd -dc "$f" | tar xf - -C out; done
check "the same files out as in" diff -r pics out

touch -d '2001-01-01' s s/MANIFEST.tsv s/SHA256SUMS s/cluster-0/000000.tar.zst
check "the same command again" ddm-shard -a a.tsv --holdout .3 -o s pics
check_out "touches nothing" "" find s/MANIFEST.tsv s/SHA256SUMS s/cluster-0/000000.tar.zst s -maxdepth 0 -newermt 2002-01-01
check_exit 73 "other options" ddm-shard -a a.tsv --level 7 -o s pics
check_err "named" 'level: 3 -> 7'
ddm-cluster -q -k 3 --holdout .3 --seed 3 -o b.tsv pics
check_exit 73 "another assignment" ddm-shard -a b.tsv -o s pics
check_err "named" 'inputs.assign'
cp -R s gone
rm gone/cluster-1/000000.tar.zst
check_exit 66 "there, but not whole: a shard is missing" ddm-shard -a a.tsv -o gone pics
check_err "named" 'cluster-1/000000.tar.zst'
cp s/cluster-1/000000.tar.zst gone/cluster-1
cut_to gone/cluster-1/000000.tar.zst 1000
check_exit 65 "a shard is cut" ddm-shard -a a.tsv -o gone pics
check_err "named" 'cluster-1/000000.tar.zst'
mkdir full && touch full/file
check_exit 73 "a folder that is something else" ddm-shard -a a.tsv -o full pics
check_out "is left alone" "full/file" find full -type f

tar cf pics.tar --sort=name -C pics .
check "from a tar on stdin" sh -c "ddm-shard -q -a a.tsv -o t - <pics.tar"
check "equal" diff -r s t
for n in 1 2 5; do
	check "$n threads" ddm-shard -q --threads $n -a a.tsv --shard-size 4K -o t$n pics
	check "equal" diff -r t1 t$n
done
check "the assignment on stdin" sh -c "ddm-shard -q -a - -o p pics <a.tsv"
check "equal" diff -r s p
flip p/cluster-0/000000.tar.zst 2000 && check_exit 65 "an altered shard, the command again" ddm-shard -q -a a.tsv -o p pics
check_err "named" 'p/cluster-0/000000.tar.zst: SHA-256'
check "from shards, again" ddm-shard -q -a a.tsv -o u s
check "from shards: the same samples" sh -c "cut -f 3,5- s/MANIFEST.tsv | grep -v '^#\|stamp' >1; cut -f 3,5- u/MANIFEST.tsv | grep -v '^#\|stamp' >2; wc -l <1 | grep -qx '7'"
check "small shards" ddm-shard -q -a a.tsv --shard-size 1K -o v pics
check "number up" sh -c "find v -name 000001.tar.zst | grep -q ."
check_out "hold all samples" 70 sh -c "for f in \$(find v -name '*.zst'); do zstd -dc \$f | tar tf - | grep 'png\$'; done | sort -u | grep -c ."

check_exit 65 "another held-out fraction" ddm-shard -a a.tsv --holdout .2 -o w pics
check_err "both" '0.3, not 0.2'
check_absent "nothing made" w
cp -R pics more
cp pics/b0003.png more/new.png
check_exit 65 "a sample that is not in the table" ddm-shard -a a.tsv -o w more
check_err "named" '"new" is not in the assignment'
check_absent "nothing made" w
check_clean "nothing left" .
check "passed over" ddm-shard -a a.tsv --skip-bad -o w more
check_err "named" 'skipped: .*"new"'
check_exit_any 3 "too many" ddm-shard -q -a a.tsv --skip-bad --max-errors 0 -o w3 more
check "but complete" sh -c "cd w3 && sha256sum -c --quiet SHA256SUMS"
rm "more/new.png" "more/$first.png" "more/$first.cls" "more/$first.txt"
check_exit 65 "a row without a sample" ddm-shard -a a.tsv -o x more
check_err "named" "\"$first\" is in the assignment"
check_absent "nothing made" x
cp a.tsv bad.tsv
flip bad.tsv 700
check_exit 65 "an altered table" ddm-shard -a bad.tsv -o x pics
cp a.tsv cut.tsv
cut_to cut.tsv 1000
check_exit 65 "a truncated table" ddm-shard -a cut.tsv -o x pics
check_err "named" 'cut.tsv'
cp pics.tar cut.tar
cut_to cut.tar 30000
check_exit 65 "a truncated tar" ddm-shard -a a.tsv -o x cut.tar
check_exit 65 "with --skip-bad too" ddm-shard -a a.tsv --skip-bad -o x cut.tar
check_absent "nothing made" x
check_clean "nothing left" .

# A disk that becomes full, simulated by a limit on the size of files.
small() { sh -c 'trap "" XFSZ; ulimit -f 8; exec "$@"' sh "$@"; }
check_exit 74 "a full disk" small ddm-shard -q -a a.tsv -o fulldisk pics
check_absent "nothing made" fulldisk
check_clean "nothing left" .

# Killed at some point and run again: the same folder, and no other files.
mkdir k
for ms in 1 2 4 8 16 32; do
	ddm-shard -q -a a.tsv -o k/s pics &
	pid=$!
	sleep "0.0$(printf '%02d' $ms)"
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
done
check "after kills" ddm-shard -q -a a.tsv -o k/s pics
check "equal" diff -r s k/s
check_out "nothing beside it" "k/s" sh -c "find k -mindepth 1 -maxdepth 1"

# After a signal there are no files left, and the program dies of the signal.
ddm-cluster -q -k 2 --features random -o many.tsv pics
mkdir sig
{ head -c 40000 pics.tar; sleep 2; } | ddm-shard -q -a many.tsv -o sig/s - 2>"$ERR" &
pid=$!
until_true started
sleep .3
kill -TERM $pid
wait $pid
check_out "SIGTERM kills" 143 echo $?
check_out "and leaves nothing" "" find sig -mindepth 1
(sleep 2) | ddm-shard -q -a many.tsv -o sig/t - &
pid=$!
until_true started
sleep .1
kill -TERM $pid
wait $pid
check_out "also while it waits for a pipe" 143 echo $?

# MosaicML's streaming
mkdir streaming
tar xzf "$SRC/tests/golden/mds.tar.gz" -C streaming
check "its pictures are clustered" ddm-cluster -q -k 2 --features random --seed 1 -o mds.tsv streaming/zstd
check "and packed" ddm-shard -q -a mds.tsv -o mds streaming/zstd/index.json
for f in mds/cluster-?/*.zst; do zstd -dc "$f" | tar tf -; done | sed 's,/.*,,' | sort | uniq -c | awk '{ print $2, $1 }' >in.txt
awk '$1 == "zstd" { sub("/.*", "", $2); n[$2]++ } END { for (s in n) print s, n[s] }' "$SRC/tests/golden/mds.tsv" | sort >want.txt
check_same "every member of every shard" want.txt in.txt
check_exit 65 "not what was clustered" ddm-shard -q -a mds.tsv -o no streaming/gz
