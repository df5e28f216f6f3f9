# ddm-diagnose on models of ddm-exact, whose errors are known, on the blobs of tests/golden/blobs.py.
. "$(dirname "$0")/tap.sh"

check_program ddm-diagnose
ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o shards "$SRC/tests/golden/blobs.tar.gz" || exit 1
ddm-exact -o model shards 2>"$ERR" && ddm-exact --limit 20 -o rough shards 2>"$ERR" && ddm-exact --cluster all -o mono shards 2>"$ERR" || exit 1
run="ddm-diagnose budget -n 60 --timesteps .1,.5,.8,1"


check "the optimum" $run --routing routing.tsv --json all.json -o a.tsv model shards
check_grep "the columns" '^#t	route	cluster	n	relative	total	expert	router	cross	loss	flow	w0	w1	w2	w3$' a.tsv
# Networks compute in float: the tolerance is 1e-7 relative, squared, times 100 for the parts.
for t in 0.1 0.5 0.8 1; do
	check_true "full has no error at $t" "$(cell a.tsv relative $t full all) < 1e-12"
	check_true "nor has the optimum at $t" "$(cell a.tsv total $t optimum all) == 0"
done
check_true "top-1 has, where clusters overlap" "$(cell a.tsv relative 0.8 top-1 all) > .01"
check_true "all of it by the policy" "$(cell a.tsv expert 0.8 top-1 all) < 1e-12"
check_true "top-2 has less" "$(cell a.tsv total 0.8 top-2 all) < $(cell a.tsv total 0.8 top-1 all)"
check_true "none near the data" "$(cell a.tsv relative 0.1 top-1 all) < 1e-6"
check_true "weights at t = 1 are the shares" "$(cell a.tsv w0 1 full all) - .4 < 1e-6 && .1 - $(cell a.tsv w3 1 full all) < 1e-6"
check_grep "the router is the exact one" '^0\.8	model	60	.*' routing.tsv
awk -F '\t' '!/^#/ { if ($2 == "model") a = $5; else if (a - $5 > 1e-6 || $5 - a > 1e-6) bad = 1 } END { exit bad }' routing.tsv
tap_result $? "of the same cross-entropy"
check_grep "JSON has the rows" '"route": "exact:top-2"' all.json

# With twenty samples of each cluster, experts and router have errors; in every row the total is the sum of the parts.
check "a rough model" $run -o rough.tsv --routing rough-routing.tsv rough shards
awk -F '\t' '!/^#/ { n++; d = $6 - $7 - $8 - $9; s = $6 + $7 + $8; if (d > 1e-7 * s || d < -1e-7 * s) bad = 1
	if ($2 != "optimum" && $1 < 1 && $6 < 1e-6) low = 1 } END { exit bad || low || n < 100 }' rough.tsv
tap_result $? "the parts add up, and none is zero"
check_true "full has an expert's error" "$(cell rough.tsv expert 0.5 full all) > 1e-4"
check_true "and a router's" "$(cell rough.tsv router 0.8 full all) > 1e-4"
check_true "which exact:full has not" "$(cell rough.tsv router 0.8 exact:full all) < 1e-10"
check_true "expert:0 on its own cluster" "$(cell rough.tsv expert 0.5 expert:0 0) == $(cell rough.tsv expert 0.5 oracle 0)"
# On average the loss exceeds that of the optimum by the total error: over 20000 states within a third of it, which is four standard errors.
check "many states" ddm-diagnose budget -n 20000 --timesteps .5 --routes optimum,full -o many.tsv rough shards
total=$(cell many.tsv total 0.5 full all)
above="($(cell many.tsv loss 0.5 full all) - $(cell many.tsv loss 0.5 optimum all))"
check_true "the loss exceeds the least one by the error" "$above > .67 * $total && $above < 1.33 * $total"

# On held-out samples the optimum of the training set does not have the lowest loss
check "held-out states" $run --split holdout -o held.tsv model shards
check_true "near the data its loss is larger there" "$(cell held.tsv loss 0.1 optimum all) > $(cell a.tsv loss 0.1 optimum all)"

check "a monolith" $run -o mono.tsv mono shards
check_out "of one expert, held against all data" "4" awk '!/^#/ && $2 == "expert:0" && $5 < 1e-12 { n++ } END { print n + 0 }' mono.tsv
mkdir norouter
cp -R model/expert_* norouter
check "without a router" $run -o norouter.tsv norouter shards
check_absent "no row needs one" "$(grep -l '	full	' norouter.tsv)"
cp -R model some
rm -r some/expert_3
check "with an expert absent" $run --timesteps .8 -o some.tsv some shards
check_true "its weight is missing to the router" "$(cell some.tsv router 0.8 full 3) > .01"
check_exit 2 "whom oracle would ask" $run --routes oracle some shards
check_err "it is named" 'expert 3 is missing'
check "routes of one's own" $run --routes threshold:.2,sample,prior,switch:.6 -o own.tsv model shards
check_out "a route is a name" "prior sample switch:.6 threshold:.2" sh -c 'grep -v "^#" own.tsv | cut -f 2 | sort -u | tr "\n" " " | sed "s/ $//"'

# Options on which results may or may not depend
check "other batches and threads" $run --batch 7 --threads 3 -o b.tsv model shards
check_same "change no byte" a.tsv b.tsv
check "one time alone" ddm-diagnose budget -n 60 --timesteps .5 -o one.tsv model shards
grep '^0\.5' a.tsv >all.rows
grep '^0\.5' one.tsv >one.rows
check_same "has the rows it has among others" all.rows one.rows
check "another seed" $run --seed 1 -o seed.tsv model shards
check_differ "other states" a.tsv seed.tsv
check_stdout "the table" $run model shards

# The same command again
touch -d 2001-01-01 a.tsv routing.tsv all.json
check "a finished command again" $run --routing routing.tsv --json all.json -o a.tsv model shards
check_err "says so" 'complete, nothing to do'
check_out "touches nothing" "" find a.tsv routing.tsv all.json -newermt 2002-01-01
rm routing.tsv
check "one output gone" $run --routing routing.tsv -o a.tsv model shards
check_grep "is made again" '^#end 8' routing.tsv
check_exit 73 "other options" $run --split holdout -o a.tsv model shards
check_err "are named" 'split: "train" -> "holdout"|split: train -> holdout'
check_exit 73 "another model" $run -o a.tsv mono shards
echo hello >note.txt
check_exit 73 "somebody else's file" $run --routing note.txt model shards
cut_to b.tsv 4000
check_exit 65 "a truncated output" $run -o b.tsv model shards
killed_after .05 ddm-diagnose budget -n 2000 -o killed.tsv model shards
check_clean "killed: nothing half-written under a name" norouter
check_absent "and no table" killed.tsv

# Requests that cannot be served
check_exit 2 "no diagnosis" ddm-diagnose
check_exit 2 "an unknown one" ddm-diagnose weather model shards
check_err "the one there is is named" 'budget'
check_exit 2 "no shards named" ddm-diagnose budget model
check_exit 2 "an unknown route" $run --routes best model shards
check_exit 2 "an exact policy without a router" $run --routes exact:oracle model shards
check_exit 2 "a route that needs a router" $run --routes full norouter shards
check_exit 2 "top-5 of four" $run --routes top-5 model shards
check_exit 2 "time 0" ddm-diagnose budget --timesteps 0,.5 model shards
check_exit 2 "two outputs on standard output" $run --routing - model shards
check_exit 66 "no model" $run nothing shards
check_exit 66 "no shards" $run model nothing
tar xf "$SRC/tests/golden/tiny-model.tar"
check_exit 65 "a model of another size" $run ensemble shards
check_err "both are named" '1 x 2 x 2, but the model is of 1 x 8 x 8'
cp -R model three
rm -r three/expert_3 three/router
check_exit 65 "fewer clusters" $run three shards
check_err "both numbers" '4 clusters, but the model has'
