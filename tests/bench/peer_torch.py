#!/usr/bin/env python3
"""The work of bench_step and bench_sample in PyTorch on the CPU, as its best user would write it: fused attention and AdamW,
everything in memory, eager and torch.compile, the better one counted. Runs ours and theirs by turns and prints of every line
"torch: NAME", theirs in our unit, ours over theirs, and that ratio's spread; between tabs, medians.

    tests/bench/peer_torch.py FOLDER [PATTERN]      FOLDER holds bench_step and bench_sample; THREADS=N in the environment
"""
import math
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


class Block(nn.Module):
    def __init__(self, h, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(h, 3 * h)
        self.proj = nn.Linear(h, h)
        self.fc1 = nn.Linear(h, 4 * h)
        self.fc2 = nn.Linear(4 * h, h)
        self.ada = nn.Linear(h, 6 * h)

    def forward(self, x, c):
        b, t, h = x.shape
        s1, k1, g1, s2, k2, g2 = self.ada(c)[:, None].chunk(6, -1)
        y = F.layer_norm(x, (h,), eps=1e-6) * (1 + k1) + s1
        q, k, v = self.qkv(y).view(b, t, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, h)
        x = x + g1 * self.proj(y)
        y = F.layer_norm(x, (h,), eps=1e-6) * (1 + k2) + s2
        return x + g2 * self.fc2(F.gelu(self.fc1(y), approximate="tanh"))


class Trunk(nn.Module):
    """out > 0: a router of so many logits, from a class token; else a DiT."""

    def __init__(self, h, depth, heads, p, ch, size, out=0):
        super().__init__()
        self.p, self.ch, self.n, self.router = p, ch, size // p, out > 0
        self.patch = nn.Linear(ch * p * p, h)
        self.pos = nn.Parameter(torch.randn(1, self.n * self.n, h) * 0.02, requires_grad=False)
        self.t0, self.t2 = nn.Linear(256, h), nn.Linear(h, h)
        self.blocks = nn.ModuleList(Block(h, heads) for _ in range(depth))
        if self.router:
            self.token = nn.Parameter(torch.randn(1, 1, h) * 0.02)
        else:
            self.ada = nn.Linear(h, 2 * h)
        self.out = nn.Linear(h, out or ch * p * p)
        self.register_buffer("freq", torch.exp(-math.log(10000) * torch.arange(128) / 128))

    def forward(self, x, t):
        b, n, p = x.shape[0], self.n, self.p
        x = x.view(b, self.ch, n, p, n, p).permute(0, 2, 4, 1, 3, 5).reshape(b, n * n, -1)
        x = self.patch(x) + self.pos
        if self.router:
            x = torch.cat([self.token.expand(b, 1, -1), x], 1)
        a = 1000 * t[:, None] * self.freq
        c = F.silu(self.t2(F.silu(self.t0(torch.cat([a.cos(), a.sin()], -1)))))
        for blk in self.blocks:
            x = blk(x, c)
        if self.router:
            return self.out(F.layer_norm(x[:, 0], x.shape[-1:]))
        s, k = self.ada(c)[:, None].chunk(2, -1)
        x = self.out(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + k) + s)
        return x.view(b, n, n, p, p, self.ch).permute(0, 5, 1, 3, 2, 4).reshape(b, self.ch, n * p, n * p)


MICRO, NANO8 = (128, 6, 4, 4, 3, 32), (96, 4, 4, 8, 3, 32)  # hidden, depth, heads, patch, channels, size


def trainer(how, shape, batch):
    base = Trunk(*shape)
    net = torch.compile(base) if how == "compiled" else base
    x0 = torch.randn(batch, shape[4], shape[5], shape[5])
    params = [q for q in base.parameters() if q.requires_grad]
    ema = [q.data.clone() for q in params]
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0, fused=True)

    def step():
        t = torch.rand(batch)
        eps = torch.randn_like(x0)
        tt = t[:, None, None, None]
        loss = F.mse_loss(net((1 - tt) * x0 + tt * eps, t), eps - x0)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
        opt.step()
        torch._foreach_lerp_(ema, [q.data for q in params], 1e-3)

    return step


def sampler(how, shape, batch):
    """One Euler step."""
    base = Trunk(*shape).eval()
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
    nets = [Trunk(*shape).eval() for _ in range(experts)]
    router = Trunk(*NANO8, out=experts).eval()
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


S2, MINI, NANO = (384, 12, 6, 2, 4, 32), (192, 6, 6, 4, 3, 32), (96, 4, 4, 4, 3, 32)
WORKS = [  # our line, its program, what makes a step, network, batch
    ("train dit-s/2, batch 8", "bench_step", trainer, S2, 8),
    ("train dit-mini/4, batch 64", "bench_step", trainer, MINI, 64),
    ("train dit-micro/4, batch 64", "bench_step", trainer, MICRO, 64),
    ("train dit-nano/4, batch 128", "bench_step", trainer, NANO, 128),
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
    for work in WORKS:
        if PATTERN in "torch: " + work[0]:
            compare(*work)
            torch.compiler.reset()


main()
