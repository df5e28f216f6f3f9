#include "train/state.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

int state_init(struct train_state *s, const struct params *p, int keep_best, struct err *e)
{
	memset(s, 0, sizeof *s);
	s->params = p;
	s->best_loss = INFINITY;
	s->values = mem_try((size_t)p->total, sizeof(float), "weights", e);
	s->ema = mem_try((size_t)p->total, sizeof(float), "averaged weights", e);
	s->m = mem_try((size_t)p->trainable, sizeof(float), "first moments", e);
	s->v = mem_try((size_t)p->trainable, sizeof(float), "second moments", e);
	if (keep_best)
		s->best = mem_try((size_t)p->total, sizeof(float), "best weights", e);
	if (s->values && s->ema && s->m && s->v && (s->best || !keep_best))
		return 0;
	state_release(s);
	return -1;
}

void state_clear(struct train_state *s)
{
	size_t total = (size_t)s->params->total * sizeof(float), trainable = (size_t)s->params->trainable * sizeof(float);

	memset(s->values, 0, total);
	memset(s->ema, 0, total);
	memset(s->m, 0, trainable);
	memset(s->v, 0, trainable);
	if (s->best)
		memset(s->best, 0, total);
	s->best_loss = INFINITY;
	s->best_step = s->step = s->updates = s->skipped_in_a_row = 0;
}

void state_release(struct train_state *s)
{
	mem_free(s->values);
	mem_free(s->ema);
	mem_free(s->m);
	mem_free(s->v);
	mem_free(s->best);
	memset(s, 0, sizeof *s);
}

uint64_t state_bytes(const struct params *p, int keep_best)
{
	return sizeof(float) * ((uint64_t)p->total * (keep_best ? 3 : 2) + (uint64_t)p->trainable * 2);
}
