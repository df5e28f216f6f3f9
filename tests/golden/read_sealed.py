"""Reads files with our seals using the libraries of their formats: read_sealed.py FILE...

Prints "FILE KIND NAMES" of each, or exits with the library's complaint. Called by tests/cli/sealed-elsewhere.sh."""
import sys
import zipfile

import numpy


def names(path):
    if path.endswith(".safetensors"):
        from safetensors import safe_open
        with safe_open(path, "numpy") as f:
            for name in f.keys():
                f.get_tensor(name)
            return sorted(f.keys())
    if path.endswith(".npz"):
        with zipfile.ZipFile(path) as z:
            assert z.testzip() is None
        with numpy.load(path) as z:
            return sorted(name for name in z.files if z[name].size)
    return [str(numpy.load(path).shape)]


for path in sys.argv[1:]:
    print(path, " ".join(names(path)))
