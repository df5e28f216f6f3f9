# SD3 as an expert: shards with pooled vectors, training, resuming, sampling with prompts and with features from a file, folders of diffusers.
. "$(dirname "$0")/tap.sh"

weights=diffusion_pytorch_model.safetensors
text=$SRC/tests/golden/pretrained/text-clip
run="ddm-train -q --size 16 --batch 4"
few="$run --model sd3-nano/4 --hidden 48 --depth 2 --heads 2 --steps 4 --checkpoint-every 2"

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
for f in pics/*.png; do echo "the cat of $f" >"${f%.png}.txt"; done
ddm-cluster -q -k 2 --holdout .2 --seed 2 -o a.tsv pics || exit 1

# pooled.npy
check "shards with texts and pooled vectors" ddm-shard -q -a a.tsv --text "$text" --pooled -o s pics
check "shards without pooled vectors" ddm-shard -q -a a.tsv --text "$text" -o plain pics
check "by ddm-encode" ddm-encode -q -m "$text" --as text --pooled --null-text null.npy --null-pooled pooled.npy -o e.tar pics
check "in 32 bits" ddm-encode -q -m "$text" --as text --pooled --dtype f32 --null-text null32.npy --null-pooled pooled32.npy -o e32.tar pics
mkdir out want
for f in s/cluster-?/*.zst s/holdout/cluster-?/*.zst; do zstd -dc "$f" | tar xf - -C out; done
tar xf e.tar -C want
check "the same samples" diff -r want out
[ "$(find out -name '*.pooled.npy' | wc -l)" = "$(find pics -name '*.txt' | wc -l)" ]
tap_result $? "each has a pooled vector"
check_same "the same pooled vector of the empty text" pooled.npy s/null-pooled.npy
check_grep "which the manifest covers" '"null-pooled.npy":"[0-9a-f]{64}"' s/MANIFEST.tsv
check "ddm-check" ddm-check s
check_exit 2 "--null-pooled without --pooled" ddm-encode -m "$text" --as text --null-pooled x.npy -o x.tar pics
check_exit 2 "--pooled of T5" ddm-encode -m "$SRC/tests/golden/pretrained/text-t5" --pooled -o x.tar pics
check_err "is told why" 'T5 encoder, which has no pooled vector'
check_exit 2 "--pooled of an autoencoder" ddm-encode -m "$SRC/tests/golden/autokl" --pooled -o x.tar pics

# Training
check_exit 2 "an unknown preset" $run --model sd3-nan/2 --steps 4 --cluster 0 -o m s
check_err "which is meant is said" 'did you mean sd3-nano/2$'
check_exit 2 "a patch that does not divide" $run --model sd3-nano/3 --steps 4 --cluster 0 -o m s
check_err "is named" 'patch 3 .*does not divide the size 16'
check_exit 66 "no pooled vector of the empty text" $few --null-text s/null-text.npy --null-pooled none.npy --cluster 0 -o m s
check_err "the option is named" 'give --null-pooled FILE, or --text-drop 0'
check_exit 65 "one of another width" $few --null-pooled "$PWD/null.npy" --cluster 0 -o m s
check_exit 2 "a pooled vector for a network without" $run --model dit-nano/4 --null-pooled pooled.npy --steps 4 --cluster 0 -o m s
check "an expert" $few --cluster 0 -o e/expert_0 s
check_grep "its configuration" '"model_type": "sd3"' e/expert_0/config.json
check_grep "as diffusers has it" '"_class_name": "SD3Transformer2DModel"' e/expert_0/config.json
check_grep "with the width of the pooled vector" '"pooled_projection_dim": [1-9]' e/expert_0/config.json
check "one thread, recomputed" $few --cluster 0 --threads 1 --recompute --checkpoint-every 90s -o e/one s
check_same "make the same bytes" e/expert_0/$weights e/one/$weights
cp -r e/expert_0 half && rm -r half/train/step-00000004 half/$weights half/config.json
check "gone on with after two steps" $few --cluster 0 -o half s
check_same "it is the same" e/expert_0/$weights half/$weights
check_exit 73 "another vector for the empty text" $few --cluster 0 --null-pooled "$(find "$PWD/out" -name "*.pooled.npy" | head -n 1)" -o e/expert_0 s
check_err "is named" "inputs.null_pooled"
check "the other expert, without the null text" $few --text-drop 0 --cluster 1 -o e/expert_1 s
check "of samples without pooled vectors" $few --cluster 0 -o bare plain
check_grep "have a network that reads none" '"pooled_projection_dim": 0' bare/config.json
for kind in another none; do
	rm -rf bad && cp -R want bad
	for f in bad/*.pooled.npy; do
		[ $kind = none ] && rm "$f" && break
		cp "${f%.pooled.npy}.text.npy" "$f"
	done
	ddm-shard -q -a a.tsv -o $kind bad || exit 1
done
check_exit 65 "pooled vectors that are matrices" $few --text-drop 0 --cluster all -o m1 another
check_err "are refused" 'the pooled vector of a text must be .* of shape \(width\)'
check_exit 65 "a sample that lacks its pooled vector" $few --text-drop 0 --cluster all -o m2 none
check_err "is named" '"[^"]*" has a pooled vector of width [08] \(pooled.npy\), the others of [08]'
for size in medium 3.5-medium 3.5-large; do
	check "the plan of sd3-$size" ddm-train --model sd3-$size/2 --size 16 --batch 4 --steps 4 --plan --cluster 0 -o m s
done
check_absent "nothing made" m

# Sampling
cp -R "$text/text_encoder" "$text/tokenizer" e
check "a router" ddm-route-train -q --model dit-nano/4 --hidden 16 --depth 1 --heads 2 --size 16 --batch 4 --steps 4 -o e/router s
rm -r e/one
printf 'the cat\na newer tower\n\n' >lines.txt
sample="ddm-sample -q --steps 3 --route full"
check "prompts" $sample --prompts lines.txt --cfg 2 -o lines.tar e
check "in other batches" $sample --prompts lines.txt --cfg 2 --batch 1 --threads 1 -o other.tar e
check_same "the same pictures" lines.tar other.tar
check "the empty prompt" $sample --prompt "" --cfg 1 --format latent -o empty.tar e
check "ddm-check" ddm-check e
check "ddm-info" ddm-info e/expert_0
check_exit 65 "an encoder without pooled vectors of this width" $sample --prompt x --text-encoder "$SRC/tests/golden/pretrained/text-clip/text_encoder_2" -o x.tar e
check_exit 65 "features without pooled vectors" $sample --text-features null32.npy --cfg 1 -o x.tar e
if command -v python3 >/dev/null 2>&1; then
	python3 - <<'X'
import zipfile
for name, pooled in ("given", "pooled32.npy"), ("lacking", None), ("wrong", "null32.npy"):
    with zipfile.ZipFile(name + ".npz", "w") as z:
        z.write("null32.npy", "prompt_embeds.npy")
        if pooled:
            z.write(pooled, "pooled_prompt_embeds.npy")
X
	check "features from a file" $sample --text-features given.npz --cfg 1 --format latent -o given.tar e
	mkdir t1 t2 && tar xf empty.tar -C t1 && tar xf given.tar -C t2
	check_same "of the empty prompt make the same" t1/000000.npy t2/000000.npy
	check_exit 65 "a file without them" $sample --text-features lacking.npz --cfg 1 -o x.tar e
	check_err "the entry is named" 'pooled_prompt_embeds'
	check_exit 65 "of another shape" $sample --text-features wrong.npz --cfg 1 -o x.tar e
	check "an ensemble guided away from a file" $sample --text-features given.npz --negative-features given.npz --cfg 3 --format latent -o away.tar e
else
	skip "features from a file" "no python3"
fi
check "a network that reads no pooled vector" ddm-sample -q --steps 2 --route expert:0 --prompt "the cat" --cfg 2 --text-encoder "$text/text_encoder" -o bare.tar bare

# Several ranks
if has_mpi; then
	for share in pictures experts; do
		check "ranks that share the $share" $sample --prompts lines.txt --cfg 2 --batch 2 --spread $share --ranks 2 -o $share.tar e
		check_same "make the same pictures" lines.tar $share.tar
	done
else
	skip "ranks" "no mpirun"
fi

# A pipeline of diffusers, without our config.json
mkdir -p pipe/transformer pipe/scheduler
cp e/expert_0/$weights pipe/transformer
cp -R "$text/text_encoder" "$text/tokenizer" pipe
grep -v '"model_type"\|"prediction"\|"path"\|"time_scale"' e/expert_0/config.json >pipe/transformer/config.json
unseal pipe/transformer/config.json
check "without a scheduler it predicts velocities" ddm-sample -q --steps 3 --route expert:0 --prompt "the cat" --cfg 2 --format latent -o p0.tar pipe
echo '{"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 1.0}' >pipe/scheduler/scheduler_config.json
check "with one" ddm-sample -q --steps 3 --route expert:0 --prompt "the cat" --cfg 2 --format latent -o p1.tar pipe
check "as the expert itself" ddm-sample -q --steps 3 --route expert:0 --prompt "the cat" --cfg 2 --format latent -o p2.tar e
mkdir p0 p2
for i in 0 2; do tar xf p$i.tar -C p$i; done
check_same "the same latent" p0/000000.npy p2/000000.npy
check "another SD3 starts from its weights" $run --model sd3-nano/4 --hidden 48 --depth 2 --heads 2 --steps 2 --predict x0 --pretrained e/expert_0 --cluster 1 -o later s
check_exit 2 "a DiT cannot" $run --model dit-nano/4 --steps 2 --pretrained e/expert_0 --cluster 1 -o m s
check_err "and is told so" 'type sd3'
