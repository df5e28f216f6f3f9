"""ddm-encode on clips against PyTorch: the variants of TAEHV in their real sizes, with random weights (tests/golden/taehv.py), the
autoencoder of Wan 2.1 against diffusers, and real clips through the real TAEF2, whose frames are pictures."""
import glob
import io
import os
import subprocess
import sys
import tarfile
import tempfile

from peers import BUILD, DATA, SEED, SOURCE, case, some_of

sys.path.insert(0, SOURCE + "/tests/golden")
TOLERANCE = 1e-5  # of the largest number: a float network against one in double
WIDTHS, SUPER_WIDTHS = (64, (256, 128, 64), 64), (64, (512, 256, 128, 64), "super")
VARIANTS = {"taew2_1": (16, 1, "4", "causal"), "taew2_2": (48, 2, "4", "causal"), "taehv1_5": (32, 2, "4", "causal"), "taecvx": (16, 1, "4", "cogvideox"),
            "taeh3": (24, 2, "4", "chunks"), "taeltx_2": (128, 4, "8", "causal"), "taehv1_5_super": (32, 2, "4", "causal")}


def write_samples(path, arrays):
    import numpy as np
    with tarfile.open(path, "w") as t:
        for name, x in sorted(arrays.items()):
            f = io.BytesIO()
            np.save(f, np.ascontiguousarray(x))
            info = tarfile.TarInfo(name + ".npy")
            info.size = len(f.getvalue())
            t.addfile(info, io.BytesIO(f.getvalue()))


def encode(out, *args):
    import numpy as np
    subprocess.run([BUILD + "/ddm-encode", "-q", "-o", out, *args], check=True)
    with tarfile.open(out) as t:
        return {n[:-4]: np.load(io.BytesIO(t.extractfile(n).read())) for n in t.getnames() if n.endswith(".npy")}


def differ(what, got, want):
    import numpy as np
    if got.shape != want.shape:
        return "%s: %s, not %s" % (what, got.shape, want.shape)
    worst, largest = np.abs(got - want).max(), np.abs(want).max()
    return None if worst <= TOLERANCE * largest else "%s: off by %.3g of at most %.3g" % (what, worst, largest)


def pixels_differ(what, got, want):
    """want: floats in [-1, 1]. A pixel may be rounded the other way."""
    import numpy as np
    if got.shape != want.shape or got.dtype != np.uint8:
        return "%s: %s of %s, not %s" % (what, got.shape, got.dtype, want.shape)
    worst = np.abs(got - (want + 1) * 127.5).max()
    return None if worst < .51 else "%s: a pixel is %.2f away" % (what, worst)


def taehv_variant(name):
    def run():
        import numpy as np
        import taehv
        import torch
        torch.set_grad_enabled(False)
        channels, patch, time, rule = VARIANTS[name]
        w = taehv.random_weights(SEED, channels, patch, time, *(SUPER_WIDTHS if name.endswith("super") else WIDTHS))
        double = {k: v.double() for k, v in w.items()}
        clips = {k: ((taehv.clip(SEED + i, frames, h, 32).numpy() + 1) * 127.5).round().astype(np.uint8) for i, (k, frames, h) in
                 enumerate((("a", 21, 64), ("b", 1, 32), ("c", 18, 32)))}
        with tempfile.TemporaryDirectory() as d:
            torch.save(w, "%s/%s.pth" % (d, name))
            write_samples(d + "/clips.tar", clips)
            got = encode(d + "/z.tar", "--dtype", "f32", "-m", "%s/%s.pth" % (d, name), d + "/clips.tar")
            back = encode(d + "/x.tar", "-m", "%s/%s.pth" % (d, name), "-d", d + "/z.tar")
            for k, x in clips.items():
                z = taehv.encode(double, torch.tensor(x).float().div(127.5).sub(1).double(), rule)
                wrong = differ(k, got[k], z.numpy()) or pixels_differ(k, back[k], taehv.decode(double, z, rule).numpy())
                if wrong:
                    return wrong
        return None
    return run


def wan():
    """Two networks: one of the real depth, and one with other stages. Large frames go in tiles."""
    import numpy as np
    import torch
    import wanvae
    torch.set_grad_enabled(False)
    configs = [dict(base_dim=16), dict(base_dim=8, decoder_base_dim=12, dim_mult=[1, 2, 3], num_res_blocks=1, z_dim=2, temperal_downsample=[True, True],
                                       latents_mean=[.5, -1], latents_std=[.5, 2], scale_factor_spatial=4)]
    for i, config in enumerate(configs):
        net = wanvae.random_network(SEED + i, **config)
        clips = {k: ((wanvae.clip(SEED + j, frames, h, w).numpy() + 1) * 127.5).round().astype(np.uint8) for j, (k, frames, h, w) in
                 enumerate((("a", 13, 32, 48), ("b", 1, 64, 32), ("c", 6, 264, 16)))}
        with tempfile.TemporaryDirectory() as d:
            net.save_pretrained(d + "/vae")
            net = net.double()
            net.enable_tiling()
            write_samples(d + "/clips.tar", clips)
            got = encode(d + "/z.tar", "--tile", "--dtype", "f32", "-m", d + "/vae", d + "/clips.tar")
            back = encode(d + "/x.tar", "--tile", "-m", d + "/vae", "-d", d + "/z.tar")
            for k, x in clips.items():
                _, z, std = wanvae.encode(net, torch.tensor(x).float().div(127.5).sub(1))
                wrong = differ(k, got[k], z.numpy()) or differ(k, got[k + ".std"], std.numpy()) or pixels_differ(k, back[k], wanvae.decode(net, z).numpy())
                if wrong:
                    return wrong
    return None


def real_clips():
    """Each frame's latent is that of the frame as a picture, and the clips come back as sharp as TAEF2 leaves photographs."""
    import av
    import numpy as np
    from PIL import Image
    model, files = DATA + "/weights/taesd", some_of(sorted(glob.glob(DATA + "/clips/*/*.mp4")), 3)
    clips = {str(i): np.stack([f.to_ndarray(format="rgb24") for f in av.open(p).decode(video=0)]).transpose(0, 3, 1, 2) for i, p in enumerate(files)}
    with tempfile.TemporaryDirectory() as d:
        write_samples(d + "/clips.tar", clips)
        os.mkdir(d + "/frames")
        for k, x in clips.items():
            for i in (0, len(x) // 2):
                Image.fromarray(x[i].transpose(1, 2, 0)).save("%s/frames/%s_%d.png" % (d, k, i))
        z, one = encode(d + "/z.tar", "-m", model, d + "/clips.tar"), encode(d + "/one.tar", "-m", model, d + "/frames")
        for k, v in one.items():
            clip, i = k.split("_")
            if not np.array_equal(z[clip][int(i)], v):
                return "frame %s of %s is not the same as the picture" % (i, files[int(clip)])
        for k, y in encode(d + "/x.tar", "-m", model, "-d", d + "/z.tar").items():
            psnr = -10 * np.log10(((y.astype(float) - clips[k]) ** 2).mean() / 255 ** 2)
            if y.shape != clips[k].shape or psnr < 24:
                return "%s: %s, %.2f dB" % (files[int(k)], y.shape, psnr)
    return None


for variant in VARIANTS:
    case("clips through %s and back" % variant, ["torch", "numpy"], taehv_variant(variant))
case("clips through the autoencoder of Wan 2.1 and back, diffusers", ["torch", "numpy", "diffusers"], wan)
case("real clips through TAEF2 and back", ["numpy", "PIL", "av", "clips/labels.json", "weights/taesd/taef2_encoder.safetensors"], real_clips)
