"""The results of diffusers' schedulers from a fixed start with a fixed network: python discrete_values.py > discrete_values.h,
and with the argument unipc > unipc_values.h. Needs diffusers.

The network answers x t / (t + 1) at step t, in every kind of prediction, and .1 x - .3 where a variance is learned; noise is torch.randn's."""
import sys
import warnings

import diffusers
import torch

warnings.filterwarnings("ignore")
diffusers.logging.set_verbosity_error()
SHAPE = (4, 3, 8, 8)
LINEAR = dict(beta_start=1e-4, beta_end=0.02, beta_schedule="linear")
SCALED = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
COSINE = dict(beta_schedule="squaredcos_cap_v2")
KINDS = {"epsilon": "epsilon", "x0": "sample", "v_prediction": "v_prediction"}


def start():
    c, h, w, b = 3, 8, 8, 4
    x = torch.arange(b * c * h * w).reshape(c, h, w, b) / (b * c * h * w)
    return x.permute(3, 0, 1, 2).contiguous()


def loop(s, steps, learned=False, **kw):
    g = torch.Generator().manual_seed(0)
    s.set_timesteps(steps)
    x = start() * s.init_noise_sigma
    for t in s.timesteps:
        y = s.scale_model_input(x, t)
        out = y * (t / (t + 1))
        if learned:
            out = torch.cat([out, 0.1 * y - 0.3], dim=1)
        x = s.step(out, t, x, **dict(kw, generator=g) if noisy(s) else kw).prev_sample
    return x.flatten()


def noisy(s):
    return isinstance(s, (diffusers.DDPMScheduler, diffusers.DDIMScheduler)) or s.config.get("algorithm_type") == "sde-dpmsolver++"


rows = []


def add(solver, path, kind, steps, scheduler, learned=False, **kw):
    table = {"linear_betas": LINEAR, "scaled_linear_betas": SCALED, "cosine_betas": COSINE}[path]
    x = loop(scheduler(table, prediction_type=KINDS[kind]), steps, learned, **kw)
    if x.isfinite().all():  # a step of no length at the end of Karras' sigmas makes nan of orders above 1
        rows.append((solver, path, kind, steps, int(learned), x[::109].tolist()))


D = diffusers
for path in ("linear_betas", "scaled_linear_betas", "cosine_betas"):
    for kind in KINDS:
        add("ddpm,clip=1", path, kind, 1000, lambda t, **k: D.DDPMScheduler(**t, **k))
        add("ddim,clip=1", path, kind, 10, lambda t, **k: D.DDIMScheduler(**t, **k))
        add("dpm++2m", path, kind, 10, lambda t, **k: D.DPMSolverMultistepScheduler(**t, **k))
        add("euler-discrete", path, kind, 10, lambda t, **k: D.EulerDiscreteScheduler(**t, **k))
for spacing in ("leading", "linspace", "trailing"):
    for offset in (0, 1):
        name = f"spacing={spacing},offset={offset}"
        same = dict(timestep_spacing=spacing, steps_offset=offset)
        path, kind = ("scaled_linear_betas", "v_prediction") if offset else ("linear_betas", "epsilon")
        add(f"ddpm,{name}", path, kind, 20, lambda t, **k: D.DDPMScheduler(**t, **k, **same, clip_sample=False))
        add(f"ddim,{name}", path, kind, 20, lambda t, **k: D.DDIMScheduler(**t, **k, **same, clip_sample=False))
        add(f"dpm++3m,{name}", path, kind, 20, lambda t, **k: D.DPMSolverMultistepScheduler(**t, **k, **same, solver_order=3))
        add(f"euler-discrete,{name}", path, kind, 20, lambda t, **k: D.EulerDiscreteScheduler(**t, **k, **same))
P, E = "linear_betas", "epsilon"
add("ddpm,variance=large", P, E, 50, lambda t, **k: D.DDPMScheduler(**t, **k, variance_type="fixed_large", clip_sample=False))
add("ddpm", P, E, 50, lambda t, **k: D.DDPMScheduler(**t, **k, variance_type="learned_range", clip_sample=False), learned=True)
add("ddim,eta=.7", P, E, 50, lambda t, **k: D.DDIMScheduler(**t, **k, clip_sample=False), eta=0.7)
add("ddim,eta=1,clip=2", P, E, 50, lambda t, **k: D.DDIMScheduler(**t, **k, clip_sample_range=2.0), eta=1.0)
add("ddim,final=min,offset=1", P, E, 50, lambda t, **k: D.DDIMScheduler(**t, **k, clip_sample=False, set_alpha_to_one=False, steps_offset=1))
add("euler-discrete,final=min", P, E, 10, lambda t, **k: D.EulerDiscreteScheduler(**t, **k, final_sigmas_type="sigma_min"))
for steps in (2, 3, 7, 8, 9, 20):
    for order, name in ((1, "dpm++1"), (2, "dpm++2m"), (3, "dpm++3m")):
        for final in ("zero", "min"):
            for type in ("midpoint", "heun"):
                for lower in ("yes", "no"):
                    if order == 1 and (type == "heun" or lower == "no"):
                        continue
                    how = dict(solver_order=order, solver_type=type, lower_order_final=lower == "yes",
                               final_sigmas_type="zero" if final == "zero" else "sigma_min")
                    keys = f",final={final},type={type},lower={lower}"
                    add(name + keys, P, E, steps, lambda t, **k: D.DPMSolverMultistepScheduler(**t, **k, **how))
                    if order > 1:
                        add(name[:-1] + "s" + keys, P, E, steps, lambda t, **k: D.DPMSolverSinglestepScheduler(**t, **k, **how))
for path, kind, some in ((P, E, (2, 9, 20)), ("scaled_linear_betas", "v_prediction", (9,)), ("cosine_betas", "x0", (20,))):
    for steps in some:
        for final in ("zero", "min"):
            sigmas = dict(use_karras_sigmas=True, final_sigmas_type="zero" if final == "zero" else "sigma_min")
            keys = f",final={final},sigmas=karras"
            for spacing in ("linspace", "leading", "trailing"):
                add(f"euler-discrete,spacing={spacing}" + keys, path, kind, steps,
                    lambda t, **k: D.EulerDiscreteScheduler(**t, **k, **sigmas, timestep_spacing=spacing))
            # The first two steps of the cosine table are equal; diffusers takes them for the second.
            for order, name in ((1, "dpm++1"), (2, "dpm++2m"), (3, "dpm++3m")) if path != "cosine_betas" else ():
                add(name + keys, path, kind, steps, lambda t, **k: D.DPMSolverMultistepScheduler(**t, **k, **sigmas, solver_order=order))
                if order > 1:
                    add(name[:-1] + "s" + keys + ",lower=no", path, kind, steps,
                        lambda t, **k: D.DPMSolverSinglestepScheduler(**t, **k, **sigmas, solver_order=order))
            for karras in (False, True) if path != "cosine_betas" else (False,):
                for order, type, name in ((1, "midpoint", "dpm++1"), (2, "midpoint", "dpm++2m"), (2, "heun", "dpm++2m,type=heun")):
                    how = dict(sigmas, use_karras_sigmas=karras, solver_order=order, solver_type=type, algorithm_type="sde-dpmsolver++")
                    add(f"{name},sde=yes,final={final}" + (",sigmas=karras" if karras else ""), path, kind, steps,
                        lambda t, **k: D.DPMSolverMultistepScheduler(**t, **k, **how))
for steps in (1, 2, 3, 5, 20):
    for order in (1, 2, 3):
        for final in ("zero", "min"):
            for type in ("bh2", "bh1"):
                for lower in ("yes", "no") if final == "min" or order == 1 else ("yes",):
                    how = dict(solver_order=order, solver_type=type, lower_order_final=lower == "yes",
                               final_sigmas_type="zero" if final == "zero" else "sigma_min")
                    path, kind = ("scaled_linear_betas", "v_prediction") if type == "bh1" else (P, E)
                    add(f"unipc{order},final={final},type={type},lower={lower}", path, kind, steps,
                        lambda t, **k: D.UniPCMultistepScheduler(**t, **k, **how))
for spacing in ("leading", "trailing"):
    add(f"unipc3,spacing={spacing}", P, E, 20, lambda t, **k: D.UniPCMultistepScheduler(**t, **k, solver_order=3, timestep_spacing=spacing))
for order in (2, 3):
    add(f"unipc{order},final=zero,sigmas=karras", P, E, 12, lambda t, **k: D.UniPCMultistepScheduler(**t, **k, solver_order=order,
                                                                                                    use_karras_sigmas=True))

if sys.argv[1:] == ["unipc"]:
    print("/* Made by discrete_values.py unipc with diffusers: rows of golden_discrete, for discrete_values.h. */")
else:
    print("/* Made by discrete_values.py with diffusers. */\n")
    print("static const struct {\n\tconst char *solver, *path, *prediction;\n\tint64_t steps;\n\tint learned;")
    print("\tdouble at[8]; /* elements 0, 109, .. */\n} golden_discrete[] = {")
for solver, path, kind, steps, learned, x in rows:
    if solver.startswith("unipc") == (sys.argv[1:] == ["unipc"]):
        print(f'    {{"{solver}", "{path}", "{kind}", {steps}, {learned},\n     {{{", ".join(f"{v:.9g}" for v in x)}}}}},')
if not sys.argv[1:]:
    print('#include "tests/golden/unipc_values.h"\n};')
