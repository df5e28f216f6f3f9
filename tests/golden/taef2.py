"""Prints the PSNR, in dB, of photographs encoded and decoded by the tiny autoencoder of FLUX.2 (madebyollin/taef2), as PyTorch computes
it in double: the table of tests/unit/test_taef2.c. python3 taef2.py DATA. Needs torch, Pillow, safetensors."""
import sys
import numpy as np
import torch
from torch import nn
from PIL import Image
from safetensors.torch import load_file

torch.set_grad_enabled(False)
PHOTOS = ("photos/coco/000000000285.jpg", "photos/coco/000000000785.jpg")


def conv(a, b, **k):
    return nn.Conv2d(a, b, 3, padding=1, **k)


class Clamp(nn.Module):
    def forward(self, x):
        return torch.tanh(x / 3) * 3


class Block(nn.Module):
    """As its authors describe it: three convolutions and the input; in the middle a norm over four groups before."""

    def __init__(self, n, norm=False):
        super().__init__()
        self.conv = nn.Sequential(conv(n, n), nn.ReLU(), conv(n, n), nn.ReLU(), conv(n, n))
        if norm:
            self.pool = nn.Sequential(nn.Conv2d(n, 4 * n, 1, bias=False), nn.GroupNorm(4, 4 * n), nn.ReLU(),
                                      nn.Conv2d(4 * n, n, 1, bias=False))
        self.norm = norm

    def forward(self, x):
        if self.norm:
            x = x + self.pool(x)
        return torch.relu(self.conv(x) + x)


def stage(n, blocks, norm=False):
    return [Block(n, norm) for _ in range(blocks)]


def down():
    return [conv(64, 64, stride=2, bias=False)]


def up():
    return [nn.Upsample(scale_factor=2), conv(64, 64, bias=False)]


def main(data):
    weights = f"{data}/weights/taesd"
    encoder = nn.Sequential(conv(3, 64), *stage(64, 1), *down(), *stage(64, 3), *down(), *stage(64, 3), *down(),
                            *stage(64, 3, True), conv(64, 32)).double()
    decoder = nn.Sequential(Clamp(), conv(32, 64), nn.ReLU(), *stage(64, 3, True), *up(), *stage(64, 3), *up(), *stage(64, 3), *up(),
                            *stage(64, 1), conv(64, 3)).double()
    encoder.load_state_dict(load_file(f"{weights}/taef2_encoder.safetensors"))
    decoder.load_state_dict(load_file(f"{weights}/taef2_decoder.safetensors"))
    for name in PHOTOS:
        x = torch.from_numpy(np.asarray(Image.open(f"{data}/{name}").convert("RGB")).copy()[64:320, 96:384]).permute(2, 0, 1)[None] / 255.
        z = encoder(x.double())
        y = decoder(z)
        print(f'    {{"{name}", {-10 * torch.log10(((y - x) ** 2).mean()).item():.6f}, {z.pow(2).mean().sqrt().item():.6f}}},')


if __name__ == "__main__":
    main(sys.argv[1])
