/* Chooses ticks and maps values to positions on an axis. */
#include "plot/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Shorten a number: "1.50e+06" becomes "1.5e6". */
static void tidy(char *text)
{
	char *e = strchr(text, 'e'), exponent[16] = "", *end;

	if (e) {
		int negative = e[1] == '-';
		const char *digits = e + 1 + (e[1] == '-' || e[1] == '+');

		digits += strspn(digits, "0");
		snprintf(exponent, sizeof exponent, "e%s%s", negative ? "-" : "", digits);
		*e = 0;
	}
	if (strchr(text, '.')) {
		end = text + strlen(text);
		while (end[-1] == '0')
			*--end = 0;
		if (end[-1] == '.')
			*--end = 0;
	}
	snprintf(text + strlen(text), 16, "%s", exponent);
}

static int needs_exponent(double v)
{
	return v != 0 && (fabs(v) >= 999999.5 || fabs(v) < 1e-4);
}

void axis_number(char text[32], double v)
{
	if (v == 0) {
		snprintf(text, 32, "0");
	} else if (needs_exponent(v)) {
		snprintf(text, 16, "%.3e", v);
		tidy(text);
	} else {
		int decimals = 3 - (int)floor(log10(fabs(v)));

		snprintf(text, 32, "%.*f", decimals > 0 ? decimals : 0, v);
		if (decimals > 0)
			tidy(text);
	}
}

/* Print v, a multiple of step, with the decimals that step needs. */
static void tick_text(char text[32], double v, double step)
{
	double top = fabs(v) < step / 2 ? 0 : fabs(v);
	int decimals = -(int)floor(log10(step) + 1e-9);

	if (top == 0) {
		snprintf(text, 32, "0");
	} else if (needs_exponent(top) || step < 1e-5) {
		int digits = (int)floor(log10(top) + 1e-9) + decimals;

		snprintf(text, 16, "%.*e", digits < 0 ? 0 : digits > 8 ? 8 : digits, v);
		tidy(text);
	} else {
		snprintf(text, 32, "%.*f", decimals > 0 ? decimals : 0, v);
	}
}

static double nice_step(double span, int want)
{
	double raw = span / want, power = pow(10, floor(log10(raw))), m = raw / power;

	return (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10) * power;
}

static void linear_ticks(struct axis *a, int want)
{
	double step = nice_step(a->hi - a->lo, want), slack = (a->hi - a->lo) * 1e-6, first = ceil((a->lo - slack) / step);

	a->n = 0;
	for (int i = 0; i < AXIS_TICKS && (first + i) * step <= a->hi + slack; i++) {
		a->tick[a->n] = (first + i) * step;
		tick_text(a->label[a->n++], (first + i) * step, step);
	}
}

static void log_put(struct axis *a, double v)
{
	if (a->n < AXIS_TICKS && v >= a->lo * (1 - 1e-9) && v <= a->hi * (1 + 1e-9)) {
		a->tick[a->n] = v;
		axis_number(a->label[a->n++], v);
	}
}

static void log_ticks(struct axis *a, int want)
{
	int first = (int)floor(log10(a->lo) + 1e-9), last = (int)floor(log10(a->hi) + 1e-9), decades = last - first;
	int stride = decades / want + 1, parts = decades <= want / 2;

	a->n = 0;
	for (int d = first; d <= last; d += stride)
		for (int m = 1; m <= (parts ? 5 : 1); m += m == 1 ? 1 : 3)
			log_put(a, m * pow(10, d));
	if (a->n < 3)
		linear_ticks(a, want);
}

void axis_fit(struct axis *a, double lo, double hi, int log, int want, int exact)
{
	double least = fmax(fabs(lo), fabs(hi)) * 1e-9, margin;

	memset(a, 0, sizeof *a);
	a->log = log;
	if (log) {
		margin = fmax(pow(hi / lo, .04), 1.02);
		a->lo = exact & 1 ? lo : lo / margin;
		a->hi = exact & 2 ? hi : hi * margin;
		log_ticks(a, want);
		return;
	}
	if (!(hi - lo > least)) {
		margin = lo == 0 && hi == 0 ? 1 : fmax(fabs(hi) * .1, least);
		a->lo = exact & 1 ? lo : lo - margin;
		a->hi = exact & 2 ? fmax(hi, a->lo + margin) : hi + margin;
	} else {
		margin = (hi - lo) * .04;
		a->lo = exact & 1 ? lo : lo - margin;
		a->hi = exact & 2 ? hi : hi + margin;
	}
	linear_ticks(a, want);
}

double axis_at(const struct axis *a, double v)
{
	double part = a->log ? log(v / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);

	return a->from + (a->to - a->from) * part;
}
