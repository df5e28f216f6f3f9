#!/usr/bin/env python3
"""The work of bench_step and bench_sample in PyTorch on the CPU, as its best user would write it: fused attention and AdamW,
everything in memory, eager and torch.compile, the better one counted. Runs ours and theirs by turns and prints of every line
"torch: NAME", theirs in our unit, ours over theirs, and that ratio's spread; between tabs, medians.

    tests/bench/peer_torch.py FOLDER [PATTERN]      FOLDER holds bench_step and bench_sample; THREADS=N in the environment
"""
import os
import statistics
import subprocess
import sys
import time

FOLDER, PATTERN = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
THREADS = int(os.environ.get("THREADS", 0)) or len(os.sched_getaffinity(0))
TURNS, SLOT = 3, 0.7
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(FOLDER, "inductor"))
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import torch  # noqa: E402  (after the variables it reads)
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cuda"))
from peer_dit import Net  # noqa: E402

MICRO, NANO8 = (128, 6, 4, 4, 3, 32), (96, 4, 4, 8, 3, 32)  # hidden, depth, heads, patch, channels, size


def trainer(how, shape, batch, bf16=False):
    base = Net(*shape)
    net = torch.compile(base) if how == "compiled" else base
    x0 = torch.randn(batch, shape[4], shape[5], shape[5])
    params = [q for q in base.parameters() if q.requires_grad]
    ema = [q.data.clone() for q in params]
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0, fused=True)

    def step():
        t = torch.rand(batch)
        eps = torch.randn_like(x0)
        tt = t[:, None, None, None]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            out = net((1 - tt) * x0 + tt * eps, t)
        loss = F.mse_loss(out.float(), eps - x0)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
        opt.step()
        torch._foreach_lerp_(ema, [q.data for q in params], 1e-3)

    return step


def trainer_bf16(how, shape, batch):
    return trainer(how, shape, batch, True)


def sampler(how, shape, batch):
    """One Euler step."""
    base = Net(*shape).eval()
    net = torch.compile(base) if how == "compiled" else base
    x = torch.randn(batch, shape[4], shape[5], shape[5])

    @torch.inference_mode()
    def step():
        nonlocal x
        x = x - 0.02 * net(x, torch.full((batch,), 0.5))

    return step


def ensemble(how, shape, batch, experts=8):
    """One Euler step of the two experts of every picture, samples grouped by expert. The router runs; the table of bench_sample
    stands for what it says, so that both sides have the same groups."""
    nets = [Net(*shape).eval() for _ in range(experts)]
    router = Net(*NANO8, out=experts).eval()
    if how == "compiled":
        nets = [torch.compile(n, dynamic=True) for n in nets]
        router = torch.compile(router)
    x = torch.randn(batch, shape[4], shape[5], shape[5])
    i = torch.arange(batch)
    turn = 0

    @torch.inference_mode()
    def step():
        nonlocal x, turn
        s, turn = turn, (turn + 1) % 2
        logits = router(x, torch.full((batch,), 0.5))
        a, b = (i + s) % experts, (3 * i + s + 1) % experts
        b = torch.where(a == b, (b + 1) % experts, b)
        logits = torch.zeros_like(logits).scatter_(1, a[:, None], 3.0).scatter_(1, b[:, None], 2.5)
        top, who = logits.topk(2, 1)
        w = torch.zeros_like(logits).scatter_(1, who, top.softmax(1))
        u = torch.zeros_like(x)
        for k in range(experts):
            rows = w[:, k].nonzero()[:, 0]
            if len(rows):
                v = nets[k](x[rows], torch.full((len(rows),), 0.5))
                u.index_add_(0, rows, v * w[rows, k, None, None, None])
        x = x - 0.02 * u

    return step


S2, B2, MINI, NANO = (384, 12, 6, 2, 4, 32), (768, 12, 12, 2, 4, 32), (192, 6, 6, 4, 3, 32), (96, 4, 4, 4, 3, 32)
WORKS = [  # our line, its program, what makes a step, network, batch
    ("train dit-s/2, batch 8", "bench_step", trainer, S2, 8),
    ("train dit-mini/4, batch 64", "bench_step", trainer, MINI, 64),
    ("train dit-micro/4, batch 64", "bench_step", trainer, MICRO, 64),
    ("train dit-nano/4, batch 128", "bench_step", trainer, NANO, 128),
    ("train dit-s/2 in bf16, batch 8", "bench_step", trainer_bf16, S2, 8),
    ("train dit-b/2 in bf16, batch 4", "bench_step", trainer_bf16, B2, 4),
    ("train dit-mini/4 in bf16, batch 64", "bench_step", trainer_bf16, MINI, 64),
    ("sample dit-s/2, batch 32", "bench_sample", sampler, S2, 32),
    ("sample dit-mini/4, batch 64", "bench_sample", sampler, MINI, 64),
    ("sample dit-micro/4, batch 64", "bench_sample", sampler, MICRO, 64),
    ("sample dit-nano/4, batch 64", "bench_sample", sampler, NANO, 64),
    ("sample 8 x dit-micro/4, top-2, batch 64", "bench_sample", ensemble, MICRO, 64),
]


def rate(step, batch):
    """Pictures per second over about SLOT seconds; one thread by its own clock, as ours."""
    clock = time.thread_time if THREADS == 1 else time.perf_counter
    n, from_ = 0, clock()
    while n < 2 or clock() - from_ < SLOT:
        step()
        n += 1
    return n * batch / (clock() - from_)


def ours(program, name):
    out = subprocess.run([os.path.join(FOLDER, program), "-t", str(THREADS), "-s", str(SLOT), name], check=True, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    line = [row.split("\t") for row in out.splitlines() if row.startswith(name + "\t")][0]
    return float(line[1]), line[2]


def compare(name, program, make, shape, batch):
    steps, trials = {}, {}
    for how in ("eager", "compiled"):
        try:
            step = make(how, shape, batch)
            for _ in range(3):
                step()
            steps[how], trials[how] = step, rate(step, batch)
        except Exception as err:  # a compiler that does not work here must not hide the eager figure
            print(f"peer_torch: {name}, {how}: {type(err).__name__}: {str(err).splitlines()[0][:100]}", file=sys.stderr)
    how = max(trials, key=trials.get)
    theirs, ratios, unit = [], [], ""
    for _ in range(TURNS):
        before = rate(steps[how], batch)
        us, unit = ours(program, name)
        after = rate(steps[how], batch)
        theirs.append((before + after) / 2)
        ratios.append(us / theirs[-1])
    spread = (max(ratios) - min(ratios)) / 2
    print(f"torch: {name}\t{statistics.median(theirs):.4g}\t{unit}\t{statistics.median(ratios):.3f}\t{spread:.3f}", flush=True)
    print(f"peer_torch: {name}: {how}; " + ", ".join(f"{k} {v:.4g}" for k, v in trials.items()), file=sys.stderr)


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    with open("/proc/cpuinfo") as f:
        bf16 = "avx512_bf16" in f.read()
    for work in WORKS:
        if PATTERN in "torch: " + work[0] and (bf16 or work[2] is not trainer_bf16):
            compare(*work)
            torch.compiler.reset()


main()
