# ddm-report: tables of evaluations, evaluations that must not be compared, bad input.
. "$(dirname "$0")/tap.sh"

check_program ddm-report
echo '{"kd": {"train": 0.0123456, "held": 0.02}, "n": 5, "name": "x", "list": [1]}' >a.json
printf '{"kd": {"train": 1e-5}}\n\n{"n": 7}\n' >b.json
check_out "aligned" "label  kd.train  kd.held  n
top-1   0.01235     0.02  5
mono      1e-05        -  7" ddm-report top-1=a.json mono=b.json
check "TSV" ddm-report -q -t strategy --columns 'kd=kd.train,name' -o r.tsv top-1=a.json mono=b.json
[ ! -s "$OUT" ]
tap_result $? "--quiet prints nothing"
check_grep "TSV: heading" "^#strategy	kd	name\$" r.tsv
check_grep "TSV: row" "^top-1	0.0123456	x\$" r.tsv
check_grep "TSV: an absent value is empty" "^mono	1e-05	\$" r.tsv
check_grep "TSV: last line" "^#end 2 " r.tsv
check "TSV on stdout" ddm-report -t strategy --columns 'kd=kd.train,name' -o - top-1=a.json mono=b.json
check_same "the same bytes" r.tsv "$OUT"
check_out "a label again adds to its row" "label  n
a      7" ddm-report --columns n a=a.json a=b.json
check_exit 2 "no label" ddm-report a.json
check_exit 2 "no operand" ddm-report
check_exit 2 "an empty column" ddm-report --columns 'a,,b' a=a.json
check_exit 66 "no such file" ddm-report a=none.json
check_err "named" "none.json"
echo '[1]' >bad.json
check_exit 65 "not an object" ddm-report a=bad.json
printf '{"a": 1}\n{"a": ' >cut.json
check_exit 65 "a cut line" ddm-report -o r2.tsv a=cut.json
check_err "file and line" "cut.json:2"
check_absent "nothing written" r2.tsv
check_stdout "table" ddm-report a=a.json
[ "$FULL" -eq 1 ] && check_exit 74 "TSV into a full disk" ddm-report -q -o /dev/full a=a.json
check_clean "no temporary" .
