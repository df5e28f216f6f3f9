/* Any bytes as an index.json of MosaicML's streaming and, after a NUL, its shard: as they are, and with corrected sizes, counts and hashes. */
#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "data/samples.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/replay.h"

/* raw: the unpacked file exists too, not only the packed ones. */
static void use(const void *index, size_t n, const void *shard, size_t len, int raw)
{
	const char *const operand = folder_path(NULL);
	struct samples_options o = {.skip_bad = 1, .max_member = 1 << 20};
	struct err e = {0};
	struct samples *s;
	struct sample x;
	size_t sum = 0;
	int rc = 0;

	folder_put("index.json", index, n);
	folder_put("shard.00000.mds", raw ? shard : NULL, len);
	folder_put("shard.00000.mds.zstd", shard, len);
	folder_put("shard.00000.mds.gz", shard, len);
	s = samples_open(&operand, 1, &o, &e);
	while (s && (rc = samples_next(s, &x, &e)) == 1)
		for (int i = 0; i < x.n; i++)
			for (size_t b = 0; b < x.member[i].len; b++)
				sum += ((const uint8_t *)x.member[i].data)[b];
	if (((!s || rc < 0) && e.code != ERR_DATA && e.code != ERR_NOINPUT) || sum == SIZE_MAX)
		abort();
	samples_close(s);
}

static void mend_file(json_t *shard, const char *key, const char *name, size_t len)
{
	json_t *o = json_object_get(shard, key);

	if (json_is_object(o)) {
		json_object_set_new(o, "basename", json_string(name));
		json_object_set_new(o, "bytes", json_integer((json_int_t)len));
		json_object_del(o, "hashes");
	}
}

/* The index with corrected numbers; NULL if the text is no index. The unpacked size of a packed shard is kept. */
static char *mended(const char *index, const uint8_t *shard, size_t len, int *packed)
{
	json_t *o = json_loads(index, 0, NULL), *list = json_object_get(o, "shards"), *one = json_array_get(list, 0);
	char *text = NULL;

	if (json_is_object(one) && len >= 4) {
		while (json_array_size(list) > 1)
			json_array_remove(list, 1);
		*packed = json_is_object(json_object_get(one, "zip_data"));
		if (*packed) {
			mend_file(one, "zip_data", "shard.00000.mds.zstd", len);
		} else {
			json_object_set_new(one, "samples", json_integer(shard[0] | shard[1] << 8));
			mend_file(one, "raw_data", "shard.00000.mds", len);
		}
		text = jsonio_line(o);
	}
	json_decref(o);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *nul = len ? memchr(data, 0, len) : NULL;
	size_t n = nul ? (size_t)(nul - data) : len, rest = nul ? len - n - 1 : 0;
	const uint8_t *shard = nul ? nul + 1 : data + len;
	int packed = 0;
	char *text;

	use(data, n, nul ? (const void *)shard : "", rest, 1);
	text = nul ? mended((const char *)data, shard, rest, &packed) : NULL;
	if (text)
		use(text, strlen(text), shard, rest, !packed);
	mem_free(text);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/mds")
