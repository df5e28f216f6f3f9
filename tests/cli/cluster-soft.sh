# ddm-cluster --soft and what follows: shards, training, router, shares; the mixture of exact experts is exact.
. "$(dirname "$0")/tap.sh"

# 70 pictures in three folders.
for set in a b c; do
	mkdir -p pics/$set
	tar xzf "$SRC/tests/golden/eval-$set.tar.gz" -C pics/$set
done
body() { grep -v '^#' "$1"; }

check "clusters" ddm-cluster -q -k 3 --holdout .2 -o hard.tsv --centroids-out hard.npy pics
check "each sample in two" ddm-cluster -k 3 --holdout .2 --soft 2 -o two.tsv --report two.json --threads 1 pics
check_grep "told" '^a training sample is in 2.000 clusters on average$' "$ERR"
check_grep "reported" '"memberships": 2.0,' two.json
check_grep "a column" '^#key	cluster	distance	split	class	also$' two.tsv
body hard.tsv >hard.rows
body two.tsv | cut -f 1-5 >two.rows
check_same "the other columns as without" hard.rows two.rows
check_out "each has one more" 70 sh -c "grep -v '^#' two.tsv | awk -F '\t' '\$6 != \$2 && \$6 ~ /^[012]\$/' | grep -c ."
check "with threads" ddm-cluster -q -k 3 --holdout .2 --soft 2 --threads 3 -o again.tsv pics
check_same "the same" two.tsv again.tsv
check "by the centroids" ddm-cluster -q --centroids hard.npy --holdout .2 --soft 2 -o near.tsv pics
body two.tsv >two.rows
body near.tsv >near.rows
check_same "the same further clusters" two.rows near.rows
check "within a margin" ddm-cluster -q -k 3 --holdout .2 --soft 2 --margin 1.05 -o some.tsv --report some.json pics
check_out "some are in another, some twice in their own" "1 1" sh -c "grep -v '^#' some.tsv | awk -F '\t' '{ a += \$6 == \$2; b += \$6 != \$2 } END { print (a > 0) \" \" (b > 0) }'"
check "with ward" ddm-cluster -q -k 3 --method ward --soft 3 -o ward.tsv pics
check_out "in all three" 70 sh -c "grep -v '^#' ward.tsv | cut -f 6 | grep -c '^[012] [012]\$'"
check_out "every rule is another partition" 4 sh -c "for t in hard two some ward; do sed -n 's/.*\"partition\":\"\([0-9a-f]*\)\".*/\1/p' \$t.tsv; done | sort -u | grep -c ."

check "shards" ddm-shard -a some.tsv -o shards pics
check_grep "samples are counted once" '^70 samples, ' "$ERR"
check_grep "and in training" '^training counts each sample 2 times on average, in one cluster or in several$' "$ERR"
check "sound" ddm-check shards
check "again" ddm-shard -a some.tsv -o shards pics
check_grep "done already" 'exists already' "$ERR"
ddm-info --json shards >info.json
check_grep "ddm-info counts the places" '"further":70[,}]' info.json
has() { tar --zstd -tf "$1" | grep -q "^$2\\."; }
both=$(body some.tsv | awk -F '\t' '$4 == "train" && $6 != $2 { print $1, $2, $6; exit }')
# shellcheck disable=SC2086
set -- $both
has "shards/cluster-$2/000000.tar.zst" "$1"
tap_result $? "a sample of two clusters is in its own"
has "shards/cluster-$3/also-000000.tar.zst" "$1"
tap_result $? "and in the other"
cluster=$3
one=$(body some.tsv | awk -F '\t' '$4 == "train" && $6 == $2 { print $1, $2; exit }')
# shellcheck disable=SC2086
set -- $one
has "shards/cluster-$2/x2-000000.tar.zst" "$1"
tap_result $? "a sample of one cluster is in that, counted twice"
check "as samples" ddm-cluster -k 2 -o once.tsv shards
check_grep "each once" '^70 samples, ' "$ERR"
different=$(body some.tsv | awk -F '\t' -v k="$cluster" '$4 == "train" && ($2 == k || $6 == k)' | grep -c .)
check "a cluster as samples" ddm-cluster -k 2 -o cluster.tsv "shards/cluster-$cluster"
check_grep "each of its samples once" "^$different samples, " "$ERR"
n=$(body some.tsv | awk -F '\t' -v k="$cluster" '$4 == "train" { n += ($2 == k) + ($6 == k) } END { print n }')
check "an expert" ddm-train --cluster "$cluster" --model dit-nano/4 --size 8 --steps 1 --batch 2 -o expert shards
check_grep "has them as often as they count" ", $n samples, 1 steps" "$ERR"
check "the router" ddm-route-train --model dit-nano/4 --size 8 --steps 1 --batch 2 -o router shards
check_grep "too" ", $((2 * $(body some.tsv | grep -c '	train	'))) samples, 1 steps" "$ERR"
check_grep "sizes for the prior" "^    $n,*\$" router/config.json

# The control at equal cost: random places in the shares of a soft table.
check "random clusters" ddm-cluster -q -k 3 --features random --holdout .2 -o random.tsv pics
check "each sample in two" ddm-cluster -k 3 --features random --soft 2 --holdout .2 --report random.json -o random2.tsv pics
check_grep "told" '^a training sample is in 2.000 clusters on average$' "$ERR"
body random.tsv >random.rows
body random2.tsv | cut -f 1-5 >random2.rows
check_same "the other columns as without" random.rows random2.rows
check_out "each has one more" 70 sh -c "grep -v '^#' random2.tsv | awk -F '\t' '\$6 != \$2 && \$6 ~ /^[012]\$/' | grep -c ."
check "the shares of a soft table" ddm-cluster -q --features random --like some.tsv --soft 2 --holdout .2 -o like.tsv pics
check_out "as many places" 70 sh -c "grep -v '^#' like.tsv | cut -f 6 | grep -c '^[012]\$'"
check_out "every rule is another partition" 3 sh -c "for t in random random2 like; do sed -n 's/.*\"partition\":\"\([0-9a-f]*\)\".*/\1/p' \$t.tsv; done | sort -u | grep -c ."
check "shards" ddm-shard -q -a random2.tsv -o randomshards pics
check "sound" ddm-check randomshards
check "the shares' shards" ddm-shard -q -a like.tsv -o likeshards pics
check "sound" ddm-check likeshards

# Exact experts of overlapping clusters and the exact router of the same shards make the optimum of the data: no error but rounding.
body "$SRC/tests/golden/blobs.tsv" | awk -F '\t' 'BEGIN { print "key\tcluster\tsplit\talso" }
	{ print $1 "\t" $2 "\t" $3 "\t" (NR % 3 ? ($2 + 1) % 4 " " (NR % 2 ? ($2 + 2) % 4 : $2) : $2 " " $2) }' >blobs.tsv
check "overlapping blobs" ddm-shard -q -a blobs.tsv -o blobs "$SRC/tests/golden/blobs.tar.gz"
check "as exact experts" ddm-exact -o model blobs
check "their error" ddm-diagnose --routes full --timesteps .2,.5,.8 -n 100 -o budget.tsv budget model blobs
check_out "is none" 3 sh -c "awk -F '\t' '\$3 == \"all\" && \$5 < 1e-12' budget.tsv | grep -c ."
check "disjoint blobs" ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o disjoint "$SRC/tests/golden/blobs.tar.gz"
check "their exact experts" ddm-exact -o other disjoint
rm -r model/router
cp -R other/router model
check_exit 65 "a router of disjoint clusters does not fit" ddm-sample -n 1 --route full --steps 2 -o bad.tar model

check_exit 2 "--soft 1" ddm-cluster -k 3 --soft 1 pics
check_exit 2 "more than there are" ddm-cluster -k 3 --soft 4 pics
check_err "both numbers" 'soft 4, but there are 3 clusters'
check_exit 2 "--margin alone" ddm-cluster -k 3 --margin 2 pics
check_exit 2 "a margin of a random partition" ddm-cluster -k 3 --features random --soft 2 --margin 2 pics
check_exit 2 "more random places than clusters" ddm-cluster -k 3 --features random --soft 4 pics
check_exit 2 "by folder" ddm-cluster --by folder --soft 2 pics
printf 'key\tcluster\talso\na/0000\t0\tred\n' >bad.tsv
check_exit 65 "a further cluster that is no number" ddm-shard -a bad.tsv -o none pics
check_err "the line" 'bad.tsv:2: also .red.: expected the numbers of further clusters'
check_absent "nothing made" none
check_clean "no temporary files" .
