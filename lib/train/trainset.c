/* The sets of samples that a training draws batches from: the samples of its shards, and the pictures of --pictures beside clips. */
#include <math.h>

#include "core/pool.h"
#include "train/run.h"

int64_t picture_steps(const struct train_options *o, int64_t n)
{
	return o->pictures ? (int64_t)floor((double)n * o->picture_share) : 0;
}

static int64_t held_count(const struct dataset_info *info, int cluster)
{
	int64_t n = 0;

	for (int k = 0; info->held && k < info->clusters; k++)
		if (cluster == DATASET_ALL || cluster == k)
			n += info->held[k];
	return n;
}

int train_set_open(struct trainer *r, struct train_set *s, const char *shards, const struct dataset_options *d, struct err *e)
{
	struct dataset_options held = *d;
	int64_t count;

	s->data = dataset_open(shards, d, e);
	if (!s->data)
		return -1;
	if (!r->o->validate_samples || !held_count(dataset_info(s->data), d->cluster) || !holdout_there(r, shards, d->cluster))
		return 0;
	held.holdout = 1;
	held.mirrored = 0;
	held.text_tokens = dataset_info(s->data)->text_tokens;
	s->held = dataset_open(shards, &held, e);
	if (!s->held)
		return -1;
	count = dataset_info(s->held)->count;
	s->validations = count < r->o->validate_samples ? count : r->o->validate_samples;
	return 0;
}

int train_set_allocate(struct trainer *r, struct train_set *s, const struct net_config *c, struct err *e)
{
	if (noised_init(&s->noised, r->device, r->part, c, s->objective.def.loss, e) ||
	    step_detail_init(&s->detail, r->device, r->parts * r->part, e))
		return -1;
	tape_bind_bf16(s->loss.tape, r->state.rounded);
	tape_bind(s->loss.tape, s->loss.dloss, r->dloss);
	loss_bind(&s->loss, &s->noised);
	return 0;
}

int train_set_begin(struct trainer *r, struct train_set *s, struct err *e)
{
	int64_t step = r->state.step, pictures = picture_steps(r->o, step);
	struct loader_options l = {.batch = r->o->batch,
	                           .seed = r->o->seed,
	                           .flip = r->o->flip,
	                           .text_drop = r->o->text_drop,
	                           .null_text = r->null_text,
	                           .null_rows = r->null_rows,
	                           .null_pooled = r->null_pooled,
	                           .first = s == &r->pictures ? pictures : step - pictures,
	                           .from = comm_rank(r->o->comm) * r->parts * r->part,
	                           .count = r->parts * r->part,
	                           .ahead = pool_threads(r->device->pool) > 1 ? LOADER_AHEAD : 0};

	s->loader = loader_new(s->data, &l, e);
	return s->loader ? 0 : -1;
}

void train_set_release(struct trainer *r, struct train_set *s)
{
	loader_free(s->loader);
	dataset_free(s->data);
	dataset_free(s->held);
	tape_free(s->loss.tape);
	noised_release(&s->noised);
	step_detail_release(&s->detail, r->device);
}

struct train_set *train_set_of(struct trainer *r, int64_t step)
{
	return picture_steps(r->o, step + 1) > picture_steps(r->o, step) ? &r->pictures : &r->main;
}
