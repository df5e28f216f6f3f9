/* Hashes the arenas of a state, and the files that hold them. */
#include "train/statehash.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "file/safetensors.h"
#include "net/model.h"
#include "train/chain.h"

/* Parameters that are copied from a device together take no more than this, or are one alone. */
enum { TOGETHER = 64 << 20 };

/* One arena: the parameters v[first .. first + n), one task each. */
struct hashing {
	const struct params *p;
	const int *index; /* of the parameter of each task */
	const float **at; /* its numbers, in host memory */
	char (*hex)[65];
};

/* float32 numbers, at any address. */
static void hash_numbers(const void *x, int64_t n, char hex[65])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, x, (size_t)n * sizeof(float));
	sha256_end(&s, hex);
}

static void hash_parameter(void *arg, int64_t task, int worker)
{
	const struct hashing *h = arg;
	const struct param *q = &h->p->v[h->index[task]];
	float *copy = NULL;

	(void)worker;
	if (q->flags & PARAM_CONV) {
		copy = mem_alloc((size_t)q->count * sizeof *copy);
		model_file_order(q, copy, h->at[task]);
	}
	hash_numbers(copy ? copy : h->at[task], q->count, h->hex[task]);
	mem_free(copy);
}

static json_t *put_together(const char *const *names, char (*hex)[65], int n)
{
	struct str brief = {0};
	struct sha256 all;
	char sum[65];
	json_t *o = json_object();

	sha256_init(&all);
	for (int i = 0; i < n; i++) {
		sha256_add(&all, names[i], strlen(names[i]));
		sha256_add(&all, " ", 1);
		sha256_add(&all, hex[i], 64);
		sha256_add(&all, "\n", 1);
		str_add(&brief, hex[i], CHAIN_BRIEF);
	}
	sha256_end(&all, sum);
	json_object_set_new(o, "sha256", json_string(sum));
	json_object_set_new(o, "parameters", json_string(str_text(&brief)));
	str_release(&brief);
	return o;
}

/* Copy parameters from task `first` on from the device, as many as go together, and hash them. Returns the task after them; -1 without memory. */
static int hash_group(struct hashing *h, const struct state_part *part, struct device *d, int first, int n, struct err *e)
{
	size_t floats = 0, at = 0;
	float *host;
	int end = first;

	while (end < n && (end == first || floats + (size_t)h->p->v[h->index[end]].count <= TOGETHER / sizeof *host))
		floats += (size_t)h->p->v[h->index[end++]].count;
	host = mem_try(floats, sizeof *host, "a copy of the state", e);
	for (int i = first; host && i < end; i++) {
		const struct param *q = &h->p->v[h->index[i]];

		device_get(d, host + at, part->data + q->offset, (size_t)q->count * sizeof *host);
		h->at[i] = host + at;
		at += (size_t)q->count;
	}
	if (host) {
		struct hashing group = {h->p, h->index + first, h->at + first, h->hex + first};

		pool_run(d->pool, end - first, hash_parameter, &group);
	}
	mem_free(host);
	return host ? end : -1;
}

static json_t *hash_part(const struct train_state *s, const struct state_part *part, struct err *e)
{
	const struct params *p = s->params;
	int *index = mem_zalloc((size_t)p->n, sizeof *index), n = 0, done = 0;
	const char **names = mem_zalloc((size_t)p->n, sizeof *names);
	struct hashing h = {p, index, mem_zalloc((size_t)p->n, sizeof *h.at), mem_zalloc((size_t)p->n, sizeof *h.hex)};
	json_t *o = NULL;

	for (int i = 0; i < p->n; i++)
		if (part->total || !(p->v[i].flags & PARAM_FROZEN)) {
			h.at[n] = part->data + p->v[i].offset;
			names[n] = p->v[i].name;
			index[n++] = i;
		}
	if (s->device->host || part->host)
		pool_run(s->device->pool, n, hash_parameter, &h);
	else
		while (done >= 0 && done < n)
			done = hash_group(&h, part, s->device, done, n, e);
	if (done >= 0)
		o = put_together(names, h.hex, n);
	mem_free(index);
	mem_free(names);
	mem_free(h.at);
	mem_free(h.hex);
	return o;
}

json_t *state_hashes(const struct train_state *s, struct err *e)
{
	struct state_part part[STATE_PARTS];
	int n = state_parts(s, part);
	json_t *all = json_object();

	if (s->offload && s->device->sync(s->device, e)) {
		json_decref(all);
		return NULL;
	}
	for (int i = 0; i < n; i++) {
		float *x;
		json_t *o = NULL;

		if (!state_whole(s, i, &x, e)) {
			part[i].host &= x == part[i].data;
			part[i].data = x;
			o = hash_part(s, &part[i], e);
		}
		if (!o) {
			json_decref(all);
			return NULL;
		}
		json_object_set_new(all, part[i].name, o);
	}
	return all;
}

json_t *file_hashes(const char *path, const char *const *names, int n, struct err *e)
{
	struct safetensors *s = st_open(path, e);
	char(*hex)[65] = mem_zalloc((size_t)n, sizeof *hex);
	json_t *o = NULL;
	int rc = s ? 0 : -1;

	for (int i = 0; i < n && !rc; i++) {
		const struct st_tensor *t = st_find(s, names[i]);

		if (!t || t->type != ST_F32)
			rc = err_set(e, ERR_DATA, "%s: %s %s", path, names[i], t ? "is not float32" : "is missing");
		else
			hash_numbers(t->data, st_count(t), hex[i]);
	}
	if (!rc)
		o = put_together(names, hex, n);
	st_free(s);
	mem_free(hex);
	return o;
}
