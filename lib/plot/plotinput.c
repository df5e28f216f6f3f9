/* Resolves the sources of a chart into labelled files; a model folder stands for its logs. */
#include "plot/plotinput.h"

#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "plot/sources.h"

/* Append a source; takes ownership of path and label. */
static void input_add(struct plot_input *in, char *path, char *label)
{
	in->path = mem_resize(in->path, (size_t)in->n + 1, sizeof *in->path);
	in->label = mem_resize(in->label, (size_t)in->n + 1, sizeof *in->label);
	in->path[in->n] = path;
	in->label[in->n++] = label;
}

/* Append DIR/NAME/train.jsonl if it exists; 1 if so, else 0. Logs of experts get NAME appended to a given label. */
static int log_add(struct plot_input *in, const char *dir, const char *name, const char *label)
{
	char *path = str_new("%s%s%s/train.jsonl", dir, *name ? "/" : "", name);

	if (!path_exists(path)) {
		mem_free(path);
		return 0;
	}
	input_add(in, path, !label ? NULL : strncmp(name, "expert_", 7) ? mem_strdup(label) : str_new("%s %s", label, name));
	return 1;
}

/* Append the logs of all experts, by number: expert_2 before expert_10. Returns how many, or -1. */
static int experts_add(struct plot_input *in, const char *dir, const char *label, struct err *e)
{
	char **name;
	size_t n;
	int found = 0;

	if (dir_list(dir, &name, &n, e))
		return -1;
	for (size_t digits = 1; digits <= 6; digits++)
		for (size_t i = 0; i < n; i++)
			if (!strncmp(name[i], "expert_", 7) && strlen(name[i]) == 7 + digits && strspn(name[i] + 7, "0123456789") == digits)
				found += log_add(in, dir, name[i], label);
	names_free(name, n);
	return found;
}

static int folder_add(struct plot_input *in, const char *dir, const char *label, enum plot_folder folder, struct err *e)
{
	int found = log_add(in, dir, "", label);

	if (!found)
		found = folder == FOLDER_EXPERTS ? experts_add(in, dir, label, e) : log_add(in, dir, "router", label);
	if (found)
		return found < 0 ? -1 : 0;
	return err_set(e, ERR_NOINPUT, "%s: has no log of a training: neither train.jsonl nor %s/train.jsonl", dir,
	               folder == FOLDER_EXPERTS ? "expert_K" : "router");
}

static int source_add(struct plot_input *in, const char *source, enum plot_folder folder, struct err *e)
{
	const char *cut = strchr(source, '='), *path = cut ? cut + 1 : source;
	char *label = cut && cut > source ? mem_strndup(source, (size_t)(cut - source)) : NULL;
	struct stat st;
	int rc = 0;

	if (!*path)
		rc = err_set(e, ERR_USAGE, "'%s' has no file name", source);
	else if (folder != FOLDER_NONE && !stat(path, &st) && S_ISDIR(st.st_mode))
		rc = folder_add(in, path, label, folder, e);
	else {
		input_add(in, mem_strdup(path), label);
		return 0;
	}
	mem_free(label);
	return rc;
}

int plot_input_init(struct plot_input *in, const char *const *source, int n, enum plot_folder folder, struct err *e)
{
	for (int i = 0; i < n; i++)
		if (source_add(in, source[i], folder, e))
			return -1;
	in->hash = mem_zalloc((size_t)in->n, sizeof *in->hash);
	for (int i = 0; i < in->n; i++)
		if (!in->label[i])
			in->label[i] = source_label(in->path, in->n, i);
	return 0;
}

void plot_input_release(struct plot_input *in)
{
	for (int i = 0; i < in->n; i++) {
		mem_free(in->label[i]);
		mem_free(in->path[i]);
	}
	mem_free(in->path);
	mem_free(in->label);
	mem_free(in->hash);
}
