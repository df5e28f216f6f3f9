# ddm-compare: paired intervals against scipy, and evaluations that must not be compared.
. "$(dirname "$0")/tap.sh"

check_program ddm-compare

# line FILE VALUE [SAMPLES [RECIPE [REFERENCE]]]
line() {
	echo "{\"recipe\":{\"features\":\"${4:-pix}\"},\"inputs\":{\"reference\":\"${5:-r}\",\"samples\":\"${3:-$1}\"},\"kd-pix\":$2}" >"$1"
}
i=0
for v in 0.31 0.28 0.35 0.30 0.29; do
	i=$((i + 1))
	line a$i $v
done
i=0
for v in 0.27 0.29 0.30 0.26 0.28; do
	i=$((i + 1))
	line b$i $v
done
# scipy.stats.ttest_rel of the two rows above
check_out "five seeds" \
	'{"key":"kd-pix","label":"a","against":"b","pairs":5,"difference":0.026,"sd":0.0250998008,"level":0.95,"low":-0.00516551901,"high":0.057165519,"t":2.3162641,"p":0.0814699795,"seed_sd":0.0270185122,"seed_sd_against":0.0158113883}' \
	ddm-compare b=b1 b=b2 b=b3 b=b4 b=b5 a=a1 a=a2 a=a3 a=a4 a=a5
check "arms may alternate" ddm-compare -o other b=b1 a=a1 a=a2 b=b2 a=a3 b=b3 b=b4 a=a4 a=a5 b=b5
ddm-compare -o one b=b1 b=b2 b=b3 b=b4 b=b5 a=a1 a=a2 a=a3 a=a4 a=a5
check_same "arms that alternate: the same line" one other
check "all files of an arm in one operand" ddm-compare -o commas b=b1,b2,b3 a=a1,a2,a3,a4,a5 b=b4,b5
check_same "files with commas between: the same line" one commas
cp b1 b1,b2
check "a file with a comma in its name" ddm-compare -o named b=b1,b2 b=b2 b=b3 b=b4 b=b5 a=a1,a2,a3,a4,a5
check_same "is one file" one named
rm b1,b2
check_exit 2 "nothing between two commas" ddm-compare b=b1,,b2 a=a1,a2
check_err "says so" "beside a comma"
check_exit 66 "no such file after a comma" ddm-compare b=b1,nothing a=a1,a2
check "three arms" ddm-compare -k kd-pix --level .9 b=b1 b=b2 a=a1 a=a2 c=a3 c=a4
[ "$(tap_lines "$OUT")" -eq 2 ]
tap_result $? "three arms: two lines"
check_stdout "lines" ddm-compare b=b1 b=b2 a=a1 a=a2
check_exit 2 "one seed" ddm-compare b=b1 a=a1
check_exit 2 "unequal numbers" ddm-compare b=b1 b=b2 a=a1
check_exit 2 "one label" ddm-compare b=b1 b=b2
check_exit 2 "no label" ddm-compare b1 a=a1
check_exit 66 "no file" ddm-compare b=b1 a=nothing
check_exit 65 "no such key" ddm-compare -k fd-pix b=b1 b=b2 a=a1 a=a2
check_exit 65 "the same samples twice" ddm-compare b=b1 b=b1 a=a1 a=a2
line same1 0.31 a1
line same2 0.28 a2
check "the same samples in another arm" ddm-compare a=a1 a=a2 b=same1 b=same2
line c1 0.2 c1 rgb8
check_exit 65 "another recipe" ddm-compare b=b1 b=b2 a=a1 a=c1
check_err "both are named" "b1 and c1"
line c2 0.2 c2 pix other
check_exit 65 "another reference" ddm-compare b=b1 b=b2 a=a1 a=c2
echo '{"kd-pix":' >cut
check_exit 65 "a cut file" ddm-compare b=b1 a=cut

# Several metrics, from several files of a seed, against Python's statistics.mean and stdev; the interval is that of the line above.
set --
for i in 1 2 3 4 5; do
	echo "{\"gflop\":$i}" >ga$i
	echo "{\"gflop\":$((2 * i))}" >gb$i
	set -- "$@" "b=b$i" "b=gb$i" "a=a$i" "a=ga$i"
done
check "a table" ddm-compare -k kd-pix,gflop --tsv -o table "$@"
check_grep "its columns" '^#key	arm	seeds	mean	sd	difference	low	high	p$' table
check_grep "the first arm" '^kd-pix	b	5	0\.28	0\.0158113883	-	-	-	-$' table
check_grep "the second" '^kd-pix	a	5	0\.306	0\.0270185122	0\.026	-0\.00516551901	0\.057165519	0\.0814699795$' table
check_grep "the other key" '^gflop	a	5	3	1\.58113883	-3	-4\.96324' table
check_out "a line for each key" 2 sh -c 'ddm-compare -k "kd-pix gflop" "$@" | wc -l' - "$@"
# Holm over the printed p values: four, sorted, times 4, 3, 2, 1, never decreasing. GFLOP are equal in every pair and are not a test.
for i in 1 2 3 4 5; do
	echo "{\"kd-pix\":0.2$((i * i % 7)),\"fd\":$((i * i % 5)).$i,\"gflop\":7}" >hc$i
	echo "{\"kd-pix\":0.3$((i * 3 % 5)),\"fd\":$((i % 3)).5,\"gflop\":9}" >hd$i
	echo "{\"kd-pix\":0.25$i,\"fd\":1.$i,\"gflop\":3}" >he$i
done
holm() { ddm-compare -k kd-pix,fd,gflop --holm "$@" c=hc1,hc2,hc3,hc4,hc5 d=hd1,hd2,hd3,hd4,hd5 e=he1,he2,he3,he4,he5; }
check "corrected for many comparisons" holm --tsv -o holm.tsv
grep -v '^#' holm.tsv | awk -F '\t' 'NF != 10 { bad = 1 } $9 != "-" && $1 != "gflop" { print $9, $10 } $1 == "gflop" && $10 != "-" { bad = 1 }
	END { exit bad }' >holm.p
tap_result $? "has a column more; what is no test has none"
LC_ALL=C sort -g holm.p | awk '{ v = (5 - NR) * $1; if (v > 1) v = 1; if (v < m) v = m; m = v; d = v - $2; if (d > 1e-8 || d < -1e-8) bad = 1 } END { exit bad || NR != 4 }'
tap_result $? "each p by its rank" "$(cat holm.p)"
check_out "lines say it too" 4 sh -c 'grep -c "\"p_holm\":[0-9.e-]*,\"tests\":4" "$1"' - "$(holm >holm.json && echo holm.json)"
check_grep "null where there is no test" '"key":"gflop".*"p_holm":null' holm.json
check "one seed" ddm-compare --tsv -o table b=b1 a=a1
check_grep "its means" '^kd-pix	a	1	0\.31	-	0\.04	-	-	-$' table
check_exit 65 "a key of one arm alone" ddm-compare -k kd-pix,gflop --tsv b=b1 b=gb1 a=a1
check_exit 2 "unequal numbers of one key" ddm-compare -k kd-pix,gflop --tsv b=b1 b=b2 b=gb1 a=a1 a=a2 a=ga1 a=ga2
check_exit 2 "no key" ddm-compare -k , b=b1 a=a1
check_exit 74 "a full disk" ddm-compare -o /dev/full b=b1 b=b2 a=a1 a=a2
