/* Divides sources between jobs by a hash of their keys. */
#include "core/jobshare.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"

int jobshare_parse(void *field, const char *label, const char *text, struct err *e)
{
	struct job_share *s = field;
	const char *slash = strchr(text, '/');
	char *index = mem_strndup(text, slash ? (size_t)(slash - text) : 0);
	int64_t i, n;
	int bad = !slash || parse_i64(index, 0, JOBSHARE_MOST, &i) || parse_i64(slash + 1, 1, JOBSHARE_MOST, &n);

	mem_free(index);
	if (bad)
		return err_set(e, ERR_USAGE, "%s \"%.100s\": expected I/N, job I of N, such as 0/4", label, text);
	if (i >= n)
		return err_set(e, ERR_USAGE, "%s \"%.100s\": of %lld jobs the last is %lld, because the first is 0", label, text, (long long)n,
		               (long long)n - 1);
	*s = (struct job_share){i, n};
	return 0;
}

int jobshare_takes(const struct job_share *s, const char *key)
{
	return !s->count || hash64(key, strlen(key)) % (uint64_t)s->count == (uint64_t)s->index;
}
