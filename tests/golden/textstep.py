"""Makes tests/golden/textstep.safetensors: an expert that reads texts, one sample, and the first step of its training in PyTorch, in
double. Needs torch. The networks are those of net.py, the draws are Philox as lib/core/rng.h defines it, written once more.

    w/NAME                    initial weights, float16 values
    npy, std.npy, text.npy    the sample: mean and deviation of a latent, features of its text; null: of no text
    m/NAME                    the first moment after the step: (1 - .9) times the clipped gradient
    expected                  loss and norm of the gradient before clipping
"""
import math
import numpy as np
import torch

code = open("tests/golden/net.py").read()
exec(code[:code.index("def golden(")])

SEED, BATCH, DROP, CLIP = 3, 4, .5, .25
NOISE, TIME, LABEL, LATENT = 3, 4, 6, 15
M32 = 0xffffffff


def block(purpose, step, index, lane):
    c, k = [lane, index & M32, step & M32, purpose << 24], [SEED & M32, SEED >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M32, (a >> 32) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def uniform(purpose, step, index):
    w = block(purpose, step, index, 0)
    return ((w[1] << 32 | w[0]) >> 11) * 2.0 ** -53


def normals(n, purpose, step, index):
    out = []
    for lane in range((n + 3) // 4):
        w = block(purpose, step, index, lane)
        for a, b in ((w[0], w[1]), (w[2], w[3])):
            r = math.sqrt(-2 * math.log(((a >> 8) + 1) * 2.0 ** -24))
            out += [r * math.cos(2 * math.pi * (b >> 8) * 2.0 ** -24), r * math.sin(2 * math.pi * (b >> 8) * 2.0 ** -24)]
    return np.array(out[:n])


c = dict(in_channels=2, out_channels=2, sample_size=4, patch_size=2, hidden_size=8, num_layers=1, num_attention_heads=2, mlp_ratio=2.0,
         text_tokens=3, text_embed_dim=5, norm_eps=1e-5)
rng, out, net = np.random.RandomState(31), {}, Paris(c)
with torch.no_grad():
    for key, p in net.named_parameters():
        a = p.numpy().astype(np.float32) if key == "pos_embed" else exact(rng, *p.shape, std=max(1, p[0].numel()) ** -.5 if p.dim() > 1 else .25)
        p.copy_(torch.from_numpy(a.astype(np.float64)))
        out["w/" + key] = a
shape = (c["in_channels"], c["sample_size"], c["sample_size"])
mean, text, null = exact(rng, *shape), exact(rng, 3, 5), exact(rng, 1, 5)
std = np.abs(exact(rng, *shape, std=.5))
x, ts, texts, target = [], [], [], []
drops = [uniform(LABEL, 0, i) < DROP for i in range(BATCH)]
assert any(drops) and not all(drops), drops
for i in range(BATCH):
    n = mean.size
    x0 = mean.astype(np.float64) + std.astype(np.float64) * normals(n, LATENT, 0, i).reshape(shape)
    eps, t = normals(n, NOISE, 0, i).reshape(shape), uniform(TIME, 0, i)
    x.append((1 - t) * x0 + t * eps)
    target.append(eps - x0)
    ts.append(t)
    texts.append(np.concatenate([null, np.zeros((2, 5))]) if drops[i] else text)
tensor = lambda a: torch.from_numpy(np.asarray(a, np.float64))
y = net(tensor(x), 1000 * tensor(ts), None, tensor(texts), None, None)
loss = ((y - tensor(target)) ** 2).mean(dim=(1, 2, 3)).mean()
loss.backward()
trained = [p for p in net.parameters() if p.requires_grad]
norm = torch.nn.utils.clip_grad_norm_(trained, CLIP)
assert norm > 2 * CLIP
step = torch.optim.AdamW(trained, lr=5e-3, weight_decay=0)
step.step()
for key, p in net.named_parameters():
    if p.requires_grad:
        out["m/" + key] = step.state[p]["exp_avg"].numpy().astype(np.float32)
f32 = lambda a: a.astype(np.float32)
out.update({"npy": f32(mean), "std.npy": f32(std), "text.npy": f32(text), "null": f32(null), "expected": np.array([loss.item(), norm.item()])})
write("tests/golden/textstep.safetensors", out, {})
print(len(trained), drops, loss.item(), norm.item())
