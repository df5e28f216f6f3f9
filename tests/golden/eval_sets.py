"""Small sets of pictures and the expected numbers of ddm-eval-fid: python eval_sets.py; writes eval-a.tar.gz (reference), eval-b.tar.gz
(samples, three of them copies), eval-c.tar.gz (held out), eval-values.txt, eval-field.txt and eval-train.txt beside itself."""
import gzip
import io
import os
import tarfile

import numpy as np
from PIL import Image

import formulas
from metric_values import kd, pix, rgb8

here = os.path.dirname(os.path.abspath(__file__))
SIDE = 16


def make(rng, grey):
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    cx, cy, r = rng.uniform(2, SIDE - 2, 2).tolist() + [rng.uniform(2, 5)]
    disc = ((x - cx) ** 2 + (y - cy) ** 2 < r * r)[..., None]
    fore, back = rng.integers(0, 256, 3), rng.integers(0, 256, 3)
    p = np.where(disc, fore, back + (x * rng.integers(-4, 5))[..., None] + grey)
    return (np.clip(p, 0, 255).astype(int) // 4 * 4).astype(np.uint8)


def write(name, pictures):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for i, p in enumerate(pictures):
            png = io.BytesIO()
            Image.fromarray(p).save(png, "PNG", optimize=True)
            info = tarfile.TarInfo(f"{i:04d}.png")
            info.size = len(png.getvalue())
            t.addfile(info, io.BytesIO(png.getvalue()))
    with open(os.path.join(here, name), "wb") as f:
        f.write(gzip.compress(raw.getvalue(), 9, mtime=0))


rng = np.random.default_rng(7)
a = [make(rng, 0) for _ in range(30)]
b = a[3:6] + [make(rng, 60) for _ in range(21)]
c = [make(rng, 0) for _ in range(16)]
for name, s in ("a", a), ("b", b), ("c", c):
    write(f"eval-{name}.tar.gz", s)


def memorised(samples, train):
    hits = 0
    for s in samples:
        d = sorted(np.sqrt(((s.astype(float) - t) ** 2).sum()) for t in train)
        hits += d[0] < d[1] / 3
    return hits / len(samples)


with open(os.path.join(here, "eval-values.txt"), "w") as f:
    for name, fn in ("pix", pix), ("rgb8", rgb8):
        fa, fb, fc = (np.stack([fn(p) for p in s]).astype(np.float32) for s in (a, b, c))
        for end, x, y in ("", fa, fb), ("-heldout", fc, fb), ("-heldout-floor", fa, fc):
            value, se = kd(x, y)
            f.write(f"kd-{name}{end} {value:.9g}\nkd-{name}{end}-se {se:.9g}\n")
    f.write(f"memorised {memorised(b, a):.9g}\nmemorised-floor {memorised(c, a):.9g}\n")

# The usual metrics on these features: --metrics ... --protocol torch-fidelity --subsets 20 --subset-size 10
with open(os.path.join(here, "eval-field.txt"), "w") as f:
    for name, fn in ("pix", pix), ("rgb8", rgb8):
        x, y = (np.stack([fn(p) for p in s]).astype(np.float32).astype(float) for s in (a, b))
        mean, sd = formulas.kid(x, y, 20, 10, 2020)
        precision, recall = formulas.precision_recall(x, y)
        density, coverage = formulas.prdc(x, y, 5)
        unit = lambda t: formulas.unit(t).astype(np.float32).astype(float)
        for key, value in {"fid": formulas.fid(x, y), "kid": mean, "precision": precision, "recall": recall, "density": density, "coverage": coverage,
                           "authenticity": formulas.authenticity(x, y), "cmmd": formulas.cmmd(unit(x), unit(y)), "vendi": formulas.vendi(y)}.items():
            f.write(f"{key}-{name} {value:.9g}\n")
        f.write(f"kid-{name}-sd {sd:.9g}\n")

# The same samples against c as the reference, where authenticity takes a (--train a) or c: --metrics pr,dc,authenticity
with open(os.path.join(here, "eval-train.txt"), "w") as f:
    for name, fn in ("pix", pix), ("rgb8", rgb8):
        x, y, r = (np.stack([fn(p) for p in s]).astype(np.float32).astype(float) for s in (a, b, c))
        precision, recall = formulas.precision_recall(r, y)
        density, coverage = formulas.prdc(r, y, 5)
        for key, value in {"precision": precision, "recall": recall, "density": density, "coverage": coverage,
                           "authenticity-train": formulas.authenticity(x, y), "authenticity-reference": formulas.authenticity(r, y)}.items():
            f.write(f"{key}-{name} {value:.9g}\n")
