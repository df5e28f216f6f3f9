# ddm-sample on a training run: it uses the newest average, or that of --step, and says so.
. "$(dirname "$0")/tap.sh"

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 -o a.tsv pics && ddm-shard -q -a a.tsv -o s pics || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 30 --checkpoint-every 10"
run="ddm-sample --steps 2 -n 2"

for k in 0 1; do
	check "expert $k" ddm-train -q --cluster $k $net --predict x0 -o m/expert_$k s
done
check "a router" ddm-route-train -q $net -o m/router s
check "the weights" $run --route full -o whole.npz m
check "of the last step" $run --route full --step 30 -o last.npz m
check_err "which is said" '^expert 0: sampled at step 30 of its training$'
check_same "are its average" whole.npz last.npz
check "of an earlier step" $run --route full --step 20 -o early.npz m
check_differ "others" early.npz last.npz
check_exit 2 "a step without a checkpoint" $run --route full --step 7 -o x.npz m
check_err "those there are told" 'm/expert_0/train: has no checkpoint of step 7; it has: 20, 30$'

# The folder of a trainer that is running or was killed
cp -R m t
rm t/expert_?/config.json t/expert_?/*.safetensors t/router/config.json t/router/*.safetensors
check "experts and router in training" $run --route full -o train.npz t
check_err "an expert" '^expert 1 is still in training: sampling its newest averaged weights, of step 30$'
check_err "the router" '^the router is still in training: sampling its newest averaged weights, of step 30$'
check_same "the newest average" train.npz last.npz
rm -r t/expert_1/train/step-00000030
check "one of them is behind" $run --route full -o behind.tar t
check_err "which is told" '^expert 1 is still in training: sampling its newest averaged weights, of step 20$'
check_grep "the stamp names the checkpoint" '"expert_1/train/step-00000020/ema.safetensors":"[0-9a-f]{64}"' behind.tar
check "-q" $run -q --route full -o quiet.npz t
[ ! -s "$ERR" ]
tap_result $? "says nothing"
check "one expert in training needs no route" $run -o one.npz t/expert_0
check_err "it is said" '^expert 0 is still in training: .*, of step 30$'
check "the same as of its weights" $run -o weights.npz m/expert_0
check_same "these" one.npz weights.npz
check "a checkpoint is a model" $run -o folder.npz t/expert_0/train/step-00000030
check_same "the same one" folder.npz one.npz
check "ddm-check of a checkpoint" ddm-check t/expert_0/train/step-00000030
check "training goes on from it" ddm-train -q --cluster 1 $net --predict x0 -o t/expert_1 s
check_same "to the same weights" t/expert_1/diffusion_pytorch_model.safetensors m/expert_1/diffusion_pytorch_model.safetensors
check_same "and configuration" t/expert_1/config.json m/expert_1/config.json
sed -i 's/"hidden_size": 16/"hidden_size": 32/' t/expert_0/train/step-00000030/config.json
check_exit 65 "a configuration of others" $run -o x.npz t/expert_0
check_exit_any 65 "is found" ddm-check t/expert_0/train/step-00000030
rm t/expert_0/train/step-00000030/config.json
check_exit 65 "a checkpoint without one" $run -o x.npz t/expert_0
check_err "says what to do" 'a checkpoint of an earlier version, without config\.json: continue the training'
