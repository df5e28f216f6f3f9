# ddm-eval-fid: numbers against numpy (tests/golden/eval_sets.py), the same set from several kinds of sources, statistics, refusals.
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
for key in fd-pix fd-pix-heldout; do
	awk -v d="$(number $key pix.json)" -v se="$(number $key-se pix.json)" 'BEGIN { exit !(se > 0 && se < d) }'
	tap_result $? "$key has a standard error" "$(number $key pix.json) $(number $key-se pix.json)"
done
[ "$(tap_lines pix.json)" -eq 1 ]
tap_result $? "one line"
! grep -qiE '"[^"]*(fid|kid)[^"]*":' pix.json
tap_result $? "no number is called FID or KID"

# The results for a set do not depend on its container and the names of the pictures.
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

# Statistics can replace the set.
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

# Shards record the features that they were clustered by; a metric of the same features favours the partition.
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

# The usual metrics, against the published formulas in numpy.
for k in pix rgb8; do
	check "metrics of the field, $k" ddm-eval-fid --features $k --metrics fid,kid,pr,dc,authenticity,cmmd,vendi --protocol torch-fidelity \
		--subsets 20 --subset-size 10 -o field.json "$A" "$S"
	check_err "$k: fewer samples than dimensions is said" "24 samples are no more than the [0-9]* dimensions"
	while read -r key want; do
		case $key in
		*$k*) same_number "$key" "$(number "$key" field.json)" "$want" ;;
		esac
	done <"$G/eval-field.txt"
	check_grep "$k: torch-fidelity's seed is on record" '"seed":2020' field.json
	rm field.json
done
# Authenticity compares with the training pictures (--train); the other metrics use the reference.
for k in pix rgb8; do
	check "authenticity, $k: --train" ddm-eval-fid --features $k --metrics pr,dc,authenticity --train "$A" -o copies.json "$H" "$S"
	check "authenticity, $k: of the reference" ddm-eval-fid --features $k --metrics authenticity -o own.json "$H" "$S"
	check "authenticity, $k: --train alone" ddm-eval-fid --features $k --metrics authenticity --train "$A" -o alone.json "$H" "$S"
	while read -r key want; do
		case $key in
		authenticity-train-$k)
			same_number "$key" "$(number authenticity-$k copies.json)" "$want"
			same_number "$key, alone" "$(number authenticity-$k alone.json)" "$want"
			;;
		authenticity-reference-$k) same_number "$key" "$(number authenticity-$k own.json)" "$want" ;;
		*-$k) same_number "--train: $key of the reference" "$(number "$key" copies.json)" "$want" ;;
		esac
	done <"$G/eval-train.txt"
	rm copies.json own.json alone.json
done
check_grep "--train: its hash is on record" '"train":"[0-9a-f]{64}"' train.json
mkdir single && tar xzf "$A" -C single 0000.png
check_exit 2 "authenticity of one training picture" ddm-eval-fid --metrics authenticity --train single -o no.json "$H" "$S"
check_err "how many are needed" 'authenticity needs at least 2 training pictures and 2 samples, not 1 and 24'
check "fid alone" ddm-eval-fid --metrics fid -o fid.json a.npz "$S"
same_number "fid alone: of statistics" "$(number fid-pix fid.json)" "$(sed -n 's/^fid-pix //p' "$G/eval-field.txt")"
[ -z "$(number kd-pix fid.json)" ]
tap_result $? "fid alone: nothing else"
check_exit 73 "other metrics over it" ddm-eval-fid --metrics fid,kd -o fid.json a.npz "$S"
check_err "the metrics are named" 'fid.*kd,fid'
check "kid by our draws" ddm-eval-fid --metrics kid --subsets 20 --subset-size 10 -o kid.json "$A" "$S"
check "kid by clean-fid's" ddm-eval-fid --metrics kid --protocol clean-fid --seed 2020 --subsets 20 --subset-size 10 -o clean.json "$A" "$S"
same_number "kid by clean-fid's draws with torch-fidelity's seed" "$(number kid-pix clean.json)" "$(sed -n 's/^kid-pix //p' "$G/eval-field.txt")"
check_exit 2 "an unknown metric" ddm-eval-fid --metrics fid,fld -o no.json "$A" "$S"
check_err "the known ones are listed" "fld.*fid"
check_exit 2 "no metric" ddm-eval-fid --metrics , -o no.json "$A" "$S"
check_exit 2 "is without logits" ddm-eval-fid --metrics is -o no.json "$A" "$S"
check_exit 2 "sfid without spatial features" ddm-eval-fid --metrics sfid -o no.json "$A" "$S"
check_exit 2 "clip without captions" ddm-eval-fid --metrics clip -o no.json "$A" "$S"
check_exit 2 "subsets larger than a set, as torch-fidelity" ddm-eval-fid --metrics kid --protocol torch-fidelity -o no.json "$A" "$S"
check_exit 2 "a seed numpy does not have" ddm-eval-fid --metrics kid --protocol clean-fid --seed 4294967296 -o no.json "$A" "$S"

# Vectors, logits and captions as arrays of 24 x 2 bytes.
array() { # NAME ROWS COLUMNS TEXT
	printf '\223NUMPY\001\000\166\000' >"$1"
	printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($2, $3), }" >>"$1"
	printf %s "$4" >>"$1"
}
array logits.npy 24 2 'azbybzcyazbybzcyazbybzcyzaybzbyczaybzbyczaybzbyc'
check "is" ddm-eval-fid --metrics is --logits logits.npy -o is.json "$A" "$S"
# 10 groups of samples whose logits differ by 20 or more: the score is 1 for groups of one kind, and at most 2
awk -v v="$(number is-pix is.json)" 'BEGIN { exit !(v > 1 && v <= 2) }'
tap_result $? "is: between 1 and the number of classes"
check "is, one group in the order of files" ddm-eval-fid --metrics is --protocol adm --logits logits.npy -o adm.json "$A" "$S"
same_number "is: half of each class, certain: 2" "$(number is-pix adm.json)" 2
array short.npy 23 2 'azbybzcyazbybzcyazbybzcyzaybzbyczaybzbyczaybzb'
check_exit 65 "logits of other samples" ddm-eval-fid --metrics is --logits short.npy -o no.json "$A" "$S"
array v.npy 24 2 'azbybzcyazbybzcyazbybzcyzaybzbyczaybzbyczaybzbyc'
array w.npy 24 2 'bzcyczdybzcyczdybzcyczdybzcyczdybzcyczdybzcyczdy'
check "vectors" ddm-eval-fid --metrics fid,pr -o v.json v.npy w.npy
[ -n "$(number fid-npy v.json)" ]
tap_result $? "vectors: fid-npy"
check "captions" ddm-eval-fid --metrics clip --captions v.npy -o clip.json w.npy v.npy
same_number "captions: each its own picture" "$(number clip-score-npy clip.json)" 100
# One linear layer from 2 to 1 with the weights 1 and -1 and the bias 5.
{
	printf '\210\000\000\000\000\000\000\000'
	printf '{"layers.0.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
	printf '"layers.0.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}'
	printf '\000\000\200\077\000\000\200\277\000\000\240\100'
} >rating.safetensors
array rated.npy 2 2 'aabb'
check "aesthetic" ddm-eval-fid --metrics aesthetic --aesthetic rating.safetensors -o rated.json rated.npy rated.npy
same_number "aesthetic: 5 of vectors whose halves are equal" "$(number aesthetic-npy rated.json)" 5
check_grep "aesthetic: the weights are on record" '"aesthetic-hash"' rated.json
check_exit 65 "aesthetic of other dimensions" ddm-eval-fid --metrics aesthetic --aesthetic rating.safetensors -o no.json "$A" "$S"
check_exit 65 "captions of other dimensions" ddm-eval-fid --metrics clip --captions v.npy -o no.json "$A" "$S"

# Recipes: evaluations of pictures made in different ways are refused, or a message says so.
echo '{"features":"inception","input":"tf1"}' >v.npy.json
echo '{"features":"inception","input":"clean"}' >w.npy.json
check_exit 65 "one network, fed in two ways" ddm-eval-fid --metrics fid -o no.json v.npy w.npy
check_err "both ways are named, and the option" 'tf1.*clean.*--ignore-recipe'
check "--ignore-recipe" ddm-eval-fid --metrics fid --ignore-recipe -o mixed.json v.npy w.npy
check_grep "--ignore-recipe: the line says so" '"recipe-ignored":."samples"' mixed.json
echo '{"features":"inception","input":"tf1"}' >w.npy.json
check "one network, fed in one way" ddm-eval-fid --metrics fid -o alike.json v.npy w.npy
check_grep "named by its features" '"fid-inception"' alike.json
! grep -q ignored alike.json
tap_result $? "nothing was ignored"
rm w.npy.json
check "what does not say how it was made" ddm-eval-fid --metrics fid -o unsaid.json v.npy w.npy
check_grep "is on record" '"unrecorded":"samples"' unsaid.json
check_err "and said" "does not say how it was made"
check_exit 65 "vectors against pixels" ddm-eval-fid -o no.json v.npy "$S"

# The cache: the same result, in a file beside the set, and never the result for other pictures.
mkdir cached
cp folder/00[12]*.png cached
cp "$S" samples.tar.gz
S=samples.tar.gz
check "without a cache" ddm-eval-fid --seed 1 -o plain.json cached "$S"
check "--cache" ddm-eval-fid --seed 1 --cache -o cache-1.json cached "$S"
check_same "--cache: the same line" plain.json cache-1.json
set -- cached.features-*.npz
[ $# -eq 1 ] && [ -s "$1" ] && [ -s "$(echo samples.tar.gz.features-*.npz)" ]
tap_result $? "--cache: features beside the sets" "$*"
touch -d 2001-01-01 "$1"
check "--cache again" ddm-eval-fid --seed 1 --cache -o cache-2.json cached "$S"
check_same "--cache again: the same line" plain.json cache-2.json
[ -z "$(find "$1" -newermt 2002-01-01)" ]
tap_result $? "--cache again: the file was read, not written"
flip "$1" 4000
check "--cache with a damaged file" ddm-eval-fid --seed 1 --cache -o cache-3.json cached "$S"
check_same "--cache with a damaged file: the same line" plain.json cache-3.json
cp folder/0020.png cached/0011.png
check "--cache after a change" ddm-eval-fid --seed 1 --cache -o cache-4.json cached "$S"
check_differ "--cache after a change: another line" plain.json cache-4.json
ddm-eval-fid --seed 1 -o plain-4.json cached "$S"
check_same "--cache after a change: that of the pictures" plain-4.json cache-4.json
check "--cache, other features" ddm-eval-fid --features rgb8 --cache -o cache-5.json cached "$S"
check_grep "--cache, other features: other numbers" kd-rgb8 cache-5.json
mkdir keep
check "--cache-dir" ddm-eval-fid --seed 1 --cache-dir keep -o cache-6.json cached "$S"
check_same "--cache-dir: the same line" plain-4.json cache-6.json
[ "$(ls keep | wc -l)" -eq 2 ]
tap_result $? "--cache-dir: two sets"
check "--cache-dir that is not there" ddm-eval-fid --seed 1 --cache-dir nowhere -o cache-7.json cached "$S"
check_err "--cache-dir that is not there: is said" nowhere

# Refusals: one line, nothing written.
check_exit 66 "no reference" ddm-eval-fid -o no.json nowhere "$S"
check_exit 66 "no shards" ddm-eval-fid -o no.json nowhere:holdout "$S"
check_exit 65 "a part of what has none" ddm-eval-fid -o no.json folder:holdout "$S"
check_exit 2 "one operand" ddm-eval-fid -o no.json "$A"
check_exit 2 "standard input twice" ddm-eval-fid -o no.json - -
check_exit 2 "--size too small" ddm-eval-fid --size 8 -o no.json "$A" "$S"
check_exit 2 "an unknown kind" ddm-eval-fid --features inception -o no.json "$A" "$S"
check_exit 2 "a network without its weights" ddm-eval-fid --features inception: -o no.json "$A" "$S"
check_exit 66 "weights that are not there" ddm-eval-fid --features inception:nowhere -o no.json "$A" "$S"
check_err "what gets them is named" "nowhere.*fetch-weights inception"
check_exit 66 "no folder of a network" ddm-eval-fid --features clip:nowhere -o no.json "$A" "$S"
check_exit 2 "a way to feed what is not fed" ddm-eval-fid --input tf1 -o no.json "$A" "$S"
check_exit 65 "a network for other pictures" ddm-eval-fid --features "clip:$G/pretrained/clip-vision" -o no.json "$A" "$S"
check_err "both sizes are named" '10 x 10.*224 x 224'
check_exit 2 "lpips without its weights" ddm-eval-fid --metrics lpips -o no.json "$A" "$S"
check_exit 2 "weights of LPIPS that nothing uses" ddm-eval-fid --lpips nowhere -o no.json "$A" "$S"
check_exit 2 "groups that nothing uses" ddm-eval-fid --groups class -o no.json "$A" "$S"
check_exit 2 "a rating without its weights" ddm-eval-fid --metrics aesthetic -o no.json "$A" "$S"
check_exit 66 "no folder of LPIPS" ddm-eval-fid --metrics diversity --lpips nowhere -o no.json "$A" "$S"
check_err "its parts are named" "nowhere.*trunk"
check_exit 65 "no predictor" ddm-eval-fid --metrics aesthetic --aesthetic "$G/small.safetensors" -o no.json "$A" "$S"
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
