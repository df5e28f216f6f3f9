/* The flag that a program's signal handler sets, for waits that must end then. */
#ifndef DDM_CORE_INTERRUPT_H
#define DDM_CORE_INTERRUPT_H

#include <signal.h>

/* From now on fd_read (file/fileio.h) stops waiting for input, with EINTR, once *flag is not 0. What can be read without waiting is read
 * nevertheless, but for standard input. NULL: it waits as long as it takes. */
void interrupt_on(const volatile sig_atomic_t *flag);

/* 0 once a read of fd would not block; -1 and EINTR once nobody shall wait for it. */
int interrupt_wait(int fd);

#endif
