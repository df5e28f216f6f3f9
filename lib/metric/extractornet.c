/* Runs a pretrained network as a feature extractor, from resized pictures to its taps. */
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "metric/extractor.h"

struct network {
	struct extractor_network n;
	float *pixels; /* (batch, 3, side, side) */
};

struct input_job {
	const struct network *w;
	const struct picture *p;
	size_t size;
	struct err *error; /* [batch] */
};

static void input_task(void *arg, int64_t task, int worker)
{
	struct input_job *j = arg;

	(void)worker;
	netinput_make(j->w->pixels + (size_t)task * j->size, j->p + task, j->w->n.input, &j->error[task]);
}

static int batch_run(struct extractor *x, struct pool *pool, float *const out[TAPS], const struct picture *p, int n, struct err *e)
{
	struct network *w = x->own;
	size_t side = (size_t)netinput_side(w->n.input);
	struct input_job j = {.w = w, .p = p, .size = 3 * side * side};
	int rc = 0;

	if (!w->pixels && !(w->pixels = mem_try((size_t)w->n.batch * j.size, sizeof(float), "pictures for a network", e)))
		return -1;
	j.error = mem_zalloc((size_t)n, sizeof *j.error);
	pool_run(pool, n, input_task, &j);
	for (int i = 0; i < n && !rc; i++)
		if (j.error[i].code)
			rc = err_set(e, j.error[i].code, "%s", j.error[i].msg);
	mem_free(j.error);
	return rc ? -1 : w->n.run(w->n.net, pool, out, w->pixels, n, e);
}

static int network_run(struct extractor *x, struct pool *pool, float *const out[TAPS], const struct picture *p, int n, struct err *e)
{
	const struct network *w = x->own;

	for (int i = 0; i < n; i += w->n.batch) {
		float *at[TAPS];

		for (int t = 0; t < TAPS; t++)
			at[t] = out[t] ? out[t] + (int64_t)i * x->dims[t] : NULL;
		if (batch_run(x, pool, at, p + i, n - i < w->n.batch ? n - i : w->n.batch, e))
			return -1;
	}
	return 0;
}

static void network_free(void *own)
{
	struct network *w = own;

	if (w->n.free)
		w->n.free(w->n.net);
	mem_free(w->pixels);
	mem_free(w);
}

void extractor_from_network(struct extractor *x, const struct extractor_network *n)
{
	struct network *w = mem_zalloc(1, sizeof *w);
	const char *rounding = n->rounding ? n->rounding : "";
	char *text = str_new("%s fed by %s, weights %s%s%s", n->name, netinput_names[n->input], n->weights_hash, *rounding ? " in " : "", rounding);

	w->n = *n;
	*x = (struct extractor){.least = 1, .metrics = n->metrics, .flops = n->flops, .run = network_run, .free = network_free, .own = w};
	snprintf(x->name, sizeof x->name, "%s", n->name);
	snprintf(x->input, sizeof x->input, "%s", netinput_names[n->input]);
	memcpy(x->dims, n->dims, sizeof x->dims);
	sha256_text(text, x->hash);
	mem_free(text);
}
