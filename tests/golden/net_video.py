"""Makes tests/golden/net-video*.safetensors as net.py makes its files: networks for clips of random weights, an input each, and what PyTorch makes
of it in double. Needs torch and diffusers. The module follows the descriptions of Wan 2.1 and Latte and shares nothing with lib/net; with Wan's
settings it is compared with diffusers' WanTransformer3DModel, which computes parts in float.

    cd tests/golden/../.. && python tests/golden/net_video.py
"""
import json, math, os, sys
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(__file__))
from net import exact, write

torch.set_default_dtype(torch.float64)


class Embedder(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(width, hidden), nn.Linear(hidden, hidden)

    def forward(self, x, act):
        return self.linear_2(act(self.linear_1(x)))


def sinusoid(t):
    angle = t[:, None] * torch.exp(-math.log(10000) * torch.arange(128) / 128)[None]
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=1)


def angles(frames, side, width):
    """(tokens, width / 2): the angle of each pair, by time, then row, then column."""
    spatial = 2 * (width // 6)
    dims = [width - 2 * spatial, spatial, spatial]
    grid = torch.stack(torch.meshgrid(torch.arange(frames), torch.arange(side), torch.arange(side), indexing="ij"), dim=-1).reshape(-1, 3)
    return torch.cat([grid[:, a, None].double() / 10000 ** (torch.arange(0, dims[a], 2).double() / max(dims[a], 1)) for a in range(3)], dim=1)


def turn(x, angle):
    """x (b, tokens, heads, width): neighbouring channels are a complex number."""
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)[None, :, None, :]).flatten(3)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c["hidden_size"]
        self.heads, self.norm = c["num_attention_heads"], c["qk_norm"]
        self.to_q, self.to_k, self.to_v = (nn.Linear(h, h) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(h, h)])
        if self.norm:
            width = h if self.norm == 2 else h // self.heads
            self.norm_q, self.norm_k = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)

    def split(self, x, norm):
        x = norm(x) if norm and self.norm == 2 else x
        x = x.reshape(*x.shape[:2], self.heads, -1)
        return norm(x) if norm and self.norm == 1 else x

    def forward(self, x, y, angle=None, group=None, mask=None):
        q, k = self.split(self.to_q(x), self.norm and self.norm_q), self.split(self.to_k(y), self.norm and self.norm_k)
        v = self.split(self.to_v(y), None)
        if angle is not None:
            q, k = turn(q, angle), turn(k, angle)
        score = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        if group is not None:  # only tokens of one group see each other
            score = score.masked_fill(group[:, None] != group[None, :], -math.inf)
        if mask is not None:
            score = score + mask[:, None, None, :]
        return self.to_out[0](torch.einsum("bhqk,bkhd->bqhd", score.softmax(dim=-1), v).flatten(2))


class Block(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        h = c["hidden_size"]
        self.across, self.factored = i % 2, c["factored_attention"]
        self.norm1, self.norm3 = (nn.LayerNorm(h, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn1 = Attention(c)
        if c["cross_attention"]:
            self.norm2 = nn.LayerNorm(h, eps=1e-6)
            self.attn2 = Attention(c)
        self.ffn = nn.Module()
        self.ffn.net = nn.ModuleList([nn.Module(), nn.Identity(), nn.Linear(c["ffn_dim"], h)])
        self.ffn.net[0].proj = nn.Linear(h, c["ffn_dim"])
        if c["shared_modulation"]:
            self.scale_shift_table = nn.Parameter(torch.zeros(1, 6, h))
        else:
            self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(h, 6 * h))

    def forward(self, x, temb, shared, angle, places, text, mask):
        m = (shared + self.scale_shift_table if shared is not None else self.adaLN_modulation(temb).unflatten(1, (6, -1))).unsqueeze(2).unbind(1)
        token = torch.arange(x.shape[1])
        group = (token % places if self.across else token // places) if self.factored else None
        n = self.norm1(x) * (1 + m[1]) + m[0]
        x = x + m[2] * self.attn1(n, n, angle, group)
        if text is not None:
            x = x + self.attn2(self.norm2(x), text, mask=mask)
        n = self.norm3(x) * (1 + m[4]) + m[3]
        return x + m[5] * self.ffn.net[2](F.gelu(self.ffn.net[0].proj(n), approximate="tanh"))


class Video(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, h = c, c["hidden_size"]
        p = (c["patch_size_t"], c["patch_size"], c["patch_size"])
        self.patch_embedding = nn.Conv3d(c["in_channels"] * 2 + 1 if c.get("first_frame") else c["in_channels"], h, p, p)
        self.condition_embedder = e = nn.Module()
        e.time_embedder = Embedder(256, h)
        if c.get("num_classes"):
            e.class_embedder = nn.Embedding(c["num_classes"] + (c["class_dropout_prob"] > 0), h)
        if c["shared_modulation"]:
            e.time_proj = nn.Linear(h, 6 * h)
        if c["cross_attention"]:
            e.text_embedder = Embedder(c["text_embed_dim"], h)
            self.null_text = nn.Parameter(torch.zeros(c["text_tokens"], c["text_embed_dim"]), requires_grad=False)
        self.blocks = nn.ModuleList(Block(c, i) for i in range(c["num_layers"]))
        self.norm_out = nn.LayerNorm(h, elementwise_affine=False, eps=1e-6)
        if c["shared_modulation"]:
            self.scale_shift_table = nn.Parameter(torch.zeros(1, 2, h))
        else:
            self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(h, 2 * h))
        self.proj_out = nn.Linear(h, c["in_channels"] * math.prod(p))

    def forward(self, x, t, y, text, mask, first=None):
        c, e = self.c, self.condition_embedder
        seen = x
        if first is not None:  # image to video: noisy channels, mask, clean channels, as Wan concatenates them
            rest = torch.zeros_like(first)[:, None].expand(-1, x.shape[1] - 1, -1, -1, -1)
            seen = torch.cat([x, torch.cat([first[:, None], rest], dim=1)], dim=2)
        h = self.patch_embedding(seen.transpose(1, 2))  # (b, hidden, frames, rows, columns)
        frames, side = h.shape[2], h.shape[3]
        h = h.flatten(2).transpose(1, 2)
        temb = e.time_embedder(sinusoid(t), F.silu)
        if y is not None:
            temb = temb + e.class_embedder(y)
        shared = e.time_proj(F.silu(temb)).unflatten(1, (6, -1)) if c["shared_modulation"] else None
        if text is not None:
            text = e.text_embedder(text, lambda a: F.gelu(a, approximate="tanh"))
        angle = angles(frames, side, c["hidden_size"] // c["num_attention_heads"])
        for block in self.blocks:
            h = block(h, temb, shared, angle, side * side, text, mask)
        if shared is not None:
            shift, scale = (self.scale_shift_table + temb[:, None]).chunk(2, dim=1)
        else:
            shift, scale = self.adaLN_modulation(temb)[:, None].chunk(2, dim=2)
        h = self.proj_out(self.norm_out(h) * (1 + scale) + shift)
        p, q = c["patch_size_t"], c["patch_size"]
        h = h.reshape(x.shape[0], frames, side, side, p, q, q, -1)
        return torch.einsum("bfyxpijc->bfpcyixj", h).reshape(x.shape)


def compare_with_diffusers(c, net, x, t, text, y):
    from diffusers import WanTransformer3DModel
    wan = WanTransformer3DModel(
        patch_size=(c["patch_size_t"], c["patch_size"], c["patch_size"]), num_attention_heads=c["num_attention_heads"],
        attention_head_dim=c["hidden_size"] // c["num_attention_heads"], in_channels=c["in_channels"], out_channels=c["in_channels"],
        text_dim=c["text_embed_dim"], freq_dim=256, ffn_dim=c["ffn_dim"], num_layers=c["num_layers"], cross_attn_norm=True,
        qk_norm="rms_norm_across_heads", eps=1e-6, rope_max_seq_len=32).double()
    weights = {k: v for k, v in net.state_dict().items() if k != "null_text"}
    print("diffusers:", wan.load_state_dict(weights, strict=True))
    with torch.no_grad():
        z = wan(x.transpose(1, 2), t, text, return_dict=False)[0].transpose(1, 2)
    error = ((z - y).abs().max() / y.abs().max()).item()
    print("largest difference to diffusers' Wan, of the largest value: %.2g" % error)
    assert error < 1e-5


def golden(name, seed, masked=True, **c):
    c = dict(model_type="video_dit", out_channels=c["in_channels"], time_scale=1000.0) | c
    rng, b, out = np.random.RandomState(seed), 3, {}
    net = Video(c)
    with torch.no_grad():
        for key, p in net.named_parameters():
            fan = max(1, p[0].numel()) if p.dim() > 1 else 16
            a = exact(rng, *p.shape, std=fan ** -0.5)
            if "norm" in key and key.endswith(".weight") and p.dim() == 1:
                a = (1 + a.astype(np.float64)).astype(np.float16)
            p.copy_(torch.from_numpy(a.astype(np.float64)))
            out["w/" + key] = a
    x = exact(rng, b, c["num_frames"], c["in_channels"], c["sample_size"], c["sample_size"])
    t = np.array([0.0, 0.3125, 0.8125], np.float32)
    xs, ys, text, mask = torch.from_numpy(x.astype(np.float64)).requires_grad_(), None, None, None
    if c.get("num_classes"):
        out["label"] = np.array([1, 0, c["num_classes"] - (c["class_dropout_prob"] == 0)], np.int32)
        ys = torch.from_numpy(out["label"].astype(np.int64))
    if c["cross_attention"]:
        out["text"] = exact(rng, b, c["text_tokens"], c["text_embed_dim"])
        text = torch.from_numpy(out["text"].astype(np.float64))
        rows = [[2], [c["text_tokens"]], [1]] if masked else [[c["text_tokens"]]] * 3
        out["mask"] = np.where(np.arange(c["text_tokens"])[None] < rows, 0, -10000).astype(np.float32)
        mask = torch.from_numpy(out["mask"].astype(np.float64))
    first = None
    if c.get("first_frame"):  # the second sample has none
        planes = exact(rng, b, 1 + c["in_channels"], c["sample_size"], c["sample_size"])
        planes[:, 0], planes[1] = 1, 0
        out["first"], first = planes, torch.from_numpy(planes.astype(np.float64))
    time = c["time_scale"] * torch.from_numpy(t.astype(np.float64))
    y = net(xs, time, ys, text, mask, first)
    if not masked:
        compare_with_diffusers(c, net, xs.detach(), time, text, y.detach())
    dy = exact(rng, *y.shape)
    (y * torch.from_numpy(dy.astype(np.float64))).sum().backward()
    out.update(x=x, t=t, dy=dy, y=y.detach().numpy(), gx=xs.grad.numpy().astype(np.float32))
    for key, p in net.named_parameters():
        if p.requires_grad:
            out["g/" + key] = p.grad.numpy().astype(np.float32)
            out["d/" + key] = np.array([(p.grad * p).sum().item()])
    write("tests/golden/net-%s.safetensors" % name, out, {"config": json.dumps(c)})


if __name__ == "__main__":
    golden("video", 21, in_channels=3, sample_size=4, num_frames=4, patch_size_t=2, patch_size=2, hidden_size=16, num_layers=2,
           num_attention_heads=2, ffn_dim=24, factored_attention=1, shared_modulation=0, cross_attention=0, qk_norm=1, num_classes=3,
           class_dropout_prob=0.1)
    golden("video1", 22, in_channels=2, sample_size=3, num_frames=3, patch_size_t=1, patch_size=1, hidden_size=12, num_layers=1,
           num_attention_heads=3, ffn_dim=9, factored_attention=0, shared_modulation=0, cross_attention=1, qk_norm=0, text_tokens=3,
           text_embed_dim=5)
    golden("video-first", 24, in_channels=2, sample_size=4, num_frames=3, patch_size_t=1, patch_size=2, hidden_size=12, num_layers=2,
           num_attention_heads=2, ffn_dim=12, factored_attention=1, shared_modulation=0, cross_attention=0, qk_norm=1, first_frame=1,
           first_frame_dropout=0.1)
    golden("video-wan", 23, masked=False, in_channels=2, sample_size=4, num_frames=3, patch_size_t=1, patch_size=2, hidden_size=24,
           num_layers=2, num_attention_heads=2, ffn_dim=20, factored_attention=0, shared_modulation=1, cross_attention=1, qk_norm=2,
           text_tokens=4, text_embed_dim=6)
