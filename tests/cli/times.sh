# ddm-diagnose times: boundaries of time experts, from results and tables, and experts trained between them.
. "$(dirname "$0")/tap.sh"

printf 't\tloss\trise\n1\t2\t1\n0\t2\t0\n' >two.tsv
check "a table" ddm-diagnose times --parts 4 -o even.tsv two.tsv
check_out "a constant: even parts" "0..0.25 0.25..0.5 0.5..0.75 0.75..1" sh -c "grep -v '^#' even.tsv | cut -f 4 | paste -sd ' '"
check "another column" ddm-diagnose times --column rise -o half.tsv two.tsv
check_out "t: up to the root of 1/2" "0..0.707107 0.707107..1" sh -c "grep -v '^#' half.tsv | cut -f 4 | paste -sd ' '"
check "the same again" ddm-diagnose times --column rise -o half.tsv two.tsv
check_err "does nothing" 'complete, nothing to do'
check_exit 73 "another column into the same file" ddm-diagnose times -o half.tsv two.tsv

# A model's loss, and the ranges of experts
ddm-synth gaussians --shape 1x4x4 -k 3 --rank 2 --separation 2 --floor .3 --seed 3 -o law 2>"$ERR" &&
	ddm-synth draw -n 600 --holdout .3 --labels l.tsv -o l.tar law 2>"$ERR" && ddm-shard -q -a l.tsv --holdout .3 -o s l.tar || exit 1
ddm-diagnose loss -n 100 --timesteps .05,.35,.65,.95 -o loss.json law s || exit 1
check "a result of loss" ddm-diagnose times --parts 3 -o parts.tsv loss.json
loss() { sed 's/.*"loss_t'"$1"'":\([0-9.e-]*\).*/\1/' loss.json; }
grep -v '^#' parts.tsv | awk -F '\t' -v m="$(loss 0.05) $(loss 0.35) $(loss 0.65) $(loss 0.95)" '
	function f(t, j) { for (j = 1; j < 4 && t > x[j + 1]; j++); j = j > 3 ? 3 : j
		return t < x[1] ? y[1] : t > x[4] ? y[4] : y[j] + (y[j + 1] - y[j]) * (t - x[j]) / (x[j + 1] - x[j]) }
	BEGIN { split(".05 .35 .65 .95", x, " "); split(m, y, " ") }
	{ for (i = 0; i < 2000; i++) sum[NR] += f($2 + ($3 - $2) * (i + .5) / 2000) * ($3 - $2) / 2000 }
	END { print "# " sum[1] " " sum[2] " " sum[3]; exit !(NR == 3 && (sum[1] - sum[2]) ^ 2 < 1e-8 && (sum[2] - sum[3]) ^ 2 < 1e-8) }' >"$OUT"
tap_result $? "every part has the same share" "$(cat "$OUT")"
small="ddm-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 2 --validate-samples 0 --cluster all"
grep -v '^#' parts.tsv | while IFS='	' read -r k _ _ range; do
	$small --time-range "$range" -o m/expert_"$k" s || exit 1
done
check "experts for these parts" ddm-sample -q -n 3 --steps 6 -o x.tar m
check_out "a lone part" "0..1" sh -c "ddm-diagnose times --parts 1 loss.json | grep -v '^#' | cut -f 4"

# Tables of other commands
ddm-diagnose budget -n 50 --timesteps .1,.5,.9 --routes full,top-1 -o budget.tsv law law || exit 1
check_exit 65 "two routes" ddm-diagnose times budget.tsv
check_err "ask for one" 'a second row for t = 0.1: name one route with --routes'
check "one" ddm-diagnose times --routes top-1 --column total -o top.tsv budget.tsv
check_exit 65 "a route that is not there" ddm-diagnose times --routes top-2 budget.tsv
check_err "is named" 'no rows by time for the route top-2'
check_exit 65 "a column that is not there" ddm-diagnose times --column height two.tsv
check_exit 65 "a number that is not in the result" ddm-diagnose times --column height loss.json
check_err "is named" 'height_t0.05'
check_exit 2 "a route in a table without" ddm-diagnose times --routes full two.tsv
check_exit 2 "a route of a result, which has one" ddm-diagnose times --routes full loss.json
check_err "says so" '--routes: chooses rows of a table, and loss.json is the result of one route'
check_exit 65 "another JSON file" ddm-diagnose times law/router/config.json
printf 't\tloss\n0.1\t-1\n0.5\t1\n' >minus.tsv
check_exit 65 "a negative loss" ddm-diagnose times minus.tsv
printf 't\tloss\n0.1\t0\n0.5\t0\n' >zero.tsv
check_exit 65 "nothing to divide" ddm-diagnose times zero.tsv
check_err "is said" 'zero.tsv: the quantity is 0 at all times'
check_exit 66 "no such file" ddm-diagnose times none.tsv
check_exit 2 "no parts" ddm-diagnose times --parts 0 two.tsv
check_exit 2 "an option of another command" ddm-diagnose times -n 3 two.tsv
check_exit 2 "two tables" ddm-diagnose times two.tsv two.tsv
