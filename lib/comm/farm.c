/* Gives pieces of work to ranks and takes the results in order. Messages are orders (comm/message.h) in both directions.
 *
 * A rank that computes sends a sign of life now and then, and rank 0 sends one to a rank that has no piece, so that each can tell a long piece from a
 * lost rank. Rank 0 describes a piece only a few pieces after the one it takes next, which limits the results that wait in its memory. */
#include "comm/farm.h"

#include <time.h>

#include "comm/message.h"
#include "core/clock.h"
#include "core/mem.h"

enum farm_kind {
	FARM_PIECE,  /* to a rank: compute this */
	FARM_REST,   /* to a rank: wait for the next order without a time limit */
	FARM_STOP,   /* to a rank: leave */
	FARM_ALIVE,  /* either way: the sender is not lost */
	FARM_RESULT, /* to rank 0, as the next two: the result; the error in its place; the rank leaves */
	FARM_FAILED,
	FARM_LEFT
};

enum { AHEAD = 2, NONE = -1, SIGNS = 8 }; /* AHEAD: pieces for each rank after the one that is taken next; SIGNS: of life within the time limit */

struct slot {
	int done;
	struct str order, result;
	struct err failed;
};

struct farm {
	struct comm *c;
	const struct farm_work *w;
	struct slot *slot; /* (slots) piece p is in slot p % slots */
	int64_t slots, next, taken;
	int64_t *piece; /* (ranks) what each rank computes, or NONE */
	double *sign;   /* (ranks) when the last order or sign of life was sent to each */
	int ended;      /* rank 0: there are no more pieces */
	int stopped;    /* rank 0: farm_stop was called; others: told to leave */
	struct str body;
	struct err lost; /* of farm_attend */
};

struct farm *farm_new(struct comm *c, const struct farm_work *w)
{
	struct farm *f = mem_zalloc(1, sizeof *f);
	size_t ranks = (size_t)comm_size(c);

	f->c = c;
	f->w = w;
	f->slots = AHEAD * (int64_t)ranks;
	f->slot = mem_zalloc((size_t)f->slots, sizeof *f->slot);
	f->piece = mem_zalloc(ranks, sizeof *f->piece);
	f->sign = mem_zalloc(ranks, sizeof *f->sign);
	for (size_t r = 0; r < ranks; r++)
		f->piece[r] = NONE;
	return f;
}

void farm_free(struct farm *f)
{
	if (!f)
		return;
	for (int64_t i = 0; i < f->slots; i++) {
		str_release(&f->slot[i].order);
		str_release(&f->slot[i].result);
	}
	str_release(&f->body);
	mem_free(f->slot);
	mem_free(f->piece);
	mem_free(f->sign);
	mem_free(f);
}

static struct slot *slot_of(struct farm *f, int64_t piece)
{
	return &f->slot[piece % f->slots];
}

static int send_order(struct farm *f, int rank, enum farm_kind kind, const struct str *body, struct err *e)
{
	f->sign[rank] = clock_seconds();
	return order_send(f->c, rank, kind, body ? body->p : NULL, body ? body->len : 0, e);
}

static int sign_is_due(const struct farm *f, int rank)
{
	return clock_seconds() - f->sign[rank] > comm_timeout(f->c) / SIGNS;
}

/* Have the next piece described: 1, or 0 if there is none or too many results wait already. */
static int describe(struct farm *f, struct err *e)
{
	struct slot *s = slot_of(f, f->next);
	int rc;

	if (f->ended || f->next - f->taken == f->slots)
		return 0;
	s->done = 0;
	s->failed = (struct err){0};
	str_reset(&s->order);
	str_reset(&s->result);
	rc = f->w->next(f->w->arg, &s->order, e);
	f->ended = rc == 0;
	f->next += rc > 0;
	return rc;
}

/* Free what `take` does not need of an order that was sent or computed. */
static void cut_order(const struct farm *f, struct str *order)
{
	struct str kept = {0};

	if (!f->w->keep || order->len <= f->w->keep)
		return;
	str_add(&kept, order->p, f->w->keep);
	str_release(order);
	*order = kept;
}

/* Receive what has arrived of a rank that computes. */
static int hear(struct farm *f, int rank, struct err *e)
{
	struct slot *s = slot_of(f, f->piece[rank]);
	struct order o;
	struct str had;
	int rc;

	while ((rc = comm_arrived(f->c, rank, e)) > 0) {
		if (order_receive(f->c, rank, &o, &f->body, e))
			return -1;
		if (o.kind == FARM_ALIVE)
			continue;
		had = s->result;
		s->result = f->body;
		f->body = had;
		if (o.kind == FARM_FAILED) {
			const struct err *there = (const void *)s->result.p;

			err_set(&s->failed, there->code, "rank %d: %.900s", rank, there->msg);
		}
		s->done = 1;
		f->piece[rank] = NONE;
		return 0;
	}
	return rc ? -1 : comm_overdue(f->c, rank, e);
}

static int attend_ranks(struct farm *f, struct err *e)
{
	for (int r = 1; r < comm_size(f->c); r++) {
		int rc;

		if (f->piece[r] != NONE && hear(f, r, e))
			return -1;
		if (f->piece[r] != NONE)
			continue;
		if ((rc = describe(f, e)) < 0)
			return -1;
		if (rc) {
			f->piece[r] = f->next - 1;
			rc = send_order(f, r, FARM_PIECE, &slot_of(f, f->piece[r])->order, e);
			cut_order(f, &slot_of(f, f->piece[r])->order);
		} else if (sign_is_due(f, r)) {
			rc = send_order(f, r, FARM_ALIVE, NULL, e);
		}
		if (rc)
			return -1;
	}
	return 0;
}

/* On another rank than the first, which sends nothing to a rank that computes but the order to leave. */
static int attend_first(struct farm *f, struct err *e)
{
	struct order o;
	int rc = comm_arrived(f->c, 0, e);

	if (rc < 0 || (rc && order_receive(f->c, 0, &o, &f->body, e)))
		return -1;
	f->stopped = rc && o.kind == FARM_STOP;
	if (f->stopped)
		return -1;
	return sign_is_due(f, 0) ? send_order(f, 0, FARM_ALIVE, NULL, e) : 0;
}

int farm_attend(struct farm *f)
{
	if (f->stopped || f->lost.code)
		return -1;
	return comm_rank(f->c) ? attend_first(f, &f->lost) : attend_ranks(f, &f->lost);
}

/* Compute a piece here, and keep its error. Fails if a rank was lost meanwhile. */
static int compute(struct farm *f, const struct str *order, struct str *result, struct err *failed, struct err *e)
{
	if (f->w->compute(f->w->arg, order, result, failed) && !failed->code)
		err_set(failed, ERR_FAIL, "a piece of work failed");
	return f->lost.code ? err_set(e, f->lost.code, "%s", f->lost.msg) : 0;
}

/* Take all results that are next in order. */
static int take_results(struct farm *f, struct err *e)
{
	for (; f->taken < f->next && slot_of(f, f->taken)->done; f->taken++) {
		struct slot *s = slot_of(f, f->taken);

		if (s->failed.code)
			return err_set(e, s->failed.code, "%s", s->failed.msg);
		if (f->w->take(f->w->arg, &s->order, &s->result, e))
			return -1;
	}
	return 0;
}

/* Rank 0 has nothing to compute. */
static int wait_a_little(struct farm *f, struct err *e)
{
	const struct timespec t = {.tv_nsec = 200000};

	nanosleep(&t, NULL);
	return f->w->wait ? f->w->wait(f->w->arg, e) : 0;
}

int farm_run(struct farm *f, struct err *e)
{
	struct slot *s;
	int rc;

	for (;;) {
		if (attend_ranks(f, e) || take_results(f, e) || (rc = describe(f, e)) < 0)
			return -1;
		if (rc) {
			s = slot_of(f, f->next - 1);
			if (compute(f, &s->order, &s->result, &s->failed, e))
				return -1;
			if (s->failed.code == ERR_AGAIN)
				return err_set(e, ERR_AGAIN, "%s", s->failed.msg);
			cut_order(f, &s->order);
			s->done = 1;
		} else if (f->ended && f->taken == f->next) {
			return order_send_all(f->c, FARM_REST, NULL, 0, e);
		} else if (!slot_of(f, f->taken)->done && wait_a_little(f, e)) {
			return -1;
		}
	}
}

static int answer(struct farm *f, const struct str *order, struct err *e)
{
	struct str result = {0};
	struct err failed = {0};
	int rc = compute(f, order, &result, &failed, e);

	if (!rc && !f->stopped)
		rc = failed.code ? order_send(f->c, 0, FARM_FAILED, &failed, sizeof failed, e) : send_order(f, 0, FARM_RESULT, &result, e);
	str_release(&result);
	return rc;
}

int farm_serve(struct farm *f, struct err *e)
{
	struct order o = {.kind = FARM_REST};
	struct str order = {0};
	int rc = 0;

	while (!rc && !f->stopped) {
		comm_be_patient(f->c, o.kind == FARM_REST);
		rc = order_receive(f->c, 0, &o, &order, e);
		comm_be_patient(f->c, 0);
		if (!rc && o.kind == FARM_PIECE)
			rc = answer(f, &order, e);
		f->stopped |= !rc && o.kind == FARM_STOP;
	}
	str_release(&order);
	return rc ? -1 : order_send(f->c, 0, FARM_LEFT, NULL, 0, e);
}

void farm_stop(struct farm *f)
{
	struct order o;

	if (!f || f->stopped || comm_rank(f->c) || comm_is_lost(f->c) || comm_has_failed_together(f->c))
		return;
	f->stopped = 1;
	if (order_send_all(f->c, FARM_STOP, NULL, 0, NULL))
		return;
	for (int r = 1; r < comm_size(f->c); r++)
		do { /* what it sent before it knew */
			if (order_receive(f->c, r, &o, &f->body, NULL))
				return;
		} while (o.kind != FARM_LEFT);
}
