"""Programs with networks of random weights against their libraries: LPIPS of pairs and groups (lpips), CLIP's score of captions and
the aesthetic score (transformers, torch), encoding and decoding of latents (diffusers)."""
import io
import itertools
import json
import os
import shutil
import subprocess
import tarfile
import tempfile

from peers import BUILD, DATA, SEED, SOURCE, case, some_of

TEXTS = ["the lower house", "a newer tower", "", "lowest"]


def ran(program, *args):
    r = subprocess.run([os.path.join(BUILD, program), *args], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    return r.stdout


def flowers(n):
    """Pictures (64, 64, 3) of 8 bits."""
    import numpy as np
    from PIL import Image

    from_ = os.path.join(DATA, "flowers-64", "daisy")
    return [np.asarray(Image.open(os.path.join(from_, name)).convert("RGB")) for name in some_of(sorted(os.listdir(from_)), n)]


def archive(path, pictures, texts=None):
    """A tar of samples 0, 1 ..: PNG and, if there are texts, captions."""
    from PIL import Image

    with tarfile.open(path, "w") as tar:
        for i, p in enumerate(pictures):
            png = io.BytesIO()
            Image.fromarray(p).save(png, "png")
            members = [("png", png.getvalue())] + ([("txt", texts[i].encode())] if texts else [])
            for ext, data in members:
                info = tarfile.TarInfo("%04d.%s" % (i, ext))
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def off(got, want, tolerance):
    return None if abs(got - want) <= tolerance * max(1, abs(want)) else "%.9g, not %.9g" % (got, want)


def lpips_metrics():
    import lpips
    import numpy as np
    import torch

    torch.manual_seed(SEED)
    torch.set_grad_enabled(False)
    net = lpips.LPIPS(net="alex", pretrained=True, pnet_rand=True, verbose=False).eval()
    a = flowers(5)
    b = [np.clip(p.astype(int) + np.random.default_rng(SEED + i).integers(-40, 40, p.shape), 0, 255).astype(np.uint8) for i, p in enumerate(a)]
    x, y = (torch.from_numpy(np.stack(s)).permute(0, 3, 1, 2) / 127.5 - 1 for s in (a, b))
    with tempfile.TemporaryDirectory() as dir:
        shutil.copy(os.path.join(os.path.dirname(lpips.__file__), "weights/v0.1/alex.pth"), dir + "/heads.pth")
        torch.save({"net." + k: v for k, v in net.net.state_dict().items()}, dir + "/trunk.pth")
        archive(dir + "/a.tar", a)
        archive(dir + "/b.tar", b, ["one", "two", "one", "two", "one"])
        got = json.loads(ran("ddm-eval-fid", "--metrics", "lpips,diversity", "--lpips", dir, "--groups", "text", dir + "/a.tar", dir + "/b.tar"))
    groups = [np.mean([net(y[i:i + 1], y[j:j + 1]).item() for i, j in itertools.combinations(g, 2)]) for g in ((0, 2, 4), (1, 3))]
    return off(got["lpips-alex"], net(x, y).mean().item(), 1e-5) or off(got["lpips-diversity-alex"], np.mean(groups), 1e-5)


def clip_scores():
    import numpy as np
    import torch
    from PIL import Image
    from safetensors.torch import save_file
    from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast

    torch.manual_seed(SEED)
    torch.set_grad_enabled(False)
    golden = os.path.join(SOURCE, "tests/golden/pretrained/text-clip")
    with open(golden + "/text_encoder_2/config.json") as f:
        text = json.load(f)
    net = CLIPModel(CLIPConfig(text_config=text, projection_dim=6, vision_config=dict(
        hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=224, patch_size=32))).eval()
    for p in net.parameters():
        p.copy_(torch.randn(p.shape) * (p[0].numel() ** -.5 if p.dim() > 1 else .3))
    layers = [torch.nn.Linear(6, 4), torch.nn.Linear(4, 1)]
    pictures = flowers(len(TEXTS))
    mean, sd = ([.48145466, .4578275, .40821073], [.26862954, .26130258, .27577711])
    with tempfile.TemporaryDirectory() as dir:
        net.save_pretrained(dir)
        for f in os.listdir(golden + "/tokenizer_2"):
            shutil.copy(golden + "/tokenizer_2/" + f, dir)
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=dir + "/tokenizer.json", pad_token="!")
        ids = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=16, return_tensors="pt").input_ids
        state = {"layers.%d.%s" % (6 * i, k): v for i, m in enumerate(layers) for k, v in m.state_dict().items()}
        save_file(state, dir + "/rating.safetensors")
        archive(dir + "/s.tar", pictures, TEXTS)
        got = json.loads(ran("ddm-eval-fid", "--features", "clip:" + dir, "--metrics", "clip,aesthetic", "--aesthetic",
                             dir + "/rating.safetensors", dir + "/s.tar", dir + "/s.tar"))
    x = np.stack([np.asarray(Image.fromarray(p).resize((224, 224), Image.BICUBIC)) for p in pictures]) / 255
    x = torch.from_numpy((x - mean) / sd).permute(0, 3, 1, 2).float()
    out = net(input_ids=ids, pixel_values=x)
    image, words = (torch.nn.functional.normalize(t, dim=-1) for t in (out.image_embeds, out.text_embeds))
    return off(got["clip-score-clip"], (100 * (image * words).sum(-1)).clamp(min=0).mean().item(), 1e-4) or \
        off(got["aesthetic-clip"], layers[1](layers[0](image)).mean().item(), 1e-5)


def latents(make, latent, back):
    """Through ddm-encode and ddm-encode -d."""
    def run():
        import numpy as np
        import torch
        from PIL import Image

        torch.manual_seed(SEED)
        torch.set_grad_enabled(False)
        net = make().eval()
        pictures = flowers(3)
        with tempfile.TemporaryDirectory() as dir:
            net.save_pretrained(dir + "/vae")
            archive(dir + "/s.tar", pictures)
            ran("ddm-encode", "-q", "-m", dir + "/vae", "--dtype", "f32", "-o", dir + "/z.tar", dir + "/s.tar")
            ran("ddm-encode", "-q", "-d", "-m", dir + "/vae", "-o", dir + "/y.tar", dir + "/z.tar")
            with tarfile.open(dir + "/z.tar") as z, tarfile.open(dir + "/y.tar") as y:
                for i, p in enumerate(pictures):
                    x = torch.from_numpy(p.copy()).permute(2, 0, 1)[None] / 127.5 - 1
                    want = latent(net, x)
                    got = torch.from_numpy(np.load(io.BytesIO(z.extractfile("%04d.npy" % i).read())))[None]
                    far = (got - want).abs().max().item() / want.abs().max().item()
                    shown = np.asarray(Image.open(io.BytesIO(y.extractfile("%04d.png" % i).read()))).astype(int)
                    should = ((back(net, got)[0].clamp(-1, 1) + 1) * 127.5).round().permute(1, 2, 0).numpy().astype(int)
                    if far > 1e-4:
                        return "latents differ by %g of the largest" % far
                    if abs(shown - should).max() > 1:
                        return "a decoded picture differs by %d" % abs(shown - should).max()
        return None
    return run


def kl():
    from diffusers import AutoencoderKL

    return AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * 3, up_block_types=["UpDecoderBlock2D"] * 3, block_out_channels=[32, 32, 64],
                         layers_per_block=1, norm_num_groups=8, latent_channels=4, sample_size=64, scaling_factor=.18215)


def tiny():
    from diffusers import AutoencoderTiny

    return AutoencoderTiny(encoder_block_out_channels=(32,) * 4, decoder_block_out_channels=(32,) * 4, num_encoder_blocks=(1, 1, 1, 1),
                           num_decoder_blocks=(1, 1, 1, 1))


case("LPIPS of pairs and groups: lpips", ["torch", "lpips", "PIL", "flowers-64/daisy"], lpips_metrics)
case("captions and ratings: transformers", ["torch", "transformers", "safetensors", "PIL", "flowers-64/daisy"], clip_scores)
case("AutoencoderKL, there and back: diffusers", ["torch", "diffusers", "PIL", "flowers-64/daisy"],
     latents(kl, lambda n, x: n.encode(x).latent_dist.mean * .18215, lambda n, z: n.decode(z / .18215).sample))
case("AutoencoderTiny, there and back: diffusers", ["torch", "diffusers", "PIL", "flowers-64/daisy"],
     latents(tiny, lambda n, x: n.encode(x).latents, lambda n, z: n.decode(z).sample))
