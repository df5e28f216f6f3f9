/* LD_PRELOADed into a program: main() runs once unchanged, and then again and again in a forked child, each time with another
 * call failing. Environment:
 *
 *	FAULT=memory      an allocation fails
 *	FAULT=full        a call that writes to the disk fails: write, fsync, open of a new file, mkdir, rename
 *	FAULT=kill        the process is killed before such a call, or before one that removes something
 *	FAULT=read        a call that reads a file below the working directory fails
 *	FAULT_OUT=PATH    the output, a file or a folder: removed before each run, and compared with the first run's after it. If PATH ends
 *	                  with a /, an empty folder is made for each run
 *	FAULT_FROM=N FAULT_STEP=N   number of the first call to fail, counted from 1, and the distance to the next (1, 1)
 *	FAULT_ON=1        all later calls of the run fail too
 *	FAULT_PARTS=1     several outputs: after a failure some may exist and others not, each of them whole
 *	FAULT_LACK=TEXT   as FAULT_PARTS; after exit 0 outputs whose path contains TEXT (a checkpoint, a cache) may be missing if stderr
 *	                  says so
 *	FAULT_DECODER=1   a decoder of ddm-ingest, its file on descriptor 3: the output is what it writes to stdout, whole after exit
 *	                  0, else whole frames of it and perhaps the message that says why; it may die, but not by its sandbox, and
 *	                  may hang before its first output (libseccomp does)
 *	FAULT_CODES=LIST  exit statuses beside 0 and 71 (memory) or 74 that are allowed here ("65 74")
 *
 * A run is bad if a signal kills it, it takes 60 s, it exits with another status, it fails without exactly one "NAME: ..." on stderr, it leaves a
 * file *.tmp* below the working directory, or a part of an output; after exit 0 the output must be whole. A killed run may leave temporaries. Unless
 * memory was short, the program then runs once more over the files that are left: it must exit 0 with the whole output and no temporary. Prints a
 * "bad" line for each bad run and then a summary; exits 1 if there was one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/ingest.h"
#include "tests/faults/faults.h"

static struct fault *fault;

int fault_strikes(struct fault *f)
{
	long k = atomic_fetch_add(&f->n, 1) + 1, at = atomic_load(&f->at);

	return at && (f->on ? k >= at : k == at);
}

static const char *out, *codes, *lack;
static char whole[4096];                   /* the first run's output */
static int decoder, parts, fresh, message; /* fresh: an empty folder before each run; message: descriptor of a run's stderr */
static enum { MEMORY, FULL, KILL, READS } kind;
static const char *const kinds[] = {"memory", "full", "kill", "read"};
static long bad;

static long number(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text ? atol(text) : otherwise;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
	(void)st;
	(void)type;
	(void)w;
	return remove(path);
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int same_bytes(const char *a, const char *b)
{
	FILE *f = fopen(a, "r"), *g = fopen(b, "r");
	int c, d, same = f && g;

	while (same) {
		c = getc(f);
		d = getc(g);
		if (c != d)
			same = 0;
		if (c == EOF)
			break;
	}
	if (f)
		fclose(f);
	if (g)
		fclose(g);
	return same;
}

static int log_of_run(const char *path)
{
	size_t n = strlen(path);

	return n > 6 && !strcmp(path + n - 6, ".jsonl");
}

/* Whether a file is a partial output that the next run continues (file/partial.h); killed runs and those without memory may leave one. */
static int is_kept(const char *name)
{
	return name[0] == '.' && strstr(name, ".part") != NULL;
}

static int is_temporary(const char *name)
{
	return strstr(name, ".tmp") || (is_kept(name) && kind != MEMORY);
}

static long wrong, excused, litter;
static const char *tree_a, *tree_b;

/* Compare an entry of tree a with that of tree b. */
static int compare_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
	char other[8192];

	(void)st;
	if (type != FTW_F || log_of_run(path) || strstr(path, "/.lock") || ((kind == KILL || kind == MEMORY) && is_kept(path + w->base)) ||
	    (kind == KILL && strstr(path + strlen(tree_a), ".tmp"))) /* it is or lies in a temporary */
		return 0;
	snprintf(other, sizeof other, "%s%s", tree_b, path + strlen(tree_a));
	if (lack && strstr(path, lack) && access(other, F_OK))
		excused++;
	else
		wrong += !same_bytes(path, other);
	return 0;
}

static long compare(const char *a, const char *b)
{
	wrong = excused = 0;
	tree_a = a;
	tree_b = b;
	nftw(a, compare_one, 16, FTW_PHYS);
	return wrong;
}

static int litter_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
	(void)st;
	(void)type;
	litter += is_temporary(path + w->base);
	return 0;
}

static int litter_remove(const char *path, const struct stat *st, int type, struct FTW *w)
{
	(void)st;
	(void)type;
	if (is_temporary(path + w->base))
		remove_tree(path);
	return 0;
}

/* The output of a decoder: of the first run, and of the last. */
static struct stream {
	char *p;
	size_t len;
} first, last;

enum { FIRST_WORD_MS = 3000 };

/* Read a decoder's output. A decoder that writes nothing for long at the beginning hangs, and is killed. */
static void stream_read(struct stream *s, int fd, pid_t pid)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	s->len = 0;
	if (!poll(&p, 1, FIRST_WORD_MS))
		kill(pid, SIGALRM);
	do {
		s->p = realloc(s->p, s->len + 65536);
		n = read(fd, s->p + s->len, 65536);
		s->len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
}

static int message_at(const struct stream *s, size_t at, struct frame_head *h)
{
	if (s->len - at < sizeof *h)
		return 0;
	memcpy(h, s->p + at, sizeof *h);
	return h->magic == FRAME_MAGIC && h->size <= s->len - at - sizeof *h;
}

/* Compare the streams: equal messages, followed by nothing, by a part of the next message, or by an error message. */
static const char *stream_state(void)
{
	struct frame_head h;
	size_t at = 0, n = last.len < first.len ? last.len : first.len;

	while (message_at(&last, at, &h) && at + sizeof h + h.size <= n && !memcmp(last.p + at, first.p + at, sizeof h + h.size))
		at += sizeof h + h.size;
	if (at == first.len && at == last.len)
		return "whole";
	if (!memcmp(last.p + at, first.p + at, n - at) && last.len < first.len)
		return at ? "part" : "none";
	return message_at(&last, at, &h) && h.facts.kind == FRAME_ERROR && at + sizeof h + h.size == last.len ? "part" : "wrong";
}

/* The state of the output. "excused": whole except for parts that may be missing. */
static const char *output_state(void)
{
	if (decoder)
		return stream_state();
	if (!out)
		return "whole";
	if (access(out, F_OK))
		return "none";
	if (compare(out, whole))
		return "wrong";
	return compare(whole, out) ? "part" : excused ? "excused" : "whole";
}

static int is_listed(int code)
{
	char text[16];
	const char *at = codes;
	int n = snprintf(text, sizeof text, "%d", code);

	while ((at = strstr(at, text))) {
		if ((at == codes || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return 1;
		at += n;
	}
	return 0;
}

static void arm(const int between[2])
{
	if (kind == MEMORY)
		memory_arm(fault);
	else if (disk_arm(between[1]))
		_exit(99);
}

static int (*program)(int, char **, char **);

static int run(char **argv, char **envp, int armed)
{
	static const enum disk_fault disk[] = {[FULL] = DISK_FULL, [KILL] = DISK_KILL, [READS] = DISK_READ};
	int status = 0, null, fd[2], between[2], argc = 0;
	pid_t pid;

	if (ftruncate(message, 0) || lseek(message, 0, SEEK_SET))
		abort();
	while (argv[argc])
		argc++;
	lseek(0, 0, SEEK_SET);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, between) || (decoder && (lseek(3, 0, SEEK_SET) || pipe(fd))))
		abort();
	atomic_store(&fault->n, 0);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		abort();
	if (!pid) {
		null = open("/dev/null", O_WRONLY);
		dup2(decoder ? fd[1] : null, 1);
		dup2(message, 2);
		close(null);
		close(between[0]);
		alarm(60);
		if (armed)
			arm(between);
		exit(program(argc, argv, envp));
	}
	close(between[1]);
	if (decoder) {
		close(fd[1]);
		stream_read(&last, fd[0], pid);
		close(fd[0]);
	}
	if (armed && kind != MEMORY && disk_watch(pid, between[0], disk[kind], fault))
		kill(pid, SIGKILL);
	close(between[0]);
	waitpid(pid, &status, 0);
	return status;
}

static void clear(void)
{
	if (!out)
		return;
	remove_tree(out);
	if (fresh)
		mkdir(out, 0777);
}

/* Count the lines on stderr that begin with the program's name. `text` receives the beginning of stderr. */
static int said(char *text, size_t size)
{
	ssize_t n = pread(message, text, size - 1, 0);
	size_t len = strlen(program_invocation_short_name);
	int lines = 0;

	text[n > 0 ? n : 0] = 0;
	for (char *c = text; *c; c++) {
		if ((c == text || c[-1] == ' ') && !strncmp(c, program_invocation_short_name, len) && c[len] == ':')
			lines++;
		if (*c == '\n')
			*c = ' ';
	}
	return lines;
}

static long litter_count(void)
{
	litter = 0;
	nftw(".", litter_one, 16, FTW_PHYS);
	return litter;
}

static const char *verdict(int status, const char *state, int lines)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (WIFSIGNALED(status) && !(kind == KILL && WTERMSIG(status) == SIGKILL) &&
	    (!decoder || WTERMSIG(status) == SIGSYS || (WTERMSIG(status) == SIGALRM && strcmp(state, "none"))))
		return strsignal(WTERMSIG(status));
	if (code > 0 && code != (kind == MEMORY ? 71 : 74) && !is_listed(code))
		return "the exit status";
	if (code > 0 && !decoder && (lack ? lines < 1 : lines != 1))
		return "not one complaint on stderr";
	if (!strcmp(state, "wrong") || (!strcmp(state, "part") && !parts && !decoder))
		return "the output is damaged";
	if (!code && strcmp(state, "whole") && !(!strcmp(state, "excused") && lines))
		return "the output is missing";
	return kind != KILL && litter_count() ? "temporary files are left" : NULL;
}

static void judge(long k, int status)
{
	char text[600];
	int lines = said(text, sizeof text);
	const char *state = output_state(), *why = verdict(status, state, lines);

	if (!why)
		return;
	bad++;
	printf("# bad: number %ld: %s (exit %d, output %s, %ld temporaries): %s\n", k, why, WIFEXITED(status) ? WEXITSTATUS(status) : -1, state,
	       litter, text);
}

/* Run the same command over the files that are left; they must not hinder it. */
static void judge_again(long k, int status)
{
	char text[600];
	const char *state = output_state(), *why = NULL;

	said(text, sizeof text);
	if (status)
		why = "it fails";
	else if (strcmp(state, "whole") && strcmp(state, "excused"))
		why = "the output is not whole";
	else if (litter_count())
		why = "temporary files are left";
	if (!why)
		return;
	bad++;
	printf("# bad: number %ld, and again: %s (status %x, output %s): %s\n", k, why, (unsigned)status, state, text);
}

static void settings(void)
{
	const char *name = getenv("FAULT");
	size_t n;

	while (name && strcmp(kinds[kind], name))
		if (++kind > READS)
			abort();
	codes = getenv("FAULT_CODES") ? getenv("FAULT_CODES") : "";
	lack = getenv("FAULT_LACK");
	parts = (int)number("FAULT_PARTS", 0) || lack;
	decoder = (int)number("FAULT_DECODER", 0);
	out = getenv("FAULT_OUT") && *getenv("FAULT_OUT") ? strdup(getenv("FAULT_OUT")) : NULL;
	n = out ? strlen(out) : 0;
	fresh = n && out[n - 1] == '/';
	if (fresh)
		((char *)out)[n - 1] = 0;
	fault->on = (int)number("FAULT_ON", 0);
}

static int sweep(int argc, char **argv, char **envp)
{
	long step = number("FAULT_STEP", 1), from = number("FAULT_FROM", 1), total, runs = 0, deaths = 0, by_code[256] = {0};
	int status;

	(void)argc;
	unsetenv("LD_PRELOAD");
	fault = mmap(NULL, sizeof *fault, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	message = memfd_create("stderr", 0);
	message = fcntl(message, F_DUPFD, 100);
	settings();
	clear();
	status = run(argv, envp, 1);
	total = atomic_load(&fault->n);
	if (status) {
		char text[600];

		said(text, sizeof text);
		printf("# the program fails by itself: status %x: %s\n", (unsigned)status, text);
		return 2;
	}
	first = last;
	last = (struct stream){0};
	if (out) {
		snprintf(whole, sizeof whole, "%s.whole", out);
		remove_tree(whole);
		if (rename(out, whole))
			return 2;
	}
	for (long k = from; k <= total; k += step, runs++) {
		atomic_store(&fault->at, k);
		clear();
		status = run(argv, envp, 1);
		if (WIFEXITED(status))
			by_code[WEXITSTATUS(status)]++;
		else
			deaths++;
		judge(k, status);
		if (kind != MEMORY)
			judge_again(k, run(argv, envp, 0));
		litter_count();
		if (litter)
			nftw(".", litter_remove, 16, FTW_DEPTH | FTW_PHYS);
	}
	printf("# %ld chances, %ld runs:", total, runs);
	for (int i = 0; i < 256; i++)
		if (by_code[i])
			printf(" %ld exit %d", by_code[i], i);
	if (deaths)
		printf(" %ld killed", deaths);
	printf("; %ld bad\n", bad);
	if (out)
		remove_tree(whole);
	return bad > 0;
}

typedef int start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

int __libc_start_main(int (*fn)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                      void *stack_end)
{
	start_main *real = (start_main *)dlsym(RTLD_NEXT, "__libc_start_main");

	program = fn;
	return real(sweep, argc, argv, init, fini, rtld_fini, stack_end);
}
