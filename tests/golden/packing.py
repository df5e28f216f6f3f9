"""Shared by the scripts of whole models: random weights, and a folder packed to the same bytes every time."""
import gzip
import io
import os
import tarfile

import torch


def scatter(net, seed, gain=None):
    """Random weights that 16 bits hold exactly, of a size that keeps every layer's part in the result; gain: factors of names that begin so."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name == "pos_embed":
                p.copy_(p.half())
                continue
            fan = max(1, p[0].numel()) if p.dim() > 1 else 16
            a = torch.randn(p.shape, generator=g, dtype=torch.float32) * fan ** -.5
            if p.dim() == 1 and name.endswith("weight"):
                a = 1 + a
            for start, factor in (gain or {}).items():
                if name.startswith(start):
                    a = a * factor
            p.copy_(a.half())
    return net.double().eval()


def pack(folder, path):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for root, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                with open(os.path.join(root, name), "rb") as f:
                    data = f.read()
                info = tarfile.TarInfo(os.path.relpath(os.path.join(root, name), folder))
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))
    with open(path, "wb") as f:
        f.write(gzip.compress(raw.getvalue(), 9, mtime=0))
