/* The choices of attention's kernels in the tuning file: our kernels or one of cuDNN's configurations; and a table of what ran. */
#include "kernels/cudnnimpl.h"

#include <inttypes.h>

#include "core/str.h"

enum { NUMBERS = 6 };

static void chosen_get(struct cudnn_chosen *c, const int64_t *n)
{
	*c = (struct cudnn_chosen){.config = n[0], .engine = n[1], .tried = n[2], .own_ns = n[3], .first_ns = n[4], .best_ns = n[5]};
}

static int is_config(const int64_t *n)
{
	return n[0] >= 0 && n[0] <= CUDNN_CONFIGS;
}

void cudnn_file_init(struct cudnn *t)
{
	t->tuning = (struct tuning){.format = "ddm-tuning-attention 1", .keys = KEYS, .numbers = NUMBERS, .valid = is_config};
	tuning_init(&t->tuning, t->host->gpu, "cuDNN", t->lib->version());
}

int cudnn_find_tuned(const struct cudnn *t, const struct cudnn_key *k, struct cudnn_chosen *chosen)
{
	const int64_t *value = tuning_find(&t->tuning, k->v);

	if (value)
		chosen_get(chosen, value);
	return value != NULL;
}

size_t cudnn_tune(struct cudnn *t, const char *path)
{
	cudnn_drop_plans(t);
	return tuning_open(&t->tuning, path);
}

size_t cudnn_tune_in(struct cudnn *t, const char *dir)
{
	cudnn_drop_plans(t);
	return tuning_open_in(&t->tuning, dir);
}

int cudnn_keep(struct cudnn *t, struct cudnn_plan *plan, struct err *e)
{
	const struct cudnn_chosen *c = &plan->chosen;
	const int64_t ours[NUMBERS] = {c->config, c->engine, c->tried, c->own_ns, c->first_ns, c->best_ns};
	const int64_t *theirs = tuning_begin(&t->tuning, plan->key.v);

	if (theirs)
		chosen_get(&plan->chosen, theirs);
	return tuning_end(&t->tuning, plan->key.v, theirs ? NULL : ours, e);
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
