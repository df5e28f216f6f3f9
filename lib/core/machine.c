/* Finds how much memory this process can have, from /proc/meminfo and the limits of its control groups. */
#include "core/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

static FILE *open_at(const char *root, const char *path, const char *name)
{
	char *whole = str_new("%s%s%s", root, path, name);
	FILE *f = fopen(whole, "re");

	mem_free(whole);
	return f;
}

/* The number that follows `key` at the start of a line; 0 if there is no such line. */
static uint64_t value_of(FILE *f, const char *key)
{
	size_t n = strlen(key);
	char line[256];
	uint64_t v = 0;

	if (f)
		rewind(f);
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, key, n) && sscanf(line + n, "%" SCNu64, &v) == 1)
			return v;
	return 0;
}

static void read_machine(struct machine_memory *m, const char *root)
{
	FILE *f = open_at(root, "/proc/meminfo", "");

	m->total = 1024 * value_of(f, "MemTotal:");
	m->free = 1024 * (value_of(f, "MemAvailable:") + value_of(f, "SwapFree:"));
	if (f)
		fclose(f);
}

/* Returns 0 for a missing file and for "max", which means no limit. */
static int read_number(const char *root, const char *group, const char *name, uint64_t *v)
{
	FILE *f = open_at(root, group, name);
	int got = f && fscanf(f, "%" SCNu64, v) == 1;

	if (f)
		fclose(f);
	return got;
}

static void read_group(struct machine_memory *m, const char *root, const char *group)
{
	uint64_t limit, used, files;
	FILE *f;

	if (!read_number(root, group, "/memory.max", &limit) || !read_number(root, group, "/memory.current", &used))
		return;
	f = open_at(root, group, "/memory.stat");
	files = value_of(f, "active_file ") + value_of(f, "inactive_file ");
	if (f)
		fclose(f);
	used -= files < used ? files : used;
	if (limit < m->total || !m->total)
		m->total = limit;
	limit -= used < limit ? used : limit;
	if (limit < m->free || !m->free)
		m->free = limit;
}

/* The line "0::/a/b" names our control group. Its limits and those of all its parents apply. In a cgroup namespace the path may point outside
 * the namespace; the files are then missing, which counts as no limit. */
void machine_memory(struct machine_memory *m, const char *root)
{
	FILE *f = open_at(root, "/proc/self/cgroup", "");
	char line[4096], *group = NULL;

	read_machine(m, root);
	while (f && !group && fgets(line, sizeof line, f))
		if (!strncmp(line, "0::/", 4)) {
			line[strcspn(line, "\n")] = 0;
			group = str_new("/sys/fs/cgroup%s", line + 3);
		}
	if (f)
		fclose(f);
	if (!group)
		return;
	for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
		*end = 0;
		if (strlen(group) < strlen("/sys/fs/cgroup"))
			break;
		read_group(m, root, group);
	}
	mem_free(group);
}
