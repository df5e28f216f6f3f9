#!/usr/bin/env python3
"""The work of bench_nets in PyTorch on the CPU: diffusers' autoencoders, pytorch-fid's Inception, single convolutions, in either memory
format, the better one counted. Runs ours and theirs by turns and prints of every line "torch: NAME", theirs in our unit, ours
over theirs, and that ratio's spread; between tabs, medians.

    tests/bench/peer_nets.py FOLDER [PATTERN]      FOLDER holds bench_nets; THREADS=N in the environment
"""
import os
import statistics
import subprocess
import sys
import time

FOLDER, PATTERN = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
THREADS = int(os.environ.get("THREADS", 0)) or len(os.sched_getaffinity(0))
TURNS, SLOT = 3, 1.0
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import torch  # noqa: E402  (after the variables it reads)
from torch import nn  # noqa: E402


def vae(half):
    from diffusers import AutoencoderKL

    net = AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4,
                        block_out_channels=[128, 256, 512, 512], layers_per_block=2, latent_channels=4)
    return nn.Sequential(net.encoder, net.quant_conv) if half == "encode" else nn.Sequential(net.post_quant_conv, net.decoder)


def tiny(half):
    from diffusers import AutoencoderTiny

    net = AutoencoderTiny()
    return net.encoder if half == "encode" else net.decoder


def inception():
    from pytorch_fid import inception as fid

    fid.load_state_dict_from_url = lambda *a, **k: None
    load, nn.Module.load_state_dict = nn.Module.load_state_dict, lambda self, state, *a, **k: None
    net = fid.InceptionV3([3], resize_input=False, normalize_input=False)
    nn.Module.load_state_dict = load
    return net


def dinov2():
    from transformers import Dinov2Config, Dinov2Model

    return Dinov2Model(Dinov2Config(image_size=518, patch_size=14))


def conv(c, o, *k):
    return nn.Conv2d(c, o, k, padding=[n // 2 for n in k])


WORKS = [
    ("conv 3x3 128 at 128x128", lambda: conv(128, 128, 3, 3), (1, 128, 128, 128)),
    ("conv 3x3 512 at 32x32", lambda: conv(512, 512, 3, 3), (1, 512, 32, 32)),
    ("conv 3x3 64 at 128x128", lambda: conv(64, 64, 3, 3), (1, 64, 128, 128)),
    ("conv 1x7 160 at 17x17", lambda: conv(160, 160, 1, 7), (8, 160, 17, 17)),
    ("conv 1x1 2048 at 8x8", lambda: conv(2048, 320, 1, 1), (8, 2048, 8, 8)),
    ("vae sd encode 128", lambda: vae("encode"), (1, 3, 128, 128)),
    ("vae sd decode 128", lambda: vae("decode"), (1, 4, 16, 16)),
    ("taesd encode 256", lambda: tiny("encode"), (1, 3, 256, 256)),
    ("taesd decode 256", lambda: tiny("decode"), (1, 4, 32, 32)),
    ("inception", inception, (8, 3, 299, 299)),
    ("dinov2-b tokens 224", dinov2, (4, 3, 224, 224)),
    ("dinov2-b features 224", dinov2, (4, 3, 224, 224)),  # the class token; ours leaves out what only the others need
]


def clock():
    return time.process_time() if THREADS == 1 else time.monotonic()


def rate(net, x):
    """Pictures per second."""
    start, n = clock(), 0
    while n == 0 or clock() - start < SLOT:
        net(x)
        n += 1
    return n * x.shape[0] / (clock() - start)


def ours(name):
    out = subprocess.run([os.path.join(FOLDER, "bench_nets"), "-t", str(THREADS), "-s", str(SLOT), name], capture_output=True, text=True,
                         check=True).stdout
    return float(next(line for line in out.splitlines() if line.split("\t")[0] == name).split("\t")[1])


def main():
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    for name, make, shape in WORKS:
        if PATTERN not in name:
            continue
        try:
            net, x = make().eval(), torch.randn(*shape)
        except ImportError as e:
            print(f"peer_nets: {name} is left out: {e}", file=sys.stderr)
            continue
        last = [(net, x), (make().eval().to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last))]
        for n, v in last:
            n(v)
        best = max(last, key=lambda nv: rate(*nv))
        pairs = [(ours(name), rate(*best)) for _ in range(TURNS)]
        ratios = sorted(a / b for a, b in pairs)
        spread = (ratios[-1] - ratios[0]) / 2
        print(f"torch: {name}\t{statistics.median(b for _, b in pairs):.4g}\tpictures/s\t{statistics.median(ratios):.3f}\t{spread:.3f}",
              flush=True)


if __name__ == "__main__":
    main()
