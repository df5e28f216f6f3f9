"""Makes tests/golden/pretrained/NAME: small networks of random weights as the library that has them saves them (config.json and
safetensors), and in io.safetensors what it makes of an input. Needs torch, diffusers, transformers. With names as arguments: only
those. PRETRAINED_INTO: another folder; PRETRAINED_SEED: other numbers."""
import json, os, shutil, sys
import numpy as np
import torch
from safetensors.torch import load_file, save_file

HERE = os.environ.get("PRETRAINED_INTO", "tests/golden/pretrained")
SEED = int(os.environ.get("PRETRAINED_SEED", "0"))
MAKERS = {}


def maker(f):
    MAKERS[f.__name__.replace("_", "-")] = f
    return f


def scatter(net, seed):
    """Random weights, none of them zero, of a size that keeps every layer's part in the result."""
    g = torch.Generator().manual_seed(SEED + seed)
    with torch.no_grad():
        for name, p in net.named_parameters():
            fan = max(1, p[0].numel()) if p.dim() > 1 else 16
            a = torch.randn(p.shape, generator=g) * fan ** -0.5
            if p.dim() == 1 and name.endswith("weight") or "lambda1" in name or "gamma" in name:
                a = 1 + a
            p.copy_(a.half().float())
    return net.eval()


def save(name, net, io, keep=("config.json",)):
    """The folder as the library writes it, without what is not read."""
    where = "%s/%s" % (HERE, name)
    shutil.rmtree(where, ignore_errors=True)
    net.save_pretrained(where)
    for f in os.listdir(where):
        if not f.endswith(".safetensors") and f not in keep:
            os.remove("%s/%s" % (where, f))
    write_io(name, io)


def write_io(name, io):
    save_file({k: v.detach().contiguous() for k, v in io.items()}, "%s/%s/io.safetensors" % (HERE, name))
    for f in os.scandir("%s/%s" % (HERE, name)):
        if f.is_file():
            os.chmod(f.path, 0o644)


def normals(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(SEED + seed))


@maker
def dit_diffusers():
    from diffusers import DiTTransformer2DModel
    net = scatter(DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
                                        sample_size=6, patch_size=2, num_embeds_ada_norm=5), 1)
    first = net.transformer_blocks[0].norm1.emb
    for block in net.transformer_blocks:
        block.norm1.emb.load_state_dict(first.state_dict())
    x, step, label = normals(2, 3, 4, 6, 6), torch.tensor([0, 250, 875]), torch.tensor([0, 4, 5])
    with torch.no_grad():
        y = net(x, timestep=step, class_labels=label).sample
    save("dit-diffusers", net, {"x": x, "t": step / 1000, "label": label.int(), "y": y})


def pixart(name, seed, **c):
    from diffusers import PixArtTransformer2DModel
    net = scatter(PixArtTransformer2DModel(cross_attention_dim=c["num_attention_heads"] * c["attention_head_dim"], **c), seed)
    n = c["sample_size"]
    io = {"x": normals(seed + 1, 3, c["in_channels"], n, n), "t": torch.tensor([125, 500, 1000]) / 1000,
          "text": normals(seed + 2, 3, 120, c["caption_channels"])}
    keep = (torch.arange(120)[None] < torch.tensor([[3], [120], [17]])).float()
    extra = {"resolution": None, "aspect_ratio": None}
    if net.config.use_additional_conditions:
        io["micro"] = torch.tensor([[512.0, 768.0, 0.6666], [1024.0, 1024.0, 1.0], [33.0, 5.0, 6.6]])
        extra = {"resolution": io["micro"][:, :2], "aspect_ratio": io["micro"][:, 2:]}
    with torch.no_grad():
        io["y"] = net(io["x"], io["text"], timestep=(io["t"] * 1000).round().long(), added_cond_kwargs=extra,
                      encoder_attention_mask=keep).sample
    io["mask"] = (1 - keep) * -10000
    save(name, net, io)


@maker
def pixart_diffusers():
    pixart("pixart-diffusers", 10, num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
           sample_size=6, patch_size=2, caption_channels=10, interpolation_scale=2)


@maker
def pixart_diffusers_micro():
    pixart("pixart-diffusers-micro", 20, num_attention_heads=3, attention_head_dim=4, in_channels=2, out_channels=2, num_layers=1,
           sample_size=10, patch_size=2, caption_channels=6, use_additional_conditions=True)


def vit_reference(net, x):
    with torch.no_grad():
        y = net(x).last_hidden_state
    return {"x": x, "class": y[:, 0], "patches": y[:, 1 + getattr(net.config, "num_register_tokens", 0):]}


@maker
def dinov2():
    """A position table of 5 x 5, run with 3 x 3 patches."""
    from transformers import Dinov2Config, Dinov2Model
    net = scatter(Dinov2Model(Dinov2Config(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=4, image_size=25,
                                           patch_size=5)), 30)
    save("dinov2", net, vit_reference(net, normals(31, 3, 3, 15, 15)))


@maker
def dinov2_registers():
    """Enlarged from 4 x 4 to 6 x 6 patches; SwiGLU."""
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel
    net = scatter(Dinov2WithRegistersModel(Dinov2WithRegistersConfig(hidden_size=20, num_hidden_layers=3, num_attention_heads=5, mlp_ratio=3,
                                                                     image_size=12, patch_size=3, num_register_tokens=3,
                                                                     use_swiglu_ffn=True)), 32)
    save("dinov2-registers", net, vit_reference(net, normals(33, 3, 3, 18, 18)))


@maker
def dinov2_registers_less():
    """Antialiased from 7 x 7 to 3 x 3 patches."""
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel
    net = scatter(Dinov2WithRegistersModel(Dinov2WithRegistersConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=2,
                                                                     image_size=14, patch_size=2, num_register_tokens=1)), 34)
    save("dinov2-registers-less", net, vit_reference(net, normals(35, 3, 3, 6, 6)))


@maker
def dinov2_224():
    """A small network for pictures of 224 x 224, in 16 bits, for programs to run; its outputs are not compared."""
    from transformers import Dinov2Config, Dinov2Model
    net = scatter(Dinov2Model(Dinov2Config(hidden_size=4, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=2, image_size=56,
                                           patch_size=28)), 38)
    where = HERE + "/dinov2-224"
    shutil.rmtree(where, ignore_errors=True)
    net.half().save_pretrained(where)
    os.chmod(where + "/model.safetensors", 0o644)


@maker
def dinov2_hub():
    """The same network under the names of torch.hub, whose positions are scaled by (n + .1) / grid."""
    from transformers import Dinov2Config, Dinov2Model
    net = scatter(Dinov2Model(Dinov2Config(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, mlp_ratio=4, image_size=37 * 2,
                                           patch_size=2, use_swiglu_ffn=True)), 36)

    def interpolate(embeddings, height, width):
        pos, n, m = net.embeddings.position_embeddings, height // 2, 37
        grid = pos[:, 1:].reshape(1, m, m, -1).permute(0, 3, 1, 2)
        grid = torch.nn.functional.interpolate(grid, mode="bicubic", antialias=False, scale_factor=(float(n + .1) / m,) * 2)
        assert grid.shape[-1] == n
        return torch.cat([pos[:, :1], grid.permute(0, 2, 3, 1).reshape(1, n * n, -1)], dim=1)

    net.embeddings.interpolate_pos_encoding = interpolate
    io = vit_reference(net, normals(37, 3, 3, 32, 32))
    io["patches"] = io["patches"][:, ::7]
    w = {k: v for k, v in net.state_dict().items()}
    out = {"cls_token": w["embeddings.cls_token"], "pos_embed": w["embeddings.position_embeddings"],
           "mask_token": w["embeddings.mask_token"], "norm.weight": w["layernorm.weight"], "norm.bias": w["layernorm.bias"],
           "patch_embed.proj.weight": w["embeddings.patch_embeddings.projection.weight"],
           "patch_embed.proj.bias": w["embeddings.patch_embeddings.projection.bias"]}
    saved = "%s/x" % HERE
    net.save_pretrained(saved)
    w.update(load_file(saved + "/model.safetensors"))
    shutil.rmtree(saved)
    for i in range(2):
        a, b = "encoder.layer.%d." % i, "blocks.%d." % i
        for t in ("weight", "bias"):
            out[b + "attn.qkv." + t] = torch.cat([w["%sattention.attention.%s.%s" % (a, q, t)] for q in ("query", "key", "value")])
            for theirs, hub in (("norm1", "norm1"), ("norm2", "norm2"), ("attention.output.dense", "attn.proj"),
                                ("mlp.weights_in", "mlp.w12"), ("mlp.weights_out", "mlp.w3")):
                out[b + hub + "." + t] = w[a + theirs + "." + t]
        for k in ("1", "2"):
            out[b + "ls%s.gamma" % k] = w[a + "layer_scale%s.lambda1" % k]
    os.makedirs(HERE + "/dinov2-hub", exist_ok=True)
    torch.save({k: v.contiguous() for k, v in out.items()}, HERE + "/dinov2-hub/dinov2.pth")
    write_io("dinov2-hub", io)


@maker
def vit_timm():
    from timm.models.vision_transformer import VisionTransformer
    net = scatter(VisionTransformer(img_size=12, patch_size=3, embed_dim=24, depth=2, num_heads=3, mlp_ratio=1.5, num_classes=0), 40)
    x = normals(41, 3, 3, 12, 12)
    with torch.no_grad():
        y = net.forward_features(x)
    os.makedirs(HERE + "/vit-timm", exist_ok=True)
    save_file(net.state_dict(), HERE + "/vit-timm/model.safetensors")
    write_io("vit-timm", {"x": x, "class": y[:, 0], "patches": y[:, 1:]})


def timm_dinov2(name, seed, **c):
    """Made and saved by timm, in 16 bits: positions of 3 x 3 patches, run with 6 x 6 or 2 x 2."""
    from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
    make = lambda n: VisionTransformer(img_size=n, patch_size=2, num_classes=0, init_values=1e-5, **c)
    net, size = scatter(make(6), seed), 4 if name.endswith("less") else 12
    state = {k: v.clone() for k, v in net.state_dict().items()}
    other = make(size).eval()
    other.load_state_dict(checkpoint_filter_fn(dict(state), other))
    x = normals(seed + 1, 3, 3, size, size)
    with torch.no_grad():
        y = other.forward_features(x)
    os.makedirs(HERE + "/" + name, exist_ok=True)
    save_file({k: v.half() for k, v in state.items()}, "%s/%s/model.safetensors" % (HERE, name))
    write_io(name, {"x": x, "class": y[:, 0], "patches": y[:, other.num_prefix_tokens:]})


@maker
def dinov2_timm():
    timm_dinov2("dinov2-timm", 42, depth=2, embed_dim=64, num_heads=1, mlp_ratio=.5)
    with open(HERE + "/dinov2-timm/config.json", "w") as f:
        json.dump({"architecture": "vit_small_patch14_dinov2", "num_classes": 0, "num_features": 64}, f)


@maker
def dinov2_timm_less():
    from timm.layers import SwiGLUPacked
    timm_dinov2("dinov2-timm-less", 44, depth=1, embed_dim=128, num_heads=2, mlp_ratio=.25, reg_tokens=3, no_embed_class=True,
                mlp_layer=SwiGLUPacked, act_layer=torch.nn.SiLU)


TEXT = dict(vocab_size=60, hidden_size=12, intermediate_size=20, projection_dim=8, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=9, bos_token_id=57, pad_token_id=1)
VISION = dict(hidden_size=16, intermediate_size=24, projection_dim=8, num_hidden_layers=2, num_attention_heads=2, image_size=12,
              patch_size=4)
IDS = [[57, 3, 4, 58, 58, 58, 58, 58, 58], [57, 58, 0, 0, 0, 0, 0, 0, 0], [57, 1, 2, 3, 4, 5, 6, 7, 58]]


def openai_names(w):
    """The names of openai/CLIP and open_clip for the tensors of transformers."""
    out = {"token_embedding.weight": w["text_model.embeddings.token_embedding.weight"],
           "positional_embedding": w["text_model.embeddings.position_embedding.weight"],
           "text_projection": w["text_projection.weight"].T, "visual.proj": w["visual_projection.weight"].T,
           "visual.class_embedding": w["vision_model.embeddings.class_embedding"],
           "visual.positional_embedding": w["vision_model.embeddings.position_embedding.weight"],
           "visual.conv1.weight": w["vision_model.embeddings.patch_embedding.weight"], "logit_scale": w["logit_scale"]}
    for t in ("weight", "bias"):
        out["ln_final." + t] = w["text_model.final_layer_norm." + t]
        out["visual.ln_pre." + t] = w["vision_model.pre_layrnorm." + t]
        out["visual.ln_post." + t] = w["vision_model.post_layernorm." + t]
        for tower, of in (("text_model.", ""), ("vision_model.", "visual.")):
            for i in range(2):
                a, b = "%sencoder.layers.%d." % (tower, i), "%stransformer.resblocks.%d." % (of, i)
                out[b + "attn.in_proj_" + t] = torch.cat([w["%sself_attn.%s_proj.%s" % (a, q, t)] for q in "qkv"])
                for theirs, own in (("self_attn.out_proj", "attn.out_proj"), ("layer_norm1", "ln_1"), ("layer_norm2", "ln_2"),
                                    ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj")):
                    out[b + own + "." + t] = w[a + theirs + "." + t]
    return {k: v.contiguous() for k, v in out.items()}


def both_towers(name, seed, act, eos):
    from transformers import CLIPConfig, CLIPModel
    net = scatter(CLIPModel(CLIPConfig(text_config=dict(TEXT, eos_token_id=eos, hidden_act=act), vision_config=dict(VISION, hidden_act=act),
                                       projection_dim=8)), seed)
    ids, x = torch.tensor(IDS), normals(seed + 1, 3, 3, 12, 12)
    with torch.no_grad():
        text, vision = net.text_model(input_ids=ids), net.vision_model(pixel_values=x)
        io = {"ids": ids.int(), "text_hidden": text.last_hidden_state, "text_embedding": net.text_projection(text.pooler_output),
              "x": x, "vision_hidden": vision.last_hidden_state, "vision_embedding": net.visual_projection(vision.pooler_output)}
    save(name, net, io)
    return net, io


@maker
def clip():
    both_towers("clip", 50, "quick_gelu", 58)


@maker
def clip_openai():
    """The names of openai/CLIP; GELU, and a text that ends at the largest token, as in transformers with eos_token_id 2."""
    net, io = both_towers("clip-openai", 60, "gelu", 2)
    where = HERE + "/clip-openai/model.safetensors"
    save_file(openai_names(load_file(where)), where)
    os.chmod(where, 0o644)


@maker
def clip_text():
    """A text encoder alone, without a projection, as in diffusion pipelines."""
    from transformers import CLIPTextConfig, CLIPTextModel
    net = scatter(CLIPTextModel(CLIPTextConfig(**dict(TEXT, eos_token_id=58, num_hidden_layers=1, num_attention_heads=3))), 70)
    ids = torch.tensor(IDS)
    with torch.no_grad():
        y = net(input_ids=ids)
    save("clip-text", net, {"ids": ids.int(), "text_hidden": y.last_hidden_state, "text_embedding": y.pooler_output})


@maker
def clip_vision():
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
    net = scatter(CLIPVisionModelWithProjection(CLIPVisionConfig(**dict(VISION, image_size=10, patch_size=2, num_hidden_layers=3))), 72)
    x = normals(73, 3, 3, 10, 10)
    with torch.no_grad():
        y = net(pixel_values=x)
    save("clip-vision", net, {"x": x, "vision_hidden": y.last_hidden_state, "vision_embedding": y.image_embeds})


def t5_of(name, seed, tokens, **c):
    from transformers import T5Config, T5EncoderModel
    config = T5Config(vocab_size=50, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **c)
    net = scatter(T5EncoderModel(config), seed)
    g = torch.Generator().manual_seed(SEED + seed)
    ids, length = torch.randint(0, 50, (3, tokens), generator=g), torch.tensor([tokens, 1, (tokens + 1) // 2])
    keep = (torch.arange(tokens)[None] < length[:, None]).long()
    with torch.no_grad():
        y = net(input_ids=ids, attention_mask=keep).last_hidden_state
    attention = net.encoder.block[0].layer[0].SelfAttention
    buckets = attention._relative_position_bucket(torch.arange(-300, 301), bidirectional=True, num_buckets=attention.relative_attention_num_buckets,
                                                  max_distance=attention.relative_attention_max_distance)
    save(name, net, {"ids": ids.int(), "length": length.int(), "hidden": y, "buckets": buckets.int()})


@maker
def t5():
    t5_of("t5", 80, 7, d_model=12, d_kv=3, d_ff=20, num_layers=2, num_heads=5)


@maker
def t5_long():
    t5_of("t5-long", 81, 40, d_model=8, d_kv=4, d_ff=10, num_layers=3, num_heads=2, relative_attention_num_buckets=16,
          relative_attention_max_distance=20)


TEXTS = ["", "a photo of a cat", "Wow! the end!! of   A cat", "caf\u00e9 <|endoftext|> the", "of the cat " * 9, "a"]


def texts_of():
    return torch.tensor(list("\n".join(TEXTS).encode()), dtype=torch.uint8)


def bpe_of(merges):
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars = [chr(b) for b in keep] + [chr(256 + i) for i in range(256 - len(keep))]
    tokens = chars + [c + "</w>" for c in chars] + [m.replace(" ", "") for m in merges] + ["<|startoftext|>", "<|endoftext|>"]
    return {t: i for i, t in enumerate(tokens)}


MERGES = ["t h", "th e</w>", "c a", "ca t</w>", "p h", "o f</w>", "ph o", "t o</w>", "pho to</w>"]


@maker
def text_clip():
    """A model's folder with two encoders and tokenizers, as Stable Diffusion and SDXL have them: files of old, padded with the end; and
    tokenizer.json, padded with "!", which in a text is then that token, and a projection."""
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer
    vocab = bpe_of(MERGES)
    c = dict(vocab_size=len(vocab), hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
             max_position_embeddings=16, bos_token_id=len(vocab) - 2, eos_token_id=len(vocab) - 1)
    where, io = "%s/text-clip" % HERE, {"texts": texts_of()}
    shutil.rmtree(where, ignore_errors=True)
    for k, (of, more) in enumerate(((CLIPTextModel, {}), (CLIPTextModelWithProjection, dict(projection_dim=5)))):
        to = "%s/tokenizer%s" % (where, ("", "_2")[k])
        os.makedirs(to)
        tokenizer = CLIPTokenizer(vocab=vocab, merges=[tuple(m.split()) for m in MERGES], **(dict(pad_token="!") if k else {}))
        tokenizer.save_pretrained(to)
        if not k:
            for f in os.listdir(to):
                os.remove(to + "/" + f)
            with open(to + "/vocab.json", "w") as f:
                json.dump(vocab, f, ensure_ascii=False)
            with open(to + "/merges.txt", "w") as f:
                f.write("#version: 0.2\n" + "\n".join(MERGES) + "\n")
            with open(to + "/special_tokens_map.json", "w") as f:
                json.dump({"pad_token": "<|endoftext|>"}, f)
        ids = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=16, return_tensors="pt").input_ids
        net = scatter(of(CLIPTextConfig(**c, **more)), 90 + k)
        with torch.no_grad():
            y = net(input_ids=ids)
        io["hidden%d" % k], io["embedding%d" % k] = y.last_hidden_state, y.text_embeds if k else y.pooler_output
        net.save_pretrained("%s/text_encoder%s" % (where, ("", "_2")[k]))
        os.chmod("%s/text_encoder%s/model.safetensors" % (where, ("", "_2")[k]), 0o644)
    write_io("text-clip", io)


@maker
def text_t5():
    """A folder with T5's encoder and the tokenizer.json of tests/golden/tokens.py."""
    from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel
    from tokenizers import Tokenizer, processors
    t = Tokenizer.from_file(os.path.dirname(os.path.abspath(__file__)) + "/tokenizers/plain.json")
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    net = scatter(T5EncoderModel(T5Config(vocab_size=t.get_vocab_size() + 3, d_model=10, d_kv=4, d_ff=14, num_layers=2, num_heads=2,
                                          feed_forward_proj="gated-gelu", tie_word_embeddings=False)), 92)
    x = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=20, return_tensors="pt")
    with torch.no_grad():
        y = net(input_ids=x.input_ids, attention_mask=x.attention_mask).last_hidden_state
    save("text-t5", net, {"texts": texts_of(), "hidden": y * x.attention_mask[..., None], "length": x.attention_mask.sum(1).int()})
    tokenizer.save_pretrained(HERE + "/text-t5")


if __name__ == "__main__":
    for n in sys.argv[1:] or MAKERS:
        MAKERS[n]()
