/* Turns the programs' files into series of charts. */
#include "plot/sources.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "metric/paired.h"
#include "plot/frame.h"
#include "plot/glossary.h"

static void text_default(char **text, const char *value)
{
	if (!*text)
		chart_text_set(text, value);
}

static void label_default(char **text, const char *column)
{
	const struct glossary *g = glossary_find(column);

	text_default(text, g ? g->label : column);
}

static void hash_out(const struct frame *f, char hash[65])
{
	if (hash)
		memcpy(hash, frame_sha256(f), 65);
}

enum { VAL_POINTS = 30 };

struct samples_of { /* the values of one bar or point */
	char *name;
	double *x, *y;
	int n;
};

struct groups {
	struct samples_of *v;
	int n;
};

static struct samples_of *group_of(struct groups *g, const char *name)
{
	for (int i = 0; i < g->n; i++)
		if (!strcmp(g->v[i].name, name))
			return &g->v[i];
	g->v = mem_resize(g->v, (size_t)g->n + 1, sizeof *g->v);
	g->v[g->n] = (struct samples_of){.name = mem_strdup(name)};
	return &g->v[g->n++];
}

static void group_put(struct groups *g, const char *name, double x, double y)
{
	struct samples_of *s = group_of(g, name);

	s->x = mem_resize(s->x, (size_t)s->n + 1, sizeof *s->x);
	s->y = mem_resize(s->y, (size_t)s->n + 1, sizeof *s->y);
	s->x[s->n] = x;
	s->y[s->n++] = y;
}

static void groups_release(struct groups *g)
{
	for (int i = 0; i < g->n; i++) {
		mem_free(g->v[i].name);
		mem_free(g->v[i].x);
		mem_free(g->v[i].y);
	}
	mem_free(g->v);
}

static double mean(const double *v, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum / n;
}

/* Student's interval of the mean; NaN for fewer than two values. */
static void interval(const double *v, int n, double level, double *low, double *high)
{
	double m = mean(v, n), sum = 0, half;

	*low = *high = NAN;
	if (n < 2)
		return;
	for (int i = 0; i < n; i++)
		sum += (v[i] - m) * (v[i] - m);
	half = student_quantile((1 + level) / 2, n - 1) * sqrt(sum / (n - 1) / n);
	*low = m - half;
	*high = m + half;
}

/* Steps, losses and validation losses of a log, NaN if a line has none. A step that is not above the last one means that the run resumed: the lines
 * from that step on are dropped. */
struct losses {
	double *step, *loss, *val;
	int n;
};

static int losses_read(struct losses *l, const struct frame *f, struct err *e)
{
	int64_t rows = frame_rows(f);

	l->step = mem_zalloc((size_t)rows, sizeof *l->step);
	l->loss = mem_zalloc((size_t)rows, sizeof *l->loss);
	l->val = mem_zalloc((size_t)rows, sizeof *l->val);
	for (int64_t i = 0; i < rows; i++) {
		double step, loss = NAN, val = NAN;
		int has = frame_number(f, i, "step", &step, e), has_loss = frame_number(f, i, "loss", &loss, e);
		int has_val = frame_number(f, i, "val_loss", &val, e);

		if (has < 0 || has_loss < 0 || has_val < 0)
			return -1;
		if (!has || (!has_loss && !has_val))
			continue;
		while (l->n && l->step[l->n - 1] >= step)
			l->n--;
		l->step[l->n] = step;
		l->loss[l->n] = has_loss ? loss : NAN;
		l->val[l->n++] = has_val ? val : NAN;
	}
	return 0;
}

/* A segment tree of sums over v (n); values that are not finite count as 0. Element i is the sum of elements 2 i and 2 i + 1, and the values begin at
 * n. A sum over a window adds only values inside it, so unlike a difference of prefix sums it loses no digits to values outside. Caller frees with
 * mem_free. */
static double *sums_new(const double *v, int n)
{
	double *sum = mem_alloc(2 * (size_t)n * sizeof *sum);

	for (int i = 0; i < n; i++)
		sum[n + i] = isfinite(v[i]) ? v[i] : 0;
	for (int i = n - 1; i > 0; i--)
		sum[i] = sum[2 * i] + sum[2 * i + 1];
	return sum;
}

/* The sum of the values [from, to). */
static double sums_between(const double *sum, int n, int from, int to)
{
	double total = 0;

	for (from += n, to += n; from < to; from /= 2, to /= 2) {
		if (from % 2)
			total += sum[from++];
		if (to % 2)
			total += sum[--to];
	}
	return total;
}

/* out[i]: the mean of the finite losses at most `half` lines from line i; near an end the window shrinks on both sides alike. NaN if loss i is not
 * finite. */
static void smooth_losses(double *out, const struct losses *l, int half)
{
	double *sum = sums_new(l->loss, l->n);
	int *before = mem_alloc(((size_t)l->n + 1) * sizeof *before);

	before[0] = 0;
	for (int i = 0; i < l->n; i++)
		before[i + 1] = before[i] + !!isfinite(l->loss[i]);
	for (int i = 0; i < l->n; i++) {
		int end = l->n - 1 - i, reach = half < i ? half : i, from, to;

		reach = reach < end ? reach : end;
		from = i - reach;
		to = i + reach + 1;
		out[i] = isfinite(l->loss[i]) ? sums_between(sum, l->n, from, to) / (before[to] - before[from]) : NAN;
	}
	mem_free(sum);
	mem_free(before);
}

static void losses_put(struct chart *c, const struct losses *l, const char *label, int64_t smooth)
{
	int64_t window = smooth ? smooth : l->n / 20;
	int half = (int)((window < l->n ? window : l->n) / 2), vals = 0, style;
	struct chart_series *s = chart_series_add(c, label, CHART_LINE);
	double *smoothed = mem_alloc((size_t)l->n * sizeof *smoothed);

	style = s->style;
	smooth_losses(smoothed, l, half);
	for (int i = 0; i < l->n; i++) {
		chart_point(s, l->step[i], smoothed[i]);
		vals += isfinite(l->val[i]);
	}
	mem_free(smoothed);
	if (half) {
		s = chart_series_add(c, "", CHART_LINE);
		s->style = style;
		s->faint = 1;
		for (int i = 0; i < l->n; i++)
			chart_point(s, l->step[i], l->loss[i]);
	}
	if (!vals)
		return;
	s = chart_series_add(c, "", CHART_POINTS);
	s->style = style;
	for (int i = 0, j = 0, stride = vals / VAL_POINTS + 1; i < l->n; i++)
		if (isfinite(l->val[i]) && (++j % stride == 0 || j == vals))
			chart_point(s, l->step[i], l->val[i]);
}

int source_loss(struct chart *c, const char *path, const char *label, int64_t smooth, char hash[65], struct err *e)
{
	struct frame *f = frame_load(path, e);
	struct losses l = {0};
	int rc = -1;

	if (!f || frame_need(f, "loss", e) || frame_need(f, "step", e) || losses_read(&l, f, e))
		goto out;
	rc = l.n ? 0 : err_set(e, ERR_DATA, "%s: has no loss", path);
	if (rc)
		goto out;
	hash_out(f, hash);
	text_default(&c->x_label, "training step");
	text_default(&c->y_label, frame_has(f, "val_loss") ? "loss (points: on held-out pictures)" : "loss");
	losses_put(c, &l, label, smooth);
out:
	mem_free(l.step);
	mem_free(l.loss);
	mem_free(l.val);
	frame_free(f);
	return rc;
}

static struct chart_series *series_named(struct chart *c, int first, const char *label, int marks)
{
	for (int i = first; i < c->n; i++)
		if (!strcmp(c->series[i].label, label))
			return &c->series[i];
	return chart_series_add(c, label, marks);
}

int64_t source_columns(struct chart *c, const char *path, const char *label, const char *x, const char *y, const char *group, const char *low,
                       const char *high, int marks, char hash[65], struct err *e)
{
	struct frame *f = frame_load(path, e);
	int64_t absent = 0;
	int first = group ? 0 : c->n;

	if (!f || frame_need(f, x, e) || frame_need(f, y, e) || (group && frame_need(f, group, e)) || (low && frame_need(f, low, e)) ||
	    (high && frame_need(f, high, e))) {
		frame_free(f);
		return -1;
	}
	label_default(&c->x_label, x);
	label_default(&c->y_label, y);
	for (int64_t i = 0; i < frame_rows(f) && absent >= 0; i++) {
		double vx, vy = NAN, lo = NAN, hi = NAN;
		int has_x = frame_number(f, i, x, &vx, e), has_y = frame_number(f, i, y, &vy, e);

		if (has_x < 0 || has_y < 0 || (low && frame_number(f, i, low, &lo, e) < 0) || (high && frame_number(f, i, high, &hi, e) < 0))
			absent = -1;
		else if (!has_x || !has_y)
			absent++;
		if (absent >= 0 && has_x)
			chart_interval(series_named(c, first, group ? frame_text(f, i, group) : label, marks), vx, has_y ? vy : NAN, lo, hi);
	}
	hash_out(f, hash);
	frame_free(f);
	return absent;
}

char *source_arm_column(const char *path, struct err *e)
{
	struct frame *f = frame_load(path, e);
	char *name = f ? mem_strdup(frame_first(f)) : NULL;

	frame_free(f);
	return name;
}

int source_has(const char *path, const char *column)
{
	struct frame *f = frame_load(path, NULL);
	int has = f && frame_has(f, column);

	frame_free(f);
	return has;
}

static int cost_read(struct groups *g, struct groups *floors, const char *path, const char *arm, const char *x, const char *y, const char *floor,
                     char hash[65], struct err *e)
{
	struct frame *f = frame_load(path, e);
	int rc = -1;

	if (!f || frame_need(f, arm, e) || frame_need(f, x, e) || frame_need(f, y, e) || (floor && frame_need(f, floor, e)))
		goto out;
	for (int64_t i = 0; i < frame_rows(f); i++) {
		double vx, vy, vf;
		int has_x = frame_number(f, i, x, &vx, e), has_y = frame_number(f, i, y, &vy, e);
		int has_floor = floor ? frame_number(f, i, floor, &vf, e) : 0;

		if (has_x < 0 || has_y < 0 || has_floor < 0)
			goto out;
		if (has_x && has_y)
			group_put(g, frame_text(f, i, arm), vx, vy);
		if (has_floor)
			group_put(floors, "", 0, vf);
	}
	hash_out(f, hash);
	rc = 0;
out:
	frame_free(f);
	return rc;
}

int source_cost(struct chart *c, char *const *path, int n, const char *arm, const char *x, const char *y, const char *floor, double level,
                char (*hash)[65], struct err *e)
{
	struct groups g = {0}, floors = {0};
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = cost_read(&g, &floors, path[i], arm, x, y, floor, hash ? hash[i] : NULL, e);
	for (int i = 0; i < g.n && !rc; i++) {
		struct samples_of *s = &g.v[i];
		double low, high;

		interval(s->y, s->n, level, &low, &high);
		chart_interval(chart_series_add(c, s->name, CHART_POINTS), mean(s->x, s->n), mean(s->y, s->n), low, high);
	}
	if (!rc && floors.n)
		chart_rule_add(c, mean(floors.v[0].y, floors.v[0].n), glossary_find(floor) ? "floor: real pictures" : floor);
	label_default(&c->x_label, x);
	label_default(&c->y_label, y);
	groups_release(&g);
	groups_release(&floors);
	return rc;
}

int source_bars(struct bars *b, const char *path, const char *label, const char *value, const char *low, const char *high, double level,
                char hash[65], struct err *e)
{
	struct frame *f = frame_load(path, e);
	struct groups g = {0};
	int rc = -1;

	if (!f || frame_need(f, label, e) || frame_need(f, value, e) || (low && frame_need(f, low, e)) || (high && frame_need(f, high, e)))
		goto out;
	for (int64_t i = 0; i < frame_rows(f); i++) {
		double v, lo = NAN, hi = NAN;
		int has = frame_number(f, i, value, &v, e);

		if (has < 0 || (low && frame_number(f, i, low, &lo, e) < 0) || (high && frame_number(f, i, high, &hi, e) < 0))
			goto out;
		if (has && low && high)
			bars_add(b, frame_text(f, i, label), v, lo, hi);
		else if (has)
			group_put(&g, frame_text(f, i, label), 0, v);
	}
	for (int i = 0; i < g.n; i++) {
		double lo, hi;

		interval(g.v[i].y, g.v[i].n, level, &lo, &hi);
		bars_add(b, g.v[i].name, mean(g.v[i].y, g.v[i].n), lo, hi);
	}
	label_default(&b->x_label, value);
	hash_out(f, hash);
	rc = 0;
out:
	groups_release(&g);
	frame_free(f);
	return rc;
}

int source_compare(struct bars *b, const char *path, const char *key, char hash[65], struct err *e)
{
	struct frame *f = frame_load(path, e);
	char *only = NULL, *base = NULL;
	int table, rc = -1;

	if (!f || frame_need(f, "difference", e))
		goto out;
	table = !frame_has(f, "label");
	if (frame_need(f, table ? "arm" : "label", e) || frame_need(f, table ? "seeds" : "against", e))
		goto out;
	only = mem_strdup(key ? key : frame_text(f, 0, "key"));
	for (int64_t i = 0; i < frame_rows(f); i++) {
		double v, low = NAN, high = NAN;
		int has, other = strcmp(frame_text(f, i, "key"), only) != 0;
		char *label, *against;

		if (other && !key) {
			err_set(e, ERR_USAGE, "%s: differences of %s and of %s; choose with -y", path, only, frame_text(f, i, "key"));
			goto out;
		}
		if (other)
			continue;
		has = frame_number(f, i, "difference", &v, e);
		if (has < 0 || frame_number(f, i, "low", &low, e) < 0 || frame_number(f, i, "high", &high, e) < 0)
			goto out;
		if (!has && !base) /* the row of a table without a difference is the arm that the others are compared with */
			base = mem_strdup(frame_text(f, i, table ? "arm" : "label"));
		if (!has)
			continue;
		against = mem_strdup(!table ? frame_text(f, i, "against") : base ? base : "");
		label = str_new("%s - %s", frame_text(f, i, table ? "arm" : "label"), against);
		bars_add(b, label, v, low, high);
		mem_free(label);
		mem_free(against);
	}
	if (!b->x_label) {
		double share, pairs = 0;
		char *level = NULL;

		if (frame_number(f, 0, "level", &share, NULL) == 1)
			level = str_new("%g%% ", 100 * share);
		frame_number(f, 0, table ? "seeds" : "pairs", &pairs, NULL);
		b->x_label = str_new("difference of %s, %g pairs, %sintervals", only, pairs, level ? level : "");
		mem_free(level);
	}
	hash_out(f, hash);
	rc = 0;
out:
	mem_free(only);
	mem_free(base);
	frame_free(f);
	return rc;
}

/* Part i of a path between slashes, counted from the left or from the right; NULL if there are fewer parts. */
static const char *part(const char *path, int i, int from_right, size_t *len)
{
	const char *end = path + strlen(path), *at;
	int n = 0, parts = 1;

	for (at = path; *at; at++)
		parts += *at == '/';
	if (i >= parts)
		return NULL;
	i = from_right ? parts - 1 - i : i;
	for (at = path; n < i; at++)
		n += *at == '/';
	*len = strcspn(at, "/");
	return at < end || !*at ? at : NULL;
}

static int shared(char *const *path, int n, int i, int from_right)
{
	size_t len, other;
	const char *p = part(path[0], i, from_right, &len);

	for (int j = 1; p && j < n; j++) {
		const char *q = part(path[j], i, from_right, &other);

		if (!q || other != len || memcmp(p, q, len))
			return 0;
	}
	return p != NULL;
}

char *source_label(char *const *path, int n, int i)
{
	int left = 0, right = 0, parts = 1;
	const char *from, *to;
	size_t len = 0;

	for (const char *c = path[i]; *c; c++)
		parts += *c == '/';
	if (n == 1) {
		static const char *const plain[] = {"train.jsonl", "expert_0", "report.tsv", NULL};

		for (int k = 0; right + 1 < parts && plain[k]; k++) {
			from = part(path[i], right, 1, &len);
			right += from && len == strlen(plain[k]) && !memcmp(from, plain[k], len);
		}
		from = part(path[i], right, 1, &len);
		return str_new("%.*s", (int)len, from);
	}
	while (shared(path, n, left, 0))
		left++;
	while (shared(path, n, right, 1))
		right++;
	if (left + right >= parts)
		return mem_strdup(path[i]);
	from = part(path[i], left, 0, &len);
	to = part(path[i], right, 1, &len);
	return str_new("%.*s", (int)(to + len - from), from);
}
