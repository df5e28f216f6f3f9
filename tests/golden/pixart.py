"""Makes tests/golden/pixart-model.tar.gz: a PixArt-alpha pipeline as diffusers saves it, of tiny networks with random weights, and what
PixArtAlphaPipeline makes of three prompts in double precision. Needs torch, diffusers, transformers, tokenizers, safetensors. PIXART_INTO: a
folder to fill instead; PIXART_SEED: other numbers.

    model/      model_index.json, transformer, scheduler, vae, text_encoder, tokenizer
    prompts.jsonl
    io.safetensors
        x (3, 4, 8, 8)              latents at the end, from torch.randn of each prompt's seed
        picture (3, 32, 32, 3)      decoded, uint8
"""
import json
import os
import shutil
import tempfile

import diffusers
import torch
from packing import pack, scatter
from safetensors.torch import save_file
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 1000 * int(os.environ.get("PIXART_SEED", "0"))
STEPS, GUIDANCE, SIZE = 6, 4.5, 8
# Capitals and blanks at the ends, which the pipeline removes before it calls its tokenizer.
PROMPTS = [{"prompt": "The quick brown fox", "seed": 11}, {"prompt": "  Jumps OVER a lazy CAF\u00c9 \u00a0", "seed": 12, "negative": "Running MEN"},
           {"prompt": "", "seed": 13, "negative": "cats in photograph"}]


def make(into):
    where = into + "/model"
    shutil.rmtree(where, ignore_errors=True)
    t = Tokenizer.from_file(HERE + "/tokenizers/plain.json")
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    transformer = diffusers.PixArtTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
                                                     sample_size=SIZE, patch_size=2, cross_attention_dim=16, caption_channels=12)
    text_encoder = T5EncoderModel(T5Config(vocab_size=t.get_vocab_size() + 3, d_model=12, d_kv=4, d_ff=20, num_layers=2, num_heads=3,
                                           feed_forward_proj="gated-gelu", tie_word_embeddings=False))
    vae = diffusers.AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * 3, up_block_types=["UpDecoderBlock2D"] * 3,
                                  block_out_channels=[4, 4, 8], layers_per_block=1, norm_num_groups=2, latent_channels=4,
                                  sample_size=4 * SIZE, scaling_factor=.18215)
    pipe = diffusers.PixArtAlphaPipeline(
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"),
        text_encoder=scatter(text_encoder, SEED + 1), vae=scatter(vae, SEED + 2), transformer=scatter(transformer, SEED + 3, {"proj_out": .25}),
        scheduler=diffusers.DPMSolverMultistepScheduler())
    pipe.to(torch.float32).save_pretrained(where)
    pipe.to(torch.float64).set_progress_bar_config(disable=True)
    with open(into + "/prompts.jsonl", "w") as f:
        f.writelines(json.dumps(p) + "\n" for p in PROMPTS)
    noise = torch.cat([torch.randn((1, 4, SIZE, SIZE), generator=torch.Generator().manual_seed(p["seed"])) for p in PROMPTS])
    x = pipe(prompt=[p["prompt"] for p in PROMPTS], negative_prompt=[p.get("negative", "") for p in PROMPTS], num_inference_steps=STEPS,
             guidance_scale=GUIDANCE, latents=noise.double(), height=4 * SIZE, width=4 * SIZE, clean_caption=False,
             use_resolution_binning=False, output_type="latent").images
    picture = ((vae.decode(x / .18215).sample / 2 + .5).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    save_file({"x": x.contiguous(), "picture": picture.contiguous()}, into + "/io.safetensors")
    print("largest latent %.3g, pictures' mean %.1f deviation %.1f" % (x.abs().max(), picture.float().mean(), picture.float().std()))


torch.set_grad_enabled(False)
if os.environ.get("PIXART_INTO"):
    make(os.environ["PIXART_INTO"])
else:
    with tempfile.TemporaryDirectory() as d:
        make(d)
        pack(d, HERE + "/pixart-model.tar.gz")
