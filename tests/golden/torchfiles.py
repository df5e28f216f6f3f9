"""Goldens of PyTorch's files: tests/golden/torch/*, written by torch, and values.tsv, what torch.load makes of them; bad-*: hostile ones.

Run from the root of the repository, with a Python that has torch: python3 tests/golden/torchfiles.py
"""
import argparse
import collections
import hashlib
import io
import json
import os
import pickle
import struct
import sys
import zipfile
import zlib

import numpy as np
import torch

out = "tests/golden/torch"
os.makedirs(out, exist_ok=True)
torch.manual_seed(1)
g = torch.Generator().manual_seed(1)
rows = []


def digest(t):
    return hashlib.sha256(t).hexdigest()[:16]


def walk(v, name=""):
    if isinstance(v, torch.Tensor):
        yield name or "tensor", v
    elif isinstance(v, dict):
        for k, x in v.items():
            yield from walk(x, f"{name}.{k}" if name else str(k))
    elif isinstance(v, (list, tuple)):
        for i, x in enumerate(v):
            yield from walk(x, f"{name}.{i}" if name else str(i))


TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float8_e4m3fn: "F8_E4M3",
         torch.float8_e5m2: "F8_E5M2", torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
         torch.uint8: "U8", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.bool: "BOOL"}


def record(file, root, v):
    """One line a tensor: file, root, name, type, shape, digests of the elements as float32 and as bfloat16."""
    for name, t in walk(v):
        if t.dtype not in TYPES or t.is_sparse:
            continue
        f = t.detach().to(torch.float32).contiguous()
        b = f.to(torch.bfloat16).view(torch.int16).numpy().tobytes()
        shape = ",".join(map(str, t.shape)) or "-"
        rows.append((file, root, name, TYPES[t.dtype], shape, digest(f.numpy().tobytes()), digest(b)))


def save(file, v, **how):
    torch.save(v, f"{out}/{file}", **how)
    return torch.load(f"{out}/{file}", weights_only=False)


base = torch.randn(4, 6, generator=g)
cube = torch.randn(2, 3, 5, generator=g)
everything = {
    "base": base,
    "transposed": base.t(),
    "row": base[2],
    "column": base[:, 3],
    "step": base[1:, ::2],
    "expanded": base[:1, :1].expand(3, 5),
    "permuted": cube.permute(2, 0, 1),
    "corner": cube[1:, 1:, 2:4],
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "integers": {str(t).split(".")[1]: torch.tensor([0, 1, 100]).to(t) for t in
                 (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)},
    "signed": torch.tensor([-1, -100, 7], dtype=torch.int32),
    "half": torch.tensor([0.1, -65504, float("inf"), 6e-8]).half(),
    "brain": (base * 100).bfloat16().t(),
    "double": base.double() * 1e-3,
    "list": [torch.arange(3), (torch.arange(2.0), "text")],
    "ordered": collections.OrderedDict([("a.b", torch.ones(1)), ("c", torch.zeros(1))]),
    7: torch.tensor([7.0]),
    "complex": torch.ones(2, dtype=torch.complex64),
    "sparse": torch.eye(3).to_sparse(),
    "size": base.shape,
    "dtype": torch.float32,
    "number": np.float64(1.5),
    "array": np.arange(3),
    "args": argparse.Namespace(lr=1e-4, name="x", hidden=torch.ones(3)),
    "none": None,
    "big": 1 << 100,
    "float": 0.5,
    "true": True,
}
new = {"e4m3": torch.linspace(-448, 448, 33).to(torch.float8_e4m3fn), "e5m2": torch.linspace(-1000, 1000, 33).to(torch.float8_e5m2),
       "e5m2t": torch.randn(3, 4, generator=g).to(torch.float8_e5m2).t(), "u16": torch.tensor([1, 65535], dtype=torch.uint16),
       "u32": torch.tensor([1, 2**32 - 1], dtype=torch.uint32), "u64": torch.tensor([1, 2**53], dtype=torch.uint64),
       "all8": torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)[:127]}

record("zip.pt", "", save("zip.pt", everything))
no_complex = {k: v for k, v in everything.items() if k not in ("complex",)}
record("legacy.pt", "", save("legacy.pt", no_complex, _use_new_zipfile_serialization=False))
record("new.pt", "", save("new.pt", new))
torch.save(new, f"{out}/newlegacy.pt", _use_new_zipfile_serialization=False)
record("newlegacy.pt", "", new)  # which torch writes and does not read
record("protocol4.pt", "", save("protocol4.pt", everything["ordered"], pickle_protocol=4))
record("single.pt", "", save("single.pt", base.t()))
record("list.pt", "", save("list.pt", [base, cube]))

# As in fast-DiT, SiT and REPA: AdamW's state beside the weights.
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
ema = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
opt = torch.optim.AdamW(net.parameters())
net(torch.randn(2, 3)).sum().backward()
opt.step()
check = save("checkpoint.pt", {"model": net.state_dict(), "ema": ema.state_dict(), "opt": opt.state_dict(),
                               "args": argparse.Namespace(lr=1e-4), "steps": 5})
record("checkpoint.pt", "", check)
record("checkpoint.pt", "model", check["model"])
record("checkpoint.pt", "opt.state", check["opt"]["state"])
record("checkpoint.pt", "?", check["ema"])  # ?: the reader chooses
record("ddp.pt", "?", {k[len("module."):]: v for k, v in save("ddp.pt", {"module." + k: v for k, v in net.state_dict().items()}).items()})

# Without checksums; compressed, with ZIP64 fields; from a big-endian machine.
torch.serialization.set_crc32_options(False)
record("nosum.pt", "", save("nosum.pt", {"a": base}))
torch.serialization.set_crc32_options(True)


def again(file, change=lambda name, data: data, method=zipfile.ZIP_STORED, z64=False, source="zip.pt"):
    with zipfile.ZipFile(f"{out}/{source}") as old, zipfile.ZipFile(f"{out}/{file}", "w", method) as z:
        for m in old.infolist():
            info = zipfile.ZipInfo(m.filename)
            info.compress_type = method
            with z.open(info, "w", force_zip64=z64) as f:
                f.write(change(m.filename, old.read(m)))


again("deflated.pt", method=zipfile.ZIP_DEFLATED, z64=True)
record("deflated.pt", "", torch.load(f"{out}/zip.pt", weights_only=False))
save("bigsource.pt", {"a": base.t(), "b": base, "h": everything["half"], "i": torch.arange(5, dtype=torch.int16)})
sizes = {"0": 4, "1": 2, "2": 2}


def turn(name, data):
    key = name.split("/")[-1]
    if name.endswith("byteorder"):
        return b"big"
    return np.frombuffer(data, f"V{sizes[key]}").tobytes() and b"".join(
        data[i:i + sizes[key]][::-1] for i in range(0, len(data), sizes[key])) if "/data/" in name else data


again("big.pt", turn, source="bigsource.pt")
record("big.pt", "", torch.load(f"{out}/bigsource.pt"))
os.remove(f"{out}/bigsource.pt")

# In several files.
os.makedirs(f"{out}/parts", exist_ok=True)
state = dict(net.state_dict())
names = list(state)
where = {n: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, n in enumerate(names)}
for part in sorted(set(where.values())):
    torch.save({n: state[n] for n in names if where[n] == part}, f"{out}/parts/{part}")
with open(f"{out}/parts/pytorch_model.bin.index.json", "w") as f:
    json.dump({"metadata": {"total_size": 124}, "weight_map": where}, f)
record("parts", "?", state)

# The ensemble of tiny-model.tar in PyTorch's layouts: legacy, a training checkpoint whose average is used, several files.
import gzip
import tarfile

from safetensors.torch import load

tiny = tarfile.open("tests/golden/tiny-model.tar")
files = {}


def member(name):
    return tiny.extractfile(name).read()


def saved(v, **how):
    b = io.BytesIO()
    torch.save(v, b, **how)
    return b.getvalue()


def expert(i):
    return load(member(f"ensemble/expert_{i}/diffusion_pytorch_model.safetensors"))


for i in range(3):
    files[f"torch/expert_{i}/config.json"] = member(f"ensemble/expert_{i}/config.json")
files["torch/router/config.json"] = member("ensemble/router/config.json")
files["torch/router/pytorch_model.bin"] = saved(load(member("ensemble/router/model.safetensors")))
files["torch/expert_0/pytorch_model.bin"] = saved(expert(0), _use_new_zipfile_serialization=False)
files["torch/expert_1/0050000.pt"] = saved({"model": {k: v * 0 for k, v in expert(1).items()}, "ema": {k: v.t().contiguous().t() if v.dim() == 2 else v for k, v in expert(1).items()},
                                            "args": argparse.Namespace(seed=0)})
tensors = expert(2)
where = {k: f"diffusion_pytorch_model-{i % 2}.bin" for i, k in enumerate(tensors)}
for part in sorted(set(where.values())):
    files[f"torch/expert_2/{part}"] = saved({k: v for k, v in tensors.items() if where[k] == part})
files["torch/expert_2/diffusion_pytorch_model.bin.index.json"] = json.dumps({"weight_map": where}).encode()
b = io.BytesIO()
with tarfile.open(fileobj=b, mode="w", format=tarfile.USTAR_FORMAT) as t:
    for name in sorted(files):
        info = tarfile.TarInfo(name)
        info.size = len(files[name])
        t.addfile(info, io.BytesIO(files[name]))
with open(f"{out}/ensemble.tar.gz", "wb") as f:
    f.write(gzip.compress(b.getvalue(), mtime=0))


# Hostile files.
class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/ddm-pickle-was-run",)


def zipped(file, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(f"{out}/{file}", "w", method) as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name), data, method)


def of_pickle(file, data, more=()):
    zipped(file, [("a/data.pkl", data), ("a/byteorder", b"little"), *more, ("a/version", b"3\n")])


torch.save({"w": base, "x": Evil(), "l": [Evil()]}, f"{out}/bad-call.pt")
torch.save(Evil(), f"{out}/bad-root.pt")
of_pickle("bad-deep.pt", b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".")
of_pickle("bad-cycle.pt", b"\x80\x02]q\x00h\x00a.")
laugh = b"\x80\x02]q\x00K\x01a"
for i in range(30):
    laugh += b"](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 9 + b"eq" + bytes([i + 1])
of_pickle("bad-laughs.pt", laugh + b".")
of_pickle("bad-memo.pt", b"\x80\x02]r\xff\xff\xff\xff.")
of_pickle("bad-length.pt", b"\x80\x02X\xff\xff\xff\xffab.")
of_pickle("bad-stack.pt", b"\x80\x02(0t.")
of_pickle("bad-opcode.pt", b"\x80\x02\xff.")


def tensor(numel=6, offset=0, size=(6,), stride=(1,), key="0", cls="FloatStorage", name="w"):
    def num(n):
        if not -2**31 <= n < 2**31:
            b = n.to_bytes(9, "little", signed=True)
            return b"\x8a\x09" + b
        return b"J" + struct.pack("<i", n)

    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s.encode()

    def tup(v):
        return b"(" + b"".join(map(num, v)) + b"t"

    return (b"\x80\x02}" + text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\n" + cls.encode() +
            b"\n" + text(key) + text("cpu") + num(numel) + b"tQ" + num(offset) + tup(size) + tup(stride) +
            b"\x89ccollections\nOrderedDict\n)RtRs.")


data = [("a/data/0", bytes(24))]
of_pickle("ok-tensor.pt", tensor(), data)
of_pickle("bad-offset.pt", tensor(offset=1), data)
of_pickle("bad-negative.pt", tensor(stride=(-1,), offset=5), data)
of_pickle("bad-size.pt", tensor(numel=7, size=(7,)), data)
of_pickle("bad-overflow.pt", tensor(size=(2**31 - 1, 2**31 - 1, 2**31 - 1), stride=(0, 0, 0)), data)
of_pickle("bad-repeat.pt", tensor(size=(2**20, 2**15), stride=(0, 0)), data)
of_pickle("bad-many.pt", tensor(size=(2**20, 2**17), stride=(0, 0)), data)
of_pickle("ok-twice.pt", tensor(size=(2,))[:-1] + tensor(size=(4,), offset=2)[3:], data)  # one key, two values: the last counts
of_pickle("bad-stride.pt", tensor(size=(3, 2), stride=(2**62, 2)), data)
of_pickle("bad-missing.pt", tensor(key="../0"), data)
of_pickle("bad-numel.pt", tensor(numel=2**62), data)
of_pickle("bad-class.pt", tensor(cls="ComplexFloatStorage"), data)
of_pickle("bad-rank.pt", tensor(size=(1,) * 9, stride=(1,) * 9), data)

# A directory that points twice at one place, that names another member, that holds impossible numbers.
raw = bytearray(open(f"{out}/ok-tensor.pt", "rb").read())
# One member inside another: storage 0 is a part of storage 1, including its header.
inner = b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0x21, zlib.crc32(bytes(24)), 24, 24, 8, 0) + b"a/data/0" + bytes(24)
of_pickle("bad-nested.pt", tensor(), [("a/data/1", inner), ("a/data/0", bytes(24))])
b = bytearray(open(f"{out}/bad-nested.pt", "rb").read())


def central(b, i):
    at = -1
    for _ in range(i + 1):
        at = b.index(b"PK\1\2", at + 1)
    return at


at = -1
for _ in range(4):
    at = b.index(b"PK\1\2", at + 1)
b[at + 42:at + 46] = struct.pack("<I", bytes(b).index(inner))
open(f"{out}/bad-nested.pt", "wb").write(b)

b = bytearray(raw)
first, third = central(b, 0), central(b, 2)
b[third + 42:third + 46] = b[first + 42:first + 46]
open(f"{out}/bad-overlap.pt", "wb").write(b)
b = bytearray(raw)
b[third + 46 + 7:third + 46 + 8] = b"1"
open(f"{out}/bad-renamed.pt", "wb").write(b)
b = bytearray(raw)
b[third + 20:third + 28] = struct.pack("<II", 2**31, 2**31)
open(f"{out}/bad-claims.pt", "wb").write(b)
b = bytearray(raw)
b[first + 16:first + 20] = struct.pack("<I", 12345)
open(f"{out}/bad-sum.pt", "wb").write(b)
zipped("bad-bomb.pt", [("a/data.pkl", bytes(70_000_000)), ("a/version", b"3\n")], zipfile.ZIP_DEFLATED)
zipped("bad-script.pt", [("a/data.pkl", pickle.dumps({}, 2)), ("a/constants.pkl", pickle.dumps((), 2)), ("a/version", b"3\n")])
legacy = open(f"{out}/legacy.pt", "rb").read()
open(f"{out}/bad-cut.pt", "wb").write(legacy[:-5])
open(f"{out}/bad-more.pt", "wb").write(legacy + b"x")
b = io.BytesIO()
with tarfile.open(fileobj=b, mode="w:", format=tarfile.PAX_FORMAT) as t:
    for name in ("sys_info", "pickle", "tensors", "storages"):
        t.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
open(f"{out}/bad-tar.pt", "wb").write(b.getvalue()[:2560])

# First inputs of tests/fuzz/fuzz_torchfile: small, and without checksums, which would reject altered files at once.
corpus = "tests/fuzz/corpus/torchfile"
os.makedirs(corpus, exist_ok=True)
small = {"model": {"a": base.t(), "b": torch.nn.Parameter(cube[0])}, "l": [torch.ones(2).bfloat16(), 3, "x"],
         "o": collections.OrderedDict(c=torch.zeros(0)), "args": argparse.Namespace(lr=.1), "n": np.float64(2)}
torch.serialization.set_crc32_options(False)
torch.save(small, f"{corpus}/small.pt")
torch.save(small, f"{corpus}/protocol4.pt", pickle_protocol=4)
torch.serialization.set_crc32_options(True)
torch.save(small, f"{corpus}/legacy.pt", _use_new_zipfile_serialization=False)
torch.save({"f": new["e5m2t"], "u": new["u16"]}, f"{corpus}/newlegacy.pt", _use_new_zipfile_serialization=False)
with open(f"{corpus}/tensor.pkl", "wb") as f:
    f.write(tensor())
with open(f"{corpus}/protocol0.pkl", "wb") as f:
    pickle.dump({"a": [1, 2.5, (True, None)], "b": argparse.Namespace(x=1 << 70)}, f, 0)
zipped("../../fuzz/corpus/torchfile/deflated.pt", [("a/data.pkl", tensor()), ("a/byteorder", b"big"), ("a/data/0", bytes(24))],
       zipfile.ZIP_DEFLATED)

with open(f"{out}/values.tsv", "w") as f:
    for r in rows:
        f.write("\t".join(r) + "\n")
print(torch.__version__, sum(os.path.getsize(os.path.join(d, n)) for d, _, v in os.walk(out) for n in v), file=sys.stderr)
