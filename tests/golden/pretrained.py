"""Makes tests/golden/pretrained/NAME: small networks of random weights as the library that has them saves them (config.json and
safetensors), and in io.safetensors what it makes of an input. Needs torch, diffusers, transformers. With names as arguments: only
those."""
import json, os, shutil, sys
import numpy as np
import torch
from safetensors.torch import load_file, save_file

HERE = "tests/golden/pretrained"
MAKERS = {}


def maker(f):
    MAKERS[f.__name__.replace("_", "-")] = f
    return f


def scatter(net, seed):
    """Random weights, none of them zero, of a size that keeps every layer's part in the result."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in net.named_parameters():
            fan = max(1, p[0].numel()) if p.dim() > 1 else 16
            a = torch.randn(p.shape, generator=g) * fan ** -0.5
            if p.dim() == 1 and name.endswith("weight") or "lambda1" in name or "gamma" in name:
                a = 1 + a
            p.copy_(a.half().float())
    return net.eval()


def save(name, net, io, keep=("config.json",)):
    """The folder as the library writes it, without what is not read."""
    where = "%s/%s" % (HERE, name)
    shutil.rmtree(where, ignore_errors=True)
    net.save_pretrained(where)
    for f in os.listdir(where):
        if not f.endswith(".safetensors") and f not in keep:
            os.remove("%s/%s" % (where, f))
    write_io(name, io)


def write_io(name, io):
    save_file({k: v.detach().contiguous() for k, v in io.items()}, "%s/%s/io.safetensors" % (HERE, name))
    for f in os.listdir("%s/%s" % (HERE, name)):
        os.chmod("%s/%s/%s" % (HERE, name, f), 0o644)


def normals(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@maker
def dit_diffusers():
    from diffusers import DiTTransformer2DModel
    net = scatter(DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
                                        sample_size=6, patch_size=2, num_embeds_ada_norm=5), 1)
    first = net.transformer_blocks[0].norm1.emb
    for block in net.transformer_blocks:
        block.norm1.emb.load_state_dict(first.state_dict())
    x, step, label = normals(2, 3, 4, 6, 6), torch.tensor([0, 250, 875]), torch.tensor([0, 4, 5])
    with torch.no_grad():
        y = net(x, timestep=step, class_labels=label).sample
    save("dit-diffusers", net, {"x": x, "t": step / 1000, "label": label.int(), "y": y})


def pixart(name, seed, **c):
    from diffusers import PixArtTransformer2DModel
    net = scatter(PixArtTransformer2DModel(cross_attention_dim=c["num_attention_heads"] * c["attention_head_dim"], **c), seed)
    n = c["sample_size"]
    io = {"x": normals(seed + 1, 3, c["in_channels"], n, n), "t": torch.tensor([125, 500, 1000]) / 1000,
          "text": normals(seed + 2, 3, 120, c["caption_channels"])}
    keep = (torch.arange(120)[None] < torch.tensor([[3], [120], [17]])).float()
    extra = {"resolution": None, "aspect_ratio": None}
    if net.config.use_additional_conditions:
        io["micro"] = torch.tensor([[512.0, 768.0, 0.6666], [1024.0, 1024.0, 1.0], [33.0, 5.0, 6.6]])
        extra = {"resolution": io["micro"][:, :2], "aspect_ratio": io["micro"][:, 2:]}
    with torch.no_grad():
        io["y"] = net(io["x"], io["text"], timestep=(io["t"] * 1000).round().long(), added_cond_kwargs=extra,
                      encoder_attention_mask=keep).sample
    io["mask"] = (1 - keep) * -10000
    save(name, net, io)


@maker
def pixart_diffusers():
    pixart("pixart-diffusers", 10, num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
           sample_size=6, patch_size=2, caption_channels=10, interpolation_scale=2)


@maker
def pixart_diffusers_micro():
    pixart("pixart-diffusers-micro", 20, num_attention_heads=3, attention_head_dim=4, in_channels=2, out_channels=2, num_layers=1,
           sample_size=10, patch_size=2, caption_channels=6, use_additional_conditions=True)


if __name__ == "__main__":
    for n in sys.argv[1:] or MAKERS:
        MAKERS[n]()
