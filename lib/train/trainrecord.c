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

static void fit_objective(struct trainer *r)
{
	const struct train_options *o = r->o;

	r->objective = (struct objective){
	    .def = o->objective,
	    .path = r->path,
	    .condition = o->condition,
	    .classes = r->net.classes,
	    .class_dropout = r->net.class_dropout,
	    .frame_dropout = r->net.frame_dropout,
	    .smoothing = o->label_smoothing,
	    .d = net_sample_elements(&r->net),
	};
	r->objective.def.loss = loss_of(o);
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

void trainer_record(struct trainer *r)
{
	int bf16 = device_stores_bf16(r->device, (enum precision)r->o->precision);

	fit_objective(r);
	r->params.trained = r->o->head_only ? net_head(&r->net) : NULL;
	loss_record(&r->loss, &r->net, r->objective.def.loss, &r->params, DT_F32, r->part, 1, recomputed(r->o));
	tape_layout(r->loss.tape, r->device, &(struct plan_options){.bf16 = bf16, .bf16_weights = bf16});
	r->flops_per_sample = tape_flops(r->loss.tape, 1, 0, r->loss.end) + (r->frozen ? frozen_info(r->frozen).flops : 0);
}

void trainer_bind(struct trainer *r, float *values)
{
	tape_bind_params(r->loss.tape, values, r->update.grads);
	state_round(&r->state, values);
}
