# Folders and lists in which two pictures have the same key, which ends at the first dot of a name: every program refuses the second.
. "$(dirname "$0")/tap.sh"

stills=$SRC/tests/golden/stills
mkdir pics
cp "$stills/grey.png" pics/IMG.1.png
cp "$stills/exif6.png" pics/IMG.2.png
cp "$stills/rgba.png" pics/b.png
said='pics/IMG.2.png: makes the same key "[a-z/]*IMG" as pics/IMG.1.png: rename one, or let ddm-ingest make keys that differ'

# both NAME CMD...
both() {
	check_exit 65 "$@"
	check_err "both are named" "$said"
}
cluster="ddm-cluster -q --features random -k 1"
both "ddm-cluster" $cluster -o a.tsv pics
find pics -type f | LC_ALL=C sort >list
both "ddm-cluster of a list" sh -c "$cluster -o a.tsv - <list"
both "ddm-eval-fid" ddm-eval-fid --size 16 -o e.json pics pics
both "ddm-info --check" ddm-info --check pics
both "ddm-encode" ddm-encode -q -m "$SRC/tests/golden/pretrained/dinov2-224" -o f.npy pics
check_absent "nothing is made" a.tsv e.json f.npy
check_exit_any 0 "--skip-bad" $cluster --skip-bad -o a.tsv pics
check_err "tells it" "skipped: $said"
check_out "and goes on with the others" "IMG b " sh -c 'grep -v "^#" a.tsv | cut -f 1 | tr "\n" " "'
both "ddm-shard" ddm-shard -q -a a.tsv -o s pics

# Files that are no second picture: parts of a sample, its caption and class.
rm pics/IMG.2.png a.tsv
cp "$stills/grey.png" pics/b.seg.png
echo caption >pics/b.txt
printf 1 >pics/b.cls
check "parts of a sample" $cluster -o a.tsv pics
check "are kept" ddm-shard -q -a a.tsv -o s pics
check_out "together" "b.cls b.png b.seg.png b.txt " sh -c 'zstd -dcq $(find s -name "*.zst") | tar tf - | grep "^b" | tr "\n" " "'
cp "$stills/grey.jpg" pics/b.jpg
check_exit 65 "a second that is whole" $cluster -o b.tsv pics
check_err "is named" 'pics/b.png: makes the same key "b" as pics/b.jpg'

# In a tar they are members of one sample.
tar cf two.tar -C pics b.jpg b.png
check "members of a tar" $cluster -o two.tsv two.tar
