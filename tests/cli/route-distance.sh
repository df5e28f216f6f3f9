# ddm-sample --route distance: experts by the distance of the predicted picture to the centroids of ddm-cluster.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o shards "$SRC/tests/golden/blobs.tar.gz" || exit 1
ddm-exact -o model shards 2>"$ERR" || exit 1
ddm-ingest -q --size 16 --seeds 24 --frames 3 --seed 1 -o photos.tar lavfi:'mandelbrot=size=64x64:rate=1:start_scale={u:.5:3}' \
	lavfi:'gradients=size=64x64:rate=1:seed={seed}:c0={color}:c1={color}:nb_colors=2' 2>"$ERR" &&
	ddm-cluster -q -k 4 --seed 1 --centroids-out centroids.npy -o photos.tsv photos.tar 2>"$ERR" &&
	ddm-shard -q -a photos.tsv -o photoshards photos.tar 2>"$ERR" && ddm-exact -o photomodel photoshards 2>"$ERR"
tap_result $? "an exact model of clusters of pictures" "$(cat "$ERR")"
near="ddm-sample -n 30 --steps 10 --centroids centroids.npy"
check "the nearest centroid's expert, in a model without router" sh -c "mkdir photoexperts && cp -R photomodel/expert_* photoexperts &&
	$near --route 'distance:.1|top-2' --log near.jsonl --report near.json -o near.tar photoexperts"
check_grep "no GFLOP of a router" '"router_entropy":\[\]' near.json
check_grep "the centroids are inputs" "\"centroids\":\"$(sha256sum <centroids.npy | cut -c 1-64)\"" near.tar
check "in other batches and threads" $near --batch 7 --threads 3 --route 'distance:.1|top-2' -o near2.tar photoexperts
check_same "the same bytes" near.tar near2.tar
check "the router where noise is strong, and then the nearest centroid" \
	$near --route 'full@1,distance:.01|top-1@.5' --report near.json -o half2.tar photomodel
check_exit 2 "centroids that no entry reads" $near --route full -o x.tar photomodel
check_err "say so" '--centroids does nothing without --route distance'
ddm-sample -n 30 --steps 10 --route full --report far.json -o far.tar photomodel 2>"$ERR"
assigned() { sed 's/.*"assigned":\[\([^]]*\)\].*/\1/' "$1"; }
check_out "the pictures end in the same clusters" "$(assigned far.json)" assigned near.json
check_exit 2 "no centroids" ddm-sample -n 3 --route 'distance|top-1' -o x.tar photomodel
check_err "are asked for" '--route distance needs --centroids'
check_exit 2 "a solver of discrete time" ddm-sample -n 3 --solver ddim --centroids centroids.npy --route 'distance|top-1' -o x.tar photomodel
check_err "is told" 'need a flow solver: euler or another on the linear path'
sed 's/hogcolor-1/dinov2/' centroids.npy.json >other.npy.json
cp centroids.npy other.npy
unseal other.npy.json
check_exit 2 "centroids of a network" ddm-sample -n 3 --centroids other.npy --route 'distance|top-1' -o x.tar photomodel
check_err "are told" 'other.npy: centroids of "dinov2" features, which take a network that the ensemble does not have'
cp centroids.npy bare.npy
check "centroids without a description are values of samples, of which these pictures have 768" ddm-sample -n 3 --steps 3 --centroids bare.npy \
	--route 'distance|top-1' -o bare.tar photomodel
check_exit 65 "a model of other samples" ddm-sample -n 3 --centroids bare.npy --route 'distance|top-1' -o x.tar model
check_err "needs as many values as its samples have" 'bare.npy: expected an array .K, 4., centroids of "file" features'
ddm-cluster -q -k 3 --seed 1 --centroids-out three.npy -o three.tsv photos.tar 2>"$ERR"
check_exit 65 "another number of clusters" ddm-sample -n 3 --centroids three.npy --route 'distance|top-1' -o x.tar photomodel
check_err "is told" 'three.npy: holds 3 centroids, but the model has 4 clusters'
check_exit 66 "no such file" ddm-sample -n 3 --centroids nothing.npy --route 'distance|top-1' -o x.tar photomodel
check_exit 2 "a route of ddm-diagnose by distance" ddm-diagnose budget --routes 'distance|top-1' -o x.tsv model shards
check_err "has no trajectory" 'needs trajectories'
check_absent "nothing was made" x.tar
