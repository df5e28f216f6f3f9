/* Writes the state of trainings in Prometheus's text format. */
#include <math.h>
#include <string.h>

#include "inspect/exportlog.h"

const char export_prometheus_begin[] = "# HELP ddm_training_";

/* Numbers that a run lacks are left out, so that a series is there only if it means something. */
struct metric {
	const char *name, *type, *help;
	double (*value)(const struct run *x, double now);
};

static double count(int64_t v)
{
	return v < 0 ? NAN : (double)v;
}

static double get_step(const struct run *x, double now)
{
	(void)now;
	return count(x->step);
}

static double get_steps(const struct run *x, double now)
{
	(void)now;
	return count(x->steps);
}

static double get_loss(const struct run *x, double now)
{
	(void)now;
	return x->loss;
}

static double get_val_loss(const struct run *x, double now)
{
	(void)now;
	return x->val_loss;
}

static double get_norm(const struct run *x, double now)
{
	(void)now;
	return loghistory_last(x->log, "grad_norm", 0);
}

static double get_lr(const struct run *x, double now)
{
	(void)now;
	return loghistory_last(x->log, "lr", 0);
}

static double get_rate(const struct run *x, double now)
{
	(void)now;
	return x->images_per_s;
}

static double get_peak(const struct run *x, double now)
{
	(void)now;
	return x->percent_of_peak / 100;
}

static double get_eta(const struct run *x, double now)
{
	(void)now;
	return x->eta;
}

static double get_memory(const struct run *x, double now)
{
	(void)now;
	return x->memory;
}

static double get_logged(const struct run *x, double now)
{
	return now - x->log_age;
}

static double get_saved(const struct run *x, double now)
{
	return now - x->saved_age;
}

static double get_restarts(const struct run *x, double now)
{
	(void)now;
	return count(x->restarts);
}

static double get_skipped(const struct run *x, double now)
{
	(void)now;
	return loghistory_last(x->log, "skipped", 1);
}

static double get_seconds(const struct run *x, double now)
{
	(void)now;
	return x->log->attempts ? x->seconds : NAN;
}

static const struct metric metrics[] = {
    {"step", "gauge", "Steps done. A continued run goes back to its last checkpoint.", get_step},
    {"target_steps", "gauge", "Steps in all.", get_steps},
    {"loss", "gauge", "Mean loss of the steps of the last log line.", get_loss},
    {"validation_loss", "gauge", "Loss of the averaged weights on held-out samples, at the last validation.", get_val_loss},
    {"gradient_norm", "gauge", "Norm of the last gradient before clipping.", get_norm},
    {"learning_rate", "gauge", "Learning rate of the last step.", get_lr},
    {"images_per_second", "gauge", "Rate over the last log line.", get_rate},
    {"peak_ratio", "gauge", "Share of the measured peak of the machine that the training computes.", get_peak},
    {"eta_seconds", "gauge", "Time that the remaining steps take at the present rate.", get_eta},
    {"memory_peak_bytes", "gauge", "Peak of the memory of the device.", get_memory},
    {"log_written_timestamp_seconds", "gauge", "Time of the last log line, in seconds since 1970.", get_logged},
    {"checkpoint_written_timestamp_seconds", "gauge", "Time of the last checkpoint, in seconds since 1970.", get_saved},
    {"restarts_total", "counter", "How often the training was started again.", get_restarts},
    {"skipped_steps_total", "counter", "Steps without an update, because the loss or its gradient was not finite.", get_skipped},
    {"seconds_total", "counter", "Time from each start to the last log line of that attempt, summed.", get_seconds},
};

static void put_label(struct str *out, const char *text)
{
	for (; *text; text++)
		if (*text == '\n')
			str_puts(out, "\\n");
		else if (*text == '\\' || *text == '"')
			str_printf(out, "\\%c", *text);
		else
			str_add(out, text, 1);
}

static void put_head(struct str *out, const char *name, const char *help, const char *type)
{
	str_printf(out, "# HELP ddm_training_%s %s\n# TYPE ddm_training_%s %s\n", name, help, name, type);
}

/* The name and the label `run`; the caller adds further labels and the closing brace. */
static void put_series(struct str *out, const char *name, const struct run *x)
{
	str_printf(out, "ddm_training_%s{run=\"", name);
	put_label(out, x->dir);
	str_puts(out, "\"");
}

static void put_state(struct str *out, const struct runs *r)
{
	put_head(out, "state", "1 for the state that the training is in, 0 for the others.", "gauge");
	for (int i = 0; i < r->n; i++)
		for (int s = 0; s < RUN_STATES; s++) {
			put_series(out, "state", &r->v[i]);
			str_printf(out, ",state=\"%s\"} %d\n", run_state_names[s], r->v[i].state == (enum run_state)s);
		}
}

static void put_info(struct str *out, const struct runs *r)
{
	put_head(out, "info", "Always 1; the labels say where the training was last started.", "gauge");
	for (int i = 0; i < r->n; i++) {
		const struct loghistory *h = r->v[i].log;

		put_series(out, "info", &r->v[i]);
		str_printf(out, ",network=\"%s\",host=\"", r->v[i].router ? "router" : "expert");
		put_label(out, r->v[i].host);
		str_puts(out, "\",device=\"");
		put_label(out, h->attempts ? h->attempt[h->attempts - 1].device : "");
		str_puts(out, "\"} 1\n");
	}
}

static void put_metric(struct str *out, const struct runs *r, const struct metric *m, double now)
{
	int any = 0;

	for (int i = 0; i < r->n; i++) {
		double v = m->value(&r->v[i], now);

		/* A loss that is not finite is a fact to be seen; elsewhere NaN means that nothing is known. */
		if (isnan(v) && (m->value != get_loss || !r->v[i].log->n))
			continue;
		if (!any++)
			put_head(out, m->name, m->help, m->type);
		put_series(out, m->name, &r->v[i]);
		if (isnan(v))
			str_puts(out, "} NaN\n");
		else
			str_printf(out, "} %.15g\n", v);
	}
}

int export_prometheus(struct str *out, const struct runs *r, double now, struct err *e)
{
	for (int i = 0; i < r->n; i++)
		for (int j = 0; j < i; j++)
			if (!strcmp(r->v[i].dir, r->v[j].dir))
				return err_set(e, ERR_USAGE, "%s: given twice: Prometheus refuses the same series again", r->v[i].dir);
	put_info(out, r);
	put_state(out, r);
	for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
		put_metric(out, r, &metrics[i], now);
	return 0;
}
