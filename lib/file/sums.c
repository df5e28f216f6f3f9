/* Writes and checks SHA256SUMS. */
#include "file/sums.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "file/fileio.h"

enum { HEX = 64, LIST_MOST = 1 << 28 };

void sums_add(struct str *sums, const char *name, const void *data, size_t len)
{
	struct sha256 h;
	char hex[HEX + 1];

	sha256_init(&h);
	sha256_add(&h, data, len);
	sha256_end(&h, hex);
	str_printf(sums, "%s  %s\n", hex, name);
}

/* "HEX  NAME" or "HEX *NAME", of a file in `dir`. */
static void check_line(const char *dir, const char *line, struct err *e)
{
	char *path, hex[HEX + 1];

	if (strspn(line, "0123456789abcdef") != HEX || line[HEX] != ' ' || !strchr(" *", line[HEX + 1]) || !line[HEX + 1] || !line[HEX + 2]) {
		err_set(e, ERR_DATA, "%s/" SUMS_NAME ": a line is not a hash and a file name", dir);
		return;
	}
	path = path_join(dir, line + HEX + 2);
	if (!path_exists(path))
		err_set(e, ERR_NOINPUT, "%s: missing, although " SUMS_NAME " lists it", path);
	else if (!sha256_file(path, hex, NULL, e) && strncmp(hex, line, HEX))
		err_set(e, ERR_DATA, "%s: altered since it was written: its SHA-256 is not that of " SUMS_NAME, path);
	mem_free(path);
}

int sums_check(const char *dir, void (*problem)(void *arg, const struct err *e), void *arg, struct err *e)
{
	char *path = path_join(dir, SUMS_NAME), *text, *next;
	size_t len;

	text = file_load(path, LIST_MOST, &len, e);
	/* Sums that list MANIFEST.tsv belong to shards. Each shard carries its own hashes, so nothing is checked here. */
	for (char *line = text && strstr(text, "  MANIFEST.tsv\n") ? NULL : text; line && *line; line = next) {
		struct err why = {0};
		char *end = strchr(line, '\n');

		next = end ? end + 1 : line + strlen(line);
		if (end)
			*end = 0;
		check_line(dir, line, &why);
		if (why.code)
			problem(arg, &why);
	}
	mem_free(path);
	mem_free(text);
	return text ? 0 : -1;
}
