# ddm-exact: a data set as a model, through ddm-shard, ddm-exact and ddm-sample, on the blobs of tests/golden/blobs.py.
. "$(dirname "$0")/tap.sh"

check_program ddm-exact
ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o shards "$SRC/tests/golden/blobs.tar.gz" || exit 1
check "a model" ddm-exact -o model shards
check_err "what it is is said" 'model: 1000 samples of 1 x 2 x 2'
check_grep "the router names the clusters" '"num_clusters": 4' model/router/config.json
check_clean "no temporaries" .

# The shares of the clusters in the samples of each policy, which are known for exact experts (tests/unit/test_mixture.c:
# policy_masses). With 1000 samples the standard error is at most .016: the tolerance is .045 per cluster.
masses() {
	ddm-sample -n 1000 --seed 2 --batch 500 --threads 1 --route "$1" -o "$1.tar" --report report.json model 2>"$ERR" || return 1
	sed 's/.*"assigned":\[\([^]]*\)\].*/\1/' report.json | tr , ' ' >mass
	echo "$2" | cat mass - | awk 'NR == 1 { for (i = 1; i <= NF; i++) a[i] = $i } NR == 2 { bad = NF != 4
		for (i = 1; i <= NF; i++) { d = a[i] - $i; if (d > .045 || d < -.045) bad = 1 } } END { exit bad }'
	tap_result $? "$1: masses $2" "$(cat mass)"
}
masses full ".40 .31 .20 .09"
masses top-1 ".71 .20 .06 .03"
masses top-2 ".47 .32 .15 .06"
masses switch:.8 ".54 .29 .11 .07"
masses prior ".40 .30 .20 .10"

# One expert, on another path, part of the samples
check "one expert" ddm-exact --cluster 2 -o one shards
tail -c 3200 one/diffusion_pytorch_model.safetensors >one.data
tail -c 3200 model/expert_2/diffusion_pytorch_model.safetensors >model.data
check_same "of the same samples as in the model" one.data model.data
check "which is sampled" ddm-sample -n 4 --steps 3 --route expert:0 -o one.tar one
check "all as one expert" ddm-exact --cluster all -o mono shards
check_grep "is of no cluster" '"cluster": -1' mono/config.json
mkdir mixed
cp -R model/expert_0 model/router mixed
check "another path and prediction" ddm-exact --cluster 1 --path cosine --predict epsilon -o mixed/expert_1 shards
check_grep "are in its config" '"prediction": "epsilon"' mixed/expert_1/config.json
check "a path of a thousand steps" ddm-exact --cluster 3 --path linear_betas --predict epsilon -o mixed/expert_3 shards
check_out "is known by name" 'linear_betas' sh -c 'ddm-info --json mixed/expert_3 | sed "s/.*\"path\":\"\([a-z_]*\)\".*/\1/"'
check "those of EDM" ddm-exact --cluster 2 --path edm --predict edm -o mixed/expert_2 shards
check "and such experts fit together" ddm-sample -n 4 --steps 3 --route full -o mixed.tar mixed
check "some of the samples" ddm-exact --limit 50 --seed 3 -o some shards
check_grep "fifty of each" '50,' some/router/config.json
check_grep "which stand for all" '400,' some/router/config.json
check "others" ddm-exact --limit 50 --seed 4 -o others shards
check_differ "another seed, others" some/router/model.safetensors others/router/model.safetensors
check "held-out samples" ddm-exact --split holdout -o held shards
check_err "there are 100" '^held: 100 samples'
check "both parts" ddm-exact --split all -o both shards
check_err "together" '^both: 1100 samples'
check "threads change nothing" ddm-exact --threads 3 -o again shards
check "not a byte" diff -r model again
check "sampled" ddm-sample -n 20 --steps 3 --route top-2 --threads 1 -o once.tar model
check "in other batches" ddm-sample -n 20 --steps 3 --route top-2 --batch 7 --threads 3 -o batch.tar model
check_same "the same pictures" once.tar batch.tar

# Requests that cannot be served
check_exit 2 "no -o" ddm-exact shards
check_exit 2 "no such cluster" ddm-exact --cluster 4 -o x4 shards
check_exit 2 "a cluster that is no number" ddm-exact --cluster one -o x4 shards
check_exit 2 "no samples asked for" ddm-exact --limit 0 -o x4 shards
check_exit 66 "no shards" ddm-exact -o x4 nothing
cp -R shards broken
flip broken/cluster-1/000000.tar.zst 700
check_exit 65 "a damaged shard" ddm-exact -o x4 broken
check_absent "nothing was made" x4

# The same command again
again() { find model -type f -exec touch -d 2001-01-01 {} +; }
again
check "a finished command again" ddm-exact -o model shards
check_err "says so" 'complete, nothing to do'
check_out "touches nothing" "" find model -newermt 2002-01-01 -type f
check_exit 73 "other options" ddm-exact --limit 7 -o model shards
check_err "are named" 'limit'
mkdir taken
echo x >taken/file
check_exit 73 "somebody else's folder" ddm-exact -o taken shards
killed_after .05 ddm-exact -o killed shards
check "killed and given again" ddm-exact -o killed shards
check "the same bytes" diff -r model killed

# A model that was tampered with
cp -R model bad
flip bad/expert_1/diffusion_pytorch_model.safetensors 2000
check_exit 65 "altered samples" ddm-sample -n 3 --route full -o bad.tar bad
check_err "the file is named" 'expert_1/diffusion_pytorch_model.safetensors'
check_exit 65 "are found by the same command too" ddm-exact -o bad shards
cp -R model bad2
sed -i 's/^    100$/    101/' bad2/router/config.json
check_exit 65 "an edited configuration" ddm-sample -n 3 --route full -o bad.tar bad2
check_err "its seal tells" 'bad2/router/config.json: altered since it was written'
unseal bad2/router/config.json
check_exit 65 "numbers that do not add up" ddm-sample -n 3 --route full -o bad.tar bad2
rm bad2/expert_3/diffusion_pytorch_model.safetensors
check_exit 66 "no samples" ddm-sample -n 3 --route expert:3 -o bad.tar bad2
