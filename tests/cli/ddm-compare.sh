# ddm-compare: paired intervals against scipy's, and what must not be compared.
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
	'{"key":"kd-pix","label":"a","against":"b","pairs":5,"difference":0.026,"sd":0.0250998008,"level":0.95,"low":-0.00516551901,"high":0.057165519,"t":2.3162641,"p":0.0814699795}' \
	ddm-compare b=b1 b=b2 b=b3 b=b4 b=b5 a=a1 a=a2 a=a3 a=a4 a=a5
check "arms may alternate" ddm-compare -o other b=b1 a=a1 a=a2 b=b2 a=a3 b=b3 b=b4 a=a4 a=a5 b=b5
ddm-compare -o one b=b1 b=b2 b=b3 b=b4 b=b5 a=a1 a=a2 a=a3 a=a4 a=a5
check_same "arms that alternate: the same line" one other
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

# Several keys, from several files of a seed; statistics.mean and stdev of Python, the interval of the line above.
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
check "one seed" ddm-compare --tsv -o table b=b1 a=a1
check_grep "its means" '^kd-pix	a	1	0\.31	-	0\.04	-	-	-$' table
check_exit 65 "a key of one arm alone" ddm-compare -k kd-pix,gflop --tsv b=b1 b=gb1 a=a1
check_exit 2 "unequal numbers of one key" ddm-compare -k kd-pix,gflop --tsv b=b1 b=b2 b=gb1 a=a1 a=a2 a=ga1 a=ga2
check_exit 2 "no key" ddm-compare -k , b=b1 a=a1
check_exit 74 "a full disk" ddm-compare -o /dev/full b=b1 b=b2 a=a1 a=a2
