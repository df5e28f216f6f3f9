"""Makes tests/golden/net-sd3.safetensors and net-sd35.safetensors: small SD3Transformer2DModels of diffusers with random weights, an input, and
what diffusers makes of it in double: the output and the gradients of sum(dy * y). The weights are there twice: under their original names, as
Stability's files have them, and under diffusers' names. Needs torch, diffusers, safetensors.

    w/NAME  float16 values, exact in every type; pos_embed float32; original names
    v/NAME  the same under diffusers' names
    x, t, text, mask, pooled, dy, y   the input, the cotangent and the output
    g/NAME  gradients, float32; original names
    d/NAME  sum(gradient * weight), double: the whole gradient once more, to more digits
    gx      gradient of x
"""
import json
import math
import os

import diffusers
import torch
from diffusers.models import embeddings, normalization
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
torch.set_default_dtype(torch.float64)
BATCH, TOKENS, LENGTHS = 3, 5, (5, 2, 4)


def double_timesteps(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000):
    """diffusers' get_timestep_embedding computes in float32, also in networks of doubles; this one in double."""
    half = embedding_dim // 2
    angle = scale * timesteps[:, None].double() * torch.exp(-math.log(max_period) * torch.arange(half) / (half - downscale_freq_shift))
    parts = [torch.cos(angle), torch.sin(angle)] if flip_sin_to_cos else [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts, dim=-1)


def double_norm(self, x):
    """diffusers' RMSNorm computes the mean square in float32, also in networks of doubles; this one in double."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


embeddings.get_timestep_embedding = double_timesteps
normalization.RMSNorm.forward = double_norm


def swapped(a):
    return torch.cat(tuple(reversed(a.chunk(2))))


def original(state, layers):
    """From diffusers' names to the original ones, for weights and for gradients."""
    s, out = dict(state), {}

    def take(ours, *theirs, by=None):
        for end in (".weight", ".bias"):
            if theirs[0] + end in s:
                v = torch.cat([s.pop(t + end) for t in theirs])
                out[ours + end] = by(v) if by else v

    out["pos_embed"] = s.pop("pos_embed.pos_embed")
    take("x_embedder.proj", "pos_embed.proj")
    take("context_embedder", "context_embedder")
    for ours, theirs in ("t_embedder", "timestep_embedder"), ("y_embedder", "text_embedder"):
        for i in 0, 1:
            take("%s.mlp.%d" % (ours, 2 * i), "time_text_embed.%s.linear_%d" % (theirs, i + 1))
    take("final_layer.linear", "proj_out")
    take("final_layer.adaLN_modulation.1", "norm_out.linear", by=swapped)
    for i in range(layers):
        block = "transformer_blocks.%d." % i
        for ours, norm, attn, to, out_, ff, norms in (
                ("x_block", "norm1", "attn", ("to_q", "to_k", "to_v"), "to_out.0", "ff", ("norm_q", "norm_k")),
                ("context_block", "norm1_context", "attn", ("add_q_proj", "add_k_proj", "add_v_proj"), "to_add_out", "ff_context",
                 ("norm_added_q", "norm_added_k"))):
            mine = "joint_blocks.%d.%s." % (i, ours)
            last = ours == "context_block" and i == layers - 1
            take(mine + "adaLN_modulation.1", block + norm + ".linear", by=swapped if last else None)
            take(mine + "attn.qkv", *[block + "attn." + t for t in to])
            take(mine + "attn.proj", block + "attn." + out_)
            for a, b in zip(("ln_q", "ln_k"), norms):
                take(mine + "attn." + a, block + "attn." + b)
            take(mine + "mlp.fc1", block + ff + ".net.0.proj")
            take(mine + "mlp.fc2", block + ff + ".net.2")
        mine = "joint_blocks.%d.x_block.attn2." % i
        take(mine + "qkv", *[block + "attn2." + t for t in ("to_q", "to_k", "to_v")])
        take(mine + "proj", block + "attn2.to_out.0")
        for a, b in ("ln_q", "norm_q"), ("ln_k", "norm_k"):
            take(mine + a, block + "attn2." + b)
    assert not s, list(s)
    return out


def randomise(net, draw):
    for name, p in net.named_parameters():
        a = torch.randn(p.shape, generator=draw) * (p[0].numel() ** -.5 if p.dim() > 1 else .3)
        p.data.copy_((a + 1 if ".norm_" in name else a).half())


def make(name, seed, config):
    draw = torch.Generator().manual_seed(seed)
    net = diffusers.SD3Transformer2DModel(**config).double().eval()
    randomise(net, draw)
    c = net.config
    numbers = {k: v for k, v in c.items() if not k.startswith("_")}
    numbers.update(_class_name="SD3Transformer2DModel", text_tokens=TOKENS)
    side = c.sample_size
    x = torch.randn(BATCH, c.in_channels, side, side, generator=draw).requires_grad_()
    t = torch.tensor([.125, .5, 1.])
    text = torch.randn(BATCH, TOKENS, c.joint_attention_dim, generator=draw).half().double()
    pooled = torch.randn(BATCH, c.pooled_projection_dim, generator=draw).half().double()
    x.data.copy_(x.data.half())
    # diffusers has no mask: it gets each text without its padding.
    y = torch.cat([net(x[i:i + 1], encoder_hidden_states=text[i:i + 1, :n], pooled_projections=pooled[i:i + 1], timestep=1000 * t[i:i + 1]).sample
                   for i, n in enumerate(LENGTHS)])
    dy = torch.randn(y.shape, generator=draw).half().double()
    (y * dy).sum().backward()
    state = net.state_dict()
    grad = {k: p.grad if p.grad is not None else torch.zeros_like(p) for k, p in net.named_parameters()}
    grad["pos_embed.pos_embed"] = torch.zeros_like(state["pos_embed.pos_embed"])
    weights, grads = original(state, c.num_layers), original(grad, c.num_layers)
    out = {"x": x.detach().float(), "t": t.float(), "text": text.half(), "mask": torch.tensor([[0 if k < n else -10000 for k in range(TOKENS)] for n in LENGTHS]).float(),
           "pooled": pooled.half(), "dy": dy.half(), "y": y.detach(),
           "gx": x.grad.float()}
    for k, v in state.items():
        out["v/" + k] = v.float() if k.startswith("pos_embed.pos") else v.half()
    for k, v in weights.items():
        out["w/" + k] = v.float() if k == "pos_embed" else v.half()
        if k != "pos_embed":
            out["g/" + k] = grads[k].float()
            out["d/" + k] = (grads[k] * v).sum().reshape(1)
    save_file({k: v.contiguous().clone() for k, v in out.items()}, "%s/net-%s.safetensors" % (HERE, name),
              {"config": json.dumps(numbers, sort_keys=True)})
    print(name, "%d numbers, output of deviation %.3g" % (sum(v.numel() for v in state.values()), y.detach().std()))


SMALL = dict(sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=6,
             caption_projection_dim=16, pooled_projection_dim=7, out_channels=4)
make("sd3", 1, dict(SMALL, pos_embed_max_size=7))
make("sd35", 2, dict(SMALL, pos_embed_max_size=4, qk_norm="rms_norm", dual_attention_layers=(0,)))
