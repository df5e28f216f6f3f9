/* Prints the result of ddm-cluster on standard error: a summary, the measures, a table of the clusters. */
#include "cmd/clusterreport.h"

#include <math.h>

#include "cmd/cmd.h"
#include "core/names.h"

enum { NAMED = 64 }; /* most clusters that are listed */

static void say_summary(const struct cluster_request *q, const struct cluster_report *r)
{
	long long n = r->samples, held = r->count[1];
	const char *by = r->cosine ? " by cosine" : "";

	if (q->by)
		cmd_say("%lld samples by %s, %lld held out, in %d clusters", n, q->by, held, r->k);
	else if (!r->features)
		cmd_say("%lld samples at random, %lld held out, in %d clusters", n, held, r->k);
	else if (!r->count[0])
		cmd_say("%lld samples, all held out, in %d clusters of %s%s", n, r->k, r->features, by);
	else
		cmd_say("%lld samples, %lld held out, %d clusters of %s%s: inertia %.4g each, silhouette %.3f", n, held, r->k, r->features, by,
		        r->inertia / (double)r->count[0], r->silhouette);
	if (r->old_k)
		cmd_say("%d clusters are extended by %d; %lld samples keep theirs, and of the others %lld %s", r->old_k, r->k - r->old_k,
		        (long long)r->kept, (long long)r->joined, r->features ? "are nearest to an old centroid" : "go to an old cluster");
	if (r->micro)
		cmd_say("%s clustered %lld centroids of k-means in place of %lld samples", cluster_method_names[q->method], (long long)r->micro,
		        (long long)r->count[0]);
	if (r->away)
		cmd_say("%lld samples (%.1f%%) are nearer to the centroid of another cluster, to which a held-out one would go", (long long)r->away,
		        100. * (double)r->away / (double)r->count[0]);
	if (q->soft)
		cmd_say("a training sample is in %.3f clusters on average", r->memberships);
	if (!r->settled)
		cmd_warn("the eigenvectors of the graph did not converge: residual %.2g", r->residual);
	if (r->gpu)
		cmd_say("k-means on %s", r->gpu);
}

/* Measures of the partition as a whole; quality: also those that need features. */
static void say_measures(const struct cluster_request *q, const struct cluster_report *r, int quality)
{
	if (quality)
		cmd_say("silhouette of %lld samples %.3f, Davies-Bouldin %.3f, Calinski-Harabasz %.4g", (long long)r->silhouette_n, r->silhouette,
		        r->separation.davies_bouldin, r->separation.calinski_harabasz);
	if (r->seeds.samples)
		cmd_say("agreement of %lld seeds: adjusted Rand %.3f (lowest %.3f), mutual information %.3f (lowest %.3f)", (long long)q->seeds,
		        r->seeds.rand, r->seeds.least, r->seeds.information, r->seeds.least_information);
	if (r->labels.samples)
		cmd_say("agreement with %lld values of %s: adjusted Rand %.3f, mutual information %.3f", (long long)r->labels.others, q->against,
		        r->labels.rand, r->labels.information);
}

/* A row for each cluster. */
static void say_table(const struct cluster_report *r, int most)
{
	cmd_say("%8s %9s %7s %9s %9s %10s%s", "cluster", "train", "share", "held out", "distance", "silhouette", r->names ? "  name" : "");
	for (int c = 0; c < most; c++)
		cmd_say("%8d %9lld %6.1f%% %9lld %9.4f %10.3f%s%s", c, (long long)r->size[0][c], 100. * (double)r->size[0][c] / (double)r->count[0],
		        (long long)r->size[1][c], sqrt(r->spread[c]), r->silhouettes[c], r->names ? "  " : "",
		        r->names ? names_get(r->names, c) : "");
}

void clusterreport_say(const struct cluster_request *q, const struct cluster_report *r)
{
	int most = r->k < NAMED ? r->k : NAMED, quality = r->spread && (q->report || q->rate);

	say_summary(q, r);
	say_measures(q, r, quality);
	if (quality)
		say_table(r, most);
	for (int c = 0; c < most && r->count[0] && !quality; c++)
		cmd_say("cluster %d%s%s%s: %lld (%.1f%%), held out %lld", c, r->names ? " (" : "", r->names ? names_get(r->names, c) : "",
		        r->names ? ")" : "", (long long)r->size[0][c], 100. * (double)r->size[0][c] / (double)r->count[0], (long long)r->size[1][c]);
	if (most < r->k)
		cmd_say("and %d more", r->k - most);
	if (r->crowded)
		cmd_warn("the largest cluster holds %.3f times the mean, not %g: too many samples are alike", r->largest * r->k, q->balance);
	if (r->skipped && (q->max_errors < 0 || r->skipped <= q->max_errors))
		cmd_warn("%lld bad samples skipped", (long long)r->skipped);
}
