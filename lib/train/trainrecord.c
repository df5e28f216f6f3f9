/* Records the tape of a training: the network, its loss and their gradient, for the options and the data of a run. */
#include "train/run.h"

static enum loss_kind loss_of(const struct train_options *o)
{
	if (!net_is_classifier(&o->net))
		return LOSS_SQUARED;
	if (o->target.kind == TARGET_CLUSTER)
		return o->label_smoothing > 0 ? LOSS_SOFT : LOSS_CLASS;
	return target_loss(&o->target);
}

static struct objective objective_of(const struct trainer *r, const struct net_config *c)
{
	const struct train_options *o = r->o;
	struct objective v = (struct objective){
	    .def = o->objective,
	    .path = r->path,
	    .condition = o->condition,
	    .classes = r->net.classes,
	    .class_dropout = r->net.class_dropout,
	    .frame_dropout = r->net.frame_dropout,
	    .smoothing = o->label_smoothing,
	    .d = net_sample_elements(c),
	};

	v.def.loss = loss_of(o);
	return v;
}

/* What to recompute. GELU's is left out where products round their inputs, because a library applies it to values that are not rounded. */
static enum recompute recomputed(const struct train_options *o)
{
	if (o->recompute)
		return RECOMPUTE_BLOCKS;
	if (!o->recompute_light)
		return RECOMPUTE_NONE;
	return o->precision == PRECISION_F32 ? RECOMPUTE_ACTS : RECOMPUTE_NORMS;
}

static void record(struct trainer *r, struct train_set *s, const struct net_config *c)
{
	int bf16 = device_stores_bf16(r->device, (enum precision)r->o->precision);

	s->objective = objective_of(r, c);
	loss_record(&s->loss, c, s->objective.def.loss, &r->params, DT_F32, r->part, 1, recomputed(r->o));
	tape_layout(s->loss.tape, r->device, &(struct plan_options){.bf16 = bf16, .bf16_weights = bf16});
	s->flops_per_sample = tape_flops(s->loss.tape, 1, 0, s->loss.end) + (r->frozen ? frozen_info(r->frozen).flops : 0);
}

void trainer_record(struct trainer *r)
{
	r->params.trained = r->o->head_only ? net_head(&r->net) : NULL;
	record(r, &r->main, &r->net);
	r->flops_per_sample = r->main.flops_per_sample;
	if (r->pictures.data) {
		struct net_config one = picture_net(&r->net);
		double share = r->o->picture_share;

		record(r, &r->pictures, &one);
		r->pictures.objective.frame_dropout = one.first_frame; /* a picture has no frame to go on from: it is never told its own */
		r->flops_per_sample = (1 - share) * r->main.flops_per_sample + share * r->pictures.flops_per_sample;
	}
}

void trainer_bind(struct trainer *r, float *values)
{
	tape_bind_params(r->main.loss.tape, values, r->update.grads);
	if (r->pictures.data)
		tape_bind_params(r->pictures.loss.tape, values, r->update.grads);
	state_round(&r->state, values);
}
