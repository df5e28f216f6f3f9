/* Refuses options of a training that contradict each other. */
#include <inttypes.h>
#include <string.h>

#include "core/mem.h"
#include "train/run.h"

/* Of a target that needs experts. */
static int check_target(const struct train_options *o, struct err *e)
{
	if (!o->experts) {
		char *text = target_text(&o->target);

		err_set(e, ERR_USAGE, "--target %s: its experts are missing: name them with --experts MODEL", text);
		mem_free(text);
		return -1;
	}
	if (strcmp(o->objective.path.name, path_choice_names[0]) != 0)
		return err_set(e, ERR_USAGE, "--path %s: --target measures the errors of experts on the linear path alone", o->objective.path.name);
	if (o->label_smoothing > 0)
		return err_set(e, ERR_USAGE, "--label-smoothing: only the clusters of --target cluster can be smoothed");
	if (target_loss(&o->target) != LOSS_ERRORS && o->calibrate)
		return err_set(e, ERR_USAGE, "--calibrate: fits a temperature to a cross-entropy, and --target %s has none",
		               o->target.kind == TARGET_MIXTURE    ? "mixture"
		               : o->target.kind == TARGET_VARIANCE ? "variance"
		                                                   : "uncertainty");
	if (o->target.kind == TARGET_UNCERTAINTY && o->from)
		return err_set(e, ERR_USAGE, "--from: an uncertainty has one number, and not one for each cluster of a router");
	return 0;
}

int options_check(const struct train_options *o, struct err *e)
{
	if (o->batch < 1 || o->accumulate < 0 || (o->accumulate && o->batch % o->accumulate))
		return err_set(e, ERR_USAGE, "a batch of %" PRId64 " samples cannot be split into %" PRId64 " equal parts", o->batch, o->accumulate);
	if (ranks_check(o, e))
		return -1;
	if (o->steps < 0 || (o->steps == 0 && !(o->epochs > 0)))
		return err_set(e, ERR_USAGE, "the number of steps or of epochs is missing");
	if (o->optimizer == OPTIMIZER_USUAL)
		return err_set(e, ERR_USAGE, "the optimizer is missing: train_resolve chooses one");
	if (o->warmup < 0 || !(o->lr > 0))
		return err_set(e, ERR_USAGE, "the learning rate (%g) must be above 0 and the warm-up (%" PRId64 " steps) must not be negative", o->lr,
		               o->warmup);
	if (o->optimizer == OPTIMIZER_SCHEDULE_FREE && o->schedule != SCHEDULE_CONSTANT)
		return err_set(e, ERR_USAGE, "--schedule cosine: the schedule-free optimizer needs a constant rate, after an optional warm-up");
	if (o->optimizer == OPTIMIZER_SCHEDULE_FREE && o->ema_half_life != 0)
		return err_set(e, ERR_USAGE, "--ema-half-life: the schedule-free optimizer writes its own average of the weights");
	if (o->optimizer == OPTIMIZER_MUON && o->offload)
		return err_set(e, ERR_USAGE,
		               "--offload: Muon reads a matrix's whole momentum at once, so it must stay on the device; use --optimizer adamw");
	if (o->init_from && o->from)
		return err_set(e, ERR_USAGE, "start from given weights or from a pretrained network, not from both");
	if ((o->rows || o->head_only) && !o->from)
		return err_set(e, ERR_USAGE, "%s: the router to start from is missing (--from)", o->rows ? "--rows" : "--head-only");
	if (net_reads(&o->net, NET_IN_TEXT) && o->condition != CONDITION_NONE)
		return err_set(e, ERR_USAGE, "a network that reads texts takes no %s as its condition", conditions[o->condition]);
	if (o->target.kind != TARGET_CLUSTER && check_target(o, e))
		return -1;
	if (o->target.kind == TARGET_CLUSTER && o->experts)
		return err_set(e, ERR_USAGE, "--experts: --target cluster needs none; give --target error, regret, variance, uncertainty or mixture");
	if (o->pictures && !(o->picture_share > 0 && o->picture_share < 1))
		return err_set(e, ERR_USAGE, "--picture-share %g: must be above 0 and below 1", o->picture_share);
	if (o->pictures && o->first_frame && !(o->first_frame_drop > 0))
		return err_set(
		    e, ERR_USAGE,
		    "--pictures: pictures are learned without a first frame, which --first-frame-drop 0 rules out; give a probability above 0");
	if (o->dropout > 0 && !net_has_dropout(&o->net))
		return err_set(e, ERR_USAGE, "--dropout: a %s network has no dropout; U-Nets have it (--model unet-...)", net_name(&o->net));
	return 0;
}
