# A U-Net as an expert: trained, resumed, sampled, in one ensemble with a DiT; diffusers can read its folder.
. "$(dirname "$0")/tap.sh"

weights=diffusion_pytorch_model.safetensors
net="--model unet-nano --size 16 --batch 4"
few="$net --steps 4 --checkpoint-every 2"
run="ddm-train -q"

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1

check_exit 2 "a width" $run $few --hidden 64 --cluster 0 -o m s
check_err "is none of its options" 'a unet network takes no hidden: its preset sets widths, layers,'
check_exit 2 "patches that cannot be halved" $run $few --patch 8 --cluster 0 -o m s
check_err "are named" '16 is not a multiple of 32, with its patches'
check "patches of 2 x 2" $run $few --patch 2 --cluster 0 -o p/expert_0 s
check_grep "in its configuration" '"patch_size": 2' p/expert_0/config.json
check "are sampled" ddm-sample -q -n 2 --steps 2 --route expert:0 -o p.tar p
check "and take fewer operations" sh -c "[ \$(ddm-train $few --patch 2 --cluster 0 --plan -o q s | awk '/^gflop/ { print int(\$2 * 1000) }') -lt \$(ddm-train $few --cluster 0 --plan -o q s | awk '/^gflop/ { print int(\$2 * 300) }') ]"
rm -r p
check_exit 2 "a size that cannot be halved" $run --model unet-nano --size 18 --batch 4 --steps 4 --cluster 0 -o m s
check_err "is named" '18 is not a multiple of 4'
check_exit 2 "an unknown one" $run --model unet-nan --steps 4 --cluster 0 -o m s
check_err "which is meant is said" 'did you mean unet-nano$'

check "an expert" $run $few --condition cluster --class-dropout .2 --cluster 0 -o e/expert_0 s
check_grep "its configuration" '"model_type": "unet"' e/expert_0/config.json
check_grep "as diffusers has it" '"_class_name": "UNet2DModel"' e/expert_0/config.json
check "one thread, recomputed, other checkpoints" $run $few --condition cluster --class-dropout .2 --cluster 0 --threads 1 --recompute --checkpoint-every 90s -o e/one s
check_same "make the same bytes" e/expert_0/$weights e/one/$weights
check "norms and activations recomputed" $run $few --condition cluster --class-dropout .2 --cluster 0 --recompute-light -o e/light s
check_same "make the same bytes" e/expert_0/$weights e/light/$weights
rm -r e/light
cp -r e/expert_0 half && rm -r half/train/step-00000004 half/$weights half/config.json
check "gone on with after two steps" $run $few --condition cluster --class-dropout .2 --cluster 0 -o half s
check_same "it is the same" e/expert_0/$weights half/$weights
check_exit 73 "another U-Net in its place" $run --model unet-micro --size 16 --batch 4 --steps 4 --condition cluster --class-dropout .2 --cluster 0 -o e/expert_0 s
check_err "is told by its widths" 'widths'

check "a DiT beside it" $run --model dit-nano/4 --hidden 16 --depth 1 --heads 2 --predict x0 --size 16 --batch 4 --steps 4 --condition cluster --class-dropout .2 \
	--cluster 1 -o e/expert_1 s
check "a router" ddm-route-train -q --model dit-nano/4 --hidden 16 --depth 1 --heads 2 --size 16 --batch 4 --steps 4 -o e/router s
rm -r e/one
check "both in an ensemble" ddm-sample -q -n 5 --steps 3 --route full --class 1 --cfg 2 -o mixed.tar e
check "in other batches" ddm-sample -q -n 5 --steps 3 --route full --class 1 --cfg 2 --batch 2 --threads 1 -o other.tar e
check_same "the same pictures" mixed.tar other.tar
check "ddm-check" ddm-check e
check "ddm-info" ddm-info e
check "and of one" ddm-info e/expert_0
check_grep "the widths too" '32,64,64' "$OUT"

# Another U-Net starts from its weights
check "another prediction" $run $net --steps 2 --predict x0 --pretrained e/expert_0 --condition cluster --class-dropout .2 --cluster 1 -o later s
check_exit 2 "a DiT cannot" $run --model dit-nano/4 --hidden 16 --depth 1 --heads 2 --size 16 --batch 4 --steps 2 --pretrained e/expert_0 --cluster 1 -o m s
check_err "and is told so" 'type unet'

# A pipeline of diffusers without our config.json
mkdir -p pipe/unet pipe/scheduler
cp e/expert_0/$weights pipe/unet
cat >pipe/unet/config.json <<'END'
{"_class_name": "UNet2DModel", "in_channels": 3, "out_channels": 3, "sample_size": 16, "block_out_channels": [32, 64, 64], "layers_per_block": 1,
 "down_block_types": ["DownBlock2D", "DownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D", "UpBlock2D"],
 "attention_head_dim": 32, "num_class_embeds": 3}
END
echo '{"_class_name": "DDPMScheduler", "num_train_timesteps": 1000, "beta_schedule": "linear", "beta_start": 0.0001, "beta_end": 0.02, "prediction_type": "epsilon"}' \
	>pipe/scheduler/scheduler_config.json
echo '{"_class_name": "DDPMPipeline", "unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPMScheduler"]}' >pipe/model_index.json
check "its U-Net is sampled" ddm-sample -q -n 2 --steps 3 --route expert:0 --class 1 --solver ddim -o pipe.tar pipe

# Another author's network from the original file
mnist=$DATA/weights/ddpm-tiny/ddpm_mnist.pt
if [ -n "$DATA" ] && [ -f "$mnist" ]; then
	mkdir mnist
	cp "$mnist" mnist
	echo '{"model_type": "mnist_unet", "in_channels": 1, "prediction": "epsilon", "path": "linear_betas", "num_train_timesteps": 1000,
		"beta_start": 0.0001, "beta_end": 0.02}' >mnist/config.json
	for solver in ddim ddpm,variance=large euler; do
		check "is sampled by $solver" ddm-sample -q -n 2 --steps 4 --route expert:0 --solver $solver -o mnist.tar mnist
		rm -f mnist.tar
	done
else
	skip "a DDPM of MNIST" "no test data: DDM_TEST_DATA"
fi
