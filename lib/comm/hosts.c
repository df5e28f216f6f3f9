/* Tells computers apart by the number that Linux draws when it starts, or by their names. */
#include "comm/hosts.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

void comm_host_get(struct comm_host *h)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, h->identity, sizeof h->identity - 1);

	if (fd >= 0)
		close(fd);
	memset(h->name, 0, sizeof h->name);
	gethostname(h->name, sizeof h->name - 1);
	if (n <= 0)
		memcpy(h->identity, h->name, sizeof h->identity);
	else
		memset(h->identity + n, 0, sizeof h->identity - (size_t)n);
}

int comm_host_same(const struct comm_host *a, const struct comm_host *b)
{
	return !strcmp(a->identity, b->identity);
}

int comm_local_rank(struct comm *c, int *place, struct err *e)
{
	struct comm_host *all;
	int rank = comm_rank(c), rc;

	*place = 0;
	if (!c)
		return 0;
	all = mem_zalloc((size_t)comm_size(c), sizeof *all);
	comm_host_get(&all[rank]);
	rc = comm_gather(c, all, sizeof *all, e);
	for (int r = 0; r < rank && !rc; r++)
		*place += comm_host_same(&all[r], &all[rank]);
	mem_free(all);
	return rc;
}
