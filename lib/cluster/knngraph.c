/* Finds nearest neighbours by comparing all pairs, and joins both directions into one graph. */
#include "cluster/knngraph.h"

#include <assert.h>
#include <string.h>

#include "cluster/points.h"
#include "core/mem.h"

enum { ROWS = 16, COLUMNS = 64 };

struct search {
	const float *x;
	int64_t n, d;
	int count;
	int32_t *near; /* (n, count), nearest first */
	float *far;    /* (n, count) their squared distances */
};

/* Insert point j into the sorted list of row i, which holds `held` points. Returns the new number. j ascends, so of equal points the first wins. */
static int insert(struct search *s, int64_t i, int held, int64_t j, float d)
{
	int32_t *near = s->near + i * s->count;
	float *far = s->far + i * s->count;
	int at = held < s->count ? held : s->count - 1;

	if (held == s->count && !(d < far[at]))
		return held;
	for (; at > 0 && d < far[at - 1]; at--) {
		far[at] = far[at - 1];
		near[at] = near[at - 1];
	}
	far[at] = d;
	near[at] = (int32_t)j;
	return held < s->count ? held + 1 : held;
}

static void search_task(void *arg, int64_t block, int worker)
{
	struct search *s = arg;
	int64_t from = block * ROWS, to = from + ROWS < s->n ? from + ROWS : s->n;
	int held[ROWS] = {0};

	(void)worker;
	for (int64_t at = 0; at < s->n; at += COLUMNS)
		for (int64_t i = from; i < to; i++)
			for (int64_t j = at; j < s->n && j < at + COLUMNS; j++)
				if (j != i)
					held[i - from] = insert(s, i, held[i - from], j, points_distance2(s->x + i * s->d, s->x + j * s->d, s->d));
}

static int has(const struct search *s, int64_t i, int64_t j)
{
	for (int k = 0; k < s->count; k++)
		if (s->near[i * s->count + k] == j)
			return 1;
	return 0;
}

/* Row i holds j if j is near i or i is near j. */
static void fill(struct knngraph *g, const struct search *s)
{
	int64_t *at = mem_zalloc((size_t)g->n + 1, sizeof *at);

	for (int64_t i = 0; i < g->n; i++)
		for (int k = 0; k < s->count; k++) {
			int64_t j = s->near[i * s->count + k];

			at[i]++;
			at[j] += !has(s, j, i);
		}
	for (int64_t i = 0; i < g->n; i++) {
		g->start[i + 1] = g->start[i] + at[i];
		at[i] = g->start[i];
	}
	g->to = mem_zalloc((size_t)g->start[g->n], sizeof *g->to);
	g->weight = mem_zalloc((size_t)g->start[g->n], sizeof *g->weight);
	for (int64_t i = 0; i < g->n; i++)
		for (int k = 0; k < s->count; k++) {
			int64_t j = s->near[i * s->count + k];
			int both = has(s, j, i);

			g->to[at[i]] = (int32_t)j;
			g->weight[at[i]++] = both ? 1.f : .5f;
			if (both)
				continue;
			g->to[at[j]] = (int32_t)i;
			g->weight[at[j]++] = .5f;
		}
	mem_free(at);
}

/* Sort the edges of each point by the other point, by insertion because the lists are short, and add up the degrees. */
static void order(struct knngraph *g)
{
	for (int64_t i = 0; i < g->n; i++) {
		for (int64_t a = g->start[i] + 1; a < g->start[i + 1]; a++)
			for (int64_t b = a; b > g->start[i] && g->to[b - 1] > g->to[b]; b--) {
				int32_t to = g->to[b];
				float w = g->weight[b];

				g->to[b] = g->to[b - 1];
				g->weight[b] = g->weight[b - 1];
				g->to[b - 1] = to;
				g->weight[b - 1] = w;
			}
		for (int64_t a = g->start[i]; a < g->start[i + 1]; a++)
			g->degree[i] += g->weight[a];
	}
}

int knngraph_make(struct knngraph *g, const float *x, int64_t n, int64_t d, int neighbours, struct pool *pool, const struct progress *progress,
                  struct err *e)
{
	struct search s = {.x = x, .n = n, .d = d, .count = neighbours};
	int rc;

	assert(neighbours >= 1 && neighbours < n && n <= INT32_MAX);
	*g = (struct knngraph){.n = n};
	s.near = mem_try((size_t)(n * neighbours), sizeof *s.near, "nearest neighbours", e);
	s.far = mem_try((size_t)(n * neighbours), sizeof *s.far, "nearest neighbours", e);
	rc = s.near && s.far ? points_blocks(n, ROWS, "nearest neighbours", search_task, &s, pool, progress, e) : -1;
	if (!rc) {
		g->start = mem_zalloc((size_t)n + 1, sizeof *g->start);
		g->degree = mem_zalloc((size_t)n, sizeof *g->degree);
		fill(g, &s);
		order(g);
	}
	mem_free(s.near);
	mem_free(s.far);
	return rc;
}

void knngraph_release(struct knngraph *g)
{
	mem_free(g->start);
	mem_free(g->to);
	mem_free(g->weight);
	mem_free(g->degree);
	*g = (struct knngraph){0};
}

int64_t knngraph_pieces(const struct knngraph *g, int32_t *piece)
{
	int32_t *of = mem_zalloc((size_t)g->n, sizeof *of);
	int64_t *stack = mem_zalloc((size_t)g->n, sizeof *stack), pieces = 0;

	for (int64_t i = 0; i < g->n; i++) { /* `of` counts from 1; 0: not seen */
		int64_t held = 0;

		if (of[i])
			continue;
		of[i] = (int32_t)++pieces;
		stack[held++] = i;
		while (held) {
			int64_t at = stack[--held];

			for (int64_t a = g->start[at]; a < g->start[at + 1]; a++)
				if (!of[g->to[a]]) {
					of[g->to[a]] = (int32_t)pieces;
					stack[held++] = g->to[a];
				}
		}
	}
	for (int64_t i = 0; i < g->n && piece; i++)
		piece[i] = of[i] - 1;
	mem_free(stack);
	mem_free(of);
	return pieces;
}
