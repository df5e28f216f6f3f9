"""For scripts that compute with diffusers in double: diffusers computes the sinusoid of the time, the mean squares of its RMSNorm and rotary
positions in float32, also in networks of doubles. patch() makes all of them doubles. flux() calls a FluxTransformer2DModel on latents."""
import math

import torch


def timesteps(t, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000):
    half = embedding_dim // 2
    angle = scale * t[:, None].double() * torch.exp(-math.log(max_period) * torch.arange(half).double() / (half - downscale_freq_shift))
    parts = [torch.cos(angle), torch.sin(angle)] if flip_sin_to_cos else [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts, dim=-1)


def norm(self, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotary_angles(dim, pos, theta=10000., **_):
    angle = torch.outer(pos.double(), theta ** (-torch.arange(0, dim, 2).double() / dim)).repeat_interleave(2, dim=1)
    return angle.cos(), angle.sin()


def rotary(x, freqs, sequence_dim=2):
    cos, sin = (f[None, :, None, :] if sequence_dim == 1 else f[None, None] for f in freqs)
    a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return x * cos + torch.stack([-b, a], dim=-1).flatten(-2) * sin


def patch():
    from diffusers.models import embeddings, normalization
    from diffusers.models.transformers import transformer_flux

    embeddings.get_timestep_embedding = timesteps
    normalization.RMSNorm.forward = norm
    transformer_flux.get_1d_rotary_pos_embed = rotary_angles
    transformer_flux.apply_rotary_emb = rotary


def flux(net, x, t, text, pooled, guidance):
    """x (B, C, S, S), t (B) in 0..1; packed 2 x 2 with the channel slowest, as FluxPipeline does."""
    b, c, s, _ = x.shape
    n = s // 2
    packed = x.reshape(b, c, n, 2, n, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, n * n, 4 * c)
    ids = torch.zeros(n, n, 3).double()
    ids[..., 1] += torch.arange(n)[:, None]
    ids[..., 2] += torch.arange(n)[None]
    y = net(packed, encoder_hidden_states=text, pooled_projections=pooled, timestep=t, img_ids=ids.reshape(-1, 3),
            txt_ids=torch.zeros(text.shape[1], 3), guidance=torch.full((b,), guidance).double() if guidance else None).sample
    return y.reshape(b, n, n, c, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(b, c, s, s)
