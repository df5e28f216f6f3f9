/* Which network interfaces connect ranks: TCP connections that the test opens over the loopback interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "comm/links.h"
#include "core/mem.h"
#include "socketranks.h"

static int listener = -1, family;

/* A socket that listens on the loopback interface at a port of the kernel's choice; -1 without that family. */
static int listen_on(int f)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	int s = socket(f, SOCK_STREAM, 0);

	family = f;
	if (s < 0 || bind(s, f == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, f == AF_INET ? sizeof v4 : sizeof v6) || listen(s, 4))
		return -1;
	return s;
}

static int connect_to(int s)
{
	struct sockaddr_storage at;
	socklen_t n = sizeof at;
	int mine = socket(family, SOCK_STREAM, 0);

	return getsockname(s, (struct sockaddr *)&at, &n) || connect(mine, (struct sockaddr *)&at, n) ? -1 : mine;
}

static int says(struct comm *c, const char *want)
{
	struct err e = {0};
	char *text;
	int rc = comm_links(c, &text, &e) ? 20 : strcmp(text, want) != 0;

	if (rc == 1)
		fprintf(stderr, "rank %d: %s\n", comm_rank(c), text);
	mem_free(text);
	return rc;
}

/* Ranks 0 and 1 are connected. Rank 2 is connected to itself, which is no connection of ranks. */
static int two_of_three(struct comm *c)
{
	if (comm_rank(c) == 0 && accept(listener, NULL, NULL) < 0)
		return 10;
	if (comm_rank(c) == 1 && connect_to(listener) < 0)
		return 11;
	if (comm_rank(c) == 2) {
		int own = listen_on(family), to_itself = connect_to(own);

		if (to_itself < 0 || accept(own, NULL, NULL) < 0)
			return 12;
	}
	return says(c, "lo (ranks 0, 1), none (rank 2)");
}

static int both(struct comm *c)
{
	if (comm_rank(c) ? connect_to(listener) < 0 : accept(listener, NULL, NULL) < 0)
		return 10;
	return says(c, "lo");
}

static int nothing(struct comm *c)
{
	return says(c, "none");
}

/* A connection whose other end is no rank's: the test's own process holds it. */
static int to_a_stranger(struct comm *c)
{
	if (comm_rank(c) && connect_to(listener) < 0)
		return 10;
	return says(c, "none");
}

static void all_agree(int n, int (*fn)(struct comm *c))
{
	int status[MOST];

	on_ranks(n, 5, fn, status);
	for (int r = 0; r < n; r++)
		assert_int_equal(status[r], 0);
}

static void some_ranks_are_connected(void **state)
{
	(void)state;
	assert_true((listener = listen_on(AF_INET)) >= 0);
	all_agree(3, two_of_three);
	all_agree(2, both);
	close(listener);
}

static void addresses_of_ipv6(void **state)
{
	(void)state;
	if ((listener = listen_on(AF_INET6)) < 0)
		skip();
	all_agree(3, two_of_three);
	all_agree(2, both);
	close(listener);
}

static void no_connection(void **state)
{
	(void)state;
	all_agree(3, nothing);
	assert_true((listener = listen_on(AF_INET)) >= 0);
	all_agree(2, to_a_stranger);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(some_ranks_are_connected), cmocka_unit_test(addresses_of_ipv6),
	                                   cmocka_unit_test(no_connection)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
