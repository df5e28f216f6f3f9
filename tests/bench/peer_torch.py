#!/usr/bin/env python3
"""The same work as bench_step in PyTorch on the CPU, as its best user would write it: fused attention, fused AdamW, everything in
memory, eager and torch.compile, the better one. TSV: name, value, unit, which. Run it right before or after bench_step:

    tests/bench/peer_torch.py [THREADS [SECONDS]]
"""
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 and int(sys.argv[1]) > 0 else len(__import__("os").sched_getaffinity(0))
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 6.0
WORKS = [  # name, hidden, depth, heads, patch, channels, size, training batch, sampling batch
    ("dit-s/2", 384, 12, 6, 2, 4, 32, 8, 32),
    ("dit-mini/4", 192, 6, 6, 4, 3, 32, 64, 64),
    ("dit-micro/4", 128, 6, 4, 4, 3, 32, 64, 64),
    ("dit-nano/4", 96, 4, 4, 4, 3, 32, 128, 64),
]


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


class DiT(nn.Module):
    def __init__(self, h, depth, heads, p, ch, size):
        super().__init__()
        self.p, self.ch, self.n = p, ch, size // p
        self.patch = nn.Linear(ch * p * p, h)
        self.pos = nn.Parameter(torch.randn(1, self.n * self.n, h) * 0.02, requires_grad=False)
        self.t0, self.t2 = nn.Linear(256, h), nn.Linear(h, h)
        self.blocks = nn.ModuleList(Block(h, heads) for _ in range(depth))
        self.ada = nn.Linear(h, 2 * h)
        self.out = nn.Linear(h, ch * p * p)
        self.register_buffer("freq", torch.exp(-math.log(10000) * torch.arange(128) / 128))

    def forward(self, x, t):
        b, n, p = x.shape[0], self.n, self.p
        x = x.view(b, self.ch, n, p, n, p).permute(0, 2, 4, 1, 3, 5).reshape(b, n * n, -1)
        x = self.patch(x) + self.pos
        a = 1000 * t[:, None] * self.freq
        c = F.silu(self.t2(F.silu(self.t0(torch.cat([a.cos(), a.sin()], -1)))))
        for blk in self.blocks:
            x = blk(x, c)
        s, k = self.ada(c)[:, None].chunk(2, -1)
        x = self.out(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + k) + s)
        return x.view(b, n, n, p, p, self.ch).permute(0, 5, 1, 3, 2, 4).reshape(b, self.ch, n * p, n * p)


def best(fn):
    fn()
    fn()
    lowest, until = math.inf, time.monotonic() + SECONDS / 2
    while time.monotonic() < until:
        t = time.perf_counter()
        fn()
        lowest = min(lowest, time.perf_counter() - t)
    return lowest


def trainer(net, ema, opt, x0):
    b = x0.shape[0]

    def step():
        t = torch.rand(b)
        eps = torch.randn_like(x0)
        tt = t[:, None, None, None]
        loss = F.mse_loss(net((1 - tt) * x0 + tt * eps, t), eps - x0)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
        opt.step()
        torch._foreach_lerp_(ema, list(p.data for p in net.parameters() if p.requires_grad), 1e-3)

    return step


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    for name, h, depth, heads, p, ch, size, tb, sb in WORKS:
        for train in (True, False):
            batch = tb if train else sb
            results = {}
            for how in ("eager", "compiled"):
                base = DiT(h, depth, heads, p, ch, size)
                net = torch.compile(base) if how == "compiled" else base
                x0 = torch.randn(batch, ch, size, size)
                try:
                    if train:
                        ema = [q.data.clone() for q in base.parameters() if q.requires_grad]
                        opt = torch.optim.AdamW((q for q in base.parameters() if q.requires_grad), lr=1e-4, weight_decay=0, fused=True)
                        results[how] = best(trainer(net, ema, opt, x0))
                    else:
                        with torch.inference_mode():
                            results[how] = best(lambda: net(x0, torch.rand(batch)))
                except Exception as err:  # a compiler that does not work here must not hide the eager figure
                    print(f"# {name} {how}: {type(err).__name__}: {str(err).splitlines()[0][:100]}", file=sys.stderr)
            how = min(results, key=results.get)
            print(f"{'train' if train else 'sample'} {name}, batch {batch}\t{batch / results[how]:.1f}\timages/s\tPyTorch {torch.__version__} {how}", flush=True)


main()
