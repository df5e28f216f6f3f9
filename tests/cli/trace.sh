# ddm-audit --trace and --traces: the first step and the first node that another build computes differently; changed weights; broken traces.
. "$(dirname "$0")/tap.sh"
need python3 jq

mkdir pics && tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics && ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
ddm-train -q --model dit-nano/8 --hidden 48 --depth 2 --heads 2 --batch 8 --accumulate 2 --predict x0 --cluster all --steps 8 --checkpoint-every 3 --keep 9 \
	--chain-every 2 -o m s || exit 1
cp -R m before
trace() { # RUN STEP FILE [AUDITOR]
	"${4:-ddm-audit}" "$1" s --trace "$2" --trace-to "$3" --scratch scratch --threads 2
}

# The same build
check "a trace" trace m 5 a.trace
check_grep "is told" '^trace	ok	step 5: [0-9]+ nodes written to a.trace$' "$OUT"
check "by one thread" ddm-audit m s --trace 5 --trace-to b.trace --scratch scratch --threads 1
check_same "the same" a.trace b.trace
check "compared" ddm-audit --traces a.trace b.trace
check_grep "nothing differs" '^traces	ok	step 5: [0-9]+ nodes and all parameters after them are the same$' "$OUT"
check_out "as JSON" true sh -c "ddm-audit --json --traces a.trace b.trace | jq .proven"
check_absent "nothing is left" scratch
check "and the run is as it was" diff -r before m
check "the last step, at which the run ends" trace m 8 last.trace
check "the first, from no checkpoint" trace m 1 first.trace
check_out "a trace has the parameters after the step, as the chain has them" "$(sed -n '$p' m/train/chain.jsonl | jq -r '.hashes."weights.safetensors".parameters')" sh -c \
	"grep '^after	weights' last.trace | cut -f 4 | tr -d '\n'"
check_out "and its nodes twice, for two parts of the batch" 2 grep -c '	out final_layer.linear.weight ' a.trace

# Another build: one whose NORM fuses what the compiler likes
odd=$B/tests/portable/odd/ddm-audit
if [ "$(uname -m)" = x86_64 ] && grep -qw fma /proc/cpuinfo; then
	check_exit_any 65 "another build" "$odd" m s --replay all --scratch scratch
	check_err "the first step is named" 'the first step whose loss or gradient differs is 1[;]'
	check "its trace" trace m 1 odd.trace "$odd"
	check_exit_any 65 "compared" ddm-audit --traces first.trace odd.trace
	check_err "the node is named" 'step 1, node [0-9]+, NORM \([0-9,]+\).*: its inputs are the same, and output [0-9] differs: this node computes'
	node=$(sed -n 's/.*step 1, node \([0-9]*\),.*/\1/p' "$ERR")
	check_out "it is the first NORM" "$(grep '^node' first.trace | grep -n '^node	NORM	' | head -n 1 | cut -d : -f 1)" expr "$node" + 1
else
	skip "another build" "needs an x86-64 with FMA"
fi

# A weight changed in a checkpoint, with a manifest to suit: what is read differs, not what is computed
cp -R m bad
python3 - bad/train/step-00000003 <<'END'
import hashlib, json, re, sys
d = sys.argv[1]
p = d + "/weights.safetensors"
b = bytearray(open(p, "rb").read())
n = int.from_bytes(b[:8], "little")
at = json.loads(b[8:8 + n])["blocks.1.mlp.fc1.weight"]["data_offsets"][0] + 8 + n
b[at + 402] ^= 0x40
open(p, "wb").write(b)
text = open(d + "/MANIFEST.json").read()
old = [f for f in json.loads(text)["files"] if p.endswith("/" + f["name"])][0]["sha256"]
open(d + "/MANIFEST.json", "w").write(re.sub(r'"ddm-seal:[0-9a-f]*:ddm-seal"', '""', text.replace(old, hashlib.sha256(b).hexdigest())))
END
check "a run with a changed weight" trace bad 4 bad.trace
check "and one without" trace m 4 good.trace
check_exit_any 65 "compared" ddm-audit --traces good.trace bad.trace
check_err "the weight is named" 'step 4, node [0-9]+, LINEAR of blocks.1.mlp.fc1.weight: it reads other numbers: parameter blocks.1.mlp.fc1.weight \('

# Single records changed by hand
sed '0,/^after	exp_avg.safetensors	\([^	]*\)	......../s//after	exp_avg.safetensors	\1	00000000/' a.trace >c.trace
check_exit_any 65 "a moment after the step" ddm-audit --traces a.trace c.trace
check_err "is named" 'all of which are the same: the optimizer computes something else, first [a-z_.0-9]+ of exp_avg.safetensors'
sed '3s/in - \([0-9,]*\) ......../in - \1 00000000/' a.trace >c.trace
check_exit_any 65 "a noise" ddm-audit --traces a.trace c.trace
check_err "comes from outside" 'step 5, node 1, QSAMPLE: it reads other numbers: input from outside the network'
grep -v '^node	NORM	' a.trace >c.trace
check_exit_any 65 "a network without norms" ddm-audit --traces a.trace c.trace
check_err "is another network" 'these are different networks'
head -n 20 a.trace >c.trace
check_exit_any 65 "a trace cut off" ddm-audit --traces a.trace c.trace
check_err "is told" 'one of the traces ends after 19 nodes: it is cut off'

# Requests that cannot be served
check_exit_any 2 "traces of two steps" ddm-audit --traces a.trace good.trace
check_exit_any 65 "no trace" ddm-audit --traces a.trace a.tsv
check_exit 2 "one trace" ddm-audit --traces a.trace
check_exit 66 "no file" ddm-audit --traces a.trace none
check_exit 2 "a step after the end" trace m 9 x.trace
check_exit 2 "a trace without a folder" ddm-audit m s --trace 2 --trace-to x.trace
check_exit 2 "a trace without a file" ddm-audit m s --trace 2 --scratch scratch
check_absent "nothing was written" x.trace
