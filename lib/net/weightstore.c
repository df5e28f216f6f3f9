/* Lays out, packs, rounds and uploads the weights of a network for inference. */
#include "net/weightstore.h"

#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"

int weightstore_choose(struct weightstore *w, enum compact_type bulk, const struct device *d, struct err *e)
{
	*w = (struct weightstore){.bf16 = bulk == COMPACT_BF16 && !d->compact && d->storage >> DT_BF16 & 1};
	if (bulk && !w->bf16 && !d->compact)
		return err_set(e, ERR_USAGE, "weights in %s are for the CPU, not for %s",
		               bulk == COMPACT_VIEW ? "their file" : compact_rounding(bulk), d->name);
	w->bulk = w->bf16 ? COMPACT_NONE : !bulk && d->compact ? COMPACT_F32 : bulk;
	return 0;
}

/* Allocate the parts of a matrix; with COMPACT_VIEW they point into `view` instead. */
static int make_parts(struct compact *w, enum compact_type type, const float *view, const struct param *q, struct err *e)
{
	int64_t n = q->shape[0] / q->parts, k = q->shape[1];

	for (int j = 0; j < q->parts; j++)
		if (type == COMPACT_VIEW)
			compact_view(&w[j], view + j * n * k, n, k);
		else if (compact_init(&w[j], type, n, k, e))
			return -1;
	return 0;
}

int weightstore_matrices(const struct weightstore *w, const struct params *p, const float *(*view)(void *arg, const struct param *q), void *arg,
                         struct compact **out, struct err *e)
{
	int any = 0;

	for (int i = 0; w->bulk && i < p->n; i++)
		any |= p->v[i].flags & PARAM_BULK;
	*out = any ? mem_zalloc((size_t)p->parts, sizeof **out) : NULL;
	for (int i = 0; any && i < p->n; i++) {
		const struct param *q = &p->v[i];

		const float *mapped = w->bulk == COMPACT_VIEW && (q->flags & PARAM_BULK) ? view(arg, q) : NULL;
		enum compact_type type = w->bulk == COMPACT_VIEW && !mapped ? COMPACT_F32 : w->bulk;

		if ((q->flags & PARAM_BULK) && make_parts(&(*out)[q->part], type, mapped, q, e))
			return -1;
	}
	return 0;
}

/* The type and sizes of a part of a matrix. */
static struct compact part_shape(enum compact_type bulk, const struct param *q, int in_place)
{
	return (struct compact){.type = bulk == COMPACT_VIEW && !in_place ? COMPACT_F32 : bulk, .n = q->shape[0] / q->parts, .k = q->shape[1]};
}

struct compact *weightstore_shapes(const struct weightstore *w, const struct params *p, const char *in_place)
{
	struct compact *all = NULL;

	for (int i = 0; w->bulk && i < p->n; i++) {
		const struct param *q = &p->v[i];

		if (!(q->flags & PARAM_BULK))
			continue;
		all = all ? all : mem_zalloc((size_t)p->parts, sizeof *all);
		for (int j = 0; j < q->parts; j++)
			all[q->part + j] = part_shape(w->bulk, q, in_place && in_place[i]);
	}
	return all;
}

void weightstore_drop(struct compact *matrices, const struct params *p)
{
	for (int i = 0; matrices && i < p->parts; i++)
		compact_release(&matrices[i]);
	mem_free(matrices);
}

int64_t weightstore_matrix_bytes(const struct compact *matrices, const struct params *p)
{
	int64_t bytes = 0;

	for (int i = 0; matrices && i < p->parts; i++)
		bytes += matrices[i].type ? compact_bytes(&matrices[i]) : 0;
	return bytes;
}

void weightstore_layout(struct weightstore *w, struct params *p, struct tape *t, struct device *d)
{
	if (w->bulk)
		params_layout_but(p, PARAM_BULK);
	w->plain = w->bf16 ? params_layout_apart(p, PARAM_BULK | PARAM_CONV | PARAM_CONV3D) : p->total;
	tape_layout(t, d, &(struct plan_options){.bf16 = w->bf16, .bf16_weights = w->bf16});
}

size_t weightstore_bytes(const struct weightstore *w, const struct params *p)
{
	return (size_t)w->plain * sizeof(float) + (w->bf16 ? (size_t)p->total * sizeof(uint16_t) : 0);
}

/* The part of the values that is bfloat16; or NULL. */
static uint16_t *weightstore_rounded(const struct weightstore *w, float *values)
{
	return w->bf16 ? (uint16_t *)(void *)(values + w->plain) : NULL;
}

uint64_t weightstore_needs(enum compact_type bulk, const struct params *p, const char *in_place)
{
	uint64_t bytes = 0;

	for (int i = 0; i < p->n; i++) {
		const struct param *q = &p->v[i];

		if (q->flags & PARAM_BULK) {
			struct compact part = part_shape(bulk, q, in_place && in_place[i]);

			bytes +=
			    (uint64_t)q->parts * (uint64_t)(compact_bytes(&part) + (bulk == COMPACT_INT8 ? part.n * (int64_t)sizeof *part.scale : 0));
		} else {
			bytes += (uint64_t)q->count * sizeof(float);
		}
	}
	return bytes;
}

void weightstore_bind(const struct weightstore *w, struct tape *t, float *values, const struct compact *matrices)
{
	tape_bind_params(t, values, NULL);
	tape_bind_bf16(t, weightstore_rounded(w, values));
	if (matrices)
		tape_bind_compact(t, matrices);
}

float *weightstore_room(const struct params *p, struct err *e)
{
	int64_t most = 1;

	for (int i = 0; i < p->n; i++)
		most = p->v[i].count > most ? p->v[i].count : most;
	return mem_try((size_t)most, sizeof(float), "a weight", e);
}

/* Copy to the device, or to host memory if d is NULL. */
static void place(struct device *d, void *dst, const void *src, size_t bytes)
{
	if (d)
		device_put(d, dst, src, bytes);
	else
		memcpy(dst, src, bytes);
}

void weightstore_put(const struct weightstore *w, const struct param *q, struct compact *matrices, struct device *d, float *values, float *host)
{
	struct compact *part = matrices ? &matrices[q->part] : NULL;
	uint16_t *rounded = (uint16_t *)(void *)host;

	for (int j = 0; part && part->type && j < q->parts; j++)
		compact_pack(&part[j], host + j * (q->count / q->parts));
	if (part && part->type)
		return;
	if (q->offset < w->plain)
		place(d, values + q->offset, host, (size_t)q->count * sizeof *host);
	for (int64_t k = 0; w->bf16 && k < q->count; k++)
		rounded[k] = f32_to_bf16(host[k]);
	if (w->bf16)
		place(d, weightstore_rounded(w, values) + q->offset, rounded, (size_t)q->count * sizeof *rounded);
}
