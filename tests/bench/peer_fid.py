#!/usr/bin/env python3
"""The Frechet distance of two folders of JPEGs, from pictures to the number, by pytorch-fid's own program and by ddm-eval-fid: as many
threads each, the same random weights, whose batch norms are set on a few of the pictures. By turns; prints "torch: NAME", theirs in pictures a
second, ours over theirs, and that ratio's spread; between tabs. Their two numbers must agree.

    tests/bench/peer_fid.py FOLDER [PATTERN]      FOLDER/../../ddm-eval-fid is ours; THREADS=N, PICTURES=N (of a set, 500) in the
                                                  environment. One thread is timed by CPU clocks.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER, PATTERN = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
THREADS = int(os.environ.get("THREADS", 0)) or len(os.sched_getaffinity(0))
PICTURES = int(os.environ.get("PICTURES", 500))
OURS = os.path.join(FOLDER, "..", "..", "ddm-eval-fid")
NAME = f"fid of 2 x {PICTURES} JPEGs"
SIDE, TURNS, CALIBRATE, FILE = 256, 3, 16, "pt_inception-2015-12-05-6726825d.pth"
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(THREADS)


def make_pictures(folder, shift):
    """Smooth colours with some noise; the sets differ in their means."""
    import numpy as np
    from PIL import Image

    os.makedirs(folder)
    rng = np.random.default_rng(shift)
    for i in range(PICTURES):
        small = Image.fromarray(rng.integers(shift, 200 + shift, (6, 6, 3), dtype=np.uint8))
        x = np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32) + rng.normal(0, 8, (SIDE, SIDE, 3))
        Image.fromarray(x.clip(0, 255).astype(np.uint8)).save(os.path.join(folder, f"{i:05}.jpg"), quality=90)


def make_weights(path, folder):
    import numpy as np
    import torch
    from PIL import Image
    from pytorch_fid import inception

    torch.manual_seed(1)
    inception.load_state_dict_from_url = lambda *a, **k: None
    load, torch.nn.Module.load_state_dict = torch.nn.Module.load_state_dict, lambda self, state, *a, **k: None
    net = inception.fid_inception_v3()
    torch.nn.Module.load_state_dict = load
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.momentum = 1
    files = sorted(os.listdir(folder))[:CALIBRATE]
    x = torch.stack([torch.from_numpy(np.asarray(Image.open(os.path.join(folder, f))).copy()) for f in files]).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        net.train()(torch.nn.functional.interpolate(x, size=(299, 299), mode="bilinear", align_corners=False))
    os.makedirs(os.path.dirname(path))
    torch.save(net.state_dict(), path)


def cpu():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def seconds(command, **more):
    wall, used = time.monotonic(), cpu()
    out = subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout
    return (cpu() - used if THREADS == 1 else time.monotonic() - wall), out


def main():
    if PATTERN not in NAME:
        return
    try:
        import pytorch_fid  # noqa: F401
        import torchvision  # noqa: F401
    except ImportError as e:
        print(f"peer_fid: left out: {e}", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as top:
        a, b, weights = os.path.join(top, "a"), os.path.join(top, "b"), os.path.join(top, "hub", "checkpoints", FILE)
        make_pictures(a, 0)
        make_pictures(b, 50)
        make_weights(weights, a)
        mine = [OURS, "--features", "inception:" + weights, "--input", "torch", "--metrics", "fid", "--threads", str(THREADS), a, b]
        theirs = [sys.executable, "-m", "pytorch_fid", "--device", "cpu", "--num-workers", str(THREADS), a, b]
        pairs = []
        for _ in range(TURNS if THREADS > 1 else 1):
            ours, line = seconds(mine)
            other, text = seconds(theirs, env=dict(os.environ, TORCH_HOME=top))
            pairs.append((2 * PICTURES / ours, 2 * PICTURES / other))
        x = next(v for k, v in json.loads(line).items() if k.startswith("fid-"))
        y = float(text.split()[-1])
    print(f"peer_fid: {x:.6g} by ddm-eval-fid, {y:.6g} by pytorch-fid; {ours:.1f} s and {other:.1f} s", file=sys.stderr)
    if not abs(x - y) <= .01 * y:
        sys.exit("peer_fid: the two distances differ by more than 1%")
    ratios = sorted(p / q for p, q in pairs)
    print(f"torch: {NAME}\t{statistics.median(q for _, q in pairs):.4g}\tpictures/s\t{statistics.median(ratios):.3f}\t"
          f"{(ratios[-1] - ratios[0]) / 2:.3f}")


if __name__ == "__main__":
    main()
