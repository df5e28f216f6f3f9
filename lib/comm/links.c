/* Finds the connections of this process in the tables of Linux, and those among them whose other end is a rank. */
#include "comm/links.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

enum { ESTABLISHED = 1, NAMES = 64 /* bytes for the interfaces of a rank */ };

/* An IPv4 address is mapped into IPv6. Both are compared as bytes. */
struct end {
	uint8_t address[16];
	uint16_t port;
};

struct link {
	struct end here, there;
};

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* The sockets of this process, by their numbers in the tables. Caller frees with mem_free. */
static unsigned long *own_sockets(size_t *n)
{
	unsigned long *all = NULL, inode;
	DIR *d = opendir("/proc/self/fd");
	struct dirent *f;
	size_t cap = 0;

	*n = 0;
	while (d && (f = readdir(d))) {
		char target[64];
		ssize_t len = readlinkat(dirfd(d), f->d_name, target, sizeof target - 1);

		target[len > 0 ? len : 0] = 0;
		if (sscanf(target, "socket:[%lu]", &inode) != 1)
			continue;
		if (*n == cap) {
			cap = 2 * cap + 16;
			all = mem_resize(all, cap, sizeof *all);
		}
		all[(*n)++] = inode;
	}
	if (d)
		closedir(d);
	return all;
}

static int is_own(const unsigned long *all, size_t n, unsigned long inode)
{
	for (size_t i = 0; i < n; i++)
		if (all[i] == inode)
			return 1;
	return 0;
}

/* The kernel prints addresses as words of 32 bits in the machine's order. */
static int read_end(const char *hex, unsigned port, struct end *e)
{
	size_t words = strlen(hex) / 8;

	if (words != 1 && words != 4)
		return -1;
	memset(e, 0, sizeof *e);
	memcpy(e->address, v4_prefix, sizeof v4_prefix);
	for (size_t i = 0; i < words; i++) {
		uint32_t word;

		if (sscanf(hex + 8 * i, "%8" SCNx32, &word) != 1)
			return -1;
		memcpy(e->address + (words == 1 ? 12 : 4 * i), &word, sizeof word);
	}
	e->port = (uint16_t)port;
	return 0;
}

/* Add this process's connections in a table to v, which has room for `most`. Returns their number so far. */
static size_t read_table(const char *path, struct link *v, size_t n, size_t most)
{
	size_t sockets;
	unsigned long *own = own_sockets(&sockets);
	FILE *f = fopen(path, "re");
	char line[512], here[40], there[40];
	unsigned from, to, state;
	unsigned long inode;

	while (f && n < most && fgets(line, sizeof line, f))
		if (sscanf(line, " %*d: %39[0-9A-Fa-f]:%x %39[0-9A-Fa-f]:%x %x %*s %*s %*s %*u %*u %lu", here, &from, there, &to, &state, &inode) ==
		        6 &&
		    state == ESTABLISHED && is_own(own, sockets, inode) && !read_end(here, from, &v[n].here) && !read_end(there, to, &v[n].there))
			n++;
	if (f)
		fclose(f);
	mem_free(own);
	return n;
}

/* Whether one of n connections is x seen from its other end. */
static int has_reverse(const struct link *all, size_t n, const struct link *x)
{
	for (size_t i = 0; i < n; i++)
		if (!memcmp(&all[i].here, &x->there, sizeof x->there) && !memcmp(&all[i].there, &x->here, sizeof x->here))
			return 1;
	return 0;
}

static int has_address(const struct ifaddrs *i, const struct end *e)
{
	if (!i->ifa_addr)
		return 0;
	if (i->ifa_addr->sa_family == AF_INET)
		return !memcmp(e->address, v4_prefix, sizeof v4_prefix) &&
		       !memcmp(e->address + 12, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, 4);
	return i->ifa_addr->sa_family == AF_INET6 &&
	       !memcmp(e->address, &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr, sizeof e->address);
}

/* Add a name to those with blanks between, unless it is there or does not fit. */
static void add_name(char names[NAMES], const char *name)
{
	size_t len = strlen(names), more = strlen(name);

	for (const char *at = names; (at = strstr(at, name)); at += more)
		if ((at == names || at[-1] == ' ') && (!at[more] || at[more] == ' '))
			return;
	if (len + more + 2 > NAMES)
		return;
	snprintf(names + len, NAMES - len, "%s%s", len ? " " : "", name);
}

static void add_interface(char names[NAMES], const struct end *here)
{
	struct ifaddrs *list = NULL;

	if (getifaddrs(&list))
		return;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		if (has_address(i, here))
			add_name(names, i->ifa_name);
	freeifaddrs(list);
}

/* What a rank found: the interfaces of its connections with rank 0, and rank 0's end of one of them; zeros if there is none. */
struct found {
	char names[NAMES];
	struct end there;
};

static void find(struct found *f, const struct link *mine, size_t n, const struct link *first, size_t most)
{
	for (size_t i = 0; i < n; i++)
		if (has_reverse(first, most, &mine[i])) {
			f->there = mine[i].there;
			add_interface(f->names, &mine[i].here);
		}
}

/* "eth0 (rank 0), ib0 (ranks 1, 2)". */
static char *text_of(const struct found *all, int ranks)
{
	struct str s = {0};

	for (int r = 0; r < ranks; r++) {
		int first = 1, count = 0;

		for (int q = 0; q < ranks; q++) {
			first &= q >= r || strcmp(all[q].names, all[r].names) != 0;
			count += !strcmp(all[q].names, all[r].names);
		}
		if (!first)
			continue;
		str_printf(&s, "%s%s", r ? ", " : "", *all[r].names ? all[r].names : "none");
		if (count == ranks)
			break;
		str_puts(&s, count > 1 ? " (ranks" : " (rank");
		for (int q = r, k = 0; q < ranks; q++)
			if (!strcmp(all[q].names, all[r].names))
				str_printf(&s, "%s %d", k++ ? "," : "", q);
		str_puts(&s, ")");
	}
	return s.p;
}

/* Rank 0 shares its connections, and each rank looks for its own among them: the bytes grow with the ranks, not with their pairs. */
int comm_links(struct comm *c, char **text, struct err *e)
{
	static const struct end none = {0};
	int ranks = comm_size(c), rank = comm_rank(c), rc;
	size_t most = 2 * (size_t)ranks + 30, n;
	struct link *first = mem_zalloc(most, sizeof *first), *mine = mem_zalloc(most, sizeof *mine);
	struct found *all = mem_zalloc((size_t)ranks, sizeof *all);
	char *met = mem_zalloc((size_t)ranks, 1);

	*text = NULL;
	rc = comm_gather(c, met, 1, e); /* connects each rank with rank 0 */
	n = read_table("/proc/self/net/tcp", mine, 0, most);
	n = read_table("/proc/self/net/tcp6", mine, n, most);
	if (!rank)
		memcpy(first, mine, most * sizeof *mine);
	rc = rc || comm_share(c, first, most * sizeof *first, e) ? -1 : 0;
	if (rank)
		find(&all[rank], mine, n, first, most);
	rc = rc || comm_gather(c, all, sizeof *all, e) ? -1 : 0;
	for (int r = 1; r < ranks && !rank; r++)
		if (memcmp(&all[r].there, &none, sizeof none) != 0)
			add_interface(all[0].names, &all[r].there);
	rc = rc || comm_share(c, all, (size_t)ranks * sizeof *all, e) ? -1 : 0;
	if (!rc)
		*text = text_of(all, ranks);
	mem_free(met);
	mem_free(all);
	mem_free(mine);
	mem_free(first);
	return rc;
}
