/* Finds out which rank keeps the others waiting. A rank that has waited for long asks all ranks what they do. Those answer that wait for another rank
 * themselves, or that have a thread which listens (comm/devicesum.h). A rank that is stopped, lost or at work does not.
 *
 * Questions and answers are notes of the engine, beside the exchanges. Any thread may make these calls, at any time before comm_close. */
#ifndef DDM_COMM_ROLLCALL_H
#define DDM_COMM_ROLLCALL_H

#include "comm/comm.h"

/* The share of a time limit after which a rank asks, so that the answers are there when it runs out. */
#define ROLL_CALL_AFTER .75

/* What a rank answered: for which rank it waits, or -1, and its progress. */
struct comm_answer {
	int answered, waits_for;
	int64_t begun, ended;
};

/* Ask all ranks, and forget what they answered before. Does not wait. */
void comm_ask(struct comm *c);
/* Answer the questions and take the answers that have arrived. Does not wait. */
void comm_listen(struct comm *c);
/* Copy the answers to the last question, (ranks); the caller's own is what it would answer now. */
void comm_answers(struct comm *c, struct comm_answer *all);

/* The rank that keeps the caller waiting, which waits for `peer`: `peer` itself, or at the end of a chain of ranks that wait for each other. */
int comm_culprit(struct comm *c, int peer);

/* Tell all ranks whom this one names, before it ends, and why, by a number of the caller's. Those whose time limit runs out later shall name the
 * same, and not a rank that has ended because of it. */
void comm_tell_culprit(struct comm *c, int rank, int reason);
/* The rank that another one named first, and why; -1: none was. */
int comm_told_culprit(struct comm *c, int *reason);

/* What this rank answers of its progress: calls that it has begun, and that have ended. */
void comm_set_progress(struct comm *c, int64_t begun, int64_t ended);

#endif
