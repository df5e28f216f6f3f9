"""Makes tests/golden/blobs.tar.gz and blobs.tsv: 1,000 training samples and 100 held-out ones, arrays (1, 2, 2) whose last two
elements are 0, in four clusters of shares .4 .3 .2 .1, each a Gaussian blob of deviation .47 in the plane, with the means of
policy_masses in tests/unit/test_mixture.c. Needs numpy and xxhash."""
import gzip, io, tarfile
import numpy as np
import xxhash

MEAN = np.array([[0, 1.5], [1.9, -1.35], [-.8, -2.7], [-5, .25]])
SIZES = [400, 300, 200, 100]
rng = np.random.RandomState(3)
rows, files = [], []
for k, n in enumerate(SIZES):
    for i in range(n + n // 10):
        held = i >= n
        x = np.zeros((1, 2, 2), "<f4")
        z = rng.standard_normal((1, 2))
        x[0, 0] = MEAN[k] + .47 * z
        f = io.BytesIO()
        np.lib.format.write_array(f, x, version=(1, 0))
        key = "%s%d/%04d" % ("h" if held else "c", k, i)
        files.append((key + ".npy", f.getvalue()))
        rows.append((key, k, "holdout" if held else "train"))

out = io.BytesIO()
with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
    for name, data in sorted(files):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        info.mode = 0o644
        tar.addfile(info, io.BytesIO(data))
with open("tests/golden/blobs.tar.gz", "wb") as f:
    f.write(gzip.compress(out.getvalue(), 9, mtime=0))
text = "#key\tcluster\tsplit\n#stamp {}\n" + "".join("%s\t%d\t%s\n" % r for r in sorted(rows))
text += "#end %d %016x\n" % (len(rows), xxhash.xxh3_64_intdigest(text.encode()))
open("tests/golden/blobs.tsv", "w").write(text)
