"""TAEHV in PyTorch, written again from its description, and golden values of it: python taehv.py makes, beside itself,

    taehv/taew2_2.safetensors   weights of narrow layers in half precision, under the names of the files of TAEHV
    taehv/super/taehv1_5_super.safetensors    likewise, with a super decoder
    taehv.safetensors           clips, and what becomes of them in double: {causal,chunks}/{x,latent,decoded}, super/{latent,decoded}, and
                                cogvideox/decoded of causal/latent

tests/peers/peer_clips.py uses the network with other sizes and seeds. Needs torch, safetensors.
"""
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

TIMES = {"4": ((2, 2, 1), (1, 2, 2)), "8": ((2, 2, 2), (2, 2, 2))}  # frames joined by the stages of the encoder, made by those of the decoder


def shapes(channels, patch, time, wide, widths, after):
    """The tensors of a file: name -> shape. wide: channels of the encoder; widths: of the decoder's stages; after: before its last layer,
    or "super" for a super decoder, whose widths are four."""
    out, (down, up), pixels = {}, TIMES[time], 3 * patch * patch

    def conv(name, o, i, k, bias=True):
        out[name + ".weight"] = (o, i, k, k)
        if bias:
            out[name + ".bias"] = (o,)

    def memory(name, n):
        conv(name + ".conv.0", n, 2 * n, 3)
        conv(name + ".conv.2", n, n, 3)
        conv(name + ".conv.4", n, n, 3)

    conv("encoder.0", wide, pixels, 3)
    for i, b in enumerate((2, 7, 12)):
        conv("encoder.%d.conv" % b, wide, wide * down[i], 1, False)
        conv("encoder.%d" % (b + 1), wide, wide, 3, False)
        for j in range(3):
            memory("encoder.%d" % (b + 2 + j), wide)
    conv("encoder.17", channels, wide, 3)
    if after == "super":
        conv("decoder.0", widths[0], channels, 1, False)
        for i, b in enumerate((1, 8, 15)):
            n, to = widths[i], widths[i + 1]
            for j in range(3):
                out["decoder.%d.conv.0.weight" % (b + j)] = (2 * n, 1, 7, 7)
                conv("decoder.%d.conv.1" % (b + j), 4 * n, 2 * n, 1)
                conv("decoder.%d.conv.3" % (b + j), n, 4 * n, 1, False)
            conv("decoder.%d" % (b + 3), 4 * to, n, 3)
            conv("decoder.%d.conv" % (b + 6), to * up[i], to, 1, False)
        conv("decoder.22", pixels, widths[3], 3)
        return out
    conv("decoder.1", widths[0], channels, 3)
    for i, b in enumerate((3, 9, 15)):
        n, to = widths[i], (widths[1:] + (after,))[i]
        for j in range(3):
            memory("decoder.%d" % (b + j), n)
        conv("decoder.%d.conv" % (b + 4), n * up[i], n, 1, False)
        conv("decoder.%d" % (b + 5), to, n, 3, False)
    conv("decoder.22", pixels, after, 3)
    return out


def random_weights(seed, *what):
    """Normal. Latents of clips in [0, 1] get a deviation near 1, and clips of latents one near .2."""
    g = torch.Generator().manual_seed(seed)
    w = {k: torch.randn(s, generator=g) * (1.2 / (s[1] * s[2] * s[3]) ** .5 if len(s) == 4 else .1) for k, s in shapes(*what).items()}
    settle(w, "encoder.17", 1, 0, lambda: encode(w, clip(seed, 8, 32, 32)))
    settle(w, "decoder.22", .2, .5, lambda: decoder(w, torch.randn(3, what[0], 4, 4, generator=g)))
    return w


def settle(w, last, deviation, mean, run):
    """Scale the last layer of a half."""
    y = run()
    w[last + ".weight"] *= deviation / y.std()
    w[last + ".bias"] += mean - w[last + ".bias"]


def conv(w, name, x, **how):
    weight = w[name + ".weight"]
    return F.conv2d(x, weight, w.get(name + ".bias"), padding=weight.shape[-1] // 2, **how)


def memory(w, name, x):
    past = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
    h = conv(w, name + ".conv.0", torch.cat([x, past], 1)).relu()
    return (conv(w, name + ".conv.4", conv(w, name + ".conv.2", h).relu()) + x).relu()


def encoder(w, x):
    """x (T, 3, H, W) in [0, 1], T a multiple of the frames that it joins."""
    patch = round((w["encoder.0.weight"].shape[1] / 3) ** .5)
    x = conv(w, "encoder.0", F.pixel_unshuffle(x, patch)).relu()
    for b in (2, 7, 12):
        k = w["encoder.%d.conv.weight" % b].shape[1] // x.shape[1]
        x = conv(w, "encoder.%d.conv" % b, x.reshape(x.shape[0] // k, k * x.shape[1], *x.shape[2:]))
        x = conv(w, "encoder.%d" % (b + 1), x, stride=2)
        for j in range(3):
            x = memory(w, "encoder.%d" % (b + 2 + j), x)
    return conv(w, "encoder.17", x)


def super_decoder(w, z):
    x = conv(w, "decoder.0", z)
    for b in (1, 8, 15):
        for j in range(3):
            name, past = "decoder.%d.conv" % (b + j), torch.cat([torch.zeros_like(x[:1]), x[:-1]])
            h = F.conv2d(torch.cat([x, past], 1), w[name + ".0.weight"], padding=3, groups=2 * x.shape[1])
            x = x + conv(w, name + ".3", conv(w, name + ".1", h).relu())
        x = F.pixel_shuffle(conv(w, "decoder.%d" % (b + 3), x).relu(), 2)
        x = conv(w, "decoder.%d.conv" % (b + 6), x).reshape(-1, *x.shape[1:])
    return F.pixel_shuffle(conv(w, "decoder.22", x), round((w["encoder.0.weight"].shape[1] / 3) ** .5))


def decoder(w, z):
    if "decoder.0.weight" in w:
        return super_decoder(w, z)
    patch = round((w["encoder.0.weight"].shape[1] / 3) ** .5)
    x = conv(w, "decoder.1", 3 * torch.tanh(z / 3)).relu()
    for b in (3, 9, 15):
        for j in range(3):
            x = memory(w, "decoder.%d" % (b + j), x)
        n = x.shape[1]
        x = conv(w, "decoder.%d.conv" % (b + 4), F.interpolate(x, scale_factor=2))
        x = conv(w, "decoder.%d" % (b + 5), x.reshape(-1, n, *x.shape[2:]))
    return F.pixel_shuffle(conv(w, "decoder.22", x.relu()), patch)


def frames_joined(w):
    k = 1
    for b in (2, 7, 12):
        k *= w["encoder.%d.conv.weight" % b].shape[1] // w["encoder.0.weight"].shape[0]
    return k


def last_repeated(x, k):
    return torch.cat([x, x[-1:].expand(-len(x) % k, -1, -1, -1)])


def encode(w, x, rule="causal"):
    """x (T, 3, H, W) in [-1, 1]."""
    x = x * .5 + .5
    if rule == "chunks":
        chunks = last_repeated(x, 17).split(17)
        return torch.cat([encoder(w, torch.cat([torch.zeros_like(c[:3]), c])) for c in chunks])[:-3]
    return encoder(w, last_repeated(x, frames_joined(w)))


def decode(w, z, rule="causal"):
    k = frames_joined(w)
    x = decoder(w, z).clamp(0, 1) * 2 - 1
    if rule == "chunks":
        chunks = torch.cat([x, torch.zeros_like(x[:1]).expand(-len(x) % 20, -1, -1, -1)]).split(20)
        return torch.cat([c[3:] for c in chunks])[:-12]
    return x if rule == "cogvideox" and len(z) % 2 == 0 else x[k - 1:]


def clip(seed, frames, height, width):
    """A smooth moving pattern with noise, which is float."""
    g = torch.Generator().manual_seed(seed)
    t, y, x = torch.meshgrid(torch.arange(frames), torch.arange(height), torch.arange(width), indexing="ij")
    waves = [torch.sin(.3 * t + .2 * (c + 1) * x + .15 * y) for c in range(3)]
    return (.7 * torch.stack(waves, 1) + .3 * (torch.rand(frames, 3, height, width, generator=g) * 2 - 1)).float()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    w = {k: v.half() for k, v in random_weights(1, 5, 2, "4", 6, (10, 8, 6), 6).items()}
    save_file({k: v.contiguous() for k, v in w.items()}, here + "/taehv/taew2_2.safetensors")
    w, out = {k: v.double() for k, v in w.items()}, {}
    for i, (rule, frames, width) in enumerate((("causal", 5, 32), ("chunks", 20, 16))):
        x = clip(10 + i, frames, 16, width).half()
        z = encode(w, x.double(), rule)
        out[rule + "/x"], out[rule + "/latent"], out[rule + "/decoded"] = x, z.float(), decode(w, z.float().double(), rule).float()
    out["cogvideox/decoded"] = decode(w, out["causal/latent"].double(), "cogvideox").float()
    w = {k: v.half() for k, v in random_weights(2, 5, 1, "4", 3, (8, 6, 5, 4), "super").items()}
    save_file({k: v.contiguous() for k, v in w.items()}, here + "/taehv/super/taehv1_5_super.safetensors")
    w = {k: v.double() for k, v in w.items()}
    z = torch.randn(3, 5, 2, 3, generator=torch.Generator().manual_seed(3))
    out["super/latent"], out["super/decoded"] = z, decode(w, z.double()).float()
    save_file({k: v.contiguous() for k, v in out.items()}, here + "/taehv.safetensors")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    sys.exit(main())
