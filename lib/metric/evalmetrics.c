/* Parses lists of metrics, and holds the names of metrics and protocols. */
#include "metric/evalmetrics.h"

#include <string.h>

#include "core/str.h"

const char *const metric_names[METRICS + 1] = {"kd",      "fd",     "memorised", "fid",          "sfid", "is",        "kid",   "pr",
                                               "dc",      "cmmd",   "vendi",     "authenticity", "clip", "aesthetic", "lpips", "diversity",
                                               "content", "motion", "flicker",   "warp",         "fvd",  NULL};

const char *const protocol_names[PROTOCOLS + 1] = {"ddm", "torch-fidelity", "adm", "clean-fid", NULL};

static int unknown(const char *name, size_t len, struct err *e)
{
	struct str s = {0};

	for (int k = 0; k < METRICS; k++)
		str_printf(&s, "%s%s", k ? ", " : "", metric_names[k]);
	err_set(e, ERR_USAGE, "\"%.*s\" is not a metric; expected %s", (int)len, name, str_text(&s));
	str_release(&s);
	return -1;
}

int metrics_parse(unsigned *out, const char *list, struct err *e)
{
	const char *p = list + strspn(list, ", ");

	*out = 0;
	if (!*p)
		return unknown(list, strlen(list), e);
	for (; *p; p += strspn(p, ", ")) {
		size_t len = strcspn(p, ", ");
		int k = 0;

		while (k < METRICS && (strlen(metric_names[k]) != len || memcmp(metric_names[k], p, len) != 0))
			k++;
		if (k == METRICS)
			return unknown(p, len, e);
		*out |= 1u << k;
		p += len;
	}
	return 0;
}
