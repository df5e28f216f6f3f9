/* Reads the losses of experts from results of ddm-diagnose. */
#include "diffusion/confidence.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"

/* The result names the loss at time t so. */
static double loss_at(const json_t *o, double t)
{
	char *name = str_new("loss_t%g", t);
	double v = json_number_value(json_object_get(o, name));

	mem_free(name);
	return v;
}

/* The files that a result was measured with are in its stamp. */
static int check_files(const json_t *o, const char *path, const struct confidence_file *file, int n, struct err *e)
{
	const json_t *inputs = json_object_get(json_object_get(o, "stamp"), "inputs");

	for (int i = 0; i < n; i++) {
		const char *hash = json_string_value(json_object_get(inputs, file[i].name));

		if (!hash || strcmp(hash, file[i].hash) != 0)
			return err_set(e, ERR_DATA, "%s: was measured with another %s: run ddm-diagnose loss again", path, file[i].name);
	}
	return 0;
}

static int take_times(struct confidence *c, int k, const json_t *list, const char *path, struct err *e)
{
	int n = (int)json_array_size(list);

	if (n < 1)
		return err_set(e, ERR_DATA, "%s: holds no times", path);
	c->k = k;
	c->times = n;
	c->time = mem_zalloc((size_t)n, sizeof *c->time);
	c->loss = mem_zalloc((size_t)(k * n), sizeof *c->loss);
	for (int j = 0; j < n; j++) {
		c->time[j] = json_number_value(json_array_get(list, (size_t)j));
		if (j && c->time[j] <= c->time[j - 1])
			return err_set(e, ERR_DATA, "%s: its times do not increase", path);
	}
	return 0;
}

static int same_times(const struct confidence *c, const json_t *list)
{
	int same = json_array_size(list) == (size_t)c->times;

	for (int j = 0; same && j < c->times; j++)
		same = json_number_value(json_array_get(list, (size_t)j)) == c->time[j];
	return same;
}

/* "the class", for a message. */
static const char *told_text(const char *told)
{
	return !strcmp(told, "class") ? "the class" : !strcmp(told, "cluster") ? "the cluster" : "nothing";
}

static int add(struct confidence *c, int k, int i, const json_t *o, const char *path, struct err *e)
{
	const json_t *times = json_object_get(json_object_get(o, "recipe"), "times");
	const char *samples = json_string_value(json_object_get(json_object_get(o, "inputs"), "heldout"));
	const char *route = json_string_value(json_object_get(o, "route")), *told = json_string_value(json_object_get(o, "told"));
	char expected[32];

	snprintf(expected, sizeof expected, "expert:%d", i);
	if (!samples || !route || !told || strlen(samples) != sizeof c->measured - 1)
		return err_set(e, ERR_DATA, "%s: is not a result of ddm-diagnose loss", path);
	if (strcmp(route, expected) != 0)
		return err_set(e, ERR_DATA, "%s: holds the loss of the route %s, not of %s", path, route, expected);
	if (!c->times && take_times(c, k, times, path, e))
		return -1;
	if (!same_times(c, times))
		return err_set(e, ERR_DATA, "%s: was measured at other times than the experts before it", path);
	if (*c->measured && strcmp(samples, c->measured) != 0)
		return err_set(e, ERR_DATA, "%s: was measured on other samples than the experts before it", path);
	if (*c->told && strcmp(told, c->told) != 0)
		return err_set(
		    e, ERR_DATA,
		    "%s: this expert was told %s and the experts before it %s: run ddm-diagnose loss for all with --untold or for all without", path,
		    told_text(told), told_text(c->told));
	snprintf(c->measured, sizeof c->measured, "%s", samples);
	snprintf(c->told, sizeof c->told, "%s", told);
	for (int j = 0; j < c->times; j++) {
		double loss = loss_at(o, c->time[j]);

		if (!(loss > 0) || !isfinite(loss))
			return err_set(e, ERR_DATA, "%s: has no loss above 0 at t = %g", path, c->time[j]);
		c->loss[i * c->times + j] = loss;
	}
	return 0;
}

int confidence_add(struct confidence *c, int k, int i, const char *path, const struct confidence_file *file, int n, struct err *e)
{
	json_t *o = jsonio_load(path, e);
	int rc = o ? add(c, k, i, o, path, e) || check_files(o, path, file, n, e) : -1;

	json_decref(o);
	return rc ? -1 : 0;
}

void confidence_release(struct confidence *c)
{
	mem_free(c->time);
	mem_free(c->loss);
	memset(c, 0, sizeof *c);
}

void confidence_at(const struct confidence *c, double t, double *inverse)
{
	int j = 0;
	double f;

	while (j + 1 < c->times && c->time[j + 1] < t)
		j++;
	f = j + 1 < c->times ? fmin(1, fmax(0, (t - c->time[j]) / (c->time[j + 1] - c->time[j]))) : 0;
	for (int i = 0; i < c->k; i++) {
		const double *loss = c->loss + i * c->times + j;
		double v = f > 0 ? loss[0] + f * (loss[1] - loss[0]) : loss[0];

		inverse[i] = v > 0 ? 1 / v : 0;
	}
}
