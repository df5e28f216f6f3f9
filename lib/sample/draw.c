/* Draws pictures, a batch at a time. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "sample/sampling.h"

enum { SHEET_LIMIT = 400 };
static const double PARIS_LAST = .001;

static void observe(void *arg, int64_t step, double t, int64_t n, const double *w)
{
	struct sampling *r = arg;
	int k = r->ensemble.k;

	(void)t;
	for (int64_t i = 0; i < n; i++)
		memcpy(r->weights + (i * r->ask.steps + step) * k, w + i * k, (size_t)k * sizeof *w);
}

static int tell(void *arg, const char *what, int64_t done, int64_t total)
{
	struct sampling *r = arg;

	(void)what;
	return (r->farm && farm_attend(r->farm)) || progress_tell(&r->hooks.progress, "pictures", r->done + r->rows * done / total, r->count);
}

/* Uploads the weights of the experts and of their guides in this order. */
static void order_weights(void *arg, const int *expert, int n)
{
	struct sampling *r = arg;

	ensemble_order(&r->ensemble, expert, n);
	if (r->ask.guide)
		ensemble_guide_order(&r->guide, expert, n);
}

void sampling_rows(struct sampling *r)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)r->ask.batch;

	r->index = mem_zalloc(n, sizeof *r->index);
	r->chosen = mem_zalloc(n, sizeof *r->chosen);
	r->heaviest = mem_zalloc(n, sizeof *r->heaviest);
	if (r->class != CLASS_NONE)
		r->label = mem_zalloc(n, sizeof *r->label);
	r->prompt = mem_zalloc(n, sizeof *r->prompt);
	r->draw = mem_zalloc(n, sizeof *r->draw);
	r->of = mem_zalloc(n, sizeof *r->of);
	r->seeds = mem_zalloc(n, sizeof *r->seeds);
	r->wanted = mem_zalloc(n, sizeof *r->wanted);
	r->negative = mem_zalloc(n, sizeof *r->negative);
	r->framed = mem_zalloc(n, sizeof *r->framed);
	r->item = mem_zalloc(n, sizeof *r->item);
	r->assigned = mem_zalloc((size_t)s->k, sizeof *r->assigned);
	r->networks = s->members + r->guide.model.members;
	r->bytes = mem_zalloc((size_t)r->networks, sizeof *r->bytes);
}

int sampling_prepare(struct sampling *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)r->ask.batch;

	r->grid = r->solver.discrete ? NULL : flow_grid_new(&r->solver.grid, r->ask.steps, r->ask.timesteps);
	r->sampler = (struct sampler){
	    .mixture = &r->mixture,
	    .solver = {r->solver.kind, r->ask.steps, 1, 0, r->ask.timesteps ? PARIS_LAST : 0, r->grid, r->solver.add, r->solver.adapt},
	    .discrete = r->solver.discrete ? &r->solver.how : NULL,
	    .schedule = s->schedule,
	    .kind = s->kind,
	    .seed = r->ask.seed,
	    .batch = r->ask.batch,
	    .torch = r->ask.noise,
	    .observe = r->logs ? observe : NULL,
	    .observe_arg = r,
	    .order = order_weights,
	    .order_arg = r,
	    .progress = &r->tell};
	r->tell = (struct progress){tell, r};
	if (!(r->state = sampler_new(&r->sampler, e)) || !(r->x = mem_try(n * (size_t)s->d, sizeof *r->x, "pictures", e)))
		return -1;
	if (r->logs && !(r->weights = mem_try(n * (size_t)r->ask.steps * (size_t)s->k, sizeof *r->weights, "router weights", e)))
		return -1;
	mixture_stats_init(&r->stats, s->k, r->ask.steps);
	r->sheet_n = r->ask.grid ? (r->count < SHEET_LIMIT ? r->count : SHEET_LIMIT) : 0;
	if (!r->sheet_n)
		return 0;
	r->layout = (struct contactsheet){.columns = s->frames ? r->out.picture_frames : contactsheet_columns(r->sheet_n),
	                                  .side = r->out.picture_size,
	                                  .channels = (int)r->out.picture_channels};
	return contactsheet_new(&r->sheet, &r->layout, s->frames ? r->sheet_n : (r->sheet_n + r->layout.columns - 1) / r->layout.columns, 0, e);
}

static int sample_batch(struct sampling *r, int64_t n, struct err *e)
{
	struct sampler_call c = {.n = n,
	                         .index = r->draw,
	                         .seed = r->seeds,
	                         .of = r->of,
	                         .label = r->label,
	                         .chosen = r->chosen,
	                         .text = r->wanted,
	                         .negative = r->negative,
	                         .first = r->firsts.n ? r->framed : NULL};
	int rc;

	if (batch_texts(r, n, &c.texts, e) || sampler_run(r->state, r->x, &c, r->heaviest, &r->stats, e) || ranks_rest(r, e))
		return -1;
	batch_items(r, n);
	rc = output_make(&r->out, n, r->x, r->item, output_makes_files(&r->out), batch_put, r, e);
	rc = rc || batch_end(r, n, e) ? -1 : 0;
	batch_items_free(r, n);
	return rc;
}

int sampling_draw(struct sampling *r, struct err *e)
{
	for (r->done = r->kept; r->done < r->count;) {
		r->rows = r->count - r->done < r->ask.batch ? r->count - r->done : r->ask.batch;
		batch_choose(r, r->done, r->rows);
		if (sample_batch(r, r->rows, e))
			return -1;
	}
	progress_tell(&r->hooks.progress, "pictures", r->count, r->count);
	return 0;
}
