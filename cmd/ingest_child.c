/* Starts and ends decoder processes of ddm-ingest, and reads their frames. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/beside.h"
#include "cmd/ingest.h"
#include "core/clock.h"
#include "core/mem.h"
#include "data/clipgrid.h"
#include "file/fileio.h"

static char *env_copy(const char *name)
{
	const char *value = getenv(name);

	return value ? str_new("%s=%s", name, value) : NULL;
}

/* The path of the decoder's program. Caller frees with mem_free. */
static char *decoder_program(void)
{
	char *path = beside_program("ingest-decoder", X_OK);

	return path ? path : mem_strdup(LIBEXECDIR "/ddm/ingest-decoder");
}

static int cannot_start(const char *program, int code, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "cannot start a decoder: %s: %s", program, strerror(code));
}

/* Run the decoder with only the environment variables that the dynamic linker and the address sanitizer need. */
static int spawn(pid_t *pid, int in, int out, int media, char **argv, struct err *e)
{
	char *program = decoder_program();
	char *env[4] = {mem_strdup("LC_ALL=C")};
	posix_spawn_file_actions_t fa;
	int rc, n = 1;

	env[n] = env_copy("LD_LIBRARY_PATH");
	n += env[n] != NULL;
	env[n] = env_copy("ASAN_OPTIONS");
	rc = posix_spawn_file_actions_init(&fa);
	if (!rc)
		rc = in >= 0 ? posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO)
		             : posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!rc && media >= 0)
		rc = posix_spawn_file_actions_adddup2(&fa, media, DECODER_MEDIA_FD);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	if (!rc)
		rc = posix_spawn(pid, program, &fa, NULL, argv, env);
	posix_spawn_file_actions_destroy(&fa);
	for (int i = 0; i < 4; i++)
		mem_free(env[i]);
	if (rc)
		cannot_start(program, rc, e);
	mem_free(program);
	return rc ? -1 : 0;
}

int media_versions(struct str *out, struct err *e)
{
	char *argv[] = {(char *)DECODER_NAME, (char *)DECODER_VERSIONS, NULL}, text[300];
	int fd[2], rc, status = 0;
	ssize_t got;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC))
		return err_set(e, ERR_UNAVAILABLE, "cannot start a decoder: %s", strerror(errno));
	rc = spawn(&pid, -1, fd[1], -1, argv, e);
	close(fd[1]);
	while (!rc && ((got = read(fd[0], text, sizeof text)) > 0 || (got < 0 && errno == EINTR)))
		if (got > 0)
			str_printf(out, "%.*s", (int)got, text);
	close(fd[0]);
	while (!rc && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!rc && (status || !out->len))
		rc = err_set(e, ERR_UNAVAILABLE, "the decoder ended before it named its versions");
	return rc;
}

int decoder_spawn(struct decoder *d, int in, int media, char **argv, struct err *e)
{
	int fd[2], rc;

	if (pipe2(fd, O_CLOEXEC))
		return err_set(e, ERR_UNAVAILABLE, "cannot start a decoder: %s", strerror(errno));
	/* spawn() makes descriptor 3 the decoder's input, so the pipe must not have that number. */
	if (fd[1] <= DECODER_MEDIA_FD) {
		int up = fcntl(fd[1], F_DUPFD_CLOEXEC, DECODER_MEDIA_FD + 1);

		close(fd[1]);
		fd[1] = up;
	}
	fcntl(fd[1], F_SETPIPE_SZ, 1 << 20); /* fewer waits, where it is allowed */
	rc = spawn(&d->pid, in, fd[1], media, argv, e);
	close(fd[1]);
	if (rc)
		close(fd[0]);
	else
		d->fd = fd[0];
	return rc;
}

static int start(struct decoder *d, struct err *e)
{
	size_t n = (size_t)d->items;
	char **argv = mem_zalloc(n + 10, sizeof *argv);
	int rc;

	d->item = d->next_index = d->glimpses = d->next_target = 0;
	argv[0] = (char *)DECODER_NAME;
	argv[1] = (char *)(d->limits.bare ? DECODER_BARE : DECODER_SERVE);
	argv[2] = str_new("%lld", (long long)d->limits.frames);
	argv[3] = str_new("%.17g", d->limits.fps);
	argv[4] = str_new("%lld", (long long)d->limits.max_pixels);
	argv[5] = str_new("%lld", d->granted ? (long long)(budget_process(d->granted) - d->limits.set_aside) : 0);
	argv[6] = mem_strdup(d->limits.clips ? "1" : "0");
	argv[7] = str_new("%d", d->limits.glimpses);
	argv[8] = str_new("%lld", d->limits.planes ? (long long)d->limits.size : 0);
	for (size_t i = 0; i < n; i++)
		argv[9 + i] = d->graphs[i];
	rc = decoder_spawn(d, -1, d->media, argv, e);
	for (int i = 2; i < 9; i++)
		mem_free(argv[i]);
	mem_free(argv);
	return rc;
}

/* Wait until the decoder's share of the budget, or the whole budget, is free, and take it. */
static void share_take(struct decoder *d, int whole)
{
	d->granted = whole ? d->limits.budget->total : d->limits.budget->share;
	budget_take(d->limits.budget, d->granted);
}

int decoder_open_file(struct decoder *d, int fd, const char *name, const struct decode_limits *l, struct err *e)
{
	*d = (struct decoder){.name = name, .limits = *l, .media = fcntl(fd, F_DUPFD_CLOEXEC, DECODER_MEDIA_FD + 1)};
	if (d->media < 0)
		return err_set(e, ERR_UNAVAILABLE, "cannot start a decoder: %s", strerror(errno));
	share_take(d, l->alone);
	return start(d, e);
}

int decoder_open_graphs(struct decoder *d, char **graphs, int n, const char *name, const struct decode_limits *l, struct err *e)
{
	*d = (struct decoder){.name = name, .limits = *l, .media = -1, .items = (uint64_t)n};
	d->graphs = mem_zalloc((size_t)n, sizeof *d->graphs);
	for (int i = 0; i < n; i++)
		d->graphs[i] = mem_strdup(graphs[i]);
	share_take(d, l->alone);
	return start(d, e);
}

/* Whether a signal came from a user or from the kernel's out-of-memory killer. The decoder's own faults raise other signals, but at the limit on
 * processor time the kernel sends SIGKILL too. */
static int came_from_outside(int sig, const struct rusage *used)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ, SIGPIPE};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (sig == own[i])
			return 0;
	return sig != SIGKILL || used->ru_utime.tv_sec + used->ru_stime.tv_sec < INGEST_CPU_SECONDS - 10;
}

/* ERR_DATA for a decoder that needs more memory than its share. */
static int out_of_share(const struct decoder *d, const char *why, struct err *e)
{
	if (!d->granted)
		return err_set(e, ERR_DATA, "%s: %s", d->name, why);
	return err_set(e, ERR_DATA, "%s: %s; a decoder may use %llu MiB, half of --max-memory", d->name, why,
	               (unsigned long long)(budget_process(d->granted) >> 20));
}

/* The pipe closed without an end message: find out why the process ended. */
static int died(struct decoder *d, struct err *e)
{
	struct rusage used = {0};
	int status = 0, rc;

	close(d->fd);
	while ((rc = wait4(d->pid, &status, 0, &used)) < 0 && errno == EINTR)
		;
	d->pid = 0;
	if (rc > 0 && WIFSIGNALED(status) && came_from_outside(WTERMSIG(status), &used)) {
		d->killed = WTERMSIG(status);
		return -1;
	}
	if (rc > 0 && WIFSIGNALED(status))
		return err_set(e, ERR_DATA, "%s: the decoder died: %s", d->name, strsignal(WTERMSIG(status)));
	if (rc > 0 && WEXITSTATUS(status) == ERR_NOMEM)
		return out_of_share(d, "the decoder ran out of memory", e);
	return err_set(e, ERR_DATA, "%s: the decoder stopped early", d->name);
}

int decoder_receive(struct decoder *d, void *to, size_t n, double *last_byte, int (*stop)(void), struct err *e)
{
	uint8_t *p = to;

	while (n) {
		struct pollfd pf = {.fd = d->fd, .events = POLLIN};
		ssize_t got;

		if (stop && stop())
			return err_set(e, ERR_AGAIN, "interrupted");
		if (poll(&pf, 1, 200) <= 0) {
			d->silent = d->limits.timeout > 0 && clock_seconds() - *last_byte > d->limits.timeout;
			if (d->silent)
				return err_set(e, ERR_DATA, "%s: no %s for %.0f seconds, the decoder was killed", d->name,
				               d->gives ? d->gives : "frame", d->limits.timeout);
			continue;
		}
		got = read(d->fd, p, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return died(d, e);
		*last_byte = clock_seconds();
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

int decoder_nonsense(const struct decoder *d, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: the decoder sent an invalid reply", d->name);
}

int decoder_receive_error(struct decoder *d, uint64_t size, int64_t code, double *last_byte, int (*stop)(void), struct err *e)
{
	char text[DECODER_TEXT_MAX + 1] = "";

	if (size > DECODER_TEXT_MAX)
		return decoder_nonsense(d, e);
	if (decoder_receive(d, text, size, last_byte, stop, e))
		return -1;
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 32 || (unsigned char)*c > 126)
			*c = '?';
	if (code == ERR_NOMEM)
		return out_of_share(d, text, e);
	return err_set(e, code == ERR_USAGE || code == ERR_FAIL ? (int)code : ERR_DATA, "%s: %s", d->name, text);
}

/* Whether the facts of a frame are those that must come next. */
static int facts_are_sane(const struct decoder *d, const struct frame_facts *f)
{
	const struct decode_limits *l = &d->limits;
	uint64_t most = (uint64_t)(l->fps * ((double)CLIPGRID_GAP / CLIPGRID_SECOND)) + 2;

	if (f->item != d->item || (d->items && f->item >= d->items))
		return 0;
	if (!l->clips)
		return f->kind == FRAME_PIXELS && f->index == d->next_index && (!l->frames || f->index < (uint64_t)l->frames);
	if (f->kind == FRAME_GLIMPSE)
		return l->glimpses && f->index == d->glimpses;
	return f->kind == FRAME_PIXELS && f->index >= d->next_index && (!l->glimpses || f->index < d->glimpses) && f->first >= d->next_target &&
	       f->first < INT64_MAX && f->targets > 0 && f->targets <= most && (!l->frames || f->first + f->targets <= (uint64_t)l->frames);
}

/* Whether planes, or RGB without planes' facts, are as they must be. */
static int planes_are_sane(const struct decoder *d, const struct frame_facts *f)
{
	int small = f->planes <= 1 && f->shift_x <= 1 && f->shift_y <= 1 && f->full <= 1;

	for (int i = 0; i < 4; i++)
		small = small && f->matrix[i] >= -(1 << 20) && f->matrix[i] <= 1 << 20;
	return small && (!f->planes || (d->limits.planes && f->kind == FRAME_PIXELS && frame_size(f) <= INT32_MAX));
}

/* Whether the header of a frame has a possible size and possible facts. */
static int frame_is_sane(const struct decoder *d, const struct frame_head *h)
{
	const struct frame_facts *f = &h->facts;
	int fixed = f->kind == FRAME_GLIMPSE && d->limits.glimpses == GLIMPSES_TRANSNET; /* may be larger than the frames of a small video */

	if (fixed && (f->width != TRANSNET_WIDTH || f->height != TRANSNET_HEIGHT))
		return 0;
	return f->width >= 1 && f->height >= 1 && f->width <= INT32_MAX && f->height <= INT32_MAX &&
	       (fixed || (int64_t)f->width * f->height <= d->limits.max_pixels) && planes_are_sane(d, f) && h->size == frame_size(f) &&
	       facts_are_sane(d, f);
}

/* Expect what comes after this frame. */
static void frame_count(struct decoder *d, const struct frame_facts *f)
{
	if (f->kind == FRAME_GLIMPSE) {
		d->glimpses = f->index + 1;
	} else {
		d->next_index = f->index + 1;
		d->next_target = f->first + f->targets;
	}
}

static int frame_next(struct decoder *d, struct picture *p, struct frame_facts *f, int (*stop)(void), struct err *e)
{
	double last_byte = clock_seconds();
	struct frame_head h;
	uint32_t w, height;

	for (;;) {
		if (decoder_receive(d, &h, sizeof h, &last_byte, stop, e))
			return -1;
		if (h.magic != FRAME_MAGIC)
			return decoder_nonsense(d, e);
		if (h.facts.kind == FRAME_ERROR)
			return decoder_receive_error(d, h.size, (int64_t)h.facts.index, &last_byte, stop, e);
		if (h.facts.kind == FRAME_END)
			return h.size || d->item != d->items ? decoder_nonsense(d, e) : 0;
		if (h.facts.kind != FRAME_ITEM_END)
			break;
		if (h.size || h.facts.item != d->item || d->item >= d->items)
			return decoder_nonsense(d, e);
		d->item++;
		d->next_index = d->glimpses = d->next_target = 0;
	}
	if (!frame_is_sane(d, &h))
		return decoder_nonsense(d, e);
	w = h.facts.width;
	height = h.facts.height;
	if (d->granted && frame_bytes(w, height, d->limits.size) > budget_frame(d->granted))
		return err_set(e, ERR_DATA, "%s: %ux%u pixels take %llu MiB to store, more than %llu MiB, a quarter of --max-memory", d->name, w,
		               height, (unsigned long long)(frame_bytes(w, height, d->limits.size) >> 20),
		               (unsigned long long)(budget_frame(d->granted) >> 20));
	if (h.facts.planes ? picture_alloc(p, (int)h.size, 1, 1, e) : picture_alloc(p, (int)w, (int)height, 3, e))
		return -1;
	if (decoder_receive(d, p->pixels, h.size, &last_byte, stop, e)) {
		picture_release(p);
		return -1;
	}
	*f = h.facts;
	frame_count(d, f);
	return 1;
}

void decoder_kill(struct decoder *d)
{
	if (d->pid <= 0)
		return;
	close(d->fd);
	kill(d->pid, SIGKILL);
	while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
		;
	d->pid = 0;
}

/* Whether a decoder that failed may succeed with more memory. Every ERR_DATA counts, because FFmpeg does not always report a failed allocation. */
static int was_short(const struct decoder *d, const struct err *e)
{
	return e->code == ERR_DATA && !d->silent && d->granted < d->limits.budget->total;
}

/* Take the whole budget for a restart. The share is returned first, because two decoders that keep theirs would wait for each other. */
static void take_all(struct decoder *d, struct err *e)
{
	decoder_kill(d);
	budget_give(d->limits.budget, d->granted);
	share_take(d, 1);
	*e = (struct err){0};
}

/* Restart the decoder; decoder_next will drop the frames that were already handed out. */
static int start_again(struct decoder *d, int (*stop)(void), struct err *e)
{
	int sig = d->killed;

	d->killed = 0;
	if (stop && stop())
		return err_set(e, ERR_AGAIN, "interrupted");
	if (sig && d->kills++)
		return err_set(e, ERR_UNAVAILABLE, "%s: its decoder was killed twice, by another process or for lack of memory: %s", d->name,
		               strsignal(sig));
	if (d->media >= 0 && lseek(d->media, 0, SEEK_SET) < 0)
		return err_errno(e, "%s", d->name);
	d->skip = d->given;
	return start(d, e);
}

int decoder_next(struct decoder *d, struct picture *p, struct frame_facts *f, int (*stop)(void), struct err *e)
{
	for (;;) {
		int rc = frame_next(d, p, f, stop, e);

		if (rc > 0 && d->skip) {
			d->skip--;
			picture_release(p);
			continue;
		}
		if (rc >= 0 || (!d->killed && !was_short(d, e))) {
			d->given += rc > 0;
			return rc;
		}
		if (!d->killed)
			take_all(d, e);
		if (start_again(d, stop, e))
			return -1;
	}
}

void decoder_close(struct decoder *d)
{
	decoder_kill(d);
	if (d->granted)
		budget_give(d->limits.budget, d->granted);
	for (uint64_t i = 0; d->graphs && i < d->items; i++)
		mem_free(d->graphs[i]);
	mem_free(d->graphs);
	if (d->limits.budget && d->media >= 0)
		close(d->media);
	*d = (struct decoder){0};
}
