# Networks that do not belong together are refused: swapped folders, other numbers of clusters, other partitions, a missing router.
. "$(dirname "$0")/tap.sh"

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 2 --seed 5 --centroids-out c.npy -o a.tsv pics || exit 1
ddm-cluster -q -k 3 --seed 5 -o three.tsv pics || exit 1
ddm-cluster -q -k 2 --features random --seed 9 -o random.tsv pics || exit 1
ddm-cluster -q --centroids c.npy -o site.tsv pics/a || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1
ddm-shard -q -a three.tsv -o s3 pics || exit 1
ddm-shard -q -a random.tsv -o sr pics || exit 1
ddm-shard -q -a site.tsv -o ss pics/a || exit 1

net="-q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 1 --threads 1 --device cpu"
for k in 0 1; do ddm-train $net --predict x0 --cluster $k -o m/expert_$k s || exit 1; done
ddm-route-train $net -o m/router s || exit 1
ddm-train $net --predict x0 --cluster 1 -o three/expert_1 s3 || exit 1
ddm-train $net --predict x0 --cluster 1 -o random/expert_1 sr || exit 1
ddm-train $net --predict x0 --cluster 0 -o site/expert_0 ss || exit 1

partition() { sed -n 's/.*"partition": *"\([0-9a-f]*\)".*/\1/p' "$1"; }
check_grep "config.json names the partition" '"partition": "[0-9a-f]{64}"' m/expert_0/config.json
check_out "all of one have the same" "$(partition m/expert_0/config.json)" partition m/router/config.json
check_out "a site with the same centroids has the same" "$(partition m/expert_0/config.json)" partition site/expert_0/config.json
[ "$(partition m/expert_0/config.json)" != "$(partition random/expert_1/config.json)" ]
tap_result $? "another partition has another"
check_out "an ensemble that belongs together" "" ddm-check -c m

# refused NAME REGEX MODEL: every program that opens an ensemble refuses MODEL
refused() {
	check_exit 65 "$1: ddm-check" ddm-check "$3"
	check_err "names both" "$2"
	check_exit 65 "$1: ddm-info --check" ddm-info --check "$3"
	check_err "names both" "$2"
	check_exit 65 "$1: ddm-sample" ddm-sample -n 1 --steps 1 --device cpu --route full -o out.tar "$3"
	check_err "names both" "$2"
	check_exit 65 "$1: ddm-sample of one expert" ddm-sample -n 1 --steps 1 --device cpu --route expert:1 -o out.tar "$3"
	check_exit 65 "$1: ddm-diagnose" ddm-diagnose budget --no-verify --device cpu "$3" s
	check_err "names both" "$2"
	check_absent "$1: nothing is made" out.tar
}

cp -R m swapped
mv swapped/expert_0 x && mv swapped/expert_1 swapped/expert_0 && mv x swapped/expert_1
refused "swapped folders" 'expert_0: the folder.s name says cluster 0, .* cluster 1: rename it to expert_1' swapped
cp -R m other && rm -r other/expert_1 && cp -R three/expert_1 other
refused "an expert of three clusters beside a router of two" 'expert_0 .* into 2 clusters, but expert_1 .* into 3' other
mkdir lone && cp -R three/expert_1 m/router lone
check_exit 65 "and alone with it" ddm-sample -n 1 --steps 1 --device cpu --route expert:1 -o out.tar lone
check_err "both are named" 'expert_1 .* into 3 clusters, but router .* into 2'
rm -r other && cp -R m other && rm -r other/expert_1 && cp -R random/expert_1 other
mine=$(partition m/expert_0/config.json | cut -c 1-16) theirs=$(partition random/expert_1/config.json | cut -c 1-16)
refused "an expert of another partition" "expert_0 .* partition $mine, but expert_1 .* partition $theirs" other
rm -r other && cp -R m other && rm -r other/expert_0 && cp -R site/expert_0 other
check_out "experts of two sites with the same centroids" "" ddm-check -c other
check "are sampled" ddm-sample -n 1 --steps 1 --device cpu --route full -o out.tar other

# Models without a record of their training data, as older versions wrote them, are accepted.
cp -R m old
sed -i 's/"partition"/"unknown"/; s/ddm-seal:\([0-9a-f]*\):ddm-seal/\1/' old/*/config.json
check_out "configurations without a partition" "" ddm-check -c old

# A folder with a single network may have any cluster number.
check_out "one expert by itself" "" ddm-check -c m/expert_1
check "is sampled" ddm-sample -n 1 --steps 1 --device cpu --route expert:0 -o one.tar m/expert_1

# An ensemble needs a router.
cp -R m mute && rm -r mute/router
check_out "without a router: what is there is sound" "" ddm-check mute
check_exit 65 "but not complete" ddm-check -c mute
check_err "which names what asks for it" 'mute: router is absent, .* 2 clusters'
ddm-exact -o exact s 2>/dev/null || exit 1
check_out "the samples in the place of networks" "" ddm-check -c exact
rm -r exact/router
check_exit 65 "nor are they complete without" ddm-check -c exact
check_err "which is named" 'exact: router is absent'

# A copy of the shards with only one cluster, without its held-out part.
ddm-cluster -q -k 2 --holdout .3 --features random --seed 2 -o held.tsv pics || exit 1
ddm-shard -q -a held.tsv -o held pics || exit 1
mkdir own && cp -R held/MANIFEST.tsv held/cluster-0 own
check_exit_any 0 "an expert of one's own cluster alone" ddm-train $net --predict x0 --cluster 0 -o alone own
check_err "the absent part is warned of" 'own/holdout/cluster-0 is not there, although the manifest lists it: training continues without'
check "without validation nothing is said" ddm-train $net --predict x0 --validate-samples 0 --cluster 0 -o quiet own
[ ! -s "$ERR" ]
tap_result $? "nothing is"
mkdir -p own/holdout/cluster-0
check_exit 66 "a folder that lacks a listed shard is damage" ddm-train $net --predict x0 --cluster 0 -o torn own
check_exit 66 "and all clusters are all clusters" ddm-route-train $net -o routed own
mkdir none && cp -R s/MANIFEST.tsv s/cluster-0 none
check "where nothing is held out nothing is asked for" ddm-train $net --predict x0 --cluster 0 -o nothing none
[ ! -s "$ERR" ]
tap_result $? "or said"
