/* Finds the nearest clusters of each sample besides its own. */
#include "cluster/soft.h"

#include "cluster/points.h"

enum { PIECE = 256 };

struct search {
	int32_t *further;
	const struct kmeans *m;
	const int32_t *cluster;
	const float *x;
	int64_t n;
	int more; /* most further clusters */
	double margin;
};

static double nearness(const struct search *s, int64_t i, int c)
{
	return (double)points_distance2(s->x + i * s->m->d, s->m->centroids + c * s->m->d, s->m->d) + (double)s->m->offset[c];
}

static void search_task(void *arg, int64_t task, int worker)
{
	struct search *s = arg;
	int64_t to = (task + 1) * PIECE < s->n ? (task + 1) * PIECE : s->n;

	(void)worker;
	for (int64_t i = task * PIECE; i < to; i++) {
		double far[ASSIGNMENT_CLUSTERS], own = nearness(s, i, s->cluster[i]);
		int32_t *further = s->further + i * s->more;
		int held = 0;

		for (int c = 0; c < s->m->k; c++) {
			double d = c == s->cluster[i] ? 0 : nearness(s, i, c);
			int at = held < s->more ? held : s->more - 1;

			if (c == s->cluster[i] || (s->margin > 0 && d > s->margin * s->margin * own) || (held == s->more && !(d < far[at])))
				continue;
			for (; at > 0 && d < far[at - 1]; at--) {
				far[at] = far[at - 1];
				further[at] = further[at - 1];
			}
			far[at] = d;
			further[at] = c;
			held += held < s->more;
		}
		for (int at = held; at < s->more; at++)
			further[at] = (at - held) % (held + 1) ? further[(at - held) % (held + 1) - 1] : s->cluster[i];
	}
}

void soft_clusters(int32_t *further, const struct kmeans *m, const int32_t *cluster, const float *x, int64_t n, int most, double margin,
                   struct pool *pool)
{
	struct search s = {further, m, cluster, x, n, most - 1, margin};

	pool_run(pool, (n + PIECE - 1) / PIECE, search_task, &s);
}
