# --precision on the CPU: bf16 products train nearly as float does, with the same bytes for any threads and interruptions, on every CPU by emulation.
. "$(dirname "$0")/tap.sh"

weights=diffusion_pytorch_model.safetensors
run="ddm-train -q --model dit-nano/4 --size 16 --batch 8 --lr 3e-3 --cluster 0"
few="$run --steps 6 --checkpoint-every 3"
emulated="--precision bf16-emulated"

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 1 --holdout .2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1

# What a CPU computes in
amx=
if grep -q avx512_bf16 /proc/cpuinfo && grep -q avx512bw /proc/cpuinfo; then
	check "bf16 on this CPU" $few --precision bf16 -o native s
	! grep -q amx_bf16 /proc/cpuinfo || amx=1
else
	for what in "-o native" "--plan -o native"; do
		check_exit 69 "bf16 without the instructions: $what" $few --precision bf16 $what s
		check_err "says which, and what to do" "AMX or AVX512-BF16, which this one lacks; bf16-emulated works on any CPU"
	done
	check_absent "nothing was made" native
fi
check_exit 2 "tf32" $few --precision tf32 -o m s
check_exit 2 "a precision that is none" $few --precision bf16-anywhere -o m s
check_grep "the choices are named" "bf16-emulated" "$ERR"
check "--plan" $few $emulated --plan -o m s
check_absent "writes nothing" m

# The same bytes however it runs
check "two threads" $few $emulated --threads 2 -o two s
check "one thread, recomputed" $few $emulated --threads 1 --recompute -o one s
check_same "the same bytes" two/$weights one/$weights
check "only norms recomputed" $few $emulated --recompute-light -o light s
check_same "the same bytes" two/$weights light/$weights
check_exit 2 "--recompute-light beside --recompute" $few $emulated --recompute --recompute-light -o m s
[ ! -e native ] || [ "$amx" ] || check_same "and by the CPU's instructions" two/$weights native/$weights
cp -r two half && rm -r half/train/step-00000006 half/$weights half/config.json
check "gone on with after three steps" $few $emulated -o half s
check_same "it is the same" two/$weights half/$weights
check "asked for again as bf16" $few --precision bf16 -o two s
if [ "$amx" ]; then # its tiles add in another order, and compute attention too
	check "AMX: one thread, recomputed" $few --precision bf16 --threads 1 --recompute -o amx s
	check_same "the same bytes" native/$weights amx/$weights
	rm -r amx/train/step-00000006 amx/$weights amx/config.json
	check "gone on with after three steps" $few --precision bf16 --threads 2 -o amx s
	check_same "it is the same" native/$weights amx/$weights
	check_differ "the emulation has other bytes" native/$weights two/$weights
else
	skip "AMX" "this CPU has no AMX"
fi
check_exit 73 "asked for again in float" $few -o two s
check_err "the difference is named" precision

# Near float
check "float" $few -o float s
check_differ "other bytes" float/$weights two/$weights
long="$run --steps 60 --checkpoint-every 60 --log-every 60"
check "60 steps in float" $long -o long s
check "60 steps with bf16 products" $long $emulated -o near s
near=near
if [ "$amx" ]; then
	check "60 steps with AMX" $long --precision bf16 -o amx60 s
	near="near amx60"
fi
loss() { sed -n 's/.*"step":60,.*"loss":\([0-9.]*\).*/\1/p' "$1/train.jsonl" | head -n 1; }
for run_of in $near; do
	awk -v a="$(loss long)" -v b="$(loss "$run_of")" 'BEGIN { d = a / b - 1; exit !(a > 0 && b > 0 && d < .02 && d > -.02) }'
	tap_result $? "a loss within 2% of float's: $(loss long), $(loss "$run_of")"
done

# The router's training takes it too
check "ddm-route-train" ddm-route-train -q --model dit-nano/8 --depth 1 --steps 2 --batch 8 $emulated -o router s
