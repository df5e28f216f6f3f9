"""Makes tests/golden/wanvae, a folder as diffusers writes it of a small AutoencoderKLWan with random weights in half precision, and
tests/golden/wanvae.safetensors: what diffusers makes of clips with it, in double. tests/peers/peer_clips.py uses random_network with other sizes.
Needs torch, diffusers, safetensors.

    clip/{x,moments,latent,decoded}          of 10 frames, the last of which is not coded; latent: the mean with the scale of each channel
    tiles/{moments,latent,decoded}           by tiles, of 5 frames of 264 x 8 pixels, which are ((i 7919) mod 251) / 127.5 - 1; decoded: the frames 0, 4
"""
import os
import sys

import torch
from safetensors.torch import save_file
from taehv import clip


def random_network(seed, **config):
    from diffusers import AutoencoderKLWan
    g, net = torch.Generator().manual_seed(seed), AutoencoderKLWan(**config)
    for name, p in net.named_parameters():
        matrix = p.dim() > 3 and "gamma" not in name
        p.copy_(torch.randn(p.shape, generator=g) * (1.2 / p[0].numel() ** .5 if matrix else .1) + (1 if "gamma" in name else 0))
    return net


def scales(net):
    return (torch.tensor(v, dtype=torch.float64)[None, :, None, None, None] for v in (net.config.latents_mean, net.config.latents_std))


def encode(net, x):
    """x (T, 3, H, W): the moments (T', 2 C, h, w), and the mean and standard deviation as a diffusion model sees them."""
    mean, std = scales(net)
    d = net.encode(x.transpose(0, 1)[None].double()).latent_dist
    return d.parameters[0].transpose(0, 1), ((d.mean - mean) / std)[0].transpose(0, 1), (d.std / std)[0].transpose(0, 1)


def decode(net, z):
    mean, std = scales(net)
    return net.decode(z.transpose(0, 1)[None].double() * std + mean).sample[0].transpose(0, 1)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    net = random_network(1, base_dim=4, dim_mult=[1, 1, 2, 2], num_res_blocks=1, z_dim=3, latents_mean=[.25, -.5, .125], latents_std=[2, .75, 1.5])
    net.half().save_pretrained(here + "/wanvae")
    net, out = net.double(), {}
    x = clip(2, 10, 16, 24).half()
    moments, z, _ = encode(net, x)
    out["clip/x"], out["clip/moments"], out["clip/latent"], out["clip/decoded"] = x, moments, z, decode(net, z.float())
    net.enable_tiling()
    x = (torch.arange(5 * 3 * 264 * 8) * 7919 % 251).reshape(5, 3, 264, 8) / 127.5 - 1
    moments, z, _ = encode(net, x.float())
    out["tiles/moments"], out["tiles/latent"], out["tiles/decoded"] = moments, z, decode(net, z.float())[::4]
    save_file({k: v.contiguous() if v.dtype == torch.float16 else v.float().contiguous() for k, v in out.items()}, here + "/wanvae.safetensors")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    sys.exit(main())
