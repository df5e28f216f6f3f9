/* Waits for input until there is some, or a signal has come. */
#include "core/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <unistd.h>

enum { PATIENCE = 100 }; /* milliseconds; poll does not return if another thread handled the signal */

static const volatile sig_atomic_t *stop;

void interrupt_on(const volatile sig_atomic_t *flag)
{
	stop = flag;
}

int interrupt_wait(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (stop) {
		int stopped = *stop != 0, ready = poll(&p, 1, stopped ? 0 : PATIENCE);

		if (stopped && (ready <= 0 || fd == STDIN_FILENO)) {
			errno = EINTR;
			return -1;
		}
		if (ready > 0 || (ready < 0 && errno != EINTR))
			return 0;
	}
	return 0;
}

int interrupt_given(void)
{
	return stop && *stop;
}
