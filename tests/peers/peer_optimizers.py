"""Muon against torch.optim.Muon and schedule-free AdamW against the package schedulefree: the same gradients, drawn at random, give the same weights.
torch.optim.Muon rounds its iterates to bfloat16. To compare exactly, it is run on doubles here, with that rounding replaced by the identity."""
import os
import subprocess

from peers import BUILD, SEED, case

STEPS, LR, DECAY = 12, 0.02, 0.1


def drawn(rows, columns):
    """Initial weights and gradients of a matrix and a bias: (1 + STEPS, rows * columns + rows) float32."""
    import numpy as np

    return np.random.default_rng(SEED).standard_normal((1 + STEPS, rows * columns + rows)).astype(np.float32)


def ours(name, rows, columns, warmup, numbers):
    import numpy as np

    tool = os.path.join(BUILD, "tests/peers/optimize")
    args = [name, rows, columns, STEPS, LR, warmup, DECAY]
    r = subprocess.run([tool] + [str(a) for a in args], input=numbers.tobytes(), capture_output=True)
    assert r.returncode == 0, r.stderr
    return np.frombuffer(r.stdout, np.float32)


def theirs(make, rows, columns, numbers, warmup=0):
    """make(w, b) is a list of optimizers of the two parameters; those with eval() have an average."""
    import torch

    data = torch.tensor(numbers).double()
    w = torch.nn.Parameter(data[0, :rows * columns].reshape(rows, columns).clone())
    b = torch.nn.Parameter(data[0, rows * columns:].clone())
    optimizers = make(w, b)
    for o in optimizers:
        if hasattr(o, "train"):
            o.train()
    for step in range(STEPS):
        w.grad = data[1 + step, :rows * columns].reshape(rows, columns).clone()
        b.grad = data[1 + step, rows * columns:].clone()
        for o in optimizers:
            o.step()
    for o in optimizers:
        if hasattr(o, "eval"):
            o.eval()
    return torch.cat([w.detach().flatten(), b.detach()]).numpy()


def differs(a, b, tol):
    import numpy as np

    d = np.abs(a - b).max()
    return None if d <= tol else "weights differ by %g, more than %g" % (d, tol)


def muon():
    import torch

    def make(w, b):
        return [torch.optim.Muon([w], lr=LR, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
                torch.optim.AdamW([b], lr=LR, weight_decay=0)]

    rounding, dtype = torch.Tensor.bfloat16, torch.bfloat16
    for rows, columns in ((48, 48), (96, 24), (24, 96), (1, 7)):
        numbers = drawn(rows, columns)
        torch.Tensor.bfloat16, torch.bfloat16 = lambda x: x.clone(), torch.float64  # the first in some versions of torch, the second in others
        try:
            want = theirs(make, rows, columns, numbers)
        finally:
            torch.Tensor.bfloat16, torch.bfloat16 = rounding, dtype
        # Five iterations multiply a rounding error of 1e-7 by up to 485; the largest step is .02 * .2 * sqrt(96) = .04; 12 steps.
        wrong = differs(ours("muon", rows, columns, 0, numbers), want, 2.4e-5)
        if wrong:
            return "%d x %d: %s" % (rows, columns, wrong)


def schedule_free():
    import schedulefree

    for warmup in (0, 5):
        def make(w, b):
            groups = [{"params": [w], "weight_decay": DECAY}, {"params": [b], "weight_decay": 0}]
            return [schedulefree.AdamWScheduleFree(groups, lr=LR, warmup_steps=warmup, foreach=False)]

        numbers = drawn(30, 17)
        # Weights up to 4, five roundings of 2.4e-7 in each of 12 steps.
        wrong = differs(ours("schedule-free", 30, 17, warmup, numbers), theirs(make, 30, 17, numbers), 1.5e-5)
        if wrong:
            return "warm-up %d: %s" % (warmup, wrong)


case("Muon against torch.optim.Muon", ["torch", "numpy"], muon)
case("schedule-free AdamW against schedulefree", ["torch", "numpy", "schedulefree"], schedule_free)
