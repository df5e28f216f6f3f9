"""The inputs of the networks of published metrics, made by the code of their packages: python netinput.py DATA > netinput.tsv, DATA
being the folder with photos/. A row: picture, convention, how it is compared, SHA-256 of the float32 tensor (16 digits), its sum, five
values. "bits": the tensor itself; "near": torch's bicubic rounds in an order of its own, so values within 2e-6. Needs torch,
torchvision, torch-fidelity, clean-fid and Pillow 11.3 (from 13 on it resizes columns first for some shapes)."""
import hashlib
import os
import sys

import numpy as np
import PIL
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torchvision import transforms as T

from cleanfid.resize import build_resizer
from resize import picture
from torch_fidelity.interpolate_compat_tensorflow import interpolate_bilinear_2d_like_tensorflow1x

CLIP = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
IMAGENET = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SYNTHETIC = [(16, 16), (32, 32), (97, 131), (256, 256), (299, 299), (500, 375), (640, 350), (345, 517), (1, 9)]


def tf1(im):
    """FeatureExtractorInceptionV3.forward of torch-fidelity up to the first layer."""
    x = torch.from_numpy(np.array(im)).permute(2, 0, 1)[None].to(torch.float32)
    x = interpolate_bilinear_2d_like_tensorflow1x(x, size=(299, 299), align_corners=False)
    return (x - 128) / 128


def pytorch(im):
    """InceptionV3.forward of pytorch-fid up to the first block."""
    x = F.interpolate(T.ToTensor()(im)[None], size=(299, 299), mode="bilinear", align_corners=False)
    return 2 * x - 1


def clean(im):
    """ResizeDataset and InceptionV3W.forward of clean-fid up to the first layer."""
    x = torch.from_numpy(build_resizer("clean")(np.array(im)).transpose((2, 0, 1)))
    return (x - 128) / 128


def dinov2(im):
    """DINOv2Encoder.transform of dgm-eval."""
    im = im.resize((224, 224), Image.BICUBIC)
    return T.Compose([T.ToTensor(), T.Normalize(*IMAGENET)])(im)


def clip(im):
    """_transform of OpenAI's clip."""
    return T.Compose([T.Resize(224, interpolation=T.InterpolationMode.BICUBIC), T.CenterCrop(224), T.ToTensor(), T.Normalize(*CLIP)])(im)


def dinov2_256(im):
    """make_classification_eval_transform of dinov2."""
    return T.Compose([T.Resize(256, interpolation=T.InterpolationMode.BICUBIC), T.CenterCrop(224), T.ToTensor(), T.Normalize(*IMAGENET)])(im)


def cmmd(im):
    """_resize_bicubic of cmmd-pytorch and its normalisation."""
    x = F.interpolate(T.ToTensor()(im)[None], size=(336, 336), mode="bicubic", align_corners=False)
    return T.Normalize(*CLIP)(x)


KINDS = [("tf1", tf1, "bits"), ("torch", pytorch, "bits"), ("clean", clean, "bits"), ("dinov2", dinov2, "bits"), ("clip", clip, "bits"),
         ("dinov2-256", dinov2_256, "bits"), ("cmmd", cmmd, "near")]

if __name__ == "__main__":
    assert PIL.__version__.startswith("11."), PIL.__version__
    photos = os.path.join(sys.argv[1], "photos")
    names = sorted(os.path.join(d, f) for d in ("coco", "flowers") for f in os.listdir(os.path.join(photos, d)) if f.endswith(".jpg"))
    pictures = [(f"{w}x{h}", picture(w, h, 3)) for w, h in SYNTHETIC]
    pictures += [(f"photos/{n}", ImageOps.exif_transpose(Image.open(os.path.join(photos, n))).convert("RGB")) for n in names[::2]]
    dump = sys.argv[2] if len(sys.argv) > 2 else None
    for name, im in pictures:
        for kind, fn, how in KINDS:
            x = fn(im).numpy().reshape(3, -1).astype(np.float32)
            if dump:
                x.tofile(os.path.join(dump, f"{name.replace('/', '_')}.{kind}"))
            flat = x.ravel()
            at = [(i * 7919 * 13) % flat.size for i in range(1, 6)]
            print("\t".join([name, kind, how, hashlib.sha256(x.tobytes()).hexdigest()[:16], f"{x.astype(float).sum():.9g}"] + [f"{flat[i]:.9g}" for i in at]))
