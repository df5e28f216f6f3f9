/* The forward pass of a batch: noise, what frozen experts say of it, the network, the loss. */
#include "train/run.h"

/* Set the targets of n samples from the experts' errors at them, and each sample's label to the expert with the least error. */
static int ask_experts(struct trainer *r, struct train_set *s, int64_t n, const struct clean *clean, struct err *e)
{
	struct noised *z = &s->noised;
	int k = (int)r->net.clusters;
	int64_t numbers = (int64_t)(z->row_bytes[NOISED_TARGET] / sizeof *z->target);
	const double *gram =
	    frozen_gram(r->frozen, n, tape_data(s->loss.tape, s->loss.x), tape_data(s->loss.tape, s->loss.velocity), z->t, clean->label, e);

	if (!gram)
		return -1;
	for (int64_t i = 0; i < n; i++)
		z->label[i] = target_of(&r->o->target, gram + i * k * k, k, z->label[i], z->target + i * numbers);
	noised_put_target(z, n);
	return 0;
}

int trainer_forward(struct trainer *r, struct train_set *s, int64_t n, const struct clean *clean, struct err *e)
{
	struct loss_tape *l = &s->loss;

	if (!r->frozen) {
		tape_run(l->tape, n, 0, l->forward_end);
		return 0;
	}
	tape_run(l->tape, n, 0, l->network);
	if (ask_experts(r, s, n, clean, e))
		return -1;
	tape_run(l->tape, n, l->network, l->forward_end);
	return 0;
}
