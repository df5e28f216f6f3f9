/* How the ranks of one training or sampling are started: by mpirun or srun, or by this process, which then calls mpirun. */
#ifndef DDM_CMD_RANKS_H
#define DDM_CMD_RANKS_H

#include "comm/comm.h"
#include "core/option.h"

/* The number of ranks that were started together with this process, as the variables of Open MPI, PMI or PMIx say; 1 if it was started alone, and for
 * PMIx 2, because PMIx does not tell. */
int launched_ranks(void);

/* Run the command of this process on `ranks` ranks of this machine by mpirun, without `--ranks` and its value, and wait for it. SIGTERM, SIGINT and
 * SIGHUP, which mpirun would answer by killing the ranks within two seconds, are passed on as SIGUSR1, which makes them save and stop; SIGUSR2 is
 * passed on as it is. bound: leave
 * each rank the processors that mpirun gives it, else let it choose. Returns the exit status, or -1 with ERR_UNAVAILABLE if there is no mpirun. */
int launch_ranks(int ranks, int bound, struct err *e);

/* The path of an engine, "mpi-engine.so". Caller frees with mem_free. */
char *engine_path(const char *name);

/* The options of a program whose ranks may be of any number, and what they fill. */
struct rank_request {
	int64_t ranks;
	double timeout; /* seconds */
};
extern const struct option rank_options[];

/* With --ranks above 1: run the command on so many ranks, wait and exit with their status. Ends the process on failure. */
void start_ranks(int64_t ranks, int bound);
/* Join the ranks that were started together with this process. 0, with *c = NULL if it is alone. Leave with leave_ranks. */
int join_ranks(struct comm **c, double timeout, struct err *e);
/* Leave the other ranks together with them, or end them all with the status of *e, after printing it. */
void leave_ranks(struct comm *c, const struct err *e);
/* The same for a program that ends then: returns its exit status. Rank 0 prints the error; the others say nothing of what rank 0 knows. */
int end_ranks(struct comm *c, struct err *e);

#endif
