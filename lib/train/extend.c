/* Reads the stamp of the run that a folder holds, and continues it to more steps than it was started with (train_options.extend). */
#include <inttypes.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "net/model.h"
#include "train/run.h"

/* Find the newest checkpoint with a readable manifest: 1, or 0 if there is none. Caller json_decref()s c->stamp. */
static int newest(const char *dir, struct checkpoint *c, struct err *e)
{
	int64_t *steps;
	int n, found = 0;

	if (checkpoint_steps(dir, &steps, &n, e))
		return -1;
	for (int i = 0; i < n && !found; i++) {
		char *path = checkpoint_path(dir, steps[i]);

		*c = (struct checkpoint){0};
		found = !checkpoint_inspect(path, 0, c, NULL) && json_is_object(c->stamp);
		if (!found)
			json_decref(c->stamp);
		mem_free(path);
	}
	mem_free(steps);
	return found;
}

json_t *run_begun(const struct train_options *o)
{
	char *train = path_join(o->out, "train"), *weights = path_join(o->out, model_weights_name(net_role(&o->net)));
	struct safetensors *s = path_exists(weights) ? st_open(weights, NULL) : NULL;
	const char *line = s ? st_meta(s, "stamp") : NULL;
	struct checkpoint c = {0};
	json_t *stamp = line ? json_loads(line, 0, NULL) : NULL;

	if (!s && newest(train, &c, NULL) > 0)
		stamp = c.stamp;
	st_free(s);
	mem_free(train);
	mem_free(weights);
	return stamp;
}

/* The requested stamp, with the list of steps at which the run was extended: those in the checkpoint's stamp, then the checkpoint's step. */
static void mark(struct trainer *r, const struct checkpoint *c)
{
	json_t *o = json_loads(r->stamp, 0, NULL), *at = json_deep_copy(json_object_get(c->stamp, "extended"));

	if (!json_is_array(at)) {
		json_decref(at);
		at = json_array();
	}
	json_array_append_new(at, json_integer(c->step));
	json_object_set_new(o, "extended", at);
	mem_free(r->stamp);
	r->stamp = jsonio_line(o);
	json_decref(o);
}

int extend_open(struct trainer *r, struct err *e)
{
	struct checkpoint c = {0};
	struct str differ = {0};
	const json_t *at;
	char *was;
	int found = newest(r->train_dir, &c, e);

	if (found < 0)
		return -1;
	if (!found)
		return err_set(e, ERR_NOINPUT, "%s: --extend needs a checkpoint to continue from, and there is none", r->train_dir);
	was = jsonio_line(c.stamp);
	if (extend_differs(r->stamp, was, &differ)) {
		err_set(e, ERR_EXISTS, "%s: step %" PRId64 " was made with other options (%s)", r->train_dir, c.step, str_text(&differ));
	} else if (extend_same_length(r->stamp, was)) {
		mem_free(r->stamp);
		r->stamp = mem_strdup(was);
	} else {
		r->extending = 1;
		mark(r, &c);
	}
	at = json_object_get(c.stamp, "extended");
	r->extended = r->extending ? c.step : json_is_array(at) ? json_integer_value(json_array_get(at, json_array_size(at) - 1)) : -1;
	mem_free(was);
	str_release(&differ);
	json_decref(c.stamp);
	return e && e->code ? -1 : 0;
}
