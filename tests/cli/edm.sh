# EDM for data of any standard deviation: --path edm:S belongs to the run, is in config.json and ddm-info, and such experts mix with others.
. "$(dirname "$0")/tap.sh"

net="--model dit-nano/4 --hidden 48 --depth 1 --heads 2 --batch 8 --validate-samples 0"
few="$net --steps 4"
router="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 4 --validate-samples 0"
weights=diffusion_pytorch_model.safetensors

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 3 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1

# Requests
for s in 0 -1 nan inf x 11 .01 1,2 ""; do
	check_exit 2 "ddm-train: edm:$s" ddm-train -q $few --cluster 0 --path edm:$s -o m s
	check_err "the numbers are told" "^ddm-train: --path: 'edm:$s' is not edm\[:S\] with S a number from 0\.1 to 10"
	check_exit 2 "ddm-route-train: edm:$s" ddm-route-train -q $router --path edm:$s -o m s
	check_err "the numbers are told" "^ddm-route-train: --path: 'edm:$s' is not edm\[:S\] with S a number from 0\.1 to 10"
	check_exit 2 "ddm-exact: edm:$s" ddm-exact --path edm:$s -o m s
	check_err "the numbers are told" "^ddm-exact: --path: 'edm:$s' is not edm\[:S\] with S a number from 0\.1 to 10"
done
check_exit 2 "a deviation on another path" ddm-train -q $few --cluster 0 --path linear:1 -o m s
check_err "which has none" "'linear:1' is not linear, which takes no number"
check_exit 2 "no such path" ddm-exact --path edn -o m s
check_err "the paths are told" "--path: 'edn' is not one of linear, cosine, linear_betas, .*, gvp, edm\[:S\]"
check_absent "nothing was made" m

# The default deviation, given explicitly
check "the usual deviation" ddm-train -q $few --cluster 0 --path edm --predict edm -o usual s
check "said aloud" ddm-train -q $few --cluster 0 --path edm:0.5 --predict edm -o said s
check_same "is the same file" usual/$weights said/$weights
check_same "and configuration" usual/config.json said/config.json
! grep -q sigma_data usual/config.json
tap_result $? "which says nothing of it"

# Another deviation
check "another deviation" ddm-train -q $few --cluster 0 --path edm:1 --predict edm -o one s
check_differ "another network" usual/$weights one/$weights
check_grep "its path is told" '^  "path": "edm"' one/config.json
check_grep "and its deviation" '^  "sigma_data": 1\.0' one/config.json
check_exit 73 "another deviation on a finished run" ddm-train -q $few --cluster 0 --path edm:2 --predict edm -o one s
check_err "is named" 'sigma_data: 1(\.0)? -> 2'
check_exit 73 "the usual one" ddm-train -q $few --cluster 0 --path edm --predict edm -o one s
check_err "is named too" 'sigma_data'
check "the weighting is for the same deviation" ddm-train -q $few --cluster 0 --path edm:2 --predict x0 --weighting edm -o weighed s
check_grep "which is told" '"weighting_number": 2\.0' weighed/config.json
check "said aloud" ddm-train -q $few --cluster 0 --path edm:2 --predict x0 --weighting edm:2 -o weighed_said s
check_same "it is the same" weighed/$weights weighed_said/$weights
check "from such an expert" ddm-train $few --cluster 0 --path edm:1 --predict edm --pretrained one -o from_one s
check_err "its last layer is taken" 'taken: .*final_layer\.linear\.weight'
check "to another deviation" ddm-train $few --cluster 0 --path edm:2 --predict edm --pretrained one -o two s
check_err "whose target is another: the last layer is new" 'new: .*final_layer\.linear\.weight'
check_out "ddm-info tells it" '"sigma_data":1.0' sh -c 'ddm-info --json one | grep -o "^{[^{]*" | grep -o "\"sigma_data\":[0-9.]*"'

# Interrupted
long="$net --steps 240 --checkpoint-every 9 --log-every 1 --cluster all --path edm:1 --predict edm --time lognormal"
check "an uninterrupted run" ddm-train -q $long -o whole s
paused half ddm-train -q $long -o half s
kill -TERM $pid && kill -CONT $pid
wait $pid
tap_result $(($? != 75)) "is stopped by SIGTERM"
check_exit 73 "another deviation on a run half done" ddm-train -q $long --path edm:2 -o half s
check_err "is named" 'sigma_data: 1(\.0)? -> 2'
check_absent "no weights yet" half/$weights
check "the same command again" ddm-train $long -o half s
check_err "goes on" 'continuing from step [1-9][0-9]* of 240'
check_same "the same bytes" whole/$weights half/$weights
check_same "the same configuration" whole/config.json half/config.json

# In an ensemble of two deviations and a DDPM expert, with a router for a third
check "a router" ddm-route-train -q $router --path edm:4 -o router s
check_grep "of a deviation" '^  "sigma_data": 4\.0' router/config.json
check "a DDPM expert" ddm-train -q $few --cluster 1 --path ddpm --predict epsilon --time discrete -o ddpm s
check "an expert of deviation 2" ddm-train -q $few --cluster 2 --path edm:2 --predict edm -o other s
mkdir mixed
cp -R one mixed/expert_0 && cp -R ddpm mixed/expert_1 && cp -R other mixed/expert_2 && cp -R router mixed/router || exit 1
for solver in heun dpm++2m; do
	check "mixed, by $solver" ddm-sample -q -n 3 --steps 3 --route full --solver $solver -o $solver.tar mixed
	check "in other batches" ddm-sample -q -n 3 --steps 3 --route full --solver $solver --batch 1 -o x.tar mixed
	check_same "the same" $solver.tar x.tar
	rm x.tar
done
check "ddm-info of all" ddm-info mixed
check "ddm-check of all" ddm-check mixed

# An expert whose deviation is changed in config.json gives other pictures
cp -R mixed misread
sed -i 's/^  "sigma_data": 1\.0/  "sigma_data": 3.0/' misread/expert_0/config.json
unseal misread/expert_0/config.json
check "misread" ddm-sample -q -n 3 --steps 3 --route full --solver heun -o misread.tar misread
check_differ "other pictures" heun.tar misread.tar
sed -i 's/^  "sigma_data": 3\.0/  "sigma_data": 0/' misread/expert_0/config.json
check_exit 65 "a deviation of 0" ddm-sample -q -n 3 --steps 3 --route full -o x.tar misread
check_err "is refused by name" 'misread/expert_0/config\.json: "sigma_data" is not a number in 0\.1\.\.10'

# Exact experts give the same pictures as on the linear path, within the accuracy of the conversion
check "exact experts" ddm-exact --cluster all --path edm:2 --predict edm -o exact s
check_grep "their deviation is told" '^  "sigma_data": 2\.0' exact/config.json
check_exit 73 "another" ddm-exact --cluster all --path edm:3 --predict edm -o exact s
check_err "is named" 'sigma_data: 2(\.0)? -> 3'
check "said aloud, the usual one" ddm-exact --cluster all --path edm:.5 --predict edm -o exact_said s
check "or not" ddm-exact --cluster all --path edm --predict edm -o exact_usual s
check "is the same" diff -r exact_said exact_usual
