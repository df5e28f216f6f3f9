"""Sets written by MosaicML's streaming, with random columns, packing and hashes, against the digest of ddm-info --check: keys, extensions and
contents as tests/golden/mds.py lists them, and as streaming reads them."""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from peers import BUILD, SEED, SOURCE, case

sys.path.insert(0, os.path.join(SOURCE, "tests", "golden"))


def digest(samples):
    import xxhash

    h = hashlib.sha256()
    for key, members in samples:
        h.update(key.encode() + b"\0")
        for ext, b in members:
            h.update(ext.encode() + b"\0" + struct.pack("<QQ", len(b), xxhash.xxh3_64_intdigest(b)))
        h.update(b"\n")
    return h.hexdigest()


def random_set(rng):
    """Columns by name, and rows with values and expected members."""
    import numpy as np
    import mds

    dtypes = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]
    columns, makers = {}, {}
    for name in ("image", "caption", *rng.sample(["a", "b", "c", "d", "e", "f"], rng.randrange(1, 7))):
        kind = {"image": "jpeg", "caption": "str"}.get(name) or rng.choice(["ndarray", "ndarray", "scalar", "bytes", "json"])
        dtype, shape = rng.choice(dtypes), tuple(rng.randrange(1, 5) for _ in range(rng.randrange(1, 5)))

        def array(i, dtype=dtype, shape=shape):
            return (np.random.default_rng(i).random(shape) * 100).astype(dtype)

        if name == "image":
            columns[name], makers[name] = kind, lambda i: (lambda b: (b, "jpg", b))(mds.saved(mds.picture(i), "JPEG"))
        elif name == "caption":
            columns[name], makers[name] = kind, lambda i: ("c%d" % i, "txt", b"c%d" % i)
        elif kind == "ndarray":
            full = [kind, "%s:%s" % (kind, dtype), "%s:%s:%s" % (kind, dtype, ",".join(map(str, shape)))]
            columns[name] = rng.choice(full)
            makers[name] = lambda i, array=array: (array(i), "npy", mds.npy(array(i)))
        elif kind == "scalar":
            columns[name] = dtype
            makers[name] = lambda i, dtype=dtype: (np.dtype(dtype).type(i), None, i if "int" in dtype else float(i))
        elif kind == "bytes":
            columns[name], makers[name] = kind, lambda i: (b"\0" * i, "bin", b"\0" * i)
        else:
            columns[name], makers[name] = kind, lambda i: ({"i": [i]}, "json", json.dumps({"i": [i]}).encode())
    rows = []
    for i in range(rng.randrange(1, 40)):
        values, members, facts = {}, {}, {}
        for name in sorted(columns, key=lambda n: (n not in ("image", "caption"), n)):
            values[name], ext, b = makers[name](i)
            if ext is None:
                facts[name] = b
            else:
                members[ext if ext != "bin" and ext not in members else "%s.%s" % (name, ext)] = b
        if facts:
            members["json" if "json" not in members else "facts.json"] = json.dumps(facts, separators=(",", ":")).encode()
        rows.append((values, members))
    return columns, rows


def as_written():
    import mds

    rng, wrong = random.Random(SEED), []
    for _ in range(12):
        columns, rows = random_set(rng)
        hashes = sorted(rng.sample(["sha1", "sha256", "md5", "xxh32", "xxh64", "xxh3_64", "xxh128", "xxh3_128"], rng.randrange(4)))
        options = {"compression": rng.choice([None, "zstd", "zstd:19", "gz", "gz:1"]), "hashes": hashes,
                   "size_limit": rng.choice([None, 3000, 1 << 20])}
        with tempfile.TemporaryDirectory() as dir:
            dir = os.path.join(dir, "set")
            keys = list(mds.write(dir, options, columns, rows))
            r = subprocess.run([os.path.join(BUILD, "ddm-info"), "--json", "-c", dir], capture_output=True, text=True)
            got = json.loads(r.stdout or "{}").get("digest")
        if got != digest((k, mds.members(m)) for k, (_, m) in zip(keys, rows)):
            wrong.append("%s %s: %s" % (columns, options, r.stderr.strip() or got))
    return "; ".join(wrong) or None


case("twelve random sets of MosaicML's streaming", ("streaming", "xxhash", "PIL"), as_written)
