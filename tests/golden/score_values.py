"""Values of other packages' metrics, from these packages: python score_values.py > score_values.h. Needs numpy, scipy, torch,
torch-fidelity, pytorch-fid and clean-fid; guided-diffusion's score and what formulas.py holds are written out in numpy."""
import numpy as np
import torch
from cleanfid.fid import kernel_distance
from pytorch_fid.fid_score import calculate_frechet_distance
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.metric_isc import isc_features_to_metric
from torch_fidelity.metric_kid import kid_features_to_metric
from torch_fidelity.metric_prc import prc_features_to_metric

from formulas import authenticity, cmmd, prdc, unit, vendi
from metric_values import number, vectors


def integers(name, v):
    print(f"static const int64_t {name}[{len(v)}] = {{")
    for i in range(0, len(v), 20):
        print("    " + " ".join(f"{t}," for t in v[i : i + 20]))
    print("};\n")


def adm_score(p, size):
    """compute_inception_score of guided-diffusion's evaluator."""
    scores = []
    for i in range(0, len(p), size):
        part = p[i : i + size]
        kl = part * (np.log(part) - np.log(part.mean(0, keepdims=True)))
        scores.append(np.exp(kl.sum(1).mean()))
    return np.mean(scores), np.std(scores)


if __name__ == "__main__":
    print("/* Made by score_values.py with torch-fidelity, pytorch-fid, clean-fid, numpy. */\n")
    integers("golden_permutation_2020", np.random.RandomState(2020).permutation(1000)[:40])
    rng = np.random.RandomState(7)
    rng.choice(70, 20, replace=False)
    integers("golden_second_choice_7", rng.choice(45, 20, replace=False))
    x, y = vectors(70, 19, 0).astype(float), vectors(45, 19, 1).astype(float)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    k = kid_features_to_metric(ty, tx, kid_subsets=30, kid_subset_size=20, rng_seed=2020, verbose=False)
    number("golden_kid", k["kernel_inception_distance_mean"])
    number("golden_kid_sd", k["kernel_inception_distance_std"])
    np.random.seed(11)
    number("golden_kid_clean", kernel_distance(x, y, num_subsets=30, max_subset_size=20))
    s1, s2 = fid_features_to_statistics(tx), fid_features_to_statistics(ty)
    number("golden_fid", calculate_frechet_distance(s1["mu"], s1["sigma"], s2["mu"], s2["sigma"]))
    number("golden_fid_tf", fid_statistics_to_metric(s1, s2, False)["frechet_inception_distance"])
    z = torch.from_numpy(vectors(103, 37, 2) * 3)
    i = isc_features_to_metric(z, splits=10, shuffle=True, rng_seed=2020)
    number("golden_is", i["inception_score_mean"])
    number("golden_is_sd", i["inception_score_std"])
    mean, sd = adm_score(z.double().softmax(1).numpy(), 25)
    number("golden_is_adm", mean)
    number("golden_is_adm_sd", sd)
    a, b = vectors(301, 5, 0).astype(float), vectors(270, 5, 1).astype(float) * 0.9 - 0.2
    a, b = (t.astype(np.float32).astype(float) for t in (a, b))
    p = prc_features_to_metric(torch.from_numpy(b), torch.from_numpy(a), prc_neighborhood=3, prc_batch_size=100, save_cpu_ram=False, verbose=False)
    number("golden_precision", p["precision"])
    number("golden_recall", p["recall"])
    density, coverage = prdc(a, b, 5)
    number("golden_density", density)
    number("golden_coverage", coverage)
    number("golden_authenticity", authenticity(a, b))
    number("golden_cmmd", cmmd(x, y))
    number("golden_vendi", vendi(vectors(70, 19, 0).astype(float)))
    number("golden_vendi_wide", vendi(vectors(12, 19, 1).astype(float)))
    c = 100 * (unit(x[:45]) * unit(y)).sum(1)
    c = np.maximum(c, 0)
    number("golden_clip", c.mean())
    number("golden_clip_se", c.std(ddof=1) / np.sqrt(len(c)))
