# ddm-cluster --distance cosine: spherical k-means, and all that uses its centroids later: --centroids, --soft, --balance, --rate, --route distance.
. "$(dirname "$0")/tap.sh"

# 70 pictures in three folders.
for set in a b c; do
	mkdir -p pics/$set
	tar xzf "$SRC/tests/golden/eval-$set.tar.gz" -C pics/$set
done
rows() { grep -v '^#' "$1" >"$2"; }
value() { sed -n "s/^  *\"$2\": \([-0-9.e]*\),*$/\1/p" "$1" | head -n 1; }
partition() { sed -n 's/.*"partition":"\([0-9a-f]*\)".*/\1/p' "$1"; }

cosine="ddm-cluster -k 4 --distance cosine --holdout .2 --seed 5"
check "clusters" $cosine --threads 1 --report one.json --centroids-out one.npy -o one.tsv pics
check_grep "told" '4 clusters of hogcolor-1 by cosine: ' "$ERR"
check "with threads" $cosine -q --threads 3 -o two.tsv pics
check_same "the same" one.tsv two.tsv
check_grep "the stamp says so" '"distance":"cosine"' one.tsv
check_grep "the sidecar too" '"distance": "cosine"' one.npy.json
check "by l2" ddm-cluster -q -k 4 --distance l2 --holdout .2 --seed 5 --centroids-out l2.npy -o l2.tsv pics
check_out "is the default, which no stamp names" 0 sh -c 'grep -c distance.:.l2 l2.tsv || :'
check_out "the partitions differ" 2 sh -c "grep -ho '\"partition\":\"[0-9a-f]*\"' one.tsv l2.tsv | sort -u | grep -c ."

check "assign to the centroids" ddm-cluster -q --centroids one.npy --holdout .2 --centroids-out again.npy -o again.tsv pics
rows one.tsv one.rows
rows again.tsv again.rows
check_same "as when they were fitted, held-out samples too" one.rows again.rows
check_out "the same partition" "$(partition one.tsv)" partition again.tsv
check "by the centroids that this wrote" ddm-cluster -q --centroids again.npy --holdout .2 -o third.tsv pics
rows third.tsv third.rows
check_same "the same" one.rows third.rows
cp one.npy bare.npy
check "the same centroids without their sidecar" ddm-cluster -q --centroids bare.npy --holdout .2 -o bare.tsv pics
rows bare.tsv bare.rows
check_differ "are compared by l2" one.rows bare.rows

check "measured" ddm-cluster -q --rate one.tsv --distance cosine --seed 5 --report rated.json --centroids-out rated.npy pics
for key in silhouette davies_bouldin; do
	check_out "the same $key" "$(value one.json $key)" value rated.json $key
done
check "assigned to the measured centroids" ddm-cluster -q --centroids rated.npy --holdout .2 -o fourth.tsv pics
grep -v '^#' one.tsv | cut -f 1,2 >one.two
grep -v '^#' fourth.tsv | cut -f 1,2 >fourth.two
check_same "the same clusters" one.two fourth.two
check "measured by l2" ddm-cluster -q --rate one.tsv --seed 5 --report other.json pics
[ "$(value other.json inertia)" != "$(value rated.json inertia)" ]
tap_result $? "is another inertia"

check "balanced" $cosine -q -k 5 --balance 1.05 --centroids-out bal.npy -o bal.tsv pics
n=$(grep -v '^#' bal.tsv | grep -c '	train	')
check_out "no cluster above its share" "" sh -c "grep '	train	' bal.tsv | cut -f 2 | sort | uniq -c | awk '\$1 > 1.05 * $n / 5 && \$1 > $n / 5 + 1'"
check "assigned again" ddm-cluster -q --centroids bal.npy --holdout .2 -o balagain.tsv pics
rows bal.tsv bal.rows
rows balagain.tsv balagain.rows
check_same "by the same rule" bal.rows balagain.rows
check "soft" $cosine -q --soft 2 -o soft.tsv pics
check "soft by the centroids" ddm-cluster -q --centroids one.npy --holdout .2 --soft 2 -o softagain.tsv pics
rows soft.tsv soft.rows
rows softagain.tsv softagain.rows
check_same "the same further clusters" soft.rows softagain.rows
check "seeds" $cosine -q --seeds 2 -o seeds.tsv pics

# Features of two numbers in four directions, whose lengths are 10 and 250; the last one has none.
points() {
	printf '\223NUMPY\001\000\166\000'
	printf "%-117s\n" "{'descr': '|u1', 'fortran_order': False, 'shape': (8, 2), }"
	printf "\\012\\001\\372\\031\\001\\012\\031\\372\\012\\012\\372\\372\\012\\004$1"
}
mkdir few
cp pics/a/000[0-7].* few
points '\372\144' >points.npy
check "points" ddm-cluster -q -k 4 --distance cosine --features points.npy -o points.tsv few
check_out "in pairs of one direction" "1 1 1 1" sh -c "grep -v '^#' points.tsv | cut -f 2 | paste - - | awk '{ print (\$1 == \$2) }' | paste -sd ' '"
check_out "in four clusters" 4 sh -c "grep -v '^#' points.tsv | cut -f 2 | sort -u | grep -c ."
points '\000\000' >zero.npy
check_exit 65 "a sample without a direction" ddm-cluster -q -k 2 --distance cosine --features zero.npy -o none.tsv few
check_err "named" "\"$(ls few | tail -n 1 | sed 's/\..*//')\": its file features are all 0"
check "which l2 takes" ddm-cluster -q -k 2 --features zero.npy --centroids-out flat.npy -o flat.tsv few
check "centroids of others" ddm-cluster -q -k 2 --distance cosine --features points.npy --centroids-out unit.npy -o unit.tsv few
check_exit 65 "a sample without a direction, to such centroids" ddm-cluster -q --centroids unit.npy --features zero.npy -o none.tsv few

for more in "--by folder" "--features random" "--centroids one.npy" "--method ward" "--method spectral"; do
	check_exit 2 "not with $more" ddm-cluster -k 2 --distance cosine $more -o none.tsv pics
done
check_exit 2 "no such distance" ddm-cluster -k 2 --distance manhattan pics
check_absent "nothing made" none.tsv

# The nearest centroid of the predicted picture, which ends in the cluster of its expert.
check "shards" ddm-shard -q -a one.tsv -o shards pics
check "exact experts" ddm-exact -o model shards
near="ddm-sample -n 24 --steps 12 --centroids one.npy"
check "the nearest by cosine" $near --route 'distance:.01|top-1' --report near.json -o near.tar model
check "the pictures' clusters" ddm-cluster -q --centroids one.npy -o near.tsv near.tar
sed 's/.*"assigned":\[\([^]]*\)\].*/\1/' near.json | tr , '\n' | awk '{ print int(24 * $1 + .5) }' >experts
grep -v '^#' near.tsv | awk -F '\t' '{ n[$2]++ } END { for (k = 0; k < 4; k++) print n[k] + 0 }' >found
check_same "are those of the experts" experts found
check_clean "no temporary files" .
