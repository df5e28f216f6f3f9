/* Rate and time left of a long operation, from marks of the last seconds. */
#include "core/pace.h"

#include <stdio.h>

enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };

static int newest(const struct pace *p)
{
	return (p->first + p->n - 1) % PACE_MARKS;
}

void pace_add(struct pace *p, int64_t done, double now)
{
	if (p->n && (done < p->at || now < p->now))
		*p = (struct pace){0};
	p->now = now;
	p->at = done;
	if (p->n && now - p->time[newest(p)] < 1)
		return;
	if (p->n == PACE_MARKS)
		p->first = (p->first + 1) % PACE_MARKS;
	else
		p->n++;
	p->time[newest(p)] = now;
	p->done[newest(p)] = done;
}

double pace_rate(const struct pace *p)
{
	double seconds = p->n ? p->now - p->time[p->first] : 0;

	return seconds >= 1 ? (double)(p->at - p->done[p->first]) / seconds : 0;
}

double pace_left(const struct pace *p, int64_t total)
{
	double rate = pace_rate(p);

	return rate > 0 && total >= p->at ? (double)(total - p->at) / rate : -1;
}

const char *pace_text(char text[PACE_TEXT], double seconds)
{
	/* Times above 999 days are shown as 999 days, so that the text fits. */
	long s = seconds > 999. * DAY ? 999L * DAY : (long)(seconds + .5);

	if (s >= DAY)
		snprintf(text, PACE_TEXT, "%ldd %ldh", s / DAY, s % DAY / HOUR);
	else if (s >= HOUR)
		snprintf(text, PACE_TEXT, "%ld:%02ld:%02ld", s / HOUR, s % HOUR / MINUTE, s % MINUTE);
	else
		snprintf(text, PACE_TEXT, "%ld:%02ld", s / MINUTE, s % MINUTE);
	return text;
}

const char *pace_number(char text[PACE_TEXT], double rate)
{
	static const char units[] = " kMGT";
	int unit = 0;

	for (; rate >= 9999.5 && units[unit + 1]; unit++)
		rate /= 1000;
	snprintf(text, PACE_TEXT, "%.*f%.1s", rate < .995 ? 2 : rate < 99.95 ? 1 : 0, rate, unit ? units + unit : "");
	return text;
}
