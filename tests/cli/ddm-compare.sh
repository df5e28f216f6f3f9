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
ddm-compare b=b1 b=b2 b=b3 b=b4 b=b5 a=a1 a=a2 a=a3 a=a4 a=a5 >one
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
line c1 0.2 c1 rgb8
check_exit 65 "another recipe" ddm-compare b=b1 b=b2 a=a1 a=c1
check_err "both are named" "b1 and c1"
line c2 0.2 c2 pix other
check_exit 65 "another reference" ddm-compare b=b1 b=b2 a=a1 a=c2
echo '{"kd-pix":' >cut
check_exit 65 "a cut file" ddm-compare b=b1 a=cut
check_exit 74 "a full disk" ddm-compare -o /dev/full b=b1 b=b2 a=a1 a=a2
