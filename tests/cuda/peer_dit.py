"""The networks of peer_cuda.py and of tests/bench/peer_torch.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, h, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.fc1, self.fc2 = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)
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


class Net(nn.Module):
    """out > 0: a router with so many logits, from a class token; else a DiT, with `classes` if there are any."""

    def __init__(self, h, depth, heads, p, ch, size, out=0, classes=0):
        super().__init__()
        self.p, self.ch, self.n, self.router, self.classes = p, ch, size // p, out > 0, classes
        self.patch = nn.Linear(ch * p * p, h)
        self.pos = nn.Parameter(torch.randn(1, self.n * self.n, h) * 0.02, requires_grad=False)
        self.t0, self.t2 = nn.Linear(256, h), nn.Linear(h, h)
        self.blocks = nn.ModuleList(Block(h, heads) for _ in range(depth))
        if self.router:
            self.token = nn.Parameter(torch.randn(1, 1, h) * 0.02)
        else:
            self.ada = nn.Linear(h, 2 * h)
        if classes:
            self.label = nn.Embedding(classes + 1, h)
        self.out = nn.Linear(h, out or ch * p * p)
        self.register_buffer("freq", torch.exp(-math.log(10000) * torch.arange(128) / 128))

    def forward(self, x, t, label=None):
        b, n, p = x.shape[0], self.n, self.p
        x = x.view(b, self.ch, n, p, n, p).permute(0, 2, 4, 1, 3, 5).reshape(b, n * n, -1)
        x = self.patch(x) + self.pos
        if self.router:
            x = torch.cat([self.token.expand(b, 1, -1), x], 1)
        a = 1000 * t[:, None] * self.freq
        c = self.t2(F.silu(self.t0(torch.cat([a.cos(), a.sin()], -1))))
        if self.classes:
            c = c + self.label(label)
        c = F.silu(c)
        for block in self.blocks:
            x = block(x, c)
        if self.router:
            return self.out(F.layer_norm(x[:, 0], x.shape[-1:]))
        s, k = self.ada(c)[:, None].chunk(2, -1)
        x = self.out(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + k) + s)
        return x.view(b, n, n, p, p, self.ch).permute(0, 5, 1, 3, 2, 4).reshape(b, self.ch, n * p, n * p)

    def flops(self):
        """FLOPs of the products of one sample's forward pass."""
        h, t = self.patch.out_features, self.n * self.n + self.router
        each = 2 * t * h * (3 * h + h + 8 * h) + 4 * t * t * h + 2 * h * 6 * h
        return len(self.blocks) * each + 2 * t * h * (self.ch * self.p**2) * (2 - self.router) + 2 * h * (256 + h)
