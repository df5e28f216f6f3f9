"""The times of diffusers' FlowMatchEulerDiscreteScheduler: python flow_times.py > flow_times.h. Needs diffusers and scipy."""
import diffusers
import numpy as np

rows = []


def add(solver, config, steps, even=False, mu=None):
    s = diffusers.FlowMatchEulerDiscreteScheduler(**config)
    s.set_timesteps(steps, mu=mu, **({"sigmas": np.linspace(1, 1 / steps, steps)} if even else {}))
    rows.append((solver, steps, int(not even), s.sigmas.tolist()))


WAYS = [("", {}, None), (",shift=3", {"shift": 3.0}, None), (",shift=0.1", {"shift": 0.1}, None),
        (",mu=0.63", {"use_dynamic_shifting": True, "shift": 3.0}, 0.63), (",mu=-1.5", {"use_dynamic_shifting": True}, -1.5),
        (",mu=2.25,law=linear", {"use_dynamic_shifting": True, "time_shift_type": "linear"}, 2.25),
        (",shift=6,terminal=0.1", {"shift": 6.0, "shift_terminal": 0.1}, None),
        (",mu=1.15,terminal=0.02", {"use_dynamic_shifting": True, "shift_terminal": 0.02}, 1.15)]
for text, config, mu in WAYS:
    for steps in (1, 4, 9) if "terminal" not in text else (4, 9):
        add("euler" + text, config, steps, mu=mu)
    add("euler" + text, config, 5, even=True, mu=mu)
for name in ("karras", "exponential", "beta"):
    for text, config, mu in WAYS[0], WAYS[1], WAYS[7]:
        add(f"euler{text},sigmas={name}", dict(config, **{f"use_{name}_sigmas": True}), 7, mu=mu)
        add(f"heun{text},sigmas={name}", dict(config, **{f"use_{name}_sigmas": True}), 7, even=True, mu=mu)
    add(f"euler,sigmas={name}", {f"use_{name}_sigmas": True}, 1)
print("/* Made by flow_times.py with diffusers. */\n")
print("static const struct {\n\tconst char *solver;\n\tint64_t steps;\n\tint last;\n\tdouble at[10];\n} golden_times[] = {")
for solver, steps, last, at in rows:
    print('    {"%s", %d, %d,\n     {%s}},' % (solver, steps, last, ", ".join("%.9g" % v for v in at)))
print("};")
