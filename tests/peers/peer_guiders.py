"""The guidance of ddm-sample against diffusers.guiders: a DiT pipeline of the flow with random weights, followed by Euler steps from the same noise.

Where the two differ, the comparison takes the form that agrees:
- APG: ours is c + (S - 1) d on predictions of x0, as in the paper. diffusers guides whatever it is given and adds w d to u, unless
  use_original_formulation is set: c + w d, so w = S - 1 there, and it is given x0.
- An interval is one of times here, and one of steps there.
- Autoguidance: diffusers' weak prediction is the network itself without some layers. Only the formula is compared, with another network.
Classifier-free guidance, CFG-Zero* and rescaling are compared as they are: rescaling takes the deviations of what the network predicts."""
import os
import tempfile

from peer_solvers import LABEL, STEPS, make, sampled, unlike
from peers import SEED, case

SCALE = 3.5


def network(net, x, t, label):
    import torch

    with torch.no_grad():
        return net(x, timestep=t[None], class_labels=torch.tensor([label])).sample[:, :4]


def guided(net, weak, guider, on_x0):
    """The picture that Euler steps give; u is the network without class, or the weak network with it."""
    import diffusers as D
    import torch

    s = D.FlowMatchEulerDiscreteScheduler()
    s.set_timesteps(STEPS)
    x = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(SEED))
    for i, t in enumerate(s.timesteps):
        sigma = s.sigmas[i]
        guider.set_state(step=i, num_inference_steps=STEPS, timestep=t)
        c = network(net, x, t, LABEL)
        u = network(weak, x, t, LABEL) if weak else network(net, x, t, 1000)
        v = (x - guider.forward(x - sigma * c, x - sigma * u).pred) / sigma if on_x0 else guider.forward(c, u).pred
        x = s.step(v, t, x).prev_sample
    return x[0].numpy()


def apg(momentum=None, **kw):
    from diffusers.guiders import AdaptiveProjectedGuidance
    from diffusers.guiders.adaptive_projected_guidance import MomentumBuffer

    g = AdaptiveProjectedGuidance(guidance_scale=SCALE - 1, adaptive_projected_guidance_momentum=momentum, use_original_formulation=True, **kw)
    g.momentum_buffer = MomentumBuffer(momentum) if momentum else None
    return g


def between(first, last):
    """The times of the steps first .. last - 1, as A..B."""
    import diffusers as D

    s = D.FlowMatchEulerDiscreteScheduler()
    s.set_timesteps(STEPS)
    t = [float(v) for v in s.sigmas]
    return "%g..%g" % ((t[last - 1] + t[last]) / 2, (t[first - 1] + t[first]) / 2)


def with_guiders():
    import diffusers as D
    from diffusers import guiders as G

    wrong, seen = [], []
    with tempfile.TemporaryDirectory() as dir, tempfile.TemporaryDirectory() as other:
        net, weak = make(dir), make(other, 1)
        for folder in (dir, other):
            D.FlowMatchEulerDiscreteScheduler().save_pretrained(os.path.join(folder, "scheduler"))
        none = guided(net, None, G.ClassifierFreeGuidance(guidance_scale=1.0), False)
        cases = [([], None, G.ClassifierFreeGuidance(guidance_scale=SCALE), False),
                 (["--cfg-interval", between(2, 6)], None, G.ClassifierFreeGuidance(guidance_scale=SCALE, start=0.2, stop=0.6), False),
                 (["--cfg-rescale", ".7"], None, G.ClassifierFreeGuidance(guidance_scale=SCALE, guidance_rescale=0.7), False),
                 (["--guidance", "zero"], None, G.ClassifierFreeZeroStarGuidance(guidance_scale=SCALE), False),
                 (["--guidance", "zero:0", "--cfg-rescale", ".4"], None,
                  G.ClassifierFreeZeroStarGuidance(guidance_scale=SCALE, zero_init_steps=0, guidance_rescale=0.4), False),
                 (["--guidance", "apg"], None, apg(eta=0.0, adaptive_projected_guidance_rescale=0.0), True),
                 (["--guidance", "apg:r=.5,eta=.3"], None, apg(eta=0.3, adaptive_projected_guidance_rescale=0.5), True),
                 (["--guidance", "apg:beta=-.5,r=.8", "--cfg-after-mixing"], None,
                  apg(-0.5, eta=0.0, adaptive_projected_guidance_rescale=0.8), True),
                 (["--guide", other], weak, G.AutoGuidance(guidance_scale=SCALE, auto_guidance_layers=0, dropout=1.0), False),
                 (["--guide", other, "--cfg-rescale", ".7", "--cfg-interval", between(2, 6)], weak,
                  G.AutoGuidance(guidance_scale=SCALE, auto_guidance_layers=0, dropout=1.0, start=0.2, stop=0.6, guidance_rescale=0.7), False)]
        for options, by, guider, on_x0 in cases:
            want = guided(net, by, guider, on_x0)
            bad = unlike(sampled(dir, "--steps", str(STEPS), "--cfg", str(SCALE), *options), want)
            if bad:
                wrong.append("%s: %s" % (" ".join(options), bad))
            if any(not unlike(want, w) for w in [none, *seen]):
                wrong.append("%s: the same picture as without it or as with other options" % " ".join(options))
            seen.append(want)
    return "; ".join(wrong) or None


case("a DiT pipeline of the flow guided by cfg, apg, zero, in an interval, rescaled, and by a weaker network", ("torch", "diffusers"), with_guiders)
