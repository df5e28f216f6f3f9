/* Finds how much memory this process can have, from /proc/meminfo and the limits of its control groups; and the processor's model. */
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

/* Where the two versions of control groups keep the numbers of memory. Version 1 writes a number near 2^63 for no limit. */
static const struct group_files {
	const char *root, *limit, *used, *active, *inactive;
} group_files[] = {
    {"/sys/fs/cgroup", "/memory.max", "/memory.current", "active_file ", "inactive_file "},
    {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_active_file ", "total_inactive_file "},
};

static void read_group(struct machine_memory *m, const char *root, const char *group, const struct group_files *g)
{
	uint64_t limit, used, files;
	FILE *f;

	if (!read_number(root, group, g->limit, &limit) || !read_number(root, group, g->used, &used))
		return;
	f = open_at(root, group, "/memory.stat");
	files = value_of(f, g->active) + value_of(f, g->inactive);
	if (f)
		fclose(f);
	used -= files < used ? files : used;
	if (limit < m->total || !m->total)
		m->total = limit;
	limit -= used < limit ? used : limit;
	if (limit < m->free || !m->free)
		m->free = limit;
}

/* Apply the limits of a control group and of all its parents. In a cgroup namespace the path may point outside the namespace; the files are then
 * missing, which counts as no limit. */
static void read_groups(struct machine_memory *m, const char *root, const char *path, const struct group_files *g)
{
	char *group = str_new("%s%s", g->root, path);

	for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
		*end = 0;
		if (strlen(group) < strlen(g->root))
			break;
		read_group(m, root, group, g);
	}
	mem_free(group);
}

/* Whether a line of /proc/self/cgroup, "NUMBER:CONTROLLERS:PATH", is of version 1 with the controller of memory. */
static int is_memory(const char *line)
{
	const char *at = strchr(line, ':');
	size_t n;

	for (at = at ? at + 1 : ""; (n = strcspn(at, ",:")); at += n + (at[n] == ','))
		if (n == strlen("memory") && !strncmp(at, "memory", n))
			return 1;
	return 0;
}

/* The line "0::/a/b" names our control group of version 2. */
void machine_memory(struct machine_memory *m, const char *root)
{
	FILE *f = open_at(root, "/proc/self/cgroup", "");
	char line[4096];

	read_machine(m, root);
	while (f && fgets(line, sizeof line, f)) {
		const char *path = strstr(line, ":/");

		line[strcspn(line, "\n")] = 0;
		if (path && (!strncmp(line, "0::/", 4) || is_memory(line)))
			read_groups(m, root, path + 1, &group_files[is_memory(line)]);
	}
	if (f)
		fclose(f);
}

char *machine_processor(const char *root)
{
	static const char key[] = "model name";
	FILE *f = open_at(root, "/proc/cpuinfo", "");
	char line[256], *model = NULL;

	while (f && !model && fgets(line, sizeof line, f)) {
		const char *colon = strncmp(line, key, strlen(key)) ? NULL : strchr(line, ':');
		size_t n;

		if (!colon)
			continue;
		colon += 1 + strspn(colon + 1, " ");
		n = strcspn(colon, "\n");
		model = n ? mem_strndup(colon, n) : NULL;
	}
	if (f)
		fclose(f);
	return model ? model : mem_strdup("unknown");
}
