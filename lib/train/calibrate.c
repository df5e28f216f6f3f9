/* Fits the temperature of a router, and divides the weights and the bias of its last layer by it, so that no format and no program that reads a
 * router needs to know of it. publish.c calls it. */
#include "train/calibrate.h"

#include <assert.h>
#include <math.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/samemath.h"
#include "core/str.h"
#include "train/tally.h"
#include "train/trainlog.h"

/* The times of each held-out sample, and the halvings of the interval of log temperature: the last is 2e-11 wide. */
enum { PASSES = 8, HALVINGS = 38 };

/* log sum exp(b z) of row z (k); *mean becomes the mean of z under softmax(b z). */
static double log_sum(const float *z, int64_t k, double b, double *mean)
{
	double top = z[0], sum = 0, dot = 0;

	for (int64_t i = 1; i < k; i++)
		top = fmax(top, z[i]);
	for (int64_t i = 0; i < k; i++) {
		double p = same_exp(b * (z[i] - top));

		sum += p;
		dot += p * z[i];
	}
	*mean = dot / sum;
	return b * top + same_log(sum);
}

/* The derivative of the summed cross-entropy with respect to b = 1 / temperature: SUM s E_softmax[z] - <target, z>. */
static double slope(const float *logits, const float *targets, int64_t n, int64_t k, double b)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++) {
		const float *z = logits + i * k, *target = targets + i * k;
		double mean;

		log_sum(z, k, b, &mean);
		for (int64_t j = 0; j < k; j++)
			sum += target[j] * (mean - z[j]);
	}
	return sum;
}

/* The cross-entropy is convex in b, so its slope changes sign once. */
double calibrate_temperature(const float *logits, const float *targets, int64_t n, int64_t k)
{
	double lo = same_log(CALIBRATE_LEAST), hi = same_log(CALIBRATE_MOST);

	for (int i = 0; i < HALVINGS; i++) {
		double mid = (lo + hi) / 2;

		*(slope(logits, targets, n, k, same_exp(-mid)) > 0 ? &lo : &hi) = mid;
	}
	return same_exp((lo + hi) / 2);
}

/* The held-out states of a fit. */
struct states {
	int64_t k, n;
	float *logits, *targets; /* (n, k) */
	double *t;               /* (n) */
	int32_t *label;          /* (n) */
};

static void keep_state(void *arg, const struct held_state *s)
{
	struct states *y = arg;

	for (int64_t j = 0; j < y->k; j++) {
		y->logits[s->index * y->k + j] = s->logits[j];
		y->targets[s->index * y->k + j] = s->target ? s->target[j] : j == s->label;
	}
	y->t[s->index] = s->t;
	y->label[s->index] = s->label;
}

/* The scores of logits / temperature. */
static struct tally score(const struct states *y, double temperature)
{
	struct tally tally = {0};
	float *z = mem_alloc((size_t)y->k * sizeof *z);

	for (int64_t i = 0; i < y->n; i++) {
		const float *target = y->targets + i * y->k;
		double loss = 0, mean, lse;

		for (int64_t j = 0; j < y->k; j++)
			z[j] = (float)(y->logits[i * y->k + j] / temperature);
		lse = log_sum(z, y->k, 1, &mean);
		for (int64_t j = 0; j < y->k; j++)
			loss += target[j] * (lse - z[j]);
		tally_add(&tally, y->t[i], z, y->k, y->label[i], loss);
	}
	mem_free(z);
	return tally;
}

/* Whether the search for a temperature ended at this bound. */
static int is_at(double temperature, double bound)
{
	return fabs(same_log(temperature / bound)) < 1e-9;
}

static void tell(struct trainer *r, const struct states *y, double temperature)
{
	struct tally before = score(y, 1), after = score(y, temperature);
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("calibrate"));
	json_object_set_new(o, "temperature", jsonio_real(temperature));
	json_object_set_new(o, "states", json_integer(y->n));
	json_object_set_new(o, "loss_before", jsonio_real(tally_loss(&before)));
	json_object_set_new(o, "loss", jsonio_real(tally_loss(&after)));
	json_object_set_new(o, "ece_before", jsonio_real(tally_ece(&before)));
	json_object_set_new(o, "ece", jsonio_real(tally_ece(&after)));
	trainlog_line(r->log, o);
	train_say(r, "temperature %.4g: held-out cross-entropy %.4f -> %.4f, calibration error %.4f -> %.4f", temperature, tally_loss(&before),
	          tally_loss(&after), tally_ece(&before), tally_ece(&after));
	if (is_at(temperature, CALIBRATE_LEAST))
		train_say(r, "that is the lowest temperature tried: on the held-out samples the router is never wrong, or its logits are all equal");
	else if (is_at(temperature, CALIBRATE_MOST))
		train_say(r, "that is the highest temperature tried: on the held-out samples the router's logits are no better than chance");
}

static void divide(struct trainer *r, float *values, const char *part, double temperature)
{
	char *name = str_new("%s.%s", net_head(&r->net), part);
	int i = params_find(&r->params, name);
	const struct param *p;
	size_t bytes;
	float *host;

	assert(i >= 0);
	p = &r->params.v[i];
	bytes = (size_t)p->count * sizeof(float);
	host = mem_alloc(bytes);
	device_get(r->device, host, values + p->offset, bytes);
	for (int64_t j = 0; j < p->count; j++)
		host[j] = (float)(host[j] / temperature);
	device_put(r->device, values + p->offset, host, bytes);
	mem_free(host);
	mem_free(name);
}

int calibrate(struct trainer *r, float *values, struct err *e)
{
	struct states y = {.k = r->net.clusters, .n = PASSES * r->main.validations};
	double temperature;
	int rc = -1;

	y.logits = mem_try((size_t)(y.n * y.k), sizeof *y.logits, "logits of held-out samples", e);
	y.targets = mem_try((size_t)(y.n * y.k), sizeof *y.targets, "targets of held-out samples", e);
	y.t = mem_zalloc((size_t)y.n, sizeof *y.t);
	y.label = mem_zalloc((size_t)y.n, sizeof *y.label);
	if (y.logits && y.targets && !held_run(r, &r->main, values, PASSES, keep_state, &y, e)) {
		temperature = calibrate_temperature(y.logits, y.targets, y.n, y.k);
		tell(r, &y, temperature);
		divide(r, values, "weight", temperature);
		divide(r, values, "bias", temperature);
		rc = r->device->error(r->device, e);
	}
	mem_free(y.logits);
	mem_free(y.targets);
	mem_free(y.t);
	mem_free(y.label);
	return rc;
}
