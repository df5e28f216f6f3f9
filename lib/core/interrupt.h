/* Ends waits for input when a program's signal handler has set its flag. */
#ifndef DDM_CORE_INTERRUPT_H
#define DDM_CORE_INTERRUPT_H

#include <signal.h>

/* Make fd_read (file/fileio.h) fail with EINTR instead of waiting once *flag is not 0. Input that is already there is still read, except from
 * standard input. NULL: fd_read waits without a limit. */
void interrupt_on(const volatile sig_atomic_t *flag);

/* Wait until a read of fd would not block: 0, or -1 and EINTR if the flag ended the wait. */
int interrupt_wait(int fd);

/* 1 once the flag is set, for waits that are not for a descriptor. */
int interrupt_given(void);

#endif
