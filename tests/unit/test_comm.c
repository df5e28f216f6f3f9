/* Collective calls of ranks, over sockets between child processes: sums in the order of one binary tree, copies, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/background.h"
#include "comm/comm.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "socketranks.h"

static const int64_t lengths[] = {0, 1, 2, 7, 4096, 100003};

static float number(int rank, int64_t i)
{
	return (float)(rng_uniform(5, RNG_SHUFFLE, (uint64_t)rank, (uint64_t)i, 0) - .3) * (float)(1 << (i % 20));
}

/* The sum over ranks [r, r + n), as a binary tree. */
static float tree(int r, int n, int64_t i)
{
	return n == 1 ? number(r, i) : tree(r, n / 2, i) + tree(r + n / 2, n / 2, i);
}

static int sums(struct comm *c)
{
	struct err e = {0};

	for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
		int64_t n = lengths[l];
		float *x = mem_alloc((size_t)(n + 1) * sizeof *x), *scratch = mem_alloc((size_t)(n + 2) / 2 * sizeof *x);
		uint64_t before = comm_sent(c), most = (uint64_t)(2 * n + 64) * sizeof *x;

		for (int64_t i = 0; i < n; i++)
			x[i] = number(comm_rank(c), i);
		x[n] = 42;
		if (comm_sum(c, x, n, scratch, &e) || x[n] != 42)
			return 1;
		for (int64_t i = 0; i < n; i++) {
			float want = tree(0, comm_size(c), i);

			if (memcmp(&x[i], &want, sizeof want) != 0)
				return 2;
		}
		if (comm_sent(c) - before > most) /* 2 (R - 1) / R of the vector */
			return 3;
		if (comm_sent(c) - before != comm_sum_bytes(comm_rank(c), comm_size(c), n))
			return 4;
		mem_free(x);
		mem_free(scratch);
	}
	comm_close(c);
	return 0;
}

static void sum_is_a_tree(void **state)
{
	(void)state;
	all_end_with(1, 0, sums);
	all_end_with(2, 0, sums);
	all_end_with(4, 0, sums);
	all_end_with(8, 0, sums);
}

/* Unequal cuts of [3, 3 + n): the last place has most, the first nothing. */
static void cut_unequally(int64_t *cut, int n_ranks, int64_t n)
{
	for (int p = 0; p <= n_ranks; p++)
		cut[p] = 3 + (p < 2 && n_ranks > 1 ? 0 : n * p * p / (n_ranks * n_ranks));
}

static int64_t larger_half(const int64_t *cut, int n_ranks)
{
	int64_t lower = cut[n_ranks / 2] - cut[0], upper = cut[n_ranks] - cut[n_ranks / 2];

	return lower > upper ? lower : upper;
}

/* Whether x[i] is the sum over all ranks, for i in [from, end). */
static int are_sums(const float *x, int64_t from, int64_t end)
{
	for (int64_t i = from; i < end; i++) {
		float want = tree(0, ranks, i);

		if (memcmp(&x[i], &want, sizeof want) != 0)
			return 0;
	}
	return 1;
}

/* The halves of a sum: each rank has its share of the sum, then all have everything. Nothing outside the cuts is touched, and both calls send as many
 * bytes as is foretold. */
static int shares(struct comm *c)
{
	struct err e = {0};
	int rank = comm_rank(c), size = comm_size(c), place = comm_place(rank, size);

	for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
		int64_t n = lengths[l], cut[MOST + 1];
		float *x = mem_alloc((size_t)(n + 7) * sizeof *x), *scratch;
		uint64_t before = comm_sent(c);

		cut_unequally(cut, size, n);
		scratch = mem_alloc((size_t)larger_half(cut, size) * sizeof *scratch);
		for (int64_t i = 0; i < n + 7; i++)
			x[i] = number(rank, i);
		if (comm_sum_shares(c, x, cut, scratch, &e) || !are_sums(x, cut[place], cut[place + 1]))
			return 1;
		if (comm_sent(c) - before != comm_sum_shares_bytes(rank, size, cut))
			return 2;
		before = comm_sent(c);
		if (comm_gather_shares(c, x, cut, &e) || !are_sums(x, cut[0], cut[size]))
			return 3;
		if (comm_sent(c) - before != comm_gather_shares_bytes(rank, size, cut))
			return 4;
		for (int64_t i = 0; i < n + 7; i++)
			if ((i < cut[0] || i >= cut[size]) && x[i] != number(rank, i))
				return 5;
		mem_free(x);
		mem_free(scratch);
	}
	comm_close(c);
	return 0;
}

static void a_sum_has_two_halves(void **state)
{
	(void)state;
	all_end_with(1, 0, shares);
	all_end_with(2, 0, shares);
	all_end_with(4, 0, shares);
	all_end_with(8, 0, shares);
}

enum { BUCKETS = 5, BUCKET = 9000 };

static struct bucket {
	float *x, *scratch;
} bucket[BUCKETS];

static int sum_bucket(struct comm *c, void *arg, struct err *e)
{
	struct bucket *b = arg;

	return comm_sum(c, b->x, BUCKET, b->scratch, e);
}

/* Buckets of one vector, summed in a thread while this one makes the next: the same bytes as in one call. Rank 0 begins at once, so its thread waits
 * for the others, who begin later, while it still makes buckets: seconds that are hidden. */
static int sums_in_background(struct comm *c)
{
	struct err e = {0};
	struct comm_background *b = comm_background_new(c);
	float *x = mem_alloc(BUCKETS * BUCKET * sizeof *x), *scratch = mem_alloc(BUCKET * sizeof *scratch);

	for (int round = 0; round < 3; round++) {
		if (comm_rank(c))
			usleep(40000);
		for (int k = 0; k < BUCKETS; k++) {
			for (int64_t i = k * BUCKET; i < (k + 1) * BUCKET; i++)
				x[i] = number(comm_rank(c), i);
			bucket[k] = (struct bucket){x + k * BUCKET, scratch};
			comm_background_put(b, sum_bucket, &bucket[k]);
			if (k < BUCKETS - 1)
				usleep(comm_rank(c) ? 1000 : 30000);
		}
		if (comm_background_wait(b, &e) || !are_sums(x, 0, BUCKETS * BUCKET))
			return 1;
	}
	if (comm_size(c) > 1 && !comm_rank(c) && !(comm_exposed_seconds(c) < comm_seconds(c)))
		return 2;
	if (comm_exposed_seconds(c) < 0 || comm_background_wait(b, &e))
		return 3;
	comm_background_free(b);
	mem_free(x);
	mem_free(scratch);
	comm_close(c);
	return 0;
}

/* Rank 1 ends after the first bucket: the wait says so, and so does each later one. */
static int loses_one_in_background(struct comm *c)
{
	struct err e = {0}, again = {0};
	struct comm_background *b = comm_background_new(c);
	float x[2][BUCKET] = {{0}}, scratch[BUCKET];

	for (int k = 0; k < 2; k++) {
		bucket[k] = (struct bucket){x[k], scratch};
		comm_background_put(b, sum_bucket, &bucket[k]);
		if (comm_rank(c) == 1 && !comm_background_wait(b, &e))
			return 9;
	}
	if (!comm_background_wait(b, &e) || e.code != ERR_UNAVAILABLE || strcmp(e.msg, "rank 1 is lost: its socket is closed") != 0)
		return 1;
	comm_background_put(b, sum_bucket, &bucket[0]);
	if (!comm_background_wait(b, &again) || again.code != ERR_UNAVAILABLE)
		return 2;
	comm_background_free(b);
	comm_abort(c, ERR_UNAVAILABLE);
}

static void sums_while_computing(void **state)
{
	int status[MOST];

	(void)state;
	all_end_with(1, 0, sums_in_background);
	all_end_with(2, 0, sums_in_background);
	all_end_with(4, 0, sums_in_background);
	on_ranks(2, 30, loses_one_in_background, status);
	assert_int_equal(status[0], ERR_UNAVAILABLE);
	assert_int_equal(status[1], 9);
}

static int copies(struct comm *c)
{
	struct err e = {0};
	char text[40] = "", all[MOST][16];
	uint64_t before;

	if (!comm_rank(c))
		snprintf(text, sizeof text, "from rank 0");
	if (comm_share(c, text, sizeof text, &e) || strcmp(text, "from rank 0") != 0)
		return 1;
	snprintf(all[comm_rank(c)], sizeof *all, "r%d", comm_rank(c));
	before = comm_sent(c);
	if (comm_gather(c, all, sizeof *all, &e))
		return 2;
	if (comm_sent(c) - before != comm_gather_bytes(comm_rank(c), comm_size(c), sizeof *all))
		return 4;
	for (int r = 0; r < comm_size(c); r++) {
		char want[16];

		snprintf(want, sizeof want, "r%d", r);
		if (strcmp(all[r], want) != 0)
			return 3;
	}
	comm_close(c);
	return 0;
}

static void share_and_gather(void **state)
{
	(void)state;
	all_end_with(2, 0, copies);
	all_end_with(3, 0, copies);
	all_end_with(7, 0, copies);
	all_end_with(8, 0, copies);
}

/* Ranks 2 and 3 fail: all have the error of rank 2, and leave together. */
static int disagree(struct comm *c)
{
	struct err e = {0};
	int rc = comm_rank(c) >= 2 ? err_set(&e, ERR_DATA + comm_rank(c) - 2, "no shards for %d", comm_rank(c)) : 0;

	if (!comm_agree(c, rc, &e) || !comm_has_failed_together(c) || e.code != ERR_DATA || strcmp(e.msg, "rank 2: no shards for 2") != 0)
		return 1;
	comm_close(c);
	return 0;
}

static int agree(struct comm *c)
{
	struct err e = {0};

	if (comm_agree(c, 0, &e) || e.code || comm_has_failed_together(c))
		return 1;
	comm_close(c);
	return 0;
}

static void failures_are_shared(void **state)
{
	(void)state;
	all_end_with(4, 0, disagree);
	all_end_with(4, 0, agree);
}

/* Rank 1 ends; rank 0 names it. */
static int lose_one(struct comm *c)
{
	struct err e = {0};
	char all[2] = {0};

	if (comm_rank(c) == 1)
		return 9;
	if (!comm_gather(c, all, 1, &e) || e.code != ERR_UNAVAILABLE || strcmp(e.msg, "rank 1 is lost: its socket is closed") != 0)
		return 1;
	comm_abort(c, ERR_UNAVAILABLE);
}

/* Rank 1 does not answer in time. */
static int wait_in_vain(struct comm *c)
{
	struct err e = {0};
	char all[2] = {0};

	if (comm_rank(c) == 1)
		sleep(2);
	if (comm_rank(c) == 1)
		return 9;
	if (!comm_gather(c, all, 1, &e) || e.code != ERR_UNAVAILABLE || strcmp(e.msg, "rank 1 has not answered for 0.2 s (--comm-timeout)") != 0)
		return 1;
	comm_close(c); /* no exchange is tried, and the process ends */
	return 2;
}

static void a_rank_is_lost(void **state)
{
	int status[MOST];

	(void)state;
	on_ranks(2, 30, lose_one, status);
	assert_int_equal(status[0], ERR_UNAVAILABLE);
	on_ranks(2, .2, wait_in_vain, status);
	assert_int_equal(status[0], ERR_UNAVAILABLE);
}

static int refused(struct comm *c)
{
	struct err e = {0};

	return !comm_can_sum(comm_size(c), &e) || e.code != ERR_USAGE;
}

static void sums_of_three_are_refused(void **state)
{
	(void)state;
	all_end_with(3, 0, refused);
}

/* Each rank but the first waits patiently, beyond the time limit, for a number from rank 0, and sends it back. */
static int echo(struct comm *c)
{
	struct err e = {0};
	int32_t x = 0;

	if (comm_rank(c)) {
		comm_be_patient(c, 1);
		if (comm_receive(c, 0, &x, sizeof x, &e) || x != 7 * comm_rank(c) || comm_send(c, 0, &x, sizeof x, &e))
			return 1;
		comm_be_patient(c, 0);
	} else {
		usleep(300000);
		for (int r = 1; r < comm_size(c); r++) {
			int32_t y = 7 * r;

			if (comm_send(c, r, &y, sizeof y, &e) || comm_receive(c, r, &x, sizeof x, &e) || x != y)
				return 2;
		}
	}
	if (comm_is_lost(c))
		return 3;
	comm_close(c);
	return 0;
}

static void patient_ranks(void **state)
{
	int status[MOST];

	(void)state;
	on_ranks(3, .15, echo, status);
	for (int r = 0; r < 3; r++)
		assert_int_equal(status[r], 0);
}

/* Rank 2 stands still. Rank 0 waits for it, rank 1 for rank 0 and rank 3 for rank 1, and all name rank 2. They stay until the others have. Rank 3
 * comes later, and asks when rank 1 has given up and does not answer any more. */
static int behind_another(struct comm *c)
{
	struct err e = {0};
	char all[4] = {0};
	int peer;

	if (comm_rank(c) == 2) {
		sleep(3);
		return 5;
	}
	if (comm_rank(c) == 3)
		usleep(500000);
	if (!comm_gather(c, all, 1, &e) || e.code != ERR_UNAVAILABLE)
		return 1;
	peer = comm_waits_for(c);
	if (strncmp(e.msg, "rank 2 has not answered for 0.8 s (--comm-timeout)", 50) != 0) {
		fprintf(stderr, "rank %d: %s\n", comm_rank(c), e.msg);
		return 2;
	}
	if (peer != 2 && !strstr(e.msg, peer ? "; this rank waits for rank 1" : "; this rank waits for rank 0"))
		return 3;
	sleep(2);
	return 4 + peer;
}

static void a_rank_behind_others_is_named(void **state)
{
	static const int want[] = {6, 4, 5, 5};
	int status[MOST];

	(void)state;
	on_ranks(4, .8, behind_another, status);
	for (int r = 0; r < 4; r++)
		assert_int_equal(status[r], want[r]);
}

/* Rank 0 waits in vain for rank 2. Rank 1 has sent it the number of another call meanwhile, which a later call of rank 0 must not take for its
 * own. */
static int after_a_failure(struct comm *c)
{
	struct err first = {0}, e = {0};
	char of_another_call[64] = {0}, all[3] = {0};
	double since;

	if (comm_rank(c) == 2) {
		sleep(1);
		return 1;
	}
	if (comm_rank(c) == 1) {
		comm_send(c, 0, of_another_call, sizeof of_another_call, &e);
		sleep(1);
		return 2;
	}
	if (!comm_receive(c, 2, all, sizeof all, &first) || !comm_is_lost(c))
		return 3;
	since = clock_seconds();
	if (!comm_gather(c, all, 1, &e) || e.code != first.code || strcmp(e.msg, first.msg) != 0)
		return 4;
	if (comm_receive(c, 1, all, sizeof all, NULL) != -1 || comm_send(c, 1, all, sizeof all, NULL) != -1 || clock_seconds() - since > .2)
		return 5;
	return 0;
}

static void no_call_after_a_failure(void **state)
{
	int status[MOST];

	(void)state;
	on_ranks(3, .4, after_a_failure, status);
	assert_int_equal(status[0], 0);
	assert_int_equal(status[1], 2);
	assert_int_equal(status[2], 1);
}

static void alone(void **state)
{
	struct err e = {0};
	float x = 3;

	(void)state;
	assert_int_equal(comm_rank(NULL), 0);
	assert_int_equal(comm_size(NULL), 1);
	assert_int_equal(comm_sum(NULL, &x, 1, NULL, &e) || comm_gather(NULL, &x, 4, &e) || comm_share(NULL, &x, 4, &e), 0);
	assert_true(x == 3);
	assert_int_equal(comm_agree(NULL, -1, &e), -1);
	comm_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sum_is_a_tree),
	                                   cmocka_unit_test(a_sum_has_two_halves),
	                                   cmocka_unit_test(sums_while_computing),
	                                   cmocka_unit_test(share_and_gather),
	                                   cmocka_unit_test(failures_are_shared),
	                                   cmocka_unit_test(a_rank_is_lost),
	                                   cmocka_unit_test(sums_of_three_are_refused),
	                                   cmocka_unit_test(patient_ranks),
	                                   cmocka_unit_test(a_rank_behind_others_is_named),
	                                   cmocka_unit_test(no_call_after_a_failure),
	                                   cmocka_unit_test(alone)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
