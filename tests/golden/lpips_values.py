"""Makes tests/golden/lpips_values.h: the package lpips (0.1.4) on its own example pictures, with its heads as released and trunks that
tests/unit/drawn.h draws too, in double. Needs torch, torchvision, lpips, pillow and the folder of weights/lpips.

    tests/golden/lpips_values.py SHARED/data/weights/lpips >tests/golden/lpips_values.h
"""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from convnets import trunk_state  # noqa: E402


def main():
    import lpips
    import numpy as np
    import torch
    from PIL import Image

    x = [torch.from_numpy(np.asarray(Image.open(os.path.join(sys.argv[1], f"ex_{n}.png")).convert("RGB")) / 127.5 - 1).permute(2, 0, 1)[None]
         for n in ("ref", "p0", "p1")]
    print("/* Made by tests/golden/lpips_values.py: ref and p0, ref and p1, p0 and p1, of alex, vgg and squeeze. */")
    print("static const double golden_lpips[3][3] = {")
    for name in ("alex", "vgg", "squeeze"):
        net = lpips.LPIPS(net=name, pretrained=True, pnet_rand=True, verbose=False).double().eval()
        net.net.load_state_dict(trunk_state(net))
        values = [net(a.double(), b.double()).item() for a, b in itertools.combinations(x, 2)]
        print("    {" + ", ".join("%.15g" % v for v in values) + "},")
    print("};")


main()
