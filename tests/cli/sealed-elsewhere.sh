# Files with our seals are read by the libraries of their formats: numpy, safetensors (if installed), jq, zip readers.
. "$(dirname "$0")/tap.sh"

python=$(numpy_python) || skip_all "no python3 with numpy"
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 --holdout .25 --centroids-out c.npy -o a.tsv pics && ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --threads 1 --cluster 0 --steps 2 -o e s || exit 1
ddm-eval-fid --features rgb8 --stats-out stats.npz -o eval.json pics pics || exit 1
ddm-sample -n 3 --route expert:0 --steps 2 --format npz -o samples.npz e || exit 1

read_with() { "$python" "$SRC/tests/golden/read_sealed.py" "$@"; }
for f in stats.npz samples.npz; do
	check_grep "$f bears a seal" 'ddm-seal:[0-9a-f]{16}:ddm-seal$' $f
done
check_out "numpy: statistics" "stats.npz feats mu order recipe sigma thumbs" read_with stats.npz
check_out "numpy: pictures" "samples.npz arr_0" read_with samples.npz
check "numpy: centroids beside their sidecar" read_with c.npy
weights=e/diffusion_pytorch_model.safetensors
if "$python" -c 'import safetensors' 2>/dev/null; then
	check "safetensors: weights" read_with $weights
else
	skip "safetensors: weights" "python3 has no module safetensors"
fi
# The rules of the format: a length, JSON with strings in __metadata__, offsets without gaps up to the end of the file.
check "weights by the format's rules" "$python" - $weights <<'P'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + n])
meta = head.pop("__metadata__")
assert all(isinstance(v, str) for v in meta.values()) and "seal" in meta
at = 0
for a, b in sorted(t["data_offsets"] for t in head.values()):
    assert a == at
    at = b
assert 8 + n + at == len(data)
P
if command -v jq >/dev/null; then
	check "jq: a result" jq -e .seal eval.json
	check "jq: each line of a log" jq -e .seal e/train.jsonl
else
	skip "jq" "not installed"
fi
