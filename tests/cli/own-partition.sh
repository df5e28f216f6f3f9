# Partitions of the user's own: tables of other programs, clusters from folders, classes or facts, and names that are kept up to the model.
. "$(dirname "$0")/tap.sh"

mkdir pics pics/pants pics/shirt pics/7
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
n=0
for f in 0*.png; do
	case $((n % 3)) in 0) d=pants ;; 1) d=shirt ;; 2) d=7 ;; esac
	mv "$f" pics/$d/
	echo $((n % 3)) >"pics/$d/${f%.png}.cls"
	printf '{"year": %d, "place": "%s", "ok": true}\n' $((1998 + n % 2)) "$([ $((n % 2)) = 0 ] && echo Bonn || echo Köln)" >"pics/$d/${f%.png}.json"
	n=$((n + 1))
done
rows() { grep -v '^#' "$1"; }
keys() { rows "$1" | cut -f 1; }

# By folder, class, fact, table.
check "by folder" ddm-cluster --by folder --holdout .2 --report r.json -o folder.tsv pics
check_err "is said" '^30 samples by folder, [0-9]+ held out, in 3 clusters$'
check_err "with names" '^cluster 1 \(pants\): [0-9]+ '
check_grep "the table's columns" "^#key	cluster	distance	split	class	name\$" folder.tsv
check_grep "its stamp names them in order" '"cluster_names":\["folder_7","pants","shirt"\]' folder.tsv
check_out "every sample is in the cluster of its folder" "" sh -c \
	"grep -v '^#' folder.tsv | awk -F'\t' '{ split(\$1, p, \"/\"); want = p[1] == 7 ? 0 : p[1] == \"pants\" ? 1 : 2; if (\$2 != want) print }'"
check_grep "the report has names" '"name": "shirt"' r.json
check "by class" ddm-cluster -q --by class -o class.tsv pics
check_grep "whose numbers get a name" '"cluster_names":\["class_0","class_1","class_2"\]' class.tsv
printf 'trousers\nshirts\nbags\n' >pics/classes.txt
check "by class, where the classes have names" ddm-cluster -q --by class -o named.tsv pics
check_grep "by these" '"cluster_names":\["trousers","shirts","bags"\]' named.tsv
check "by a number among the facts" ddm-cluster -q --by year -k 2 -o year.tsv pics
check_grep "with the fact's name" '"cluster_names":\["year_1998","year_1999"\]' year.tsv
check "by a text among the facts" ddm-cluster -q --by place -o place.tsv pics
check_grep "as it is" '"cluster_names":\["Bonn","Köln"\]' place.tsv
{ echo "key,colour"; keys folder.tsv | awk '{ print "\"" $1 "\"," (NR % 2 ? "red" : "light blue") }'; } >colours.csv
check "by a column of a table" ddm-cluster -q --by colour --table colours.csv -o colour.tsv pics
check_grep "as it is" '"cluster_names":\["light blue","red"\]' colour.tsv
check_grep "the stamp has the table's hash" '"table":"[0-9a-f]{64}"' colour.tsv
check "the same command again" ddm-cluster -q --by colour --table colours.csv -o colour.tsv pics
check_out "an assignment by names is whole" "" ddm-check colour.tsv folder.tsv
ddm-info folder.tsv >info.txt
check_grep "ddm-info lists the names" '^ +1 +pants +' info.txt

check_exit 2 "another number of clusters" ddm-cluster --by class -k 4 -o x.tsv pics
check_err "both are named" '-k 4, but --by class makes 3 clusters'
check_exit 2 "a table without a column" ddm-cluster --table colours.csv -o x.tsv pics
for with in "--features random" "--fine 2" "--balance 2" "--seed 1" "--restarts 2" "--iterations 2" "--like class.tsv" "--centroids c.npy" "--centroids-out c.npy" \
	"--device cpu"; do
	check_exit 2 "--by and $with" ddm-cluster --by class $with -o x.tsv pics
done
check_exit 65 "a fact that is not there" ddm-cluster --by weather -o x.tsv pics
check_err "sample and fact are named" '"7/0002" has no text or whole number "weather" in its .json'
sed -i 3d colours.csv
check_exit 65 "a sample that the table lacks" ddm-cluster --by colour --table colours.csv -o x.tsv pics
check_err "is named" 'colours.csv|the sample "7/0005" is not in the table'
check "is passed over with --skip-bad" ddm-cluster -q --skip-bad --by colour --table colours.csv -o fewer.tsv pics
mkdir top && cp pics/7/0002.png top
check_exit 65 "a sample in no folder" ddm-cluster --by folder -o x.tsv top
check_exit 65 "a column that the table lacks" ddm-cluster --by size --table colours.csv -o x.tsv pics
check_absent "nothing was made" x.tsv

# Tables of other programs.
keys folder.tsv >keys.txt
awk '{ print (NR % 3) "\t" $1 }' keys.txt | sed '1i cluster\tkey' >own.tsv
awk '{ print $1 "," (NR % 3) }' keys.txt | sed '1i key,cluster' >own.csv
awk '{ printf "%s;\"a, \"\"quoted\"\"\nnote\";%d\r\n", $1, NR % 3 }' keys.txt | sed '1i key;note;cluster\r' >sheet.csv
printf '\357\273\277' | cat - own.csv >bom.csv
awk '{ print "#" ; print $1 "\t" (NR % 3) }' keys.txt | sed '1i #key\tcluster' >comments.tsv
awk '{ print $1 "," (NR % 3 == 0 ? "zebra" : NR % 3 == 1 ? "ant" : "light bulb") }' keys.txt | sed '1i key,cluster' >words.csv
for table in own.tsv own.csv sheet.csv bom.csv comments.tsv; do
	check "$table" ddm-shard -q -a $table --holdout .2 -o s.$table pics
	check_out "$table: the samples are where they belong" "$(awk 'NR % 3 == 1' keys.txt)" sh -c \
		"cat s.$table/cluster-1/*.zst s.$table/holdout/cluster-1/*.zst | zstd -dc | tar tf - --ignore-zeros | sed -n 's/\.png\$//p' | sort"
	check_grep "$table: its hash is in the stamp" "\"assign\":\"$(sha256sum $table | cut -d ' ' -f 1)\"" s.$table/MANIFEST.tsv
done
check "on standard input" sh -c 'ddm-shard -q -a - --holdout .2 -o stdin pics <own.csv'
check "clusters that are names" ddm-shard -q -a words.csv -o words pics
check_grep "are numbered in order, and kept" '"cluster_names":\["ant","light bulb","zebra"\]' words/MANIFEST.tsv
check "the same command again" ddm-shard -a words.csv -o words pics
check_exit 73 "another table" ddm-shard -a own.csv -o words pics
check "--like takes such a table" ddm-cluster -q --features random --like own.csv -o like.tsv pics

# bad NAME REGEX: the table on standard input is refused with its line and column
bad() {
	cat >bad.csv
	check_exit 65 "$1" ddm-shard -a bad.csv -o x pics
	check_err "line and column are named" "$2"
}
bad "no column key" "bad.csv:1: no column 'key' among name, cluster" <<EOF
name,cluster
a,0
EOF
bad "no column cluster" "bad.csv:1: no column 'cluster' among key, group" <<EOF
key,group
a,0
EOF
bad "a row too short" 'bad.csv:3: 1 fields where the first line names 2 columns' <<EOF
key,cluster
a,0
b
EOF
bad "a negative cluster" "bad.csv:4: cluster '-1' is not an integer" <<EOF
key,cluster

a,0
b,-1
EOF
bad "a name among numbers" "bad.csv:3: cluster 'x', but '0' on line 2" <<EOF
key,cluster
a,0
b,x
EOF
bad "an empty name" "bad.csv:3: cluster '' is empty" <<EOF
key,cluster
a,x
b,
EOF
bad "a key twice" "bad.csv:4: key 'a' is on line 2 already" <<EOF
key,cluster
a,0
b,0
a,1
EOF
bad "a split of another kind" 'bad.csv:2: the split of "a" is "val", neither train nor holdout' <<EOF
key,cluster,split
a,0,val
EOF
bad "an open quote" 'bad.csv:3: column 1: a quote is opened and never closed' <<EOF
key,cluster
a,0
"b,0
EOF
bad "no header" "bad.csv:1: no line with the names of columns" <<EOF
a
EOF
bad "no rows" "bad.csv: no rows" <<EOF
key,cluster
EOF
: >bad.csv
check_exit 65 "an empty file" ddm-shard -a bad.csv -o x pics
printf 'key,cluster\na\0b,0\n' >bad.csv
check_exit 65 "a NUL byte" ddm-shard -a bad.csv -o x pics
check_err "is named" 'bad.csv:2: a NUL byte'
# Our own tables are verified by their hash.
sed '$d' folder.tsv >cut.tsv
check_exit 65 "a table of ours without its end" ddm-shard -a cut.tsv -o x pics
check_err "is cut" 'truncated'
sed '5s/	0	/	1	/' folder.tsv >changed.tsv
check_exit 65 "or with a changed row" ddm-shard -a changed.tsv -o x pics
check_err "is altered" 'altered'

# Names are kept up to the model.
check "shards of clusters with names" ddm-shard -q -a folder.tsv -o s pics
check_grep "keep them" '"cluster_names":\["folder_7","pants","shirt"\]' s/MANIFEST.tsv
check_grep "and those of the classes" '"class_names":\["trousers","shirts","bags"\]' s/MANIFEST.tsv
ddm-info s >info.txt
check_grep "ddm-info lists the clusters" '^ +1 +pants +' info.txt
check_grep "and the classes" '^ +class names +trousers, shirts, bags$' info.txt
net="-q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 1 --threads 1 --device cpu"
check "an expert of a cluster by name" ddm-train $net --predict x0 --condition class --cluster pants -o m/expert_1 s
check_grep "knows its number" '"cluster": 1' m/expert_1/config.json
names() { tr -d ' \n' <"$1" | grep -o "\"$2\":\[[^]]*\]"; }
check_out "the names of clusters" '"cluster_names":["folder_7","pants","shirt"]' names m/expert_1/config.json cluster_names
check_out "and of classes" '"class_names":["trousers","shirts","bags"]' names m/expert_1/config.json class_names
check "by its number" ddm-train $net --predict x0 --condition class --cluster 1 -o n/expert_1 s
check_same "it is the same" m/expert_1/diffusion_pytorch_model.safetensors n/expert_1/diffusion_pytorch_model.safetensors
check "one that is told the cluster" ddm-train $net --predict x0 --condition cluster --cluster all -o told s
check_out "has the clusters as classes" '"class_names":["folder_7","pants","shirt"]' names told/config.json class_names
check "a router" ddm-route-train $net -o m/router s
check_out "knows the names" '"cluster_names":["folder_7","pants","shirt"]' names m/router/config.json cluster_names
ddm-info m m/expert_1 >info.txt
check_grep "ddm-info lists them" '^ +class names +trousers, shirts, bags$' info.txt
check_grep "with the cluster's name" '^ +cluster name +pants$' info.txt
check_exit 2 "a name that is none" ddm-train $net --predict x0 --cluster trouser -o x s
check_err "those there are are listed" "no cluster 'trouser': give a number from 0 to 2, or one of folder_7, pants, shirt"
check_exit 2 "a name where there are none" ddm-train $net --predict x0 --cluster pants -o x s.own.csv
check "the optimal expert by name" ddm-exact --cluster shirt -o exact s
check "and by number" ddm-exact --cluster 2 -o exact s
check_err "is there already" 'nothing to do'
check_absent "nothing was made" x

# A list that is too short is not kept.
printf 'trousers\nshirts\n' >pics/classes.txt
check "fewer names than classes" ddm-shard -a folder.tsv -o short pics
check_err "is said" 'names of classes are not kept: there are 2'
check_exit_any 1 "and none is there" grep -q class_names short/MANIFEST.tsv
