"""ddm-sample against diffusers: a DiT pipeline with random weights, sampled by diffusers' schedulers and by DiT's own loops, which are written
out here, from the same torch.randn."""
import io
import json
import os
import subprocess
import tarfile
import tempfile

from peers import BUILD, SEED, case

STEPS, LABEL, CFG = 10, 7, 2.5


def make(dir, other=0):
    """A pipeline; with `other` one of other weights."""
    import diffusers
    import torch

    torch.manual_seed(SEED + other)
    net = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8,
                                          patch_size=2, num_embeds_ada_norm=1000)
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.1)
    first = net.transformer_blocks[0].norm1.emb.state_dict()
    for b in net.transformer_blocks[1:]:
        b.norm1.emb.load_state_dict(first)
    net.save_pretrained(os.path.join(dir, "transformer"))
    diffusers.DDIMScheduler(clip_sample=False).save_pretrained(os.path.join(dir, "scheduler"))
    parts = {"_class_name": "DiTPipeline", "scheduler": ["diffusers", "DDIMScheduler"], "transformer": ["diffusers", "DiTTransformer2DModel"]}
    with open(os.path.join(dir, "model_index.json"), "w") as f:
        json.dump(parts, f)
    return net.eval()


def make_pixart(dir):
    import diffusers
    import torch

    torch.manual_seed(SEED)
    net = diffusers.PixArtTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
                                             sample_size=8, patch_size=2, cross_attention_dim=16, caption_channels=24)
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.1)
    net.save_pretrained(os.path.join(dir, "transformer"))
    diffusers.DPMSolverMultistepScheduler().save_pretrained(os.path.join(dir, "scheduler"))
    return net.eval()


def sampled(dir, *args, what=("--class", str(LABEL)), n=None):
    """The latents of one picture, or of n."""
    import numpy as np

    out = os.path.join(dir, "out.tar")
    r = subprocess.run([os.path.join(BUILD, "ddm-sample"), "-n", "1", "--route", "expert:0", *what, "--seed", str(SEED), "--noise", "torch",
                        "--format", "latent", "--weight-dtype", "f32", "--device", "cpu", *args, "-o", out, dir], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    with tarfile.open(out) as t:
        x = np.stack([np.load(io.BytesIO(t.extractfile("%06d.npy" % i).read())) for i in range(n or 1)])
    os.remove(out)
    return x if n else x[0]


def unlike(got, want):
    error, scale = abs(got - want).max(), abs(want).max()
    return None if error <= 1e-3 * scale else "an error of %g where the largest is %g" % (error, scale)


class Guided:
    """Guidance of the first `channels` from the network's two outputs, as in DiTPipeline and DiT's forward_with_cfg."""

    def __init__(self, net, cfg, channels):
        self.net, self.cfg, self.channels = net, cfg, channels

    def __call__(self, x, t):
        import torch

        with torch.no_grad():
            both = torch.cat([x, x])
            out = self.net(both, timestep=torch.full((2,), int(t)), class_labels=torch.tensor([LABEL, 1000])).sample
        with_class, without = out.chunk(2)
        with_class[:, : self.channels] = without[:, : self.channels] + self.cfg * (with_class - without)[:, : self.channels]
        return with_class


class Captioned:
    """The same for PixArt, between a text and the negative prompt, both shorter than the padded length."""

    def __init__(self, net, text, away):
        import torch

        self.net, self.text = net, torch.zeros(2, 9, text.shape[1])
        self.text[0, : len(text)], self.text[1, : len(away)] = text, away
        self.mask = (torch.arange(9) < torch.tensor([[len(text)], [len(away)]])).long()

    def __call__(self, x, t):
        import torch

        with torch.no_grad():
            out = self.net(torch.cat([x, x]), encoder_hidden_states=self.text, timestep=torch.full((2,), int(t)),
                           added_cond_kwargs={"resolution": None, "aspect_ratio": None}, encoder_attention_mask=self.mask).sample
        with_text, without = out.chunk(2)
        return without + CFG * (with_text - without)


def with_text():
    import diffusers as D
    import numpy as np
    import torch

    wrong = []
    with tempfile.TemporaryDirectory() as dir:
        net = make_pixart(dir)
        text, away = torch.randn(1, 7, 24), torch.randn(1, 3, 24)
        paths = os.path.join(dir, "text.npy"), os.path.join(dir, "away.npy")
        np.save(paths[0], text.numpy())
        np.save(paths[1], away.numpy())
        for solver, scheduler in ("dpm++2m", D.DPMSolverMultistepScheduler()), ("ddim", D.DDIMScheduler(clip_sample=False)):
            bad = unlike(sampled(dir, "--steps", str(STEPS), "--solver", solver, "--cfg", str(CFG),
                                 what=("--text-features", paths[0], "--negative-features", paths[1])),
                         scheduled(Captioned(net, text[0], away[0]), scheduler, STEPS, 0))
            if bad:
                wrong.append("%s: %s" % (solver, bad))
        # As PixArt's programs store them: padded, with a mask; the padding is ignored.
        for name, x in ("text", text), ("away", away):
            full = torch.full((1, 9, 24), 5.0)
            full[:, : x.shape[1]] = x
            np.savez_compressed(os.path.join(dir, name + ".npz"), caption_feature=full.numpy(),
                                attention_mask=(np.arange(9) < x.shape[1])[None].astype(int))
        got = [sampled(dir, "--steps", str(STEPS), "--solver", "ddim", "--cfg", str(CFG),
                       what=("--text-features", paths[0][:-3] + end, "--negative-features", paths[1][:-3] + end)) for end in ("npy", "npz")]
        if not np.array_equal(*got):
            wrong.append("the .npz is not the .npy: %s" % unlike(*got))
    return "; ".join(wrong) or None


def scheduled(net, scheduler, steps, learned, mu=None, **kw):
    import torch

    g = torch.Generator().manual_seed(SEED)
    x = torch.randn(1, 4, 8, 8, generator=g)
    scheduler.set_timesteps(steps, **({} if mu is None else {"mu": mu}))
    x = x * getattr(scheduler, "init_noise_sigma", 1)
    for t in scheduler.timesteps:
        out = net(scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x, t)
        x = scheduler.step(out if learned else out[:, :4], t, x, **kw, **({"generator": g} if kw or learned else {})).prev_sample
    return x[0].numpy()


def with_schedulers():
    import diffusers as D

    cases = [("ddim", D.DDIMScheduler(clip_sample=False), 0, {}),
             ("ddim,eta=.5,spacing=trailing", D.DDIMScheduler(clip_sample=False, timestep_spacing="trailing"), 0, {"eta": 0.5}),
             ("ddpm", D.DDPMScheduler(clip_sample=False, variance_type="learned_range"), 1, {}),
             ("dpm++2m", D.DPMSolverMultistepScheduler(), 0, {}), ("dpm++3s", D.DPMSolverSinglestepScheduler(solver_order=3), 0, {}),
             ("unipc2", D.UniPCMultistepScheduler(), 0, {}), ("unipc3", D.UniPCMultistepScheduler(solver_order=3), 0, {}),
             ("euler-discrete", D.EulerDiscreteScheduler(), 0, {})]
    wrong = []
    with tempfile.TemporaryDirectory() as dir:
        net = make(dir)
        for solver, scheduler, learned, kw in cases:
            for cfg in (1, CFG):
                guide = ["--cfg", str(cfg)] if cfg != 1 else []
                bad = unlike(sampled(dir, "--steps", str(STEPS), "--solver", solver, *guide),
                             scheduled(Guided(net, cfg, 4), scheduler, STEPS, learned, **kw))
                if bad:
                    wrong.append("%s, cfg %g: %s" % (solver, cfg, bad))
    return "; ".join(wrong) or None


def dit_loop(net, kept, ddim):
    """p_sample_loop and ddim_sample_loop of facebookresearch/DiT with the timesteps `kept`, clip_denoised false."""
    import numpy as np
    import torch

    abar = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))[kept]
    before = np.append(1.0, abar[:-1])
    beta = 1 - abar / before
    posterior = beta * (1 - before) / (1 - abar)
    low = np.log(np.append(posterior[1], posterior[1:]))
    g = torch.Generator().manual_seed(SEED)
    x = torch.randn(1, 4, 8, 8, generator=g)
    for i in reversed(range(len(kept))):
        out = net(x, kept[i])
        eps, v = out[:, :4], out[:, 4:]
        x0 = np.sqrt(1 / abar[i]) * x - np.sqrt(1 / abar[i] - 1) * eps
        z = torch.randn(1, 4, 8, 8, generator=g)
        if ddim:
            x = x0 * np.sqrt(before[i]) + np.sqrt(1 - before[i]) * eps
            continue
        mean = beta[i] * np.sqrt(before[i]) / (1 - abar[i]) * x0 + (1 - before[i]) * np.sqrt(1 - beta[i]) / (1 - abar[i]) * x
        frac = (v + 1) / 2
        x = mean + (i > 0) * torch.exp(0.5 * (frac * np.log(beta[i]) + (1 - frac) * low[i])) * z
    return x[0].float().numpy()


def spaced(n):
    """space_timesteps(1000, "n")"""
    at, steps = 0.0, []
    for _ in range(n):
        steps.append(round(at))
        at += 999 / (n - 1)
    return steps


def with_dit():
    wrong = []
    with tempfile.TemporaryDirectory() as dir:
        net = make(dir)
        for solver, kept, ddim in (("ddpm,spacing=respaced", spaced(25), 0), ("ddim", list(range(0, 1000, 40)), 1),
                                   ("ddim,spacing=respaced", spaced(25), 1)):
            bad = unlike(sampled(dir, "--steps", "25", "--solver", solver, "--cfg", str(CFG), "--cfg-channels", "3"),
                         dit_loop(Guided(net, CFG, 3), kept, ddim))
            if bad:
                wrong.append("%s: %s" % (solver, bad))
    return "; ".join(wrong) or None


def of_a_batch():
    """Three pictures of one generator, and one picture of each of three: the noise of the steps follows the initial noise of all pictures."""
    import diffusers as D
    import torch

    wrong = []
    with tempfile.TemporaryDirectory() as dir:
        net = make(dir)
        for solver, scheduler, learned, kw in (("ddim,eta=1", D.DDIMScheduler(clip_sample=False), 0, {"eta": 1.0}),
                                               ("ddpm", D.DDPMScheduler(clip_sample=False, variance_type="learned_range"), 1, {}),
                                               ("dpm++2m,sde=yes", D.DPMSolverMultistepScheduler(algorithm_type="sde-dpmsolver++"), 0, {})):
            g = torch.Generator().manual_seed(SEED)
            x = torch.randn(3, 4, 8, 8, generator=g)
            scheduler.set_timesteps(STEPS)
            for t in scheduler.timesteps:
                with torch.no_grad():
                    out = net(x, timestep=torch.full((3,), int(t)), class_labels=torch.full((3,), LABEL)).sample
                x = scheduler.step(out if learned else out[:, :4], t, x, generator=g, **kw).prev_sample
            for batch in (3, 2):
                got = sampled(dir, "-n", "3", "--batch", str(batch), "--steps", str(STEPS), "--solver", solver, n=3)
                bad = unlike(got, x.numpy())
                if bad:
                    wrong.append("%s by %d: %s" % (solver, batch, bad))
    return "; ".join(wrong) or None


class Timed:
    """The network at times that need not be integers."""

    def __init__(self, net):
        self.net = net

    def __call__(self, x, t):
        import torch

        with torch.no_grad():
            return self.net(x, timestep=t[None], class_labels=torch.tensor([LABEL])).sample


def with_flow():
    """The pipeline's own sampler: only the number of steps is given."""
    import diffusers as D

    wrong = []
    with tempfile.TemporaryDirectory() as dir:
        net = make(dir)
        for config in ({}, {"shift": 3.0}, {"use_dynamic_shifting": True, "base_image_seq_len": 8, "max_image_seq_len": 20},
                       {"use_dynamic_shifting": True, "base_image_seq_len": 8, "max_image_seq_len": 20, "time_shift_type": "linear"},
                       {"shift": 5.0, "shift_terminal": 0.1}, {"use_karras_sigmas": True}, {"shift": 2.0, "use_exponential_sigmas": True},
                       {"use_beta_sigmas": True}):
            s = D.FlowMatchEulerDiscreteScheduler(**config)
            s.save_pretrained(os.path.join(dir, "scheduler"))
            c, tokens = s.config, 16
            slope = (c.max_shift - c.base_shift) / (c.max_image_seq_len - c.base_image_seq_len)
            mu = tokens * slope + c.base_shift - slope * c.base_image_seq_len if c.use_dynamic_shifting else None
            bad = unlike(sampled(dir, "--steps", str(STEPS)), scheduled(Timed(net), s, STEPS, 0, mu=mu))
            if bad:
                wrong.append("%s: %s" % (config, bad))
    return "; ".join(wrong) or None


def with_flow_by_dpm():
    """DPM-Solver++ in log-SNR for a network of the flow, at the same sigmas. ddm keeps alpha^2 + sigma^2 = 1 and begins there with noise of
    deviation 1, diffusers begins with that at sigma .999 of the flow: the initial noise is scaled accordingly."""
    import diffusers as D
    import torch

    steps, wrong = 9, []  # of the 999 times .001 .. .999
    sigmas = [(999 - 111 * i) / 1000 for i in range(steps)]
    with tempfile.TemporaryDirectory() as dir:
        net = make(dir)
        D.FlowMatchEulerDiscreteScheduler().save_pretrained(os.path.join(dir, "scheduler"))
        for order in (1, 2):
            for final in (True, False):
                s = D.DPMSolverMultistepScheduler(use_flow_sigmas=True, prediction_type="flow_prediction", algorithm_type="dpmsolver++",
                                                  solver_order=order, lower_order_final=final)
                s.set_timesteps(steps)
                s.sigmas, s.timesteps = torch.tensor(sigmas + [0.0]), torch.tensor([1000 * v for v in sigmas])
                x = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(SEED)) * (0.999**2 + 0.001**2) ** 0.5
                for t in s.timesteps:
                    x = s.step(Timed(net)(x, t)[:, :4], t, x).prev_sample
                solver = "dpm++%s,spacing=trailing%s" % ("1" if order == 1 else "2m", "" if final else ",lower=no")
                bad = unlike(sampled(dir, "--steps", str(steps), "--solver", solver), x[0].numpy())
                if bad:
                    wrong.append("%s: %s" % (solver, bad))
    return "; ".join(wrong) or None


def with_flow_by_unipc():
    """UniPC for a network of the flow, as above. With bh1 diffusers' last step to zero noise gives nan."""
    import diffusers as D
    import torch

    wrong = []
    with tempfile.TemporaryDirectory() as dir:
        net = make(dir)
        D.FlowMatchEulerDiscreteScheduler().save_pretrained(os.path.join(dir, "scheduler"))
        for steps in (9, 27):
            for order in (1, 2, 3):
                s = D.UniPCMultistepScheduler(use_flow_sigmas=True, prediction_type="flow_prediction", solver_order=order)
                s.set_timesteps(steps)
                sigmas = [(999 - 999 // steps * i) / 1000 for i in range(steps)]
                s.sigmas, s.timesteps = torch.tensor(sigmas + [0.0]), torch.tensor([1000 * v for v in sigmas])
                x = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(SEED)) * (0.999**2 + 0.001**2) ** 0.5
                for t in s.timesteps:
                    x = s.step(Timed(net)(x, t)[:, :4], t, x).prev_sample
                solver = "unipc%d,spacing=trailing" % order
                bad = unlike(sampled(dir, "--steps", str(steps), "--solver", solver), x[0].numpy())
                if bad:
                    wrong.append("%s, %d steps: %s" % (solver, steps, bad))
    return "; ".join(wrong) or None


if __name__ == "__main__":
    case("a DiT pipeline: eight of diffusers' schedulers, with and without guidance", ("torch", "diffusers"), with_schedulers)
    case("DiT's own loops, guided in three channels", ("torch", "diffusers"), with_dit)
    case("a PixArt pipeline and the features of a caption: DPM-Solver++ and DDIM, guided", ("torch", "diffusers"), with_text)
    case("a DiT pipeline of the flow: shifts by hand and by tokens, and other sigmas", ("torch", "diffusers"), with_flow)
    case("an expert of the flow under DPM-Solver++, at the sigmas of DPMSolverMultistepScheduler(use_flow_sigmas)", ("torch", "diffusers"),
         with_flow_by_dpm)
    case("the same under UniPC", ("torch", "diffusers"), with_flow_by_unipc)
    case("a batch of pictures of one generator, with noise in every step", ("torch", "diffusers"), of_a_batch)
