/* A communicator. Shared by comm.c, whose calls one thread at a time makes, and rollcall.c, whose calls any thread makes. */
#ifndef DDM_COMM_COMMIMPL_H
#define DDM_COMM_COMMIMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/comm.h"
#include "comm/rollcall.h"

struct comm {
	const struct comm_engine *engine;
	pthread_mutex_t calling; /* held around calls of the engine */
	int rank, size;
	double timeout, seconds, hidden;
	uint64_t sent;
	struct err failed; /* the first failure; code 0: none. No exchange begins after it: other ranks are then at other calls than this one */
	int together, patient;
	char *network;   /* comm_network */
	double *met;     /* (size) when the last exchange with each rank ended */
	atomic_int peer; /* 1 + the rank that this one waits for; 0: none */

	pthread_mutex_t lock;       /* of what follows */
	struct comm_answer *answer; /* (size) to the last question */
	int culprit, reason;        /* 1 + the rank that another one has named, 0: none; and why */
	int64_t begun, ended;       /* of comm_set_progress */
};

#endif
