"""Makes tests/golden/autokl and autotiny, folders as diffusers writes them, of random weights in half precision, and
tests/golden/convnets.safetensors: what PyTorch makes of them, and of torchvision's classifiers with weights that tests/unit/drawn.h
draws too, in double. Needs torch, torchvision, diffusers, lpips, pytorch-fid.

    kl/{x,moments,z,decoded}, tiny/{x,latent,z,decoded}    inputs and outputs of both halves
    kl/{tiled_moments,tiled_decoded}                       by tiles
    inception/{features,logits,spatial}                    of the picture drawn as "x"
    lpips/{alex,vgg,squeeze}                               distances of the two drawn as "a" and "b"
"""
import os
import sys
import numpy as np
import torch
from torch import nn
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))
torch.set_grad_enabled(False)


def fnv(text):
    h = 2166136261
    for c in text.encode():
        h = (h ^ c) * 16777619 & 0xFFFFFFFF
    return h


def drawn(name, count, scale, shift):
    """Uniform in shift +- scale, rounded to half precision: a hash of the name and the index."""
    h = (np.arange(count, dtype=np.uint64) * 0x9E3779B9 + fnv(name)).astype(np.uint32)
    for a, m in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> np.uint32(a))) * np.uint32(m)
    h ^= h >> np.uint32(16)
    u = (h >> np.uint32(8)).astype(np.float32) * np.float32(2 ** -23) - np.float32(1)
    return (u * np.float32(scale) + np.float32(shift)).astype(np.float16)


def draw_state(module):
    """He's uniform weights; batch norms and biases as after training."""
    state = {}
    for name, t in module.state_dict().items():
        if t.dim() > 1:
            scale, shift = np.sqrt(np.float32(6) / np.float32(t[0].numel())), 0
        elif name.endswith("running_var") or name.endswith("bn.weight"):
            scale, shift = .5, 1
        elif t.dim() == 1:
            scale, shift = .25, 0
        else:
            state[name] = t
            continue
        state[name] = torch.from_numpy(drawn(name, t.numel(), scale, shift).astype(np.float64)).reshape(t.shape)
    module.load_state_dict(state)
    return state


def pictures(seed, *shape):
    g = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=g) * 2 - 1).float().double()


def drawn_pictures(name, n, h, w):
    return torch.from_numpy(drawn(name, n * 3 * h * w, 1, 0).astype(np.float64)).reshape(n, 3, h, w)


def randomise(module, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        if p.dim() > 1:
            p.copy_(torch.randn(p.shape, generator=g) / p[0].numel() ** .5)
        else:
            p.copy_(torch.randn(p.shape, generator=g) * .2 + (1 if "norm" in name and "weight" in name else 0))
    return module


def autoencoders(out):
    from diffusers import AutoencoderKL, AutoencoderTiny

    kl = randomise(AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * 3, up_block_types=["UpDecoderBlock2D"] * 3,
                                 block_out_channels=[8, 8, 16], layers_per_block=1, norm_num_groups=4, latent_channels=3,
                                 sample_size=16, scaling_factor=.3611, shift_factor=.1159), 1)
    kl.half().save_pretrained(f"{here}/autokl")
    kl = kl.double()
    x, z = pictures(2, 2, 3, 28, 20), pictures(3, 2, 3, 7, 5)
    out["kl/x"], out["kl/z"] = x, z
    out["kl/moments"] = kl.encode(x).latent_dist.parameters
    out["kl/decoded"] = kl.decode(z).sample
    kl.enable_tiling()
    out["kl/tiled_moments"] = kl.encode(x).latent_dist.parameters
    out["kl/tiled_decoded"] = kl.decode(z).sample

    tiny = randomise(AutoencoderTiny(encoder_block_out_channels=(8, 8, 8), decoder_block_out_channels=(8, 8, 8),
                                     num_encoder_blocks=(1, 1, 2), num_decoder_blocks=(2, 1, 1), latent_channels=5), 4)
    tiny.half().save_pretrained(f"{here}/autotiny")
    tiny = tiny.double()
    x, z = pictures(5, 2, 3, 12, 20), pictures(6, 2, 5, 3, 5) * 4
    out["tiny/x"], out["tiny/z"] = x, z
    out["tiny/latent"] = tiny.encode(x).latents
    out["tiny/decoded"] = tiny.decode(z).sample


def fid_inception():
    """pytorch-fid's network without its download."""
    from pytorch_fid import inception

    saved = inception.load_state_dict_from_url
    torch_load = nn.Module.load_state_dict
    inception.load_state_dict_from_url = lambda *a, **k: None
    nn.Module.load_state_dict = lambda self, state, *a, **k: torch_load(self, state, *a, **k) if state else None
    try:
        return inception.fid_inception_v3()
    finally:
        inception.load_state_dict_from_url = saved
        nn.Module.load_state_dict = torch_load


def inception_outputs(net, x):
    taps = {}
    net.Mixed_6d.branch1x1.register_forward_hook(lambda m, i, o: taps.update(spatial=o))
    net.Mixed_7c.register_forward_hook(lambda m, i, o: taps.update(last=o))
    net(x)
    features = taps["last"].mean((2, 3))
    return features, features @ net.fc.weight.T, taps["spatial"][:, :7].permute(0, 2, 3, 1)


def lpips_net(name):
    import lpips

    net = lpips.LPIPS(net=name, pretrained=False, pnet_rand=True, verbose=False)
    for i, lin in enumerate(net.lins):
        w = lin.model[-1].weight
        w.copy_(torch.from_numpy(drawn(f"lin{i}.model.1.weight", w.numel(), np.sqrt(np.float32(6) / np.float32(w.numel())), 0)
                                 .astype(np.float32)).reshape(w.shape).abs())
    return net.double().eval()


def trunk_state(net):
    """Random weights of the trunk under torchvision's names; each follows from its name."""
    state = {}
    for name, t in net.net.state_dict().items():
        own = "features." + name.split(".", 1)[1]
        scale = np.sqrt(np.float32(6) / np.float32(t[0].numel())) if t.dim() > 1 else .25
        state[name] = torch.from_numpy(drawn(own, t.numel(), scale, 0).astype(np.float64)).reshape(t.shape)
    return state


def distances(out):
    a, b = drawn_pictures("a", 2, 67, 75), drawn_pictures("b", 2, 67, 75)
    for name in ("alex", "vgg", "squeeze"):
        net = lpips_net(name)
        net.net.load_state_dict(trunk_state(net))
        out["lpips/" + name] = net(a, b).reshape(-1)


def main():
    out = {}
    autoencoders(out)
    net = fid_inception().double().eval()
    draw_state(net)
    x = drawn_pictures("x", 1, 299, 299)
    out["inception/features"], out["inception/logits"], out["inception/spatial"] = inception_outputs(net, x)
    distances(out)
    save_file({k: v.float().contiguous() for k, v in out.items()}, f"{here}/convnets.safetensors")


if __name__ == "__main__":
    sys.exit(main())
