/* Pieces of work on several ranks: each is computed once, results are taken in order, errors and lost ranks end the work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "comm/farm.h"
#include "core/clock.h"
#include "core/mem.h"
#include "socketranks.h"

enum { PIECES = 50 };

/* The work: the square of each number, with its rank. */
struct squares {
	struct farm *farm;
	int me, pieces, given, taken, bad;
	int own;      /* taken pieces that rank 0 computed */
	int slow;     /* microseconds that this rank takes for a piece */
	int64_t fail; /* the piece that fails on any rank, or -1 */
	size_t bytes; /* of a result */
	int stop;     /* rank 0 stops when it waits for others */
};

static int next_number(void *arg, struct str *order, struct err *e)
{
	struct squares *s = arg;
	int64_t x = s->given;

	(void)e;
	if (s->given == s->pieces)
		return 0;
	s->given++;
	str_add(order, &x, sizeof x);
	str_puts(order, "not kept");
	return 1;
}

static int square(void *arg, const struct str *order, struct str *result, struct err *e)
{
	struct squares *s = arg;
	int64_t x, answer[2];
	char *room = mem_zalloc(s->bytes + 1, 1);

	memcpy(&x, order->p, sizeof x);
	answer[0] = x * x;
	answer[1] = s->me;
	str_add(result, answer, sizeof answer);
	str_add(result, room, s->bytes);
	mem_free(room);
	for (int us = 0; us < s->slow; us += 5000) {
		usleep(5000);
		if (farm_attend(s->farm))
			return err_set(e, ERR_AGAIN, "interrupted");
	}
	return x == s->fail ? err_set(e, ERR_DATA, "no square of %d", (int)x) : 0;
}

static int take_square(void *arg, const struct str *order, const struct str *result, struct err *e)
{
	struct squares *s = arg;
	int64_t x, answer[2];

	memcpy(&x, order->p, sizeof x);
	memcpy(answer, result->p, sizeof answer);
	s->bad |= order->len != sizeof x || x != s->taken || answer[0] != x * x || result->len != sizeof answer + s->bytes;
	s->own += answer[1] == 0;
	(void)e;
	s->taken++;
	return 0;
}

static int wait_for_others(void *arg, struct err *e)
{
	return ((struct squares *)arg)->stop ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

static int run(struct comm *c, struct squares *s, struct err *e)
{
	const struct farm_work w = {
	    .next = next_number, .compute = square, .take = take_square, .wait = wait_for_others, .arg = s, .keep = sizeof(int64_t)};
	int rc;

	s->me = comm_rank(c);
	s->farm = farm_new(c, &w);
	rc = s->me ? farm_serve(s->farm, e) : farm_run(s->farm, e);
	farm_stop(s->farm);
	farm_free(s->farm);
	return rc;
}

static int all_squares(struct comm *c)
{
	struct squares s = {.pieces = PIECES, .fail = -1, .bytes = 100000, .slow = comm_rank(c) == 2 ? 20000 : 0};
	struct err e = {0};

	if (run(c, &s, &e) || s.bad || (!comm_rank(c) && (s.taken != PIECES || (comm_size(c) == 1 && s.own != PIECES))))
		return 1;
	comm_close(c);
	return 0;
}

static void results_are_taken_in_order(void **state)
{
	(void)state;
	all_end_with(1, 0, all_squares);
	all_end_with(2, 0, all_squares);
	all_end_with(3, 0, all_squares);
	all_end_with(7, 0, all_squares);
}

/* Four pieces of 0.1 seconds on four ranks: none computes two. */
static int one_each(struct comm *c)
{
	struct squares s = {.pieces = 4, .fail = -1, .slow = 100000};
	struct err e = {0};

	if (run(c, &s, &e) || s.bad || (!comm_rank(c) && (s.taken != 4 || s.own != 1)))
		return 1;
	comm_close(c);
	return 0;
}

static void ranks_share_the_pieces(void **state)
{
	(void)state;
	all_end_with(4, 0, one_each);
}

static int none_and_few(struct comm *c)
{
	struct squares none = {.fail = -1}, one = {.pieces = 1, .fail = -1, .slow = 10000};
	struct err e = {0};

	if (run(c, &none, &e) || run(c, &one, &e) || (!comm_rank(c) && (none.taken || one.taken != 1 || one.bad)))
		return 1;
	comm_close(c);
	return 0;
}

static void more_ranks_than_pieces(void **state)
{
	(void)state;
	all_end_with(3, 0, none_and_few);
}

/* A piece, a wait of a rank without one and a wait for the first order may all take longer than the time limit, here 0.2 seconds. */
static int long_pieces(struct comm *c)
{
	struct squares s = {.pieces = comm_size(c) + 1, .fail = -1, .slow = 500000, .bytes = 3000000};
	struct err e = {0};

	if (!comm_rank(c))
		usleep(400000);
	if (run(c, &s, &e) || s.bad)
		return e.code ? e.code : 1;
	comm_close(c);
	return 0;
}

static void a_long_piece_is_no_lost_rank(void **state)
{
	int status[MOST];

	(void)state;
	on_ranks(4, .2, long_pieces, status);
	for (int r = 0; r < 4; r++)
		assert_int_equal(status[r], 0);
}

/* All pieces before the one that failed are taken, whoever computed it; all ranks leave. */
static int one_fails(struct comm *c)
{
	struct squares s = {.pieces = PIECES, .fail = 20, .slow = 5000 * comm_rank(c)};
	struct err e = {0};
	int rc = run(c, &s, &e);

	if (comm_rank(c) ? rc : !rc || e.code != ERR_DATA || !strstr(e.msg, "no square of 20") || s.taken != 20 || s.bad)
		return 1;
	comm_close(c);
	return 0;
}

static void the_first_error_ends_the_work(void **state)
{
	(void)state;
	all_end_with(1, 0, one_fails);
	all_end_with(4, 0, one_fails);
}

/* Rank 0 stops while the others are at a piece of a minute. */
static int stop_early(struct comm *c)
{
	struct squares s = {.pieces = PIECES, .fail = -1, .slow = comm_rank(c) ? 60000000 : 0, .stop = 1, .bytes = 1000000};
	struct err e = {0};
	double since = clock_seconds();
	int rc = run(c, &s, &e);

	if (comm_rank(c) ? rc : !rc || e.code != ERR_AGAIN || s.taken)
		return 1;
	comm_close(c);
	return clock_seconds() - since < 20 ? 0 : 2;
}

/* Rank 0 gives up before it has begun. */
static int never_begins(struct comm *c)
{
	struct squares s = {.fail = -1};
	const struct farm_work w = {.next = next_number, .compute = square, .take = take_square, .arg = &s};
	struct farm *f = farm_new(c, &w);
	struct err e = {0};

	if (comm_rank(c) && farm_serve(f, &e))
		return 1;
	farm_stop(f);
	farm_stop(f);
	farm_free(f);
	comm_close(c);
	return 0;
}

static void ranks_leave_when_told(void **state)
{
	(void)state;
	all_end_with(3, 0, stop_early);
	all_end_with(3, 0, never_begins);
}

/* Rank 1 stands still in its first piece; rank 0 names it, at work itself or not. */
static int stand_still(struct comm *c)
{
	struct squares s = {.pieces = PIECES, .fail = -1, .slow = 50000};
	struct err e = {0};

	if (comm_rank(c) == 1) {
		int64_t order[3];

		if (comm_receive(c, 0, order, 2 * sizeof *order, &e) || comm_receive(c, 0, &order[2], sizeof *order, &e))
			return 1;
		sleep(3);
		return 9;
	}
	if (!run(c, &s, &e) || e.code != ERR_UNAVAILABLE || strcmp(e.msg, "rank 1 has not answered for 0.4 s (--comm-timeout)") != 0)
		return 2;
	comm_abort(c, ERR_UNAVAILABLE);
}

static void a_rank_that_stands_still_is_named(void **state)
{
	int status[MOST];

	(void)state;
	on_ranks(2, .4, stand_still, status);
	assert_int_equal(status[0], ERR_UNAVAILABLE);
}

/* Rank 0 stands still; a rank without a piece notices. */
static int first_stands_still(struct comm *c)
{
	struct squares s = {.fail = -1, .slow = 10000};
	struct err e = {0};
	const int64_t piece[3] = {0, sizeof(int64_t), 4}; /* as farm.c sends it */

	if (!comm_rank(c)) {
		if (comm_send(c, 1, piece, 2 * sizeof *piece, &e) || comm_send(c, 1, &piece[2], sizeof *piece, &e))
			return 1;
		sleep(2);
		return 9;
	}
	if (!run(c, &s, &e) || e.code != ERR_UNAVAILABLE || strcmp(e.msg, "rank 0 has not answered for 0.4 s (--comm-timeout)") != 0)
		return 2;
	comm_abort(c, ERR_UNAVAILABLE);
}

static void a_first_rank_that_stands_still_is_named(void **state)
{
	int status[MOST];

	(void)state;
	on_ranks(2, .4, first_stands_still, status);
	assert_int_equal(status[1], ERR_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_taken_in_order),
	                                   cmocka_unit_test(ranks_share_the_pieces),
	                                   cmocka_unit_test(more_ranks_than_pieces),
	                                   cmocka_unit_test(a_long_piece_is_no_lost_rank),
	                                   cmocka_unit_test(the_first_error_ends_the_work),
	                                   cmocka_unit_test(ranks_leave_when_told),
	                                   cmocka_unit_test(a_rank_that_stands_still_is_named),
	                                   cmocka_unit_test(a_first_rank_that_stands_still_is_named)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
