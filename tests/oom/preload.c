/* LD_PRELOADed into a program: main() runs once as it is, and then again and again in a forked child, each time with another
 * allocation failing: malloc, calloc, realloc, aligned blocks, mmap, threads, whoever asks for them. Environment:
 *
 *	OOM_OUT=PATH      the output, a file or a folder: removed before each run, compared with the first run's after it
 *	OOM_FROM=N OOM_STEP=N   of the allocations counted from 1, the first to fail and the distance to the next (1, 1)
 *	OOM_ON=1          all later ones of the run fail too
 *	OOM_LACK=TEXT     a training's folder: after a failure the output may hold some of its files and not others, each of them
 *	                  whole; after exit 0 those may lack whose path holds TEXT, a checkpoint on the way, where stderr says so
 *	OOM_DECODER=1     a decoder of ddm-ingest, its file on descriptor 3: the output is what it writes to stdout, whole after exit
 *	                  0, else whole frames of it and perhaps the message that says why; it may die, but not by its sandbox, and
 *	                  hang before its first word (libseccomp does)
 *	OOM_CODES=LIST    exit statuses beside 0 and 71 that are honest here ("65 74")
 *
 * A run is bad when it is killed by a signal or takes 60 s, exits with another status, says anything but one "NAME: ..." on stderr where
 * it fails, leaves a file called *.tmp* below the working directory, or an output that is not whole: none or all of it, all of it after
 * exit 0. Prints one "bad" line for each and then a summary; exits 1 where there was one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/ingest.h"

/* Shared with the parent, which reads the count. */
static struct counter {
	atomic_long n;
} *counter;
static long fail_at; /* 0: none */
static int fail_on, armed;

static int fails(void)
{
	long k;

	if (!armed)
		return 0;
	k = atomic_fetch_add(&counter->n, 1) + 1;
	if (!fail_at || (fail_on ? k < fail_at : k != fail_at))
		return 0;
	errno = ENOMEM;
	return 1;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}

void *memalign(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	void *q = memalign(align, size);

	if (!q)
		return ENOMEM;
	*p = q;
	return 0;
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (fails())
		return EAGAIN;
	if (!real)
		real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
	return real(t, a, fn, arg);
}

/* The parent's work. */

static const char *out, *codes, *lack;
static char whole[4096]; /* the first run's output */
static int decoder, message; /* message: what a run says on stderr */
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

static long wrong, excused, litter;
static const char *tree_a, *tree_b;

/* Of tree a: is it in tree b? */
static int compare_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
	char other[8192];

	(void)w;
	(void)st;
	if (type != FTW_F || log_of_run(path) || strstr(path, "/.lock"))
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
	litter += strstr(path + w->base, ".tmp") != NULL;
	return 0;
}

static int litter_remove(const char *path, const struct stat *st, int type, struct FTW *w)
{
	(void)st;
	(void)type;
	if (strstr(path + w->base, ".tmp"))
		remove_tree(path);
	return 0;
}

/* What a decoder wrote: of the first run, and of the last. */
static struct stream {
	char *p;
	size_t len;
} first, last;

static void stream_read(struct stream *s, int fd)
{
	ssize_t n;

	s->len = 0;
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

/* The messages that both have, and after them nothing, a part of the next or why there are no more. */
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
	return message_at(&last, at, &h) && h.kind == FRAME_ERROR && at + sizeof h + h.size == last.len ? "part" : "wrong";
}

/* "excused" is whole but for what may lack. */
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

static int run(int (*fn)(int, char **, char **), int argc, char **argv, char **envp)
{
	int status = 0, null, fd[2];
	pid_t pid;

	if (out)
		remove_tree(out);
	if (ftruncate(message, 0) || lseek(message, 0, SEEK_SET))
		abort();
	lseek(0, 0, SEEK_SET);
	if (decoder && (lseek(3, 0, SEEK_SET) || pipe(fd)))
		abort();
	atomic_store(&counter->n, 0);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		abort();
	if (!pid) {
		null = open("/dev/null", O_WRONLY);
		dup2(decoder ? fd[1] : null, 1);
		dup2(message, 2);
		close(null);
		alarm(decoder ? 15 : 60);
		armed = 1;
		exit(fn(argc, argv, envp));
	}
	if (decoder) {
		close(fd[1]);
		stream_read(&last, fd[0]);
		close(fd[0]);
	}
	waitpid(pid, &status, 0);
	return status;
}

/* Complaints on stderr, lines that begin with the program's name; the beginning of it all in text. */
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

static void judge(long k, int status)
{
	char text[600];
	int lines = said(text, sizeof text), code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	const char *state = output_state(), *why = NULL;

	litter = 0;
	nftw(".", litter_one, 16, FTW_PHYS);
	if (WIFSIGNALED(status) &&
	    (!decoder || WTERMSIG(status) == SIGSYS || (WTERMSIG(status) == SIGALRM && strcmp(state, "none"))))
		why = strsignal(WTERMSIG(status));
	else if (code > 0 && code != 71 && !is_listed(code))
		why = "the exit status";
	else if (code && !decoder && (lack ? lines < 1 : lines != 1))
		why = "not one complaint on stderr";
	else if (!strcmp(state, "wrong") || (!strcmp(state, "part") && !lack && !decoder))
		why = "the output is damaged";
	else if (!code && strcmp(state, "whole") && !(!strcmp(state, "excused") && lines))
		why = "the output is missing";
	else if (litter)
		why = "temporary files are left";
	if (litter)
		nftw(".", litter_remove, 16, FTW_DEPTH | FTW_PHYS);
	if (!why)
		return;
	bad++;
	printf("# bad: allocation %ld: %s (exit %d, output %s, %ld temporaries): %s\n", k, why, code, state, litter, text);
}

static int (*program)(int, char **, char **);

static int sweep(int argc, char **argv, char **envp)
{
	long step = number("OOM_STEP", 1), from = number("OOM_FROM", 1), total, runs = 0, deaths = 0, by_code[256] = {0};
	int status;

	unsetenv("LD_PRELOAD");
	out = getenv("OOM_OUT") && *getenv("OOM_OUT") ? getenv("OOM_OUT") : NULL;
	codes = getenv("OOM_CODES") ? getenv("OOM_CODES") : "";
	lack = getenv("OOM_LACK");
	decoder = (int)number("OOM_DECODER", 0);
	message = memfd_create("stderr", 0);
	message = fcntl(message, F_DUPFD, 100);
	counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	status = run(program, argc, argv, envp);
	total = atomic_load(&counter->n);
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
	fail_on = (int)number("OOM_ON", 0);
	for (long k = from; k <= total; k += step, runs++) {
		fail_at = k;
		status = run(program, argc, argv, envp);
		if (WIFEXITED(status))
			by_code[WEXITSTATUS(status)]++;
		else
			deaths++;
		judge(k, status);
	}
	printf("# %ld allocations, %ld runs:", total, runs);
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

int __libc_start_main(int (*fn)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
	start_main *real = (start_main *)dlsym(RTLD_NEXT, "__libc_start_main");

	program = fn;
	return real(sweep, argc, argv, init, fini, rtld_fini, stack_end);
}
