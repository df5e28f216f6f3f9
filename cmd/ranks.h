/* How the ranks that share a work are started: by mpirun or srun, or by this process, which then calls mpirun. */
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

/* What a program is told of its ranks, and the two rows of its table of options that fill such a variable. */
struct rank_request {
	int64_t ranks;  /* 0: as many as were started together with this process */
	double timeout; /* seconds */
};
/* clang-format off */
#define RANK_ROWS(variable) \
	{"--ranks", .type = OPTION_INT, .value = &(variable).ranks, .lo = 1, .hi = 4096, .arg = "N", \
	 .help = "processes of this machine that share the work, started by mpirun", OPTION_ALWAYS}, \
	{"--comm-timeout", .type = OPTION_REAL, .value = &(variable).timeout, .lo = 1, .hi = 1e6, .arg = "SECONDS", .preset = "600", \
	 .help = "how long a rank may take to answer before the others end", OPTION_ALWAYS}
/* clang-format on */

/* With --ranks above 1: run the command on so many ranks, wait and exit with their status. Ends the process on failure. */
void start_ranks(int64_t ranks, int bound);
/* Join the ranks that were started together with this process. 0, with *c = NULL if it is alone. Leave with leave_ranks. */
int join_ranks(struct comm **c, double timeout, struct err *e);
/* Rank 0 says how many there are and how they are connected. */
void say_ranks(const struct comm *c);
/* Leave the other ranks together with them, or end them all with the status of *e, after printing it. */
void leave_ranks(struct comm *c, const struct err *e);
/* The same for a program that ends then: returns its exit status. Rank 0 prints the error; the others say nothing of what rank 0 knows. */
int end_ranks(struct comm *c, struct err *e);

#endif
