#!/usr/bin/env python3
"""The work of bench_data with the usual alternatives: FAISS, tar and zstd, Pillow. On the folder that bench_data made, right
before or after it. TSV: name, value, unit, and a dash. One thread is timed by CPU clocks, as bench_data does.

    [THREADS=N] tests/bench/peer_data.py [PROGRAMS [PATTERN]]

PROGRAMS, the folder of ours, is what every peer is given; nothing in it is needed here.
"""
import io
import os
import random
import resource
import subprocess
import sys
import tarfile
import time

THREADS = int(os.environ.get("THREADS") or len(os.sched_getaffinity(0)))
PATTERN = sys.argv[2] if len(sys.argv) > 2 else ""
FOLDER = os.path.join(os.environ.get("TMPDIR", "/tmp"), "ddm-bench-data")
CENTRES, ITERATIONS, SIZE, TRIES = 1024, 10, 64, 3
os.environ["OMP_NUM_THREADS"] = str(THREADS)


def wanted(name):
    return PATTERN in name or name in PATTERN


def tell(name, value, unit):
    print(f"peer.{name}\t{value:.4g}\t{unit}\t-", flush=True)


def skip(name, why):
    print(f"peer_data: skip {name}: {why}", file=sys.stderr)


def cpu(who):
    use = resource.getrusage(who)
    return use.ru_utime + use.ru_stime


def seconds(work, who=resource.RUSAGE_SELF):
    wall, used = time.perf_counter(), cpu(who)
    work()
    return cpu(who) - used if THREADS == 1 else time.perf_counter() - wall


def pictures(folder):
    found = (os.path.join(at, f) for at, _, files in os.walk(folder) for f in files)
    return sorted(f for f in found if f.endswith((".jpg", ".jpeg")))


def kmeans():
    try:
        import faiss
        import numpy
    except ImportError as why:
        return skip("data.kmeans", why)
    path = os.path.join(FOLDER, "points.npy")
    if not os.path.exists(path):
        return skip("data.kmeans", f"no {path}")
    x = numpy.load(path)
    faiss.omp_set_num_threads(THREADS)

    def fit(iterations):
        m = faiss.Kmeans(x.shape[1], CENTRES, niter=iterations, seed=1, max_points_per_centroid=10**9)
        return seconds(lambda: m.train(x))

    fit(1)
    one, every = fit(1), fit(1 + ITERATIONS)
    work = 2 * x.shape[0] * x.shape[1] * CENTRES * 1e-9
    tell("data.kmeans", work * ITERATIONS / (every - one), "GFLOP/s")
    tell("data.kmeans_fit", work * (1 + ITERATIONS) / every, "GFLOP/s")


def shard_write():
    folder = os.path.join(FOLDER, "pictures")
    if not os.path.exists(folder):
        return skip("data.shard_write", f"no {folder}")
    size = sum(os.path.getsize(f) for f in pictures(folder))
    out = os.path.join(FOLDER, "pictures.tar.zst")
    for name, threads in ("data.shard_write", 1), ("data.shard_write_t0", 0):
        command = f"tar cf - -C '{FOLDER}' pictures | zstd -q -f -3 -T{threads} -o '{out}'"
        best = min(seconds(lambda: subprocess.run(command, shell=True, check=True), resource.RUSAGE_CHILDREN)
                   for _ in range(TRIES))
        tell(name, size / best * 1e-6, "MB/s")
    os.remove(out)


def shard_read():
    """The pictures as files, in random order."""
    files = pictures(os.path.join(FOLDER, "pictures"))
    if not files:
        return skip("data.shard_read", f"no pictures in {FOLDER}")
    random.Random(1).shuffle(files)

    def work():
        total = 0
        for f in files:
            with open(f, "rb") as file:
                total += len(file.read())
        return total

    best = min(seconds(work) for _ in range(TRIES))
    tell("data.shard_read", sum(map(os.path.getsize, files)) / best * 1e-6, "MB/s")


def fitted(path):
    from PIL import Image, ImageOps
    with Image.open(path) as picture:
        p = ImageOps.exif_transpose(picture).convert("RGB")
    side = min(p.size)
    x, y = (p.width - side) // 2, (p.height - side) // 2
    return p.crop((x, y, x + side, y + side)).resize((SIZE, SIZE), Image.Resampling.LANCZOS)


def decode(name, folder):
    try:
        from PIL import Image
    except ImportError as why:
        return skip(name, why)
    files = pictures(folder)
    if not files:
        return skip(name, f"no pictures in {folder}")
    best = min(seconds(lambda: [fitted(f).tobytes() for f in files]) for _ in range(TRIES))
    tell(name, len(files) / best, "pictures/s")


def ingest():
    try:
        from PIL import Image
    except ImportError as why:
        return skip("data.ingest", why)
    files = pictures(os.path.join(FOLDER, "pictures"))
    if not files:
        return skip("data.ingest", f"no pictures in {FOLDER}")
    out = os.path.join(FOLDER, "peer.tar")

    def work():
        with tarfile.open(out, "w") as tar:
            for f in files:
                png = io.BytesIO()
                fitted(f).save(png, "PNG")
                info = tarfile.TarInfo(f + ".png")
                info.size = png.tell()
                png.seek(0)
                tar.addfile(info, png)

    best = min(seconds(work) for _ in range(TRIES))
    os.remove(out)
    tell("data.ingest", len(files) / best, "pictures/s")


if wanted("data.kmeans"):
    kmeans()
if wanted("data.shard_write"):
    shard_write()
if wanted("data.shard_read"):
    shard_read()
if wanted("data.pictures"):
    decode("data.pictures", os.path.join(FOLDER, "pictures"))
if wanted("data.ingest"):
    ingest()
if wanted("data.photos"):
    decode("data.photos", os.path.join(os.environ.get("DDM_TEST_DATA", "../shared/data"), "photos"))
