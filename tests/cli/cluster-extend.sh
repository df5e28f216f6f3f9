# ddm-cluster --extend: clusters for new samples beside those that are there, whose experts stay as they are and belong to the larger ensemble.
. "$(dirname "$0")/tap.sh"

# Old pictures, and new ones of another kind: stripes.
mkdir -p old/a old/b new/c
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C old/a
tar xzf "$SRC/tests/golden/eval-b.tar.gz" -C old/b
python3 - <<'END' || exit 1
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for n in range(40):
    rows = b"".join(b"\0" + bytes(255 * ((y * (2 + n % 3) + n + x // 16) // 8 % 2) for x in range(32)) for y in range(32))
    png = chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    open("new/c/%04d.png" % n, "wb").write(b"\x89PNG\r\n\x1a\n" + png)
END
mkdir pics && cp -R old/a old/b new/c pics

rows() { grep -v '^#' "$1" | cut -f "$2" | sort; }
partition() { sed -n 's/.*"partition": *"\([0-9a-f]*\)".*/\1/p' "$1" | head -n 1; }
first() { tail -c $((4 * 768 * $2)) "$1" | head -c $((4 * 768 * 2)); } # FILE ROWS: the first two rows

check "an old partition" ddm-cluster -q -k 2 --holdout .2 --seed 5 --centroids-out old.npy -o old.tsv old
extend="ddm-cluster -q -k 3 --holdout .2 --seed 1 --extend old.npy"
check "is extended" ddm-cluster -k 3 --holdout .2 --seed 1 --extend old.npy --keep old.tsv --centroids-out more.npy -o more.tsv pics
check_err "the report" '2 clusters are extended by 1; 54 samples keep theirs, and of the others 0 are nearest to an old centroid'
rows old.tsv 1,2,4 >was
rows more.tsv 1,2,4 | grep -v '^c/' >is
check_same "old samples keep cluster and split" was is
check_out "the new ones go to a new cluster" 2 sh -c "grep '^c/' more.tsv | cut -f 2 | sort -u | paste -sd ' '"
first old.npy 2 >was
first more.npy 3 >is
check_same "the old centroids are the same bytes" was is
check "with two threads" $extend --keep old.tsv --centroids-out two.npy --threads 2 -o two.tsv pics
check_same "the same table" more.tsv two.tsv
check_same "and centroids" more.npy two.npy
cp -R new site
check "at a site with the new samples alone" $extend --centroids-out site.npy -o site.tsv site
check_same "the same centroids" more.npy site.npy
check_out "of the same partition" "$(partition more.npy.json)" partition site.npy.json
check "where the extended centroids are given" ddm-cluster -q --centroids more.npy -o by.tsv pics
for table in more site by; do grep -o '"partition":"[0-9a-f]*","extends":[^]]*' $table.tsv >$table.past; done
check_grep "its table names the old partition" "\"extends\":.{\"partition\":\"$(partition old.npy.json)\",\"clusters\":2}" more.past
check_same "and so does the site's" more.past site.past
check_same "and that by the centroids" more.past by.past

cp old/a/0000.png new/c/9999.png && cp new/c/9999.png pics/c && check "a new sample like an old one" $extend -o like.tsv new 2>/dev/null
check "is said to join an old cluster" sh -c "ddm-cluster -k 3 --holdout .2 --seed 1 --extend old.npy -o like2.tsv new 2>&1 | grep -q ' 0 samples keep theirs, and of the others 1 are nearest'"
rm new/c/9999.png pics/c/9999.png

# What cannot be extended.
check_exit 65 "no sample is new" $extend --keep old.tsv old
check_err "says so" 'old.tsv names every training sample'
check_exit 2 "no new cluster" ddm-cluster -q -k 2 --extend old.npy pics
check_err "says so" '2 clusters, but 2 are kept'
check_exit 2 "without -k" ddm-cluster -q --extend old.npy pics
check_exit 2 "--keep alone" ddm-cluster -q -k 3 --keep old.tsv pics
check_err "says what it needs" '--keep'
check_exit 2 "other clusterings" ddm-cluster -q -k 3 --extend old.npy --balance 2 pics
check_exit 65 "the table of another number of clusters" ddm-cluster -q -k 4 --extend old.npy --keep more.tsv pics
check_err "both numbers" 'more.tsv has 3 clusters, but --extend old.npy holds 2 centroids'
ddm-cluster -q -k 2 --holdout .2 --seed 6 --centroids-out other.npy -o other.tsv pics
check_exit 65 "the table of another partition" $extend --keep other.tsv pics
check_err "both partitions" "other.tsv is of partition .* but --extend old.npy of partition $(partition old.npy.json | cut -c 1-16)"
ddm-cluster -q -k 2 --by folder -o named.tsv old
check_exit 2 "clusters with names" $extend --keep named.tsv pics
echo '{"features": "hogcolor-1", "extends": [{"partition": "x", "clusters": 2}]}' >bad.npy.json && cp old.npy bad.npy
check_exit 65 "a damaged list of partitions" ddm-cluster -q -k 3 --extend bad.npy pics
check_err "named" 'bad.npy.json: "extends"\[0\] is not a partition'

# Old experts belong to the extended ensemble; an old router does not.
ddm-shard -q -a old.tsv -o old.shards old || exit 1
ddm-shard -q -a more.tsv -o more.shards pics || exit 1
check_grep "the shards say what they extend" '"extends":' more.shards/MANIFEST.tsv
net="-q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 2 --threads 1 --device cpu --validate-samples 0 --size 32"
expert="$net --predict x0"
for k in 0 1; do ddm-train $expert --cluster $k -o m/expert_$k old.shards || exit 1; done
ddm-route-train $net -o m/router old.shards || exit 1
sha256sum m/expert_*/*.safetensors >sums
mkdir wide && cp -R m/expert_0 m/expert_1 wide
check "an expert for the new cluster" ddm-train $expert --cluster 2 -o wide/expert_2 more.shards
cp -R m/router wide/router
check_exit 65 "an old router knows too few clusters" ddm-check wide
check_err "says what to do" 'router was trained on a partition into 2 clusters, which the partition of expert_2 extends to 3: train the router again'
check_exit 65 "nor does it route" ddm-sample -n 1 --steps 1 --device cpu --route full -q -o none.tar wide
check_absent "nothing is made" none.tar
rm -r wide/router
check "its last layer is trained again" ddm-route-train $net --from m/router --head-only -o wide/router more.shards
check_out "they belong together" "" ddm-check -c wide
check "by ddm-info too" ddm-info --check wide
check "and draw" ddm-sample -q -n 4 --steps 2 --seed 3 --device cpu --route full -o drawn.tar wide
check "by the shares of clusters, which the new expert knows" ddm-sample -q -n 4 --steps 2 --seed 3 --device cpu --route prior -o prior.tar wide
sed 's|^\([0-9a-f]*  \)m/|\1wide/|' sums >wide.sums
check "the old experts are the same bytes" sha256sum -c --quiet wide.sums
mkdir lone && cp -R wide/expert_2 m/router lone
check_exit 65 "in any order" ddm-check lone
ddm-shard -q -a other.tsv -o other.shards pics && ddm-train $expert --cluster 1 -o stranger/expert_1 other.shards || exit 1
rm -r wide/expert_1 && cp -R stranger/expert_1 wide
check_exit 65 "an expert of no earlier partition" ddm-check wide

# An extension of an extension.
check "again" ddm-cluster -q -k 4 --holdout .2 --extend more.npy --centroids-out most.npy -o most.tsv pics
check_out "knows both" 2 sh -c "grep -o '\"extends\":.*' most.tsv | grep -o partition | wc -l"

# Clusters by a fact: old values keep their numbers, whatever is sorted before them.
mkdir -p kinds/b kinds/d later/a later/d
cp old/a/000[0-5].png kinds/b && cp old/b/000[0-5].png kinds/d && cp new/c/000[0-5].png later/a && cp new/c/0009.png later/d
mkdir both && cp -R kinds/b kinds/d later/a both && cp later/d/* both/d
check "by folder" ddm-cluster -q --by folder --holdout .3 -o kinds.tsv kinds
check "a folder is new" ddm-cluster --by folder --holdout .3 --keep kinds.tsv -o both.tsv both
check_err "the report" '2 clusters are extended by 1; 12 samples keep theirs, and of the others 1 go to an old cluster'
rows kinds.tsv 1,2,4 >was
rows both.tsv 1,2,4 | grep -v '^a/\|^d/0009' >is
check_same "old samples keep cluster and split" was is
check_out "the new value comes last" "a 2" sh -c "grep '^a/' both.tsv | awk '{ print \$6, \$2 }' | sort -u"
check "at a site with the new samples alone" ddm-cluster -q --by folder --holdout .3 --keep kinds.tsv -o later.tsv later
past() { grep -o '"partition":"[0-9a-f]*","extends":[^]]*' "$1"; }
past both.tsv >was && past later.tsv >is
check_same "the same partition, which names the old one" was is
check "nothing new" ddm-cluster -q --by folder --holdout .3 --keep kinds.tsv -o again.tsv kinds
check_out "is the same partition" "$(partition kinds.tsv)" partition again.tsv
mkdir -p third/0 && cp later/a/0000.png third/0
check "an extension of an extension" ddm-cluster -q --by folder --holdout .3 --keep both.tsv -o third.tsv third
check_out "knows both" 2 sh -c "grep -o '\"extends\":.*' third.tsv | grep -o partition | wc -l"
rows kinds.tsv 1 | awk 'BEGIN { print "key\tkind" } { print $1 "\t" (NR % 2 ? "odd" : "even") }' >kind.tsv
ddm-cluster -q --by kind --table kind.tsv -o bykind.tsv kinds || exit 1
check_exit 65 "a table by another fact" ddm-cluster -q --by folder --keep bykind.tsv -o no.tsv both
check_err "both partitions" "bykind.tsv is of partition $(partition bykind.tsv | cut -c 1-16), and its clusters by folder would be"
check_exit 2 "clusters without names" ddm-cluster -q --by folder --keep old.tsv -o no.tsv both
check_err "says so" 'old.tsv: its clusters have no names; tables of --by have'
check_exit 2 "with a seed" ddm-cluster -q --by folder --keep kinds.tsv --seed 3 -o no.tsv both
ddm-shard -q -a kinds.tsv -o kinds.shards kinds && ddm-shard -q -a later.tsv -o later.shards later || exit 1
for k in 0 1; do ddm-train $expert --cluster $k -o named/expert_$k kinds.shards || exit 1; done
check "an expert for the new value" ddm-train $expert --cluster a -o named/expert_2 later.shards
ddm-route-train $net -o named/router later.shards || exit 1
check_out "belongs beside the old ones" "" ddm-check -c named
check "and draws" ddm-sample -q -n 2 --steps 2 --device cpu --route 'uniform|full' -o named.tar named
