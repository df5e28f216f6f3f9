# ddm-diagnose against a law of ddm-synth: the excess risk of the law's own model, of exact models of its samples, and of trained experts.
. "$(dirname "$0")/tap.sh"

ddm-synth gaussians --shape 1x4x4 -k 3 --rank 2 --separation 3 --floor .05 --seed 3 -o law 2>"$ERR" || exit 1
ddm-synth draw -n 2000 --labels a.tsv --rows rows.npy -o a.tar law 2>"$ERR" && ddm-shard -q -a a.tsv -o shards a.tar || exit 1
ddm-exact -o exact shards 2>"$ERR" && ddm-exact --limit 20 -o few shards 2>"$ERR" && ddm-exact --cluster all -o mono shards 2>"$ERR" || exit 1
run="ddm-diagnose budget -n 400 --timesteps .05,.3,.7,1"


check "the law's own model" $run --routing routing.tsv -o own.tsv law law
check_grep "the columns" '^#t	route	cluster	n	relative	total	expert	router	cross	loss	flow	total_error	minimum	excess	excess_error	w0	w1	w2$' own.tsv
for t in 0.05 0.3 0.7 1; do
	check_true "has no excess risk at $t" "$(cell own.tsv relative $t full all) < 1e-12"
	check_true "nor above the minimum" "$(cell own.tsv excess $t full all) < 1e-6 && $(cell own.tsv excess $t full all) > -1e-6"
done
awk -F '\t' '!/^#/ { if ($2 == "model") a = $5; else if (a - $5 > 1e-6 || $5 - a > 1e-6) bad = 1; n++ } END { exit bad || n != 8 }' routing.tsv
tap_result $? "its router is the exact one"
check_true "top-1 has an excess risk, by its weights alone" "$(cell own.tsv router 0.7 top-1 all) > 1e-3 && $(cell own.tsv expert 0.7 top-1 all) < 1e-12"

# The model of a training set copies its samples: near t = 0 its excess risk over the law is large, and larger the fewer they are.
check "2000 samples" $run -o exact.tsv exact law
check "60 samples" $run -o few.tsv few law
for t in 0.05 0.3 0.7; do
	check_true "fewer are worse at $t" "$(cell few.tsv total $t full all) - 4 * $(cell few.tsv total_error $t full all) > $(cell exact.tsv total $t full all)"
	check_true "2000 are not enough" "$(cell exact.tsv total $t full all) > 4 * $(cell exact.tsv total_error $t full all)"
done
# On samples that it holds, its loss is below the minimum of the law: the states are others, although both seeds are 0.
check_true "the states are not its training samples" "$(cell exact.tsv excess 0.05 full all) > 4 * $(cell exact.tsv excess_error 0.05 full all)"
# With 20000 states the loss above the minimum, which is an estimate of total with more noise, is within four standard errors of it.
check "many states" ddm-diagnose budget -n 20000 --timesteps .3 --routes full,expert:1 -o many.tsv few law
for r in full expert:1; do
	d="($(cell many.tsv excess 0.3 $r all) - $(cell many.tsv total 0.3 $r all))" s=$(cell many.tsv excess_error 0.3 $r all)
	check_true "$r: two estimates of the excess risk agree" "$d < 4 * $s && $d > -4 * $s && $s < .3 * $(cell many.tsv total 0.3 $r all)"
done
check_true "an expert is better on its own component" "$(cell many.tsv total 0.3 expert:1 1) < $(cell many.tsv total 0.3 expert:1 0)"

# Training
network="--model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 32 --validate-samples 0"
for steps in 5 300; do
	for k in 0 1 2; do
		# shellcheck disable=SC2086
		ddm-train -q $network --lr 3e-3 --steps $steps --cluster $k -o m$steps/expert_$k shards 2>"$ERR" || exit 1
	done
	cp -R law/router m$steps
	check "experts of $steps steps" $run --routes full,oracle -o m$steps.tsv m$steps law
done
for t in 0.3 0.7; do
	check_true "training lowers the excess risk at $t" "$(cell m300.tsv total $t full all) < .5 * $(cell m5.tsv total $t full all)"
	check_true "which is not zero" "$(cell m300.tsv total $t full all) > 4 * $(cell m300.tsv total_error $t full all)"
done

# Without the components
check "a monolith" $run -o mono.tsv mono law
check_out "is compared with the whole law" "4" awk '!/^#/ && $2 == "expert:0" && $3 == "all" && $7 == $6 { n++ } END { print n + 0 }' mono.tsv
check "clusters of k-means" ddm-cluster -q -k 3 --features rows.npy -o found.tsv a.tar
ddm-shard -q -a found.tsv -o foundshards a.tar && ddm-exact -o found foundshards 2>"$ERR" || exit 1
check "experts of other clusters" $run -o found.tsv.budget found law
check_err "are compared with the whole law" "the model's clusters are not the components of law"
check_out "and have no rows by cluster" "" awk '!/^#/ && $3 != "all"' found.tsv.budget
for t in 0.05 0.3 0.7; do # the mixture of a partition is the model of all samples, whatever the partition
	check_true "their mixture is that of the components at $t" "$(cell found.tsv.budget total $t full all) / $(cell exact.tsv total $t full all) - 1 < 1e-5 &&
		$(cell found.tsv.budget total $t full all) / $(cell exact.tsv total $t full all) - 1 > -1e-5"
done
check_exit 2 "a route by the components" $run --routes exact:full found law
check_err "is refused" 'a model whose clusters are those of the law'
check_exit 2 "so is the table on the router" $run --routing x found law
check_err "is refused too" '^ddm-diagnose: --routing: '

# The same states for every batch and number of threads, others by another seed
check "other batches and threads" $run --batch 7 --threads 3 -o own2.tsv law law
check_same "change no byte" own.tsv own2.tsv
check "another seed" $run --seed 1 -o seed.tsv few law
check_differ "other states" few.tsv seed.tsv
check "a finished command again" $run -o few.tsv few law
check_err "says so" 'complete, nothing to do'
ddm-synth gaussians --shape 1x4x4 -k 3 --seed 4 -o law4 2>"$ERR"
check_exit 73 "another law" $run -o few.tsv few law4
check_err "is named" 'inputs.law|law:'

check_exit 2 "a part of a law" $run --split holdout law law
check_err "there is none" '^ddm-diagnose: --split does nothing with a law'
check_exit 65 "a model of samples in place of a law" $run law exact
check_err "has shards" 'exact: is a model of samples: give the shards'
check_exit 66 "a trained model in place of a law" $run law m5/expert_0
check_exit 65 "a law of another size" $run exact "$(ddm-synth gaussians --shape 4 -o small 2>/dev/null && echo small)"
check_err "both are named" 'small: samples of 4 x 1 x 1, but the model is of 1 x 4 x 4'
