/* Collective calls over exchanges between two ranks. */
#include "comm/comm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/commimpl.h"
#include "comm/halves.h"
#include "core/clock.h"
#include "core/mem.h"

int comm_rank(const struct comm *c)
{
	return c ? c->rank : 0;
}

int comm_size(const struct comm *c)
{
	return c ? c->size : 1;
}

const char *comm_engine_name(const struct comm *c)
{
	return c ? c->engine->name : "none";
}

const char *comm_network(const struct comm *c)
{
	return c && c->network ? c->network : "none";
}

void comm_name_network(struct comm *c, const char *network)
{
	mem_free(c->network);
	c->network = mem_strdup(network);
}

int comm_waits_for(const struct comm *c)
{
	return c ? atomic_load(&c->peer) - 1 : -1;
}

double comm_timeout(const struct comm *c)
{
	return c->timeout;
}

uint64_t comm_sent(const struct comm *c)
{
	return c ? c->sent : 0;
}

double comm_seconds(const struct comm *c)
{
	return c ? c->seconds : 0;
}

double comm_exposed_seconds(const struct comm *c)
{
	return c ? c->seconds - c->hidden : 0;
}

void comm_count_hidden(struct comm *c, double seconds)
{
	c->hidden += seconds;
}

struct comm *comm_open_engine(const struct comm_engine *engine, double timeout, struct err *e)
{
	struct comm *c = mem_zalloc(1, sizeof *c);
	char why[COMM_ENGINE_WHY] = "";

	*c = (struct comm){.engine = engine, .timeout = timeout};
	if (engine->start(&c->rank, &c->size, why)) {
		err_set(e, ERR_UNAVAILABLE, "cannot join the other ranks by %s: %s", engine->name, why);
		mem_free(c);
		return NULL;
	}
	c->met = mem_zalloc((size_t)c->size, sizeof *c->met);
	c->answer = mem_zalloc((size_t)c->size, sizeof *c->answer);
	pthread_mutex_init(&c->calling, NULL);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

int comm_can_sum(int ranks, struct err *e)
{
	return ranks & (ranks - 1)
	           ? err_set(e, ERR_USAGE, "%d ranks: the number of ranks must be a power of two, so that their sums do not depend on it", ranks)
	           : 0;
}

struct comm *comm_open(const char *engine_path, double timeout, struct err *e)
{
	void *library = dlopen(engine_path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI opens parts of its own that look for its symbols */
	const struct comm_engine *engine = library ? dlsym(library, COMM_ENGINE_SYMBOL) : NULL;

	if (!engine) {
		err_set(e, ERR_UNAVAILABLE, "several ranks were started, and MPI's engine cannot be loaded: %s", dlerror());
		return NULL;
	}
	if (engine->version != COMM_ENGINE_VERSION) {
		err_set(e, ERR_UNAVAILABLE, "%s is of another build of ddm", engine_path);
		return NULL;
	}
	return comm_open_engine(engine, timeout, e);
}

/* Another thread may hang in the engine, so it is not waited for long. */
void comm_abort(struct comm *c, int code)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec++;
	pthread_mutex_timedlock(&c->calling, &soon);
	c->engine->end(code);
}

/* What has failed stays, and every later call fails with it. */
static int say_failure(const struct comm *c, struct err *e)
{
	return err_set(e, c->failed.code, "%s", c->failed.msg);
}

static int lost(struct comm *c, int peer, const char *why, struct err *e)
{
	err_set(&c->failed, ERR_UNAVAILABLE, "rank %d is lost: %s", peer, why);
	return say_failure(c, e);
}

static int silent(struct comm *c, int rank, int peer, struct err *e)
{
	char through[100] = "";

	comm_tell_culprit(c, rank, 0);
	if (rank != peer)
		snprintf(through, sizeof through, "; this rank waits for rank %d", peer);
	err_set(&c->failed, ERR_UNAVAILABLE, "rank %d has not answered for %g s (--comm-timeout)%s", rank, c->timeout, through);
	return say_failure(c, e);
}

static int is_done(struct comm *c, char *why)
{
	int rc;

	pthread_mutex_lock(&c->calling);
	rc = c->engine->done(why);
	pthread_mutex_unlock(&c->calling);
	return rc;
}

/* Wait for the exchange with `peer`. The first tries are made at once, because most exchanges between processes of a machine take microseconds; then
 * the processor is left to others between two tries, and this rank says that it waits to those that ask. A long pause between two tries means that
 * this process itself was stopped, and counts for PAUSE of the time limit at most. */
#define PAUSE .25
static int wait_for(struct comm *c, int peer, struct err *e)
{
	enum { AT_ONCE = 200, SHORT_NS = 20000, LONG_NS = 500000, SHORT_TRIES = 2000, LISTEN_EACH = 16 };
	double last = clock_seconds(), waited = 0;
	char why[COMM_ENGINE_WHY] = "";
	int rc, asked = c->patient;

	for (int64_t tries = 0; !(rc = is_done(c, why)); tries++) {
		struct timespec t = {.tv_nsec = tries < SHORT_TRIES ? SHORT_NS : LONG_NS};
		double now, pause;

		if (tries < AT_ONCE)
			continue;
		nanosleep(&t, NULL);
		if (tries % LISTEN_EACH == 0)
			comm_listen(c);
		now = clock_seconds();
		pause = now - last;
		waited += pause < PAUSE * c->timeout ? pause : PAUSE * c->timeout;
		last = now;
		if (!asked && waited > ROLL_CALL_AFTER * c->timeout) {
			asked = 1;
			comm_ask(c);
		}
		if (!c->patient && waited > c->timeout)
			return silent(c, comm_culprit(c, peer), peer, e);
	}
	return rc < 0 ? lost(c, peer, why, e) : 0;
}

/* Send to and receive from `peer`, in pieces, because MPI counts bytes in an int. */
static int exchange(struct comm *c, int peer, const char *out, size_t out_bytes, char *in, size_t in_bytes, struct err *e)
{
	const size_t piece = 1 << 30, most = out_bytes > in_bytes ? out_bytes : in_bytes;
	char why[COMM_ENGINE_WHY] = "";

	if (c->failed.code)
		return say_failure(c, e);
	for (size_t at = 0; at < most; at += piece) {
		size_t send = at < out_bytes ? out_bytes - at : 0, receive = at < in_bytes ? in_bytes - at : 0;

		send = send < piece ? send : piece;
		receive = receive < piece ? receive : piece;
		int failed;

		pthread_mutex_lock(&c->calling);
		failed = c->engine->begin(peer, send ? out + at : NULL, send, receive ? in + at : NULL, receive, why);
		pthread_mutex_unlock(&c->calling);
		if (failed)
			return lost(c, peer, why, e);
		atomic_store(&c->peer, 1 + peer);
		if (wait_for(c, peer, e))
			return -1;
		atomic_store(&c->peer, 0);
	}
	c->sent += out_bytes;
	c->met[peer] = clock_seconds();
	return 0;
}

int comm_place(int rank, int ranks)
{
	int place = 0;

	for (int bit = 1; bit < ranks; bit *= 2)
		place = 2 * place + (rank / bit & 1);
	return place;
}

static int sum_shares(struct comm *c, float *x, const int64_t *cut, float *scratch, struct err *e)
{
	for (int l = 0; 1 << l < c->size; l++) {
		struct range mine, other;

		halves(c->rank, c->size, cut, l, &mine, &other);
		if (exchange(c, c->rank ^ (1 << l), (char *)(x + other.lo), bytes_of(other), (char *)scratch, bytes_of(mine), e))
			return -1;
		for (int64_t i = 0; i < mine.hi - mine.lo; i++)
			x[mine.lo + i] += scratch[i];
	}
	return 0;
}

static int gather_shares(struct comm *c, float *x, const int64_t *cut, struct err *e)
{
	for (int l = levels_of(c->size) - 1; l >= 0; l--) {
		struct range mine, other;

		halves(c->rank, c->size, cut, l, &mine, &other);
		if (exchange(c, c->rank ^ (1 << l), (char *)(x + mine.lo), bytes_of(mine), (char *)(x + other.lo), bytes_of(other), e))
			return -1;
	}
	return 0;
}

int comm_sum_shares(struct comm *c, float *x, const int64_t *cut, float *scratch, struct err *e)
{
	double since = clock_seconds();
	int rc = c ? sum_shares(c, x, cut, scratch, e) : 0;

	if (c)
		c->seconds += clock_seconds() - since;
	return rc;
}

int comm_gather_shares(struct comm *c, float *x, const int64_t *cut, struct err *e)
{
	double since = clock_seconds();
	int rc = c ? gather_shares(c, x, cut, e) : 0;

	if (c)
		c->seconds += clock_seconds() - since;
	return rc;
}

int64_t *comm_equal_cut(int ranks, int64_t n)
{
	int64_t *cut = mem_alloc(((size_t)ranks + 1) * sizeof *cut);

	for (int p = 0; p <= ranks; p++)
		cut[p] = n / ranks * p + n % ranks * p / ranks;
	return cut;
}

int comm_sum(struct comm *c, float *x, int64_t n, float *scratch, struct err *e)
{
	int64_t *cut = comm_equal_cut(comm_size(c), n);
	int rc = comm_sum_shares(c, x, cut, scratch, e) || comm_gather_shares(c, x, cut, e) ? -1 : 0;

	mem_free(cut);
	return rc;
}

uint64_t comm_sum_shares_bytes(int rank, int ranks, const int64_t *cut)
{
	int p = comm_place(rank, ranks);

	return sizeof(float) * (uint64_t)(cut[ranks] - cut[0] - (cut[p + 1] - cut[p]));
}

uint64_t comm_gather_shares_bytes(int rank, int ranks, const int64_t *cut)
{
	uint64_t bytes = 0;

	for (int l = 0; 1 << l < ranks; l++)
		bytes += bytes_of(range_at(rank, ranks, cut, l + 1));
	return bytes;
}

uint64_t comm_sum_bytes(int rank, int ranks, int64_t n)
{
	int64_t *cut = comm_equal_cut(ranks, n);
	uint64_t bytes = comm_sum_shares_bytes(rank, ranks, cut) + comm_gather_shares_bytes(rank, ranks, cut);

	mem_free(cut);
	return bytes;
}

/* A binomial tree: at each level the ranks that have the bytes send them to as many that do not. */
static int share_ranks(struct comm *c, void *x, size_t bytes, struct err *e)
{
	for (int have = 1; have < c->size; have *= 2) {
		if (c->rank < have && c->rank + have < c->size && exchange(c, c->rank + have, x, bytes, NULL, 0, e))
			return -1;
		if (c->rank >= have && c->rank < 2 * have && exchange(c, c->rank - have, NULL, 0, x, bytes, e))
			return -1;
	}
	return 0;
}

/* Rank 0 receives the bytes of each rank in turn, and shares them all. */
static int gather_ranks(struct comm *c, char *all, size_t bytes, struct err *e)
{
	if (c->rank && exchange(c, 0, all + (size_t)c->rank * bytes, bytes, NULL, 0, e))
		return -1;
	for (int r = 1; r < c->size && !c->rank; r++)
		if (exchange(c, r, NULL, 0, all + (size_t)r * bytes, bytes, e))
			return -1;
	return share_ranks(c, all, (size_t)c->size * bytes, e);
}

uint64_t comm_gather_bytes(int rank, int ranks, size_t bytes)
{
	uint64_t sent = rank ? bytes : 0;

	for (int have = 1; have < ranks; have *= 2) /* as share_ranks does */
		if (rank < have && rank + have < ranks)
			sent += (uint64_t)ranks * bytes;
	return sent;
}

int comm_gather(struct comm *c, void *all, size_t bytes, struct err *e)
{
	double since = clock_seconds();
	int rc = c ? gather_ranks(c, all, bytes, e) : 0;

	if (c)
		c->seconds += clock_seconds() - since;
	return rc;
}

int comm_share(struct comm *c, void *x, size_t bytes, struct err *e)
{
	double since = clock_seconds();
	int rc = c ? share_ranks(c, x, bytes, e) : 0;

	if (c)
		c->seconds += clock_seconds() - since;
	return rc;
}

int comm_send(struct comm *c, int peer, const void *x, size_t bytes, struct err *e)
{
	double since = clock_seconds();
	int rc = exchange(c, peer, x, bytes, NULL, 0, e);

	c->seconds += clock_seconds() - since;
	return rc;
}

int comm_receive(struct comm *c, int peer, void *x, size_t bytes, struct err *e)
{
	double since = clock_seconds();
	int rc = exchange(c, peer, NULL, 0, x, bytes, e);

	c->seconds += clock_seconds() - since;
	return rc;
}

int comm_arrived(struct comm *c, int peer, struct err *e)
{
	char why[COMM_ENGINE_WHY] = "";
	int rc;

	pthread_mutex_lock(&c->calling);
	rc = c->engine->arrived(peer, why);
	pthread_mutex_unlock(&c->calling);
	return rc < 0 ? lost(c, peer, why, e) : rc;
}

int comm_overdue(struct comm *c, int peer, struct err *e)
{
	return clock_seconds() - c->met[peer] > c->timeout ? silent(c, peer, peer, e) : 0;
}

void comm_be_patient(struct comm *c, int patient)
{
	c->patient = patient;
}

int comm_is_lost(const struct comm *c)
{
	return c && c->failed.code;
}

int comm_agree(struct comm *c, int rc, struct err *e)
{
	struct err *all;

	if (!c)
		return rc;
	all = mem_zalloc((size_t)c->size, sizeof *all);
	if (rc)
		all[c->rank] = *e;
	*e = (struct err){0};
	rc = comm_gather(c, all, sizeof *all, e);
	for (int r = 0; r < c->size && !rc; r++)
		if (all[r].code) {
			c->together = 1;
			rc = err_set(e, all[r].code, "rank %d: %.900s", r, all[r].msg);
		}
	mem_free(all);
	return rc;
}

/* Rank 0 shares a text. Caller frees with mem_free. */
static int share_text(struct comm *c, const char *mine, char **text, struct err *e)
{
	uint64_t n = strlen(mine) + 1;

	if (comm_share(c, &n, sizeof n, e))
		return -1;
	*text = mem_zalloc(n, 1);
	if (comm_rank(c) == 0)
		memcpy(*text, mine, n);
	return comm_share(c, *text, n, e);
}

int comm_agree_stamp(struct comm *c, const char *build, const char *stamp, int (*differs)(const char *now, const char *line, struct str *what),
                     struct err *e)
{
	char *first_build = NULL, *first = NULL;
	struct str what = {0};
	struct err own = {0};
	int rc;

	if (!c)
		return 0;
	rc = share_text(c, build, &first_build, e) || share_text(c, stamp, &first, e) ? -1 : 0;
	if (!rc && strcmp(build, first_build) != 0)
		err_set(&own, ERR_EXISTS, "this is another build of ddm than rank 0's");
	else if (!rc && strcmp(stamp, first) != 0)
		err_set(&own, ERR_EXISTS, "started with other options or inputs than rank 0: %s",
		        differs(stamp, first, &what) ? what.p : "its stamp");
	if (!rc && comm_agree(c, own.code ? -1 : 0, &own))
		rc = err_set(e, own.code, "%s", own.msg);
	str_release(&what);
	mem_free(first_build);
	mem_free(first);
	return rc;
}

int comm_has_failed_together(const struct comm *c)
{
	return c && c->together;
}

void comm_close(struct comm *c)
{
	char all[4096] = {0};

	if (!c)
		return;
	if (!c->failed.code && c->size <= (int)sizeof all)
		comm_gather(c, all, 1, NULL);
	if (c->failed.code)
		comm_abort(c, ERR_UNAVAILABLE);
	comm_listen(c); /* questions that were asked too late */
	c->engine->stop();
	pthread_mutex_destroy(&c->calling);
	pthread_mutex_destroy(&c->lock);
	mem_free(c->network);
	mem_free(c->answer);
	mem_free(c->met);
	mem_free(c);
}
