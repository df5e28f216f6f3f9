# Dropout of a U-Net: only in training; the same bytes however the run is interrupted; without the option nothing changes.
. "$(dirname "$0")/tap.sh"

weights=diffusion_pytorch_model.safetensors
run="ddm-train -q --model unet-nano --size 16 --batch 4 --cluster 0"
few="$run --steps 4 --checkpoint-every 2"

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 1 --holdout .2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1

# Refused
check_exit 2 "a DiT" ddm-train -q --model dit-nano/4 --cluster 0 --dropout .1 -o m s
check_err "has none" "^ddm-train: --dropout does nothing without --model unet-\* or --pretrained$"
check_exit 2 "a probability of 1" $few --dropout 1 -o m s
check_err "is out of range" "--dropout"

# Without it
check "none" $few -o none s
check "a dropout of 0" $few --dropout 0 -o zero s
check_same "the same weights" none/$weights zero/$weights
check_same "the same configuration" none/config.json zero/config.json
check "asked for again without it" $few -o zero s

# With it
drop="--dropout .3"
check "with it" $few $drop --threads 2 -o with s
check_grep "config.json has it under diffusers' name" '"dropout": 0.3' with/config.json
check "ddm-info" ddm-info with
check_grep "says it" 'dropout *0\.3' "$OUT"
check "one thread, recomputed" $few $drop --threads 1 --recompute --checkpoint-every 90s -o one s
check_same "the same bytes" with/$weights one/$weights
cp -r with half && rm -r half/train/step-00000004 half/$weights half/config.json
check "gone on with after two steps" $few $drop -o half s
check_same "it is the same" with/$weights half/$weights
check_exit 73 "another dropout" $few --dropout .2 -o half s
check_err "is named" 'dropout'
check_exit 73 "none" $few -o half s
check_exit 2 "a DiT that begins with it" ddm-train -q --model dit-nano/4 --hidden 16 --depth 1 --heads 2 --size 16 --batch 4 --steps 2 --cluster 0 \
	$drop --pretrained with -o m s
check_err "has none" "^ddm-train: --dropout: a dit network has no dropout; U-Nets have it \(--model unet-\.\.\.\)$"

# The last layer of a residual branch is initially zero and would hide dropout before it, so trained weights are used from here on.
check "a U-Net" $run --steps 20 --lr 1e-2 -o trained s
still="$run --init-weights trained/$weights --steps 1 --lr 1e-12 --ema-half-life -1 --validate-every 1 --sample-every 1"
# field NAME DIR: prints that number of the log
field() {
	sed -n 's/.*"'"$1"'":\([-0-9.e]*\).*/\1/p' "$2/train.jsonl" | tail -n 1
}
# near A B REL
near() {
	awk -v a="$1" -v b="$2" -v rel="$3" 'BEGIN { d = a - b; d = d < 0 ? -d : d; exit !(a > 0 && d <= rel * a) }'
}
check "a step without dropout" $still -o v0 s
check "a step with it" $still --dropout .5 -o v5 s
near "$(field val_loss v0)" "$(field val_loss v5)" 1e-7
tap_result $? "validation is without it: $(field val_loss v0), $(field val_loss v5)"
! near "$(field loss v0)" "$(field loss v5)" 1e-5
tap_result $? "training is not: $(field loss v0), $(field loss v5)"
# The sheets differ in their stamp, which comes before the picture.
tail -c 600 v0/train/samples-00000001.png >sheet0
tail -c 600 v5/train/samples-00000001.png >sheet5
check_same "samples are without it" sheet0 sheet5
check "in two parts" $still --dropout .5 --accumulate 2 -o parts s
near "$(field loss v5)" "$(field loss parts)" 1e-6
tap_result $? "the same values are dropped: $(field loss v5), $(field loss parts)"

cp -r v5 bare
unseal bare/config.json
sed -i '/^  "dropout"/d' bare/config.json
mkdir known unknown
check "sampled" ddm-sample -q -n 2 --steps 3 --route expert:0 -o known.tar v5
check "sampled where config.json does not tell of it" ddm-sample -q -n 2 --steps 3 --route expert:0 -o unknown.tar bare
tar xf known.tar -C known
tar xf unknown.tar -C unknown
for picture in known/*.png; do
	tail -c 500 "$picture" >was
	tail -c 500 "un$picture" >now
	check_same "the same picture: $(basename "$picture")" was now
done
