/* Any bytes as a table of ours or of another program: as they are, and with a corrected hash in the last line, so that the rest of the reader is
 * reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "file/tsv.h"
#include "tests/fuzz/replay.h"

static void use(struct tsv *(*parse)(const void *text, size_t len, const char *name, struct err *e), const void *text, size_t len)
{
	struct err e = {0};
	struct tsv *t = parse(text, len, "fuzz", &e);

	if (!t) {
		if (e.code != ERR_DATA)
			abort();
		return;
	}
	for (int64_t i = 0; i < tsv_rows(t); i++)
		for (int c = 0; c < tsv_columns(t); c++) {
			int64_t v;
			double d;

			tsv_i64(t, i, c, 0, 1000, &v, NULL);
			tsv_f64(t, i, c, 0, 1000, &d, NULL);
		}
	if (!tsv_index(t, 0, NULL))
		for (int64_t i = 0; i < tsv_rows(t); i++)
			if (tsv_lookup(t, tsv_get(t, i, 0)) != i)
				abort();
	tsv_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *last = len > 1 ? memrchr(data, '\n', len - 1) : NULL;
	size_t end = last ? (size_t)(last - data) + 1 : 0;
	char *copy, hex[17];

	use(tsv_parse_any, data, len);
	use(tsv_parse, data, len);
	if (len < end + 18 || data[len - 1] != '\n')
		return 0;
	copy = memcpy(mem_alloc(len), data, len);
	snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash64(data, end));
	memcpy(copy + len - 17, hex, 16);
	use(tsv_parse, copy, len);
	mem_free(copy);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/tsv")
