# Samples from the output of a command: "pipe:COMMAND".
. "$(dirname "$0")/tap.sh"
small_pictures
ddm-ingest -q --size 32 -o p.tar pics || exit 1
ddm-cluster -q -k 2 --holdout .2 -o a.tsv p.tar || exit 1
ddm-shard -q -a a.tsv --holdout .2 -o s p.tar || exit 1
cluster() { ddm-cluster -q -k 2 --holdout .2 -o "$@"; }

check "a tar" cluster b.tsv "pipe:cat p.tar"
check_same "the clusters are those of the file" a.tsv b.tsv
check "compressed on the way" cluster c.tsv "pipe:gzip -c <p.tar"
check_same "the same" a.tsv c.tsv
check "shards" ddm-shard -q -a a.tsv --holdout .2 -o t "pipe:cat p.tar"
check "equal those of the file" diff -r s t
check "one shard as a tar" ddm-select -q -o x.tar "width > 0" "pipe:cat s/cluster-0/000000.tar.zst"
ddm-select -q -o y.tar "width > 0" - <s/cluster-0/000000.tar.zst
check_same "the samples of the shard" x.tar y.tar
check "ddm-ingest" ddm-ingest -q -o i.tar "pipe:cat p.tar"
ddm-ingest -q -o j.tar p.tar
check_same "the same" i.tar j.tar
check "its standard input is empty" ddm-select -q -o k.tar "width > 0" "pipe:cat - p.tar"

# A command that fails gives no short data set
check_exit 74 "a status after a whole tar" ddm-select -q -o no.tar "width > 0" "pipe:cat p.tar; exit 3"
check_err "command and status" '^ddm-select: pipe:cat p.tar; exit 3: the command failed with status 3$'
check_exit 74 "a status after a part" ddm-select -q -o no.tar "width > 0" "pipe:head -c 20480 p.tar; exit 4"
check_err "is told, not the part" 'failed with status 4'
check_exit 74 "a signal" ddm-select -q -o no.tar "width > 0" 'pipe:kill -9 $$'
check_err "is told" 'the command was killed by signal 9'
check_exit_any 74 "no such command" ddm-select -q -o no.tar "width > 0" "pipe:no-such-command-here"
check_err "status 127" 'failed with status 127'
check_exit 65 "a part and success" ddm-select -q -o no.tar "width > 0" "pipe:head -c 20480 p.tar"
check_exit 65 "nothing" ddm-select -q -o no.tar "width > 0" "pipe:true"
check_err "named" 'pipe:true: empty, not a tar'
check_exit 65 "no tar" ddm-select -q -o no.tar "width > 0" "pipe:echo words"
check_exit 65 "bytes after the tar" ddm-select -q -o no.tar "width > 0" "pipe:cat p.tar; echo words"
tar cf l.tar -C pics/a 0000.png && ln pics/a/0000.png pics/a/link.png && tar cf l.tar -C pics/a 0000.png link.png
check_exit 65 "a hard link" ddm-select -q -o no.tar "width > 0" "pipe:cat l.tar"
check_err "cannot be followed" 'cannot be followed in a pipe'
ddm-dedup -q -o d.tar p.tar || exit 1
check "two passes of a command" ddm-dedup -q -o e.tar "pipe:cat p.tar"
check_same "give what those of the file do" d.tar e.tar
check_exit 66 "shards to train on" ddm-train --cluster 0 --steps 1 -q -o no "pipe:cat s/MANIFEST.tsv"
check_absent "no output of any of these" no.tar no

# A second pass runs the command again, and notices other bytes
ddm-ingest -q --size 32 -o q.tar pics/a || exit 1
check_exit 65 "other bytes in the second pass" ddm-dedup -q -o no.tsv 'pipe:if [ -e ran ]; then cat q.tar; else : >ran; cat p.tar; fi'
check_err "noticed" 'the command gave other bytes when it was run again'
check_absent "no table" no.tsv

# The command ends with the program
ddm-select -q -o no.tar "width > 0" 'pipe:echo $$ >pid; cat p.tar; sleep 300' 2>"$ERR" &
pid=$!
until_true test -s pid
kill -TERM $pid
wait $pid 2>/dev/null
[ $? -eq 143 ]
tap_result $? "SIGTERM while the command runs"
gone() { ! kill -0 "$(cat pid)" 2>/dev/null; }
check "the command is gone, too" until_true gone
check_absent "nothing is left" no.tar

# A name in a list is a name
echo "pipe:touch ran-from-list" >list
check_exit_any 66 "a command in a list of paths is not run" sh -c 'ddm-ingest -q --skip-bad -o no.tar - <list || ddm-select -q -o no.tar "width > 0" - <list'
check_absent "not run" ran-from-list
