"""A published DDPM of MNIST in PyTorch: python ddpm_mnist.py ddpm_mnist.pt > ddpm_mnist.h. Needs torch and the weights."""
import sys

import torch
from torch.nn import functional as F

W = {k[len("network."):]: v for k, v in torch.load(sys.argv[1], map_location="cpu", weights_only=True).items()}
STEPS = 1000


def wb(name):
    return W[name + ".weight"], W[name + ".bias"]


def blocks(x, name):
    for i in range(3):
        ln, c1, c2 = wb(f"{name}.{i}.ln"), wb(f"{name}.{i}.conv1"), wb(f"{name}.{i}.conv2")
        if name + str(i) != "b_out2":  # has one that is not used
            x = F.layer_norm(x, x.shape[1:], *ln)
        x = F.silu(F.conv2d(F.silu(F.conv2d(x, *c1, padding=1)), *c2, padding=1))
    return x


def network(x, t):
    e = F.embedding(torch.full((len(x),), t), W["time_embed.weight"])

    def at(name):
        return F.linear(F.silu(F.linear(e, *wb(name + ".0"))), *wb(name + ".2")).reshape(len(x), -1, 1, 1)

    one = blocks(x + at("te1"), "b1")
    two = blocks(F.conv2d(one, *wb("down1"), 2, 1) + at("te2"), "b2")
    three = blocks(F.conv2d(two, *wb("down2"), 2, 1) + at("te3"), "b3")
    down = F.conv2d(F.silu(F.conv2d(three, *wb("down3.0"))), *wb("down3.2"), 2, 1)
    mid = blocks(down + at("te_mid"), "b_mid")
    up = F.conv_transpose2d(F.silu(F.conv_transpose2d(mid, *wb("up1.0"), 2, 1)), *wb("up1.2"))
    four = blocks(torch.cat([three, up], 1) + at("te4"), "b4")
    five = blocks(torch.cat([two, F.conv_transpose2d(four, *wb("up2"), 2, 1)], 1) + at("te5"), "b5")
    out = blocks(torch.cat([one, F.conv_transpose2d(five, *wb("up3"), 2, 1)], 1) + at("te_out"), "b_out")
    return F.conv2d(out, *wb("conv_out"), padding=1)


abar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64), 0)


def start():
    g = torch.Generator().manual_seed(3)
    return g, torch.randn(1, 1, 28, 28, generator=g)


def ddim(n):
    _, x = start()
    for i in reversed(range(n)):
        t = i * (STEPS // n)
        a, b = abar[t], abar[t - STEPS // n] if i else torch.tensor(1.0, dtype=torch.float64)
        eps = network(x, t)
        x = (b.sqrt() * (x - (1 - a).sqrt() * eps) / a.sqrt() + (1 - b).sqrt() * eps).float()
    return x


def ddpm():
    """sigma^2 = beta, as in the author's sampler."""
    g, x = start()
    for t in reversed(range(STEPS)):
        alpha = abar[t] / (abar[t - 1] if t else 1)
        x = ((x - (1 - alpha) / (1 - abar[t]).sqrt() * network(x, t)) / alpha.sqrt()).float()
        if t:
            x = x + (1 - alpha).sqrt().float() * torch.randn(1, 1, 28, 28, generator=g)
    return x


def show(name, x):
    v = [f"{v:.9g}" for v in x.flatten()[::71].tolist()]
    print(f"static const double {name}[{len(v)}] = {{{', '.join(v[:6])},\n    {', '.join(v[6:])}}};")


with torch.no_grad():
    print("/* Made by ddpm_mnist.py with PyTorch: every 71st pixel. */\n")
    for t in (0, 500, 999):
        show(f"golden_mnist_eps_{t}", network(start()[1], t))
    show("golden_mnist_ddim_50", ddim(50))
    show("golden_mnist_ddpm_1000", ddpm())
