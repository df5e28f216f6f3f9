"""Makes tests/golden/paris-model.tar.gz: a text-to-image ensemble laid out as the released Paris model is, of tiny networks with random weights
as PyTorch, diffusers and transformers save them, and what they make of three prompts in double precision by the released sampler. Needs
torch, diffusers, transformers, safetensors. PARIS_INTO: a folder to fill instead; PARIS_SEED: other numbers.

    model/      expert_{0,1,2}, router, vae, text_encoder, tokenizer
    prompts.jsonl
    io.safetensors
        noise (3, 4, 8, 8)          torch.randn of each prompt's seed
        t (N + 1)                   linspace(1, .001, N), 0
        text, away (3, 77, 8)       features of prompt and negative prompt
        x (N + 1, 3, 4, 8, 8)       latents before each step, and at the end
        weight (N, 3, 3)            of the experts: top-2, renormalised
        picture (3, 64, 64, 3)      decoded, uint8
"""
import json, os, shutil, tempfile
import torch
from safetensors.torch import save_file
from net import Paris, Router
from packing import pack, scatter

SEED = int(os.environ.get("PARIS_SEED", "0"))
STEPS, GUIDANCE, EXPERTS, SIZE, SCALE = 6, 7.5, 3, 8, .18215
PROMPTS = [{"prompt": "the cat of a photo", "seed": 11}, {"prompt": "A caf\u00e9 \u2014 in the rain", "seed": 12, "negative": "the photo"},
           {"prompt": "", "seed": 13, "negative": "cat"}]
MERGES = ["t h", "th e</w>", "c a", "ca t</w>", "p h", "o f</w>", "ph o", "t o</w>", "pho to</w>"]
EXPERT = dict(model_type="dit_expert", hidden_size=16, num_layers=2, num_attention_heads=2, patch_size=2, in_channels=4, out_channels=4,
              mlp_ratio=2.0, use_text_conditioning=True, use_class_conditioning=False, num_classes=1000, text_embed_dim=8,
              use_dit_time_embed=True, use_adaln_single=True, cfg_dropout_prob=.1, sample_size=SIZE)
ROUTER = dict(model_type="router", num_clusters=EXPERTS, hidden_size=16, num_layers=1, num_attention_heads=2, patch_size=2, in_channels=4,
              mlp_ratio=2.0, use_dit_time_embed=True, sample_size=SIZE)


def drawn(net, seed, gain=None):
    return scatter(net, 1000 * SEED + seed, gain)


def save(net, where, config, weights):
    os.makedirs(where)
    with open(where + "/config.json", "w") as f:
        json.dump(config, f, indent=2)
    save_file({k: v.float().contiguous() for k, v in net.state_dict().items()}, where + "/" + weights)


def text_encoder(where):
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars = [chr(b) for b in keep] + [chr(256 + i) for i in range(256 - len(keep))]
    words = chars + [c + "</w>" for c in chars] + [m.replace(" ", "") for m in MERGES] + ["<|startoftext|>", "<|endoftext|>"]
    vocab = {t: i for i, t in enumerate(words)}
    os.makedirs(where + "/tokenizer")
    with open(where + "/tokenizer/vocab.json", "w") as f:
        json.dump(vocab, f)
    with open(where + "/tokenizer/merges.txt", "w") as f:
        f.write("#version: 0.2\n" + "\n".join(MERGES) + "\n")
    with open(where + "/tokenizer/special_tokens_map.json", "w") as f:
        json.dump({"pad_token": "<|endoftext|>"}, f)
    tokenizer = CLIPTokenizer(vocab=vocab, merges=[tuple(m.split()) for m in MERGES])
    net = drawn(CLIPTextModel(CLIPTextConfig(vocab_size=len(vocab), hidden_size=8, intermediate_size=16, num_hidden_layers=2,
                                             num_attention_heads=2, max_position_embeddings=77, bos_token_id=len(vocab) - 2,
                                             eos_token_id=len(vocab) - 1)), 1)
    net.half().save_pretrained(where + "/text_encoder")
    net.double()

    def encode(texts):
        ids = tokenizer(texts, padding="max_length", truncation=True, max_length=77, return_tensors="pt").input_ids
        return net(input_ids=ids).last_hidden_state
    return encode


def autoencoder(where):
    from diffusers import AutoencoderKL
    net = drawn(AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4,
                              block_out_channels=[4, 4, 4, 8], layers_per_block=1, norm_num_groups=2, latent_channels=4,
                              sample_size=8 * SIZE, scaling_factor=SCALE), 2)
    net.half().save_pretrained(where + "/vae")
    net.double()
    return lambda x: net.decode(x / SCALE).sample


def ensemble(where):
    experts = []
    for k in range(EXPERTS):
        net = drawn(Paris(dict(EXPERT, norm_eps=1e-5)), 10 + k)
        save(net, where + "/expert_%d" % k, EXPERT, "diffusion_pytorch_model.safetensors")
        experts.append(net)
    router = drawn(Router(ROUTER), 20, gain={"head.4": 1.5})
    save(router, where + "/router", ROUTER, "pytorch_model.safetensors")
    with open(where + "/config.json", "w") as f:
        json.dump({"num_experts": EXPERTS}, f)
    with open(where + "/model_index.json", "w") as f:
        json.dump({"_class_name": "ParisPipeline"}, f)
    return experts, router


def sample(experts, router, noise, text, away):
    t = torch.cat([torch.linspace(1, .001, STEPS, dtype=torch.float64), torch.zeros(1)])
    x, xs, weights = noise.double(), [noise.double()], []
    for i in range(STEPS):
        time = (1000 * t[i]).expand(len(x))
        logits = router(x, time, None, None, None, None)
        p = torch.softmax(logits, dim=1)
        top = torch.topk(p, 2, dim=1).indices
        assert (logits.sort(dim=1).values.diff(dim=1)[:, 0] > 1e-3).all(), "nearly a tie: take another seed"
        w = torch.zeros_like(p).scatter(1, top, p.gather(1, top))
        w = w / w.sum(dim=1, keepdim=True)
        v = torch.zeros_like(x)
        for k, expert in enumerate(experts):
            u, c = (expert(x, time, None, f, None, None) for f in (away, text))
            v = v + w[:, k, None, None, None] * (u + GUIDANCE * (c - u))
        x = x + (t[i + 1] - t[i]) * v
        xs.append(x)
        weights.append(w)
    return t, torch.stack(xs), torch.stack(weights)


def make(into):
    where = into + "/model"
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    encode, decode = text_encoder(where), autoencoder(where)
    experts, router = ensemble(where)
    with open(into + "/prompts.jsonl", "w") as f:
        f.writelines(json.dumps(p) + "\n" for p in PROMPTS)
    noise = torch.cat([torch.randn((1, 4, SIZE, SIZE), generator=torch.Generator().manual_seed(p["seed"]), dtype=torch.float32)
                       for p in PROMPTS])
    text, away = encode([p["prompt"] for p in PROMPTS]), encode([p.get("negative", "") for p in PROMPTS])
    t, x, weight = sample(experts, router, noise, text, away)
    picture = ((decode(x[-1]) / 2 + .5).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    save_file({k: v.contiguous() for k, v in dict(noise=noise, t=t, text=text, away=away, x=x, weight=weight, picture=picture).items()},
              into + "/io.safetensors")
    print("experts %s, largest latent %.3g, pictures' mean %.1f deviation %.1f" %
          ((weight > 0).sum(dim=(0, 1)).tolist(), x.abs().max(), picture.float().mean(), picture.float().std()))


torch.set_grad_enabled(False)
if os.environ.get("PARIS_INTO"):
    make(os.environ["PARIS_INTO"])
else:
    with tempfile.TemporaryDirectory() as d:
        make(d)
        pack(d, os.path.dirname(os.path.abspath(__file__)) + "/paris-model.tar.gz")
