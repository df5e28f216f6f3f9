/* The tuning file: the algorithms that were chosen for cuBLASLt's products on this GPU. */
#include "kernels/cublasltimpl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/runlock.h"

enum { FILE_LIMIT = 16 << 20 };

const struct cublaslt_tuned *cublaslt_find_tuned(const struct cublaslt *t, const struct cublaslt_key *k)
{
	for (size_t i = 0; i < t->ntuned; i++)
		if (cublaslt_same_key(&t->tuned[i].key, k))
			return &t->tuned[i];
	return NULL;
}

static void add_tuned(struct cublaslt *t, const struct cublaslt_key *k, const struct cublaslt_chosen *chosen)
{
	struct cublaslt_tuned *old = (struct cublaslt_tuned *)cublaslt_find_tuned(t, k);

	if (!old) {
		t->tuned = mem_resize(t->tuned, t->ntuned + 1, sizeof *t->tuned);
		old = &t->tuned[t->ntuned++];
	}
	old->key = *k;
	old->chosen = *chosen;
}

/* The numbers of a choice's last column. */
enum { NUMBERS = 5 };

static void numbers_of(struct cublaslt_chosen *c, int64_t *n[NUMBERS])
{
	n[0] = &c->apart;
	n[1] = &c->tried;
	n[2] = &c->first_ns;
	n[3] = &c->best_ns;
	n[4] = &c->apart_ns;
}

static void put_head(const struct cublaslt *t, struct str *s)
{
	str_printf(s, "ddm-tuning 2\t%s\tcuBLASLt %zu\n", t->host->gpu, t->lib->version());
}

static int save_tuned(const struct cublaslt *t, struct err *e)
{
	int64_t *number[NUMBERS];
	struct str s = {0};
	int rc;

	put_head(t, &s);
	for (size_t i = 0; i < t->ntuned; i++) {
		for (int k = 0; k < KEYS; k++)
			str_printf(&s, "%s%" PRId64, k ? "," : "", t->tuned[i].key.v[k]);
		for (int k = 0; k < 8; k++)
			str_printf(&s, "%c%016" PRIx64, k ? ',' : '\t', t->tuned[i].chosen.algo.data[k]);
		numbers_of(&t->tuned[i].chosen, number);
		for (int k = 0; k < NUMBERS; k++)
			str_printf(&s, "%c%" PRId64, k ? ',' : '\t', *number[k]);
		str_puts(&s, "\n");
	}
	rc = commit_bytes(t->path, str_text(&s), s.len, e);
	str_release(&s);
	return rc;
}

/* Parse a line of the tuning file. Returns the start of the next line, or NULL if the line is malformed. */
static const char *read_line(const char *p, struct cublaslt_tuned *u)
{
	int64_t *number[NUMBERS];
	char *end;

	for (int k = 0; k < KEYS; k++, p = end + 1) {
		u->key.v[k] = strtoll(p, &end, 10);
		if (end == p || *end != (k + 1 < KEYS ? ',' : '\t'))
			return NULL;
	}
	for (int k = 0; k < 8; k++, p = end + 1) {
		u->chosen.algo.data[k] = strtoull(p, &end, 16);
		if (end == p || *end != (k < 7 ? ',' : '\t'))
			return NULL;
	}
	numbers_of(&u->chosen, number);
	for (int k = 0; k < NUMBERS; k++, p = end + 1) {
		*number[k] = strtoll(p, &end, 10);
		if (end == p || *end != (k + 1 < NUMBERS ? ',' : '\n'))
			return NULL;
	}
	return p;
}

/* Add the file's entries whose keys are not known yet. */
static void read_tuned(struct cublaslt *t)
{
	struct str head = {0};
	struct cublaslt_tuned *found = NULL, u;
	size_t len = 0, n = 0;
	char *text = file_load(t->path, FILE_LIMIT, &len, NULL);
	const char *p = text;

	put_head(t, &head);
	if (!text || len < head.len || memcmp(text, head.p, head.len))
		p = NULL;
	for (p = p ? p + head.len : NULL; p && p < text + len;)
		if ((p = read_line(p, &u))) {
			found = mem_resize(found, n + 1, sizeof *found);
			found[n++] = u;
		}
	for (size_t i = 0; p && i < n; i++)
		if (!cublaslt_find_tuned(t, &found[i].key))
			add_tuned(t, &found[i].key, &found[i].chosen);
	mem_free(found);
	str_release(&head);
	mem_free(text);
}

size_t cublaslt_tune(struct cublaslt *t, const char *path)
{
	cublaslt_drop_plans(t);
	mem_free(t->path);
	t->path = mem_strdup(path);
	t->ntuned = 0;
	read_tuned(t);
	return t->ntuned;
}

size_t cublaslt_tune_in(struct cublaslt *t, const char *dir)
{
	char *name = str_new("%s cuBLASLt %zu", t->host->gpu, t->lib->version()), *path;
	size_t n;

	for (char *p = name; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *p))
			*p = '-';
	path = path_join(dir, name);
	n = cublaslt_tune(t, path);
	mem_free(path);
	mem_free(name);
	return n;
}

int cublaslt_keep(struct cublaslt *t, const struct cublaslt_key *key, struct cublaslt_plan *plan, size_t workspace, struct err *e)
{
	const char *slash = strrchr(t->path, '/');
	char *dir = slash ? str_new("%.*s", (int)(slash - t->path), t->path) : mem_strdup(".");
	struct runlock lock = {.fd = -1};
	const struct cublaslt_tuned *theirs;
	int rc;

	runlock_take(&lock, dir, NULL);
	read_tuned(t);
	theirs = cublaslt_find_tuned(t, key);
	if (theirs && cublaslt_runs_with(t, plan, &theirs->chosen.algo, workspace))
		plan->chosen = theirs->chosen;
	else
		add_tuned(t, key, &plan->chosen);
	rc = save_tuned(t, e);
	runlock_drop(&lock);
	mem_free(dir);
	return rc;
}
