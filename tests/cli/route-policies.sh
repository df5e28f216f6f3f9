# Routing policies as WEIGHTS|SELECTION@T: against their short forms, on the exact model of tests/golden/blobs.py and untrained networks.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o shards "$SRC/tests/golden/blobs.tar.gz" || exit 1
ddm-exact -o model shards 2>"$ERR" || exit 1
run="ddm-sample -n 6 --steps 4 --threads 1"

# A long form gives the bytes of its short form, also in stamps
same() {
	$run --route "$1" --report short.json -o short.tar model 2>"$ERR" && $run --route "$2" --report long.json -o long.tar model 2>"$ERR"
	tap_result $? "$1 and $2 run" "$(cat "$ERR")"
	check_same "the same pictures and stamps" short.tar long.tar
	check_same "the same report" short.json long.json
	rm -f short.tar long.tar short.json long.json
}
same full 'router|full'
same top-2 'router|top-2@1'
same threshold:.3 'router|threshold:0.30'
same nucleus:.9 'router|nucleus:.9'
same sample 'router|sample'
same prior 'prior|sample'
same expert:2 'uniform|expert:2'
same switch:.5 'router|full@1,router|top-1@.5'
same switch:.5 'full,top-1@0.5'
check "oracle by its labels" $run --route oracle --labels "$SRC/tests/golden/blobs.tsv" -o oracle.tar model
check "oracle|full" $run --route 'oracle|full' --labels "$SRC/tests/golden/blobs.tsv" -o oracle2.tar model
check_same "are the same" oracle.tar oracle2.tar

same top-2 'router:1|top-2|keep:0'

# Temperature, raw weights and hysteresis
check "the shares at a temperature of 1/2" $run --route 'prior:.5|full' --log cool.jsonl -o cool.tar model
check_out "are squared: 16, 9, 4 and 1 of 30" "16.000 9.000 4.000 1.000" sh -c 'head -n 1 cool.jsonl | sed "s/.*weights\":\[\[//; s/\].*//" |
	awk -F , "{ printf \"%.3f %.3f %.3f %.3f\\n\", 30 * \$1, 30 * \$2, 30 * \$3, 30 * \$4 }"'
check "no temperature left" $run --route 'router:1e-6|full' --log cold.jsonl -o cold.tar model
check_out "is one expert everywhere" "" sed -n '/0\.[0-9]*[1-9][0-9]*[],]/p' cold.jsonl
check "raw weights" $run --route 'prior|top-2|raw' --log raw.jsonl -o raw.tar model
check_grep "are not scaled" '"weights":\[\[0\.4,0\.3,0\.0,0\.0\],' raw.jsonl
# changes FILE: prints how often pictures change their only expert between steps
changes() { sed 's/.*"weights":\[\[//; s/\]\].*//; s/\],\[/ /g' "$1" | awk '{ for (i = 2; i <= NF; i++) n += $i != $(i - 1) } END { print n + 0 }'; }
ddm-sample -n 200 --steps 12 --route top-1 --log free.jsonl -o free.tar model 2>"$ERR"
ddm-sample -n 200 --steps 12 --route 'router|top-1|keep:.3' --log held.jsonl -o held.tar model 2>"$ERR"
ddm-sample -n 200 --steps 12 --route 'router|top-1|keep:1' --log stuck.jsonl -o stuck.tar model 2>"$ERR"
[ "$(changes free.jsonl)" -gt "$(changes held.jsonl)" ] && [ "$(changes held.jsonl)" -gt "$(changes stuck.jsonl)" ]
tap_result $? "a margin makes changes rare" "$(changes free.jsonl) $(changes held.jsonl) $(changes stuck.jsonl)"
check "two evaluations a step, other batches" $run --solver heun --batch 4 --threads 2 --route 'router|top-1|keep:.1' -o heun1.tar model
check "and all at once" $run --solver heun --route 'router|top-1|keep:.1' -o heun2.tar model
check_same "the same bytes" heun1.tar heun2.tar

# A budget: its minimum and maximum, and never exceeded. The networks of `ensemble` cost the same, so the minimum is top-1 and the maximum is full
experts() { sed 's/.*"experts_per_step":\([0-9.]*\).*/\1/' "$1"; }
check_exit 2 "a budget that does not pay one expert a step" $run --route budget:1e-9 -o x.tar ensemble
check_err "is told what that takes" 'budget:1e-09: 4 evaluations with one expert each take [0-9.e-]+ GFLOP a picture'
least=$(sed 's/.*each take \([0-9.e-]*\) GFLOP.*/\1/' "$ERR")
check "that is enough" $run --route "budget:$least" --report least.json --log least.jsonl -o least.tar ensemble
check "top-1" $run --route top-1 --report top1.json --log top1.jsonl -o top1.tar ensemble
check_out "for one expert a step" 1.0 experts least.json
for f in least top1; do sed 's/"stamp":"[0-9a-f]*",//; s/"ddm-seal:.*//' $f.jsonl >$f.weights; done
check_same "the one of top-1" least.weights top1.weights
check "more than all experts take" $run --route budget:1 --report most.json -o most.tar ensemble
check_out "all experts" 3.0 experts most.json
middle=$(awk "BEGIN { print 1.7 * $least }")
check "a budget between" $run -n 40 --seed 3 --route "budget:$middle" --report middle.json -o middle.tar ensemble
awk "BEGIN { g = $(sed 's/.*"gflop_per_image":\([0-9.e-]*\).*/\1/' middle.json); exit !(g <= $middle && g > $least) }"
tap_result $? "is not exceeded" "$(cat middle.json)"
check "in other batches" $run -n 40 --seed 3 --batch 7 --threads 2 --route "budget:$middle" -o batch.tar ensemble
check_same "the same pictures" middle.tar batch.tar
check "two evaluations a step" $run --solver heun --route budget:1 -o heun3.tar ensemble

# A schedule runs the experts and the router of each entry at its times: t = 1, .75, .5, .25
check "a schedule" $run --route 'full@1,uniform|top-2@.75,expert:1@.5,top-1@.25' --report r.json --log r.jsonl -o s.tar model
check_grep "4, 2, 1 and 1 experts" '"experts_per_step":2\.0,' r.json
check_grep "the router twice" '"router_entropy":\[[0-9.e-]+,null,null,[0-9.e-]+\]' r.json
check_grep "the weights are those of the entries" ',\[0\.5,0\.5,0\.0,0\.0\],\[0\.0,1\.0,0\.0,0\.0\],\[' r.jsonl
check_grep "the stamp has the schedule" '"route":"full@1,uniform.top-2@\.75,expert:1@\.5,top-1@\.25"' s.tar
check "in other batches" $run --batch 4 --route 'full@1,uniform|top-2@.75,expert:1@.5,top-1@.25' -o t.tar model
check_same "the same pictures" s.tar t.tar
check "the shares as weights" $run --route 'prior|full' --log r.jsonl -o p.tar model
check_grep "are .4, .3, .2 and .1 at every step" '"weights":\[\[0\.4,0\.3,0\.2,0\.1\],\[0\.4,0\.3,0\.2,0\.1\],' r.jsonl
gflop() { sed 's/.*"gflop_per_image":\([0-9.e-]*\).*/\1/' "$1"; }
$run --route full --report full.json -o full.tar model 2>"$ERR"
$run --route 'uniform|full' --report uniform.json -o uniform.tar model 2>"$ERR"
$run --route expert:0 --report one.json -o one.tar model 2>"$ERR"
$run --route 'full@1,expert:0@.5' --report half.json -o half.tar model 2>"$ERR"
awk "BEGIN { full = $(gflop full.json); all = $(gflop uniform.json); one = $(gflop one.json); half = $(gflop half.json); d = half - (full + one) / 2
	exit !(full > all && all > one && d < 1e-9 * full && d > -1e-9 * full) }"
tap_result $? "GFLOP are those of the experts and the router that ran" "$(gflop full.json) $(gflop uniform.json) $(gflop one.json) $(gflop half.json)"
check "oracle for half of the way" $run --route 'oracle|full@1,top-1@.5' --labels "$SRC/tests/golden/blobs.tsv" -o h.tar model
check_grep "the stamp of a picture has its expert" '"expert":[0-3]' h.tar
check "no router is needed where none is asked" sh -c 'mkdir norouter && cp -R model/expert_* norouter'
check "uniform weights" $run --route 'uniform|top-2' -o u.tar norouter
check "two experts in turn" $run --route 'expert:0@1,expert:2@.5' -o e.tar norouter
rm -r norouter/expert_1
check "of which alone the model must hold weights" $run --route 'expert:0@1,expert:2@.5' -o f.tar norouter
check "solvers of discrete time" $run --solver ddim --route 'full@1,top-1@.6' -o d.tar ensemble
check "a monolith" $run --route expert:0 -o a.tar model/expert_0
check "is one expert, whatever full is called" $run --route 'router|full' -o b.tar model/expert_0
check_same "by the same stamp" a.tar b.tar

# ddm-diagnose: entries of a schedule stay together in its list; at t = 1 the posterior is the shares
check "routes of ddm-diagnose" ddm-diagnose budget -n 40 --timesteps .5,1 \
	--routes 'full,prior|full,full@1,prior|full@.7,exact:full@1,uniform|full@.7,uniform|sample' -o d.tsv model shards
check_out "five of them" "exact:full@1,uniform|full@.7 full full@1,prior|full@.7 prior|full uniform|sample " \
	sh -c 'grep -v "^#" d.tsv | cut -f 2 | sort -u | tr "\n" " "'
check_out "shares are exact at t = 1, and later wrong, in a schedule too" "0 0 1 1" awk -F '\t' '!/^#/ && $3 == "all" { r[$1 " " $2] = $5 > 1e-9 }
	END { print r["1 prior|full"], r["1 full@1,prior|full@.7"], r["0.5 prior|full"], r["0.5 full@1,prior|full@.7"] }' d.tsv

# Impossible policies: one line with the reason
refused() {
	check_exit 2 "$1" $run --route "$1" -o x.tar model
	check_err "says why" "$2"
	[ "$(grep -c '' "$ERR")" -eq 1 ]
	tap_result $? "in one line" "$(cat "$ERR")"
}
refused best "'best' is not one of full, top-K, threshold:P, nucleus:P, sample, expert:I, budget:GFLOP, oracle, prior, time, switch:T"
refused 'ruter|full' "weights: 'ruter' is not one of router.:TEMP., prior.:TEMP., oracle, uniform, distance.:TEMP."
refused 'router|ful' "selection: 'ful' is not one of full, top-K"
refused uniform "names weights alone: add a selection, as in 'uniform|full'"
refused 'router|top-5' 'top-5: the model has only 4 experts'
refused 'full@1,expert:4@.5' 'expert:4: the model has no such expert .it has 4, numbered from 0.'
refused 'router|nucleus:1.5' "'nucleus:1.5' is not nucleus:P with P a number from 0 to 1"
refused 'full@1,budget:5@.5' 'it stands alone, not in a schedule'
refused 'router|top-2|rw' "modifier: 'rw' is not one of raw, keep:MARGIN"
refused 'router|sample|raw' "'raw' does nothing with sample"
refused 'router|nucleus:.9|keep:.1' "'keep:.1' does nothing with nucleus: it is for top-K"
refused 'router:0|full' "weights: 'router:0' is not router.:TEMP. with TEMP a number from 1e-06 to 1000000"
refused 'full@.9,top-1@.5' 'the first entry of a schedule holds from t = 1: write full@1'
refused 'full@1,top-2@.3,top-1@.5' 'the time must be below the 0.3 of the entry before'
refused 'full@1,top-1@1.5' "'@1.5' is not @T with T a number from 0 to 1"
refused 'full,top-1' "'top-1' needs the time from which it holds"
refused 'oracle|top-1' '--route oracle needs --labels'
check_exit 2 "labels that no entry reads" $run --route 'uniform|full' --labels "$SRC/tests/golden/blobs.tsv" -o x.tar model
check_err "say so" '--labels does nothing without --route oracle or --class labels'
check_exit 2 "no router where an entry asks it" $run --route 'uniform|full@1,top-1@.5' -o x.tar norouter
check_err "says what needs none" 'needs a router, and the model has none; oracle, prior, uniform.SELECTION and expert:I need none'
cp -R model lacks
rm -r lacks/expert_1
check_exit 2 "an expert that is missing among others, late in a schedule" $run --route 'full@1,expert:1@.5' -o x.tar lacks
check_err "says which" '^ddm-sample: route expert:1: the model has no expert_1$'
for command in loss budget trajectories; do
	data=shards
	[ $command = trajectories ] && data=
	all=
	[ $command = loss ] && all="--split train"
	check_exit 2 "ddm-diagnose $command: an expert that is not there" ddm-diagnose $command $all --routes 'full@1,expert:7@.5' -o x.tsv model $data
	check_err "says why" 'route expert:7: the model has no such expert .it has 4, numbered from 0.'
	check_exit 2 "ddm-diagnose $command: more experts than there are" ddm-diagnose $command $all --routes 'full@1,top-5@.5' -o x.tsv model $data
	check_err "says why" 'route top-5: the model has only 4 experts'
	check_exit 2 "ddm-diagnose $command: a missing one" ddm-diagnose $command $all --routes 'full@1,expert:1@.5' -o x.tsv lacks $data
	check_err "says which" 'route expert:1: the model has no expert_1$'
done
check_exit 2 "a route of ddm-diagnose" ddm-diagnose budget --routes 'full,top-9@1,full@.5' -o x.tsv model shards
check_err "says why" 'top-9: the model has only 4 experts'
check_exit 2 "hysteresis without trajectories" ddm-diagnose budget --routes 'router|top-1|keep:.1' -o x.tsv model shards
check_err "says why" 'distance, density, keep:MARGIN or budget:GFLOP needs trajectories'
check_absent "nothing was made" x.tar x.tsv
