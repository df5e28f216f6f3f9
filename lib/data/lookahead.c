/* Decodes the next batch of pictures while a network runs on the current one. */
#include "data/lookahead.h"

#include "core/ahead.h"
#include "core/mem.h"

struct turn {
	struct picture_batch batch;
	int n;
	struct err err;
};

struct lookahead {
	struct samples *samples;
	struct pool *pool;
	int max, begun;
	int64_t expected; /* of the samples, which are read in the background between the calls */
	struct ahead ahead;
	struct turn turn[2];
	int now; /* the batch handed out; the other one is being read */
};

static void read_next(void *arg)
{
	struct lookahead *l = arg;
	struct turn *t = &l->turn[!l->now];

	t->n = samples_pictures(l->samples, l->pool, l->max, &t->batch, &t->err);
}

struct lookahead *lookahead_new(struct samples *s, const struct pool *pool, int max, struct err *e)
{
	struct lookahead *l = mem_zalloc(1, sizeof *l);

	l->samples = s;
	l->max = max;
	if ((l->pool = pool_new(pool_threads(pool), e)))
		return l;
	mem_free(l);
	return NULL;
}

void lookahead_free(struct lookahead *l)
{
	if (!l)
		return;
	ahead_wait(&l->ahead);
	picture_batch_release(&l->turn[0].batch);
	picture_batch_release(&l->turn[1].batch);
	pool_free(l->pool);
	mem_free(l);
}

int lookahead_next(struct lookahead *l, struct picture_batch **b, struct err *e)
{
	struct turn *t;

	if (!l->begun)
		read_next(l);
	l->begun = 1;
	ahead_wait(&l->ahead);
	l->expected = samples_expected(l->samples);
	l->now = !l->now;
	t = &l->turn[l->now];
	*b = &t->batch;
	if (t->n < 0)
		return err_set(e, t->err.code, "%s", t->err.msg);
	if (t->n)
		ahead_start(&l->ahead, read_next, l);
	return t->n;
}

int64_t lookahead_expected(const struct lookahead *l)
{
	return l->expected;
}
