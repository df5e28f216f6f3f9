# ddm-info --diff: what was added, removed, moved and changed between two sets of shards, tables or samples; statuses; damage.
. "$(dirname "$0")/tap.sh"

need jq
small_pictures
ddm-cluster -q -k 3 --holdout .3 --seed 2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o a pics || exit 1

numbers='[.same, .added, .removed, .moved // "-", .changed // "-"] | map(tostring) | join(" ")'
# counts NAME WANT A B: same, added, removed, moved and changed keys; "-" if they are not compared
counts() {
	ddm-info --diff --json "$3" "$4" >diff.json 2>"$ERR"
	counts_got=$(jq -r "$numbers" diff.json)
	[ "$counts_got" = "$2" ]
	tap_result $? "$1" "$counts_got, not $2"
}

check "shards with themselves" ddm-info --diff a a
check_grep "all keys are the same" '^  same  *70$' "$OUT"
counts "shards have clusters and members" "70 0 0 0 0" a a
counts "a table has no members" "70 0 0 0 -" a.tsv a.tsv
counts "pictures have no clusters" "70 0 0 - 0" pics pics
counts "shards and the table that they were made by" "70 0 0 0 -" a.tsv a
counts "shards and the pictures in them" "70 0 0 - 0" pics a
tar cf pics.tar --sort=name -C pics .
check "a folder and its tar on standard input" sh -c 'ddm-info --diff pics - <pics.tar'
ddm-shard -q -a a.tsv --shard-size 1K --level 9 -o packed pics
counts "the same samples packed otherwise" "70 0 0 0 0" a packed

# One sample is left out, one is new, one goes to another cluster, one to the other split, and one has another picture.
grep -v '^#' a.tsv | cut -f 1,2,4 >rows
key() { awk -F '\t' -v c="$1" -v n="$2" '$2 == c && $3 == "train" && !--n { print $1 }' rows; }
removed=$(key 0 1) moved=$(key 0 2) split=$(key 1 1) changed=$(key 2 1)
cp -R pics more
rm "more/$removed.png"
mkdir more/new
cp "pics/$moved.png" more/new/one.png
cp "pics/$moved.png" "more/$changed.png"
{
	printf 'key\tcluster\tsplit\n'
	awk -F '\t' -v OFS='\t' -v r="$removed" -v m="$moved" -v s="$split" '$1 == r { next } $1 == m { $2 = 1 } $1 == s { $3 = "holdout" } { print }' rows
	printf 'new/one\t2\ttrain\n'
} >b.tsv
ddm-shard -q -a b.tsv -o b more || exit 1
counts "shards that differ" "66 1 1 2 1" a b
check_out "the keys" "$removed new/one $changed" jq -r '[.removed_keys[], .added_keys[], .changed_keys[]] | join(" ")' diff.json
check_out "where they moved" "$moved 0 1
$split 1 1 held out" sh -c "jq -r '.moved_keys[] | [.key, .from, .to] | join(\" \")' diff.json | sort"
check_exit_any 1 "the status says so" ddm-info --diff a b
[ ! -s "$ERR" ]
tap_result $? "and nothing else does"
check_grep "the text names the keys" "^  removed keys  *$removed\$" "$OUT"
check_grep "and the clusters" "^ *$moved  *0  *1\$" "$OUT"
counts "the other way round" "66 1 1 2 1" b a
check_out "adds what was removed" "$removed" jq -r '.added_keys[]' diff.json
counts "tables that differ" "67 1 1 2 -" a.tsv b.tsv
counts "pictures that differ" "68 1 1 - 1" pics more
echo 3 >"more/$moved.cls"
counts "a member more is a change" "67 1 1 - 2" pics more

# Samples of several clusters
ddm-cluster -q -k 3 --holdout .3 --seed 2 --soft 2 -o soft.tsv pics
ddm-shard -q -a soft.tsv -o soft pics
counts "soft shards and their table" "70 0 0 0 -" soft.tsv soft
counts "hard and soft" "0 0 0 70 0" a soft
check_grep "all clusters are named" '"to": ?"[012] and [012]( held out)?"' diff.json

# What cannot be compared
check_exit 2 "one operand" ddm-info --diff a
check_exit 2 "three" ddm-info --diff a a a
check_exit 2 "not with --check" ddm-info --diff --check a a
check_exit 66 "an absent operand" ddm-info --diff a none
echo text >text
check_exit 65 "a text" ddm-info --diff text a
cp -R b cut
cut_to cut/cluster-0/000000.tar.zst 1000
check_exit 65 "a shard that is cut" ddm-info --diff a cut
check_err "is named" 'cut/cluster-0/000000.tar.zst'
cp -R packed bent
flip bent/cluster-0/000000.tar.zst 900
check_exit 65 "an altered sample" ddm-info --diff a bent
check_err "is named" 'bent/cluster-0/000000.tar.zst'
check_stdout "the report" ddm-info --diff a a
