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
