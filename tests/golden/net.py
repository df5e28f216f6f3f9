"""Makes tests/golden/net-*.safetensors: networks of random weights (none of them zero), an input each, and what PyTorch makes of
it in double: the output and the gradients of sum(dy * y). Needs torch. The modules follow the published descriptions, DiT under the
tensor names of facebookresearch/DiT, router and expert under those of Paris, PixArt under those of PixArt-alpha, and share nothing with
lib/net.

    w/NAME  float16 values, exact in every type; pos_embed float32
    x, t, label, text, mask, micro, dy, y   the input, the cotangent and the output
    g/NAME  gradients, float32
    d/NAME  sum(gradient * weight), double: the whole gradient once more, to more digits
    gx      gradient of x
"""
import json, math, struct
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def sincos_1d(width, pos):
    omega = 1.0 / 10000 ** (np.arange(width // 2, dtype=np.float64) / (width / 2.0))
    angle = np.einsum("m,d->md", pos.reshape(-1), omega)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


def sincos_2d(width, side, scale=1):
    across, down = np.meshgrid(scale * np.arange(side, dtype=np.float64), scale * np.arange(side, dtype=np.float64))
    return np.concatenate([sincos_1d(width // 2, across), sincos_1d(width // 2, down)], axis=1)[None]


class TimeEmbed(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(256, hidden), nn.SiLU(), nn.Linear(hidden, hidden))

    def forward(self, t):
        half = 128
        freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
        args = t[:, None] * freqs[None]
        return self.mlp(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))


class PatchEmbed(nn.Module):
    def __init__(self, channels, patch, hidden):
        super().__init__()
        self.proj = nn.Conv2d(channels, hidden, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x):
        b, n, h = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-2, -1)) * (h // self.heads) ** -0.5
        return self.proj((a.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, h))


class Mlp(nn.Module):
    def __init__(self, hidden, wide):
        super().__init__()
        self.fc1 = nn.Linear(hidden, wide)
        self.fc2 = nn.Linear(wide, hidden)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Block(nn.Module):
    def __init__(self, hidden, heads, ratio):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(hidden, heads)
        self.norm2 = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
        self.mlp = Mlp(hidden, int(hidden * ratio))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 6 * hidden))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + gate1.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift1, scale1))
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift2, scale2))


class FinalLayer(nn.Module):
    def __init__(self, hidden, out):
        super().__init__()
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(hidden, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 2 * hidden))

    def forward(self, x, c):
        shift, scale = self.adaLN_modulation(c).chunk(2, dim=1)
        return self.linear(modulate(self.norm(x), shift, scale))


class Labels(nn.Module):
    def __init__(self, rows, hidden):
        super().__init__()
        self.embedding_table = nn.Embedding(rows, hidden)

    def forward(self, y):
        return self.embedding_table(y)


class DiT(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c["hidden_size"]
        self.side, self.patch, self.out = c["sample_size"] // c["patch_size"], c["patch_size"], c["out_channels"]
        self.reversed, self.scale = c.get("time_reversed") == 1, c["time_scale"]
        self.x_embedder = PatchEmbed(c["in_channels"], self.patch, h)
        self.t_embedder = TimeEmbed(h)
        if c.get("num_classes"):
            self.y_embedder = Labels(c["num_classes"] + (c["class_dropout_prob"] > 0), h)
        self.pos_embed = nn.Parameter(torch.from_numpy(sincos_2d(h, self.side)), requires_grad=False)
        self.blocks = nn.ModuleList(Block(h, c["num_attention_heads"], c["mlp_ratio"]) for _ in range(c["num_layers"]))
        self.final_layer = FinalLayer(h, self.patch ** 2 * self.out)

    def forward(self, x, t, y, text, mask, micro):
        c = self.t_embedder(self.scale - t if self.reversed else t)
        if y is not None:
            c = c + self.y_embedder(y)
        x = self.x_embedder(x) + self.pos_embed
        for block in self.blocks:
            x = block(x, c)
        x = self.final_layer(x, c).reshape(len(x), self.side, self.side, self.patch, self.patch, self.out)
        x = torch.einsum("nhwpqc->nchpwq", x)
        x = x.reshape(len(x), self.out, self.side * self.patch, self.side * self.patch)
        return -x if self.reversed else x


class RouterLayer(nn.Module):
    def __init__(self, hidden, heads, ratio):
        super().__init__()
        wide = int(hidden * ratio)
        self.attn = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(hidden, wide), nn.GELU(approximate="tanh"), nn.Linear(wide, hidden))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 6 * hidden))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c).chunk(6, dim=1)
        h = modulate(F.layer_norm(x, x.shape[-1:], eps=1e-6), shift1, scale1)
        x = x + gate1.unsqueeze(1) * self.attn(h, h, h, need_weights=False)[0]
        h = modulate(F.layer_norm(x, x.shape[-1:], eps=1e-6), shift2, scale2)
        return x + gate2.unsqueeze(1) * self.mlp(h)


class Router(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c["hidden_size"]
        self.patch_embed = nn.Conv2d(c["in_channels"], h, c["patch_size"], c["patch_size"])
        self.pos_embed = nn.Parameter(torch.from_numpy(sincos_2d(h, c["sample_size"] // c["patch_size"])), requires_grad=False)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, h))
        self.time_embed = TimeEmbed(h)
        self.layers = nn.ModuleList(RouterLayer(h, c["num_attention_heads"], c["mlp_ratio"]) for _ in range(c["num_layers"]))
        self.head = nn.Sequential(nn.Linear(h, h), nn.GELU(approximate="tanh"), nn.LayerNorm(h, eps=1e-5),
                                  nn.GELU(approximate="tanh"), nn.Linear(h, c["num_clusters"]))

    def forward(self, x, t, y, text, mask, micro):
        c = self.time_embed(t)
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        for layer in self.layers:
            x = layer(x, c)
        return self.head(x[:, 0])


class CrossAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(hidden, hidden)
        self.kv_linear = nn.Linear(hidden, 2 * hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x, text, mask):
        b, n, h = x.shape
        q = self.q_linear(x).reshape(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv_linear(text).reshape(b, text.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        a = q @ k.transpose(-2, -1) * (h // self.heads) ** -0.5 + mask[:, None, None]
        return self.proj((a.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, h))


class SingleBlock(nn.Module):
    """adaLN-single: the modulation is shared, and each block adds its own table."""

    def __init__(self, c, attn, cross, mlp):
        super().__init__()
        self.eps = c["norm_eps"]
        self.attn, self.cross_attn, self.mlp = attn, cross, mlp
        self.scale_shift_table = nn.Parameter(torch.zeros(6, c["hidden_size"]))

    def attend(self, x):
        return self.attn(x)

    def look(self, x, text, mask):
        return self.cross_attn(x, text, mask)

    def forward(self, x, t0, text, mask):
        mods = (self.scale_shift_table[None] + t0.reshape(len(x), 6, -1)).unbind(1)
        h = modulate(F.layer_norm(x, x.shape[-1:], eps=self.eps), mods[0], mods[1])
        x = x + mods[2].unsqueeze(1) * self.attend(h)
        x = x + self.look(x, text, mask)
        h = modulate(F.layer_norm(x, x.shape[-1:], eps=self.eps), mods[3], mods[4])
        return x + mods[5].unsqueeze(1) * self.mlp(h)


class ParisBlock(SingleBlock):
    def attend(self, x):
        return self.attn(x, x, x, need_weights=False)[0]

    def look(self, x, text, mask):
        return self.cross_attn(x, text, text, need_weights=False)[0]


class SingleFinal(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.eps = c["norm_eps"]
        self.linear = nn.Linear(c["hidden_size"], out)
        self.scale_shift_table = nn.Parameter(torch.zeros(2, c["hidden_size"]))

    def forward(self, x, t):
        shift, scale = (self.scale_shift_table[None] + t[:, None]).unbind(1)
        return self.linear(modulate(F.layer_norm(x, x.shape[-1:], eps=self.eps), shift, scale))


def unpatchify(x, side, patch, out):
    x = torch.einsum("nhwpqc->nchpwq", x.reshape(len(x), side, side, patch, patch, out))
    return x.reshape(len(x), out, side * patch, side * patch)


class Paris(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, heads, wide = c["hidden_size"], c["num_attention_heads"], int(c["hidden_size"] * c["mlp_ratio"])
        self.side, self.patch, self.out = c["sample_size"] // c["patch_size"], c["patch_size"], c["out_channels"]
        self.patch_embed = nn.Conv2d(c["in_channels"], h, self.patch, self.patch)
        self.pos_embed = nn.Parameter(torch.from_numpy(sincos_2d(h, self.side)), requires_grad=c.get("learned_positions") == 1)
        self.time_embed = TimeEmbed(h)
        self.text_proj = nn.Linear(c["text_embed_dim"], h)
        self.t_block = nn.Sequential(nn.SiLU(), nn.Linear(h, 6 * h))
        self.layers = nn.ModuleList(
            ParisBlock(c, nn.MultiheadAttention(h, heads, batch_first=True), nn.MultiheadAttention(h, heads, batch_first=True),
                       nn.Sequential(nn.Linear(h, wide), nn.GELU(approximate="tanh"), nn.Linear(wide, h)))
            for _ in range(c["num_layers"]))
        self.final_layer = SingleFinal(c, self.patch ** 2 * self.out)

    def forward(self, x, t, y, text, mask, micro):
        t = self.time_embed(t)
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed
        text = self.text_proj(text)
        for layer in self.layers:
            x = layer(x, self.t_block(t), text, None)
        return unpatchify(self.final_layer(x, t), self.side, self.patch, self.out)


class Caption(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.y_proj = Mlp(c["text_embed_dim"], c["hidden_size"])
        self.y_proj.fc2 = nn.Linear(c["hidden_size"], c["hidden_size"])
        self.y_embedding = nn.Parameter(torch.zeros(c["text_tokens"], c["text_embed_dim"]), requires_grad=False)

    def forward(self, text):
        return self.y_proj(text)


class PixArt(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, heads = c["hidden_size"], c["num_attention_heads"]
        self.side, self.patch, self.out = c["sample_size"] // c["patch_size"], c["patch_size"], c["out_channels"]
        self.x_embedder = PatchEmbed(c["in_channels"], self.patch, h)
        self.pos_embed = nn.Parameter(torch.from_numpy(sincos_2d(h, self.side, c.get("position_scale", 1))), requires_grad=False)
        self.t_embedder = TimeEmbed(h)
        self.t_block = nn.Sequential(nn.SiLU(), nn.Linear(h, 6 * h))
        self.y_embedder = Caption(c)
        if c.get("micro_conditions"):
            self.csize_embedder = TimeEmbed(h // 3)
            self.ar_embedder = TimeEmbed(h // 3)
        self.blocks = nn.ModuleList(SingleBlock(c, Attention(h, heads), CrossAttention(h, heads), Mlp(h, int(h * c["mlp_ratio"])))
                                    for _ in range(c["num_layers"]))
        self.final_layer = SingleFinal(c, self.patch ** 2 * self.out)

    def forward(self, x, t, y, text, mask, micro):
        t = self.t_embedder(t)
        if micro is not None:
            size = self.csize_embedder(micro[:, :2].reshape(-1)).reshape(len(x), -1)
            t = t + torch.cat([size, self.ar_embedder(micro[:, 2])], dim=1)
        x = self.x_embedder(x) + self.pos_embed
        text = self.y_embedder(text)
        for block in self.blocks:
            x = block(x, self.t_block(t), text, mask)
        return unpatchify(self.final_layer(x, t), self.side, self.patch, self.out)


class UNetTime(nn.Module):
    def __init__(self, c, width):
        super().__init__()
        self.half, self.shift, self.flip = width // 2, c["freq_shift"], c["flip_sin_to_cos"]
        self.linear_1, self.linear_2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, 4 * width)

    def forward(self, t):
        angle = t[:, None] * torch.exp(-math.log(10000) * torch.arange(self.half) / (self.half - self.shift))[None]
        parts = [torch.cos(angle), torch.sin(angle)] if self.flip else [torch.sin(angle), torch.cos(angle)]
        return self.linear_2(F.silu(self.linear_1(torch.cat(parts, dim=1))))


class ResBlock(nn.Module):
    def __init__(self, c, width, out, time):
        super().__init__()
        self.norm1 = nn.GroupNorm(c["norm_num_groups"], width, eps=c["norm_eps"])
        self.conv1 = nn.Conv2d(width, out, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, out)
        self.norm2 = nn.GroupNorm(c["norm_num_groups"], out, eps=c["norm_eps"])
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        if width != out:
            self.conv_shortcut = nn.Conv2d(width, out, 1)

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time_emb_proj(F.silu(time))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + (self.conv_shortcut(x) if hasattr(self, "conv_shortcut") else x)


def multihead(q, k, v, heads):
    q, k, v = (a.reshape(a.shape[0], a.shape[1], heads, -1).transpose(1, 2) for a in (q, k, v))
    a = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1) @ v
    return a.transpose(1, 2).flatten(2)


class PixelAttention(nn.Module):
    def __init__(self, c, width):
        super().__init__()
        self.heads = width // c["attention_head_dim"] if c["attention_head_dim"] else 1
        self.group_norm = nn.GroupNorm(c["norm_num_groups"], width, eps=c["norm_eps"])
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x, text):
        h = self.group_norm(x).flatten(2).transpose(1, 2)
        h = self.to_out[0](multihead(self.to_q(h), self.to_k(h), self.to_v(h), self.heads))
        return x + h.transpose(1, 2).reshape(x.shape)


class Looking(nn.Module):
    def __init__(self, width, of, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k, self.to_v = (nn.Linear(of, width, bias=False) for _ in range(2))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x, y):
        return self.to_out[0](multihead(self.to_q(x), self.to_k(y), self.to_v(y), self.heads))


class GEGLU(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, 8 * width)

    def forward(self, x):
        h, gate = self.proj(x).chunk(2, dim=-1)
        return h * F.gelu(gate)


class TextLayer(nn.Module):
    def __init__(self, c, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.attn1, self.attn2 = Looking(width, width, heads), Looking(width, c["cross_attention_dim"], heads)
        self.ff = nn.Module()
        self.ff.net = nn.ModuleList([GEGLU(width), nn.Identity(), nn.Linear(4 * width, width)])

    def forward(self, x, text):
        n = self.norm1(x)
        x = x + self.attn1(n, n)
        x = x + self.attn2(self.norm2(x), text)
        return x + self.ff.net[2](self.ff.net[0](self.norm3(x)))


class TextAttention(nn.Module):
    def __init__(self, c, width, heads):
        super().__init__()
        self.linear = c["use_linear_projection"]
        self.norm = nn.GroupNorm(c["norm_num_groups"], width, eps=1e-6)
        self.proj_in = nn.Linear(width, width) if self.linear else nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([TextLayer(c, width, heads)])
        self.proj_out = nn.Linear(width, width) if self.linear else nn.Conv2d(width, width, 1)

    def forward(self, x, text):
        b, w, rows, cols = x.shape
        h = self.norm(x)
        h = self.proj_in(h.flatten(2).transpose(1, 2)) if self.linear else self.proj_in(h).flatten(2).transpose(1, 2)
        h = self.transformer_blocks[0](h, text)
        if self.linear:
            return x + self.proj_out(h).transpose(1, 2).reshape(x.shape)
        return x + self.proj_out(h.transpose(1, 2).reshape(x.shape))


class Resampler(nn.Module):
    def __init__(self, width, stride, pad):
        super().__init__()
        self.stride, self.pad = stride, pad
        self.conv = nn.Conv2d(width, width, 3, stride=stride, padding=pad)

    def forward(self, x):
        if self.stride == 1:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.conv(x if self.pad else F.pad(x, (0, 1, 0, 1)))


class UNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        widths, n, text = c["block_out_channels"], c["layers_per_block"], c["model_type"] == "unet_text"
        first, levels = widths[0], len(widths)
        down, up = c["down_block_types"], c["up_block_types"]

        def attention(level):
            return TextAttention(c, widths[level], c["attention_head_dim"][level]) if text else PixelAttention(c, widths[level])

        def stack(res, level, attend):
            m = nn.Module()
            m.resnets = nn.ModuleList(ResBlock(c, a, b, 4 * first) for a, b in res)
            if attend:
                m.attentions = nn.ModuleList(attention(level) for _ in range(attend))
            return m

        self.conv_in = nn.Conv2d(c["in_channels"], first, 3, padding=1)
        self.time_embedding = UNetTime(c, first)
        if c.get("num_classes"):
            self.class_embedding = nn.Embedding(c["num_classes"] + (c["class_dropout_prob"] > 0), 4 * first)
        self.down_blocks, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        skips, width = [first], first
        for i, w in enumerate(widths):
            block = stack([(width if j == 0 else w, w) for j in range(n)], i, n if down[i] != "DownBlock2D" else 0)
            width = w
            skips += [w] * n
            if i + 1 < levels:
                block.downsamplers = nn.ModuleList([Resampler(w, 2, c["downsample_padding"])])
                skips.append(w)
            self.down_blocks.append(block)
        self.mid_block = stack([(width, width)] * 2, levels - 1, 1)
        for i, w in enumerate(reversed(widths)):
            res = []
            for _ in range(n + 1):
                res.append((width + skips.pop(), w))
                width = w
            block = stack(res, levels - 1 - i, n + 1 if up[i] != "UpBlock2D" else 0)
            if i + 1 < levels:
                block.upsamplers = nn.ModuleList([Resampler(w, 1, 1)])
            self.up_blocks.append(block)
        self.conv_norm_out = nn.GroupNorm(c["norm_num_groups"], first, eps=c["norm_eps"])
        self.conv_out = nn.Conv2d(first, c["out_channels"], 3, padding=1)

    def forward(self, x, t, y, text, mask, micro):
        time = self.time_embedding(t)
        if y is not None:
            time = time + self.class_embedding(y)
        x = self.conv_in(x)
        skips = [x]
        for block in self.down_blocks:
            for j, res in enumerate(block.resnets):
                x = res(x, time)
                x = block.attentions[j](x, text) if hasattr(block, "attentions") else x
                skips.append(x)
            if hasattr(block, "downsamplers"):
                x = block.downsamplers[0](x)
                skips.append(x)
        x = self.mid_block.attentions[0](self.mid_block.resnets[0](x, time), text)
        x = self.mid_block.resnets[1](x, time)
        for block in self.up_blocks:
            for j, res in enumerate(block.resnets):
                x = res(torch.cat([x, skips.pop()], dim=1), time)
                x = block.attentions[j](x, text) if hasattr(block, "attentions") else x
            if hasattr(block, "upsamplers"):
                x = block.upsamplers[0](x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


TYPES = {"float64": "F64", "float32": "F32", "int32": "I32", "float16": "F16"}


def write(path, arrays, meta):
    header, data = {"__metadata__": meta}, b""
    for name, a in sorted(arrays.items(), key=lambda i: (-i[1].itemsize, i[0])):
        header[name] = {"dtype": TYPES[str(a.dtype)], "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
        data += np.ascontiguousarray(a).tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def exact(rng, *shape, std=1.0):
    """Normal numbers that float16 represents exactly, none of them 0."""
    a = (std * rng.standard_normal(shape)).astype(np.float16)
    a[a == 0] = np.float16(std / 8)
    return a


def golden(name, seed, make=None, **c):
    rng = np.random.RandomState(seed)
    net = make(c) if make else {"router": Router, "dit": DiT, "dit_expert": Paris, "pixart": PixArt, "unet": UNet, "unet_text": UNet}[c["model_type"]](c)
    b, out = 3, {}
    with torch.no_grad():
        for key, p in net.named_parameters():
            if key == "pos_embed" and not c.get("learned_positions"):
                a = p.numpy().astype(np.float32)
            else:
                fan = max(1, p[0].numel()) if p.dim() > 1 else 16
                a = exact(rng, *p.shape, std=fan ** -0.5)
                if key == "head.2.weight" or ("norm" in key and key.endswith(".weight") and p.dim() == 1):
                    a = (1 + a.astype(np.float64)).astype(np.float16)
            p.copy_(torch.from_numpy(a.astype(np.float64)))
            out["w/" + key] = a
    frames = [c["num_frames"]] if c.get("num_frames") else []
    x = exact(rng, b, *frames, c["in_channels"], c["sample_size"], c["sample_size"])
    t = np.array([0.0, 0.3125, 0.8125], np.float32)
    xs = torch.from_numpy(x.astype(np.float64)).requires_grad_()
    ys = None
    if c.get("num_classes"):
        label = np.array([1, 0, c["num_classes"] - (c["class_dropout_prob"] == 0)], np.int32)
        out["label"] = label
        ys = torch.from_numpy(label.astype(np.int64))
    text = mask = micro = None
    if c.get("text_tokens"):
        out["text"] = exact(rng, b, c["text_tokens"], c.get("text_embed_dim") or c["cross_attention_dim"])
        text = torch.from_numpy(out["text"].astype(np.float64))
    if c["model_type"] == "pixart":
        out["mask"] = np.where(np.arange(c["text_tokens"])[None] < [[2], [c["text_tokens"]], [1]], 0, -10000).astype(np.float32)
        mask = torch.from_numpy(out["mask"].astype(np.float64))
    if c.get("micro_conditions"):
        out["micro"] = np.array([[512, 768, .6666], [1024, 1024, 1], [33, 5, 6.6]], np.float32)
        micro = torch.from_numpy(out["micro"].astype(np.float64))
    y = net(xs, c["time_scale"] * torch.from_numpy(t.astype(np.float64)), ys, text, mask, micro)
    dy = exact(rng, *y.shape)
    (y * torch.from_numpy(dy.astype(np.float64))).sum().backward()
    out.update(x=x, t=t, dy=dy, y=y.detach().numpy(), gx=xs.grad.numpy().astype(np.float32))
    for key, p in net.named_parameters():
        if p.requires_grad:
            out["g/" + key] = p.grad.numpy().astype(np.float32)
            out["d/" + key] = np.array([(p.grad * p).sum().item()])
    write("tests/golden/net-%s.safetensors" % name, out, {"config": json.dumps(c)})


if __name__ == "__main__":
    golden("plain", 1, model_type="dit", in_channels=3, out_channels=3, sample_size=12, patch_size=4, hidden_size=8, num_layers=2,
           num_attention_heads=2, mlp_ratio=4.0, time_scale=1000.0)
    golden("class", 2, model_type="dit", in_channels=4, out_channels=8, sample_size=10, patch_size=2, hidden_size=12, num_layers=1,
           num_attention_heads=2, mlp_ratio=4.0, num_classes=5, class_dropout_prob=0.1, time_scale=1000.0)
    golden("odd", 3, model_type="dit", in_channels=5, out_channels=5, sample_size=9, patch_size=3, hidden_size=12, num_layers=1,
           num_attention_heads=4, mlp_ratio=2.5, num_classes=3, class_dropout_prob=0.0, time_scale=1000.0)
    golden("router", 4, model_type="router", in_channels=4, sample_size=8, patch_size=2, hidden_size=8, num_layers=2,
           num_attention_heads=2, mlp_ratio=4.0, num_clusters=5, time_scale=1000.0)
    golden("router1", 5, model_type="router", in_channels=1, sample_size=6, patch_size=1, hidden_size=8, num_layers=1,
           num_attention_heads=1, mlp_ratio=3.0, num_clusters=3, time_scale=1000.0)
    golden("paris", 6, model_type="dit_expert", in_channels=4, out_channels=4, sample_size=6, patch_size=2, hidden_size=8, num_layers=2,
           num_attention_heads=2, mlp_ratio=4.0, text_tokens=5, text_embed_dim=6, norm_eps=1e-5, time_scale=1000.0)
    golden("paris1", 7, model_type="dit_expert", in_channels=3, out_channels=3, sample_size=9, patch_size=3, hidden_size=12, num_layers=1,
           num_attention_heads=3, mlp_ratio=1.5, text_tokens=2, text_embed_dim=7, norm_eps=1e-3, learned_positions=1, time_scale=1000.0)
    golden("pixart", 8, model_type="pixart", in_channels=4, out_channels=8, sample_size=6, patch_size=2, hidden_size=12, num_layers=2,
           num_attention_heads=2, mlp_ratio=2.0, text_tokens=4, text_embed_dim=5, norm_eps=1e-6, position_scale=0.5, time_scale=1000.0)
    golden("pixart1", 9, model_type="pixart", in_channels=2, out_channels=2, sample_size=8, patch_size=4, hidden_size=12, num_layers=1,
           num_attention_heads=3, mlp_ratio=4.0, text_tokens=3, text_embed_dim=6, norm_eps=1e-6, micro_conditions=1, time_scale=1000.0)
    golden("sit", 10, model_type="dit", in_channels=2, out_channels=4, sample_size=4, patch_size=2, hidden_size=8, num_layers=1,
           num_attention_heads=2, mlp_ratio=4.0, num_classes=3, class_dropout_prob=0.1, time_scale=1.0, time_reversed=1)
    unet = dict(norm_num_groups=4, norm_eps=1e-5, downsample_padding=1, freq_shift=0, flip_sin_to_cos=True, time_scale=1000.0)
    golden("unet", 11, model_type="unet", in_channels=3, out_channels=3, sample_size=8, block_out_channels=[8, 12, 16], layers_per_block=1,
           down_block_types=["DownBlock2D", "DownBlock2D", "AttnDownBlock2D"], up_block_types=["AttnUpBlock2D", "UpBlock2D", "UpBlock2D"],
           attention_head_dim=4, num_classes=3, class_dropout_prob=0.1, **unet)
    golden("unet1", 12, model_type="unet", in_channels=1, out_channels=2, sample_size=6, block_out_channels=[4, 8], layers_per_block=2,
           down_block_types=["AttnDownBlock2D", "DownBlock2D"], up_block_types=["UpBlock2D", "AttnUpBlock2D"], attention_head_dim=None,
           **(unet | dict(norm_num_groups=2, norm_eps=1e-6, downsample_padding=0, freq_shift=1, flip_sin_to_cos=False)))
    text = dict(model_type="unet_text", in_channels=4, out_channels=4, sample_size=4, block_out_channels=[8, 12], layers_per_block=1,
                down_block_types=["CrossAttnDownBlock2D", "DownBlock2D"], up_block_types=["UpBlock2D", "CrossAttnUpBlock2D"],
                text_tokens=3, cross_attention_dim=5)
    golden("unet-text", 13, attention_head_dim=[2, 3], use_linear_projection=False, **text, **(unet | dict(norm_num_groups=2)))
    golden("unet-text1", 14, attention_head_dim=[2, 2], use_linear_projection=True, **text, **unet)
