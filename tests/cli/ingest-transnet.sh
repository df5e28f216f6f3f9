# ddm-ingest --scene transnet: shots by a network of known weights, which compares the colours of neighbouring frames; windows, threads, refusals. The
# network itself: unit/test_transnet; the published weights: peers/peer_shots.py.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
python=$(numpy_python) || skip_all "no numpy"

# The probability at a frame is the sigmoid of 10 - 20 c, where c is the cosine between its histogram of colours and that of the next frame: a cut where
# no colour is in both. All other weights are zero.
"$python" - <<'END'
import json, struct, numpy as np
w, c = {}, 3
for i in range(3):
    for j in range(2):
        f, name = 16 << i, "SDDCNN.%d.DDCNN.%d." % (i, j)
        for d in (1, 2, 4, 8):
            w[name + "Conv3D_%d.layers.0.weight" % d], w[name + "Conv3D_%d.layers.1.weight" % d] = np.zeros((2 * f, c, 1, 3, 3)), np.zeros((f, 2 * f, 3, 1, 1))
        for part in ("weight", "bias", "running_mean", "running_var"):
            w[name + "bn." + part] = np.full(4 * f, part == "running_var")
        c = 4 * f
for name, o, n in (("frame_sim_layer.projection", 128, 448), ("frame_sim_layer.fc", 128, 101), ("color_hist_layer.fc", 128, 101),
                   ("fc1", 1024, 4864), ("cls_layer1", 1, 1024), ("cls_layer2", 1, 1024)):
    w[name + ".weight"], w[name + ".bias"] = np.zeros((o, n)), np.zeros(o)
w["color_hist_layer.fc.weight"][0, 51] = w["fc1.weight"][0, 0] = 1
w["cls_layer1.weight"][0, 0], w["cls_layer1.bias"][0] = -20, 10
def write(path, w):
    head, data, at = {}, [], 0
    for name in sorted(w):
        data.append(w[name].astype("<f4").tobytes())
        head[name] = {"dtype": "F32", "shape": w[name].shape, "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data))
write("net.safetensors", w)
del w["fc1.bias"]
write("less.safetensors", w)

# grey.y4m: 130 frames of 16 x 16. Each scene has its own grey, and stripes that move. Cuts at 40, 99 and 101; from 70 to 75 every frame is another.
levels = [40] * 40 + [100] * 30 + [200, 40, 160, 80, 220] + [130] * 24 + [50] * 2 + [210] * 29
with open("grey.y4m", "wb") as f:
    f.write(b"YUV4MPEG2 W16 H16 F25:1 Ip A1:1 Cmono\n")
    for t, level in enumerate(levels):
        y, x = np.mgrid[:16, :16]
        f.write(b"FRAME\n" + (level + (x + t) % 4).astype(np.uint8).tobytes())
END

shots() { # TAR: the first and the last frame of each clip, and its shot
	for sample in $(tar tf "$1" | grep json); do
		tar xOf "$1" "$sample" | jq -r '"\(.start * 25 | round)-\(.end * 25 | round):\(.shot)"'
	done | paste -sd ' '
}
need jq
ingest="ddm-ingest --clips 5 --fps 25 --duplicates --scene transnet --transnet net.safetensors"
check "clips by the network" $ingest -o a.tar grey.y4m
check_err "the cuts" '4 cuts, '
check_out "no clip crosses one, nor lies in the transition" "$(
	for range in 0:40:0 40:70:1 75:99:7 101:130:9; do
		echo "$range" | awk -F : '{ for (i = $1; i + 5 <= $2; i += 5) printf "%d-%d:%d\n", i, i + 5, $3 }'
	done | paste -sd ' ')" shots a.tar
cp a.tar before.tar
check "one thread" $ingest --threads 1 -o threads.tar grey.y4m
check_same "the same clips" a.tar threads.tar
check "the same command" $ingest -o a.tar grey.y4m
check_same "leaves the file" a.tar before.tar
check_grep "the stamp has the threshold and the weights" '"scene":"transnet:0.5".*"transnet":"'"$(sha256sum net.safetensors | cut -c 1-64)" a.tar
check "a threshold" ddm-ingest --clips 5 --fps 25 --scene transnet:.7 --transnet net.safetensors -o other.tar grey.y4m
check_grep "is recorded" '"scene":"transnet:0.7"' other.tar

# Small videos, and those that end within the first window; the detector of PySceneDetect finds the same hard cuts.
head -c $((38 + 45 * 262)) grey.y4m >short.y4m
check "45 frames" ddm-ingest --clips 5 --fps 25 --duplicates --scene transnet --transnet net.safetensors --max-pixels 256 -o short.tar short.y4m
check "by differences" ddm-ingest --clips 5 --fps 25 --duplicates --scene content:10 -o content.tar short.y4m
check_out "in one place" "$(shots content.tar)" shots short.tar
check "every fifth frame" ddm-ingest --clips 5 --fps 5 --duplicates --scene transnet --transnet net.safetensors -o slow.tar grey.y4m
check_out "in the same shots" "0-25:0 40-65:1 75-100:3 105-130:5" shots slow.tar

check_exit 2 "no weights" ddm-ingest --clips 5 --fps 25 --scene transnet -o no.tar grey.y4m
check_err "their option" 'transnet needs its weights: --transnet FILE'
check_exit 2 "weights that nothing reads" ddm-ingest --clips 5 --fps 25 --scene content --transnet net.safetensors -o no.tar grey.y4m
check_err "what would" 'does nothing without --scene transnet'
check_exit 2 "or without --scene" ddm-ingest --clips 5 --fps 25 --transnet net.safetensors -o no.tar grey.y4m
check_exit 66 "weights that are not there" ddm-ingest --clips 5 --fps 25 --scene transnet --transnet nowhere -o no.tar grey.y4m
check_exit 65 "weights that lack a tensor" ddm-ingest --clips 5 --fps 25 --scene transnet --transnet less.safetensors -o no.tar grey.y4m
check_err "which is named" 'less.safetensors is no TransNet V2.*fc1.bias'
check_exit 65 "no weights at all" ddm-ingest --clips 5 --fps 25 --scene transnet --transnet grey.y4m -o no.tar grey.y4m
for t in 0 1 x; do
	check_exit 2 "--scene transnet:$t" ddm-ingest --clips 5 --fps 25 --scene transnet:$t --transnet net.safetensors -o no.tar grey.y4m
done
check_absent "nothing was made" no.tar
check_clean "no temporary files" .
