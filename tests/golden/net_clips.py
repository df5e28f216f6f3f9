"""Makes tests/golden/net-clip*.safetensors as net.py makes its files: networks for pictures with blocks across the frames of clips. Needs torch. The
modules follow the description of Latte (variant 1) and share nothing with lib/net; queries and keys of time blocks are turned by the number of
their frame.

    cd tests/golden/../.. && python tests/golden/net_clips.py
"""
import os, sys
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(__file__))
from net import Attention, Block, DiT, Mlp, PixArt, SingleBlock, golden
from net_video import turn

torch.set_default_dtype(torch.float64)


class AcrossFrames(Attention):
    """x (b places, frames, hidden)."""

    def forward(self, x):
        b, n, h = x.shape
        width = h // self.heads
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, width).unbind(2)
        angle = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)[None]
        score = torch.einsum("bqhd,bkhd->bhqk", turn(q, angle), turn(k, angle)) * width ** -0.5
        return self.proj(torch.einsum("bhqk,bkhd->bqhd", score.softmax(dim=-1), v).flatten(2))


class NoText(nn.Module):
    def forward(self, x, text, mask):
        return 0


class Alternating(nn.Module):
    """A block, run on every frame, and a block run on every place of a frame. What belongs to a clip is repeated for its frames or places."""

    def __init__(self, space, time, frames):
        super().__init__()
        self.space, self.time, self.frames = space, time, frames

    def forward(self, x, *on):
        b, places, h = x.shape
        x = self.space(x, *on).reshape(b // self.frames, self.frames, places, h).transpose(1, 2).flatten(0, 1)
        on = [None if a is None else a[:: self.frames].repeat_interleave(places, dim=0) for a in on]
        return self.time(x, *on).reshape(b // self.frames, places, self.frames, h).transpose(1, 2).flatten(0, 1)


def for_clips(net, c):
    """The network with its time blocks; its names are those of the network for pictures and time_blocks.I."""
    h, heads, wide = c["hidden_size"], c["num_attention_heads"], int(c["hidden_size"] * c["mlp_ratio"])
    time = []
    for _ in range(c["num_layers"]):
        if c["model_type"] == "dit":
            block = Block(h, heads, c["mlp_ratio"])
            block.attn = AcrossFrames(h, heads)
        else:
            block = SingleBlock(c, AcrossFrames(h, heads), NoText(), Mlp(h, wide))
        time.append(block)
    net.time_blocks = nn.ModuleList(time)
    pictures = net.forward

    def forward(x, t, *on):
        frames = x.shape[1]
        blocks = net.blocks
        net.blocks = nn.ModuleList(Alternating(s, a, frames) for s, a in zip(blocks, net.time_blocks))
        y = pictures(x.flatten(0, 1), t.repeat_interleave(frames), *(None if a is None else a.repeat_interleave(frames, dim=0) for a in on))
        net.blocks = blocks
        return y.reshape(x.shape[0], frames, *y.shape[1:])

    net.forward = forward
    return net


if __name__ == "__main__":
    golden("clip", 31, lambda c: for_clips(DiT(c), c), model_type="dit", in_channels=3, out_channels=3, sample_size=4, num_frames=3, patch_size=2,
           hidden_size=8, num_layers=2, num_attention_heads=2, mlp_ratio=2.0, num_classes=3, class_dropout_prob=0.1, time_scale=1000.0)
    golden("clip-text", 32, lambda c: for_clips(PixArt(c), c), model_type="pixart", in_channels=2, out_channels=2, sample_size=4, num_frames=2,
           patch_size=2, hidden_size=12, num_layers=1, num_attention_heads=3, mlp_ratio=2.0, text_tokens=3, text_embed_dim=5, norm_eps=1e-6,
           time_scale=1000.0)
