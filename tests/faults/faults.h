/* Injects a fault into a program under test, at the k-th operation that can fail. sweep.c runs the program; the other files make the faults. */
#ifndef DDM_TESTS_FAULTS_H
#define DDM_TESTS_FAULTS_H

#include <stdatomic.h>
#include <sys/types.h>

/* Shared by the processes. n: operations so far that could fail, counted from 1; at: the one that fails, 0: none; on: all later ones fail too. */
struct fault {
	atomic_long n, at;
	int on;
};

/* Count an operation that could fail. 1 if it must fail. */
int fault_strikes(struct fault *f);

/* Call in the process under test: from now on its allocations can fail. */
void memory_arm(struct fault *f);

/* Faults of system calls that change files, or read files below the working directory. disk_arm is called in the process under test and lets the
 * parent intercept them. disk_watch is called in the parent and returns when the process has ended. Both return -1 if the system does not support
 * it. */
enum disk_fault { DISK_FULL, DISK_KILL, DISK_READ };
int disk_arm(int to_parent);
int disk_watch(pid_t pid, int from_child, enum disk_fault how, struct fault *f);

#endif
