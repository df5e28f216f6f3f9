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
check_exit 2 "a solver without noise" ddm-sample -n 3 --route 'density|full' -o x.tar experts
check_err "is told" '--route density follows ancestral steps: it needs --solver sde,step=ancestral'
check_exit 2 "another noise" ddm-sample -n 3 --solver sde --route 'density|full' -o x.tar experts
check_err "is told as well" 'needs --solver sde,step=ancestral'
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

# A kill: the densities belong to the trajectory of a picture, the entropies to the run.
long="ddm-sample -n 60 --batch 4 --steps 12 --solver sde,step=ancestral --route density|full"
check_continues experts $long

tiny="ddm-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 2 --validate-samples 0 --cluster all"
check "an expert for high noise" $tiny --time-range .5..1 -o part/expert_0 shards
check "an expert for low noise" $tiny --time-range 0...5 -o part/expert_1 shards
check_exit 2 "densities of experts for a part of the times" $follow -q --route 'density|full' -o x.tar part
check_err "are refused" 'weights by density need experts for all times, and those of this model are for different times'
check_absent "nothing was made of them" x.tar
