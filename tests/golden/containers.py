"""Goldens of the container formats, from numpy: tests/golden/npy/*, and the digests in test_npy.c and test_safetensors.c.

Run from the root of the repository: python3 tests/golden/containers.py
"""
import hashlib
import io
import os
import struct
import sys
import zipfile

import numpy as np

out = "tests/golden/npy"
os.makedirs(out, exist_ok=True)
a = np.arange(24, dtype=np.float64).reshape(2, 3, 4) - 7.5

for code in ("f4", "f8", "f2", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8"):
    np.save(f"{out}/{code}.npy", (a * 2 if code[0] != "u" else a * 2 + 15).astype("<" + code))
np.save(f"{out}/fortran.npy", np.asfortranarray(a[0].astype("<f4")))
np.save(f"{out}/fortran3.npy", np.asfortranarray(a.astype("<f8")))
np.save(f"{out}/scalar.npy", np.float32(2.5))
np.save(f"{out}/empty.npy", np.zeros((0, 3), "<f4"))
np.save(f"{out}/bool.npy", a[0] > 0)
np.save(f"{out}/bigendian.npy", a.astype(">f4"))
for code in ("f8", "f2", "i8", "i4", "i2"):
    np.save(f"{out}/big-{code}.npy", np.asfortranarray((a * 2).astype(">" + code)) if code == "i4" else (a * 2).astype(">" + code))
np.savez(f"{out}/big.npz", x=(a * 2).astype(">i4"), y=(a * 2 + 15).astype(">u8"))
np.save(f"{out}/complex.npy", a.astype("<c8"))
np.save(f"{out}/object.npy", np.array([{}, None], dtype=object), allow_pickle=True)
np.save(f"{out}/struct.npy", np.zeros(2, dtype=[("x", "<f4"), ("y", "<i4")]))
np.save(f"{out}/text.npy", np.array(["ab", "c"]))
for version in ((2, 0), (3, 0)):
    with open(f"{out}/version{version[0]}.npy", "wb") as f:
        np.lib.format.write_array(f, a.astype("<f4"), version=version)
np.savez(f"{out}/stored.npz", mu=a[0, 0], sigma=a.astype("<f4"), n=np.int64(7))
np.savez_compressed(f"{out}/deflated.npz", mu=a[0, 0], sigma=np.zeros((64, 64)), n=np.int64(7))

# Members as a zip writer that cannot seek writes them: sizes only after the data and in the directory.
class Pipe(io.RawIOBase):
    def __init__(self, f):
        self.f = f

    def writable(self):
        return True

    def write(self, b):
        return self.f.write(b)


with open(f"{out}/streamed.npz", "wb") as f, zipfile.ZipFile(Pipe(f), "w", zipfile.ZIP_DEFLATED) as z:
    b = io.BytesIO()
    np.save(b, a)
    z.writestr(zipfile.ZipInfo("x.npy"), b.getvalue(), zipfile.ZIP_DEFLATED)

# Conversions: every half to float; and floats to half: every 4099th bit pattern, NaN left out of both.
h = np.arange(65536, dtype=np.uint16).view(np.float16)
print("halves ", hashlib.sha256(h[~np.isnan(h)].astype("<f4").tobytes()).hexdigest())
with np.errstate(all="ignore"):
    f = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    f = f[~np.isnan(f)]
    print("to half", hashlib.sha256(f.astype("<f2").tobytes()).hexdigest())
    u = f.view(np.uint32).astype(np.uint64)
    print("to bf16", hashlib.sha256(((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2").tobytes()).hexdigest())

# A safetensors file built by the specification, for comparison byte by byte.
header = (b'{"__metadata__":{"format":"pt","k\\"":"\\\\"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},'
          b'"a":{"dtype":"F16","shape":[3],"data_offsets":[16,22]},"z":{"dtype":"U8","shape":[],"data_offsets":[22,23]}}')
header += b" " * (-len(header) % 8)
data = np.array([1, 2, 3, 4], "<f4").tobytes() + np.array([0.5, -2, 0], "<f2").tobytes() + b"\x07"
with open("tests/golden/small.safetensors", "wb") as o:
    o.write(struct.pack("<Q", len(header)) + header + data)
print(np.__version__, file=sys.stderr)
