"""Makes tests/golden/net-sd3.safetensors, net-sd35.safetensors and net-flux.safetensors: small SD3Transformer2DModels and a FluxTransformer2DModel of
diffusers with random weights, an input, and what diffusers makes of it in double: the output and the gradients of sum(dy * y). The weights are
there twice: under their original names and under diffusers' names. Needs torch, diffusers, safetensors.

    w/NAME  float16 values, exact in every type; pos_embed float32; original names
    v/NAME  the same under diffusers' names
    x, t, text, mask, pooled, dy, y   the input, the cotangent and the output
    g/NAME  gradients, float32; original names
    d/NAME  sum(gradient * weight), double: the whole gradient once more, to more digits
    gx      gradient of x
"""
import json
import os

import diffusers
import diffusers_double
import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
torch.set_default_dtype(torch.float64)
BATCH, SIDE, TOKENS, LENGTHS, GUIDANCE = 3, 8, 5, (5, 2, 4), 4.5


diffusers_double.patch()


def swapped(a):
    return torch.cat(tuple(reversed(a.chunk(2))))


def taker(state):
    """The tensors under diffusers' names that are left, those under original names, and what moves one: for weights and for gradients."""
    s, out = dict(state), {}

    def take(ours, *theirs, by=None):
        for end in (".weight", ".bias"):
            if theirs[0] + end in s:
                v = torch.cat([s.pop(t + end) for t in theirs])
                out[ours + (".scale" if ours.endswith("_norm") else end)] = by(v) if by else v
    return s, out, take


def from_sd3(state, layers, single):
    s, out, take = taker(state)
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


def from_flux(state, layers, single):
    s, out, take = taker(state)
    take("img_in", "x_embedder")
    take("txt_in", "context_embedder")
    for ours, theirs in ("time_in", "timestep_embedder"), ("vector_in", "text_embedder"), ("guidance_in", "guidance_embedder"):
        take(ours + ".in_layer", "time_text_embed.%s.linear_1" % theirs)
        take(ours + ".out_layer", "time_text_embed.%s.linear_2" % theirs)
    take("final_layer.linear", "proj_out")
    take("final_layer.adaLN_modulation.1", "norm_out.linear", by=swapped)
    for i in range(layers):
        block, mine = "transformer_blocks.%d." % i, "double_blocks.%d." % i
        for ours, norm, to, out_, ff, norms in (
                ("img", "norm1", ("to_q", "to_k", "to_v"), "to_out.0", "ff", ("norm_q", "norm_k")),
                ("txt", "norm1_context", ("add_q_proj", "add_k_proj", "add_v_proj"), "to_add_out", "ff_context",
                 ("norm_added_q", "norm_added_k"))):
            take(mine + ours + "_mod.lin", block + norm + ".linear")
            take(mine + ours + "_attn.qkv", *[block + "attn." + t for t in to])
            take(mine + ours + "_attn.proj", block + "attn." + out_)
            take(mine + ours + "_attn.norm.query_norm", block + "attn." + norms[0])
            take(mine + ours + "_attn.norm.key_norm", block + "attn." + norms[1])
            take(mine + ours + "_mlp.0", block + ff + ".net.0.proj")
            take(mine + ours + "_mlp.2", block + ff + ".net.2")
    for i in range(single):
        block, mine = "single_transformer_blocks.%d." % i, "single_blocks.%d." % i
        take(mine + "modulation.lin", block + "norm.linear")
        take(mine + "linear1", *[block + t for t in ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")])
        take(mine + "linear2", block + "proj_out")
        take(mine + "norm.query_norm", block + "attn.norm_q")
        take(mine + "norm.key_norm", block + "attn.norm_k")
    assert not s, list(s)
    return out


def run_sd3(net, x, t, text, pooled):
    return net(x, encoder_hidden_states=text, pooled_projections=pooled, timestep=1000 * t).sample


def run_flux(net, x, t, text, pooled):
    return diffusers_double.flux(net, x, t, text, pooled, GUIDANCE)


def randomise(net, draw):
    for name, p in net.named_parameters():
        a = torch.randn(p.shape, generator=draw) * (p[0].numel() ** -.5 if p.dim() > 1 else .3)
        p.data.copy_((a + 1 if ".norm_" in name else a).half())


def make(name, seed, cls, original, run, config, **more):
    draw = torch.Generator().manual_seed(seed)
    net = cls(**config).double().eval()
    randomise(net, draw)
    c = net.config
    numbers = {k: v for k, v in c.items() if not k.startswith("_")}
    numbers.update(_class_name=cls.__name__, text_tokens=TOKENS, **more)
    x = torch.randn(BATCH, 4, SIDE, SIDE, generator=draw).requires_grad_()
    t = torch.tensor([.125, .5, 1.])
    text = torch.randn(BATCH, TOKENS, c.joint_attention_dim, generator=draw).half().double()
    pooled = torch.randn(BATCH, c.pooled_projection_dim, generator=draw).half().double()
    x.data.copy_(x.data.half())
    # diffusers has no mask: it gets each text without its padding.
    y = torch.cat([run(net, x[i:i + 1], t[i:i + 1], text[i:i + 1, :n], pooled[i:i + 1]) for i, n in enumerate(LENGTHS)])
    dy = torch.randn(y.shape, generator=draw).half().double()
    (y * dy).sum().backward()
    state = net.state_dict()
    grad = {k: torch.zeros_like(v) for k, v in state.items()}
    grad.update({k: p.grad for k, p in net.named_parameters() if p.grad is not None})
    single = c.get("num_single_layers")
    weights, grads = original(state, c.num_layers, single), original(grad, c.num_layers, single)
    out = {"x": x.detach().float(), "t": t.float(), "text": text.half(), "pooled": pooled.half(), "dy": dy.half(), "y": y.detach(),
           "mask": torch.tensor([[0 if k < n else -10000 for k in range(TOKENS)] for n in LENGTHS]).float(), "gx": x.grad.float()}
    for k, v in state.items():
        out["v/" + k] = v.float() if k.startswith("pos_embed.pos") else v.half()
    for k, v in weights.items():
        out["w/" + k] = v.float() if k == "pos_embed" else v.half()
        if k != "pos_embed":
            out["g/" + k] = grads[k].float()
            out["d/" + k] = (grads[k] * v).sum().reshape(1)
    path = "%s/net-%s.safetensors" % (HERE, name)
    save_file({k: v.contiguous().clone() for k, v in out.items()}, path, {"config": json.dumps(numbers, sort_keys=True)})
    os.chmod(path, 0o644)
    print(name, "%d numbers, output of deviation %.3g" % (sum(v.numel() for v in state.values()), y.detach().std()))


SMALL = dict(sample_size=SIDE, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=6,
             caption_projection_dim=16, pooled_projection_dim=7, out_channels=4)
SD3, FLUX = diffusers.SD3Transformer2DModel, diffusers.FluxTransformer2DModel
make("sd3", 1, SD3, from_sd3, run_sd3, dict(SMALL, pos_embed_max_size=7))
make("sd35", 2, SD3, from_sd3, run_sd3, dict(SMALL, pos_embed_max_size=4, qk_norm="rms_norm", dual_attention_layers=(0,)))
make("flux", 3, FLUX, from_flux, run_flux, dict(patch_size=1, in_channels=16, num_layers=1, num_single_layers=2, attention_head_dim=8,
     num_attention_heads=2, joint_attention_dim=6, pooled_projection_dim=7, guidance_embeds=True, axes_dims_rope=(2, 2, 4)), sample_size=SIDE,
     guidance_scale=GUIDANCE)
