# ddm-ingest --aesthetic: the rating of pictures, frames and clips, beside ddm-eval-fid's mean; ddm-select by it, threads, the stamp, refusals. The
# predictor: unit/test_perceptual.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
need jq
python=$(numpy_python) || skip_all "no numpy"

# A predictor of two layers for the features rgb8, 8 x 8 means of three channels: it likes red, and dislikes blue.
"$python" - <<'END'
import json, struct, numpy as np
def write(path, w):
    head, data, at = {}, [], 0
    for name in w:
        data.append(np.asarray(w[name]).astype("<f4").tobytes())
        head[name] = {"dtype": "F32", "shape": np.shape(w[name]), "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data))
rng = np.random.default_rng(1)
for name, n in (("likes.safetensors", 192), ("less.safetensors", 96)):
    write(name, {"layers.0.weight": rng.normal(size=(4, n)), "layers.0.bias": np.zeros(4), "layers.2.weight": rng.normal(size=(1, 4)), "layers.2.bias": [5.0]})
END
score() { tar xOf "$1" "$2.json" | jq .aesthetic; }

plasma='lavfi@p:testsrc2=size=64x64:rate=4'
check "frames" ddm-ingest --frames 6 --scores --aesthetic likes.safetensors --features rgb8 -o frames.tar "$plasma"
check "their mean by ddm-eval-fid" ddm-eval-fid --features rgb8 --metrics aesthetic --aesthetic likes.safetensors -o eval.json frames.tar frames.tar
for i in 0 1 2 3 4 5; do score frames.tar "p@000$i"; done >scores
check_true "is that of the scores" "($(paste -sd + scores)) / 6 - $(jq '."aesthetic-rgb8"' eval.json) < 1e-5 && \
	($(paste -sd + scores)) / 6 - $(jq '."aesthetic-rgb8"' eval.json) > -1e-5"
check_out "which differ" 6 sh -c 'sort -u scores | wc -l'
check "a clip" ddm-ingest --clips 6 --fps 4 --aesthetic likes.safetensors --features rgb8 -o clip.tar "$plasma"
check_out "has the rating of its middle frame" "$(sed -n 4p scores)" score clip.tar p@000000
check "many, on three threads" ddm-ingest --clips 2 --fps 4 --seeds 9 --threads 3 --duplicates --aesthetic likes.safetensors --features rgb8 -o three.tar "$plasma"
check "on one" ddm-ingest --clips 2 --fps 4 --seeds 9 --threads 1 --duplicates --aesthetic likes.safetensors --features rgb8 -o one.tar "$plasma"
check_same "the same bytes" three.tar one.tar
check_grep "the stamp has the predictor" "\"aesthetic\":\"$(sha256sum likes.safetensors | cut -c 1-64)\"" clip.tar
check_grep "and the features" '"features":"[0-9a-f]{64}"' clip.tar
best=$(sort -g scores | tail -n 1)
check_out "ddm-select reads it" 1 sh -c "ddm-select -q --list 'aesthetic >= $best' frames.tar | wc -l"

check_exit 2 "no features" ddm-ingest --clips 6 --fps 4 --aesthetic likes.safetensors -o no.tar "$plasma"
check_err "their option" 'aesthetic.*--features'
check_exit 2 "features for nothing" ddm-ingest --clips 6 --fps 4 --features rgb8 -o no.tar "$plasma"
check_exit 2 "nothing to rate" ddm-ingest --aesthetic likes.safetensors --features rgb8 -o no.tar "$plasma"
check_exit 2 "unknown features" ddm-ingest --clips 6 --fps 4 --aesthetic likes.safetensors --features none -o no.tar "$plasma"
check_exit 66 "no predictor" ddm-ingest --clips 6 --fps 4 --aesthetic nowhere --features rgb8 -o no.tar "$plasma"
check_exit 65 "a predictor of other features" ddm-ingest --clips 6 --fps 4 --aesthetic less.safetensors --features rgb8 -o no.tar "$plasma"
check_err "their lengths" 'rates embeddings of 96 numbers, and those of rgb8 have 192'
check_absent "nothing was made" no.tar
check_clean "no temporary files" .
