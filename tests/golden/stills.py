#!/usr/bin/env python3
"""Writes small pictures of many kinds into DIR (tests/golden/stills); awkward.py then says what Pillow makes of them.
usage: stills.py DIR && awkward.py DIR > stills.tsv"""
import io, os, struct, sys, zlib
import numpy as np
from PIL import Image, PngImagePlugin

W, H = 19, 13
out = sys.argv[1]
os.makedirs(out, exist_ok=True)
y, x = np.mgrid[0:H, 0:W]
rgb = np.stack([x * 13, y * 19, (x * y * 7) % 256], -1).astype(np.uint8)
grey = ((x * 9 + y * 5) % 256).astype(np.uint8)
im = Image.fromarray(rgb)


def exif(o):
    e = Image.Exif()
    e[0x0112] = o
    return e


def save(name, image, **kw):
    image.save(os.path.join(out, name), **kw)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(name, w, h, depth, color, rows, interlace=0, extra=b"", compress=True):
    raw = rows if not compress else zlib.compress(rows, 9)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, interlace)) + extra
    open(os.path.join(out, name), "wb").write(data + chunk(b"IDAT", raw) + chunk(b"IEND", b""))


def adam7(a):
    b = b""
    for y0, x0, dy, dx in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]:
        for row in a[y0::dy, x0::dx]:
            if row.size:
                b += b"\0" + row.tobytes()
    return b


for o in range(1, 9):
    save("exif%d.jpg" % o, im, quality=80, exif=exif(o))
save("exif6.png", im, exif=exif(6))
save("exif8.webp", im, lossless=True, exif=exif(8))
save("xmp3.webp", im, quality=80, xmp=b'<x tiff:Orientation="3"/>')
xmp = b'<x:xmpmeta><rdf><tiff:Orientation>5</tiff:Orientation></rdf></x:xmpmeta>'
save("xmp5.jpg", im, quality=80, xmp=xmp)
info = PngImagePlugin.PngInfo()
info.add_itxt("XML:com.adobe.xmp", xmp.decode())
save("xmp5.png", im, pnginfo=info)
info = PngImagePlugin.PngInfo()
e = exif(7).tobytes()
info.add_text("Raw profile type exif", "\nexif\n%8d\n%s\n" % (len(e), e.hex()), zip=True)
save("raw7.png", im, pnginfo=info)
save("grey.jpg", Image.fromarray(grey), quality=70)
save("cmyk.jpg", im.convert("CMYK"), quality=90)
for sub in (0, 1, 2):
    save("sampled%d.jpg" % sub, im, quality=60, subsampling=sub)
save("progressive.jpg", im, quality=75, progressive=True)
save("bit.png", Image.fromarray(grey).convert("1"))
save("grey.png", Image.fromarray(grey))
save("greyalpha.png", Image.merge("LA", [Image.fromarray(grey), Image.fromarray(255 - grey)]))
save("palette.png", im.quantize(11), transparency=3)
save("rgba.png", Image.merge("RGBA", [*im.split(), Image.fromarray(grey)]))
save("rgba.webp", Image.merge("RGBA", [*im.split(), Image.fromarray(grey)]), lossless=True)
save("lossy.webp", im, quality=60)
save("animated.webp", im, save_all=True, append_images=[im.transpose(0)], lossless=True)
save("trns.png", im, transparency=(0, 0, 0))
g16 = ((x * 23 + y * 41) % 600).astype(">u2")
png("grey16.png", W, H, 16, 0, b"".join(b"\0" + r.tobytes() for r in g16))
c16 = np.stack([x * 3000, y * 4999, x * y * 211], -1).astype(">u2")
png("rgb16.png", W, H, 16, 2, b"".join(b"\0" + r.tobytes() for r in c16))
la16 = np.stack([x * 3000, y * 4999], -1).astype(">u2")
png("greyalpha16.png", W, H, 16, 4, b"".join(b"\0" + r.tobytes() for r in la16))
png("interlaced.png", W, H, 8, 2, adam7(rgb), 1)
png("gamma.png", W, H, 8, 2, b"".join(b"\0" + r.tobytes() for r in rgb), 0, chunk(b"gAMA", struct.pack(">I", 100000)))
png("badindex.png", W, H, 8, 3, b"".join(b"\0" + (r % 7).tobytes() for r in grey), 0, chunk(b"PLTE", bytes(range(9))))
