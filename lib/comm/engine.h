/* What lib/comm asks of the library that moves bytes between ranks. The engine for MPI is a shared object of its own (lib/comm/mpi/engine.c), which
 * is loaded only in a process that was started as one of several ranks: no program is linked with MPI, and none starts slower because of it. */
#ifndef DDM_COMM_ENGINE_H
#define DDM_COMM_ENGINE_H

#include <stddef.h>

enum { COMM_ENGINE_VERSION = 3, COMM_ENGINE_WHY = 200, COMM_NOTE = 24 };

/* Functions return 0, or -1 with the reason in why (COMM_ENGINE_WHY bytes). One thread at a time calls them, which need not be the one
 * that called start (comm/background.h). */
struct comm_engine {
	int version; /* COMM_ENGINE_VERSION */
	const char *name;
	/* Join the other ranks. */
	int (*start)(int *rank, int *size, char *why);
	/* Begin to send to `peer` and to receive from it. Either size may be 0: then nothing goes that way, and the peer makes no call for it. At
	 * most one exchange is under way. `done` asks whether it has ended: 1 yes, 0 no, -1 it failed. */
	int (*begin)(int peer, const void *out, size_t out_bytes, void *in, size_t in_bytes, char *why);
	int (*done)(char *why);
	/* Whether something that `peer` sent has arrived and not been received: 1 yes, 0 no, -1 it failed. While no exchange is under way. */
	int (*arrived)(int peer, char *why);
	/* A note of COMM_NOTE bytes to `peer`, beside the exchanges. Does not wait; a note is dropped while an earlier one is still under way. */
	int (*tell)(int peer, const void *note, char *why);
	/* Take a note that has arrived, and from whom: 1, 0 if there is none, -1 it failed. */
	int (*heard)(int *peer, void *note, char *why);
	/* Leave the other ranks, once all of them are ready to. */
	void (*stop)(void);
	/* End all ranks at once, this process with `code`. Does not return. */
	__attribute__((noreturn)) void (*end)(int code);
};

/* The one symbol of an engine's shared object. */
#define COMM_ENGINE_SYMBOL "ddm_comm_engine"

#endif
