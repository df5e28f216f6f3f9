#!/usr/bin/env python3
"""The Frechet distance of two folders of pictures, from the files to the number, by pytorch-fid's own program and by ddm-eval-fid: as many
threads each, batches of 50 and as many workers as threads for theirs, the same random weights, whose batch norms are set on a few of the
pictures. By turns. Their two numbers must agree: to 1e-5 where covariances have full rank, to 1% where they have not, for scipy's root of a
singular matrix has no more digits. stderr tells their phases: the distance alone, of statistics, start included; the pictures decoded and
nothing else; memory. stdout: "torch: NAME", theirs in pictures a second, ours over theirs, and that ratio's spread; between tabs.

    tests/bench/peer_fid.py FOLDER [PATTERN]      FOLDER/../../ddm-eval-fid is ours

    PICTURES=N   of a set (500): from 2000 on one turn, else three
    FEW=N        also time N of each, and tell the rates of the rest: start and distance removed
    SIDE=N       of the pictures, which are squares (256)
    THREADS=N    (all CPUs). One thread is timed by CPU clocks
    PHASES=0     without the phases

The pictures are squares cut from photographs, mirrored and resized: JPEGs, and PNGs of more contrast. The photographs are those of
DDM_TEST_DATA (../shared/data), of which nothing is kept; without them, smooth colours with noise.
"""
import functools
import glob
import importlib.util
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER, PATTERN = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""


def number(name, otherwise):
    return int(os.environ.get(name) or otherwise)


ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
THREADS = number("THREADS", len(os.sched_getaffinity(0)))
PICTURES, FEW, SIDE, PHASES = number("PICTURES", 500), number("FEW", 0), number("SIDE", 256), number("PHASES", 1)
TURNS = 3 if PICTURES < 2000 and THREADS > 1 else 1
OURS = os.path.join(FOLDER, "..", "..", "ddm-eval-fid")
DATA = os.environ.get("DDM_TEST_DATA") or os.path.join(ROOT, "..", "shared", "data")
PHOTOGRAPHS = sorted(glob.glob(os.path.join(DATA, "photos", "**", "*.jpg"), recursive=True))
NAME = f"fid of 2 x {PICTURES} pictures, {SIDE}"
CALIBRATE, DIMS, FILE = 16, 2048, "pt_inception-2015-12-05-6726825d.pth"
DECODE = """
import pathlib, sys, torch
from pytorch_fid.fid_score import ImagePathDataset, TF
files = sorted(f for f in pathlib.Path(sys.argv[1]).iterdir())
for batch in torch.utils.data.DataLoader(ImagePathDataset(files, TF.ToTensor()), batch_size=50, num_workers=int(sys.argv[2])):
    pass
"""
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)


def tell(text):
    print(f"peer_fid: {text}", file=sys.stderr, flush=True)


# ---- pictures ----


def smooth(rng, shift):
    """Smooth colours with some noise; the means of the sets differ."""
    import numpy as np
    from PIL import Image

    small = Image.fromarray(rng.integers(50 * shift, 200 + 50 * shift, (6, 6, 3), dtype=np.uint8))
    x = np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32) + rng.normal(0, 8, (SIDE, SIDE, 3))
    return Image.fromarray(x.clip(0, 255).astype(np.uint8))


@functools.cache
def photograph(i):
    from PIL import Image

    return Image.open(PHOTOGRAPHS[i]).convert("RGB")


def cut(rng, shift):
    from PIL import Image, ImageEnhance

    p = photograph(int(rng.integers(len(PHOTOGRAPHS))))
    side = int(min(p.size) * rng.uniform(.4, 1))
    x, y = rng.integers(p.size[0] - side + 1), rng.integers(p.size[1] - side + 1)
    p = p.resize((SIDE, SIDE), Image.Resampling.LANCZOS, (x, y, x + side, y + side))
    if rng.integers(2):
        p = p.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return ImageEnhance.Contrast(p).enhance(1.2) if shift else p


def make_picture(what):
    import numpy as np

    folder, shift, i = what
    p = (cut if PHOTOGRAPHS else smooth)(np.random.default_rng([shift, i]), shift)
    p.save(os.path.join(folder, f"{i:05}.{'png' if shift else 'jpg'}"), **({} if shift else {"quality": 90}))


def make_pictures(folder, shift, few):
    os.makedirs(folder)
    with multiprocessing.Pool(THREADS) as pool:
        pool.map(make_picture, [(folder, shift, i) for i in range(PICTURES)], 16)
    if FEW:
        os.makedirs(few)
        for f in sorted(os.listdir(folder))[:FEW]:
            os.link(os.path.join(folder, f), os.path.join(few, f))


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
    files = [os.path.join(folder, f) for f in sorted(os.listdir(folder))[:CALIBRATE]]
    x = torch.stack([torch.from_numpy(np.asarray(Image.open(f)).copy()) for f in files]).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        net.train()(torch.nn.functional.interpolate(x, size=(299, 299), mode="bilinear", align_corners=False))
    os.makedirs(os.path.dirname(path))
    torch.save(net.state_dict(), path)


def apart(work, *arguments):
    """In a separate process, because the memory of this one would count as that of the programs that it starts."""
    p = multiprocessing.Process(target=work, args=arguments)
    p.start()
    p.join()
    if p.exitcode:
        sys.exit(f"peer_fid: {work.__name__} failed")


# ---- runs ----


class Run:
    """Run a program to its end, with its children; memory is that of its largest process."""

    def __init__(self, command, **more):
        began = time.monotonic()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
            p = subprocess.Popen(command, stdout=out, stderr=said, text=True, **more)
            _, status, use = os.wait4(p.pid, 0)
            self.wall, self.cpu, self.bytes = time.monotonic() - began, use.ru_utime + use.ru_stime, use.ru_maxrss * 1024
            self.seconds = self.cpu if THREADS == 1 else self.wall
            p.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            said.seek(0)
            self.out = out.read()
            if p.returncode:
                sys.exit(f"peer_fid: {' '.join(command[:3])} ended with status {p.returncode}: {said.read()[-2000:]}")

    def __str__(self):
        return f"{self.wall:.1f} s ({self.cpu:.1f} s of CPU, {self.bytes / 2**20:.0f} MiB)"


def pair(top, weights, a, b, more=()):
    mine = [OURS, "--features", "inception:" + weights, "--input", "torch", "--metrics", "fid", "--threads", str(THREADS), *more, a, b]
    theirs = [sys.executable, "-m", "pytorch_fid", "--device", "cpu", "--batch-size", "50", "--num-workers", str(THREADS), a, b]
    ours = Run(mine)
    other = Run(theirs, env=dict(os.environ, TORCH_HOME=top))
    return ours, other


def distance(run):
    return next(v for k, v in json.loads(run.out).items() if k.startswith("fid-"))


def tell_rates(top, weights, few, ours, other):
    less = pair(top, weights, *few)
    n = 2 * (PICTURES - FEW)
    rates = [[n / (x.seconds - y.seconds), n / (x.cpu - y.cpu)] for x, y in zip((ours, other), less)]
    tell(f"2 x {FEW}: {less[0]} and {less[1]}; of the other {n} pictures ours {rates[0][0]:.2f} a second, theirs {rates[1][0]:.2f}: "
         f"{rates[0][0] / rates[1][0]:.2f}; by CPU seconds {rates[0][1]:.2f}, {rates[1][1]:.2f}: {rates[0][1] / rates[1][1]:.2f}")


def make_statistics(one, other, stats):
    import numpy as np

    with np.load(stats) as f:
        d = np.random.default_rng(1).uniform(.8, 1.25, DIMS)
        np.savez(one, mu=f["mu"], sigma=f["sigma"])
        np.savez(other, mu=f["mu"] * d, sigma=f["sigma"] * d[:, None] * d)


def tell_distance(top, weights, stats):
    """From a's statistics, and from the same with every feature scaled by its own factor."""
    one, other = os.path.join(top, "one.npz"), os.path.join(top, "other.npz")
    apart(make_statistics, one, other, stats)
    ours, theirs = pair(top, weights, one, other)
    tell(f"the distance alone: ours {ours}, {distance(ours):.8g}; theirs {theirs}, {float(theirs.out.split()[-1]):.8g}")


def tell_decoding(a):
    ours = Run([OURS, "--features", "rgb8", "--metrics", "fid", "--threads", str(THREADS), a, a])
    theirs = Run([sys.executable, "-c", DECODE, a, str(THREADS)])
    tell(f"{os.path.basename(a)} decoded: ours, twice, {ours}; theirs, once, {theirs}")


def compare(top):
    a, b, weights = os.path.join(top, "a"), os.path.join(top, "b"), os.path.join(top, "hub", "checkpoints", FILE)
    few, stats, pairs = (os.path.join(top, "few-a"), os.path.join(top, "few-b")), os.path.join(top, "a.npz"), []
    began = time.monotonic()
    make_pictures(a, 0, few[0])
    make_pictures(b, 1, few[1])
    apart(make_weights, weights, a)
    tell(f"{NAME}: prepared in {time.monotonic() - began:.0f} s of {len(PHOTOGRAPHS)} photographs; {THREADS} threads")
    for _ in range(TURNS):
        ours, other = pair(top, weights, a, b, ("--stats-out", stats))
        x, y = distance(ours), float(other.out.split()[-1])
        tell(f"{x:.8g} by ddm-eval-fid in {ours}, {y:.8g} by pytorch-fid in {other}")
        if not abs(x - y) <= (1e-5 if PICTURES > DIMS else .01) * y:
            sys.exit("peer_fid: the two distances differ")
        pairs.append((2 * PICTURES / ours.seconds, 2 * PICTURES / other.seconds))
    ratios = sorted(p / q for p, q in pairs)
    print(f"torch: {NAME}\t{statistics.median(q for _, q in pairs):.4g}\tpictures/s\t{statistics.median(ratios):.3f}\t"
          f"{(ratios[-1] - ratios[0]) / 2:.3f}", flush=True)
    if FEW:
        tell_rates(top, weights, few, ours, other)
    if PHASES:
        tell_distance(top, weights, stats)
        for folder in a, b:
            tell_decoding(folder)


def main():
    if PATTERN not in NAME:
        return
    missing = [m for m in ("pytorch_fid", "torchvision") if not importlib.util.find_spec(m)]
    if missing:
        tell(f"left out: no {' and no '.join(missing)}")
        return
    if not 0 <= FEW < PICTURES or PICTURES < CALIBRATE:
        sys.exit(f"peer_fid: FEW must be less than PICTURES, and PICTURES at least {CALIBRATE}")
    with tempfile.TemporaryDirectory() as top:
        room, need = shutil.disk_usage(top).free, 8 * PICTURES * SIDE * SIDE
        if room < need:
            sys.exit(f"peer_fid: {top} has {room >> 20} MiB, {need >> 20} are needed (TMPDIR)")
        compare(top)


if __name__ == "__main__":
    main()
