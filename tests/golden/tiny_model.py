"""Makes tests/golden/tiny-model.tar: small untrained networks for tests of ddm-sample. Needs numpy.

ensemble/   three experts of 8x8 grey pictures and a router: expert_0 predicts x0 near +.5 on the linear path, expert_1 x0 near -.5 on
            the cosine path, expert_2 velocity; cluster sizes 4, 3, 1
guided/     one folder that is itself an expert: colour, three classes, x0 near a colour of its class, with the null label
"""
import io, json, struct, tarfile
import numpy as np

rng = np.random.RandomState(7)
HIDDEN, PATCH, SIZE = 8, 4, 8


def positions():
    n, q = SIZE // PATCH, HIDDEN // 4
    w = 10000.0 ** (-np.arange(q) / q)
    out = np.zeros((1, n * n, HIDDEN))
    for i in range(n * n):
        c, r = i % n * w, i // n * w
        out[0, i] = np.concatenate([np.sin(c), np.cos(c), np.sin(r), np.cos(r)])
    return out


def block(t, qkv_w, qkv_b, proj, fc1, fc2, ada):
    h = HIDDEN
    t[qkv_w], t[qkv_b] = (3 * h, h), (3 * h,)
    for name, o, i in (proj, h, h), (fc1, 2 * h, h), (fc2, h, 2 * h), (ada, 6 * h, h):
        t[name + ".weight"], t[name + ".bias"] = (o, i), (o,)


def fill(shapes):
    return {k: .2 * rng.standard_normal(s) for k, s in shapes.items()}


def dit(channels, bias, classes=0):
    h, out = HIDDEN, PATCH * PATCH * channels
    t = {"x_embedder.proj.weight": (h, channels, PATCH, PATCH), "x_embedder.proj.bias": (h,)}
    for name, o, i in (("t_embedder.mlp.0", h, 256), ("t_embedder.mlp.2", h, h), ("final_layer.adaLN_modulation.1", 2 * h, h),
                       ("final_layer.linear", out, h)):
        t[name + ".weight"], t[name + ".bias"] = (o, i), (o,)
    b = "blocks.0."
    block(t, b + "attn.qkv.weight", b + "attn.qkv.bias", b + "attn.proj", b + "mlp.fc1", b + "mlp.fc2", b + "adaLN_modulation.1")
    if classes:
        t["y_embedder.embedding_table.weight"] = (classes + 1, h)
    w = fill(t)
    w["pos_embed"] = positions()
    w["final_layer.linear.weight"] *= .3
    w["final_layer.linear.bias"] += bias
    if classes:
        w["y_embedder.embedding_table.weight"] *= 10
    return w


def router(k):
    h = HIDDEN
    t = {"patch_embed.weight": (h, 1, PATCH, PATCH), "patch_embed.bias": (h,), "cls_token": (1, 1, h), "head.2.weight": (h,),
         "head.2.bias": (h,)}
    for name, o, i in ("time_embed.mlp.0", h, 256), ("time_embed.mlp.2", h, h), ("head.0", h, h), ("head.4", k, h):
        t[name + ".weight"], t[name + ".bias"] = (o, i), (o,)
    b = "layers.0."
    block(t, b + "attn.in_proj_weight", b + "attn.in_proj_bias", b + "attn.out_proj", b + "mlp.0", b + "mlp.2",
          b + "adaLN_modulation.1")
    w = fill(t)
    w["pos_embed"] = positions()
    w["patch_embed.weight"] *= 5
    w["head.2.weight"] += 1
    w["head.4.weight"] *= 10
    return w


def safetensors(arrays):
    header, data = {}, b""
    for name in sorted(arrays):
        a = arrays[name].astype("<f2")
        header[name] = {"dtype": "F16", "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def config(**keys):
    base = {"in_channels": 1, "sample_size": SIZE, "patch_size": PATCH, "hidden_size": HIDDEN, "num_layers": 1,
            "num_attention_heads": 2, "mlp_ratio": 2.0, "time_scale": 1000.0}
    base.update(keys)
    return (json.dumps(base, indent=2) + "\n").encode()


DIT = "diffusion_pytorch_model.safetensors"
sizes = {"num_clusters": 3, "cluster_sizes": [4, 3, 1]}
files = {}
for i, (bias, prediction, path) in enumerate([(.5, "x0", "linear"), (-.5, "x0", "cosine"), (0, "velocity", "linear")]):
    where = "ensemble/expert_%d/" % i
    files[where + "config.json"] = config(model_type="dit", prediction=prediction, path=path, cluster=i, **sizes)
    files[where + DIT] = safetensors(dit(1, bias))
files["ensemble/router/config.json"] = config(model_type="router", **sizes)
files["ensemble/router/model.safetensors"] = safetensors(router(3))
files["guided/config.json"] = config(model_type="dit", prediction="x0", path="linear", in_channels=3, num_classes=3,
                                     class_dropout_prob=.1)
files["guided/" + DIT] = safetensors(dit(3, 0, 3))

with tarfile.open("tests/golden/tiny-model.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
    for name in sorted(files):
        info = tarfile.TarInfo(name)
        info.size = len(files[name])
        info.mode = 0o644
        tar.addfile(info, io.BytesIO(files[name]))
