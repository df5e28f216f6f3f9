/* Finds the solver named by the schedulers of a model's networks. */
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "diffusion/ensemble.h"
#include "diffusion/layout.h"
#include "file/fileio.h"
#include "net/diffusers.h"

/* Tokens of a picture by a configuration of diffusers; 0 if it does not give the sizes. */
static int64_t tokens_of(const json_t *net)
{
	int64_t size = json_integer_value(json_object_get(net, "sample_size")), patch = json_integer_value(json_object_get(net, "patch_size"));

	return size > 0 && patch > 0 && size < 1 << 20 ? size / patch * (size / patch) : 0;
}

/* 1 and in *s the solver named by the scheduler of the network in `folder`; 0 if it has no scheduler or is not in diffusers' format. */
static int folder_solver(struct scheduler_solver *s, const char *folder, struct err *e)
{
	char *config = path_join(folder, "config.json"), *where = scheduler_find(folder);
	json_t *net = where && path_exists(config) ? jsonio_load(config, e) : NULL;
	json_t *o = net && diffusers_config(net) ? scheduler_load(where, e) : NULL;
	int rc = e->code ? -1 : o ? scheduler_solver(s, o, tokens_of(net), where, e) ? -1 : 1 : 0;

	json_decref(net);
	json_decref(o);
	mem_free(config);
	mem_free(where);
	return rc;
}

int ensemble_solver(struct scheduler_solver *s, const char *dir, struct err *e)
{
	struct layout l = {0};
	struct scheduler_solver one = {.text = ""};
	int rc = !layout_survey(&l, dir, &(struct err){0}); /* ensemble_open reports what is wrong with the folder */

	*s = one;
	for (int k = 0; k <= l.highest && rc > 0; k++) {
		char sub[32], *folder;

		if (!l.present[k])
			continue;
		snprintf(sub, sizeof sub, "expert_%d", k);
		folder = path_join(dir, l.lone ? l.lone : sub);
		rc = folder_solver(&one, folder, e);
		if (rc > 0 && *s->text && strcmp(s->text, one.text))
			rc = err_set(e, ERR_DATA, "%s: its scheduler says %s, and that of other experts says %s: give --solver", folder, one.text,
			             s->text);
		*s = one;
		mem_free(folder);
	}
	layout_release(&l);
	return rc;
}
