/* Which frame of a video is shown at each of evenly spaced times, from times that may be missing, rounded, or wrong. */
#include <math.h>

#include "data/clipgrid.h"

#define USUAL_LENGTH (CLIPGRID_SECOND / 25) /* of a frame, where nothing tells it */
#define TIME_MOST ((int64_t)1 << 60)        /* 36 years; later times are wrong, and are treated as missing */

int64_t clipgrid_slack(int64_t unit)
{
	return unit < 1000 ? 1000 : unit > 1000000 ? 1000000 : unit;
}

/* The number of targets before `time`. A target that falls on it is not before it, also if the product is rounded up. */
static uint64_t targets_before(const struct clipgrid *g, int64_t time)
{
	double n = ceil((double)(time - g->slack - g->origin) * 1e-9 * g->rate - 1e-6);

	return n > 0 ? (uint64_t)n : 0;
}

/* The frame that waits is shown until `end`. */
static void frame_close(struct clipgrid *g, int64_t end, struct clipgrid_shown *shown)
{
	int64_t until = end - g->time > CLIPGRID_GAP ? g->time + CLIPGRID_GAP : end;
	uint64_t before = targets_before(g, until);

	*shown = (struct clipgrid_shown){.time = g->time, .length = end - g->time, .first = g->next, .segment = g->segment};
	shown->targets = before > g->next ? before - g->next : 0;
	g->next += shown->targets;
	if (until < end) {
		uint64_t skipped = targets_before(g, end);

		g->segment++;
		g->next = skipped > g->next ? skipped : g->next;
	}
}

int clipgrid_add(struct clipgrid *g, int64_t time, int64_t length, struct clipgrid_shown *shown)
{
	int any = g->any, known = time != CLIPGRID_UNKNOWN && time > -TIME_MOST && time < TIME_MOST;
	int64_t expected = any ? g->time + g->length : 0, goes_back = 0;

	if (!known)
		time = expected;
	else
		time += g->shift;
	if (any && known && time < g->time - CLIPGRID_BACK) {
		g->shift += expected - time;
		time = expected;
		goes_back = 1;
	}
	if (any && (time < g->time || time >= TIME_MOST))
		time = g->time;
	if (any)
		frame_close(g, time, shown);
	else
		g->origin = time;
	g->segment += (uint64_t)goes_back;
	if (length <= 0 || length > CLIPGRID_GAP)
		length = any && time > g->time && time - g->time <= CLIPGRID_GAP ? time - g->time : g->length > 0 ? g->length : USUAL_LENGTH;
	g->time = time;
	g->length = length;
	g->any = 1;
	return any;
}

int clipgrid_end(struct clipgrid *g, struct clipgrid_shown *shown)
{
	if (!g->any)
		return 0;
	/* The end is as inexact as other times, but the last frame must not vanish where frames are shorter than the slack. */
	if (g->slack > g->length / 2)
		g->slack = g->length / 2;
	frame_close(g, g->time + g->length, shown);
	g->any = 0;
	return 1;
}
