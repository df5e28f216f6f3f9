"""Values for the tests of metrics, from numpy and scipy only: python metric_values.py > metric_values.h"""
import numpy as np
from scipy import linalg, stats


def picture(w, h, seed):
    """The same integer formula as picture_fill() in tests/unit/test_metric.c."""
    y, x, c = np.meshgrid(np.arange(h), np.arange(w), np.arange(3), indexing="ij")
    return ((x * (3 + seed) + y * 5 * (c + 1) + (x * y * (c + 2)) // 7 + ((x * 7919 + y * 104729 + c * 611953 + seed * 15485863) % 97)) % 256).astype(np.uint8)


def dct(n, side):
    k, i = np.arange(side)[:, None], np.arange(n)[None]
    return np.cos(np.pi * (2 * i + 1) * k / (2 * n)) * np.where(k, np.sqrt(2), 1) / n


def soft(x, n):
    at = (np.clip(x, -1, 1) + 1) / 2 * (n - 1)
    w = np.maximum(0, 1 - np.abs(at.reshape(-1, 1) - np.arange(n)))
    return w  # (pixels, n)


def pix(rgb):
    h, w, _ = rgb.shape
    r, g, b = np.moveaxis(rgb / 127.5 - 1, 2, 0)
    planes = [(r + g + b) / np.sqrt(3), (r - b) / np.sqrt(2), (r - 2 * g + b) / np.sqrt(6)]
    out = []
    for p, side, gain in zip(planes, (8, 4, 4), (1.5, 3, 3)):
        v, u = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
        out.append((dct(h, side) @ p @ dct(w, side).T * (1 + np.sqrt(u * u + v * v)) * gain).ravel())
    rms, mab, crm = [], [], []
    levels = [p.copy() for p in planes]
    for step in (1, 2, 4):
        details = []
        for c in range(3):
            f = levels[c]
            p, q, r_, s = f[:-step, :-step], f[:-step, step:], f[step:, :-step], f[step:, step:]
            details.append([(p - q + r_ - s) / 2, (p + q - r_ - s) / 2, (p - q - r_ + s) / 2])
            levels[c] = (p + q + r_ + s) / 4
        for k in range(3):
            d = details[0][k]
            ch, cw = (d.shape[0] + 1) // 2, (d.shape[1] + 1) // 2
            rms += [np.sqrt(np.mean(t**2)) for t in (d[:ch, :cw], d[:ch, cw:], d[ch:, :cw], d[ch:, cw:])]
            mab.append(np.mean(np.abs(d)))
            crm += [np.sqrt(np.mean(details[c][k] ** 2)) for c in (1, 2)]
    out += [np.log(1 + 50 * np.array(rms)) - 2.5, np.log(1 + 50 * np.array(mab)) - 2.5, np.log(1 + 50 * np.array(crm)) - 1.2]
    root = lambda x: np.sign(x) * np.sqrt(np.abs(x))
    out.append(2 * np.sqrt(soft(planes[0] / np.sqrt(3), 8).mean(0)))
    a, b_ = soft(root(planes[1] / np.sqrt(2)), 6), soft(root(planes[2] * np.sqrt(6) / 4), 6)
    out.append(2 * np.sqrt((a.T @ b_ / len(a)).ravel()))
    return np.concatenate(out)


def rgb8(rgb):
    h, w, _ = rgb.shape
    return np.array([rgb[v * h // 8 : (v + 1) * h // 8, u * w // 8 : (u + 1) * w // 8].mean((0, 1)) / 127.5 - 1 for v in range(8) for u in range(8)]).ravel()


def vectors(n, d, seed):
    """The same formula as vectors_fill()."""
    i, j = np.meshgrid(np.arange(n), np.arange(d), indexing="ij")
    return (((i * 7919 + j * 104729 + i * j * 31 + seed * 15485863) % 1009) / 504.5 - 1 + 0.25 * seed * (j % 3)).astype(np.float32)


def kd(x, y):
    x, y = x.astype(float), y.astype(float)
    k = lambda a, b: (a @ b.T / a.shape[1] + 1) ** 3

    def est(xx, yy, xy):
        n, m = len(xx), len(yy)
        return (xx.sum() - np.trace(xx)) / (n * (n - 1)) + (yy.sum() - np.trace(yy)) / (m * (m - 1)) - 2 * xy.mean()

    xx, yy, xy = k(x, x), k(y, y), k(x, y)
    var = 0
    for side in (0, 1):
        v = []
        for i in range(len((x, y)[side])):
            if side == 0:
                v.append(est(np.delete(np.delete(xx, i, 0), i, 1), yy, np.delete(xy, i, 0)))
            else:
                v.append(est(xx, np.delete(np.delete(yy, i, 0), i, 1), np.delete(xy, i, 1)))
        v = np.array(v)
        var += (len(v) - 1) / len(v) * ((v - v.mean()) ** 2).sum()
    return est(xx, yy, xy), np.sqrt(var)


def fd(x, y):
    x, y = x.astype(float), y.astype(float)
    s1, s2 = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    return ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(s1 + s2) - 2 * np.trace(linalg.sqrtm(s1 @ s2).real)


def array(name, v):
    print(f"static const double {name}[{len(v)}] = {{")
    for i in range(0, len(v), 6):
        print("    " + " ".join(f"{t:.12g}," for t in v[i : i + 6]))
    print("};\n")


def number(name, v):
    print(f"static const double {name} = {v:.17g};")


if __name__ == "__main__":
    print("/* Made by metric_values.py with numpy and scipy. */\n")
    array("golden_pix", pix(picture(37, 22, 1)))
    array("golden_rgb8", rgb8(picture(37, 22, 1)))
    x, y = vectors(70, 19, 0), vectors(45, 19, 1)
    v, se = kd(x, y)
    number("golden_kd", v)
    number("golden_kd_se", se)
    number("golden_fd", fd(x, y))
    print()
    number("golden_quantile_975_1", stats.t.ppf(0.975, 1))
    number("golden_quantile_975_2", stats.t.ppf(0.975, 2))
    number("golden_quantile_995_4", stats.t.ppf(0.995, 4))
    number("golden_quantile_01_30", stats.t.ppf(0.01, 30))
    number("golden_cdf_13_7", stats.t.cdf(-1.3, 7))
    number("golden_cdf_40_9", stats.t.cdf(-40, 9))
    a, b = np.array([0.31, 0.28, 0.35, 0.30, 0.29]), np.array([0.27, 0.29, 0.30, 0.26, 0.28])
    r = stats.ttest_rel(a, b)
    ci = r.confidence_interval(0.95)
    number("golden_paired_t", r.statistic)
    number("golden_paired_p", r.pvalue)
    number("golden_paired_low", ci.low)
    number("golden_paired_high", ci.high)
