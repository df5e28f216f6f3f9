/* Any bytes as a safetensors file: it is refused, or every tensor lies inside the file and can be converted. */
#include <stdlib.h>

#include "core/mem.h"
#include "file/safetensors.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err e = {0};
	struct safetensors *s = st_open_memory(data, len, "fuzz", &e);

	if (!s && e.code != ERR_DATA)
		abort();
	for (int i = 0; s && i < st_tensors(s); i++) {
		const struct st_tensor *t = st_get(s, i);
		float *out = mem_alloc((size_t)st_count(t) * sizeof *out);

		st_to_f32(out, t);
		if (st_find(s, t->name) != t)
			abort();
		mem_free(out);
	}
	for (int i = 0; s && i < st_texts(s); i++)
		if (st_meta(s, st_text(s, i)->key) != st_text(s, i)->value)
			abort();
	st_free(s);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/safetensors")
