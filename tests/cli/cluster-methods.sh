# ddm-cluster --method: every method gives a table, centroids and a report; held-out samples change nothing; refusals.
. "$(dirname "$0")/tap.sh"

# 70 pictures in three folders.
for set in a b c; do
	mkdir -p pics/$set
	tar xzf "$SRC/tests/golden/eval-$set.tar.gz" -C pics/$set
done
check "k-means" ddm-cluster -q -k 3 --holdout .2 -o kmeans.tsv pics
check "by name" ddm-cluster -q -k 3 --holdout .2 --method kmeans -o named.tsv pics
check_same "the default" kmeans.tsv named.tsv

for method in ward average spectral; do
	check "$method" ddm-cluster -k 3 --holdout .2 --method $method --threads 1 -o $method.tsv --centroids-out $method.npy --report $method.json pics
	check_grep "$method: in the stamp" "\"method\":\"$method\"" $method.tsv
	check_grep "$method: in the report" "\"name\": \"$method\"" $method.json
	check "$method: on two threads" ddm-cluster -q -k 3 --holdout .2 --method $method --threads 2 -o two.tsv --centroids-out two.npy --report two.json pics
	check_same "$method: the same table" $method.tsv two.tsv
	check_same "$method: the same centroids" $method.npy two.npy
	check_same "$method: the same report" $method.json two.json
	rm two.*
	check_differ "$method: not k-means" kmeans.tsv $method.tsv
	check_out "$method: three clusters" "0 1 2" sh -c "grep -v '^#' $method.tsv | cut -f 2 | sort -u | paste -sd ' '"

	# The fit depends only on the training part: other pictures under the held-out keys change only their own rows.
	rm -rf other
	cp -R pics other
	grep '	holdout	' $method.tsv | cut -f 1 | while read -r key; do cp pics/c/0003.png "other/$key.png"; done
	check "$method: other held-out pictures" ddm-cluster -q -k 3 --holdout .2 --method $method -o other.tsv --centroids-out other.npy other
	check_same "$method: the same centroids again" $method.npy other.npy
	rm -f other.*

	# A held-out sample goes to the nearest centroid, so assigning by the centroids gives its row again.
	check "$method: assign to the centroids" ddm-cluster -q --centroids $method.npy --holdout .2 -o near.tsv pics
	grep '	holdout	' $method.tsv >held
	grep '	holdout	' near.tsv >near
	check_same "$method: held-out samples go to the nearest" held near
	away=$(grep '	train	' near.tsv | cut -f 1,2 >near && grep '	train	' $method.tsv | cut -f 1,2 | comm -3 - near | grep -c '^[^	]')
	check_grep "$method: the others are counted" "\"away\": $away," $method.json
	rm near.tsv

	check "$method: through micro-centroids" ddm-cluster -k 2 --method $method --fine 25 -o fine.tsv --report fine.json pics
	check_grep "$method: told" "^$method clustered 25 centroids of k-means in place of 70 samples$" "$ERR"
	check_grep "$method: and in the report" '"micro_centroids": 25' fine.json
	rm fine.*
	check_exit 2 "$method: more clusters than samples" ddm-cluster -k 71 --method $method pics
	check_err "$method: both numbers" '71 .*70'
	check_exit 2 "$method: --balance" ddm-cluster -k 2 --method $method --balance 2 pics
done
check_exit 2 "no such method" ddm-cluster -k 2 --method single pics
check_err "the list" 'kmeans, ward, average.* spectral'
check_exit 2 "--restarts of ward" ddm-cluster -k 2 --method ward --restarts 2 pics
check_exit 2 "--neighbours of ward" ddm-cluster -k 2 --method ward --neighbours 2 pics
check_exit 2 "as many neighbours as samples" ddm-cluster -k 2 --method spectral --neighbours 70 pics
check_exit 65 "a graph in pieces" ddm-cluster -k 2 --method spectral --neighbours 1 pics
check_err "their number" 'falls into [0-9]+ pieces, more than 2 clusters'
check_exit 2 "with centroids" ddm-cluster --centroids ward.npy --method ward pics
check_exit 2 "at random" ddm-cluster -k 2 --features random --method ward pics
check_out "every method makes its own partition" 4 sh -c "for t in kmeans ward average spectral; do sed -n 's/.*\"partition\":\"\\([0-9a-f]*\\)\".*/\\1/p' \$t.tsv; done | sort -u | grep -c ."
check_clean "no temporary files" .
