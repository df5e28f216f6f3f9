/* Reads the routing log of ddm-sample into series of a chart. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/openread.h"
#include "core/str.h"
#include "plot/sources.h"

enum { MOST_LINE = 1 << 26 };

/* Sums over the pictures of a log, by step. */
struct sums {
	size_t steps, k;
	double *weight;  /* (steps, k) */
	double *entropy; /* (steps) */
	int64_t pictures;
};

static int line_add(struct sums *s, const json_t *weights)
{
	size_t steps = json_array_size(weights), k = json_array_size(json_array_get(weights, 0));

	if (!steps || !k || (s->pictures && (steps != s->steps || k != s->k)))
		return -1;
	if (!s->pictures) {
		s->steps = steps;
		s->k = k;
		s->weight = mem_zalloc(steps * k, sizeof *s->weight);
		s->entropy = mem_zalloc(steps, sizeof *s->entropy);
	}
	for (size_t i = 0; i < steps; i++) {
		const json_t *row = json_array_get(weights, i);

		if (json_array_size(row) != k)
			return -1;
		for (size_t j = 0; j < k; j++) {
			double w = json_number_value(json_array_get(row, j));

			if (!json_is_number(json_array_get(row, j)) || !(w >= 0 && w <= 1.001))
				return -1;
			s->weight[i * k + j] += w;
			s->entropy[i] -= w > 0 ? w * log(w) : 0;
		}
	}
	s->pictures++;
	return 0;
}

static int log_read(struct sums *s, FILE *f, const char *where, struct sha256 *hash, struct err *e)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int64_t number = 0;
	int rc = 0;

	while (!rc && (n = getline(&line, &room, f)) > 0) {
		json_t *o;

		number++;
		sha256_add(hash, line, (size_t)n);
		if (n == 1 && *line == '\n')
			continue;
		o = n < MOST_LINE ? json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
		if (line_add(s, json_object_get(o, "weights")))
			rc = err_set(e, ERR_DATA, "%s:%lld: no \"weights\", one row a step and one number in 0..1 an expert, as on the lines before",
			             where, (long long)number);
		json_decref(o);
	}
	if (!rc && ferror(f))
		rc = err_errno(e, "%s: read", where);
	if (!rc && !s->pictures)
		rc = err_set(e, ERR_DATA, "%s: is empty", where);
	mem_free(line);
	return rc;
}

static void put(struct chart *weights, struct chart *entropy, const struct sums *s)
{
	static const char *const time = "t (1: noise, 0: data)";

	for (size_t j = 0; weights && j < s->k; j++) {
		char *label = str_new("expert %zu", j);
		struct chart_series *series = chart_series_add(weights, label, CHART_LINE | (s->steps < 12 ? CHART_POINTS : 0));

		for (size_t i = 0; i < s->steps; i++)
			chart_point(series, 1 - (double)i / (double)s->steps, s->weight[i * s->k + j] / (double)s->pictures);
		mem_free(label);
	}
	if (weights) {
		chart_text_set(&weights->x_label, time);
		chart_text_set(&weights->y_label, "mean weight");
		weights->reverse_x = weights->from_zero = 1;
	}
	if (entropy) {
		struct chart_series *series = chart_series_add(entropy, "entropy", CHART_LINE | (s->steps < 12 ? CHART_POINTS : 0));

		for (size_t i = 0; i < s->steps; i++)
			chart_point(series, 1 - (double)i / (double)s->steps, s->entropy[i] / (double)s->pictures);
		chart_text_set(&entropy->x_label, time);
		chart_text_set(&entropy->y_label, "entropy of a picture's weights (nats)");
		chart_rule_add(entropy, log((double)s->k), "equal weights");
		entropy->reverse_x = entropy->from_zero = 1;
	}
}

int source_router(struct chart *weights, struct chart *entropy, const char *path, char hash[65], struct err *e)
{
	int from_stdin = !strcmp(path, "-");
	FILE *f = from_stdin ? stdin : open_stream(path, e);
	struct sums s = {0};
	struct sha256 sum;
	char hex[65];
	int rc;

	if (!f)
		return -1;
	sha256_init(&sum);
	rc = log_read(&s, f, from_stdin ? "standard input" : path, &sum, e);
	sha256_end(&sum, hex);
	if (hash)
		memcpy(hash, hex, sizeof hex);
	if (!rc)
		put(weights, entropy, &s);
	if (!from_stdin)
		fclose(f);
	mem_free(s.weight);
	mem_free(s.entropy);
	return rc;
}
