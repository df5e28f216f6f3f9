"""The numbers of torch.randn on a CPU: python torch_randn.py > torch_randn.h. Needs torch."""
import hashlib

import torch

print("/* Made by torch_randn.py with PyTorch's CPU generator. */\n")
print("static const struct {\n\tuint64_t seed;\n\tint64_t n[3]; /* drawn one after the other from one generator */\n\tuint32_t last; /* bits of the last */")
print("\tconst char *sha256; /* of all, little-endian */\n} golden_randn[] = {")
for seed, sizes in [(0, [1]), (0, [15]), (0, [16]), (1, [17]), (7, [33]), (123, [4096]), (2**32 + 5, [1, 20, 3]), (11, [65536, 31, 1])]:
    g = torch.Generator().manual_seed(seed)
    data = b"".join(torch.randn(n, generator=g).numpy().tobytes() for n in sizes)
    n = ", ".join(map(str, sizes + [0] * (3 - len(sizes))))
    print(f"    {{{seed}u, {{{n}}}, 0x{int.from_bytes(data[-4:], 'little'):08x},\n     \"{hashlib.sha256(data).hexdigest()}\"}},".replace("u,", "u,", 1))
print("};")
