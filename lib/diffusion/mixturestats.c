/* The statistics of a mixture: memory, sums of several. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/mixture.h"

void mixture_stats_init(struct mixture_stats *s, int k, int64_t steps)
{
	memset(s, 0, sizeof *s);
	s->k = k;
	s->steps = steps;
	s->rows = mem_zalloc((size_t)k, sizeof *s->rows);
	s->guide_rows = mem_zalloc((size_t)k, sizeof *s->guide_rows);
	s->mass = mem_zalloc((size_t)k, sizeof *s->mass);
	s->entropy = mem_zalloc((size_t)steps, sizeof *s->entropy);
	s->entropy_rows = mem_zalloc((size_t)steps, sizeof *s->entropy_rows);
	s->density_entropy = mem_zalloc((size_t)steps, sizeof *s->density_entropy);
	s->density_rows = mem_zalloc((size_t)steps, sizeof *s->density_rows);
}

void mixture_stats_release(struct mixture_stats *s)
{
	mem_free(s->rows);
	mem_free(s->guide_rows);
	mem_free(s->mass);
	mem_free(s->entropy);
	mem_free(s->entropy_rows);
	mem_free(s->density_entropy);
	mem_free(s->density_rows);
	memset(s, 0, sizeof *s);
}

void mixture_stats_reset(struct mixture_stats *s)
{
	struct stats_row row[STATS_ROWS];

	mixture_stats_rows(s, row);
	for (int i = 0; i < STATS_ROWS; i++)
		memset(row[i].v, 0, (size_t)row[i].n * sizeof *row[i].v);
}

void mixture_stats_rows(struct mixture_stats *s, struct stats_row row[STATS_ROWS])
{
	const struct stats_row all[STATS_ROWS] = {{"evaluations", &s->evaluations, 1},
	                                          {"longest", &s->longest, 1},
	                                          {"used", &s->used, 1},
	                                          {"rows", s->rows, s->k},
	                                          {"guide_rows", s->guide_rows, s->k},
	                                          {"mass", s->mass, s->k},
	                                          {"router_rows", &s->router_rows, 1},
	                                          {"distance_rows", &s->distance_rows, 1},
	                                          {"entropy", s->entropy, s->steps},
	                                          {"entropy_rows", s->entropy_rows, s->steps},
	                                          {"density_entropy", s->density_entropy, s->steps},
	                                          {"density_rows", s->density_rows, s->steps},
	                                          {"uncertainty_rows", &s->uncertainty_rows, 1}};

	memcpy(row, all, sizeof all);
}

void mixture_stats_pack(struct mixture_stats *s, struct str *to)
{
	struct stats_row row[STATS_ROWS];

	mixture_stats_rows(s, row);
	for (int i = 0; i < STATS_ROWS; i++)
		str_add(to, row[i].v, (size_t)row[i].n * sizeof *row[i].v);
}

const int64_t *mixture_stats_add(struct mixture_stats *s, const int64_t *packed)
{
	struct stats_row row[STATS_ROWS];
	int64_t longest = s->longest, theirs;

	mixture_stats_rows(s, row);
	for (int i = 0; i < STATS_ROWS; i++)
		for (int64_t j = 0; j < row[i].n; j++)
			row[i].v[j] += *packed++;
	theirs = s->longest - longest;
	s->longest = longest > theirs ? longest : theirs; /* the only one that is no sum */
	return packed;
}
