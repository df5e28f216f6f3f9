/* Finds samples whose arrays hold NaN or infinity and keeps the names of the first ones. */
#include "file/notfinite.h"

#include <string.h>

#include "file/npy.h"

enum { NAMED = 8 };

int64_t notfinite_count(const char *ext, const void *data, size_t len)
{
	static const char *const read[] = {"npy", "std.npy", "flip.npy", "flip.std.npy", "text.npy"};
	struct npy a;
	int64_t n;
	size_t i = 0;

	while (i < sizeof read / sizeof *read && strcmp(ext, read[i]))
		i++;
	if (i == sizeof read / sizeof *read || npy_parse(&a, data, len, ext, NULL))
		return 0;
	n = npy_not_finite(&a);
	npy_release(&a);
	return n;
}

void notfinite_note(struct notfinite *f, const char *key, const char *ext, int64_t n)
{
	if (!n)
		return;
	if (f->samples++ < NAMED)
		str_printf(&f->names, "%s\"%.200s\" (%lld of %s)", f->names.len ? ", " : "", key, (long long)n, ext);
}

int notfinite_end(struct notfinite *f, const char *where, struct err *e)
{
	int rc = 0;

	if (f->samples)
		rc = err_set(e, ERR_DATA, "%s: %lld sample%s with numbers that are NaN or infinite: %.800s%s", where, (long long)f->samples,
		             f->samples == 1 ? "" : "s", str_text(&f->names), f->samples > NAMED ? ", ..." : "");
	str_release(&f->names);
	*f = (struct notfinite){0};
	return rc;
}

int notfinite_shard(struct shard *s, const char *where, struct err *e)
{
	struct notfinite f = {0};
	int rc = 0;

	for (int64_t i = 0; i < shard_count(s) && !rc; i++) {
		struct shard_sample x = {0};
		int noted = 0;

		rc = shard_read(s, i, &x, e);
		for (int m = 0; m < x.members && !rc && !noted; m++) {
			int64_t n = notfinite_count(x.member[m].ext, x.member[m].data, x.member[m].size);

			notfinite_note(&f, x.key, x.member[m].ext, n);
			noted = n > 0;
		}
		shard_sample_release(&x);
	}
	return notfinite_end(&f, where, rc ? NULL : e) || rc ? -1 : 0;
}
