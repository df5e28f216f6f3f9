/* The hash chain of a run in progress: when a line is due, and what it says. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "core/machine.h"
#include "core/mem.h"
#include "core/version.h"
#include "file/fileio.h"
#include "kernels/optimizer.h"
#include "train/run.h"
#include "train/statehash.h"

char *chain_machine(const struct device *d)
{
	const char *model = d->host ? NULL : strchr(d->name, '('); /* "cuda:0 (NVIDIA H100)": the number is no part of it */

	return d->host ? machine_processor("") : mem_strdup(model ? model : d->name);
}

static void put_exact(json_t *o, const char *key, double v)
{
	char text[32];

	snprintf(text, sizeof text, "%a", v);
	json_object_set_new(o, key, json_string(text));
}

/* Add the line, and tell it to a replay. If the disk is full, a warning says so, and the next line or checkpoint tries again. */
static void add(struct trainer *r, json_t *o)
{
	struct err why = {0};
	char *text;

	if (runlock_check(&r->lock, NULL)) { /* another trainer has taken over the folder; the next step notices */
		json_decref(o);
		return;
	}
	text = chain_add(&r->chain, o);
	if (chain_flush(&r->chain, &why))
		train_warn(r, why.msg);
	if (r->o->replay && r->o->replay->line)
		r->o->replay->line(r->o->replay->arg, text);
	mem_free(text);
}

/* What the run is: the first line, and one more wherever the run is extended. */
static void add_run(struct trainer *r)
{
	json_t *o = json_object(), *names = json_array(), *frozen = json_array();

	for (int i = 0; i < r->params.n; i++) {
		json_array_append_new(names, json_string(r->params.v[i].name));
		if (r->params.v[i].flags & PARAM_FROZEN)
			json_array_append_new(frozen, json_string(r->params.v[i].name));
	}
	json_object_set_new(o, "format", json_integer(CHAIN_FORMAT));
	json_object_set_new(o, "step", json_integer(r->state.step));
	json_object_set_new(o, "steps", json_integer(r->steps));
	json_object_set_new(o, "stamp", json_loads(r->stamp, 0, NULL));
	json_object_set(o, "exact", r->exact);
	json_object_set_new(o, "samples", json_integer(dataset_info(r->main.data)->count));
	if (r->pictures.data)
		json_object_set_new(o, "pictures", json_integer(dataset_info(r->pictures.data)->count));
	json_object_set_new(o, "parameters", names);
	json_object_set_new(o, "frozen", frozen);
	add(r, o);
}

int chain_line(struct trainer *r, struct err *e)
{
	const struct train_state *s = &r->state;
	json_t *o, *hashes;
	char *machine;

	hashes = is_first_rank(r) ? state_hashes(s, e) : NULL;
	if (ranks_end_following(r, is_first_rank(r) && !hashes ? -1 : 0, e) || r->device->error(r->device, e)) {
		json_decref(hashes);
		return -1;
	}
	if (!hashes)
		return 0;
	o = json_object();
	json_object_set_new(o, "step", json_integer(s->step));
	json_object_set_new(o, "updates", json_integer(s->updates));
	json_object_set_new(o, "skipped_in_a_row", json_integer(s->skipped_in_a_row));
	put_exact(o, "loss_sum", r->chain.loss_sum);
	json_object_set_new(o, "loss_count", json_integer(r->chain.loss_count));
	json_object_set_new(o, "keys", json_string(r->chain.keys));
	json_object_set_new(o, "losses", json_string(str_text(&r->chain.steps)));
	json_object_set_new(o, "hashes", hashes);
	if (s->best && isfinite(s->best_loss)) {
		json_object_set_new(o, "best_step", json_integer(s->best_step));
		put_exact(o, "best_loss", s->best_loss);
	}
	machine = chain_machine(r->device);
	json_object_set_new(o, "machine", json_string(machine));
	json_object_set_new(o, "precision", json_string(precision_names[r->o->precision]));
	json_object_set_new(o, "build", json_string(DDM_VERSION "\n" DDM_BUILD));
	json_object_set_new(o, "portable", json_boolean(device_portable(r->device, r->o->precision)));
	mem_free(machine);
	add(r, o);
	return 0;
}

int chain_begin(struct trainer *r, struct err *e)
{
	struct train_state *s = &r->state;
	char *path;
	int rc = 1;

	if (!is_first_rank(r) || !r->chain_every)
		return 0;
	path = path_join(r->train_dir, CHAIN_NAME);
	if (s->step && s->chain)
		rc = chain_reopen(&r->chain, path, s->chain, e);
	if (rc > 0 && s->step) {
		char line[600];

		snprintf(line, sizeof line, "%.400s %s step %lld: a new one begins there", path,
		         s->chain ? "is not the chain of the checkpoint of" : "has nothing about the steps before", (long long)s->step);
		train_warn(r, line);
	}
	if (rc > 0 && !(rc = chain_create(&r->chain, path, e))) {
		add_run(r);
		r->chain_is_new = 1;
	} else if (!rc && r->extending) {
		add_run(r);
	}
	mem_free(path);
	return rc;
}

int chain_first_line(struct trainer *r, struct err *e)
{
	int any;

	if (ranks_any(r->o->comm, r->chain_is_new, &any, e))
		return -1;
	return any ? chain_line(r, e) : 0;
}

struct keys {
	const struct train_set *s;
	const struct batch *b; /* this rank's part of it */
	struct str key;
};

static const char *key_at(void *arg, int64_t i)
{
	struct keys *k = arg;
	int64_t sample = loader_sample(k->s->loader, k->b->number, i);

	assert(i >= k->b->n || sample == k->b->index[i]); /* rank 0's part comes first */
	return dataset_key(k->s->data, sample, &k->key);
}

/* The whole batch, also the parts that other ranks read. */
void chain_take_batch(struct trainer *r, const struct train_set *s, const struct batch *b)
{
	struct keys k = {s, b, {0}};

	if (r->chain.fd >= 0)
		chain_batch(&r->chain, r->o->batch, key_at, &k);
	str_release(&k.key);
}

void chain_take_step(struct trainer *r, const double *status)
{
	if (r->chain.fd >= 0)
		chain_step(&r->chain, status[STATUS_LOSS] / (double)r->o->batch, status[STATUS_NORM], status[STATUS_FINITE] != 0);
}

/* A checkpoint must not refer to a line that no file has. While lines do not fit, it refers to none: if the run is killed and goes on from there, a
 * new chain begins, and says so. The same happens after a loss of power if the lines could not be made durable. */
void chain_keep(struct trainer *r)
{
	struct err why = {0};

	mem_free(r->state.chain);
	r->state.chain = NULL;
	if (r->chain.fd < 0)
		return;
	if (!chain_flush(&r->chain, &why)) {
		r->state.chain = chain_place(&r->chain);
		chain_sync(&r->chain, &why);
	}
	if (why.code)
		train_warn(r, why.msg);
}
