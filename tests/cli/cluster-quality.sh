# ddm-cluster --report, --rate, --silhouette, --seeds, --against: the measures of an assignment, of this run or of a table.
. "$(dirname "$0")/tap.sh"

# 70 pictures in three folders.
for set in a b c; do
	mkdir -p pics/$set
	tar xzf "$SRC/tests/golden/eval-$set.tar.gz" -C pics/$set
done
value() { sed -n "s/^  *\"$2\": \([-0-9.e]*\),*$/\1/p" "$1" | head -n 1; }

check "clusters" ddm-cluster -k 4 --holdout .2 --seed 5 --against folder --seeds 3 --report one.json -o one.tsv --threads 1 pics
check_grep "the measures on stderr" '^silhouette of [0-9]+ samples 0\.[0-9]+, Davies-Bouldin [0-9.]+, Calinski-Harabasz [0-9.]+$' "$ERR"
check_grep "seeds" '^agreement of 3 seeds: adjusted Rand [0-9.]+ .lowest [0-9.]+., mutual information [0-9.]+ .lowest [0-9.]+.$' "$ERR"
check_grep "labels" '^agreement with 3 values of folder: adjusted Rand [-0-9.]+, mutual information [0-9.]+$' "$ERR"
check_grep "a table" '^ cluster     train   share  held out  distance silhouette$' "$ERR"
check_grep "with a row for each cluster" '^       3 +[0-9]+ +[0-9.]+% +[0-9]+ +[0-9.]+ +[-0-9.]+$' "$ERR"
check "without a report" ddm-cluster -k 4 --holdout .2 --seed 5 --threads 2 -o plain.tsv pics
check_same "the same table" one.tsv plain.tsv
check_grep "the short summary" '^cluster 3: [0-9]+ \(' "$ERR"
check "on two threads" ddm-cluster -q -k 4 --holdout .2 --seed 5 --against folder --seeds 3 --report two.json -o two.tsv --threads 2 pics
check_same "the same report" one.json two.json

check "measure that table" ddm-cluster --rate one.tsv --seed 5 --against folder --report rated.json --centroids-out rated.npy --sheet rated.png pics
check_grep "told" '^70 samples, [0-9]+ held out, 4 clusters of hogcolor-1' "$ERR"
for key in silhouette davies_bouldin calinski_harabasz largest smallest train holdout; do
	check_out "the same $key" "$(value one.json $key)" value rated.json $key
done
check "assign by the means of the clusters" ddm-cluster -q --centroids rated.npy --holdout .2 -o again.tsv pics
grep -v '^#' one.tsv | cut -f 1,2 >one.rows
grep -v '^#' again.tsv | cut -f 1,2 >again.rows
check_same "which are those of k-means" one.rows again.rows

# A table of another program, with names; the split column decides what is measured.
grep -v '^#' one.tsv | awk -F '\t' 'BEGIN { print "key,cluster,split" } { print $1 "," ($2 == 0 ? "red" : "rest") "," $4 }' >named.csv
check "a table of another program" ddm-cluster --rate named.csv --against cluster --table one.tsv pics
check_grep "its names" ' red$' "$ERR"
check_grep "against the finer table" '^agreement with 4 values of cluster: ' "$ERR"
check "a table against itself" ddm-cluster --rate one.tsv --against cluster --table one.tsv pics
check_grep "is 1" '^agreement with 4 values of cluster: adjusted Rand 1.000, mutual information 1.000$' "$ERR"
check "few in the silhouette" ddm-cluster -q -k 4 --silhouette 20 --report few.json pics
check_grep "counted" '"silhouette_samples": 20,' few.json
check "all" ddm-cluster -q -k 4 --silhouette 0 --report all.json pics
check_grep "counted" '"silhouette_samples": 70,' all.json
check "by folder, against folder" ddm-cluster --by folder --against folder pics
check_grep "is 1" '^agreement with 3 values of folder: adjusted Rand 1.000' "$ERR"

check_exit 2 "--rate with -k" ddm-cluster --rate one.tsv -k 4 pics
check_exit 2 "--rate with -o" ddm-cluster --rate one.tsv -o none.tsv pics
check_exit 2 "--rate with --holdout" ddm-cluster --rate one.tsv --holdout .2 pics
check_exit 2 "--seeds of a random partition" ddm-cluster -k 2 --features random --seeds 2 pics
check_exit 2 "--seeds where nothing is drawn" ddm-cluster -k 2 --method ward --seeds 2 pics
check_err "said" 'ward draws nothing for 70 samples'
check_exit 2 "--against nothing known" ddm-cluster -k 2 --against colour pics
check_err "what there is" 'class, folder, or a column'
check_exit 65 "--against class without one" ddm-cluster -q -k 2 --against class pics
check_exit 65 "no such column" ddm-cluster -q -k 2 --against colour --table one.tsv pics
head -n 30 named.csv >short.csv
check_exit 65 "a sample that is not in the table" ddm-cluster --rate short.csv pics
check_err "named" 'is not in the assignment'
check_exit 65 "a row without a sample" ddm-cluster --rate one.tsv pics/a
check_exit 66 "no such table" ddm-cluster --rate none.tsv pics
check_absent "no table written" none.tsv
check_clean "no temporary files" .
