/* Questions between ranks what each of them waits for. */
#include "comm/rollcall.h"

#include <string.h>

#include "comm/commimpl.h"
#include "core/mem.h"

/* What is sent. Of a verdict waits_for is the rank that is named, and begun the reason. */
struct note {
	enum { QUESTION, ANSWER, VERDICT } kind;
	int32_t waits_for;
	int64_t begun, ended;
};
_Static_assert(sizeof(struct note) == COMM_NOTE, "a note fits the engine's");

static struct note own_note(struct comm *c)
{
	struct note n = {.kind = ANSWER, .waits_for = comm_waits_for(c)};

	pthread_mutex_lock(&c->lock);
	n.begun = c->begun;
	n.ended = c->ended;
	pthread_mutex_unlock(&c->lock);
	return n;
}

/* A note that cannot be sent is left out: then the other rank does not answer, which is what will be said. */
static void tell(struct comm *c, int rank, struct note n)
{
	char why[COMM_ENGINE_WHY];

	pthread_mutex_lock(&c->calling);
	c->engine->tell(rank, &n, why);
	pthread_mutex_unlock(&c->calling);
}

static void tell_all(struct comm *c, struct note n)
{
	for (int r = 0; r < c->size; r++)
		if (r != c->rank)
			tell(c, r, n);
}

void comm_ask(struct comm *c)
{
	pthread_mutex_lock(&c->lock);
	memset(c->answer, 0, (size_t)c->size * sizeof *c->answer);
	pthread_mutex_unlock(&c->lock);
	tell_all(c, (struct note){.kind = QUESTION});
}

static int hear(struct comm *c, int *rank, struct note *n)
{
	char why[COMM_ENGINE_WHY];
	int rc;

	pthread_mutex_lock(&c->calling);
	rc = c->engine->heard(rank, n, why);
	pthread_mutex_unlock(&c->calling);
	return rc > 0;
}

void comm_listen(struct comm *c)
{
	struct note n;
	int rank;

	while (hear(c, &rank, &n)) {
		if (n.kind == QUESTION) {
			tell(c, rank, own_note(c));
			continue;
		}
		pthread_mutex_lock(&c->lock);
		if (n.kind == ANSWER) {
			c->answer[rank] = (struct comm_answer){1, n.waits_for, n.begun, n.ended};
		} else if (!c->culprit) {
			c->culprit = 1 + n.waits_for;
			c->reason = (int)n.begun;
		}
		pthread_mutex_unlock(&c->lock);
	}
}

void comm_answers(struct comm *c, struct comm_answer *all)
{
	struct note own = own_note(c);

	pthread_mutex_lock(&c->lock);
	memcpy(all, c->answer, (size_t)c->size * sizeof *all);
	pthread_mutex_unlock(&c->lock);
	all[c->rank] = (struct comm_answer){1, own.waits_for, own.begun, own.ended};
}

/* The chain ends at a rank that does not answer or waits for nobody. If it is a circle, no rank is at fault but a connection, perhaps that to
 * `peer`. */
int comm_culprit(struct comm *c, int peer)
{
	struct comm_answer *all = mem_zalloc((size_t)c->size, sizeof *all);
	int at = peer, told, reason;

	comm_listen(c);
	told = comm_told_culprit(c, &reason);
	comm_answers(c, all);
	for (int i = 0; i < c->size && at >= 0 && at != c->rank && all[at].answered && all[at].waits_for >= 0; i++)
		at = all[at].waits_for < c->size ? all[at].waits_for : -1;
	if (at < 0 || at == c->rank || (all[at].answered && all[at].waits_for >= 0))
		at = peer;
	mem_free(all);
	return told < 0 ? at : told;
}

void comm_tell_culprit(struct comm *c, int rank, int reason)
{
	tell_all(c, (struct note){.kind = VERDICT, .waits_for = rank, .begun = reason});
}

int comm_told_culprit(struct comm *c, int *reason)
{
	int rank;

	pthread_mutex_lock(&c->lock);
	rank = c->culprit - 1;
	*reason = c->reason;
	pthread_mutex_unlock(&c->lock);
	return rank;
}

void comm_set_progress(struct comm *c, int64_t begun, int64_t ended)
{
	pthread_mutex_lock(&c->lock);
	c->begun = begun;
	c->ended = ended;
	pthread_mutex_unlock(&c->lock);
}
