/* Starts film-encoder, sends it frames, and takes the film that it writes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/beside.h"
#include "cmd/film.h"
#include "core/mem.h"
#include "file/fileio.h"

/* A running encoder: the pipe to it, and the files in memory that it writes its film and its messages to. */
struct child {
	pid_t pid;
	int in, film, told;
};

static int open_ends(struct child *c, int pipe_of[2])
{
	c->film = memfd_create("film", MFD_CLOEXEC);
	c->told = memfd_create("messages", MFD_CLOEXEC);
	return c->film < 0 || c->told < 0 || pipe2(pipe_of, O_CLOEXEC) ? -1 : 0;
}

static void close_ends(struct child *c)
{
	int *end[] = {&c->in, &c->film, &c->told};

	for (int i = 0; i < 3; i++) {
		if (*end[i] >= 0)
			close(*end[i]);
		*end[i] = -1;
	}
}

static int start(struct child *c, char **argv, struct err *e)
{
	char *path = beside_program(FILM_ENCODER, X_OK), *env[] = {(char *)"LC_ALL=C", NULL, NULL};
	char *libraries = getenv("LD_LIBRARY_PATH") ? str_new("LD_LIBRARY_PATH=%s", getenv("LD_LIBRARY_PATH")) : NULL;
	posix_spawn_file_actions_t fa;
	int ends[2] = {-1, -1}, rc;

	*c = (struct child){.in = -1, .film = -1, .told = -1};
	env[1] = libraries;
	path = path ? path : mem_strdup(LIBEXECDIR "/ddm/" FILM_ENCODER);
	rc = open_ends(c, ends) ? errno : 0;
	posix_spawn_file_actions_init(&fa);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&fa, ends[0], STDIN_FILENO);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&fa, c->film, STDOUT_FILENO);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&fa, c->told, STDERR_FILENO);
	if (!rc)
		rc = posix_spawn(&c->pid, path, &fa, NULL, argv, env);
	posix_spawn_file_actions_destroy(&fa);
	if (ends[0] >= 0)
		close(ends[0]);
	c->in = ends[1];
	if (rc) {
		err_set(e, ERR_UNAVAILABLE, "cannot start the encoder of films: %s: %s", path, strerror(rc));
		close_ends(c);
	}
	mem_free(libraries);
	mem_free(path);
	return rc ? -1 : 0;
}

static int read_all(int fd, struct str *out, struct err *e)
{
	char chunk[1 << 14];
	ssize_t n;

	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, chunk, sizeof chunk)) > 0)
		str_add(out, chunk, (size_t)n);
	return n < 0 ? err_set(e, ERR_IO, "the film: %s", strerror(errno)) : 0;
}

/* Wait for the end of the child, and take its film. */
static int finish(struct child *c, struct str *out, struct err *e)
{
	struct str told = {0};
	int status = 0, rc = 0;

	close(c->in);
	c->in = -1;
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status) {
		read_all(c->told, &told, NULL);
		if (told.len && told.p[told.len - 1] == '\n')
			told.p[told.len - 1] = 0;
		rc = err_set(e, ERR_UNAVAILABLE, "the encoder of films failed: %s", told.len ? str_text(&told) : "it was killed");
	} else {
		rc = read_all(c->film, out, e);
	}
	str_release(&told);
	close_ends(c);
	return rc;
}

/* Write a frame to the child as RGB. 1: the child has ended. */
static int send_frame(struct child *c, const struct picture *p)
{
	size_t area = (size_t)p->width * (size_t)p->height;
	uint8_t *rgb;
	int rc;

	if (p->channels == 3)
		return fd_write(c->in, p->pixels, 3 * area) != 0;
	rgb = mem_alloc(3 * area);
	for (size_t i = 0; i < area; i++)
		memset(rgb + 3 * i, p->pixels[i], 3);
	rc = fd_write(c->in, rgb, 3 * area) != 0;
	mem_free(rgb);
	return rc;
}

int film_encode(struct str *out, const char *format, int64_t n, double fps, film_frame *frame, void *arg, struct err *e)
{
	char *argv[6] = {(char *)FILM_ENCODER, (char *)(uintptr_t)format};
	struct child c = {0};
	int rc = 0;

	for (int64_t i = 0, over = 0; i < n && !rc && !over; i++) {
		struct picture p;

		if (frame(arg, i, &p, e)) {
			rc = -1;
			break;
		}
		if (!i) {
			argv[2] = str_new("%d", p.width);
			argv[3] = str_new("%d", p.height);
			argv[4] = str_new("%.17g", fps);
			rc = start(&c, argv, e);
		}
		if (!rc)
			over = send_frame(&c, &p);
		picture_release(&p);
	}
	if (c.pid > 0) {
		if (rc)
			kill(c.pid, SIGKILL);
		rc = finish(&c, out, rc ? NULL : e) || rc ? -1 : 0;
	}
	for (int i = 2; i < 5; i++)
		mem_free(argv[i]);
	return rc;
}

int film_versions(struct str *out, struct err *e)
{
	char *argv[] = {(char *)FILM_ENCODER, (char *)FILM_VERSIONS, NULL};
	struct child c;

	return start(&c, argv, e) ? -1 : finish(&c, out, e);
}
