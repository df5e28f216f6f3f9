# Writes tests/golden/imagehash_values.h: perceptual hashes by imagehash of generated pictures, and transforms by scipy.fftpack, bit for bit.
#   python imagehash_values.py > imagehash_values.h      needs imagehash 4.3.2, numpy, scipy, Pillow < 13
# tests/unit/test_imagehash.c makes the same pictures by the same rules.
import numpy
import scipy.fftpack
import imagehash
from PIL import Image

N = 60


def pixels(i):
    """Picture i: its size and kind follow from i. All arithmetic is in integers."""
    w, h = 8 + (i * 37) % 120, 8 + (i * 53) % 90
    x, y = numpy.meshgrid(numpy.arange(w), numpy.arange(h))
    kind = i % 6
    if kind == 0:
        v = x * 0 + i * 4  # flat
    elif kind == 1:
        v = x * 255 // (w - 1)  # equal rows
    elif kind == 2:
        v = y * 255 // (h - 1)  # equal columns
    elif kind == 3:
        v = (numpy.minimum(x, w - 1 - x) * 9 + numpy.minimum(y, h - 1 - y) * 7) % 256  # symmetric
    elif kind == 4:
        v = (x * x * 3 + y * y * 5 + x * y * 7 + i * 11) // 16 % 256
    else:
        v = ((x * 2654435761 + y * 40503 + i * 97) % 4294967296) >> 24  # noise
    return v.astype(numpy.uint8)


print("/* Made by imagehash_values.py with imagehash %s, scipy %s, Pillow %s. */" % (imagehash.__version__, scipy.__version__, Image.__version__))
print("static const uint64_t imagehash_values[%d][3] = {" % N)
for i in range(N):
    im = Image.fromarray(pixels(i))
    assert im.mode == "L"
    print("    {0x%s, 0x%s, 0x%s}," % (imagehash.phash(im), imagehash.dhash(im), imagehash.average_hash(im)))
print("};")
print("static const double imagehash_dct_values[6][32] = {")
for i in range(6):
    row = numpy.array([(k * k * (i + 3) + k * 29 + i * 71) % 256 for k in range(32)], dtype=float)
    if i == 5:
        row = numpy.full(32, 77.0)
    values = [v.hex() for v in scipy.fftpack.dct(row).tolist()]
    print("    {" + ",\n     ".join(", ".join(values[k : k + 4]) for k in range(0, 32, 4)) + "},")
print("};")
