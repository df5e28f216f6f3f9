/* Start, end, messages, signals and progress lines of all programs. */
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/clean.h"
#include "cmd/complete.h"
#include "cmd/mapfault.h"
#include "cmd/remoteenv.h"
#include "config.h"
#include "core/interrupt.h"
#include "core/mem.h"
#include "core/pace.h"
#include "core/str.h"
#include "core/version.h"
#include "file/claim.h"
#include "file/pending.h"

volatile sig_atomic_t cmd_signal;

static const struct program *program;
static int progress_shown; /* 1: the terminal's line holds progress, which the next message erases */

static const char *program_name(void)
{
	return program ? program->name : "ddm";
}

/* Print exactly one line: control characters, which file names may contain, are escaped. */
static void put_line(const char *prefix, const char *fmt, va_list ap)
{
	char text[1200], line[4 * sizeof text];

	vsnprintf(text, sizeof text, fmt, ap);
	clean_message(line, sizeof line, text);
	fprintf(stderr, "%s%s%s%s\n", progress_shown ? "\r\033[K" : "", prefix, *prefix ? ": " : "", line);
	progress_shown = 0;
}

void cmd_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_line(program_name(), fmt, ap);
	va_end(ap);
}

void cmd_skipped(void *unused, const char *why)
{
	(void)unused;
	cmd_warn("skipped: %s", why);
}

void cmd_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_line("", fmt, ap);
	va_end(ap);
}

/* Write the message without stdio, which may allocate memory, and exit. Nothing is freed, because other threads are still running. */
static void out_of_memory(size_t size)
{
	char line[200];
	int n = size ? snprintf(line, sizeof line, "%s: out of memory: %zu bytes\n", program_name(), size)
	             : snprintf(line, sizeof line, "%s: out of memory\n", program_name());

	pending_remove();
	if (n > 0 && write(2, line, (size_t)n) < 0)
		_exit(ERR_NOMEM);
	_exit(ERR_NOMEM);
}

/* Open descriptors 0, 1 and 2 if they are closed; otherwise the next opened file would get the number, and messages would be written into it. The
 * replacement fails when it is used: descriptor 0 cannot be read, 1 and 2 cannot be written. */
static void hold_standard_descriptors(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			_exit(ERR_IO);
}

static int operands_are_wrong(int n, int min, int max, struct err *e)
{
	const char *form = program->operands;

	if (n < min)
		err_set(e, ERR_USAGE, "too few operands (%d): expected %s; try '%s -h'", n, form, program->name);
	else if (max >= 0 && n > max)
		err_set(e, ERR_USAGE, "too many operands (%d): expected %s; try '%s -h'", n, form, program->name);
	return e->code ? -1 : 0;
}

/* Print the text that -h, -V or --completion asks for, and exit. Takes ownership of the text. */
static void __attribute__((noreturn)) answer(char *text)
{
	static const struct err none;

	fputs(text, stdout);
	mem_free(text);
	cmd_exit(&none);
}

/* Answer --completion with the script for a shell, or with the rules of use for "rules". Only installation and tests need this option, so -h does
 * not list it. */
static void answer_completion(const struct program *p, const char *shell, struct err *e)
{
	char *script = strcmp(shell, "rules") ? complete_script(p, shell, e) : option_rules_text(p);

	if (script)
		answer(script);
	cmd_die(e);
}

static void warn_line(const char *line)
{
	cmd_warn("%s", line);
}

int cmd_start(const struct program *p, int argc, char **argv, int min, int max)
{
	struct option_given given = {.n = 0};
	struct err e = {0};
	int n = 0, letter;

	program = p;
	hold_standard_descriptors();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a write error like a full disk */
	mapfault_catch(p->name);
	mem_on_failure(out_of_memory);
	json_set_alloc_funcs(mem_alloc, mem_free); /* jansson's own allocation drops values when it fails */
	if (argc == 3 && !strcmp(argv[1], "--completion"))
		answer_completion(p, argv[2], &e);
	letter = option_parse(p, argc, argv, &n, &given, warn_line, &e);
	if (letter > 0)
		answer(letter == 'V' ? str_new("%s %s\n%s\n", p->name, DDM_VERSION, DDM_BUILD) : option_help(p));
	if (letter || operands_are_wrong(n, min, max, &e) || option_check(p, &given, argv + 1, n, &e) || remoteenv_read(&e))
		cmd_die(&e);
	return n;
}

int cmd_binary(const char *path, const char *way_out, struct err *e)
{
	if (!path || strcmp(path, "-") || !isatty(STDOUT_FILENO))
		return 0;
	return err_set(e, ERR_USAGE, "standard output is a terminal, and this output is binary: %s", way_out);
}

/* End the program by a signal with its default action, even if the signal is blocked. */
static void raise_default(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	signal(sig, SIG_DFL);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Erase a progress line that has not reached its total. */
static void clear_progress(void)
{
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = 0;
}

/* Whether stdout is a pipe or socket whose reader has closed it. */
static int reader_is_gone(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

/* Close stdout: 0, or -1 with errno. If stdout was already closed at the start, that is an error only if something was printed. */
static int close_stdout(void)
{
	int pending = __fpending(stdout) > 0, failed = ferror(stdout);

	errno = 0;
	if (fclose(stdout) && (errno != EBADF || pending || failed))
		return -1;
	if (failed)
		errno = errno ? errno : EIO;
	return failed ? -1 : 0;
}

/* As cmd_end; `saved`: a caught signal is not raised. A write error on a pipe whose reader has closed it raises SIGPIPE instead of a message. */
static int end(const struct err *e, int saved)
{
	int gone = 0, deserted = reader_is_gone(), code = e ? e->code : ERR_NONE; /* asked before stdout is closed */

	clear_progress();
	claim_drop_all();
	if (cmd_signal && !saved)
		raise_default(cmd_signal);
	if (code == ERR_IO)
		gone = deserted;
	if (code && !gone)
		cmd_warn("%s", e->msg);
	if (close_stdout() && !code) {
		gone = errno == EPIPE || deserted;
		if (!gone)
			cmd_warn("standard output: %s", strerror(errno));
		code = ERR_IO;
	}
	if (gone)
		raise_default(SIGPIPE);
	return code;
}

int cmd_end(const struct err *e)
{
	return end(e, 0);
}

int cmd_end_over(const struct err *e)
{
	if (cmd_signal && e->code == ERR_AGAIN)
		cmd_warn("interrupted; nothing was saved: the same command starts over");
	return end(e, 0);
}

int cmd_end_saved(const struct err *e)
{
	return end(e, 1);
}

void cmd_exit(const struct err *e)
{
	exit(cmd_end(e));
}

void cmd_die(const struct err *e)
{
	claim_drop_all();
	cmd_warn("%s", e->msg);
	exit(e->code ? e->code : ERR_FAIL);
}

static void remember(int sig)
{
	cmd_signal = sig;
}

void cmd_catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
	struct sigaction old, act = {.sa_handler = remember, .sa_flags = (int)SA_RESETHAND};

	sigemptyset(&act.sa_mask);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		/* nohup, and `&` in a shell without job control, start programs with some signals ignored; these stay ignored. */
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_IGN)
			continue;
		sigaction(signals[i], &act, NULL);
	}
	interrupt_on(&cmd_signal);
}

void cmd_allow_files(void)
{
	struct rlimit l;

	if (!getrlimit(RLIMIT_NOFILE, &l)) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

/* Print "12 of 50 (24%), 8.3/s, ETA 0:04", or without a total only the count and the rate. */
static void print_progress(const char *what, int64_t done, int64_t total, const struct pace *p)
{
	double rate = pace_rate(p), left = pace_left(p, total);
	char text[PACE_TEXT];

	fprintf(stderr, "\r%s: %s %lld", program_name(), what, (long long)done);
	if (total > 0)
		fprintf(stderr, " of %lld (%.0f%%)", (long long)total, 100. * (double)done / (double)total);
	if (rate > 0)
		fprintf(stderr, ", %s/s", pace_number(text, rate));
	if (total > 0 && left >= 0)
		fprintf(stderr, ", ETA %s", pace_text(text, left));
	fputs("\033[K", stderr);
}

/* The fn of cmd_progress. A completed phase erases its line. */
static int show(void *arg, const char *what, int64_t done, int64_t total)
{
	static double last = -1;
	static const char *of; /* the phase shown last */
	static struct pace pace;
	double now;

	(void)arg;
	if (!isatty(STDERR_FILENO))
		return cmd_signal;
	now = clock_seconds();
	if (of && strcmp(of, what))
		pace = (struct pace){0};
	of = what;
	pace_add(&pace, done, now);
	if (last >= 0 && now - last < 1. / 6 && done != total)
		return cmd_signal;
	last = now;
	if (done == total && total > 0)
		fprintf(stderr, "\r\033[K");
	else
		print_progress(what, done, total, &pace);
	fflush(stderr);
	progress_shown = !(done == total && total > 0);
	return cmd_signal;
}

struct progress cmd_progress(void)
{
	return (struct progress){.fn = show};
}
