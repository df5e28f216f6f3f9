/* Spectral clustering: graph, eigenvectors, k-means on the rows of these. */
#include "cluster/spectral.h"

#include <math.h>
#include <string.h>

#include "cluster/kmeans.h"
#include "cluster/knngraph.h"
#include "cluster/topeigen.h"
#include "core/mem.h"

enum { ITERATIONS = 500 };

/* D^(-1/2) A D^(-1/2), which has the eigenvalues of D^(-1) A and the eigenvectors of that times D^(1/2). */
struct similar {
	const struct knngraph *g;
	double *root; /* [n] degree^(-1/2) */
};

static void similar_rows(void *arg, double *out, const double *in, int columns, int64_t from, int64_t to)
{
	const struct similar *s = arg;

	for (int64_t i = from; i < to; i++) {
		double *row = out + i * columns;

		memset(row, 0, (size_t)columns * sizeof *row);
		for (int64_t a = s->g->start[i]; a < s->g->start[i + 1]; a++) {
			int64_t j = s->g->to[a];
			double w = s->g->weight[a] * s->root[i] * s->root[j];

			for (int c = 0; c < columns; c++)
				row[c] += w * in[j * columns + c];
		}
	}
}

/* x (n, k) = the first k eigenvectors of D^(-1) A, times sqrt(n) so that their values are near 1. */
static void embed(float *x, const struct topeigen *t, const struct similar *s, int k)
{
	for (int64_t i = 0; i < s->g->n; i++)
		for (int c = 0; c < k; c++)
			x[i * k + c] = (float)(t->vector[i * t->columns + c] * s->root[i] * sqrt((double)s->g->n));
}

static void renumber(int32_t *cluster, int64_t n, int k)
{
	int32_t *number = mem_zalloc((size_t)k, sizeof *number), count = 0; /* from 1; 0: not seen */

	for (int64_t i = 0; i < n; i++) {
		if (!number[cluster[i]])
			number[cluster[i]] = ++count;
		cluster[i] = number[cluster[i]] - 1;
	}
	mem_free(number);
}

static int cut_vectors(int32_t *cluster, struct spectral_report *report, const struct knngraph *g, const struct spectral_options *o, struct err *e)
{
	struct similar s = {g, mem_zalloc((size_t)g->n, sizeof *s.root)};
	struct topeigen_matrix m = {g->n, similar_rows, &s};
	struct kmeans_options ko = {
	    .k = o->k, .restarts = o->restarts, .iterations = o->iterations, .seed = o->seed, .pool = o->pool, .progress = o->progress};
	struct kmeans km = {0};
	struct topeigen t;
	float *x = mem_try((size_t)g->n * (size_t)o->k, sizeof *x, "eigenvectors", e);
	int rc;

	for (int64_t i = 0; i < g->n; i++)
		s.root[i] = 1 / sqrt(g->degree[i]);
	rc = topeigen_find(&t, &m, o->k, SPECTRAL_TOLERANCE, ITERATIONS, o->seed, o->pool, o->progress, e);
	if (!rc && x) {
		report->iterations = t.iterations;
		report->residual = t.residual;
		embed(x, &t, &s, o->k);
		rc = kmeans_fit(&km, x, g->n, o->k, &ko, e) || kmeans_assign(cluster, NULL, &km, x, g->n, o->pool, NULL, e) ? -1 : 0;
	}
	kmeans_release(&km);
	topeigen_release(&t);
	mem_free(s.root);
	rc = x ? rc : -1;
	mem_free(x);
	return rc;
}

int spectral_cut(int32_t *cluster, struct spectral_report *report, const float *x, int64_t n, int64_t d, const struct spectral_options *o,
                 struct err *e)
{
	struct knngraph g;
	int rc = 0;

	*report = (struct spectral_report){0};
	if (o->k > SPECTRAL_CLUSTERS)
		return err_set(e, ERR_USAGE, "spectral clustering makes at most %d clusters, not %d", SPECTRAL_CLUSTERS, o->k);
	if (n <= o->neighbours)
		return err_set(e, ERR_USAGE, "%d neighbours of each point need at least %d points, and there are %lld", o->neighbours,
		               o->neighbours + 1, (long long)n);
	if (knngraph_make(&g, x, n, d, o->neighbours, o->pool, o->progress, e))
		return -1;
	report->pieces = knngraph_pieces(&g, cluster);
	if (report->pieces > o->k)
		rc = err_set(e, ERR_DATA,
		             "the graph of %d nearest neighbours falls into %lld pieces, more than %d clusters: take more neighbours or clusters",
		             o->neighbours, (long long)report->pieces, o->k);
	else if (report->pieces < o->k)
		rc = cut_vectors(cluster, report, &g, o, e);
	if (!rc)
		renumber(cluster, n, o->k);
	knngraph_release(&g);
	return rc;
}
