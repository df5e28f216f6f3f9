# Experts for a part of the times: trained, resumed, recorded, refused.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --threads 1 --lr 1e-3 --validate-every 4 --checkpoint-every 3"
weights=diffusion_pytorch_model.safetensors
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
run="ddm-train -q $net --predict x0 --cluster all"

# Training
check "the whole range" $run --steps 8 -o whole s
check "said aloud" $run --steps 8 --time-range 0..1 -o said s
check_same "is the same file" whole/$weights said/$weights
check_same "and configuration" whole/config.json said/config.json
check "the noisy half" $run --steps 8 --time-range .5..1 -o high s
check_grep "config.json has the range" '^  "time_range": \[' high/config.json
check_grep "and the stamp" '"time_range": "0.5..1"' high/config.json
check_out "ddm-info shows it" '0.5..1' sh -c 'ddm-info --json high | sed "s/.*\"time_range\":\"\([0-9.]*\)\".*/\1/"'
check "other numbers than on all times" sh -c "! cmp -s whole/$weights high/$weights"
check_exit 73 "another range on top" $run --steps 8 --time-range .4..1 -o high s
check_err "is named" 'time_range: .*0\.5\.\.1.* -> .*0\.4\.\.1'
check_exit 73 "no range on top" $run --steps 8 -o high s
check "a run that stops" $run --steps 4 --time-range .5..1 -o short s
check "extended" $run --steps 8 --extend --time-range .5..1 -o short s
check_same "is the run that did not stop" high/train/step-00000008/weights.safetensors short/train/step-00000008/weights.safetensors
check_exit 73 "extended with another range" $run --steps 9 --extend --time-range .4..1 -o short s
held killed step-00000006 $run --steps 8 --time-range .5..1 -o killed s
kill -KILL $pid
wait $pid
check "killed, resumed" $run --steps 8 --time-range .5..1 -o killed s
check_grep "from a checkpoint" '"event":"start".*"step":3' killed/train.jsonl
check_same "the same model" high/$weights killed/$weights
check "from an expert of all times" $run --steps 2 --time-range 0...5 --pretrained whole -o low s

# Refusals
for r in .5 .5... .6...5 0..2 a..b ..; do
	check_exit 2 "--time-range $r" $run --steps 2 --time-range $r -o x s
done
check_err "the form is told" "--time-range: '..' is not A..B with numbers 0 <= A < B <= 1"
check_exit 2 "a range without a step" $run --steps 2 --path ddpm --time discrete --time-range .0101...0109 -o x s
check_err "is named" "--time-range: the law of times 'discrete' draws none from 0.0101 to 0.0109 on path linear_betas"
check_exit 2 "sheets of samples" $run --steps 2 --time-range .5..1 --sample-every 1 -o x s
check_exit 2 "a router" ddm-route-train -q --time-range .5..1 --steps 1 -o x s
check_absent "nothing is made" x
for v in '[0.5]' '[0.5, 0.5]' '[0.5, 2]' '"0.5..1"'; do
	rm -rf bad && cp -R high bad
	tr -d '\n' <high/config.json | sed "s/\"time_range\": *\[[^]]*\]/\"time_range\": $v/" >bad/config.json
	unseal bad/config.json
	check_exit 65 "a config with $v" ddm-info bad
done
check_err "is named" 'bad/config.json: "time_range" is not \[A, B\]'
