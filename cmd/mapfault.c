/* Handles SIGBUS: ends the program with a message if a mapped file was truncated or cannot be read. */
#include "cmd/mapfault.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "file/fileio.h"
#include "file/pending.h"

static const char *program;

/* Append text to line, with '?' for bytes that are not printable ASCII. Returns the new length. */
static size_t put(char *line, size_t at, size_t size, const char *text)
{
	for (; *text && at + 1 < size; text++)
		line[at++] = (unsigned char)*text < 32 || (unsigned char)*text >= 127 ? '?' : *text;
	return at;
}

/* Every call here is async-signal-safe, except for the lock in pending_remove. A thread that reads a mapped file does not hold that lock. */
static void bus_error(int sig, siginfo_t *info, void *context)
{
	const char *name = info->si_code == BUS_ADRERR ? filemap_name(info->si_addr) : NULL;
	char line[600];
	size_t n = 0;

	(void)context;
	if (!name) {
		signal(sig, SIG_DFL);
		return; /* the instruction faults again, now with the default action */
	}
	n = put(line, n, sizeof line, program);
	n = put(line, n, sizeof line, ": ");
	n = put(line, n, sizeof line, name);
	n = put(line, n, sizeof line, ": cannot be read: it was cut short while it was in use, or its disk failed");
	line[n++] = '\n';
	if (write(2, line, n) < 0)
		n = 0;
	pending_remove();
	_exit(ERR_IO);
}

void mapfault_catch(const char *program_name)
{
	struct sigaction act = {.sa_sigaction = bus_error, .sa_flags = SA_SIGINFO};

	program = program_name;
	sigemptyset(&act.sa_mask);
	sigaction(SIGBUS, &act, NULL);
}
