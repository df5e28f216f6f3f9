# ddm-eval-fid: numbers against numpy's (tests/golden/eval_sets.py), sources that hold one set, statistics, refusals.
. "$(dirname "$0")/tap.sh"

check_program ddm-eval-fid
G=$SRC/tests/golden
A=$G/eval-a.tar.gz
S=$G/eval-b.tar.gz
H=$G/eval-c.tar.gz

# number KEY FILE
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\)[,}].*/\1/p" "$2"; }

# same_number NAME GOT WANT: within 1e-6 relative or absolute
same_number() {
	awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; s = b < 0 ? -b : b; exit !(a != "" && b != "" && d <= 1e-6 * (s > 1 ? s : 1)) }'
	tap_result $? "$1" "$2, not $3"
}

check "two sets" ddm-eval-fid --heldout "$H" -o pix.json "$A" "$S"
check "two sets, rgb8" ddm-eval-fid --features rgb8 --heldout "$H" -o rgb8.json "$A" "$S"
while read -r key want; do
	case $key in
	*rgb8*) same_number "$key" "$(number "$key" rgb8.json)" "$want" ;;
	*) same_number "$key" "$(number "$key" pix.json)" "$want" ;;
	esac
done <"$G/eval-values.txt"
same_number "fd-n: half of the reference" "$(number fd-n pix.json)" 15
same_number "fd-n-heldout: the held-out set" "$(number fd-n-heldout pix.json)" 16
[ "$(tap_lines pix.json)" -eq 1 ]
tap_result $? "one line"
! grep -qiE '"[^"]*(fid|kid)[^"]*":' pix.json
tap_result $? "no number is called FID or KID"

# One set, whatever holds it and whatever the pictures are called.
mkdir folder folder/x
tar xzf "$A" -C folder
(cd folder && ls | head -n 9 | while read -r f; do [ -f "$f" ] && mv "$f" "x/renamed-$f"; done)
check "the same pictures in a folder, by other names" ddm-eval-fid --heldout "$H" -o folder.json folder "$S"
check_same "same line" pix.json folder.json
ddm-eval-fid --heldout "$H" - "$S" <"$A" >stdin.json 2>/dev/null
check_same "from standard input" pix.json stdin.json
for t in 1 3; do
	check "--threads $t" ddm-eval-fid --threads $t --heldout "$H" -o threads.json "$A" "$S"
	check_same "--threads $t: the same line" pix.json threads.json
done
check "another seed" ddm-eval-fid --seed 5 --heldout "$H" -o seed.json "$A" "$S"
same_number "another seed, all pairs: the same kd" "$(number kd-pix seed.json)" "$(number kd-pix pix.json)"
[ "$(number fd-pix-floor seed.json)" != "$(number fd-pix-floor pix.json)" ]
tap_result $? "another seed: other halves"
check "--train" ddm-eval-fid --train "$A" -o train.json "$H" "$S"
same_number "--train: memorised" "$(number memorised train.json)" .125
same_number "--train: memorised-of" "$(number memorised-of train.json)" 30
check "--subsets" ddm-eval-fid --subsets 20 --subset-size 10 -o subsets.json "$A" "$S"
check_stdout "the line" ddm-eval-fid "$A" "$S"

# Statistics stand for the set.
check "--stats-out" ddm-eval-fid --stats-out a.npz --heldout "$H" -o again.json "$A" "$S"
check_same "--stats-out: the same line" again.json pix.json
check "statistics as the reference" ddm-eval-fid --heldout "$H" -o npz.json a.npz "$S"
check_same "statistics as the reference: the same line" npz.json pix.json
check "--stats-out again" ddm-eval-fid --stats-out b.npz "$A" "$S"
check_same "the same statistics, byte for byte" a.npz b.npz
check "--size" ddm-eval-fid --size 24 --stats-out big.npz -o size.json "$A" "$S"
check "samples are treated as the reference was" ddm-eval-fid -o follow.json big.npz "$S"
check_same "the same line" size.json follow.json
check_exit 65 "other features than the statistics" ddm-eval-fid --size 20 a.npz "$S"
check_err "what differs is named" "16 x 16.*20 x 20"
check "statistics against statistics" ddm-eval-fid a.npz a.npz
same_number "a set is a copy of itself" "$(number memorised "$OUT")" 1
cp a.npz bad.npz
flip bad.npz 3000
check_exit 65 "a flipped bit in the statistics" ddm-eval-fid bad.npz "$S"
cp a.npz cut.npz
cut_to cut.npz 5000
check_exit 65 "cut statistics" ddm-eval-fid cut.npz "$S"

# Shards say what they were clustered by; a metric that looks at the same favours the partition.
ddm-cluster -q -k 2 --holdout .3 -o assign.tsv "$A" 2>/dev/null && ddm-shard -q -a assign.tsv -o shards "$A"
check "shards" ddm-eval-fid -o shards.json shards:all "$S"
check_grep "shards: cluster features" '"cluster-features":"hogcolor' shards.json
[ ! -s "$ERR" ]
tap_result $? "shards: no warning"
same_number "shards: all parts, the same pictures" "$(number kd-pix shards.json)" "$(number kd-pix pix.json)"
{
	printf '\223NUMPY\001\000\166\000'
	printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (30, 1), }"
	printf abcdefghijklmnopqrstuvwxyz0123
} >named.npy
echo '{"features":"pix"}' >named.npy.json
ddm-cluster -q -k 2 --features named.npy -o named.tsv "$A" 2>/dev/null && ddm-shard -q -a named.tsv -o named "$A"
check "shards by the metric's features" ddm-eval-fid -o named.json named "$S"
check_err "that is said" 'clustered by the same features "pix"'

# Refusals: one line, nothing written.
check_exit 66 "no reference" ddm-eval-fid -o no.json nowhere "$S"
check_exit 66 "no shards" ddm-eval-fid -o no.json nowhere:holdout "$S"
check_exit 65 "a part of what has none" ddm-eval-fid -o no.json folder:holdout "$S"
check_exit 2 "one operand" ddm-eval-fid -o no.json "$A"
check_exit 2 "standard input twice" ddm-eval-fid -o no.json - -
check_exit 2 "--size too small" ddm-eval-fid --size 8 -o no.json "$A" "$S"
check_exit 2 "an unknown kind" ddm-eval-fid --features inception -o no.json "$A" "$S"
mkdir two
cp folder/0010.png folder/0011.png two
check_exit 2 "two pictures" ddm-eval-fid -o no.json two "$S"
mkdir empty
check_exit 65 "an empty folder" ddm-eval-fid -o no.json "$A" empty
gunzip -c "$A" >cut.tar
cut_to cut.tar 9000
check_exit 65 "a cut tar" ddm-eval-fid -o no.json cut.tar "$S"
cp -R folder bad
cut_to bad/0010.png 60
check_exit 65 "a cut picture" ddm-eval-fid -o no.json "$A" bad
check_err "it is named" "0010"
check_absent "no output" no.json
check "--skip-bad" ddm-eval-fid --skip-bad -o skip.json bad "$S"
check_err "--skip-bad: named" "0010"
same_number "--skip-bad: counted" "$(number skipped-reference skip.json)" 1
check_exit_any 3 "--max-errors 0" ddm-eval-fid --skip-bad --max-errors 0 -o no.json bad "$S"
check_exit 74 "a full disk" ddm-eval-fid -o /dev/full "$A" "$S"
check_clean "nothing left" .
