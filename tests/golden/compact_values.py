"""Values tests/op/test_compact.c compares with: python compact_values.py > compact_values.h. bf16 from PyTorch, int8 from numpy."""
import numpy as np
import torch

rng = np.random.RandomState(5)
edges = [0x00000000, 0x80000000, 0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x3F817FFF, 0x3FFF8000, 0x7F7F8000, 0x7F7F7FFF,
         0x7F800000, 0xFF800000, 0x00800000, 0x00808000, 0x80808001]
ties = [(int(h) << 16) | 0x8000 for h in rng.randint(0x0080, 0x7F7E, 16)]
free = [int(b) for b in rng.randint(0x00800000, 0x7F7F0000, 32)] + [int(b) | 0x80000000 for b in rng.randint(0x00800000, 0x7F7F0000, 32)]
bits = np.array(edges + ties + free, dtype=np.uint32)
half = torch.from_numpy(bits.view(np.float32).copy()).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)

ROWS, COLUMNS = 5, 13
w = (rng.standard_normal((ROWS, COLUMNS)) * np.array([[1], [1e-3], [300], [1], [0]])).astype(np.float32)
w[3] = np.arange(-6, 7, dtype=np.float32) / 2
w[3, 0] = -127
scale = np.abs(w).max(1) / np.float32(127)
q = np.rint(np.divide(w, scale[:, None], out=np.zeros_like(w), where=scale[:, None] > 0)).astype(np.int8)
assert scale.dtype == np.float32 and q.min() == -127 and q.max() == 127


def table(head, values, form):
    lines = ["\t" + ", ".join(form % v for v in values[i:i + 12]) + "," for i in range(0, len(values), 12)]
    print("static const %s = {\n%s\n};\n" % (head, "\n".join(lines)))


print("/* Made by compact_values.py with PyTorch and numpy. */\n#include <stdint.h>\n")
print("enum { GOLDEN_BF16 = %d, GOLDEN_ROWS = %d, GOLDEN_COLUMNS = %d };\n" % (len(bits), ROWS, COLUMNS))
table("uint32_t golden_float[GOLDEN_BF16]", bits.tolist(), "0x%08x")
table("uint16_t golden_bf16[GOLDEN_BF16]", half.tolist(), "0x%04x")
table("uint32_t golden_matrix[GOLDEN_ROWS * GOLDEN_COLUMNS]", w.view(np.uint32).ravel().tolist(), "0x%08x")
table("uint32_t golden_scale[GOLDEN_ROWS]", scale.view(np.uint32).tolist(), "0x%08x")
table("int golden_int8[GOLDEN_ROWS * GOLDEN_COLUMNS]", q.ravel().tolist(), "%d")
