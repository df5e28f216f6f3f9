"""ddm-eval-fid --metrics clip of clips against transformers: a CLIP of random weights, random clips with captions, the mean cosine of all frames."""
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile

from peers import BUILD, SEED, SOURCE, case

TOKENIZER = os.path.join(SOURCE, "tests", "golden", "pretrained", "text-clip", "tokenizer")
CAPTIONS = ["a red ball", "two dogs run", "the sea at night", "rain"]
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def model():
    import torch
    from transformers import CLIPConfig, CLIPModel

    size = dict(hidden_size=16, intermediate_size=24, projection_dim=8, num_hidden_layers=2, num_attention_heads=2)
    text = dict(size, vocab_size=523, max_position_embeddings=16, bos_token_id=521, eos_token_id=522, pad_token_id=1)
    torch.manual_seed(SEED)
    net = CLIPModel(CLIPConfig(text_config=text, vision_config=dict(size, image_size=224, patch_size=56), projection_dim=8)).eval()
    for p in net.parameters():
        p.data.add_(.2 * torch.randn_like(p))
    return net


def write(path, clips):
    import numpy as np

    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as t:
        for i, c in enumerate(clips):
            b = io.BytesIO()
            np.save(b, c)
            for kind, data in (("npy", b.getvalue()), ("txt", CAPTIONS[i].encode())):
                info = tarfile.TarInfo("clip%04d@000000.%s" % (i, kind))
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))


def cosines(net, clips):
    import torch
    from transformers import CLIPTokenizer

    mean, std = (torch.tensor(v)[:, None, None] for v in (MEAN, STD))
    ids = CLIPTokenizer.from_pretrained(TOKENIZER)(CAPTIONS, padding="max_length", max_length=16, return_tensors="pt").input_ids
    with torch.no_grad():
        text = net.text_projection(net.text_model(input_ids=ids).pooler_output)
        frames = [net.visual_projection(net.vision_model(pixel_values=(torch.from_numpy(c) / 255 - mean) / std).pooler_output) for c in clips]
    return [torch.cosine_similarity(f, t[None], dim=1).mean().item() for f, t in zip(frames, text)]


def alignment():
    import numpy as np

    rng = np.random.default_rng(SEED)
    clips = [np.repeat(np.repeat(rng.integers(0, 256, size=(5, 3, 8, 8)).astype(np.uint8), 28, 2), 28, 3) for _ in CAPTIONS]
    net = model()
    values = [max(100 * c, 0) for c in cosines(net, clips)]
    want, error = np.mean(values), np.std(values) / (len(values) - 1) ** .5
    with tempfile.TemporaryDirectory() as dir:
        net.save_pretrained(os.path.join(dir, "clip"))
        for name in os.listdir(TOKENIZER):
            shutil.copy(os.path.join(TOKENIZER, name), os.path.join(dir, "clip"))
        write(os.path.join(dir, "a.tar"), clips)
        r = subprocess.run([os.path.join(BUILD, "ddm-eval-fid"), "--device", "cpu", "--metrics", "clip", "--features", "clip:clip", "a.tar", "a.tar"],
                           cwd=dir, capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        line = json.loads(r.stdout)
    got, se = line["clip-score-clip"], line["clip-score-clip-se"]
    assert len(line["recipe"]["features-hash"]) == 64 and len(line["recipe"]["captions-hash"]) == 64
    if want < 1 or abs(got - want) > 1e-3 * want or abs(se - error) > 1e-3 * error:
        return "a score of %.9g +- %.9g, not %.9g +- %.9g" % (got, se, want, error)
    return None


case("alignment of clips with captions: transformers' CLIP", ["numpy", "torch", "transformers"], alignment)
