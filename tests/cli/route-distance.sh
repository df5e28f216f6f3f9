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
check_err "are told" 'other.npy: centroids of "dinov2" features, which need their network: --features dinov2:PATH'
cp centroids.npy bare.npy
check "centroids without a description are values of samples, of which these pictures have 768" ddm-sample -n 3 --steps 3 --centroids bare.npy \
	--route 'distance|top-1' -o bare.tar photomodel
check_exit 65 "a model of other samples" ddm-sample -n 3 --centroids bare.npy --route 'distance|top-1' -o x.tar model
check_err "needs as many values as its samples have" 'bare.npy: expected an array .K, 4., centroids of "file" features'
ddm-cluster -q -k 3 --seed 1 --centroids-out three.npy -o three.tsv photos.tar 2>"$ERR"
check_exit 65 "another number of clusters" ddm-sample -n 3 --centroids three.npy --route 'distance|top-1' -o x.tar photomodel
check_err "is told" 'three.npy: holds 3 centroids, but the model has 4 clusters'
check_exit 66 "no such file" ddm-sample -n 3 --centroids nothing.npy --route 'distance|top-1' -o x.tar photomodel

# Features of a network. At small t an exact expert predicts one of its own samples, so the nearest centroid is that of its cluster, if the features
# are those that made the clusters.
P=$SRC/tests/golden/pretrained
dino=dinov2:$P/dinov2-224
ddm-cluster -q -k 4 --seed 1 --features "$dino" --centroids-out net.npy -o net.tsv photos.tar 2>"$ERR" &&
	ddm-shard -q -a net.tsv -o netshards photos.tar 2>"$ERR" && ddm-exact -o netmodel netshards 2>"$ERR"
tap_result $? "an exact model of clusters by a network" "$(cat "$ERR")"
# last LOG: the heaviest expert of each picture at the last step
last() { sed 's/.*\[\([^][]*\)\]\].*/\1/' "$1" | awk -F, '{ b = 1; for (i = 2; i <= NF; i++) if ($i > $b) b = i; printf "%s ", b - 1 }'; }
late="ddm-sample -n 20 --steps 20 --centroids net.npy --route full@1,distance:1e-6|top-1@.3"
check "are routed by that network" $late --features "$dino" --report net.json --log net.jsonl -o net.tar netmodel
check_grep "which is an input" '"features":"[0-9a-f]{64}"' net.tar
check "and by the router" ddm-sample -n 20 --steps 20 --route full --log full.jsonl -o full.tar netmodel
check_out "to the same experts, picture by picture" "$(last full.jsonl)" last net.jsonl
check_out "of which there are several" "0 1 2 3" sh -c "echo '$(last net.jsonl)' | tr -s ' ' '\n' | grep . | sort -u | paste -s -d ' '"
check "in other batches and threads" $late --features "$dino" --batch 7 --threads 3 -o net2.tar netmodel
check_same "to the same bytes" net.tar net2.tar
# gflop SWITCH STEPS: GFLOP per picture of the network alone
gflop() {
	rm -f g.*
	ddm-sample -q -n 2 --steps $2 --centroids net.npy --features "$dino" --route "uniform|full@1,distance|top-1@$1" --report g.json -o g.tar netmodel
	with=$(sed 's/.*"gflop_per_image":\([^,}]*\).*/\1/' g.json)
	rm -f g.*
	ddm-sample -q -n 2 --steps $2 --route "uniform|full@1,uniform|top-1@$1" --report g.json -o g.tar netmodel
	echo "$with $(sed 's/.*"gflop_per_image":\([^,}]*\).*/\1/' g.json)" | awk '{ print $1 - $2 }'
}
check_out "the network counts at every evaluation" "1" sh -c "echo '$(gflop .3 20) $(gflop .3 40)' |
	awk '{ print (\$1 > 1e-4 && \$2 > 1.999 * \$1 && \$2 < 2.001 * \$1) }'"
check_exit 2 "none given" $late -o x.tar netmodel
check_err "is told which" 'net.npy: centroids of "dinov2" features, which need their network: --features dinov2:PATH'
check_exit 2 "a network of another kind" $late --features "clip:$P/clip" -o x.tar netmodel
check_err "is refused" 'net.npy holds centroids of "dinov2" features'
check_exit 2 "no network" $late --features pix -o x.tar netmodel
check_exit 2 "a network without centroids" ddm-sample -n 3 --route full --features "$dino" -o x.tar netmodel
check_err "is not needed" '--features does nothing without --centroids'
check_exit 2 "a network that hogcolor does not need" $near --route 'distance|top-1' --features "$dino" -o x.tar photomodel
check_err "neither" 'holds centroids of "hogcolor-1", which needs no network'
ddm-cluster -q -k 4 --seed 1 --features "$dino" --weight-dtype bf16 --centroids-out rounded.npy -o rounded.tsv photos.tar 2>"$ERR"
check_exit 65 "centroids of other weights of the same kind" ddm-sample -n 3 --centroids rounded.npy --features "$dino" --route 'distance|top-1' \
	-o x.tar netmodel
check_err "have another hash" 'rounded.npy: centroids of other weights of "dinov2"'
sed 's/"features": "dinov2"/"features": "clip"/' net.npy.json >text.npy.json
cp net.npy text.npy
unseal text.npy.json
check_exit 65 "a text encoder" ddm-sample -n 3 --centroids text.npy --features "clip:$P/clip-text" --route 'distance|top-1' -o x.tar netmodel
check_err "sees no pictures" 'model_type "clip_text_model" has no vision_config'
check_exit 66 "no such folder" $late --features dinov2:nothing -o x.tar netmodel

# Latents are decoded for the network, also where they are the output.
vae=$SRC/tests/golden/autokl
ddm-encode -q -m "$vae" --posterior mean --no-pictures --dtype f32 -o latents.tar photos.tar 2>"$ERR" &&
	ddm-encode -q -d -m "$vae" -o decoded.tar latents.tar 2>"$ERR" &&
	ddm-cluster -q -k 4 --seed 1 --features "$dino" --centroids-out seen.npy -o seen.tsv decoded.tar 2>"$ERR" &&
	ddm-shard -q -a seen.tsv -o latentshards latents.tar 2>"$ERR" && ddm-exact -o latentmodel latentshards 2>"$ERR" && cp -R "$vae" latentmodel/vae
tap_result $? "an exact model of latents" "$(cat "$ERR")"
late="ddm-sample -n 20 --steps 30 --solver euler,sigmas=karras"
seen="$late --centroids seen.npy --features $dino --route full@1,distance:1e-6|top-1@.02"
check "is routed by the decoded prediction" $seen --report seen.json --log seen.jsonl -o seen.tar latentmodel
check "and by the router" $late --route full --log full.jsonl -o fulllatents.tar latentmodel
check_out "to the same experts" "$(last full.jsonl)" last seen.jsonl
check "without decoded output" $seen --format latent --report kept.json --log kept.jsonl -o kept.tar latentmodel
for f in seen kept; do sed 's/"stamp":"[0-9a-f]*",//; s/"ddm-seal:.*//' $f.jsonl >$f.weights; done
check_same "the same weights" seen.weights kept.weights
check "whose autoencoder may be of another type" $seen --format latent --encoder-weight-dtype bf16 -o half.tar latentmodel
check_exit 2 "but there must be one that is run" $late --route full --format latent --encoder-weight-dtype bf16 -o x.tar latentmodel
check_grep "the autoencoder is an input" '"vae":"[0-9a-f]{64}"' kept.tar

# Grey predictions have three equal channels for the network.
tar xf "$SRC/tests/golden/tiny-model.tar"
check "three clusters" ddm-cluster -q -k 3 --seed 1 --features "$dino" --centroids-out trio.npy -o trio.tsv photos.tar
check "of grey pictures" ddm-sample -n 4 --steps 10 --centroids trio.npy --features "$dino" --route 'full@1,distance|top-1@.3' -o grey.tar ensemble

check_exit 2 "a route of ddm-diagnose by distance" ddm-diagnose budget --routes 'distance|top-1' -o x.tsv model shards
check_err "has no trajectory" 'needs trajectories'
check_absent "nothing was made" x.tar
