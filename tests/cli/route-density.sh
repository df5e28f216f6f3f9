# ddm-sample --route density: experts weighed by the densities that they give the trajectory.
. "$(dirname "$0")/tap.sh"

ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o shards "$SRC/tests/golden/blobs.tar.gz" && ddm-exact -o model shards 2>"$ERR"
tap_result $? "an exact model" "$(cat "$ERR")"
mkdir experts && cp -R model/expert_* experts
follow="ddm-sample -n 20 --steps 12 --solver sde,step=ancestral"
check "the experts' own densities, in a model without router" $follow --route 'density|full' --report full.json -o full.tar experts
check "in other batches and threads" $follow --batch 7 --threads 3 --route 'density|full' -o full2.tar experts
check_same "the same bytes" full.tar full2.tar
check "a selection" $follow --route 'density|top-1' --report top.json -o top.tar experts
gflop() { sed 's/.*"gflop_per_image":\([^,]*\),.*/\1/' "$1"; }
check_out "costs as much as all experts" "$(gflop full.json)" gflop top.json
ddm-sample -n 20 --steps 12 --route 'uniform|top-1' --report one.json -o one.tar experts 2>"$ERR"
check "which is more than one" sh -c "test $(gflop one.json) != $(gflop top.json)"
for s in sde ab2 edm-heun dopri5; do
	check_exit 2 "--solver $s" ddm-sample -n 3 --solver $s --route 'density|full' -o x.tar experts
	check_err "is told which do" '--route density needs --solver euler, heun, midpoint, rk4 or sde,step=ancestral'
done
check_exit 2 "a route of ddm-diagnose by density" ddm-diagnose budget --routes 'density|full' -o x.tsv model shards
check_err "has no trajectory" 'distance, density, keep:MARGIN or budget:GFLOP needs trajectories'
check_absent "nothing was made" x.tar

# The entropy of the weights by step. At t = 1 they are the shares of the clusters.
entropies() { sed 's/.*"density_entropy":\[\([^]]*\)\].*/\1/' "$1" | tr , '\n'; }
check_out "an entropy for each step" 12 sh -c "echo '$(entropies full.json)' | wc -l"
shares=$(tr -d ' \n' <experts/expert_0/config.json | sed 's/.*"cluster_sizes":\[\([^]]*\)\].*/\1/')
echo "$shares" | awk -F, -v got="$(entropies full.json | head -n 1)" '
	{ for (i = 1; i <= NF; i++) n += $i; for (i = 1; i <= NF; i++) h -= $i / n * log($i / n); print "# " h " " got; d = h - got; exit !(d * d < 1e-10) }' >"$OUT"
tap_result $? "the first is that of the shares" "$(cat "$OUT")"
check "a schedule" $follow --route 'uniform|full@1,density|full@.5' --report half.json -o half.tar experts
check_out "has none where the weights are others" null sh -c "sed 's/.*\"density_entropy\":.\([^,]*\),.*/\1/' half.json"
check "other weights" ddm-sample -q -n 3 --steps 3 --route 'uniform|full' --report none.json -o none.tar experts
check_exit_any 1 "have none" grep -q density_entropy none.json

# Along the flow, by the divergences of the experts. A law's router is exact: both know the posterior, and so its entropy, up to the estimate.
ddm-synth gaussians --shape 1x4x4 -k 3 --rank 2 --separation 2 --floor .3 --seed 3 -o law 2>"$ERR" && mkdir own && cp -R law/expert_* own || exit 1
for s in euler heun midpoint rk4; do
	check "the flow by $s" ddm-sample -q -n 100 --solver $s --steps 12 --route 'density|full' --report $s.json -o $s.tar own
	check "and by the router" ddm-sample -q -n 100 --solver $s --steps 12 --route full --report $s-router.json -o $s-router.tar law
	routers() { sed 's/.*"router_entropy":\[\([^]]*\)\].*/\1/' "$1" | tr , '\n'; }
	entropies $s.json >a && routers $s-router.json >b && paste a b | awk -v most="$([ $s = euler ] && echo .12 || echo .08)" '
		{ d = $1 - $2; far = d * d > far * far ? d : far } END { print "# " far; exit !(NR == 12 && far * far < most * most) }' >"$OUT"
	tap_result $? "the entropies agree at every step" "$(cat "$OUT")"
done
check "in other batches and threads" ddm-sample -q -n 100 --batch 7 --threads 3 --solver heun --steps 12 --route 'density|full' -o heun2.tar own
check_same "the same bytes" heun.tar heun2.tar
check_true "gradients cost" "$(gflop heun.json) > 2 * $(gflop heun-router.json)"
small="ddm-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 2 --validate-samples 0"
for k in 0 1 2; do
	$small --cluster $k -o nets/expert_$k shards && $small --cluster $k --condition cluster -o told/expert_$k shards || exit 1
done
check "networks" ddm-sample -q -n 3 --steps 3 --solver heun --route 'density|top-1' -o nets.tar nets
check_exit 2 "experts with classes" ddm-sample -q -n 3 --steps 3 --class 1 --solver heun --route 'density|full' -o x.tar told
check_err "are refused" 'these experts have classes: use the solver sde,step=ancestral'
check_exit 2 "weights in bfloat16" ddm-sample -q -n 3 --weight-dtype bf16 --solver heun --route 'density|full' -o x.tar nets
check_err "have no gradient" 'whose weights must be plain f32: drop --weight-dtype'
check_exit 2 "mapped weights" ddm-sample -q -n 3 --map --solver heun --route 'density|full' -o x.tar nets
check_continues own ddm-sample -n 60 --batch 4 --steps 12 --solver heun --route 'density|full'

rm -f whole.* k.* hold

# A kill: the densities belong to the trajectory of a picture, the entropies to the run.
long="ddm-sample -n 60 --batch 4 --steps 12 --solver sde,step=ancestral --route density|full"
check_continues experts $long

tiny="ddm-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 2 --validate-samples 0 --cluster all"
check "an expert for high noise" $tiny --time-range .5..1 -o part/expert_0 shards
check "an expert for low noise" $tiny --time-range 0...5 -o part/expert_1 shards
check_exit 2 "densities of experts for a part of the times" $follow -q --route 'density|full' -o x.tar part
check_err "are refused" 'weights by density need experts for all times, and those of this model are for different times'
check_absent "nothing was made of them" x.tar
