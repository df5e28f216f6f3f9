#!/usr/bin/env python3
"""Photographs below DIR (shared/data/photos) decoded, cropped and resized by Pillow 11.3: path and the first 16 hex digits of the
SHA-256 of the centre square by Lanczos to 64, by bicubic to 299, and of guided-diffusion's crop to 64.
usage: photos.py DIR > photos.tsv"""
import hashlib, os, sys
from PIL import Image, ImageOps
from resize import adm, square


def digest(im):
    return hashlib.sha256(im.tobytes()).hexdigest()[:16]


print("#path\tlanczos64\tbicubic299\tadm64")
for d, dirs, files in sorted(os.walk(sys.argv[1])):
    for f in sorted(files):
        if f.endswith(".jpg"):
            im = ImageOps.exif_transpose(Image.open(os.path.join(d, f))).convert("RGB")
            print(os.path.relpath(os.path.join(d, f), sys.argv[1]), digest(square(im, 64, 1)), digest(square(im, 299, 3)),
                  digest(adm(im, 64)), sep="\t")
