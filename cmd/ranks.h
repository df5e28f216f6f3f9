/* How the ranks of one training are started: by mpirun or srun, or by this process, which then calls mpirun. */
#ifndef DDM_CMD_RANKS_H
#define DDM_CMD_RANKS_H

#include "core/err.h"

/* The number of ranks that were started together with this process, as the variables of Open MPI, PMI or PMIx say; 1 if it was started alone, and for
 * PMIx 2, because PMIx does not tell. */
int launched_ranks(void);

/* The shared object with MPI's engine: beside this program, as in a build folder, below its prefix, or where configure said. Caller frees with
 * mem_free. */
char *launch_engine_path(void);

/* Run the command of this process on `ranks` ranks of this machine by mpirun, without `--ranks` and its value, and wait for it. SIGTERM, SIGINT and
 * SIGHUP, which mpirun would answer by killing the ranks within two seconds, are passed on as SIGUSR1, which makes them save and stop; SIGUSR2 is
 * passed on as it is. bound: leave
 * each rank the processors that mpirun gives it, else let it choose. Returns the exit status, or -1 with ERR_UNAVAILABLE if there is no mpirun. */
int launch_ranks(int ranks, int bound, struct err *e);

#endif
