/* A training by several ranks (comm/comm.h): what they must agree on, and what rank 0 tells the others. Rank 0 alone holds the lock, reads and writes
 * checkpoints, the log and the result. */
#include <stdio.h>

#include "core/mem.h"
#include "core/version.h"
#include "config.h"
#include "train/run.h"

int is_first_rank(const struct trainer *r)
{
	return comm_rank(r->o->comm) == 0;
}

int rank_count(const struct train_options *o)
{
	return o->ranks && !o->comm ? (int)o->ranks : comm_size(o->comm);
}

int64_t rank_parts(const struct train_options *o)
{
	return o->accumulate / rank_count(o);
}

int ranks_check(const struct train_options *o, struct err *e)
{
	int64_t ranks = rank_count(o), parts = o->accumulate / ranks;

	if (ranks > 1 && !o->accumulate)
		return err_set(e, ERR_USAGE, "--accumulate auto: several ranks need the number of parts itself, the same on each");
	if (ranks == 1 || (o->accumulate % ranks == 0 && !(parts & (parts - 1))))
		return 0;
	return err_set(e, ERR_USAGE, "--accumulate %lld: on %lld ranks the number of parts must be %lld times a power of two",
	               (long long)o->accumulate, (long long)ranks, (long long)ranks);
}

int ranks_agree(struct trainer *r, struct err *e)
{
	return comm_agree_stamp(r->o->comm, DDM_VERSION "\n" DDM_BUILD, r->stamp, run_differs, e);
}

int ranks_share_done(struct comm *c, int done, struct err *e)
{
	int32_t all = done;

	if (!c)
		return done;
	return comm_agree(c, done < 0 ? -1 : 0, e) || comm_share(c, &all, sizeof all, e) ? -1 : all;
}

int ranks_any(struct comm *c, int mine, int *any, struct err *e)
{
	char *all = mem_zalloc((size_t)comm_size(c), 1);
	int rc;

	all[comm_rank(c)] = (char)mine;
	rc = comm_gather(c, all, 1, e);
	*any = 0;
	for (int i = 0; i < comm_size(c); i++)
		*any |= all[i];
	mem_free(all);
	return rc;
}

/* An array in the device's memory. */
static int share_arena(struct device *d, struct comm *c, float *x, int64_t n, struct err *e)
{
	size_t bytes = (size_t)n * sizeof *x;
	float *host;
	int rc;

	if (d->host)
		return comm_share(c, x, bytes, e);
	if (!(host = mem_try(bytes, 1, "weights of rank 0", e)))
		return -1;
	if (comm_rank(c) == 0)
		device_get(d, host, x, bytes);
	rc = comm_share(c, host, bytes, e);
	if (!rc && comm_rank(c))
		device_put(d, x, host, bytes);
	mem_free(host);
	return rc;
}

int ranks_allocate(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;
	struct comm *c = o->comm;
	struct train_state *s = &r->state;

	if (c)
		shares_init(&r->shares, &r->params, o->optimizer == OPTIMIZER_MUON, comm_rank(c), comm_size(c));
	if (state_init(s, r->device, &r->params, o->keep_best && r->main.held, device_stores_bf16(r->device, (enum precision)o->precision),
	               o->offload, c ? &r->shares : NULL, e))
		return -1;
	s->optimizer = o->optimizer;
	if (update_init(&r->update, s, r->parts, tape_data(r->main.loss.tape, r->main.loss.loss), r->part, c, e))
		return -1;
	s->comm = c;
	s->whole = r->update.grads;
	s->host = r->update.ranks.host;
	return 0;
}

static void say_damaged(void *arg, const char *message)
{
	char line[1200];

	snprintf(line, sizeof line, "passed over a damaged checkpoint: %s", message);
	train_warn(arg, line);
}

int ranks_load(struct trainer *r, struct err *e)
{
	int rc;

	if (!is_first_rank(r))
		return state_follow(&r->state, e) ? -1 : 1;
	rc = checkpoint_load(r->train_dir, &r->state, r->stamp, r->extended, say_damaged, r, e);
	return state_dismiss(&r->state, rc < 0 ? NULL : e) ? -1 : rc;
}

int ranks_end_following(struct trainer *r, int rc, struct err *e)
{
	if (!r->o->comm)
		return rc;
	if (!is_first_rank(r))
		return state_follow(&r->state, e);
	return state_dismiss(&r->state, rc ? NULL : e) || rc ? -1 : 0;
}

/* A rank whose state is rank 0's at the beginning. */
static int share_beginning(struct trainer *r, struct err *e)
{
	struct train_state *s = &r->state;

	if (!is_first_rank(r))
		state_clear(s);
	if (share_arena(r->device, r->o->comm, s->values, s->params->total, e))
		return -1;
	if (!is_first_rank(r))
		state_begin(s);
	return 0;
}

int ranks_share_state(struct trainer *r, int loaded, struct err *e)
{
	struct train_state *s = &r->state;
	struct comm *c = r->o->comm;
	struct {
		int64_t step, updates, skipped_in_a_row, best_step, loss_count, picture_loss_count, line_step, loaded;
		double best_loss, lr_squares, loss_sum, picture_loss_sum;
	} n = {s->step,      s->updates, s->skipped_in_a_row, s->best_step,  s->loss_count, s->picture_loss_count,
	       s->line_step, loaded,     s->best_loss,        s->lr_squares, s->loss_sum,   s->picture_loss_sum};

	if (!c)
		return 0;
	if (comm_share(c, &n, sizeof n, e) || (!n.loaded && share_beginning(r, e)))
		return -1;
	s->step = n.step;
	s->updates = n.updates;
	s->skipped_in_a_row = n.skipped_in_a_row;
	s->best_step = n.best_step;
	s->loss_count = n.loss_count;
	s->picture_loss_count = n.picture_loss_count;
	s->line_step = n.line_step;
	s->best_loss = n.best_loss;
	s->lr_squares = n.lr_squares;
	s->loss_sum = n.loss_sum;
	s->picture_loss_sum = n.picture_loss_sum;
	return 0;
}

static void say_stuck(void *arg, const char *why)
{
	const struct trainer *r = arg;
	char line[1200];

	snprintf(line, sizeof line, "rank %d: %s", comm_rank(r->o->comm), why);
	train_warn(r, line);
}

int ranks_join_devices(struct trainer *r, struct err *e)
{
	struct rank_sum *s = &r->update.ranks.sum;
	struct err why;
	char line[1200];

	if (rank_sum_join(s, r->o->sum_on, r->o->device_engine, say_stuck, r, &why, e))
		return -1;
	if (!is_first_rank(r))
		return 0;
	snprintf(line, sizeof line, "gradients are added in the host's memory, which is slower than on the GPUs: %s", why.msg);
	if (s->devices)
		train_say(r, "gradients are added on the GPUs by %s", rank_sum_text(s));
	else if (why.code)
		train_warn(r, line);
	return 0;
}
