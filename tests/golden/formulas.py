"""Metrics whose packages are not available here, from their published formulas, in numpy."""
import numpy as np


def distances(x, y):
    return np.sqrt(((x[:, None] - y[None]) ** 2).sum(2))


def prdc(real, fake, k):
    """compute_prdc of the package prdc."""
    real_radii = np.sort(distances(real, real), 1)[:, k]
    d = distances(real, fake)
    density = (d < real_radii[:, None]).sum(0).mean() / k
    return density, (d.min(1) < real_radii).mean()


def authenticity(real, fake):
    """compute_authpct of dgm-eval, as a fraction."""
    own = distances(real, real)
    np.fill_diagonal(own, np.inf)
    d = distances(real, fake)
    return (own.min(1)[d.argmin(0)] < d.min(0)).mean()


def cmmd(x, y, sigma=10):
    gamma = 1 / (2 * sigma**2)
    k = lambda a, b: np.exp(-gamma * (distances(a, b) ** 2)).mean()
    return 1000 * (k(x, x) + k(y, y) - 2 * k(x, y))


def vendi(x):
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    w = np.linalg.eigvalsh(x @ x.T / len(x))
    w = w[w > 1e-14]
    return np.exp(-(w * np.log(w)).sum())


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def precision_recall(real, fake, k=3):
    """calculate_precision_recall_full of torch-fidelity."""
    radii = lambda x: np.sort(distances(x, x), 1)[:, k]
    d = distances(real, fake)
    return (d <= radii(real)[:, None]).any(0).mean(), (d <= radii(fake)[None]).any(1).mean()


def fid(x, y):
    """The Frechet distance for covariances of any rank: their square roots are the centred samples."""
    rx, ry = ((t - t.mean(0)) / np.sqrt(len(t) - 1) for t in (x, y))
    cross = np.linalg.svd(rx @ ry.T, compute_uv=False).sum()
    return ((x.mean(0) - y.mean(0)) ** 2).sum() + (rx**2).sum() + (ry**2).sum() - 2 * cross


def kid(real, fake, subsets, size, seed):
    """kid_features_to_metric of torch-fidelity."""
    rng = np.random.RandomState(seed)
    k = lambda a, b: (a @ b.T / a.shape[1] + 1) ** 3
    v = []
    for _ in range(subsets):
        f = fake[rng.choice(len(fake), size, replace=False)]
        r = real[rng.choice(len(real), size, replace=False)]
        off = lambda m: (m.sum() - np.trace(m)) / (size * (size - 1))
        v.append(off(k(f, f)) + off(k(r, r)) - 2 * k(f, r).mean())
    return np.mean(v), np.std(v)
