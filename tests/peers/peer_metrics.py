"""ddm-eval-fid against torch-fidelity, pytorch-fid and clean-fid: on random vectors, and on pictures through an Inception with random weights
that torch-fidelity runs too."""
import json
import os
import subprocess
import tempfile

from peers import BUILD, DATA, SEED, case

N, M, D, CLASSES = 260, 230, 24, 12


def measure(dir, *args):
    """The line of ddm-eval-fid."""
    r = subprocess.run([os.path.join(BUILD, "ddm-eval-fid"), *args], cwd=dir, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def unlike(got, want, tolerance):
    """None, or the numbers in `want` that differ by more than the tolerance (relative, absolute below 1)."""
    wrong = {k: (got.get(k), w) for k, w in want.items() if not abs(got.get(k, float("nan")) - w) <= tolerance * max(1, abs(w))}
    return ", ".join("%s is %s, not %.9g" % (k, *v) for k, v in wrong.items()) or None


def vectors(dir):
    import numpy as np

    rng = np.random.default_rng(SEED)
    mix = rng.normal(size=(D, D))
    x, y = (rng.normal(size=(n, D)) @ mix + shift for n, shift in ((N, 0), (M, 0.4)))
    z = rng.normal(size=(M, CLASSES)) * 3
    x, y, z = (t.astype(np.float32) for t in (x, y, z))
    for name, t in ("x", x), ("y", y), ("z", z):
        np.save(os.path.join(dir, name + ".npy"), t)
    return x, y, z


def fidelity():
    import torch
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_isc import isc_features_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric
    from torch_fidelity.metric_prc import prc_features_to_metric

    with tempfile.TemporaryDirectory() as dir:
        x, y, z = (torch.from_numpy(t).double() for t in vectors(dir))
        got = measure(dir, "--metrics", "fid,kid,is,pr", "--protocol", "torch-fidelity", "--subset-size", "100", "--logits", "z.npy", "x.npy",
                      "y.npy")
        kid = kid_features_to_metric(y, x, kid_subset_size=100, verbose=False)
        isc = isc_features_to_metric(z)
        prc = prc_features_to_metric(y, x, verbose=False)
        fid = fid_statistics_to_metric(fid_features_to_statistics(x), fid_features_to_statistics(y), False)
        return unlike(got, {"fid-npy": fid["frechet_inception_distance"], "kid-npy": kid["kernel_inception_distance_mean"],
                            "kid-npy-sd": kid["kernel_inception_distance_std"], "is-npy": isc["inception_score_mean"],
                            "is-npy-sd": isc["inception_score_std"], "precision-npy": prc["precision"], "recall-npy": prc["recall"]}, 1e-6)


def pytorch_fid():
    import numpy as np
    from pytorch_fid.fid_score import calculate_frechet_distance

    with tempfile.TemporaryDirectory() as dir:
        x, y, _ = vectors(dir)
        x, y = x.astype(float), y.astype(float)
        mu, sigma = x.mean(0), np.cov(x, rowvar=False)
        np.savez_compressed(os.path.join(dir, "x.npz"), mu=mu, sigma=sigma)
        return unlike(measure(dir, "--metrics", "fid", "x.npz", "y.npy"),
                      {"fid-npy": calculate_frechet_distance(mu, sigma, y.mean(0), np.cov(y, rowvar=False))}, 1e-6)


def clean_fid():
    import numpy as np
    from cleanfid.fid import kernel_distance

    with tempfile.TemporaryDirectory() as dir:
        x, y, _ = vectors(dir)
        np.random.seed(SEED)
        want = kernel_distance(x.astype(float), y.astype(float), num_subsets=50, max_subset_size=90)
        return unlike(measure(dir, "--metrics", "kid", "--protocol", "clean-fid", "--seed", str(SEED), "--subsets", "50", "--subset-size", "90",
                              "x.npy", "y.npy"), {"kid-npy": want}, 1e-6)


def random_inception(dir):
    """Weights for torch-fidelity and for us: He's initialisation, with norms as after training."""
    import torch
    import torchvision
    from safetensors.torch import save_file

    torch.manual_seed(SEED)
    net = torchvision.models.inception_v3(weights=None, num_classes=1008, aux_logits=False, init_weights=False)
    for name, t in net.state_dict().items():
        if t.dim() > 1:
            t.normal_(0, (2 / t[0].numel()) ** 0.5)
        elif name.endswith("running_var") or name.endswith("bn.weight"):
            t.uniform_(0.7, 1.3)
        elif t.dim() == 1:
            t.uniform_(-0.2, 0.2)
    state = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    torch.save(net.state_dict(), os.path.join(dir, "w.pth"))
    save_file({k: v.contiguous() for k, v in state.items()}, os.path.join(dir, "w.safetensors"))


def inception():
    """Pictures of two kinds of flowers through the same network: the features, then their distance."""
    import numpy as np
    import torch
    from PIL import Image
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3
    from torch_fidelity.metric_kid import kid_features_to_metric

    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as dir:
        random_inception(dir)
        net = FeatureExtractorInceptionV3("inception-v3-compat", ["2048"], os.path.join(dir, "w.pth"))
        features = []
        for kind in "daisy", "tulips":
            from_ = os.path.join(DATA, "flowers-64", kind)
            to = os.path.join(dir, kind)
            os.mkdir(to)
            names = sorted(os.listdir(from_))[:4]
            for n in names:
                os.symlink(os.path.join(from_, n), os.path.join(to, n))
            u8 = torch.from_numpy(np.stack([np.array(Image.open(os.path.join(from_, n)).convert("RGB")) for n in names])).permute(0, 3, 1, 2)
            features.append(net(u8)[0].double())
        got = measure(dir, "--features", "inception:w.safetensors", "--metrics", "kid", "--subset-size", "4", "--protocol",
                      "torch-fidelity", "--stats-out", "daisy.npz", "daisy", "tulips")
        ours = np.load(os.path.join(dir, "daisy.npz"))
        off = np.abs(ours["feats"][ours["order"]] - features[0].numpy()).max() / features[0].abs().max().item()
        if off > 1e-4:
            return "features differ by %g of the largest" % off
        kid = kid_features_to_metric(features[1], features[0], kid_subset_size=4, verbose=False)
        return unlike(got, {"kid-inception": kid["kernel_inception_distance_mean"]}, 1e-3)


case("FID, KID, IS, precision and recall of vectors: torch-fidelity", ["torch", "torch_fidelity"], fidelity)
case("FID to statistics: pytorch-fid", ["scipy", "pytorch_fid"], pytorch_fid)
case("KID of vectors: clean-fid", ["cleanfid"], clean_fid)
case("pictures through one Inception: torch-fidelity", ["torch", "torchvision", "safetensors", "torch_fidelity", "flowers-64/daisy"], inception)
