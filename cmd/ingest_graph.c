/* Replaces the placeholders of a filter graph. A value depends only on the seed and on the placeholder's position among the placeholders. */
#include <stdlib.h>
#include <string.h>

#include "cmd/ingest.h"
#include "core/rng.h"

static int bad(const char *graph, const char *from, size_t n, struct err *e)
{
	return err_set(e, ERR_USAGE, "graph \"%.200s\": {%.*s} is not a placeholder: {seed}, {u:LOW:HIGH}, {i:LOW:HIGH}, {color}, {pick:A|B|...}",
	               graph, (int)(n < 100 ? n : 100), from);
}

/* Parse "LOW:HIGH", two numbers of magnitude below 1e15 in order: 0, or -1. */
static int range(const char *text, double *lo, double *hi)
{
	char *end;

	*lo = strtod(text, &end);
	if (end == text || *end != ':')
		return -1;
	text = end + 1;
	*hi = strtod(text, &end);
	return end == text || *end || !(*lo <= *hi) || !(*lo > -1e15) || !(*hi < 1e15) ? -1 : 0;
}

/* Append one of the texts of "A|B|...". */
static void pick(struct str *out, const char *list, uint64_t seed, uint64_t place)
{
	uint64_t n = 1, k;

	for (const char *p = list; *p; p++)
		n += *p == '|';
	for (k = rng_below(n, seed, RNG_SOURCE, place, 0, 0); k; k--)
		list += strcspn(list, "|") + 1;
	str_add(out, list, strcspn(list, "|"));
}

/* Append a random colour of the RGB cube that is not near grey. Colours of full saturation would look alike too often. */
static void color(struct str *out, uint64_t seed, uint64_t place)
{
	int c[3], lo, hi;

	for (uint32_t lane = 0;; lane++) {
		uint32_t r[4];

		rng_block(seed, RNG_SOURCE, place, 0, lane, r);
		lo = 255;
		hi = 0;
		for (int i = 0; i < 3; i++) {
			c[i] = r[i] >> 24;
			lo = c[i] < lo ? c[i] : lo;
			hi = c[i] > hi ? c[i] : hi;
		}
		if (hi - lo >= 96)
			break;
	}
	str_printf(out, "0x%02X%02X%02X", c[0], c[1], c[2]);
}

/* Append the value of the placeholder `what`, number `place` of the graph. -1 if it is unknown. */
static int fill(struct str *out, const char *what, uint64_t seed, uint64_t place)
{
	double lo, hi, u = rng_uniform(seed, RNG_SOURCE, place, 0, 0);

	if (!strcmp(what, "seed")) {
		str_printf(out, "%llu", (unsigned long long)seed);
	} else if (!strcmp(what, "color")) {
		color(out, seed, place);
	} else if (!strncmp(what, "pick:", 5)) {
		pick(out, what + 5, seed, place);
	} else if (!strncmp(what, "u:", 2)) {
		if (range(what + 2, &lo, &hi))
			return -1;
		str_printf(out, "%.9g", lo + (hi - lo) * u);
	} else if (!strncmp(what, "i:", 2)) {
		if (range(what + 2, &lo, &hi) || lo != (double)(int64_t)lo || hi != (double)(int64_t)hi)
			return -1;
		str_printf(out, "%lld", (long long)((int64_t)lo + (int64_t)rng_below((uint64_t)(hi - lo) + 1, seed, RNG_SOURCE, place, 0, 0)));
	} else {
		return -1;
	}
	return 0;
}

int graph_expand(struct str *out, const char *graph, uint64_t seed, int *any, struct err *e)
{
	uint64_t place = 0;

	*any = 0;
	for (const char *p = graph; *p;) {
		size_t n = strcspn(p, "{");
		struct str what = {0};
		int rc;

		str_add(out, p, n);
		p += n;
		if (!*p)
			break;
		n = strcspn(++p, "}");
		if (!p[n])
			return bad(graph, p, n, e);
		str_add(&what, p, n);
		rc = fill(out, str_text(&what), seed, place++);
		str_release(&what);
		if (rc)
			return bad(graph, p, n, e);
		*any = 1;
		p += n + 1;
	}
	return 0;
}
