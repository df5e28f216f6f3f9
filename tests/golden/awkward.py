#!/usr/bin/env python3
"""Pillow's result for every JPEG, PNG and WebP below DIR: path, size, and the first 16 hex digits of the SHA-256 of
exif_transpose + convert("RGB") and convert("L"), or "refused". usage: awkward.py DIR > awkward.tsv"""
import hashlib, os, sys, warnings
from PIL import Image, ImageOps

warnings.simplefilter("ignore")
Image.MAX_IMAGE_PIXELS = 1 << 26


def kind(path):
    b = open(path, "rb").read(16)
    return b[:3] == b"\xff\xd8\xff" or b[:8] == b"\x89PNG\r\n\x1a\n" or (b[:4] == b"RIFF" and b[8:15] == b"WEBPVP8")


def digest(im):
    return hashlib.sha256(im.tobytes()).hexdigest()[:16]


def row(path):
    try:
        im = Image.open(path)
        if im.size[0] * im.size[1] > Image.MAX_IMAGE_PIXELS:
            return "large\t-\t-"
        im = ImageOps.exif_transpose(im)
        return "%dx%d\t%s\t%s" % (*im.size, digest(im.convert("RGB")), digest(im.convert("L")))
    except Exception:
        return "refused\t-\t-"


root = sys.argv[1]
print("#path\tsize\trgb\tgrey")
for d, dirs, files in sorted(os.walk(root)):
    for f in sorted(files):
        p = os.path.join(d, f)
        if kind(p):
            print(os.path.relpath(p, root) + "\t" + row(p))
