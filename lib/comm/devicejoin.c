/* Joins the devices of the ranks, and leaves them. Before the engine's library is asked for anything that involves other ranks, all ranks know
 * whether each of them can take part: the library would hang or fail with a message that names nobody. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/devicesumimpl.h"
#include "comm/hosts.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/thread.h"

/* What a rank tells the others of itself. */
struct device_fact {
	enum { FACT_NOT_MEANT, FACT_REFUSES, FACT_READY } state;
	int number; /* of the engine's library, which is called `library` */
	char library[16];
	struct comm_host host;
	char place[32], why[COMM_DEVICE_WHY];
};

static void number_text(char text[32], int number)
{
	snprintf(text, 32, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
}

static const struct comm_device_engine *load(const char *path, char *why)
{
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct comm_device_engine *engine = so ? dlsym(so, COMM_DEVICE_ENGINE_SYMBOL) : NULL;

	if (!engine)
		snprintf(why, COMM_DEVICE_WHY, "this build has no engine for sums on devices: %s", dlerror());
	else if (engine->version != COMM_DEVICE_ENGINE_VERSION)
		snprintf(why, COMM_DEVICE_WHY, "%s is of another build of ddm", path);
	return *why ? NULL : engine;
}

static void find_out(struct comm_devices *d, const char *engine_path, struct device_fact *f)
{
	comm_host_get(&f->host);
	if (d->own.refusal) {
		snprintf(f->why, sizeof f->why, "%s", d->own.refusal);
		f->state = *f->why ? FACT_REFUSES : FACT_NOT_MEANT;
		return;
	}
	snprintf(f->place, sizeof f->place, "%s", d->own.place);
	if ((d->engine = load(engine_path, f->why)))
		snprintf(f->library, sizeof f->library, "%s", d->engine->name);
	f->state = d->engine && !d->engine->open(&f->number, f->why) ? FACT_READY : FACT_REFUSES;
}

/* Returns as comm_devices_open; the same on all ranks. */
static int judge(const struct device_fact *all, int n, struct err *e)
{
	int meant = 0;

	for (int r = 0; r < n; r++)
		meant += all[r].state != FACT_NOT_MEANT;
	if (!meant)
		return 1;
	for (int r = 0; r < n; r++) {
		char mine[32], first[32];

		if (all[r].state != FACT_READY) {
			err_set(e, ERR_UNAVAILABLE, "rank %d: %s", r, *all[r].why ? all[r].why : "it adds on the host");
			return 1;
		}
		number_text(mine, all[r].number);
		number_text(first, all[0].number);
		if (all[r].number != all[0].number) {
			err_set(e, ERR_UNAVAILABLE, "rank %d on %s has %s %s and rank 0 on %s has %s; they need the same", r, all[r].host.name,
			        all[r].library, mine, all[0].host.name, first);
			return 1;
		}
	}
	for (int r = 0; r < n; r++)
		for (int s = 0; s < r; s++)
			if (comm_host_same(&all[r].host, &all[s].host) && !strcmp(all[r].place, all[s].place))
				return err_set(
				    e, ERR_USAGE,
				    "ranks %d and %d both compute on GPU %s of %s, and each rank needs one of its own: start fewer ranks, or add on "
				    "the host (--sum-on host)",
				    s, r, all[r].place, all[r].host.name);
	return 0;
}

static void describe(struct comm_devices *d, const struct device_fact *all)
{
	char number[32];

	number_text(number, all[0].number);
	str_printf(&d->text, "%s %s:", d->engine->name, number);
	for (int r = 0; r < comm_size(d->comm); r++)
		str_printf(&d->text, "%s rank %d on %s %s", r ? "," : "", r, all[r].host.name, all[r].place);
}

static int wait_engine(struct comm_devices *d, const char *what, struct err *e)
{
	double since = clock_seconds();
	char why[COMM_DEVICE_WHY] = "";
	int rc;

	while (!(rc = d->engine->done(why))) {
		const struct timespec pause = {.tv_nsec = 1000000};

		if (clock_seconds() - since > d->timeout)
			return err_set(e, ERR_UNAVAILABLE, "%s has not %s within %g s (--comm-timeout)", d->engine->name, what, d->timeout);
		nanosleep(&pause, NULL);
	}
	return rc > 0 ? 0 : err_set(e, ERR_UNAVAILABLE, "%s has not %s: %s", d->engine->name, what, why);
}

static int join(struct comm_devices *d, struct err *e)
{
	char invitation[COMM_DEVICE_INVITATION] = "", why[COMM_DEVICE_WHY] = "";
	int rank = comm_rank(d->comm), rc = 0;

	if (!rank && d->engine->invite(invitation, why))
		rc = err_set(e, ERR_UNAVAILABLE, "%s: %s", d->engine->name, why);
	if (comm_agree(d->comm, rc, e) || comm_share(d->comm, invitation, sizeof invitation, e))
		return -1;
	if (d->engine->join(rank, comm_size(d->comm), invitation, why))
		rc = err_set(e, ERR_UNAVAILABLE, "%s cannot join the ranks' devices: %s", d->engine->name, why);
	else
		rc = wait_engine(d, "joined the ranks' devices", e);
	return comm_agree(d->comm, rc, e);
}

static int make_calls(struct comm_devices *d, struct err *e)
{
	int made = (d->mark = d->own.event_new(d->own.arg)) != NULL;

	for (int i = 0; i < DEVICE_CALLS && made; i++) {
		struct device_call *call = &d->call[i];
		struct device_wait *wait = &d->wait[i];

		made = (call->begin = d->own.event_new(d->own.arg)) && (call->end = d->own.event_new(d->own.arg)) &&
		       (wait->from = d->own.event_new(d->own.arg)) && (wait->to = d->own.event_new(d->own.arg));
	}
	return made ? 0 : err_set(e, ERR_UNAVAILABLE, "the device makes no events");
}

static struct comm_devices *devices_new(struct comm *c, const struct comm_device *mine)
{
	struct comm_devices *d = mem_zalloc(1, sizeof *d);

	d->comm = c;
	d->own = *mine;
	d->timeout = comm_timeout(c);
	pthread_mutex_init(&d->calling, NULL);
	pthread_mutex_init(&d->lock, NULL);
	condition_init(&d->changed);
	return d;
}

/* A thread that hangs in the engine's abort may still use what this would free, so then nobody comes here. */
static void devices_free(struct comm_devices *d)
{
	for (int i = 0; i < DEVICE_CALLS; i++) {
		void *const event[] = {d->call[i].begin, d->call[i].end, d->wait[i].from, d->wait[i].to};

		for (int k = 0; k < 4; k++)
			if (event[k])
				d->own.event_free(d->own.arg, event[k]);
	}
	if (d->mark)
		d->own.event_free(d->own.arg, d->mark);
	pthread_mutex_destroy(&d->calling);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->changed);
	str_release(&d->text);
	mem_free(d);
}

/* All ranks come here together. They leave at once what was begun if one of them cannot go on. */
static int join_and_watch(struct comm_devices *d, struct err *e)
{
	if (join(d, e))
		return -1;
	return comm_agree(d->comm, make_calls(d, e) || device_watch_begin(d, e) ? -1 : 0, e);
}

int comm_devices_open(struct comm_devices **devices, struct comm *c, const struct comm_device *mine, const char *engine_path, struct err *e)
{
	struct comm_devices *d = devices_new(c, mine);
	struct device_fact *all = mem_zalloc((size_t)comm_size(c), sizeof *all);
	int rc;

	find_out(d, engine_path, &all[comm_rank(c)]);
	rc = comm_gather(c, all, sizeof *all, e) ? -1 : judge(all, comm_size(c), e);
	if (rc < 0 && !comm_is_lost(c))
		comm_agree(c, rc, e);
	*devices = NULL;
	if (rc) {
		devices_free(d);
	} else {
		describe(d, all);
		if (!(rc = join_and_watch(d, e)))
			*devices = d;
		else
			comm_devices_close(d, 0);
	}
	mem_free(all);
	return rc;
}

/* Whether the engine has let this rank go. Nobody watches any more, who would take the released communicator for a lost one. */
static int has_left(struct comm_devices *d)
{
	char why[COMM_DEVICE_WHY] = "";
	struct err e = {0};

	device_watch_end(d);
	if (comm_devices_error(d, &e) || d->engine->leave(why) || wait_engine(d, "left the ranks' devices", &e))
		return 0;
	d->engine->release();
	return 1;
}

void comm_devices_close(struct comm_devices *d, int together)
{
	if (!d)
		return;
	if (comm_devices_error(d, NULL) || comm_is_lost(d->comm) || !together || !has_left(d)) {
		device_fail(d, NULL, "%s's work was ended before its time", d->engine->name);
		device_wait_aborted(d);
		device_watch_end(d);
	}
	devices_free(d);
}
