/* Opens the frozen experts that a router learns from, and checks that they suit its samples. */
#include <string.h>

#include "file/manifest.h"
#include "train/run.h"

/* The samples of a learned uncertainty are those that its expert was trained on. */
static int check_own(const struct trainer *r, const struct frozen_info *f, struct err *e)
{
	const char *partition = dataset_info(r->main.data)->manifest->partition;

	if (*partition && *f->partition && strcmp(partition, f->partition) != 0)
		return err_set(e, ERR_DATA, "--target uncertainty:%d: expert %d of %s was trained on another partition than that of %s",
		               r->o->target.expert, r->o->target.expert, r->o->experts, r->o->shards);
	return 0;
}

/* Shards of one cluster are not divided, and suit any experts. */
int frozen_fits(const struct trainer *r, struct err *e)
{
	const struct dataset_info *info = dataset_info(r->main.data);
	struct frozen_info f = frozen_info(r->frozen);
	char theirs[NET_SAMPLE_TEXT], ours[NET_SAMPLE_TEXT];

	if (f.channels != info->channels || f.size != info->height || f.frames != info->frames)
		return err_set(e, ERR_DATA, "--experts: the experts of %s are for %s, but %s holds samples of %s", r->o->experts,
		               net_sample_text(f.frames, f.channels, f.size, f.size, theirs), r->o->shards,
		               net_sample_text(info->frames, info->channels, info->height, info->width, ours));
	if (!f.weights && info->clusters != 1 && info->clusters != f.k)
		return err_set(e, ERR_DATA, "--experts: %s has %d experts, but %s has %d clusters", r->o->experts, f.k, r->o->shards, info->clusters);
	if (r->o->target.anchor > 0 && info->clusters != f.k)
		return err_set(e, ERR_USAGE,
		               "--target mixture:%g: the anchor needs the cluster of each sample, and %s has one cluster for %d experts",
		               r->o->target.anchor, r->o->shards, f.k);
	if (f.classes && info->classes > f.classes)
		return err_set(e, ERR_DATA, "--experts: the experts of %s know %d classes, but %s has %d", r->o->experts, f.classes, r->o->shards,
		               info->classes);
	return f.weights ? check_own(r, &f, e) : 0;
}

int frozen_for(struct trainer *r, int64_t capacity, struct err *e)
{
	const struct train_options *o = r->o;

	if (!o->experts)
		return 0;
	r->frozen = frozen_open(o->experts, &o->target, capacity, r->device, e);
	return r->frozen ? 0 : -1;
}
