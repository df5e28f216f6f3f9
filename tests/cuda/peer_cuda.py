#!/usr/bin/env python3
"""The training, sampling and k-means of bench_cuda in PyTorch as its best user would write it: bf16 autocast, fused attention (cuDNN or flash,
whichever torch prefers), fused AdamW, torch.compile with max-autotune, latents in device memory. Lines as bench_cuda's, `peer NAME value
unit ratio spread`; ratio is the network's own products over a bf16 product of 8192 measured here.

    peer_cuda.py [-s SECONDS] [PATTERN]
"""
import argparse
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from peer_dit import Net

DEVICE = "cuda"


def timed(step, seconds):
    """(median seconds of a call, half of what its quartiles are apart over it), in slots of several calls."""
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    calls, slots = int(seconds / 20 / (time.perf_counter() - start)) + 1, []
    end = time.perf_counter() + seconds
    while len(slots) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            step()
        torch.cuda.synchronize()
        slots.append((time.perf_counter() - start) / calls)
    q = statistics.quantiles(slots, n=4)
    return statistics.median(slots), (q[2] - q[0]) / 2 / statistics.median(slots)


def measured_peak(seconds):
    a, b = (torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / timed(lambda: a @ b, seconds)[0]


def trainer(shape, size, batch, how):
    net = Net(*shape, 4, size, classes=1000).to(DEVICE)
    params = [q for q in net.parameters() if q.requires_grad]
    ema = [q.detach().clone() for q in params]
    run = net if how is None else torch.compile(net, mode=how)
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0, fused=True)
    x0 = torch.randn(batch, 4, size, size, device=DEVICE)
    label = torch.randint(0, 1000, (batch,), device=DEVICE)

    def step():
        t = torch.rand(batch, device=DEVICE)
        eps, tt = torch.randn_like(x0), t[:, None, None, None]
        y = torch.where(torch.rand(batch, device=DEVICE) < 0.1, 1000, label)
        with torch.autocast("cuda", torch.bfloat16):
            out = run((1 - tt) * x0 + tt * eps, t, y)
        loss = F.mse_loss(out.float(), eps - x0)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
        opt.step()
        opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(ema, params, 1e-3)

    return step, 3 * net.flops() * batch


def train(name, shape, size, most, peak, seconds):
    batch = most
    while batch:
        best = None
        for how in ("max-autotune-no-cudagraphs", "default", None):
            try:
                torch._dynamo.reset()
                torch.cuda.empty_cache()
                step, flops = trainer(shape, size, batch, how)
                each, spread = timed(step, seconds)
                if best is None or each < best[0]:
                    best = each, spread, flops
                if how == "max-autotune-no-cudagraphs":
                    break
            except torch.cuda.OutOfMemoryError:
                break
            except Exception as err:  # a compiler that does not work here must not hide what does
                print(f"peer_cuda: {name}, {how}: {type(err).__name__}: {str(err).splitlines()[0][:120]}", file=sys.stderr)
            finally:
                step = None
        if best:
            each, spread, flops = best
            print(f"peer train {name}, batch {batch}\t{batch / each:.6g}\timages/s\t{flops / each / peak:.4f}\t{spread:.4f}", flush=True)
            return
        batch //= 2


def sample(nets, router, used, cfg, batch, peak, steps, runs):
    """Samples grouped by expert; the table of bench_cuda stands for what the router says, which runs and is heard."""
    label = torch.arange(batch, device=DEVICE) * 37 % 1000
    i, times, calls = torch.arange(batch), [], 0

    @torch.inference_mode()
    def once():
        nonlocal calls
        x = torch.randn(batch, 4, 32, 32, device=DEVICE)
        last = time.perf_counter()
        for s in range(steps):
            t = torch.full((batch,), 1 - s / steps, device=DEVICE)
            with torch.autocast("cuda", torch.bfloat16):
                router(x, t).float().cpu()
            now = time.perf_counter()
            if s:
                times.append(now - last)
            last = now
            a, b = (i + s) % 8, (3 * i + s + 1) % 8
            b = torch.where(a == b, (b + 1) % 8, b)
            u = torch.zeros_like(x)
            for k in range(8):
                for who, w in (((a, 1.0),) if used == 1 else ((a, 0.6225), (b, 0.3775))):
                    rows = (who == k).nonzero()[:, 0].to(DEVICE)
                    n = len(rows)
                    if not n:
                        continue
                    y = torch.cat([label[rows], torch.full((n,), 1000, device=DEVICE)])
                    with torch.autocast("cuda", torch.bfloat16):
                        v = nets[k](x[rows].repeat(2, 1, 1, 1), t[rows].repeat(2), y).float()
                    u.index_add_(0, rows, w * (v[n:] + cfg * (v[:n] - v[n:])))
            x = x - u / steps
        return x.cpu()

    for _ in range(2):
        once()
    times.clear()
    start = time.perf_counter()
    for _ in range(runs):
        once()
    total = time.perf_counter() - start
    name = f"peer sample 8 x xl/2, top-{used}, cfg, batch {batch}"
    flops = runs * batch * steps * (2 * used * nets[0].flops_each + router.flops_each)
    print(f"{name}\t{runs * batch / total:.6g}\timages/s\t{flops / total / peak:.4f}\t0.0000")
    times.sort()
    for q in (0.5, 0.99):
        print(f"{name}, step p{int(100 * q)}\t{1e3 * times[max(0, math.ceil(q * len(times)) - 1)]:.6g}\tms\t0.0000\t0.0000", flush=True)


def samples(peak):
    def ready(net):
        net = net.to(DEVICE).to(torch.bfloat16).eval()
        flops = net.flops()
        net = torch.compile(net, dynamic=True)
        net.flops_each = flops
        return net

    nets, router = [ready(Net(*XL, 4, 32, classes=1000)) for _ in range(8)], ready(Net(*B, 4, 32, out=8))
    for batch, runs in ((1, 8), (8, 8), (64, 3)):
        for used in (1, 2):
            sample(nets, router, used, 1.5, batch, peak, 50, runs)


def lloyd(x, c, chunk):
    """An iteration: each point to its nearest centre, then the means; a chunk of scores at a time."""
    norm, sums = c.square().sum(1), torch.zeros_like(c)
    size = torch.zeros(len(c), device=c.device)
    for part in x.split(chunk):
        at = torch.addmm(norm, part, c.T, alpha=-2).argmin(1)
        sums.index_add_(0, at, part)
        size += torch.bincount(at, minlength=len(c))
    return torch.where(size[:, None] > 0, sums / size[:, None].clamp(min=1), c)


def clusters(k, peak, seconds):
    """Ten million points of 1024 numbers, in float and with products that round to TF32."""
    n, d, chunk = 153 * 65536, 1024, 65536
    n = min(n, int(torch.cuda.mem_get_info()[0] * 0.8) // (4 * d) // chunk * chunk)
    x, c = torch.randn(n, d, device=DEVICE), torch.randn(k, d, device=DEVICE) * 0.9
    for name, precision in (("f32", "highest"), ("tf32", "high")):
        torch.set_float32_matmul_precision(precision)
        each, spread = timed(lambda: lloyd(x, c, chunk), seconds)
        name = f"clusters {k}, iteration of {n * 1e-6:.1f}M, {name}"
        print(f"peer {name}\t{each:.6g}\ts\t{2 * n * k * d / each / peak:.4f}\t{spread:.4f}", flush=True)


XL, B, S = (1152, 28, 16, 2), (768, 12, 12, 2), (384, 12, 6, 2)
WORKS = [("dit-xl/2, 256 tokens", XL, 32, 256), ("dit-xl/2, 1024 tokens", XL, 64, 64), ("dit-xl/2, 4096 tokens", XL, 128, 16),
         ("dit-b/2, 256 tokens", B, 32, 512), ("dit-s/2, 256 tokens", S, 32, 1024)]


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("-s", type=float, default=2)
    ask.add_argument("pattern", nargs="?", default="")
    args = ask.parse_args()
    if not torch.cuda.is_available():
        sys.exit("peer_cuda: torch sees no GPU")
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name()}")
    peak = measured_peak(args.s)
    print(f"peer product 8192\t{peak * 1e-12:.6g}\tTFLOP/s\t1.0000\t0.0000")
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], set_priority=True):
        for name, shape, size, most in WORKS:
            if args.pattern in f"train {name}":
                train(name, shape, size, most, peak, args.s)
        if args.pattern in "sample 8 x xl/2, top-1, top-2, cfg, batch":
            torch._dynamo.reset()
            samples(peak)
    for k in (8, 1024):
        if args.pattern in f"clusters {k}, iteration":
            torch.cuda.empty_cache()
            clusters(k, peak, args.s)


main()
