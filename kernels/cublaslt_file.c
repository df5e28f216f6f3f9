/* The choices of cuBLASLt's algorithms in the tuning file. */
#include "kernels/cublasltimpl.h"

enum { WORDS = 8, NUMBERS = 5 };

static void chosen_put(int64_t value[WORDS + NUMBERS], const struct cublaslt_chosen *c)
{
	const int64_t numbers[NUMBERS] = {c->apart, c->tried, c->first_ns, c->best_ns, c->apart_ns};

	memcpy(value, c->algo.data, sizeof c->algo.data);
	memcpy(value + WORDS, numbers, sizeof numbers);
}

static void chosen_get(struct cublaslt_chosen *c, const int64_t *value)
{
	const int64_t *number = value + WORDS;

	*c = (struct cublaslt_chosen){.apart = number[0], .tried = number[1], .first_ns = number[2], .best_ns = number[3], .apart_ns = number[4]};
	memcpy(c->algo.data, value, sizeof c->algo.data);
}

void cublaslt_file_init(struct cublaslt *t)
{
	t->tuning = (struct tuning){.format = "ddm-tuning 2", .keys = KEYS, .words = WORDS, .numbers = NUMBERS};
	tuning_init(&t->tuning, t->host->gpu, "cuBLASLt", t->lib->version());
}

int cublaslt_find_tuned(const struct cublaslt *t, const struct cublaslt_key *k, struct cublaslt_chosen *chosen)
{
	const int64_t *value = tuning_find(&t->tuning, k->v);

	if (value)
		chosen_get(chosen, value);
	return value != NULL;
}

size_t cublaslt_tune(struct cublaslt *t, const char *path)
{
	cublaslt_drop_plans(t);
	return tuning_open(&t->tuning, path);
}

size_t cublaslt_tune_in(struct cublaslt *t, const char *dir)
{
	cublaslt_drop_plans(t);
	return tuning_open_in(&t->tuning, dir);
}

int cublaslt_keep(struct cublaslt *t, const struct cublaslt_key *key, struct cublaslt_plan *plan, size_t workspace, struct err *e)
{
	const int64_t *theirs = tuning_begin(&t->tuning, key->v);
	int64_t ours[WORDS + NUMBERS];
	struct cublaslt_chosen other;

	if (theirs) {
		chosen_get(&other, theirs);
		if (cublaslt_runs_with(t, plan, &other.algo, workspace)) {
			plan->chosen = other;
			return tuning_end(&t->tuning, key->v, NULL, e);
		}
	}
	chosen_put(ours, &plan->chosen);
	return tuning_end(&t->tuning, key->v, ours, e);
}
