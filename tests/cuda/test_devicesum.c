/* Sums over ranks in the memory of their GPUs (train/ranksum.h, comm/devicesum.h), each rank a process with a GPU of its own: the bytes are those of
 * sums on the host. On stand-ins for CUDA and NCCL also what goes wrong: ranks that die, stand still or do not fit together. */
#include "tests/cuda/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/beside.h"
#include "comm/deviceengine.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tests/op/fakecuda.h"
#include "tests/unit/socketranks.h"
#include "train/ranksum.h"

#pragma weak fake_cuda /* there is none in a build for GPUs */

enum { SKIPPED = 77, N = 1000, CALLS = 200 };

#define WANT(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "rank %d of %d, line %d: not %s; %s %s\n", me, ranks, __LINE__, #what, r->e.msg, r->why.msg); \
			return 1; \
		} \
	} while (0)

static float number(int rank, int64_t i)
{
	return (float)(rng_uniform(5, RNG_SHUFFLE, (uint64_t)rank, (uint64_t)i, 0) - .3) * (float)(1 << (i % 20));
}

/* The sum over ranks [r, r + n), as a binary tree. */
static float tree(int r, int n, int64_t i)
{
	return n == 1 ? number(r, i) : tree(r, n / 2, i) + tree(r + n / 2, n / 2, i);
}

/* A rank in its process. */
struct rank {
	struct device *d;
	struct rank_sum sum;
	float *x; /* (N), on the device */
	float host[N];
	struct err e, why;
};

static int said[2]; /* a pipe from `stuck` */

static void stuck(void *arg, const char *why)
{
	(void)arg;
	if (write(said[1], why, strlen(why)) < 0)
		_exit(3);
}

static int skip_because(const char *why)
{
	printf("# rank %d: %s\n", me, why);
	fflush(stdout);
	return SKIPPED;
}

/* 0, or the status to end with: SKIPPED if there is no GPU for this rank, or no stand-in that can fail. */
static int open_rank(struct rank *r, struct comm *c, const char *name, int fails)
{
	const char *other = getenv("DDM_TEST_DEVICE");

	*r = (struct rank){0};
	if (other && strncmp(other, "cuda", 4) != 0)
		return SKIPPED;
	if (!(r->d = device_open_among(name, comm_rank(c), NULL, &r->e)))
		return skip_because(r->e.msg);
	if (fails && !strstr(r->d->name, "(Fake)"))
		return skip_because("only stand-ins can be made to fail");
	WANT(r->x = r->d->alloc(r->d, sizeof r->host, "a vector", &r->e));
	WANT(!rank_sum_init(&r->sum, r->d, c, N, &r->e));
	return 0;
}

static int join_by(struct rank *r, enum sum_place where, const char *engine)
{
	char *path = beside_program("nccl-engine.so", R_OK);
	int rc = rank_sum_join(&r->sum, where, engine ? engine : path ? path : "nccl-engine.so", stuck, NULL, &r->why, &r->e);

	mem_free(path);
	return rc;
}

static int finish(struct rank *r, struct comm *c)
{
	rank_sum_leave(&r->sum, 1);
	rank_sum_release(&r->sum);
	r->d->release(r->d, r->x);
	WANT(!r->d->sync(r->d, &r->e));
	device_free(r->d);
	comm_close(c);
	return 0;
}

/* Set x to this rank's numbers. */
static void draw(struct rank *r)
{
	for (int64_t i = 0; i < N; i++)
		r->host[i] = number(me, i);
	device_put(r->d, r->x, r->host, sizeof r->host);
}

static void fetch(struct rank *r)
{
	device_get(r->d, r->host, r->x, sizeof r->host);
}

/* Parts of the vector, submitted one after the other; the rest stays. */
static int sum_parts(struct rank *r)
{
	static const struct {
		int64_t at, n;
	} part[] = {{0, 1}, {1, 2}, {3, 7}, {16, 512}, {600, 333}};

	draw(r);
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		WANT(!rank_sum_add(&r->sum, r->x + part[i].at, part[i].n, &r->e));
	rank_sum_await(&r->sum);
	fetch(r);
	WANT(!rank_sum_error(&r->sum, &r->e));
	for (int64_t i = 0; i < N; i++) {
		float want = number(me, i);

		for (size_t k = 0; k < sizeof part / sizeof *part; k++)
			if (i >= part[k].at && i < part[k].at + part[k].n)
				want = tree(0, ranks, i);
		WANT(!memcmp(&r->host[i], &want, sizeof want));
	}
	return 0;
}

static int gather_numbers(struct rank *r)
{
	int64_t each = N / ranks;

	draw(r);
	WANT(!rank_sum_gather(&r->sum, r->x, each, &r->e));
	rank_sum_await(&r->sum);
	fetch(r);
	for (int64_t i = 0; i < each * ranks; i++) {
		float want = number((int)(i / each), i);

		WANT(!memcmp(&r->host[i], &want, sizeof want));
	}
	return 0;
}

/* More calls than may be unfinished at a time. */
static int sum_often(struct rank *r)
{
	const float one = 1;
	double want = 1;

	device_put(r->d, r->x, &one, sizeof one);
	for (int i = 0; i < CALLS; i++) {
		WANT(!rank_sum_add(&r->sum, r->x, 1, &r->e));
		want = want * ranks > 1e30 ? INFINITY : want * ranks;
		if (isinf(want)) {
			rank_sum_await(&r->sum);
			device_put(r->d, r->x, &one, sizeof one);
			want = 1;
		}
	}
	rank_sum_await(&r->sum);
	fetch(r);
	WANT(r->host[0] == (float)want);
	return 0;
}

static int add_all(struct rank *r, struct comm *c)
{
	WANT(!sum_parts(r) && !gather_numbers(r) && !sum_often(r));
	return finish(r, c);
}

/* Fewer GPUs than ranks, or no NCCL. */
static int cannot(const struct rank *r)
{
	return r->e.code == ERR_USAGE || strstr(r->e.msg, "NCCL cannot be opened") || strstr(r->e.msg, "this build has no engine");
}

static int on_devices(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status = open_rank(r, c, "cuda", 0);

	if (status)
		return status;
	if ((status = join_by(r, SUM_ON_DEVICE, NULL)) && cannot(r))
		return skip_because(r->e.msg);
	WANT(!status);
	WANT(r->sum.devices && strstr(rank_sum_text(&r->sum), "NCCL 2.") && strstr(rank_sum_text(&r->sum), r->d->place));
	status = add_all(r, c);
	return status;
}

static int on_hosts(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status = open_rank(r, c, "cuda:0", 0);

	if (status)
		return status;
	WANT(!join_by(r, SUM_ON_HOST, NULL) && !r->sum.devices && !r->why.code && !strcmp(rank_sum_text(&r->sum), "host"));
	return finish(r, c);
}

/* What one GPU can show of an exchange: a rank's with itself, by the engine. */
static int with_itself(struct comm *c)
{
	struct rank rank, *r = &rank;
	char *path = beside_program("nccl-engine.so", R_OK), why[COMM_DEVICE_WHY] = "";
	const struct comm_device_engine *engine;
	int status = open_rank(r, c, "cuda", 0), rc;

	if (status)
		return status;
	if ((status = join_by(r, SUM_ON_DEVICE, NULL)) && cannot(r))
		return skip_because(r->e.msg);
	WANT(!status && path);
	engine = dlsym(dlopen(path, RTLD_NOW), COMM_DEVICE_ENGINE_SYMBOL);
	draw(r);
	WANT(!engine->exchange(0, r->x, 300, r->x + 500, 300, r->d->queue(r->d, 0), why));
	while (!(rc = engine->done(why)))
		;
	WANT(rc > 0);
	fetch(r);
	for (int64_t i = 0; i < N; i++)
		WANT(r->host[i] == number(me, i >= 500 && i < 800 ? i - 500 : i));
	mem_free(path);
	return finish(r, c);
}

/* The streams of a stand-in that run ahead: none, that of the work, that of the sums, all; and random ones. */
static const struct {
	unsigned eager, odd;
} ways[] = {{0, 0}, {1, 0}, {1u << 4, 0}, {0x1f, 0}, {0, 2}};
enum { WAYS = sizeof ways / sizeof *ways, SUMS_FIRST = 2 };

/* Sums beside other work: of the lower half of x, while the upper half is written; then both are read, and written again. */
static int sum_beside(struct rank *r, float *y)
{
	const size_t half = N / 2 * sizeof *y;
	float *upper = r->x + N / 2;

	draw(r);
	WANT(!rank_sum_add(&r->sum, r->x, 300, &r->e) && !rank_sum_add(&r->sum, r->x + 300, N / 2 - 300, &r->e));
	r->d->fill(r->d, 0, upper, 0, half);
	device_put(r->d, upper, r->host, half);
	rank_sum_await(&r->sum);
	device_copy(r->d, y, r->x, sizeof r->host);
	r->d->fill(r->d, 0, r->x, 0x55, sizeof r->host);
	device_get(r->d, r->host, y, sizeof r->host);
	WANT(!rank_sum_error(&r->sum, &r->e));
	for (int64_t i = 0; i < N; i++) {
		float want = i < N / 2 ? tree(0, ranks, i) : number(me, i - N / 2);

		WANT(!memcmp(&r->host[i], &want, sizeof want));
	}
	return 0;
}

/* The same with every order of the streams. Sums that are done before the work waits for them are not exposed. */
static int beside_work(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status = open_rank(r, c, "cuda", 0);
	float *y;

	if (status)
		return status;
	if ((status = join_by(r, SUM_ON_DEVICE, NULL)) && cannot(r))
		return skip_because(r->e.msg);
	WANT(!status && (y = r->d->alloc(r->d, sizeof r->host, "a copy", &r->e)));
	for (int w = 0; w < WAYS && !status; w++) {
		double all = rank_sum_seconds(&r->sum), exposed = rank_sum_exposed_seconds(&r->sum);

		if (&fake_cuda) {
			fake_cuda.eager = ways[w].eager;
			fake_cuda.odd = ways[w].odd;
		}
		status = sum_beside(r, y);
		all = rank_sum_seconds(&r->sum) - all;
		exposed = rank_sum_exposed_seconds(&r->sum) - exposed;
		WANT(all > 0 && exposed > 0);
		WANT(!&fake_cuda || w != SUMS_FIRST || exposed < all);
	}
	if (&fake_cuda)
		fake_cuda.eager = fake_cuda.odd = 0;
	if (!status) {
		r->d->release(r->d, y);
		status = finish(r, c);
	}
	return status;
}

static int slowly(struct comm *c)
{
	setenv("STANDIN_NCCL_SLOW", "3", 1);
	return on_devices(c);
}

static int open_joined(struct rank *r, struct comm *c)
{
	int status = open_rank(r, c, "cuda", 1);

	if (status)
		return status;
	WANT(!join_by(r, SUM_WHERE_FASTEST, NULL) && r->sum.devices);
	draw(r);
	return 0;
}

/* After the first sum rank 1 is gone. */
static int dies(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status = open_joined(r, c);

	if (status)
		return status;
	WANT(!rank_sum_add(&r->sum, r->x, N, &r->e));
	if (me) {
		r->d->sync(r->d, NULL);
		_exit(9);
	}
	rank_sum_add(&r->sum, r->x, N, &r->e);
	rank_sum_await(&r->sum);
	r->e = (struct err){0};
	fetch(r); /* comes back although nothing will ever be received */
	WANT(rank_sum_error(&r->sum, &r->e) && r->e.code == ERR_UNAVAILABLE &&
	     strstr(r->e.msg, "remote process exited or there was a network error: the stand-in's connection is closed"));
	WANT(rank_sum_add(&r->sum, r->x, N, &r->e) && rank_sum_gather(&r->sum, r->x, 1, &r->e));
	rank_sum_leave(&r->sum, 0);
	return 0;
}

/* Rank 1 computes and receives, but nothing comes from it. */
static int stands_still(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status;

	if (me)
		setenv("STANDIN_NCCL_MUTE", "3", 1); /* the first sum has two exchanges */
	if ((status = open_joined(r, c)))
		return status;
	WANT(!rank_sum_add(&r->sum, r->x, N, &r->e));
	rank_sum_add(&r->sum, r->x, N, &r->e);
	rank_sum_await(&r->sum);
	r->e = (struct err){0};
	fetch(r);
	WANT(rank_sum_error(&r->sum, &r->e) &&
	     strstr(r->e.msg, "has not ended for 1.5 s (--comm-timeout): rank 1 is past it, and what its GPU sent"));
	rank_sum_leave(&r->sum, 0);
	return 0;
}

/* Stop this process. A child lets it go on. */
static void freeze(unsigned seconds)
{
	if (!fork()) {
		sleep(seconds);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	raise(SIGSTOP);
}

/* Rank 2 of four does not come to the second sum. It lives, and its thread answers; or, with `frozen`, nothing of it does. */
static int stays_away(struct comm *c, int frozen)
{
	struct rank rank, *r = &rank;
	int status;

	if ((status = open_joined(r, c)))
		return status;
	WANT(!rank_sum_add(&r->sum, r->x, N, &r->e));
	rank_sum_await(&r->sum);
	fetch(r);
	if (me == 2) {
		if (frozen)
			freeze(5);
		else
			sleep(4);
		return 7;
	}
	rank_sum_add(&r->sum, r->x, N, &r->e);
	rank_sum_await(&r->sum);
	r->e = (struct err){0};
	fetch(r);
	WANT(rank_sum_error(&r->sum, &r->e) && strstr(r->e.msg, "for 1.5 s (--comm-timeout): rank 2 "));
	WANT(strstr(r->e.msg, frozen ? "rank 2 does not answer" : "rank 2 has not come to it"));
	sleep(1); /* until the others have said so too */
	rank_sum_leave(&r->sum, 0);
	return 0;
}

static int does_not_come(struct comm *c)
{
	return stays_away(c, 0);
}

static int is_frozen(struct comm *c)
{
	return stays_away(c, 1);
}

/* The same, and the library's abort does not return: the process says so and ends. */
static int hangs(struct comm *c)
{
	if (!me)
		setenv("STANDIN_NCCL_HANG", "1", 1);
	return stands_still(c);
}

static int breaks(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status;

	setenv("STANDIN_NCCL_FAIL", "2", 1);
	if ((status = open_joined(r, c)))
		return status;
	WANT(rank_sum_add(&r->sum, r->x, N, &r->e) && r->e.code == ERR_UNAVAILABLE);
	WANT(strstr(r->e.msg, "remote process exited"));
	rank_sum_leave(&r->sum, 0);
	return 0;
}

static int hears_nobody(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status;

	setenv("STANDIN_NCCL_DEAF", "1", 1);
	if ((status = open_rank(r, c, "cuda", 1)))
		return status;
	WANT(join_by(r, SUM_WHERE_FASTEST, NULL) && r->e.code == ERR_UNAVAILABLE &&
	     strstr(r->e.msg, "rank 0: NCCL has not joined the ranks' devices within 1.5 s (--comm-timeout); --sum-on host does"));
	return 0;
}

static int shares_a_gpu(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status = open_rank(r, c, "cuda:0", 0);

	if (status)
		return status;
	if (!join_by(r, SUM_WHERE_FASTEST, NULL) && r->why.code)
		return skip_because(r->why.msg);
	WANT(r->e.code == ERR_USAGE && strstr(r->e.msg, "ranks 0 and 1 both compute on GPU ") && strstr(r->e.msg, r->d->place));
	return 0;
}

/* Sums go on, on the host; unless only devices will do. */
static int falls_back(struct rank *r, struct comm *c, const char *engine, const char *reason)
{
	WANT(!join_by(r, SUM_WHERE_FASTEST, engine) && !r->sum.devices && strstr(r->why.msg, reason));
	WANT(join_by(r, SUM_ON_DEVICE, engine) && r->e.code == ERR_UNAVAILABLE && strstr(r->e.msg, reason));
	r->e = (struct err){0};
	return finish(r, c);
}

static int other_version(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status;

	if (me)
		setenv("STANDIN_NCCL_VERSION", "22703", 1);
	if ((status = open_rank(r, c, "cuda", 1)))
		return status;
	return falls_back(r, c, NULL, "has NCCL 2.27.3 and rank 0 on ");
}

static int no_engine(struct comm *c)
{
	struct rank rank, *r = &rank;
	int status = open_rank(r, c, "cuda", 0);

	return status ? status
	              : falls_back(r, c, me ? "none/nccl-engine.so" : NULL, "rank 1: this build has no engine for sums on devices: none/nccl");
}

/* Run fn on n ranks; they must end with these statuses, that of one rank and of the others, or all be skipped. */
static void end_with_one(int n, double timeout, int (*fn)(struct comm *c), int one, int its, int others)
{
	int status[MOST], skipped = 0;

	on_ranks(n, timeout, fn, status);
	for (int r = 0; r < n; r++)
		skipped += status[r] == SKIPPED;
	if (skipped == n) {
		printf("skipped: needs cuda: %s\n", n > 1 ? "as many GPUs as ranks, or the stand-ins for CUDA and NCCL" : "a GPU");
		skip();
	}
	for (int r = 0; r < n; r++)
		assert_int_equal(status[r], r == one ? its : others);
}

static void end_with(int n, double timeout, int (*fn)(struct comm *c), int first, int others)
{
	end_with_one(n, timeout, fn, 0, first, others);
}

static void one_rank(void **state)
{
	(void)state;
	end_with(1, 60, on_devices, 0, 0);
}

static void one_rank_with_itself(void **state)
{
	(void)state;
	end_with(1, 60, with_itself, 0, 0);
}

static void two_ranks(void **state)
{
	(void)state;
	end_with(2, 60, on_devices, 0, 0);
}

static void four_ranks(void **state)
{
	(void)state;
	end_with(4, 60, on_devices, 0, 0);
}

static void beside_other_work(void **state)
{
	(void)state;
	end_with(2, 60, beside_work, 0, 0);
	end_with(4, 60, beside_work, 0, 0);
}

static void through_the_host(void **state)
{
	(void)state;
	end_with(2, 60, on_hosts, 0, 0);
}

static void calls_that_take_time(void **state)
{
	(void)state;
	end_with(2, 60, slowly, 0, 0);
}

static void a_rank_dies(void **state)
{
	(void)state;
	end_with(2, 60, dies, 0, 9);
}

static void a_rank_stands_still(void **state)
{
	(void)state;
	end_with(2, 1.5, stands_still, 0, 0);
}

static void a_rank_does_not_come(void **state)
{
	(void)state;
	end_with_one(4, 1.5, does_not_come, 2, 7, 0);
}

static void a_rank_is_frozen(void **state)
{
	(void)state;
	end_with_one(4, 1.5, is_frozen, 2, 7, 0);
}

static void an_abort_hangs(void **state)
{
	char text[400] = "";

	(void)state;
	assert_int_equal(pipe(said), 0);
	end_with(2, 1.5, hangs, ERR_UNAVAILABLE, 0);
	close(said[1]);
	assert_true(read(said[0], text, sizeof text - 1) > 0);
	assert_non_null(strstr(text, "has not ended for 1.5 s"));
	close(said[0]);
}

static void the_connection_breaks(void **state)
{
	(void)state;
	end_with(2, 60, breaks, 0, 0);
}

static void ranks_that_do_not_meet(void **state)
{
	(void)state;
	end_with(2, 1.5, hears_nobody, 0, 0);
}

static void two_ranks_on_a_gpu(void **state)
{
	(void)state;
	end_with(2, 60, shares_a_gpu, 0, 0);
}

static void two_versions(void **state)
{
	(void)state;
	end_with(2, 60, other_version, 0, 0);
}

static void one_has_no_engine(void **state)
{
	(void)state;
	end_with(2, 60, no_engine, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank),
	                                   cmocka_unit_test(one_rank_with_itself),
	                                   cmocka_unit_test(two_ranks),
	                                   cmocka_unit_test(four_ranks),
	                                   cmocka_unit_test(beside_other_work),
	                                   cmocka_unit_test(through_the_host),
	                                   cmocka_unit_test(calls_that_take_time),
	                                   cmocka_unit_test(a_rank_dies),
	                                   cmocka_unit_test(a_rank_stands_still),
	                                   cmocka_unit_test(a_rank_does_not_come),
	                                   cmocka_unit_test(a_rank_is_frozen),
	                                   cmocka_unit_test(an_abort_hangs),
	                                   cmocka_unit_test(the_connection_breaks),
	                                   cmocka_unit_test(ranks_that_do_not_meet),
	                                   cmocka_unit_test(two_ranks_on_a_gpu),
	                                   cmocka_unit_test(two_versions),
	                                   cmocka_unit_test(one_has_no_engine)};

	remote_filter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
