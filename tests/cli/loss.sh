# ddm-diagnose loss: the loss of models on samples, with the same noise for all of them.
. "$(dirname "$0")/tap.sh"

ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o s "$SRC/tests/golden/blobs.tar.gz" || exit 1
ddm-exact -o model s 2>"$ERR" && ddm-exact --cluster all -o mono s 2>"$ERR" || exit 1
loss="ddm-diagnose loss"
# value FILE KEY: a number of the result
value() {
	sed 's/.*"'"$2"'":\([-0-9.e]*\)[,}].*/\1/' "$1"
}
# near NAME A B TOLERANCE: relative
near() {
	awk -v a="$2" -v b="$3" -v r="$4" 'BEGIN { d = a - b; d = d < 0 ? -d : d; exit !(a > 0 && d <= r * a) }'
	tap_result $? "$1" "$2 $3"
}

check "a model" $loss --items items.tsv -o full.json model s
check "the monolith" $loss -o mono.json mono s
check "chosen by the state's own cluster" $loss --routes oracle -o oracle.json model s
check "the best expert alone" $loss --routes top-1 -o top.json model s
near "exact experts are the exact monolith" "$(value full.json loss)" "$(value mono.json loss)" 1e-6
check_out "every held-out sample" "100" sh -c 'grep -vc "^#" items.tsv'
# mean COLUMN: of the table
mean() {
	awk -F '\t' -v c="$1" '!/^#/ { s += $c; n++ } END { printf "%.9g", s / n }' items.tsv
}
near "the loss is the mean of the table" "$(mean 2)" "$(value full.json loss)" 1e-8
near "and at one time that of its column" "$(mean 3)" "$(value full.json loss_t0.05)" 1e-8
awk -F '\t' '!/^#/ { for (i = 3; i <= 12; i++) s += $i / 10; if (s - $2 > 1e-6 || $2 - s > 1e-6) bad = 1; s = 0 } END { exit bad }' items.tsv
tap_result $? "a sample's loss is the mean over its times"
near "the standard error is that of the samples" "$(awk -F '\t' '!/^#/ { n++; s += $2; q += $2 * $2 } END { print sqrt((q / n - s * s / n / n) / (n - 1)) }' items.tsv)" \
	"$(value full.json loss_error)" 1e-4
near "the means over times" "$(grep -o '"loss_t[0-9.]*":[0-9.]*' full.json | awk -F : '{ s += $2; n++ } END { print s / n }')" "$(value full.json loss)" 1e-6

# On training samples the optimum has the smallest loss of all.
check "training samples" $loss --split train -n 300 --timesteps .8 -o train.json model s
check "one expert for each" $loss --split train -n 300 --timesteps .8 --routes top-1 -o train-top.json model s
check "and all alike" $loss --split train -n 300 --timesteps .8 --routes 'uniform|full' -o train-uniform.json model s
awk -v a="$(value train.json loss)" -v b="$(value train-top.json loss)" -v c="$(value train-uniform.json loss)" 'BEGIN { exit !(a > 0 && a < b && a < c) }'
tap_result $? "the optimum has the smallest loss" "$(value train.json loss) $(value train-top.json loss) $(value train-uniform.json loss)"
check_grep "what a state costs" '"experts_per_state":1.0,' train-top.json

# Options on which results may or may not depend
check "other batches and threads" $loss --batch 7 --threads 3 --items b.tsv -o b.json model s
check_same "change no byte" full.json b.json
check_same "nor of the table" items.tsv b.tsv
check "once more" $loss --items items.tsv -o full.json model s
check_err "there is nothing to do" 'complete, nothing to do'
check "another seed" $loss --seed 1 -o seed.json model s
[ "$(value seed.json loss)" != "$(value full.json loss)" ]
tap_result $? "other noise"
check "fewer samples" $loss -n 40 --items few.tsv -o few.json model s
grep -v '^#' few.tsv >few.rows
grep -v '^#' items.tsv | head -n 40 >first.rows
check_same "are the first of more" first.rows few.rows

# The same samples in other clusters are measured on the same states.
awk -F '\t' 'BEGIN { OFS = "\t" } /^#key/ { for (i = 1; i <= NF; i++) if ($i ~ /cluster$/) c = i; print; next } /^#stamp/ { print "#stamp {}"; next }
	/^#/ { next } { $c = (NR * 7) % 3; print }' "$SRC/tests/golden/blobs.tsv" | sed 1s/^#// | grep -v '^#stamp' >other.tsv
check "another partition" ddm-shard -q -a other.tsv -o other "$SRC/tests/golden/blobs.tar.gz"
check "measured there" $loss --items other-items.tsv -o other.json mono other
for f in mono other; do
	sed 's/,"stamp".*//' $f.json >$f.part
done
check_same "the monolith has the same loss" mono.part other.part

awk -F '\t' 'BEGIN { OFS = "\t" } /^#key/ { sub(/^#/, ""); print $0, "also"; next } /^#/ { next } { print $0, ($2 + 1) % 4 }' "$SRC/tests/golden/blobs.tsv" >two.tsv
check "samples in two clusters each" ddm-shard -q -a two.tsv -o two "$SRC/tests/golden/blobs.tar.gz"
check "are measured" $loss -o two.json mono two
sed 's/,"stamp".*//' two.json >two.part
check_same "once" mono.part two.part

# A network that was told the cluster is told it here.
train="ddm-train -q --model dit-nano/1 --hidden 8 --depth 1 --heads 1 --steps 3 --batch 8 --validate-samples 0 --seed 1"
check "a network that reads the cluster" $train --cluster all --condition cluster --class-dropout .1 --lr 1e-1 -o told/expert_0 s
check "told" $loss -o told.json told s
check_grep "it says so" '"told":"cluster"' told.json
check "untold" $loss --untold -o untold.json told s
check_grep "it says so too" '"told":"nothing"' untold.json
[ "$(value told.json loss)" != "$(value untold.json loss)" ]
tap_result $? "the loss is another one" "$(value told.json loss) $(value untold.json loss)"
check "one without a null cluster" $train --cluster all --condition cluster -o sure/expert_0 s
check_exit 2 "cannot be left untold" $loss --untold sure s
check_err "the reason" 'trained without the null label'
check_exit 65 "told of other clusters" $loss told other
check_err "their numbers" 'one of 4 clusters, but other has 3'
cp -R told/expert_0 told/expert_1
sed 's/"condition": "cluster"/"condition": "class"/; s/ddm-seal:\([0-9a-f]*\):ddm-seal/\1/' told/expert_1/config.json >config && mv config told/expert_1/config.json
check_exit 65 "experts told different things" $loss --routes uniform\|full told s
check_err "both conditions" 'expert_1: its condition is the class, but that of the experts before it is the cluster'

# Parts of the times need no router.
for r in "0 0...5" "1 .5..1"; do
	check "for times ${r#* }" ddm-exact --cluster all --time-range "${r#* }" -o "t/expert_${r% *}" s
done
check "experts for parts of the times" $loss -o time.json t s
near "are the monolith" "$(value time.json loss)" "$(value mono.json loss)" 1e-9
check_grep "their route" '"route":"time"' time.json

# ddm-compare and ddm-report read the result.
check "pairs of seeds" ddm-compare -k loss a=full.json a=mono.json b=oracle.json b=time.json
check_exit 65 "one training twice" ddm-compare -k loss a=full.json a=b.json b=oracle.json b=mono.json
check_err "is found" 'measured the same model'
check_exit 65 "other noise is another recipe" ddm-compare -k loss a=full.json b=seed.json
check_out "a table" "full" sh -c "ddm-report -t arm --columns loss full=full.json top-1=top.json | awk '/^full/ { print \$1 }'"

# What cannot be measured
for route in prior 'distance|top-1' 'router|top-1|keep:.1' budget:1; do
	check_exit 2 "$route" $loss --routes "$route" model s
	check_err "$route needs a trajectory" 'single states'
done
check_exit 2 "no time" $loss --timesteps 0 model s
check_err "the limits" "'0' is not a time from .001 to 1"
check_exit 2 "two policies" $loss --routes full,top-1 model s
check_err "only one" 'loss measures one policy'
check_exit 2 "too many experts" $loss --routes top-9 model s
ddm-synth gaussians --shape 1x4x4 -k 2 -o law 2>"$ERR" && ddm-synth draw -n 50 --labels law.tsv -o law.tar law 2>"$ERR" &&
	ddm-shard -q -a law.tsv -o larger law.tar || exit 1
check_exit 65 "another size" $loss --split train model larger
check_err "both sizes" 'larger: samples of 1 x 4 x 4, but the model is of 1 x 2 x 2'
check_exit 66 "nothing there" $loss model nowhere
check_exit 2 "both on standard output" $loss --items - model s
check_exit 73 "another command's result" $loss --seed 2 -o full.json model s
check_err "what differs" 'seed: 0 -> 2'
