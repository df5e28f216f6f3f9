# The hash chain of a training: what it says, and that its bytes are the same for any threads, ranks, interruptions and kills.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"
need jq sha256sum

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --accumulate 2"
run="ddm-train -q $net --predict x0 --cluster all --steps 60 --checkpoint-every 9 --keep 3"
chain=train/chain.jsonl
weights=diffusion_pytorch_model.safetensors

check "a run" $run --threads 1 -o whole s
check_out "its lines: the run, the start, every 50th step and the last" "0 0 50 60" sh -c "jq .step whole/$chain | paste -sd ' '"
check "with a line every seven steps" $run --threads 1 --chain-every 7 -o seven s
check_out "which are there" "0 0 7 14 21 28 35 42 49 56 60" sh -c "jq .step seven/$chain | paste -sd ' '"
check_same "and change nothing else" whole/$weights seven/$weights
check_same "not even the configuration" whole/config.json seven/config.json
check "without a chain" $run --chain-every 0 -o none s
check_absent "there is none" none/$chain
check_same "and the same weights" whole/$weights none/$weights

# What a line holds: each of these is computed here from the run's files.
i=1 prev=0000000000000000000000000000000000000000000000000000000000000000 wrong=
while [ $i -le 11 ]; do
	sed -n ${i}p seven/$chain | tr -d '\n' >line
	[ "$(jq -r .prev line)" = $prev ] || wrong="$wrong $i"
	prev=$(sha256sum <line | cut -d ' ' -f 1)
	i=$((i + 1))
done
[ -z "$wrong" ]
tap_result $? "each line has the hash of the one before" "not lines$wrong"
sed -n 1p seven/$chain >first
sed -n '$p' seven/$chain >last
check_out "the first holds the stamp" "$(jq -cS .training whole/config.json)" jq -cS .stamp first
cat >hashes.py <<'END'
import hashlib, json, struct, sys
line, first, step = json.load(open(sys.argv[1])), json.load(open(sys.argv[2])), sys.argv[3]
assert len(line["hashes"]) == 4
for name, want in line["hashes"].items():
    data = open(step + "/" + name, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    text, brief = "", ""
    for p in first["parameters"]:
        if name.startswith("exp_avg") and p in first["frozen"]:
            continue
        a, b = header[p]["data_offsets"]
        h = hashlib.sha256(data[8 + n + a:8 + n + b]).hexdigest()
        text += p + " " + h + "\n"
        brief += h[:8]
    assert want == {"sha256": hashlib.sha256(text.encode()).hexdigest(), "parameters": brief}, name
END
if command -v python3 >/dev/null; then
	check "the hashes are those of the checkpoint's files" python3 hashes.py last first seven/train/step-00000060
else
	skip "the hashes are those of the checkpoint's files" "no python3"
fi
check "eight digits for each step since the line before" jq -se '[.[] | select(.losses)] | . as $l | [range(1; length)] |
	all($l[.].step - $l[. - 1].step == ($l[.].losses | length) / 8)' seven/$chain

# The same bytes on other threads, with other work saved, after an interruption, after kills
check "two threads, recomputing" $run --threads 2 --recompute --chain-every 7 -o threads s
check_same "the same chain" seven/$chain threads/$chain
held broken step-00000018 $run --threads 1 --chain-every 7 --sample-every 20 -o broken s
kill -TERM $pid
await "SIGTERM is taken note of" noted $pid
: >"$hold.go"
gone 75 "SIGTERM between two lines of the chain" broken
held broken step-00000036 $run --threads 1 --chain-every 7 -o broken s
check "a line behind what can be resumed" sh -c "[ \$(tail -n 1 broken/$chain | jq .step) -gt 27 ]"
kill -KILL $pid
wait $pid
printf '{"step":42,"upd' >>broken/$chain
check "continued after a kill, with a torn line" $run --threads 1 --chain-every 7 -o broken s
check_same "the same chain" seven/$chain broken/$chain
check "the checkpoints are the same too" diff -r -x samples-00000020.png seven/train broken/train

# A chain that is not that of the checkpoint
back() { # DIR: as it was at step 54
	rm -rf "$1" && cp -R seven "$1" && rm "$1/$weights" && rm -r "$1/train/step-00000060"
}
back lost
rm lost/$chain
check "the chain is lost" $run --chain-every 7 -o lost s
check_err "the run says so" 'ddm-train: lost/train/chain.jsonl is not the chain of the checkpoint of step 54: a new one begins there'
check_out "and begins another" "54 54 56 60" sh -c "jq .step lost/$chain | paste -sd ' '"
check_same "with the same result" seven/$weights lost/$weights
back late
check "the run goes on without its chain" $run --chain-every 0 -o late s
check_out "whose end is not the run's" 60 sh -c "tail -n 1 late/$chain | jq .step"
back early
jq 'del(.chain)' early/train/step-00000054/MANIFEST.json >m && mv m early/train/step-00000054/MANIFEST.json && unseal early/train/step-00000054/MANIFEST.json
check "from a checkpoint without a chain" $run --chain-every 7 -o early s
check_err "a chain begins there" 'has nothing about the steps before step 54: a new one begins there'

# An extended run: a second line of what it is
check "extended" $run --threads 1 --steps 70 --chain-every 7 --extend -o seven s
check_out "the chain goes on" "60 60 63 70" sh -c "jq .step seven/$chain | tail -n 4 | paste -sd ' '"
check_out "with the new stamp" "70 [60]" sh -c "jq -r 'select(.stamp and .step == 60).stamp | \"\(.steps) \(.extended)\"' seven/$chain"

# Other states: a router's best weights, the schedule-free optimizer, real numbers that the stamp rounds
router="ddm-route-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 12 --validate-every 4"
check "a router" $router --chain-every 4 -o r s
check_out "has its best weights in the chain" "best.safetensors" sh -c "tail -n 1 r/$chain | jq -r '.hashes | keys[] | select(. == \"best.safetensors\")'"
check "schedule-free" $run --optimizer schedule-free --lr .00123456789123 --chain-every 30 -o free s
check_out "has z" "z.safetensors" sh -c "tail -n 1 free/$chain | jq -r '.hashes | keys[] | select(. == \"z.safetensors\")'"
check_out "the rate that nine digits do not hold" 0.00123456789123 sh -c "head -n 1 free/$chain | jq -r .exact.lr"
if [ -c /dev/full ]; then
	rm -rf full && mkdir -p full/train && ln -s /dev/full full/$chain
	check "a full disk for the chain alone" $run -o full s
	check_err "is a warning" 'ddm-train: the hash chain: No space left on device'
	check_same "and the same weights" whole/$weights full/$weights
else
	skip "a full disk" "no /dev/full"
fi
