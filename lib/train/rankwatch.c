/* Compares the ranks of a training: how long each works, and what its clock says. */
#include "train/rankwatch.h"

#include <math.h>
#include <time.h>

#include "core/clock.h"
#include "core/jsonio.h"
#include "core/median.h"
#include "core/mem.h"

enum { ROUND_TRIPS = 4 };

static double clock_of_day(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void rank_watch_begin(struct rank_watch *w, struct comm *c)
{
	w->mark = clock_seconds();
	w->comm_s = comm_exposed_seconds(c);
}

static void make_room(struct rank_watch *w, int n)
{
	if (w->n)
		return;
	w->n = n;
	w->busy = mem_zalloc((size_t)n, sizeof *w->busy);
	w->clock = mem_zalloc((size_t)n, sizeof *w->clock);
	w->bound = mem_zalloc((size_t)n, sizeof *w->bound);
	w->slow = mem_zalloc((size_t)n, 1);
	w->off = mem_zalloc((size_t)n, 1);
}

/* Rank 0 asks another for its clock a few times. The answer was given at some moment of the round trip; the shortest trip says most. */
static int ask_clock(struct rank_watch *w, struct comm *c, int rank, struct err *e)
{
	w->bound[rank] = INFINITY;
	for (int i = 0; i < ROUND_TRIPS; i++) {
		double sent = clock_of_day(), began = clock_seconds(), theirs = 0, trip;

		if (comm_send(c, rank, &sent, sizeof sent, e) || comm_receive(c, rank, &theirs, sizeof theirs, e))
			return -1;
		trip = clock_seconds() - began;
		if (trip / 2 < w->bound[rank]) {
			w->bound[rank] = trip / 2;
			w->clock[rank] = theirs - (sent + trip / 2);
		}
	}
	return 0;
}

static int answer_clock(struct comm *c, struct err *e)
{
	for (int i = 0; i < ROUND_TRIPS; i++) {
		double theirs, mine;

		if (comm_receive(c, 0, &theirs, sizeof theirs, e))
			return -1;
		mine = clock_of_day();
		if (comm_send(c, 0, &mine, sizeof mine, e))
			return -1;
	}
	return 0;
}

int rank_watch_compare(struct rank_watch *w, struct comm *c, struct err *e)
{
	int rank = comm_rank(c), n = comm_size(c);

	if (n == 1)
		return 0;
	make_room(w, n);
	w->busy[rank] = (clock_seconds() - w->mark) - (comm_exposed_seconds(c) - w->comm_s);
	if (comm_gather(c, w->busy, sizeof *w->busy, e))
		return -1;
	for (int i = 1; i < n; i++)
		if ((rank == 0 && ask_clock(w, c, i, e)) || (rank == i && answer_clock(c, e)))
			return -1;
	w->fresh = 1;
	return 0;
}

void rank_watch_release(struct rank_watch *w)
{
	mem_free(w->busy);
	mem_free(w->clock);
	mem_free(w->bound);
	mem_free(w->slow);
	mem_free(w->off);
	*w = (struct rank_watch){0};
}

/* The median of all but one. */
static double median_of_others(const struct rank_watch *w, int but)
{
	double *others = mem_alloc((size_t)w->n * sizeof *others), m;
	int n = 0;

	for (int i = 0; i < w->n; i++)
		if (i != but)
			others[n++] = w->busy[i];
	m = median(others, n);
	mem_free(others);
	return m;
}

void rank_watch_tell(struct rank_watch *w, void (*found)(void *arg, enum rank_fault what, int rank, double value, double others), void *arg)
{
	for (int i = 0; i < w->n; i++) {
		double others = median_of_others(w, i);
		int slow = w->busy[i] > STRAGGLES * others && w->busy[i] > others + 1, off = fabs(w->clock[i]) - w->bound[i] > CLOCK_OFF;

		if (slow && !w->slow[i])
			found(arg, RANK_STRAGGLES, i, w->busy[i], others);
		if (off && !w->off[i])
			found(arg, RANK_CLOCK_OFF, i, w->clock[i], 0);
		w->slow[i] = (char)slow;
		w->off[i] = (char)off;
	}
}

json_t *rank_watch_json(const double *v, int n)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(a, jsonio_real(v[i]));
	return a;
}
