/* Any bytes as a file of PyTorch, and as a pickle. */
#include <stdlib.h>

#include "core/mem.h"
#include "file/pickle.h"
#include "file/torchfile.h"
#include "tests/fuzz/replay.h"

enum { ELEMENTS_MOST = 1 << 16 };

/* Read all elements of a tensor, and a part of them. */
static void gather(struct torchfile *f, int i)
{
	const struct st_tensor *t = torch_get(f, i);
	int64_t n = st_count(t) < ELEMENTS_MOST ? st_count(t) : ELEMENTS_MOST;
	void *out = mem_alloc((size_t)n * st_type_size(t->type));
	struct err e = {0};

	if (torch_gather(f, i, 0, n, out, &e) && e.code != ERR_DATA && e.code != ERR_NOMEM)
		abort();
	if (n && !torch_gather(f, i, st_count(t) - 1, 1, out, &e) && t->data)
		st_copy(out, &(struct st_tensor){.type = t->type, .rank = 1, .shape = {n}, .data = t->data});
	mem_free(out);
}

static void as_file(const uint8_t *data, size_t len, const char *root)
{
	struct err e = {0};
	struct torchfile *f = torch_open_memory(data, len, "fuzz", root, &e);
	int64_t bad;

	if (!f && e.code != ERR_DATA && e.code != ERR_NOMEM)
		abort();
	if (!f)
		return;
	for (int i = 0; i < torch_tensors(f); i++)
		gather(f, i);
	torch_verify(f, &bad, NULL);
	json_decref(torch_members(f));
	mem_free(torch_describe(f, "a.b.0"));
	torch_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct arena a = {0};
	struct err e = {0};
	struct pickle p;

	if (pickle_parse(&p, &a, data, len, "fuzz", &e) && e.code != ERR_DATA)
		abort();
	arena_release(&a);
	as_file(data, len, NULL);
	as_file(data, len, "");
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/torchfile")
