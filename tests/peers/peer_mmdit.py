"""SD3 and FLUX transformers of random weights, as diffusers saves them with a scheduler, sampled by ddm-sample and by diffusers."""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

from peers import BUILD, SEED, SOURCE, case

sys.path.insert(0, SOURCE + "/tests/golden")
TOKENS, PROMPTS, CFG, GUIDANCE = 5, 3, 3., 2.5
SMALL = dict(sample_size=8, patch_size=2, in_channels=4, num_layers=3, attention_head_dim=8, num_attention_heads=4, joint_attention_dim=12,
             caption_projection_dim=32, pooled_projection_dim=7, out_channels=4)


def randomised(net, draw):
    import torch

    for name, p in net.named_parameters():
        a = torch.randn(p.shape, generator=draw) * (p[0].numel() ** -.5 if p.dim() > 1 else .3)
        p.data.copy_(a + 1 if ".norm_" in name else a)
    return net.eval()


def predict_sd3(net, x, t, text, pooled):
    return net(x, encoder_hidden_states=text, pooled_projections=pooled, timestep=1000 * t.expand(len(x))).sample


def predict_flux(net, x, t, text, pooled):
    import diffusers_double

    return diffusers_double.flux(net, x, t.expand(len(x)), text, pooled, GUIDANCE if net.config.guidance_embeds else 0)


def sampled(make, predict, shift, steps):
    def run():
        import diffusers
        import diffusers_double
        import numpy as np
        import torch

        diffusers_double.patch()
        torch.set_grad_enabled(False)
        draw = torch.Generator().manual_seed(SEED)
        net = randomised(make(diffusers), draw)
        c = net.config
        scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=shift)
        text, away = (torch.randn(n, TOKENS, c.joint_attention_dim, generator=draw) for n in (PROMPTS, 1))
        pooled, away_pooled = (torch.randn(n, c.pooled_projection_dim, generator=draw) for n in (PROMPTS, 1))
        noise = torch.Generator().manual_seed(SEED)
        x = torch.stack([torch.randn(4, 8, 8, generator=noise) for _ in range(PROMPTS)])
        with tempfile.TemporaryDirectory() as d:
            net.save_pretrained(d + "/pipe/transformer")
            scheduler.save_pretrained(d + "/pipe/scheduler")
            if "sample_size" not in c:  # a FLUX does not say for which size it is, nor by which guidance scale
                with open(d + "/pipe/transformer/config.json") as f:
                    o = json.load(f)
                with open(d + "/pipe/transformer/config.json", "w") as f:
                    json.dump(dict(o, sample_size=8, guidance_scale=GUIDANCE), f)
            np.savez(d + "/text.npz", prompt_embeds=text.numpy(), pooled_prompt_embeds=pooled.numpy())
            np.savez(d + "/away.npz", prompt_embeds=away.numpy(), pooled_prompt_embeds=away_pooled.numpy())
            r = subprocess.run([os.path.join(BUILD, "ddm-sample"), "-q", "--noise", "torch", "--seed", str(SEED), "--steps", str(steps), "--route",
                                "expert:0", "--text-features", d + "/text.npz", "--negative-features", d + "/away.npz", "--cfg", str(CFG),
                                "--format", "latent", "-o", d + "/out.tar", d + "/pipe"], capture_output=True, text=True)
            if r.returncode:
                return r.stderr
            with tarfile.open(d + "/out.tar") as tar:
                got = np.stack([np.load(io.BytesIO(tar.extractfile("%06d.npy" % i).read())) for i in range(PROMPTS)])
        net, x, text, pooled, away, away_pooled = (a.double() for a in (net, x, text, pooled, away, away_pooled))
        scheduler.set_timesteps(steps)
        for i, t in enumerate(scheduler.timesteps):
            sigma = scheduler.sigmas[i].double()
            v = predict(net, x, sigma, text, pooled)
            u = predict(net, x, sigma, away.expand(PROMPTS, -1, -1), away_pooled.expand(PROMPTS, -1))
            x = x + (scheduler.sigmas[i + 1].double() - sigma) * (u + CFG * (v - u))
        far = abs(got.reshape(x.shape) - x.numpy()).max() / abs(x).max().item()
        return None if far < 1e-5 else "latents differ by %.3g of the largest" % far
    return run


def sd3(**more):
    return lambda diffusers: diffusers.SD3Transformer2DModel(**dict(SMALL, **more))


def flux(**more):
    return lambda diffusers: diffusers.FluxTransformer2DModel(**dict(
        dict(patch_size=1, in_channels=16, num_layers=2, num_single_layers=3, attention_head_dim=16, num_attention_heads=3, joint_attention_dim=12,
             pooled_projection_dim=7, axes_dims_rope=(4, 6, 6)), **more))


NEEDS = ["torch", "diffusers", "numpy"]
case("SD3, one evaluation: diffusers", NEEDS, sampled(sd3(pos_embed_max_size=7), predict_sd3, 1., 1))
case("SD3, five steps with a shift: diffusers", NEEDS, sampled(sd3(pos_embed_max_size=4), predict_sd3, 3., 5))
case("SD3.5-medium: diffusers", NEEDS, sampled(sd3(pos_embed_max_size=6, qk_norm="rms_norm", dual_attention_layers=(0, 1)), predict_sd3, 3., 4))
case("SD3.5-large: diffusers", NEEDS, sampled(sd3(pos_embed_max_size=5, qk_norm="rms_norm"), predict_sd3, 3., 4))
case("FLUX.1-schnell: diffusers", NEEDS, sampled(flux(), predict_flux, 1., 4))
case("FLUX.1-dev: diffusers", NEEDS, sampled(flux(guidance_embeds=True, axes_dims_rope=(8, 4, 4)), predict_flux, 3., 4))
