#!/usr/bin/env python3
"""The attention, training, sampling and k-means of bench_cuda in well-written PyTorch: bf16 autocast, fused attention
(cuDNN or flash, whichever torch prefers), fused AdamW, torch.compile with max-autotune, latents in device memory. Lines as bench_cuda's,
`peer NAME value unit ratio spread`; ratio is the network's own products over a bf16 product of 8192 measured here. A part that fails, or that
--budget has no seconds left for, is named on the standard error, and the rest goes on; the exit status is 1 then.

Blocks are compiled, once for all of a network, as compiling a whole one takes minutes; --compile whole does that.

    peer_cuda.py [-s SECONDS] [--budget SECONDS] [--compile blocks|whole|none] [PATTERN]
    peer_cuda.py -q --device cpu               tiny networks, to try the program itself
"""
import argparse
import contextlib
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from peer_dit import Net

ask = argparse.ArgumentParser()
ask.add_argument("-s", type=float, default=2)
ask.add_argument("-q", action="store_true")
ask.add_argument("--device", default="cuda")
ask.add_argument("--budget", type=float, default=math.inf)
ask.add_argument("--compile", choices=("blocks", "whole", "none"), default="blocks")
ask.add_argument("pattern", nargs="?", default="")
args = ask.parse_args()

DEVICE, CUDA, BEGUN = args.device, args.device != "cpu", time.perf_counter()
failures = []


def sync():
    if CUDA:
        torch.cuda.synchronize()


def release():
    torch._dynamo.reset()
    if CUDA:
        torch.cuda.empty_cache()


def say(name, value, unit, ratio=0.0, spread=0.0):
    print(f"peer {name}\t{value:.6g}\t{unit}\t{ratio:.4f}\t{spread:.4f}", flush=True)


def failed(name, why):
    failures.append(name)
    print(f"peer_cuda: {name}: {why}", file=sys.stderr, flush=True)


def text_of(err):
    return f"{type(err).__name__}: {(str(err).splitlines() or [''])[0][:160]}"


def part(name, work, *rest):
    """A part that fails is reported, and the next one is run."""
    if args.pattern not in name:
        return
    if time.perf_counter() - BEGUN > args.budget:
        failed(name, f"not begun, {args.budget:.0f} s are over")
        return
    try:
        work(*rest)
    except Exception as err:
        failed(name, text_of(err))


def timed(step, seconds):
    """(median seconds of a call, half the distance of its quartiles over the median), in slots of several calls."""
    for _ in range(5):
        step()
    sync()
    start = time.perf_counter()
    step()
    sync()
    calls, slots = int(seconds / 20 / (time.perf_counter() - start)) + 1, []
    end = time.perf_counter() + seconds
    while len(slots) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            step()
        sync()
        slots.append((time.perf_counter() - start) / calls)
    q = statistics.quantiles(slots, n=4)
    return statistics.median(slots), (q[2] - q[0]) / 2 / statistics.median(slots)


def measured_peak(seconds):
    n = 256 if args.q else 8192
    a, b = (torch.randn(n, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return 2 * n**3 / timed(lambda: a @ b, seconds)[0]


def compiled(net, how, dynamic=None):
    if how is None or args.compile == "none":
        return net
    if args.compile == "whole":
        return torch.compile(net, mode=how, dynamic=dynamic)
    for block in net.blocks:
        block.compile(mode=how, dynamic=dynamic)
    return net


def fused_attention():
    """In order of preference; the CPU has its own."""
    backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    return sdpa_kernel(backends, set_priority=True) if CUDA else contextlib.nullcontext()


def attention(d, tokens, peak, seconds):
    release()
    n, heads = (32 if args.q else tokens), 16
    batch = 1 if args.q else 65536 // tokens
    flops = 4 * batch * heads * n * n * d
    kinds = (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)) if CUDA else (("math", SDPBackend.MATH),)
    for name, kind in kinds:
        try:
            with sdpa_kernel(kind):
                q, k, v, do = (torch.randn(batch, n, heads, d, device=DEVICE, dtype=torch.bfloat16).transpose(1, 2) for _ in range(4))
                with torch.no_grad():
                    each, spread = timed(lambda: F.scaled_dot_product_attention(q, k, v), seconds)
                say(f"attention head {d}, {tokens} tokens, {name}", flops / each * 1e-12, "TFLOP/s", flops / each / peak, spread)
                for x in (q, k, v):
                    x.requires_grad_()
                out = F.scaled_dot_product_attention(q, k, v)
                each, spread = timed(lambda: torch.autograd.grad(out, (q, k, v), do, retain_graph=True), seconds)
                say(f"attention gradient head {d}, {tokens} tokens, {name}", 2.5 * flops / each * 1e-12, "TFLOP/s",
                    2.5 * flops / each / peak, spread)
        except RuntimeError as err:
            failed(f"attention head {d}, {tokens} tokens, {name}", text_of(err))


def trainer(shape, size, batch, how):
    net = Net(*shape, 4, size, classes=1000).to(DEVICE)
    params = [q for q in net.parameters() if q.requires_grad]
    ema = [q.detach().clone() for q in params]
    run = compiled(net, how)
    opt = torch.optim.AdamW(params, lr=1e-4, weight_decay=0, fused=True)
    x0 = torch.randn(batch, 4, size, size, device=DEVICE)
    label = torch.randint(0, 1000, (batch,), device=DEVICE)

    def step():
        t = torch.rand(batch, device=DEVICE)
        eps, tt = torch.randn_like(x0), t[:, None, None, None]
        y = torch.where(torch.rand(batch, device=DEVICE) < 0.1, 1000, label)
        with torch.autocast(DEVICE, torch.bfloat16):
            out = run((1 - tt) * x0 + tt * eps, t, y)
        loss = F.mse_loss(out.float(), eps - x0)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
        opt.step()
        opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(ema, params, 1e-3)

    return step, 3 * net.flops() * batch


def train_once(shape, size, batch, how, seconds):
    step, flops = trainer(shape, size, batch, how)
    return (*timed(step, seconds), flops)


def batch_that_fits(shape, size, most):
    """The largest batch, `most` halved until two steps fit without compiling, which would take minutes instead of seconds."""
    batch = most
    while batch:
        release()
        try:
            with fused_attention():
                step, _ = trainer(shape, size, batch, None)
                step(), step()
                sync()
            return batch
        except torch.OutOfMemoryError:
            step = None
            batch //= 2
    return 0


def train(name, shape, size, most, peak, seconds):
    """At the largest batch that fits. If compiling fails here, the other ways still count."""
    batch = batch_that_fits(shape, size, 2 if args.q else most)
    print(f"# train {name}: batch {batch} fits", flush=True)
    while batch:
        best = None
        for how in ("max-autotune-no-cudagraphs", "default", None):
            release()
            try:
                with fused_attention():
                    best = train_once(shape, size, batch, how, seconds)
                break
            except torch.OutOfMemoryError:
                break
            except Exception as err:
                failed(f"train {name}, {how}", text_of(err))
        if best:
            each, spread, flops = best
            print(f"# train {name}: torch.compile of {args.compile}, {how}", flush=True)
            say(f"train {name}, batch {batch}", batch / each, "images/s", flops / each / peak, spread)
            return
        batch //= 2
    failed(f"train {name}", "no batch fits")


def sample_once(nets, router, used, cfg, batch, steps, runs):
    """Samples grouped by expert; the table of bench_cuda stands for what the router says, which runs and is heard. (seconds of a run, sorted
    seconds of steps)"""
    size = nets[0].n * nets[0].p
    label = torch.arange(batch, device=DEVICE) * 37 % 1000
    i, times = torch.arange(batch), []

    @torch.inference_mode()
    def once():
        x = torch.randn(batch, 4, size, size, device=DEVICE)
        last = time.perf_counter()
        for s in range(steps):
            t = torch.full((batch,), 1 - s / steps, device=DEVICE)
            torch.compiler.cudagraph_mark_step_begin()
            with torch.autocast(DEVICE, torch.bfloat16):
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
                    torch.compiler.cudagraph_mark_step_begin()
                    with torch.autocast(DEVICE, torch.bfloat16):
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
    return (time.perf_counter() - start) / runs, sorted(times)


def for_inference(nets, how):
    """Blocks for any number of rows, or whole networks as CUDA graphs."""
    release()
    for net in nets:
        for block in net.blocks:
            block._compiled_call_impl = None
            if how == "default":
                block.compile(dynamic=True)
    return [torch.compile(net, mode=how) for net in nets] if how == "reduce-overhead" else nets


def samples(peak):
    """The fastest way for each batch; CUDA graphs are tried if the number of rows is constant."""

    def ready(net):
        return net.to(DEVICE).to(torch.bfloat16).eval()

    nets = [ready(Net(*XL, 4, SIZE, classes=1000)) for _ in range(8)] + [ready(Net(*B, 4, SIZE, out=8))]
    torch._dynamo.config.recompile_limit = 64
    steps = 4 if args.q else 50
    for batch, runs in ((64, 3), (8, 8), (1, 8)):
        names = {used: f"sample 8 x xl/2, top-{used}, cfg, batch {batch}" for used in (1, 2)}
        best = {}

        def one(used, run, how):
            got = (*sample_once(run[:8], run[8], used, 1.5, batch, steps, 1 if args.q else runs), how)
            best[used] = min(best.get(used, got), got, key=lambda x: x[0])

        if not any(args.pattern in name for name in names.values()):
            continue
        for how in (None,) if args.compile == "none" else ("default", "reduce-overhead") if batch == 1 else ("default",):
            run = for_inference(nets, how)
            with fused_attention():
                for used, name in names.items():
                    part(name, one, used, run, how)
        for used, (seconds, times, how) in sorted(best.items()):
            flops = batch * steps * (2 * used * nets[0].flops() + nets[8].flops())
            print(f"# {names[used]}: {how}", flush=True)
            say(names[used], batch / seconds, "images/s", flops / seconds / peak)
            for q in (0.5, 0.99):
                say(f"{names[used]}, step p{int(100 * q)}", 1e3 * times[max(0, math.ceil(q * len(times)) - 1)], "ms")


def lloyd(x, c, chunk):
    """An iteration: each point to its nearest centre, then the means; a chunk of scores at a time."""
    norm, sums = c.square().sum(1), torch.zeros_like(c)
    size = torch.zeros(len(c), device=c.device)
    for piece in x.split(chunk):
        at = torch.addmm(norm, piece, c.T, alpha=-2).argmin(1)
        sums.index_add_(0, at, piece)
        size += torch.bincount(at, minlength=len(c))
    return torch.where(size[:, None] > 0, sums / size[:, None].clamp(min=1), c)


def clusters(k, peak, seconds):
    """Ten million points of 1024 numbers, in float and with products that round to TF32."""
    release()
    d, chunk = (64, 512) if args.q else (1024, 65536)
    n = 2 * chunk if args.q else 153 * chunk
    if CUDA:
        n = min(n, int(torch.cuda.mem_get_info()[0] * 0.8) // (4 * d) // chunk * chunk)
    x, c = torch.randn(n, d, device=DEVICE), torch.randn(k, d, device=DEVICE) * 0.9
    for name, precision in (("f32", "highest"), ("tf32", "high")):
        torch.set_float32_matmul_precision(precision)
        each, spread = timed(lambda: lloyd(x, c, chunk), seconds)
        say(f"clusters {k}, iteration of {n * 1e-6:.1f}M, {name}", each, "s", 2 * n * k * d / each / peak, spread)
    torch.set_float32_matmul_precision("highest")


XL, B, S = ((32, 2, 2, 2),) * 3 if args.q else ((1152, 28, 16, 2), (768, 12, 12, 2), (384, 12, 6, 2))
SIZE = 8 if args.q else 32
WORKS = [("dit-xl/2, 256 tokens", XL, 1, 256), ("dit-xl/2, 1024 tokens", XL, 2, 64), ("dit-xl/2, 4096 tokens", XL, 4, 16),
         ("dit-b/2, 256 tokens", B, 1, 512), ("dit-s/2, 256 tokens", S, 1, 1024)]


def main():
    if CUDA and not torch.cuda.is_available():
        sys.exit("peer_cuda: torch sees no GPU")
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name() if CUDA else DEVICE}")
    peak = measured_peak(args.s)
    say("product 8192", peak * 1e-12, "TFLOP/s", 1)
    for name, shape, side, most in WORKS:
        part(f"train {name}", train, name, shape, side * SIZE, most, peak, args.s)
    for tokens in (256, 1024, 4096):
        for d in (64, 72, 128):
            part(f"attention head {d}, {tokens} tokens, attention gradient", attention, d, tokens, peak, args.s / 4)
    for k in (8, 1024):
        part(f"clusters {k}, iteration", clusters, k, peak, args.s)
    release()
    if any(args.pattern in f"sample 8 x xl/2, top-{k}, cfg, batch {n}" for k in (1, 2) for n in (1, 8, 64)):
        samples(peak)
    return 1 if failures else 0


sys.exit(main())
