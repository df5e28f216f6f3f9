/* The tuning file of attention: for each shape, our kernels or one of cuDNN's configurations on this GPU; and a table of what ran. */
#include "kernels/cudnnimpl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/runlock.h"

enum { FILE_LIMIT = 16 << 20, NUMBERS = 6 };

const struct cudnn_tuned *cudnn_find_tuned(const struct cudnn *t, const struct cudnn_key *k)
{
	for (size_t i = 0; i < t->ntuned; i++)
		if (!memcmp(&t->tuned[i].key, k, sizeof *k))
			return &t->tuned[i];
	return NULL;
}

static void add_tuned(struct cudnn *t, const struct cudnn_key *k, const struct cudnn_chosen *chosen)
{
	t->tuned = mem_resize(t->tuned, t->ntuned + 1, sizeof *t->tuned);
	t->tuned[t->ntuned++] = (struct cudnn_tuned){*k, *chosen};
}

/* The numbers of a choice, in the order of the second column. */
static void numbers_of(struct cudnn_chosen *c, int64_t *n[NUMBERS])
{
	n[0] = &c->config;
	n[1] = &c->engine;
	n[2] = &c->tried;
	n[3] = &c->own_ns;
	n[4] = &c->first_ns;
	n[5] = &c->best_ns;
}

static void put_head(const struct cudnn *t, struct str *s)
{
	str_printf(s, "ddm-tuning-attention 1\t%s\tcuDNN %zu\n", t->host->gpu, t->lib->version());
}

static int save_tuned(const struct cudnn *t, struct err *e)
{
	int64_t *number[NUMBERS];
	struct str s = {0};
	int rc;

	put_head(t, &s);
	for (size_t i = 0; i < t->ntuned; i++) {
		for (int k = 0; k < KEYS; k++)
			str_printf(&s, "%s%" PRId64, k ? "," : "", t->tuned[i].key.v[k]);
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
static const char *read_line(const char *p, struct cudnn_tuned *u)
{
	int64_t *number[NUMBERS];
	char *end;

	for (int k = 0; k < KEYS; k++, p = end + 1) {
		u->key.v[k] = strtoll(p, &end, 10);
		if (end == p || *end != (k + 1 < KEYS ? ',' : '\t'))
			return NULL;
	}
	numbers_of(&u->chosen, number);
	for (int k = 0; k < NUMBERS; k++, p = end + 1) {
		*number[k] = strtoll(p, &end, 10);
		if (end == p || *end != (k + 1 < NUMBERS ? ',' : '\n'))
			return NULL;
	}
	return u->chosen.config < 0 || u->chosen.config > CUDNN_CONFIGS ? NULL : p;
}

/* Add the file's entries whose keys are not known yet. A damaged file, or one of another GPU or library, has none. */
static void read_tuned(struct cudnn *t)
{
	struct str head = {0};
	struct cudnn_tuned *found = NULL, u;
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
		if (!cudnn_find_tuned(t, &found[i].key))
			add_tuned(t, &found[i].key, &found[i].chosen);
	mem_free(found);
	str_release(&head);
	mem_free(text);
}

size_t cudnn_tune(struct cudnn *t, const char *path)
{
	cudnn_drop_plans(t);
	mem_free(t->path);
	t->path = mem_strdup(path);
	t->ntuned = 0;
	read_tuned(t);
	return t->ntuned;
}

size_t cudnn_tune_in(struct cudnn *t, const char *dir)
{
	char *name = str_new("%s cuDNN %zu", t->host->gpu, t->lib->version()), *path;
	size_t n;

	for (char *p = name; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *p))
			*p = '-';
	path = path_join(dir, name);
	n = cudnn_tune(t, path);
	mem_free(path);
	mem_free(name);
	return n;
}

int cudnn_keep(struct cudnn *t, struct cudnn_plan *plan, struct err *e)
{
	const char *slash = strrchr(t->path, '/');
	char *dir = slash ? str_new("%.*s", (int)(slash - t->path), t->path) : mem_strdup(".");
	struct runlock lock = {.fd = -1};
	const struct cudnn_tuned *theirs;
	int rc;

	runlock_take(&lock, dir, NULL);
	read_tuned(t);
	theirs = cudnn_find_tuned(t, &plan->key);
	if (theirs)
		plan->chosen = theirs->chosen;
	else
		add_tuned(t, &plan->key, &plan->chosen);
	rc = save_tuned(t, e);
	runlock_drop(&lock);
	mem_free(dir);
	return rc;
}

void cudnn_log(const struct cudnn *t, struct str *s)
{
	str_puts(s, "attention\tsamples x queries x keys x heads x width\tcalls\tconfigurations\town us\tfirst us\tbest us\tused\n");
	for (size_t i = 0; i < t->nplans; i++) {
		const struct cudnn_plan *p = t->plan[i];
		const int64_t *v = p->key.v;
		const struct cudnn_chosen *c = &p->chosen;

		str_printf(s, "%s\t%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%.1f\t%.1f\t%.1f\t%s\n",
		           v[KEY_GRAD] ? "gradient" : "forward", v[KEY_SAMPLES], v[KEY_T], v[KEY_S], v[KEY_HEADS], v[KEY_D], p->calls, c->tried,
		           1e-3 * (double)c->own_ns, 1e-3 * (double)c->first_ns, 1e-3 * (double)c->best_ns,
		           p->run                                  ? "cudnn"
		           : (c->own_ns && !c->tried) || c->config ? "refused"
		                                                   : "own");
	}
}
