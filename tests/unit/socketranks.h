/* Ranks as child processes with a socket between each two, for tests of lib/comm. Included after cmocka.h, by one file of a test. */
#ifndef DDM_TESTS_SOCKETRANKS_H
#define DDM_TESTS_SOCKETRANKS_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"

enum { MOST = 8 };

/* The engine of this test: rank `me` of `ranks`, with a socket to each other rank. */
static int me, ranks, to[MOST], notes[MOST]; /* notes: sockets for those, which may be lost */

static struct {
	int peer;
	const char *out;
	char *in;
	size_t send, receive;
} pending;

static int start(int *rank, int *size, char *why)
{
	(void)why;
	*rank = me;
	*size = ranks;
	return 0;
}

static int begin(int peer, const void *out, size_t out_bytes, void *in, size_t in_bytes, char *why)
{
	(void)why;
	pending.peer = peer;
	pending.out = out;
	pending.in = in;
	pending.send = out_bytes;
	pending.receive = in_bytes;
	return 0;
}

static int done(char *why)
{
	ssize_t n;

	if (pending.send && (n = send(to[pending.peer], pending.out, pending.send, MSG_NOSIGNAL)) > 0) {
		pending.out += n;
		pending.send -= (size_t)n;
	}
	if (pending.receive && (n = recv(to[pending.peer], pending.in, pending.receive, 0)) > 0) {
		pending.in += n;
		pending.receive -= (size_t)n;
	} else if (pending.receive && (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))) {
		snprintf(why, COMM_ENGINE_WHY, "its socket is closed");
		return -1;
	}
	return !pending.send && !pending.receive;
}

static int arrived(int peer, char *why)
{
	char byte;
	ssize_t n = recv(to[peer], &byte, 1, MSG_PEEK);

	if (n > 0)
		return 1;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	snprintf(why, COMM_ENGINE_WHY, "its socket is closed");
	return -1;
}

static int tell(int peer, const void *note, char *why)
{
	(void)why;
	return send(notes[peer], note, COMM_NOTE, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

static int heard(int *peer, void *note, char *why)
{
	(void)why;
	for (*peer = 0; *peer < ranks; ++*peer)
		if (*peer != me && recv(notes[*peer], note, COMM_NOTE, MSG_DONTWAIT) == COMM_NOTE)
			return 1;
	return 0;
}

static void stop(void)
{
}

__attribute__((noreturn)) static void end(int code)
{
	_exit(code);
}

static const struct comm_engine sockets = {.version = COMM_ENGINE_VERSION,
                                           .name = "sockets",
                                           .start = start,
                                           .begin = begin,
                                           .done = done,
                                           .arrived = arrived,
                                           .tell = tell,
                                           .heard = heard,
                                           .stop = stop,
                                           .end = end};

/* Run fn on n ranks, each a process; statuses in status[n]. */
static void on_ranks(int n, double timeout, int (*fn)(struct comm *c), int *status)
{
	int pair[MOST][MOST][2], note[MOST][MOST][2];
	pid_t pid[MOST];

	ranks = n;
	for (int a = 0; a < n; a++)
		for (int b = a + 1; b < n; b++)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair[a][b]) ||
			                     socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, note[a][b]),
			                 0);
	for (int r = 0; r < n; r++) {
		pid[r] = fork();
		assert_true(pid[r] >= 0);
		if (!pid[r]) {
			struct err e = {0};
			struct comm *c;

			me = r;
			for (int a = 0; a < n; a++)
				for (int b = a + 1; b < n; b++) {
					if (a == r)
						to[b] = pair[a][b][0], notes[b] = note[a][b][0];
					else
						close(pair[a][b][0]), close(note[a][b][0]);
					if (b == r)
						to[a] = pair[a][b][1], notes[a] = note[a][b][1];
					else
						close(pair[a][b][1]), close(note[a][b][1]);
				}
			c = comm_open_engine(&sockets, timeout, &e);
			_exit(c ? fn(c) : e.code);
		}
	}
	for (int a = 0; a < n; a++)
		for (int b = a + 1; b < n; b++)
			for (int k = 0; k < 2; k++) {
				close(pair[a][b][k]);
				close(note[a][b][k]);
			}
	for (int r = 0; r < n; r++) {
		int s;

		assert_int_equal(waitpid(pid[r], &s, 0), pid[r]);
		status[r] = WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s);
	}
}

__attribute__((unused)) static void all_end_with(int n, int code, int (*fn)(struct comm *c))
{
	int status[MOST];

	on_ranks(n, 30, fn, status);
	for (int r = 0; r < n; r++)
		assert_int_equal(status[r], code);
}

#endif
