"""Logits of I3D with weights from a formula, by PyTorch's own three-dimensional layers.

    python i3d.py >i3d_values.h        needs torch and numpy

The network is written from the paper and TensorFlow's rule of padding (SAME), with the names of pytorch-i3d. tests/unit/test_i3d.c makes the same
weights and the same clip."""
import numpy as np
import torch
import torch.nn.functional as F

EPS = 1e-5


def uniform(n, stream):
    """n numbers in [-1, 1) from integers alone."""
    x = (np.arange(n, dtype=np.uint64) + np.uint64(stream) * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x45D9F3B), (16, 0x45D9F3B), (16, 1)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return x.astype(np.float64) / 2**31 - 1


class Weights:
    """Gives the next tensor, and keeps all of them by name. uniform: the source of numbers, as above."""

    def __init__(self, uniform=uniform):
        self.uniform, self.named = uniform, {}

    def next(self, name, shape, scale, offset=0.0):
        if name not in self.named:
            v = offset + scale * self.uniform(int(np.prod(shape)), len(self.named) + 1)
            self.named[name] = torch.from_numpy(v.astype(np.float32)).reshape(shape)
        return self.named[name]


W = Weights()


def pads(shape, k, s):
    out = []
    for n, kk, ss in reversed(list(zip(shape, k, s))):
        total = max((-(-n // ss) - 1) * ss + kk - n, 0)
        out += [total // 2, total - total // 2]
    return out


def conv(x, name, out, k, s=1):
    c = x.shape[1]
    w = W.next(name + ".conv3d.weight", (out, c, k, k, k), (6 / (c * k**3)) ** 0.5)
    bn = [W.next(name + ".bn." + part, (out,), scale, offset)
          for part, scale, offset in (("weight", 0.2, 1), ("bias", 0.1, 0), ("running_mean", 0.1, 0), ("running_var", 0.5, 1))]
    x = F.conv3d(F.pad(x, pads(x.shape[2:], (k,) * 3, (s,) * 3)), w, stride=s)
    return F.relu(F.batch_norm(x, bn[2], bn[3], bn[0], bn[1], training=False, eps=EPS))


def pool(x, k, s):
    return F.max_pool3d(F.pad(x, pads(x.shape[2:], k, s)), k, s)


def mixed(x, name, o):
    name = "Mixed_" + name
    b0 = conv(x, name + ".b0", o[0], 1)
    b1 = conv(conv(x, name + ".b1a", o[1], 1), name + ".b1b", o[2], 3)
    b2 = conv(conv(x, name + ".b2a", o[3], 1), name + ".b2b", o[4], 3)
    return torch.cat([b0, b1, b2, conv(pool(x, (3, 3, 3), (1, 1, 1)), name + ".b3b", o[5], 1)], 1)


def i3d(x):
    """Mean logits (n, 400) of x (n, 3, frames, 224, 224)."""
    x = pool(conv(x, "Conv3d_1a_7x7", 64, 7, 2), (1, 3, 3), (1, 2, 2))
    x = conv(conv(x, "Conv3d_2b_1x1", 64, 1), "Conv3d_2c_3x3", 192, 3)
    x = pool(x, (1, 3, 3), (1, 2, 2))
    x = mixed(mixed(x, "3b", (64, 96, 128, 16, 32, 32)), "3c", (128, 128, 192, 32, 96, 64))
    x = pool(x, (3, 3, 3), (2, 2, 2))
    for name, o in (("4b", (192, 96, 208, 16, 48, 64)), ("4c", (160, 112, 224, 24, 64, 64)), ("4d", (128, 128, 256, 24, 64, 64)),
                    ("4e", (112, 144, 288, 32, 64, 64)), ("4f", (256, 160, 320, 32, 128, 128))):
        x = mixed(x, name, o)
    x = pool(x, (2, 2, 2), (2, 2, 2))
    x = mixed(mixed(x, "5b", (256, 160, 320, 32, 128, 128)), "5c", (384, 192, 384, 48, 128, 128))
    x = F.avg_pool3d(x, (2, 7, 7), 1)
    x = F.conv3d(x, W.next("logits.conv3d.weight", (400, 1024, 1, 1, 1), (3 / 1024) ** 0.5), W.next("logits.conv3d.bias", (400,), 0.1))
    return x.flatten(2).mean(2)


def clip():
    t, y, x, c = np.meshgrid(np.arange(16), np.arange(224), np.arange(224), np.arange(3), indexing="ij")
    noise = uniform(16 * 224 * 224 * 3, 1000).reshape(t.shape)
    return torch.from_numpy((0.8 * np.sin(0.07 * (c + 1) * y + 0.05 * x + 0.4 * t) + 0.2 * noise).astype(np.float32))


if __name__ == "__main__":
    with torch.no_grad():
        v = i3d(clip().permute(3, 0, 1, 2)[None])[0]
    print("/* Made by i3d.py. */")
    print("static const float golden_i3d[400] = {")
    for i in range(0, 400, 8):
        print("    " + " ".join("%.7ef," % z for z in v[i:i + 8].tolist()))
    print("};")
