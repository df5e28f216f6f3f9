"""Sets of MosaicML's streaming, and the contents of their samples: python mds.py FOLDER > mds.tsv, and FOLDER packed as mds.tar.gz.
Needs streaming."""
import hashlib
import io
import json
import os
import struct
import sys

import numpy as np
from PIL import Image
from streaming import MDSWriter

PILLOW = "a picture of Pillow's"  # what it is written as depends on zlib: its pixels are looked at


def npy(a):
    out = io.BytesIO()
    np.save(out, np.ascontiguousarray(a))
    return out.getvalue()


def picture(i):
    return Image.fromarray(np.random.default_rng(i).integers(0, 255, (5 + i % 3, 7, 3), np.uint8))


def saved(im, kind):
    out = io.BytesIO()
    im.save(out, kind)
    return out.getvalue()


def sets():
    """Name, options of the writer, columns, and for every sample its values and its members."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(7):
        im, big = picture(i), rng.normal(size=(2, 3 + i, 2)).astype(np.float32)
        jpeg, png = saved(im, "JPEG"), saved(im, "PNG")
        v = {"image": jpeg, "thumb": png, "caption": "no. %d, \u00e9" % i, "source": "a%d" % i, "class": i, "score": 0.5 * i, "big": 2**40 + i,
             "latents": big.astype(np.float16).reshape(2, -1), "moments": big, "any": (np.arange(i + 1) - 3).astype(np.int16), "raw": png,
             "array": npy(big), "other": bytes(range(i)), "meta": {"i": i}, "exact": 3 * i}
        facts = '{"big":%d,"exact":%d,"score":%s}' % (v["big"], v["exact"], json.dumps(v["score"]))
        m = {"jpg": jpeg, "thumb.png": png, "txt": v["caption"].encode(), "source.txt": v["source"].encode(), "cls": b"%d\n" % i, "npy": npy(v["latents"]),
             "moments.npy": npy(big), "any.npy": npy(v["any"]), "png": png, "array.npy": v["array"], "other.bin": v["other"],
             "json": json.dumps(v["meta"]).encode(), "facts.json": facts}
        rows.append((v, m))
    columns = {"image": "jpeg", "thumb": "png", "caption": "str", "source": "str", "class": "int32", "score": "float32", "big": "int",
               "latents": "ndarray", "moments": "ndarray:float32", "any": "ndarray:int16", "raw": "bytes", "array": "bytes", "other": "bytes",
               "meta": "json", "exact": "str_int"}
    few = {"x": "ndarray:float32:2,3", "std.npy": "ndarray:float16", "label": "uint8", "npy": "bytes"}
    arrays = [({"x": np.full((2, 3), i, np.float32), "std.npy": np.full((1, 2), i, np.float16), "label": i, "npy": npy(np.arange(i + 1))},
               {"x.npy": npy(np.full((2, 3), i, np.float32)), "std.npy": npy(np.full((1, 2), i, np.float16)), "cls": b"%d\n" % i,
                "npy": npy(np.arange(i + 1))}) for i in range(3)]
    pillow = [({"image": picture(i).convert("RGB" if i % 2 else "L"), "prompt": "p"}, {"png": (PILLOW, picture(i).convert("RGB" if i % 2 else "L")),
                                                                                       "txt": b"p"}) for i in range(4)]
    yield "plain", {"size_limit": 4096}, columns, rows
    yield "zstd", {"compression": "zstd:7", "hashes": ["sha1", "sha256", "xxh64"], "size_limit": 4096}, columns, rows
    yield "gz", {"compression": "gz", "hashes": ["xxh128", "xxh3_64"]}, columns, rows[:2]
    yield "arrays", {"hashes": ["md5", "xxh32", "xxh3_128"]}, few, arrays
    yield "pillow", {}, {"image": "pil", "prompt": "str"}, pillow


def members(m):
    """Members in our order: extension, bytes."""
    return sorted((k, v.encode() if isinstance(v, str) else v) for k, v in m.items())


def write(folder, options, columns, rows):
    with MDSWriter(out=folder, columns=columns, **options) as w:
        for v, _ in rows:
            w.write(v)
    with open(os.path.join(folder, "index.json")) as f:
        for s in json.load(f)["shards"]:
            for i in range(s["samples"]):
                yield "%s/%06d" % (s["raw_data"]["basename"][:-4].replace(".", "-"), i)


if __name__ == "__main__":
    print("# set\tkey\text\tbytes\tsha256")
    for name, options, columns, rows in sets():
        for key, (_, m) in zip(write(os.path.join(sys.argv[1], name), options, columns, rows), rows):
            for ext, b in members(m):
                if isinstance(b, tuple):
                    b = b[1].tobytes()
                print("\t".join([name, key, ext, str(len(b)), hashlib.sha256(b).hexdigest()]))
