/* Growing strings and range-checked parsing of numbers. */
#include "core/str.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static void reserve(struct str *s, size_t extra)
{
	size_t need = s->len + extra + 1;

	if (need <= s->cap)
		return;
	s->cap = need > 2 * s->cap ? need : 2 * s->cap;
	s->p = mem_resize(s->p, s->cap, 1);
}

void str_add(struct str *s, const void *bytes, size_t n)
{
	reserve(s, n);
	if (n)
		memcpy(s->p + s->len, bytes, n);
	s->len += n;
	s->p[s->len] = 0;
}

void str_puts(struct str *s, const char *text)
{
	str_add(s, text, strlen(text));
}

static void add_va(struct str *s, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0 && errno == ENOMEM)
		mem_fail(s->len);
	if (n < 0)
		return;
	reserve(s, (size_t)n);
	vsnprintf(s->p + s->len, (size_t)n + 1, fmt, ap);
	s->len += (size_t)n;
}

void str_printf(struct str *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_va(s, fmt, ap);
	va_end(ap);
}

const char *str_text(const struct str *s)
{
	return s->p ? s->p : "";
}

void str_reset(struct str *s)
{
	s->len = 0;
	if (s->p)
		s->p[0] = 0;
}

void str_release(struct str *s)
{
	mem_free(s->p);
	*s = (struct str){0};
}

char *str_new(const char *fmt, ...)
{
	struct str s = {0};
	va_list ap;

	reserve(&s, 0);
	s.p[0] = 0;
	va_start(ap, fmt);
	add_va(&s, fmt, ap);
	va_end(ap);
	return s.p;
}

int parse_i64(const char *text, int64_t lo, int64_t hi, int64_t *out)
{
	char *end;
	long long v;

	if (!((text[0] >= '0' && text[0] <= '9') || ((text[0] == '-' || text[0] == '+') && text[1] >= '0' && text[1] <= '9')))
		return -1;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || *end || v < lo || v > hi)
		return -1;
	*out = v;
	return 0;
}

int parse_u64(const char *text, uint64_t *out)
{
	char *end;
	unsigned long long v;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end)
		return -1;
	*out = v;
	return 0;
}

int parse_f64(const char *text, double lo, double hi, double *out)
{
	char *end;
	double v;

	if (!*text || *text == ' ' || (*text >= '\t' && *text <= '\r'))
		return -1;
	errno = 0;
	v = strtod(text, &end);
	if (*end || !isfinite(v) || v < lo || v > hi)
		return -1;
	*out = v;
	return 0;
}

/* A non-negative number and a one-letter unit from `units`, scaled by the matching entry of `scale`. */
static int parse_with_unit(const char *text, const char *units, const double *scale, double *out)
{
	char *end;
	double v;
	const char *u;

	if (*text < '0' || *text > '9')
		return -1;
	v = strtod(text, &end);
	if (*end) {
		u = strchr(units, *end);
		if (!u || end[1])
			return -1;
		v *= scale[u - units];
	}
	if (!isfinite(v))
		return -1;
	*out = v;
	return 0;
}

void print_f64(char text[F64_TEXT], double v)
{
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, F64_TEXT, "%.*g", digits, v);
		if (strtod(text, NULL) == v && (!strchr(text, 'e') || fabs(v) < 1e-4 || fabs(v) >= 1e15))
			return;
	}
}

int parse_duration(const char *text, double *seconds)
{
	static const double scale[] = {1, 60, 3600, 86400};

	return parse_with_unit(text, "smhd", scale, seconds);
}

int parse_size(const char *text, uint64_t *bytes)
{
	static const double scale[] = {1024., 1048576., 1073741824., 1099511627776.};
	double v;

	if (parse_with_unit(text, "KMGT", scale, &v) || v >= 9.2e18)
		return -1;
	*bytes = (uint64_t)v;
	return 0;
}

int str_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && !memcmp(s + n - m, suffix, m);
}
