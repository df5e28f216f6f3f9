#!/usr/bin/env python3
"""The features of lib/cluster/features.h, written a second time with numpy, of some pictures of tests/golden/stills.
usage: hogcolor.py DIR > hogcolor.txt     (a line per picture: name, then 768 numbers)"""
import sys
import numpy as np
from PIL import Image, ImageOps

NAMES = ["bit.png", "exif6.jpg", "grey.png", "palette.png", "raw7.png"]


def tent(v, lo, hi, n):
    """(len(v), n) linear weights of values on n bins over [lo, hi]; outside, the outer bins."""
    at = np.clip((v - lo) / (hi - lo) * n - .5, 0, n - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(n)[None]))


def features(path):
    im = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    s = min(im.size)
    x, y = (im.width - s) // 2, (im.height - s) // 2
    im = im.crop((x, y, x + s, y + s)).resize((64, 64), Image.BICUBIC)
    r, g, b = np.asarray(im, dtype=np.float64).transpose(2, 0, 1)
    luma, o1, o2 = (299 * r + 587 * g + 114 * b) / 255000, (r - g) / 255, (r + g - 2 * b) / 510
    dy, dx = np.gradient(luma)
    mag, at = np.hypot(dx, dy), np.mod(np.arctan2(dy, dx), np.pi) / np.pi * 9 - .5
    low = np.floor(at)
    hist = np.zeros((64, 64, 9))
    i, j = np.mgrid[0:64, 0:64]
    np.add.at(hist, (i, j, low.astype(int) % 9), mag * (1 - (at - low)))
    np.add.at(hist, (i, j, (low.astype(int) + 1) % 9), mag * (at - low))
    cell = np.maximum(0, 1 - np.abs((np.arange(64) + .5) / 8 - .5 - np.arange(8)[:, None]))
    cells = np.einsum("ai,bj,ijo->abo", cell, cell, hist)
    blocks = cells.reshape(4, 2, 4, 2, 9).transpose(0, 2, 1, 3, 4).reshape(16, 36)
    shape = blocks / (4 * np.sqrt(2) * np.sqrt((blocks ** 2).sum(1, keepdims=True) + 1))
    w = [tent(o1.ravel(), -.6, .6, 6), tent(o2.ravel(), -.6, .6, 6), tent(luma.ravel(), 0, 1, 4)]
    colour = np.sqrt(.4 * np.einsum("ia,ib,ic->abc", *w) / 4096)
    means = np.stack([p.reshape(4, 16, 4, 16).mean((1, 3)) for p in (luma, o1, o2)], -1)
    means -= means.mean((0, 1))
    layout = means * np.sqrt(.1) / max(.5, np.sqrt((means ** 2).sum()))
    return np.concatenate([shape.ravel(), colour.ravel(), layout.ravel()])


for name in NAMES:
    print(name, " ".join("%.6g" % v for v in features(f"{sys.argv[1]}/{name}")))
