/* Starts a router from another router, whose clusters may be others: the rows of its last layer belong to clusters, and are kept, dropped or new. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "net/model.h"
#include "train/run.h"

enum { NEW_ROW = -1 };

/* Set row (clusters): the row of the old router for each cluster. */
static int parse_rows(const struct trainer *r, int64_t *row, struct err *e)
{
	const char *text = r->o->rows;
	char *copy = text ? mem_strdup(text) : NULL, *rest = copy, *word;
	int64_t n = 0, k = r->net.clusters, from = r->from.net.clusters;
	int rc = 0;

	if (!text && k < from)
		return err_set(e, ERR_USAGE, "--from: %s has %" PRId64 " clusters, and the new router has %" PRId64 ": say with --rows which to keep",
		               r->o->from, from, k);
	for (int64_t i = 0; !text && i < k; i++)
		row[i] = i < from ? i : NEW_ROW;
	while (!rc && rest) {
		int64_t value = NEW_ROW;

		word = rest;
		if ((rest = strchr(word, ',')))
			*rest++ = 0;
		if (strcmp(word, "new") != 0 && parse_i64(word, 0, from - 1, &value))
			rc =
			    err_set(e, ERR_USAGE, "--rows: \"%s\" is neither a cluster of the old router, 0 to %" PRId64 ", nor new", word, from - 1);
		else if (n < k)
			row[n] = value;
		n++;
	}
	if (!rc && text && n != k)
		rc = err_set(e, ERR_USAGE, "--rows: %" PRId64 " clusters are listed, and the new router has %" PRId64, n, k);
	mem_free(copy);
	return rc;
}

static int check_shape(const struct trainer *r, const struct net_config *now, const struct net_config *was, struct err *e)
{
	char theirs[NET_SAMPLE_TEXT], ours[NET_SAMPLE_TEXT];
	struct net_value a, b;

	if (now->def != was->def)
		return err_set(e, ERR_USAGE, "--from: %s is a %s, not a %s", r->o->from, net_name(was), net_name(now));
	for (int i = 0; net_shape(now, i, &a) && net_shape(was, i, &b); i++)
		if (a.whole ? a.i != b.i : a.f != b.f)
			return err_set(e, ERR_USAGE, "--from: %s has %s %.12g, not %.12g", r->o->from, a.name, a.whole ? (double)b.i : b.f,
			               a.whole ? (double)a.i : a.f);
	if (now->channels != was->channels || now->size != was->size || now->frames != was->frames)
		return err_set(e, ERR_DATA, "--from: %s is for %s, but %s holds samples of %s", r->o->from,
		               net_sample_text(was->frames, was->channels, was->size, was->size, theirs), r->o->shards,
		               net_sample_text(now->frames, now->channels, now->size, now->size, ours));
	return 0;
}

int head_config(struct trainer *r, struct err *e)
{
	const struct net_config *was = &r->from.net;
	int64_t k = r->net.clusters, *row;
	int rc;

	if (!net_is_classifier(was) || net_is_exact(was))
		return err_set(e, ERR_USAGE, "--from: %s is not a trained router", r->o->from);
	if (check_shape(r, &r->net, was, e))
		return -1;
	if (strcmp(r->from.path, r->path->name) != 0 || r->from.sigma_data != r->o->objective.path.sigma_data)
		return err_set(e, ERR_USAGE, "--from: %s was trained on the path %s, not %s (--path)", r->o->from, r->from.path, r->path->name);
	row = mem_alloc((size_t)k * sizeof *row);
	rc = parse_rows(r, row, e);
	mem_free(row);
	r->net = *was;
	r->net.clusters = k;
	return rc;
}

static const float *find(const struct params *p, const char *name, const float *values)
{
	int i = params_find(p, name);

	return i < 0 ? NULL : values + p->v[i].offset;
}

/* Set to (k, n) from the old rows. A new row is the mean of the kept ones, so that a new cluster begins with an average logit. */
static void take_rows(float *to, const float *from, const int64_t *row, int64_t k, int64_t n)
{
	for (int64_t c = 0; c < n; c++) {
		double sum = 0, kept = 0;

		for (int64_t i = 0; i < k; i++)
			if (row[i] != NEW_ROW) {
				sum += from[row[i] * n + c];
				kept++;
			}
		for (int64_t i = 0; i < k; i++)
			to[i * n + c] = row[i] != NEW_ROW ? from[row[i] * n + c] : kept > 0 ? (float)(sum / kept) : 0;
	}
}

static void tell_rows(const struct trainer *r, const int64_t *row)
{
	struct str line = {0};

	for (int64_t i = 0; i < r->net.clusters; i++) {
		if (row[i] == NEW_ROW)
			str_printf(&line, "%snew", i ? ", " : "");
		else
			str_printf(&line, "%s%" PRId64, i ? ", " : "", row[i]);
	}
	train_say(r, "clusters of %s: %s", r->o->from, str_text(&line));
	str_release(&line);
}

int head_weights(struct trainer *r, float *values, struct err *e)
{
	const char *head = net_head(&r->net);
	int64_t k = r->net.clusters, *row = mem_alloc((size_t)k * sizeof *row);
	struct params was = {0};
	char *path = model_weights_path(r->o->from, NET_CLASSIFIER, e);
	float *old = NULL;
	int rc = -1;

	net_params(&r->from.net, &was);
	if (!path || parse_rows(r, row, e) || !(old = mem_try((size_t)was.total, sizeof *old, "the weights of the old router", e)) ||
	    model_read_weights(path, &was, NULL, old, e))
		goto out;
	for (int i = 0; i < r->params.n; i++) {
		const struct param *q = &r->params.v[i];
		const float *from = find(&was, q->name, old);

		if (!strncmp(q->name, head, strlen(head)))
			take_rows(values + q->offset, from, row, k, q->count / k);
		else
			memcpy(values + q->offset, from, (size_t)q->count * sizeof *values);
	}
	tell_rows(r, row);
	rc = 0;
out:
	params_release(&was);
	mem_free(path);
	mem_free(old);
	mem_free(row);
	return rc;
}
