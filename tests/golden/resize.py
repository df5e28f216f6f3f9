#!/usr/bin/env python3
"""Pillow's resize, reduce and centre crops of synthetic pictures, as tests/golden/resize.tsv: what, the sizes, and the
first 16 hex digits of the SHA-256 of the result. The picture is pixel(x, y, c) = top byte of a 32-bit mix, see test_resize.c;
odd seeds give mode F planes of mix / 2^32 * 4 - 2 in float32. usage: resize.py > resize.tsv,
with Pillow 11.3: from 13 on it goes columns first for some shapes."""
import hashlib
import numpy as np
from PIL import Image

F = {"box": 4, "bilinear": 2, "hamming": 5, "bicubic": 3, "lanczos": 1}
SIZES = [(1, 1, 3, 2), (7, 5, 7, 3), (7, 5, 4, 5), (16, 16, 16, 16), (33, 20, 64, 51), (50, 37, 8, 8), (200, 150, 32, 32),
         (97, 131, 64, 64), (640, 8, 17, 40), (5, 5, 300, 1), (123, 77, 1, 1), (64, 300, 299, 299)]


def mix(w, h, c):
    x, y, k = np.meshgrid(np.arange(w, dtype=np.uint32), np.arange(h, dtype=np.uint32), np.arange(c, dtype=np.uint32), indexing="xy")
    v = x * np.uint32(0x9E3779B1) + y * np.uint32(0x85EBCA77) + k * np.uint32(0xC2B2AE3D)
    v ^= v >> np.uint32(15)
    v *= np.uint32(0x2C1B3C6D)
    v ^= v >> np.uint32(12)
    v *= np.uint32(0x297A2D39)
    v ^= v >> np.uint32(15)
    return v


def picture(w, h, c):
    # every third row and column saturated, so that clipping after each pass matters
    p = (mix(w, h, c) >> np.uint32(24)).astype(np.uint8)
    p[::3] = np.where(p[::3] > 127, 255, 0)
    return Image.fromarray(p[:, :, 0] if c == 1 else p)


def plane(w, h):
    return Image.fromarray((mix(w, h, 1)[:, :, 0].astype(np.float64) / 4294967296.0 * 4 - 2).astype(np.float32))


def adm(im, size):
    while min(*im.size) >= 2 * size:
        im = im.resize(tuple(x // 2 for x in im.size), resample=Image.BOX)
    scale = size / min(*im.size)
    im = im.resize(tuple(round(x * scale) for x in im.size), resample=Image.BICUBIC)
    a = np.array(im)
    y, x = (a.shape[0] - size) // 2, (a.shape[1] - size) // 2
    return Image.fromarray(a[y:y + size, x:x + size])


def square(im, size, f):
    w, h = im.size
    s = min(w, h)
    x, y = (w - s) // 2, (h - s) // 2
    return im.crop((x, y, x + s, y + s)).resize((size, size), f)


def row(what, c, w, h, ow, oh, im):
    print(what, c, w, h, ow, oh, hashlib.sha256(im.tobytes()).hexdigest()[:16], sep="\t")


if __name__ == '__main__':
    print("#what\tchannels\tw\th\twidth\theight\tsha256")
    for w, h, ow, oh in SIZES:
        for name, f in F.items():
            for c in (1, 3):
                row(name, c, w, h, ow, oh, picture(w, h, c).resize((ow, oh), f))
            row(name, 0, w, h, ow, oh, plane(w, h).resize((ow, oh), f))
    for w, h, fx, fy in [(10, 7, 2, 2), (33, 20, 3, 3), (33, 20, 5, 1), (200, 151, 7, 12), (9, 9, 20, 20), (64, 48, 1, 2), (300, 10, 250, 4)]:
        for c in (1, 3):
            row("reduce", c, w, h, fx, fy, picture(w, h, c).reduce((fx, fy)))
    for w, h, s in [(640, 427, 64), (131, 97, 32), (31, 45, 64), (75, 50, 20), (500, 333, 61)]:
        row("adm", 3, w, h, s, s, adm(picture(w, h, 3), s))
        row("square", 3, w, h, s, s, square(picture(w, h, 3), s, 1))
