# ddm-cluster: the table, equal results, given centroids, control partitions, bad input.
. "$(dirname "$0")/tap.sh"

check_program ddm-cluster
check_exit 2 "no operand" ddm-cluster -k 2
check_exit 2 "no -k" ddm-cluster .
check_exit 2 "-k 0" ddm-cluster -k 0 .
check_exit 2 "-k and --centroids with --fine" ddm-cluster --centroids c.npy --fine 9 .
check_exit 66 "no such folder" ddm-cluster -k 2 nowhere
check_exit 66 "no such features" ddm-cluster -k 2 --features hogcolr .
check_err "named" 'hogcolr'

# 70 pictures in three folders.
for set in a b c; do
	mkdir -p pics/$set
	tar xzf "$SRC/tests/golden/eval-$set.tar.gz" -C pics/$set
done
echo 3 >pics/a/0000.cls

check "clusters" ddm-cluster -k 4 --holdout .2 --seed 5 --threads 1 -o one.tsv --sheet one.png --centroids-out one.npy --report one.json pics
check_grep "report on stderr" '^70 samples, [0-9]+ held out, 4 clusters of hogcolor-1' "$ERR"
check "on the CPU, by name" ddm-cluster -q -k 4 --holdout .2 --seed 5 --device cpu -o cpu.tsv pics
check_same "as of itself for so few" one.tsv cpu.tsv
check_exit 69 "on a GPU that is not there" ddm-cluster -q -k 4 --device cuda:1023 -o gpu.tsv pics
check_exit 2 "nothing to compute there" ddm-cluster -q -k 4 --features random --device cpu -o gpu.tsv pics
check "clusters, two threads" ddm-cluster -q -k 4 --holdout .2 --seed 5 --threads 2 -o two.tsv --sheet two.png --centroids-out two.npy --report two.json pics
[ ! -s "$ERR" ]
tap_result $? "--quiet"
for kind in tsv png npy npy.json json; do check_same "the same $kind for any number of threads" one.$kind two.$kind; done
check_grep "columns" '^#key	cluster	distance	split	class$' one.tsv
check_grep "a class" '^a/0000	.*	3$' one.tsv
check_grep "last line" '^#end 70 ' one.tsv
check_out "each sample once" 70 sh -c "grep -v '^#' one.tsv | cut -f 1 | sort -u | grep -c ."
check_out "four clusters" "0 1 2 3" sh -c "grep -v '^#' one.tsv | cut -f 2 | sort -u | paste -sd ' '"
check "on stdout" ddm-cluster -q -k 4 --holdout .2 --seed 5 pics
check_same "the same bytes" one.tsv "$OUT"
check_stdout "the table" ddm-cluster -q -k 2 pics/a
check "another seed" ddm-cluster -q -k 4 --holdout .2 --seed 6 -o six.tsv pics
check_differ "gives other clusters" one.tsv six.tsv

tar cf pics.tar --sort=name -C pics .
check "of a tar" ddm-cluster -q -k 4 --holdout .2 --seed 5 -o tar.tsv pics.tar
check_same "the same table" one.tsv tar.tsv
check "of a tar on stdin" sh -c "gzip -c pics.tar | ddm-cluster -q -k 4 --holdout .2 --seed 5 --sheet pipe.png -o pipe.tsv -"
check_same "the same table" one.tsv pipe.tsv
check_same "the same sheet" one.png pipe.png
check "of a list" sh -c "cd pics && find . -type f -print0 | sort -z | ddm-cluster -q -k 4 --holdout .2 --seed 5 -0 -o ../list.tsv -"
check_same "the same table" one.tsv list.tsv

# The centroids depend only on the training part: other pictures under the held-out keys change only their own rows.
cp -R pics other
grep '	holdout	' one.tsv | cut -f 1 | while read -r key; do cp pics/c/0003.png "other/$key.png"; done
check "other held-out pictures" ddm-cluster -q -k 4 --holdout .2 --seed 5 -o other.tsv --centroids-out other.npy other
check_same "the same centroids" one.npy other.npy
grep '	train	' one.tsv >one.train
grep '	train	' other.tsv >other.train
check_same "the same training rows" one.train other.train

check "by folder" ddm-cluster -q -k 2 --holdout .5 --holdout-by dir --features random -o dir.tsv pics
check_out "a fold is neither nothing nor all" "holdout train" sh -c "grep -v '^#' dir.tsv | cut -f 4 | sort -u | paste -sd ' '"
check_out "a folder is held out as a whole" "" sh -c "grep -v '^#' dir.tsv | sed 's,/[^	]*,,' | cut -f 1,4 | sort -u | cut -f 1 | uniq -d"

check "assign to centroids" ddm-cluster -q --centroids one.npy --holdout .2 -o again.tsv pics
grep -v '^#' one.tsv | cut -f 1-4 >one.rows
grep -v '^#' again.tsv | cut -f 1-4 >again.rows
check_same "as when they were fitted" one.rows again.rows
check "assign held-out samples alone" ddm-cluster --centroids one.npy --holdout 1 -o held.tsv pics
check_grep "told" '^70 samples, all held out, in 4 clusters of hogcolor-1$' "$ERR"
check_exit 2 "another -k" ddm-cluster -k 5 --centroids one.npy pics
sed 's/hogcolor-1/hogcolor-9/; s/ddm-seal:\([0-9a-f]*\):ddm-seal/\1/' one.npy.json >nine.npy.json
cp one.npy nine.npy
check_exit 65 "centroids of other features" ddm-cluster --centroids nine.npy pics
check_err "named" 'hogcolor-9'

check "not balanced" ddm-cluster -q -k 5 --seed 7 -o unbal.tsv pics
check "a cluster is large" sh -c "grep -v '^#' unbal.tsv | cut -f 2 | sort | uniq -c | awk '\$1 > 15' | grep -c ."
check "balanced" ddm-cluster -q -k 5 --balance 1.05 --seed 7 -o bal.tsv --centroids-out bal.npy pics
check_out "no cluster above its share" "" sh -c "grep -v '^#' bal.tsv | cut -f 2 | sort | uniq -c | awk '\$1 > 15'"
check "assign to balanced centroids" ddm-cluster -q --centroids bal.npy -o balagain.tsv pics
grep -v '^#' bal.tsv >bal.rows
grep -v '^#' balagain.tsv >balagain.rows
check_same "by the same rule" bal.rows balagain.rows
check "fine, then coarse" ddm-cluster -q -k 3 --fine 20 --threads 1 -o fine.tsv pics
check "the same with two threads" ddm-cluster -q -k 3 --fine 20 --threads 2 -o fine2.tsv pics
check_same "equal" fine.tsv fine2.tsv

check "a random partition" ddm-cluster -q --features random --like one.tsv --holdout .2 -o rnd.tsv pics
check_out "as many clusters" "0 1 2 3" sh -c "grep -v '^#' rnd.tsv | cut -f 2 | sort -u | paste -sd ' '"

check_exit 2 "more clusters than samples" ddm-cluster -k 71 pics
check_err "both numbers" '71 .*70'
check_exit 2 "all held out" ddm-cluster -k 2 --holdout 1 pics
cp -R pics hurt
victim=hurt/b/0005.png
cut_to $victim 60
check_exit 65 "a truncated picture" ddm-cluster -q -k 2 -o hurt.tsv hurt
check_err "named" b/0005
check_absent "nothing written" hurt.tsv
check "passed over" ddm-cluster -k 2 --skip-bad -o hurt.tsv hurt
check_err "named" "skipped: .*b/0005"
check_grep "one fewer" '^#end 69 ' hurt.tsv
check_exit_any 3 "too many" ddm-cluster -q -k 2 --skip-bad --max-errors 0 -o hurt3.tsv hurt
check_same "written all the same" hurt.tsv hurt3.tsv
cp pics.tar cut.tar
cut_to cut.tar 30000
check_exit 65 "a truncated tar" ddm-cluster -k 2 cut.tar
mkdir -p none/x
check_exit 65 "no pictures" ddm-cluster -k 1 none
if [ "$FULL" -eq 1 ]; then
	check_exit 74 "--report on a full disk" ddm-cluster -q -k 2 --report /dev/full -o full.tsv pics
	check_absent "no table without its report" full.tsv
fi
small() { sh -c 'trap "" XFSZ; ulimit -f 2; exec "$@"' sh "$@"; }
check_exit 74 "a disk that is full half-way" small ddm-cluster -q -k 2 -o full.tsv pics
check_absent "nothing written" full.tsv
if python=$(numpy_python); then
	"$python" - <<-'END'
	import numpy as np, json, hashlib
	keys = [l.split('\t')[0] for l in open('one.tsv') if l[0] != '#']
	x = np.random.default_rng(1).normal(size=(len(keys), 5)).astype('f4')
	x[:, 0] += 30 * (np.arange(len(keys)) % 3)
	np.save('x.npy', x)
	np.save('short.npy', x[:-1])
	h = hashlib.sha256(''.join(k + '\n' for k in keys).encode()).hexdigest()
	json.dump({'features': 'mine', 'keys': h}, open('x.npy.json', 'w'))
	END
	check "features from a file" ddm-cluster -q -k 3 --features x.npy -o x.tsv pics
	check_out "the clusters they show" "0" sh -c "grep -v '^#' x.tsv | awk -F '\t' '{ c = (NR - 1) % 3; if (c in m && m[c] != \$2) bad++; m[c] = \$2 } END { print bad + 0 }'"
	check_grep "named in the stamp" '"features":"mine"' x.tsv
	check_exit 65 "a row too few" ddm-cluster -k 3 --features short.npy pics
	"$python" - <<-'END'
	import numpy as np
	x = np.zeros((70, 3), 'f4')
	x[4, 1] = np.nan
	np.save('nan.npy', x)
	np.save('flat.npy', x[:, 0])
	x = np.load('one.npy')
	x[1, 2] = np.inf
	np.save('inf.npy', x)
	END
	check_exit 65 "a feature that is not finite" ddm-cluster -k 3 --features nan.npy pics
	check_err "where it is" 'nan.npy: row 4, column 1 is not finite ."a/'
	check_exit 65 "centroids that are not finite" ddm-cluster --centroids inf.npy pics
	check_err "where they are" 'inf.npy: row 1, column 2'
	check_exit 65 "features of rank 1" ddm-cluster -k 3 --features flat.npy pics
	check_err "said" 'an array of rank 1 with 70 rows'
	cp -R pics moved
	mv moved/b/0005.png moved/b/zz.png
	check_exit 65 "of other samples" ddm-cluster -k 3 --features x.npy moved
	check_err "said" 'other samples or to another order'
else
	skip "features from a file" "no numpy"
fi
check_clean "no temporary files" .
