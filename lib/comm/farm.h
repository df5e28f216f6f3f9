/* Work that falls into pieces, each computed by one of several ranks. Rank 0 describes the pieces, gives them to ranks that have none, computes some
 * itself, and takes the results in order, so that what it makes of them does not depend on the number of ranks.
 *
 *	f = farm_new(comm, &work);
 *	rc = comm_rank(comm) ? farm_serve(f, &e) : farm_run(f, &e);
 *	farm_stop(f);
 *	farm_free(f);
 *
 * While a rank computes, farm_attend keeps it in touch with the others. The time limit of the communicator (comm_timeout) is therefore one for the
 * time between two calls of farm_attend, not for a piece. */
#ifndef DDM_COMM_FARM_H
#define DDM_COMM_FARM_H

#include "comm/comm.h"
#include "core/str.h"

struct farm_work {
	/* On rank 0: describe the next piece in *order, which is empty. 1; 0: there are no more pieces; -1 on error. It can be called in
	 * farm_attend, between pieces or while rank 0 computes one. */
	int (*next)(void *arg, struct str *order, struct err *e);
	/* On any rank: compute a piece into *result, which is empty. Calls farm_attend now and then, and fails if that does. */
	int (*compute)(void *arg, const struct str *order, struct str *result, struct err *e);
	/* On rank 0: take the result of a piece. Called in the order of the pieces, and not while rank 0 computes one. */
	int (*take)(void *arg, const struct str *order, const struct str *result, struct err *e);
	/* On rank 0, while it waits for the results of others: non-zero to stop with *e. NULL: not called. */
	int (*wait)(void *arg, struct err *e);
	void *arg;
	size_t keep; /* `take` gets only so many bytes of the order, so that rank 0 need not hold the rest meanwhile; 0: all */
};

struct farm;

/* Borrows c and *w. Caller frees with farm_free. */
struct farm *farm_new(struct comm *c, const struct farm_work *w);
void farm_free(struct farm *f); /* NULL is allowed */

/* On rank 0: all pieces. -1 on an error of a callback, of the first piece that failed, with "rank R: " before that of another rank; ERR_UNAVAILABLE
 * if a rank is lost. Until the call, and after it, the others wait without a time limit. */
int farm_run(struct farm *f, struct err *e);
/* On the others: compute pieces until rank 0 calls farm_stop. -1: rank 0 is lost. */
int farm_serve(struct farm *f, struct err *e);

/* During `compute`. Rank 0 receives the results that have arrived and gives their ranks the next pieces; the others show rank 0 that they work. -1 if
 * `compute` is to end, because a rank is lost or rank 0 has called farm_stop; farm_run and farm_serve have the reason. */
int farm_attend(struct farm *f);

/* On rank 0: let the others return from farm_serve, and wait for that. They drop what they are computing. Every rank 0 that has made a farm calls it,
 * also one that failed before farm_run. Does nothing on other ranks, on a second call, and if a rank is lost. */
void farm_stop(struct farm *f);

#endif
