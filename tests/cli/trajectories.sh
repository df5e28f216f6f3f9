# ddm-diagnose trajectories on laws, whose Jacobians are known, and on trained networks.
. "$(dirname "$0")/tap.sh"

# near NAME VALUE EXPECTED: within 1%, where power iterations stop
near() { check_true "$1" "$2 - ($3) < .01 * (($3) > 0 ? ($3) : -($3)) && ($3) - $2 < .01 * (($3) > 0 ? ($3) : -($3))"; }

# One Gaussian: in a direction of variance T, J is (t - (1 - t) T) / (t^2 + (1 - t)^2 T). All directions of its subspace have the same variance.
ddm-synth gaussians -k 1 --rank 3 --shape 1x4x4 --floor .2 -o one 2>said || exit 1
sd=$(sed 's/.*standard deviation \([0-9.]*\) in.*/\1/' said)
slope() { awk -v t="$1" -v T="$2" 'BEGIN { printf "%.9g", (t - (1 - t) * T) / (t * t + (1 - t) * (1 - t) * T) }'; }
wide=$(awk -v s="$sd" 'BEGIN { printf "%.9g", s * s + .04 }')
check "one Gaussian" ddm-diagnose trajectories --iterations 500 --tolerance 1e-6 --json one.json -o one.tsv one/expert_0
check_grep "the columns" '^#t	route	n	jacobian	jacobian_frozen	mu	mu_frozen	bound	amplification	amplification_frozen	straightness	curv' \
	one.tsv
for t in 0.75 0.4 0.1; do
	near "the norm of J at $t" "$(cell one.tsv jacobian $t expert:0)" "$(slope $t .04)"
	near "mu at $t" "$(cell one.tsv mu $t expert:0)" "-($(slope $t "$wide"))"
done
product=$(awk -v T="$wide" 'BEGIN { p = 1; for (i = 0; i < 20; i++) { t = 1 - i / 20; p *= 1 - (t - (1 - t) * T) / (t * t + (1 - t) * (1 - t) * T) / 20 }
	printf "%.9g", p }')
near "the largest singular value of the map is a product" "$(cell one.tsv largest all expert:0)" "$product"
check_true "a random perturbation grows less" "$(cell one.tsv amplification all expert:0) < $product && $(cell one.tsv amplification all expert:0) > .2"
check_grep "JSON has the rows" '"amplification_frozen": [0-9]' one.json

# Routing
ddm-synth gaussians -k 3 --shape 1x4x4 -o law 2>"$ERR" || exit 1
run="ddm-diagnose trajectories -n 6 --steps 8"
check "three components" $run -o a.tsv law
check_out "the default routes" "full top-1 top-2 prior uniform|full " sh -c 'awk "\$1 == \"all\" { print \$2 }" a.tsv | tr "\n" " "'
near "prior has no routing" "$(cell a.tsv amplification all prior)" "$(cell a.tsv amplification_frozen all prior)"
check_true "top-1 switches" "$(cell a.tsv amplification all top-1) > 2 * $(cell a.tsv amplification_frozen all top-1)"
check_true "full has a steeper field with its routing" "$(cell a.tsv mu 0.5 full) > $(cell a.tsv mu_frozen 0.5 full) + .1"
check "other batches and threads" $run --batch 4 --threads 3 -o b.tsv law
check_same "change no byte" a.tsv b.tsv
check "a finished command again" $run -o a.tsv law
check_err "says so" 'complete, nothing to do'
check_exit 73 "other steps" ddm-diagnose trajectories -n 6 --steps 9 -o a.tsv law
check "Heun's method" $run --solver heun --routes full -o h.tsv law
check_true "is nearer to the limit" "$(cell h.tsv gap all full) < $(cell a.tsv gap all full)"
check "every other step" $run --every 2 --routes full -o every.tsv law
check_out "leaves the others out" "nan" cell every.tsv jacobian 0.875 full
check_out "and keeps its own" "$(cell a.tsv jacobian 0.75 full)" cell every.tsv jacobian 0.75 full

# The experts chosen, against the optimum of the law on the trajectories
check "against a law" $run --experts losses.tsv --json fit.json -o fit.tsv law law
check_grep "more columns" '	path	disagreement	angle	spread	chosen	best	others	mixed	hit$' fit.tsv
check_true "full has no error" "$(cell fit.tsv mixed all full) < 1e-9"
check_true "top-1 has its expert's" "$(cell fit.tsv mixed all top-1) == $(cell fit.tsv chosen all top-1)"
awk -F '\t' '!/^#/ { n++; if ($21 > $20 + 1e-12 || $21 > $22 || $24 < 0 || $24 > 1) bad = 1 } END { exit bad || n != 45 }' fit.tsv
tap_result $? "the best is not worse than the chosen or the others"
check_true "the router chooses better than chance" "$(cell fit.tsv hit 0.125 top-1) > .9 && $(cell fit.tsv hit all prior) < $(cell fit.tsv hit all top-1)"
check_grep "JSON has the losses" '"n_out": [1-9]' fit.json
awk -F '\t' '!/^#/ && $1 <= .75 { n++; if ($4 > .3 * $6) bad = 1 } END { exit bad || n != 18 }' losses.tsv
tap_result $? "experts know their own component only"
# The loss of an exact expert is the sum over directions of T / ((1 - t)^2 T + t^2), here over 16 directions.
check "many states" ddm-diagnose trajectories -n 1 --steps 4 --iterations 2 --states 20000 --batch 500 --experts many.tsv -o many-all.tsv one one
least=$(awk -v T="$wide" 'BEGIN { print (3 * T / (.25 * T + .25) + 13 * .04 / (.25 * .04 + .25)) / 16 }')
seen=$(awk -F '\t' '$1 == .5 && $2 == 0 { print $4 }' many.tsv)
check_true "an exact expert has the least loss" "$seen / $least > .98 && $seen / $least < 1.02"
check "other batches and threads" $run --experts losses2.tsv --batch 4 --threads 3 -o fit2.tsv law law
check_same "change no byte" fit.tsv fit2.tsv
check_same "nor one of the losses" losses.tsv losses2.tsv

# Against held-out samples, with centroids
ddm-synth -n 400 --rows rows.npy -o b.tar draw law 2>"$ERR" &&
	ddm-cluster -q -k 3 --seed 1 --holdout .3 --features rows.npy --centroids-out centroids.npy -o found.tsv b.tar 2>"$ERR" &&
	ddm-shard -q -a found.tsv -o found b.tar && ddm-exact -o exact found 2>"$ERR" || exit 1
check "held-out samples" $run --every 3 --centroids centroids.npy --routes 'full,top-1,distance|top-1,uniform|top-1' -o held.tsv exact found
check_grep "the part is in the stamp" '"split":"holdout","states":200' held.tsv
check_true "top-1 takes the nearest centroid" "$(cell held.tsv rank 0.25 top-1) < 1.2"
check_true "a fixed expert does not" "$(cell held.tsv rank 0.25 'uniform|top-1') <= 3 && $(cell held.tsv others 0.25 top-1) > $(cell held.tsv chosen 0.25 top-1)"
check_out "weights by distance need trajectories" "nan" cell held.tsv chosen 0.25 'distance|top-1'

# Networks: the gradient is the tape's
ddm-synth -n 300 --labels labels.tsv -o a.tar draw law 2>"$ERR" && ddm-shard -q -a labels.tsv -o shards a.tar || exit 1
small="--hidden 16 --depth 1 --heads 2 --batch 16 --warmup 2 --validate-samples 0 --seed 1 --lr 3e-3"
for k in 0 1 2; do
	# shellcheck disable=SC2086
	ddm-train -q --model dit-nano/2 $small --predict "$(echo velocity x0 epsilon | cut -d ' ' -f $((k + 1)))" --steps 200 --cluster $k \
		-o "net/expert_$k" shards 2>"$ERR" || exit 1
done
ddm-route-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 16 --steps 20 -o net/router shards 2>"$ERR" || exit 1
net="ddm-diagnose trajectories -n 5 --steps 4 --iterations 10 --routes full,top-1,expert:1,expert:2"
check "networks of three predictions" $net --threads 1 -o net.tsv net
awk -F '\t' '!/^#/ { for (i = 4; i <= 12; i++) if ($i != $i + 0 || $i <= -1000 || $i >= 1000) bad = 1
	if ($1 != "all" && $4 <= 0) bad = 1 } END { exit bad }' net.tsv
tap_result $? "have finite numbers"
check_true "the norm is at least the rate" "$(cell net.tsv jacobian 0.5 expert:1) > $(cell net.tsv mu 0.5 expert:1)"
check "the same on other threads" $net --batch 3 --threads 3 -o net2.tsv net
check_same "is the same" net.tsv net2.tsv

# Correlation over policies: the gap of h policies in known orders
check "five policies" $run --iterations 2 --routes 'full,top-1,top-2,prior,uniform|full' -o five.tsv law
order() { awk -F '\t' -v c="$1" 'NR == 1 { sub(/^#/, ""); for (i = 1; i <= NF; i++) if ($i == c) n = i } $1 == "all" { print $n "\t" $2 }' five.tsv | sort -g; }
{
	printf 'route\tfid\tkd\tsame\n'
	order gap | awk -F '\t' '{ print $2 "\t" NR * NR "\t" 10 - NR "\t1" }'
} >quality.tsv
check "the order of the gaps as quality" ddm-diagnose correlation --json cor.json -o cor.tsv five.tsv quality.tsv
check_grep "it is found" '^fid	gap	5	1	1	0\.0166666667	' cor.tsv
check_grep "and its reverse" '^kd	gap	5	-1	1	0\.0166666667	' cor.tsv
check_out "other columns are there, constant ones are not" "0 0" awk '$1 == "fid" && $2 == "path" { p = 1 } $1 == "same" || $2 == "n" { c++ }
	END { print p - 1, c + 0 }' cor.tsv
awk -F '\t' 'NR > 2 && !/^#/ && ($4 > 1 || $4 < -1 || $6 < 1 / 60 - 1e-6 || $7 < $6) { bad = 1 } END { exit bad }' cor.tsv
tap_result $? "no p is below what five policies allow, and corrected ones are larger"
check_grep "JSON has the rows" '"rho": 1\.0' cor.json
check "again" ddm-diagnose correlation --json cor.json -o cor.tsv five.tsv quality.tsv
check_err "is complete" 'complete, nothing to do'
head -n 3 quality.tsv >few.tsv
check_exit 65 "two policies" ddm-diagnose correlation five.tsv few.tsv
check_err "are too few" 'few.tsv: 2 policies; a rank correlation needs at least 3'
sed 's/^top-2/top-7/' quality.tsv >other.tsv
check_exit 65 "a policy that was not measured" ddm-diagnose correlation five.tsv other.tsv
check_err "is named" 'five.tsv has no row "top-7" for whole trajectories'
check_exit 65 "another table" ddm-diagnose correlation labels.tsv quality.tsv
check_err "lacks columns" "labels.tsv: no column 't'"
check_exit 2 "an option of the others" ddm-diagnose correlation --seed 1 five.tsv quality.tsv
check_err "is refused" '^ddm-diagnose: --seed does nothing without COMMAND loss or budget or trajectories or uncertainty$'

# Refusals
refuse() {
	# shellcheck disable=SC2086
	check_exit "$1" "$2" ddm-diagnose trajectories $4
	check_err "$2: said" "$3"
	[ "$(wc -l <"$ERR")" -eq 1 ]
	tap_result $? "$2: in one line"
}
refuse 2 "no cluster" "--routes: oracle: a trajectory from noise has no cluster" "--routes oracle law"
refuse 2 "no centroids" "--routes: distance\|top-1: weights by distance need --centroids" "--routes distance|top-1 law"
refuse 2 "a budget" "--routes: budget:1: budget:GFLOP is for a whole picture" "--routes budget:1 law"
refuse 2 "no router" "this route needs a router" "--routes top-1 one/expert_0"
refuse 2 "an option of budget" "--timesteps does nothing without COMMAND loss or budget" "--timesteps .5 law"
refuse 2 "a route twice" "--routes: full is there twice" "--routes full,full law"
refuse 2 "states of nothing" "--states does nothing without SHARDS or a law" "--states 5 law"
refuse 2 "other clusters" "--experts: the clusters of the model are not the components of law" "--experts x exact law"
refuse 66 "no model" "none" "none"
check_exit 2 "a command that is none" ddm-diagnose trajectory law
check_err "is named" "unknown command 'trajectory'"
