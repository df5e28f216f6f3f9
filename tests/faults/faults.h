/* What goes wrong in a run of a program under test, at its k-th chance: sweep.c runs it, the others make the fault. */
#ifndef DDM_TESTS_FAULTS_H
#define DDM_TESTS_FAULTS_H

#include <stdatomic.h>
#include <sys/types.h>

/* Shared by the processes: chances counted from 1 in n; the first that goes wrong (0: none does), alone or with all later ones. */
struct fault {
	atomic_long n, at;
	int on;
};

/* Counts a chance. */
int fault_strikes(struct fault *f);

/* In the process under test: from now on its allocations are chances. */
void memory_arm(struct fault *f);

/* The system calls with which a process changes files, or reads those below the working directory. disk_arm in the process
 * under test, which becomes theirs to stop; disk_watch in its parent, until it ends. Both -1 where the system has no such thing. */
enum disk_fault { DISK_FULL, DISK_KILL, DISK_READ };
int disk_arm(int to_parent);
int disk_watch(pid_t pid, int from_child, enum disk_fault how, struct fault *f);

#endif
