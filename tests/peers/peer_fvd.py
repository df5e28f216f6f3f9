"""ddm-eval-fid --metrics fvd against PyTorch and NumPy: random weights of I3D in a .pt, random clips, cd-fvd's preparation and Frechet distance."""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

from peers import BUILD, SEED, case

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))


def write(path, clips):
    import numpy as np

    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as t:
        for i, c in enumerate(clips):
            b = io.BytesIO()
            np.save(b, c)
            info = tarfile.TarInfo("clip%04d@000000.npy" % i)
            info.size = len(b.getvalue())
            t.addfile(info, io.BytesIO(b.getvalue()))


def features(i3d, clips):
    import torch
    import torch.nn.functional as F

    out = []
    for c in clips:
        x = F.interpolate(torch.from_numpy(c[:16]).float() / 255, size=(224, 224), mode="bilinear", align_corners=False)
        out.append(i3d((x.expand(-1, 3, -1, -1) * 2 - 1).transpose(0, 1)[None])[0])
    return torch.stack(out).double().numpy()


def frechet(a, b):
    """tr (S T)^(1/2) is the sum of the singular values of A B', where S = A' A and T = B' B."""
    import numpy as np

    s, t = (a - a.mean(0)) / len(a)**0.5, (b - b.mean(0)) / len(b)**0.5
    return ((a.mean(0) - b.mean(0)) ** 2).sum() + (s * s).sum() + (t * t).sum() - 2 * np.linalg.svd(s @ t.T, compute_uv=False).sum()


def fvd():
    import i3d
    import numpy as np
    import torch

    rng = np.random.default_rng(SEED)
    i3d.W = i3d.Weights(lambda n, stream: rng.uniform(-1, 1, n))
    sets = [rng.integers(0, 256, size=(5, 17, 3, 8, 8)).astype(np.uint8), rng.integers(0, 200, size=(4, 17, 3, 8, 8)).astype(np.uint8)]
    sets = [np.repeat(np.repeat(s, 4, 3), 4, 4) for s in sets]
    with torch.no_grad(), tempfile.TemporaryDirectory() as dir:
        want = frechet(*[features(i3d.i3d, s) for s in sets])
        torch.save(i3d.W.named, os.path.join(dir, "i3d.pt"))
        for name, s in zip("ab", sets):
            write(os.path.join(dir, name + ".tar"), s)
        r = subprocess.run([os.path.join(BUILD, "ddm-eval-fid"), "--device", "cpu", "--metrics", "fvd", "--i3d", "i3d.pt", "a.tar", "b.tar"], cwd=dir,
                           capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        got = json.loads(r.stdout)["fvd-i3d"]
    return None if abs(got / want - 1) < 1e-3 else "a distance of %.9g, not %.9g" % (got, want)


case("fvd: PyTorch's layers, NumPy's singular values", ["numpy", "torch"], fvd)
