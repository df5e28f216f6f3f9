# FLUX as an expert: training, resuming, sampling, beside a PixArt in one ensemble; its configuration as diffusers writes it.
. "$(dirname "$0")/tap.sh"

weights=diffusion_pytorch_model.safetensors
text=$SRC/tests/golden/pretrained/text-clip
run="ddm-train -q --size 16 --batch 4"
flux="--model flux-nano/4 --hidden 48 --heads 2"
few="$run $flux --steps 4 --checkpoint-every 2"

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
for f in pics/*.png; do echo "the cat of $f" >"${f%.png}.txt"; done
ddm-cluster -q -k 2 --holdout .2 --seed 2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --text "$text" --pooled -o s pics || exit 1

check_exit 2 "an unknown preset" $run --model flux-den/2 --steps 4 --cluster 0 -o m s
check_err "which is meant is said" 'did you mean flux-dev/2$'
check_exit 2 "heads of an odd width" $run --model flux-nano/4 --hidden 45 --heads 3 --steps 4 --cluster 0 -o m s
check_err "are refused" 'does not divide into 3 heads of an even width'
check_exit 2 "heads too narrow for three axes" $run --model flux-nano/4 --hidden 48 --heads 12 --steps 4 --cluster 0 -o m s
check_err "are refused" 'three even numbers whose sum is a head.s width, 4'
for size in schnell dev; do
	check "the plan of flux-$size" ddm-train --model flux-$size/2 --size 16 --batch 4 --steps 4 --plan --cluster 0 -o m s
done
check_absent "nothing made" m

check "an expert" $few --cluster 0 -o e/expert_0 s
check_grep "its configuration" '"model_type": "flux"' e/expert_0/config.json
check "one thread, recomputed" $few --cluster 0 --threads 1 --recompute --checkpoint-every 90s -o one s
check_same "make the same bytes" e/expert_0/$weights one/$weights
cp -r e/expert_0 half && rm -r half/train/step-00000004 half/$weights half/config.json
check "gone on with after two steps" $few --cluster 0 -o half s
check_same "it is the same" e/expert_0/$weights half/$weights
check_exit 73 "another in its place" $run --model flux-nano/4 --hidden 96 --heads 2 --steps 4 --cluster 0 -o e/expert_0 s
check_err "is told by its width" 'hidden'
check "a PixArt beside it, which reads no pooled vector" $run --model pixart-nano/4 --hidden 48 --depth 1 --heads 2 --text-tokens 16 --steps 4 --cluster 1 -o e/expert_1 s
check "a router" ddm-route-train -q --model dit-nano/4 --hidden 16 --depth 1 --heads 2 --size 16 --batch 4 --steps 4 -o e/router s

# Sampling
cp -R "$text/text_encoder" "$text/tokenizer" e
printf 'the cat\na newer tower\n\n' >lines.txt
sample="ddm-sample -q --steps 3"
check "prompts" $sample --route full --prompts lines.txt --cfg 2 -o lines.tar e
check "in other batches" $sample --route full --prompts lines.txt --cfg 2 --batch 1 --threads 1 -o other.tar e
check_same "the same pictures" lines.tar other.tar
if has_mpi; then
	check "ranks that share the experts" $sample --route full --prompts lines.txt --cfg 2 --spread experts --ranks 2 -o ranks.tar e
	check_same "make the same pictures" lines.tar ranks.tar
else
	skip "ranks" "no mpirun"
fi
check "matrices in bf16" $sample --route expert:0 --prompts lines.txt --cfg 2 --weight-dtype bf16 -o bf16.tar e
check "ddm-check" ddm-check e
check_out "ddm-info" "$(printf 'flux\n')" sh -c "ddm-info --json e/expert_0 2>/dev/null | grep -o flux | head -n 1"
check "another prediction from its weights" $run $flux --steps 2 --predict x0 --pretrained e/expert_0 --cluster 1 -o later s
check_exit 2 "an SD3 cannot" $run --model sd3-nano/4 --steps 2 --pretrained e/expert_0 --cluster 1 -o m s
check_err "and is told so" 'type flux'

# The configuration of diffusers: channels of packed tokens, patches of 2 x 2
check "an expert with patches of 2 x 2" $run --model flux-nano/2 --hidden 48 --heads 2 --steps 2 --cluster 0 -o two/expert_0 s
mkdir -p pipe/transformer
cp -R "$text/text_encoder" "$text/tokenizer" pipe
cp -R "$text/text_encoder" "$text/tokenizer" two
cp two/expert_0/$weights pipe/transformer
cat >pipe/transformer/config.json <<'X'
{"_class_name": "FluxTransformer2DModel", "in_channels": 12, "out_channels": null, "patch_size": 1, "num_layers": 2, "num_single_layers": 2,
 "num_attention_heads": 2, "attention_head_dim": 24, "joint_attention_dim": 8, "pooled_projection_dim": 8, "guidance_embeds": false,
 "axes_dims_rope": [4, 10, 10], "sample_size": 16, "text_tokens": 16}
X
one="$sample --route expert:0 --prompt cat --cfg 2 --format latent"
check "is read" $one -o pipe.tar pipe
check "the expert itself" $one -o own.tar two
mkdir p0 p1 && tar xf pipe.tar -C p0 && tar xf own.tar -C p1
check_same "the same latent" p0/000000.npy p1/000000.npy
sed 's/"guidance_embeds": false/"guidance_embeds": true/' pipe/transformer/config.json >config.json && mv config.json pipe/transformer
check_exit 65 "a guidance scale that the weights do not read" $one -o x.tar pipe
check_err "the tensor is named" 'guidance_in'
