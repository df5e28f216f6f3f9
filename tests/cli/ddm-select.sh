# ddm-select: conditions on every kind of column; tar, table, list, report and chart; samples without a column; tables; clips; damaged input; repeats.
. "$(dirname "$0")/tap.sh"

need jq
check_program ddm-select
small_pictures
mkdir in
i=0
for kind in a b; do
	for f in pics/$kind/00*.png; do
		key=$kind-$(basename "$f" .png)
		cp "$f" "in/$key.png"
		case $kind in a) echo 0 ;; b) echo 1 ;; esac >"in/$key.cls"
		# motion 0, .1, .. in turn; every fifth sample has none; sharp counts up; deep.er is a text
		if [ $((i % 5)) -eq 4 ]; then
			echo "{\"sharp\": $i, \"deep\": {\"er\": \"t$((i % 3))\"}, \"flag\": true}"
		else
			echo "{\"motion\": 0.$((i % 10)), \"sharp\": $i, \"deep\": {\"er\": \"t$((i % 3))\"}, \"flag\": false, \"none\": null}"
		fi >"in/$key.json"
		i=$((i + 1))
	done
done
printf 'alpha\nbeta\n' >in/classes.txt
n=$i

# What is kept, by another program: jq on the facts.
facts() { # one object a line: the .json and the key
	for f in in/*.json; do
		jq -c --arg key "$(basename "$f" .json)" '. + {key: $key}' "$f"
	done
}
facts >facts.jsonl
keeps() { # NAME CONDITION JQ
	jq -r "select($3) | .key" facts.jsonl >want
	check "$1" ddm-select -q --list "$2" in
	check_same "$1: the keys" "$OUT" want
	[ -s want ]
	tap_result $? "$1: some"
}
# null in jq is less than every number
keeps "a number" 'motion > .3' '.motion > .3'
keeps "missing is false" 'motion < .3' '.motion != null and .motion < .3'
keeps "not of missing is true" '!(motion < .3)' '(.motion != null and .motion < .3) | not'
keeps "and, or, arithmetic" 'sharp / 2 + 1 >= 10 && motion > .2 || sharp < 3' '.sharp / 2 + 1 >= 10 and .motion > .2 or .sharp < 3'
keeps "a text within an object" "deep.er == 't1'" '.deep.er == "t1"'
keeps "another text" "deep.er != 't1' && flag" '.deep.er != "t1" and .flag'
keeps "has" '!has(motion)' '.motion == null'
keeps "a pattern" "key ~ 'a-*7'" '.key | test("^a-.*7$")'
keeps "a class by number" 'class == 1' '.key | startswith("b")'
keeps "a class by name" "class == 'beta'" '.key | startswith("b")'
keeps "the size of pictures" 'width == 16 && height == 16 && frames == 1 && sharp < 9' '.sharp < 9'
keeps "two columns" 'motion * 100 > sharp' '.motion != null and .motion * 100 > .sharp'

# The tar
check "a tar" ddm-select -o out.tar --report r.json --chart c.svg "motion > .1 && sharp < 40 && deep.er != 't0'" in
check_err "the summary" '^ddm-select: kept [0-9]+ of '$n' samples$'
check_err "says what was missing" '^ *[0-9]+ samples have no .motion.$'
tar tf out.tar | sed 's/\..*//' | uniq >got
jq -r 'select(.motion > .1 and .sharp < 40 and .deep.er != "t0") | .key' facts.jsonl >want
check_same "its keys, in order" got want
key=$(head -n 1 want)
for ext in png json cls; do
	tar xOf out.tar "$key.$ext" | cmp -s - "in/$key.$ext"
	tap_result $? "the member $ext is unchanged"
done
check "sound" ddm-check out.tar
check_out "it names the classes" 'alpha beta' sh -c 'ddm-info --json out.tar | jq -r ".. | .class_names? // empty | join(\" \")" | head -n 1'
check "clusters" ddm-cluster -q -k 2 -o out.tsv out.tar
check "again" ddm-select -o out.tar --report r.json --chart c.svg "motion > .1 && sharp < 40 && deep.er != 't0'" in
check_err "nothing was to do" 'out.tar: exists already'
check_exit 73 "another condition" ddm-select -o out.tar "motion > .2" in
check_err "the difference is named" 'condition'
cp in/a-0000.json kept
echo '{"motion": 0.9, "sharp": 0}' >in/a-0000.json
check_exit 73 "other samples" ddm-select -q -o out.tar --report r.json "motion > .1 && sharp < 40 && deep.er != 't0'" in
mv kept in/a-0000.json
rm c.svg
check "a chart that is missing is drawn" ddm-select -q -o out.tar --report r.json --chart c.svg "motion > .1 && sharp < 40 && deep.er != 't0'" in
check_grep "it is" '<svg' c.svg
check_grep "it says what the rules dropped" 'motion &gt; .1 drops [0-9]+' c.svg
check_clean "nothing is left" .

# The report, against jq
count() { jq -s "map(select($1)) | length" facts.jsonl; }
m='(.motion > .1)' s='(.sharp < 40)' d='(.deep.er != "t0")'
want="$n $(count "$m and $s and $d") $(count "$m | not") $(count "$m | not") $(count "($m | not) and $s and $d")"
want="$want $(count "$s | not") $(count "$m and ($s | not)") $(count "$m and ($s | not) and $d")"
want="$want $(count "$d | not") $(count "$m and $s and ($d | not)") $(count "$m and $s and ($d | not)") $(count '.motion == null')"
check_out "the report" "$want" jq -r '[.samples, .kept, (.rules[] | .alone, .in_order, .only), .lacking.motion] | map(tostring) | join(" ")' r.json
check_out "its rules" "motion > .1;sharp < 40;deep.er != 't0'" jq -r '[.rules[].rule] | join(";")' r.json
check "undefined results" ddm-select -q --list -o l --report u.json '1 / (sharp - 3) > 0 || sharp == 3' in
check_out "are counted" 1 jq '.rules[0].undefined' u.json

# Streams
tar cf in.tar -C in --sort=name .
check "through a pipe" sh -c 'ddm-select -q "motion > .1 && sharp < 40 && deep.er != '"'t0'"'" - <in.tar >piped.tar'
tar tf piped.tar >got
tar tf out.tar >want
check_same "the same samples" got want
check_stdout "a tar" ddm-select -q 'motion > .1' in
check_stdout "keys" ddm-select -q --list 'motion > .1' in
check "paths, ended by NUL" sh -c 'find in -name "*.png" -print0 | sort -z | ddm-select -q --list -0 "width == 16" - | wc -l >lines'
check_out "all" "$n" sed 's/ //g' lines

# The table
check "a table" ddm-select -q --table --columns sharp,class -o t.tsv 'motion > .3 && key ~ "a*"' in
check_out "its columns" "#key	motion	sharp	class" sed -n 1p t.tsv
jq -r 'select(.motion > .3 and (.key | startswith("a"))) | [.key, (.motion | tostring), (.sharp | tostring), "alpha"] | join("\t")' facts.jsonl >want
grep -v '^#' t.tsv >got
check_same "its rows" got want
check "a missing value" ddm-select -q --table --columns motion 'sharp == 4' in
check_grep "is a dash" '^a-0004	4	-$' "$OUT"
check "sound" ddm-check t.tsv

# Tables joined by key
printf 'key\tscore\tlabel\na-0000\t.5\tx\na-0001\tnan\ty\na-0002\t-\tx\na-0003\tinf\tx\na-0004\t0.75\tx\nother\t1\tx\n' >scores.tsv
check_out "a table of another program" "a-0000
a-0004" ddm-select -q --list --with scores.tsv 'score > .4' in
check "what lacks a number" ddm-select -q --list --with scores.tsv --report s.json -o s.list 'score < 9 || label == "y"' in
check_out "NaN and infinity are no numbers" $((n - 2)) jq .lacking.score s.json
check_out "those kept" "a-0000 a-0001 a-0004" sh -c 'echo $(cat s.list)'
check "a table of ddm-select" ddm-select -q --table --columns sharp -o more.tsv 'key ~ "*"' in
check_exit 2 "a column of two tables" ddm-select --list --with more.tsv --with more.tsv 'sharp > 1' in
check_err "is named" "column 'sharp' is in two tables of --with"
ddm-cluster -q -k 2 -o assign.tsv in
check_out "a cluster" "$(grep -v '^#' assign.tsv | awk -F '\t' '$2 == 1 { print $1 }')" ddm-select -q --list --with assign.tsv 'cluster == 1' in
printf 'key\tscore\na-0000\t1\na-0000\t2\n' >twice.tsv
check_exit 65 "a key twice" ddm-select --list --with twice.tsv 'score > 0' in
check_err "both lines are named" "twice.tsv:3: key 'a-0000' is on line 2 already"
printf 'name\tscore\na-0000\t1\n' >nokey.tsv
check_exit 65 "no column key" ddm-select --list --with nokey.tsv 'score > 0' in
printf 'key\twidth\na-0000\t1\n' >own.tsv
check_exit 2 "a fact of the sample hides a column" ddm-select --list --with own.tsv --with own.tsv 'width > 0 && nothing > 0' in
check_err "it is found" "no sample has a column 'nothing'"
sed 's/^/x/' scores.tsv | sed '1s/x//' >apart.tsv
check_exit 2 "a table of other samples" ddm-select --list --with apart.tsv 'score > 0' in
check_err "a key is shown" "column 'score': no key of its table is that of a sample; the table's first one is 'xa-0000'"
check_exit 66 "no such table" ddm-select --list --with none.tsv 'score > 0' in
cut_to more.tsv 200
check_exit 65 "a truncated table" ddm-select --list --with more.tsv 'sharp > 0' in

# Clips: (F, C, H, W)
npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }" && head -c "$3" /dev/zero; }
mkdir clips
npy '|u1' '(3, 1, 2, 4)' 24 >clips/v@000000.npy
npy '|u1' '(1, 3, 2, 2)' 12 >clips/v@000003.npy
npy '<f4' '(2, 4, 4)' 128 >clips/w@000000.npy
echo '{"frames": 3, "fps": 24}' >clips/v@000000.json
check_out "frames and sides of a clip" "v@000000" ddm-select -q --list 'frames == 3 && channels == 1 && height == 2 && width == 4' clips
check_out "a clip of one frame, latents" "v@000003
w@000000" ddm-select -q --list 'frames < 2 && channels > 1' clips
check_out "its facts" "v@000000" ddm-select -q --list 'fps == 24' clips
check "a tar of clips" ddm-select -q -o clips.tar 'frames > 1' clips
check_out "with all members" "v@000000.json v@000000.npy" sh -c 'echo $(tar tf clips.tar)'

# What is refused
check_exit 2 "no samples" ddm-select 'a > 1'
check_exit 2 "a malformed condition" ddm-select 'motion > .1 &&' in
check_err "where" 'condition, at its end: expected a column, a number or a text'
check_exit 2 "a column that no sample has" ddm-select -o none.tar 'motion > .1 && sahrp > 3' in
check_err "what there is" "no sample has a column 'sahrp'; did you mean sharp; there are: key, class, width, height, frames, channels, .*deep.er"
check_exit 2 "the same in a table" ddm-select --table --columns nothing -o none.tsv 'motion > .1' in
check_out "but has() may ask for it" '' ddm-select -q --list 'has(nothing)' in
check_exit 2 "empty names" ddm-select --table --columns a,,b 'motion > .1' in
check_exit 2 "two outputs" ddm-select --table --list 'motion > .1' in
check_exit 2 "columns without a table" ddm-select --columns a 'motion > .1' in
check_exit 2 "two on standard output" ddm-select -q --list --report - 'motion > .1' in
check_exit 65 "no sample is left" ddm-select -q -o none.tar --report none.json 'motion > 5' in
check_err "by which rule" "no sample is left of $n: 'motion > 5' is false for $n"
check_absent "no tar" none.tar none.tsv
check_out "but the report" 0 jq .kept none.json
check_exit 66 "no such source" ddm-select -q --list 'motion > 5' nowhere
check_exit 2 "a bomb" ddm-select --list "$(head -c 5000 /dev/zero | tr '\0' '(')1" in
check_exit 2 "a long one" ddm-select --list "1$(yes '&&1' | head -n 3000 | tr -d '\n')" in

# Damaged samples
cp -R in bad
echo '{"motion": NaN}' >bad/a-0001.json
echo '[1]' >bad/a-0002.json
printf '\211PNG' >bad/a-0003.png
echo x >bad/a-0004.cls
check_exit 65 "a NaN is no JSON" ddm-select -q --list 'motion > .1' bad
check_err "which" '\.json of "a-0001", line 1'
check "skipped" ddm-select --list --skip-bad 'motion >= 0 && width > 0 && class >= 0' bad
cp "$ERR" skips
check_out "four of them" 4 grep -c '^ddm-select: skipped: ' skips
check_exit_any 3 "too many" ddm-select -q --list --skip-bad --max-errors 3 -o l.txt 'motion >= 0 && width > 0 && class >= 0' bad
check "what no column needs is not looked at" ddm-select -q --list "key ~ '*'" bad
awk 'BEGIN { for (i = 0; i < 5000; i++) printf "{\"a\":"; print "1" }' >bad/a-0001.json
check_exit 65 "a bomb of JSON" ddm-select -q --list 'motion > .1' bad
npy '|u1' '(3, 1, 2, 400)' 24 >clips/v@000000.npy
check_exit 65 "a truncated array" ddm-select -q --list 'frames > 1' clips
cut_to in.tar 3000
check_exit 65 "a truncated tar" ddm-select -q -o cut.tar 'motion >= 0' in.tar
check_absent "leaves nothing" cut.tar
check_clean "and no temporary files" .

# Interrupted
[ "$FULL" -eq 0 ] || check_exit 74 "a full disk" ddm-select -q -o /dev/full 'motion > .1' in
for ms in 1 5 10 20; do
	killed_after "0.0$(printf '%02d' $ms)" ddm-select -q -o k.tar 'motion > .1' in >/dev/null
done
check "after kills" ddm-select -q -o k.tar 'motion > .1' in
check "it is whole" ddm-check k.tar
