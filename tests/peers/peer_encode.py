"""ddm-encode against the libraries that it replaces: photographs and their captions through networks with random weights made by transformers,
timm and diffusers, and photographs encoded and decoded by the real TAEF2."""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

from peers import BUILD, DATA, SEED, SOURCE, case

sys.path.insert(0, SOURCE + "/tests/golden")
TOLERANCE = 1e-4  # of the largest number: both sides compute in float


def encode(out, *args):
    subprocess.run([BUILD + "/ddm-encode", "-q", "-o", out, *args], check=True)
    return tarfile.open(out)


def array(tar, name):
    import numpy as np
    return np.load(io.BytesIO(tar.extractfile(name).read()))


def differ(what, got, want):
    import numpy as np
    if got.shape != want.shape:
        return "%s: %s, not %s" % (what, got.shape, want.shape)
    worst, largest = np.abs(got - want).max(), np.abs(want).max()
    return None if worst <= TOLERANCE * largest else "%s: off by %.3g of at most %.3g" % (what, worst, largest)


def photos():
    with open(DATA + "/photos/coco-captions.jsonl") as f:
        return [(DATA + "/photos/" + o["file"], o["captions"]) for o in map(json.loads, f)]


def random_weights(net):
    import torch
    g = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn(p.shape, generator=g) * .05)
    return net.eval()


def captions_of(folder):
    """A sample for each caption, with a picture of one pixel."""
    from PIL import Image
    os.makedirs(folder)
    texts = [c for _, captions in photos() for c in captions]
    for i, t in enumerate(texts):
        Image.new("RGB", (1, 1)).save("%s/%04d.png" % (folder, i))
        with open("%s/%04d.txt" % (folder, i), "w") as f:
            f.write(t)
    return texts


def clip_captions():
    import torch
    from tokens import clip
    from transformers import CLIPTextConfig, CLIPTextModel
    with tempfile.TemporaryDirectory() as d:
        texts, tokenizer = captions_of(d + "/samples"), clip(DATA)
        net = random_weights(CLIPTextModel(CLIPTextConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                          eos_token_id=49407, bos_token_id=49406)))
        tokenizer.save_pretrained(d + "/model/tokenizer")
        net.save_pretrained(d + "/model/text_encoder")
        with torch.no_grad():
            want = net(tokenizer(texts, padding="max_length", truncation=True, max_length=77, return_tensors="pt").input_ids).last_hidden_state
        tar = encode(d + "/x.tar", "--dtype", "f32", "-m", d + "/model", d + "/samples")
        for i in range(len(texts)):
            wrong = differ(texts[i], array(tar, "%04d.text.npy" % i), want[i].numpy())
            if wrong:
                return wrong
    return None


def t5_captions():
    import torch
    from tokens import unigram
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel
    with tempfile.TemporaryDirectory() as d:
        texts, t = captions_of(d + "/samples"), unigram(open(DATA + "/weights/sentencepiece/test_model.model", "rb").read())
        t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
        net = random_weights(T5EncoderModel(T5Config(vocab_size=t.get_vocab_size(), d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3,
                                                     feed_forward_proj="gated-gelu")))
        net.save_pretrained(d + "/model")
        tokenizer.save_pretrained(d + "/model")
        x = tokenizer(texts, padding="max_length", truncation=True, max_length=30, return_tensors="pt")
        with torch.no_grad():
            want = net(input_ids=x.input_ids, attention_mask=x.attention_mask).last_hidden_state
        tar = encode(d + "/x.tar", "--dtype", "f32", "--tokens", "30", "-m", d + "/model", d + "/samples")
        for i in range(len(texts)):
            wrong = differ(texts[i], array(tar, "%04d.text.npy" % i), want[i, :int(x.attention_mask[i].sum())].numpy())
            if wrong:
                return wrong
    return None


def square(path, side):
    from PIL import Image, ImageOps
    p = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    s = min(p.size)
    x, y = (p.width - s) // 2, (p.height - s) // 2
    p = p.crop((x, y, x + s, y + s))
    return p if s == side else p.resize((side, side), Image.LANCZOS if side < s else Image.BICUBIC)


def autoencoder():
    import numpy as np
    import torch
    from diffusers import AutoencoderKL
    from PIL import Image
    with tempfile.TemporaryDirectory() as d:
        net = random_weights(AutoencoderKL(block_out_channels=(16, 24, 32), layers_per_block=1, latent_channels=4, norm_num_groups=8,
                                           down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                                           scaling_factor=.7, shift_factor=.2))
        net.save_pretrained(d + "/vae")
        tar = encode(d + "/x.tar", "--dtype", "f32", "--size", "64", "-m", d + "/vae", *[p for p, _ in photos()])
        back = encode(d + "/y.tar", "-d", "-m", d + "/vae", d + "/x.tar")
        keys = sorted(n[:-len(".std.npy")] for n in tar.getnames() if n.endswith(".std.npy"))
        if len(keys) != len(photos()):
            return "%d latents of %d photographs" % (len(keys), len(photos()))
        for path, _ in photos():
            key = [k for k in keys if k.endswith(os.path.basename(path).split(".")[0])][0]
            x = torch.tensor(np.asarray(square(path, 64))).permute(2, 0, 1)[None].float() / 127.5 - 1
            with torch.no_grad():
                p = net.encode(x).latent_dist
                z = (p.mean - .2) * .7
                y = ((net.decode(z / .7 + .2).sample[0].permute(1, 2, 0) + 1) * 127.5).clamp(0, 255).numpy()
            wrong = differ(key, array(tar, key + ".npy"), z[0].numpy()) or differ(key, array(tar, key + ".std.npy"), (p.std * .7)[0].numpy())
            if wrong:
                return wrong
            got = np.asarray(Image.open(io.BytesIO(back.extractfile(key + ".png").read()))).astype(float)
            if np.abs(got - y).max() > .51:
                return "%s: a pixel is %.2f away" % (key, np.abs(got - y).max())
    return None


def taef2():
    """The crops and the numbers of tests/unit/test_taef2.c, with the error of rounding to 8 bits."""
    import numpy as np
    from PIL import Image
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(d + "/vae")
        os.makedirs(d + "/crops")
        for half in ("encoder", "decoder"):
            os.symlink(os.path.abspath(DATA + "/weights/taesd/taef2_%s.safetensors" % half), d + "/vae/%s.safetensors" % half)
        with open(d + "/vae/config.json", "w") as f:
            json.dump({"_class_name": "AutoencoderTiny", "latent_channels": 32, "use_midblock_gn": True}, f)
        want = {"000000000285": 24.384836, "000000000785": 30.539547}
        for k in want:
            Image.open(DATA + "/photos/coco/%s.jpg" % k).convert("RGB").crop((96, 64, 96 + 288, 64 + 256)).save(d + "/crops/%s.png" % k)
        encode(d + "/x.tar", "-m", d + "/vae", d + "/crops")
        back = encode(d + "/y.tar", "-d", "-m", d + "/vae", d + "/x.tar")
        for k, psnr in want.items():
            a = np.asarray(Image.open(d + "/crops/%s.png" % k)).astype(float)
            b = np.asarray(Image.open(io.BytesIO(back.extractfile(k + ".png").read()))).astype(float)
            got = -10 * np.log10(((a - b) ** 2).mean() / 255 ** 2)
            if abs(got - psnr) > .03:
                return "%s: %.4f dB, not %.4f" % (k, got, psnr)
    return None


def timm_dinov2(architecture):
    """A folder of timm's hub with positions for 518 x 518, and its model.safetensors alone."""
    def run():
        import numpy as np
        import timm
        import torch
        from PIL import Image
        from timm.models import save_for_hf

        small = dict(depth=2, embed_dim=128, num_heads=2)
        net = random_weights(timm.create_model(architecture, **small))
        files = [p for p, _ in photos()][:3]
        x = np.stack([np.asarray(Image.open(p).convert("RGB").resize((224, 224), Image.BICUBIC)) for p in files]) / 255
        x = (x - [.485, .456, .406]) / [.229, .224, .225]
        with tempfile.TemporaryDirectory() as d:
            save_for_hf(net, d + "/model", safe_serialization=True)
            net.set_input_size((224, 224))
            with torch.no_grad():
                want = net(torch.from_numpy(x).permute(0, 3, 1, 2).float()).numpy()
            for i, where in enumerate((d + "/model", d + "/model/model.safetensors")):
                out = "%s/%d.npy" % (d, i)
                subprocess.run([BUILD + "/ddm-encode", "-q", "--input", "dinov2", "-m", where, "-o", out, *files], check=True)
                wrong = differ(where, np.load(out), want)
                if wrong:
                    return wrong
        return None
    return run


NEEDS = ["torch", "numpy", "PIL", "photos/coco-captions.jsonl"]
case("captions through CLIP, transformers", NEEDS + ["transformers", "tokenizers", "sentencepiece", "weights/clip-bpe/bpe_simple_vocab_16e6.txt.gz"],
     clip_captions)
case("captions through T5, transformers", NEEDS + ["transformers", "tokenizers", "sentencepiece", "weights/sentencepiece/test_model.model"], t5_captions)
case("photographs through an AutoencoderKL, diffusers", NEEDS + ["diffusers"], autoencoder)
case("photographs through a DINOv2 of timm", NEEDS + ["timm"], timm_dinov2("vit_small_patch14_dinov2"))
case("photographs through one with registers", NEEDS + ["timm"], timm_dinov2("vit_small_patch14_reg4_dinov2"))
case("photographs through TAEF2 and back", ["numpy", "PIL", "photos/coco/000000000285.jpg", "weights/taesd/taef2_encoder.safetensors"], taef2)
