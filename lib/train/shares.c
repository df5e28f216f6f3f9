/* Cuts the arena into the shares of the ranks. */
#include "train/shares.h"

#include <string.h>

#include "core/mem.h"
#include "kernels/optimizer.h"
#include "train/muonupdate.h"

const int64_t *shares_cut(const struct shares *s, int g)
{
	return s->cuts + g * (s->ranks + 1);
}

static void cut_buckets(struct shares *s)
{
	struct buckets b;

	buckets_init(&b, s->n, s->ranks);
	s->groups = b.n;
	s->cuts = b.cuts;
	b.cuts = NULL;
	buckets_release(&b);
}

static void cut_matrices(struct shares *s, const struct params *p)
{
	s->groups = 1;
	s->cuts = mem_zalloc((size_t)s->ranks + 1, sizeof *s->cuts);
	for (int i = 1; i < s->ranks; i++)
		s->cuts[i] = muon_cut(p, (int64_t)((double)s->n * i / s->ranks));
	s->cuts[s->ranks] = s->n;
}

static int64_t count_of(const struct shares *s, int place)
{
	int64_t n = 0;

	for (int g = 0; g < s->groups; g++)
		n += shares_cut(s, g)[place + 1] - shares_cut(s, g)[place];
	return n;
}

void shares_init(struct shares *s, const struct params *p, int muon, int rank, int ranks)
{
	int place = comm_place(rank, ranks);

	*s = (struct shares){.rank = rank, .ranks = ranks, .whole_gradient = muon, .n = p->trainable};
	if (muon)
		cut_matrices(s, p);
	else
		cut_buckets(s);
	s->own = mem_zalloc((size_t)s->groups, sizeof *s->own);
	for (int g = 0; g < s->groups; g++) {
		const int64_t *cut = shares_cut(s, g);

		s->own[g] = (struct share_range){cut[place], cut[place + 1] - cut[place], s->count};
		s->count += s->own[g].n;
	}
	for (int i = 0; i < ranks; i++)
		s->most = count_of(s, i) > s->most ? count_of(s, i) : s->most;
}

void shares_release(struct shares *s)
{
	mem_free(s->cuts);
	mem_free(s->own);
	*s = (struct shares){0};
}

int shares_gather(const struct shares *s, struct comm *c, float *x, struct err *e)
{
	for (int g = 0; g < s->groups; g++)
		if (comm_gather_shares(c, x, shares_cut(s, g), e))
			return -1;
	return 0;
}
