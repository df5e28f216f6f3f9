/* Pictures among the clips that an expert is trained on (joint training of pictures and clips, as of Wan 2.1, arXiv 2503.20314, and Open-Sora): some
 * of the steps take a batch of pictures, which the same weights read as clips of one frame. */
#include <string.h>

#include "core/mem.h"
#include "file/manifest.h"
#include "train/run.h"

struct net_config picture_net(const struct net_config *c)
{
	struct net_config one = *c;

	one.frames = 1;
	return one;
}

int pictures_hash(struct trainer *r, struct err *e)
{
	struct manifest m = {0};

	if (manifest_load(&m, r->o->pictures, e))
		return err_prefix(e, "--pictures");
	memcpy(r->picture_manifest, m.sha256, sizeof r->picture_manifest);
	manifest_release(&m);
	return 0;
}

/* Which of the pictures' clusters are read. Pictures that are not divided suit any expert; else the cluster must be of the same partition, so that it
 * holds pictures of the expert's own kind. Experts that are told the cluster need the partition in any case. */
static int find_cluster(const struct trainer *r, const struct manifest *m, int *cluster, struct err *e)
{
	const struct train_options *o = r->o;
	const char *ours = dataset_info(r->main.data)->manifest->partition;
	int told = o->condition == CONDITION_CLUSTER;

	*cluster = m->clusters == 1 && !told ? DATASET_ALL : o->cluster;
	if ((*cluster == DATASET_ALL && !told) || (*ours && !strcmp(ours, m->partition)))
		return 0;
	return err_set(e, ERR_DATA,
	               "--pictures: the clusters of %s are not those of %s: %s; assign the pictures by the rule that divided the clips (ddm-cluster "
	               "--centroids or --by), or leave them in one cluster",
	               o->pictures, o->shards, *ours && *m->partition ? "they are of another partition" : "a partition is unknown");
}

/* The classes have one meaning if both shards name them alike, or one does not name them. */
static int check_classes(const struct trainer *r, const struct dataset_info *mine, struct err *e)
{
	const struct dataset_info *clips = dataset_info(r->main.data);
	const json_t *a = clips->manifest->class_names, *b = mine->manifest->class_names;

	if (r->o->condition != CONDITION_CLASS)
		return 0;
	if (mine->classes > clips->classes)
		return err_set(e, ERR_DATA, "--pictures: %s has %d classes, and the clips of %s have %d", r->o->pictures, mine->classes, r->o->shards,
		               clips->classes);
	for (size_t i = 0; a && b && i < (size_t)mine->classes; i++)
		if (!json_equal(json_array_get(a, i), json_array_get(b, i)))
			return err_set(e, ERR_DATA, "--pictures: class %d is \"%s\" in %s and \"%s\" in %s", (int)i,
			               json_string_value(json_array_get(b, i)), r->o->pictures, json_string_value(json_array_get(a, i)),
			               r->o->shards);
	return 0;
}

static int check_samples(const struct trainer *r, const struct dataset_info *mine, struct err *e)
{
	const struct dataset_info *clips = dataset_info(r->main.data);
	char one[NET_SAMPLE_TEXT], other[NET_SAMPLE_TEXT];

	if (mine->arrays != clips->arrays)
		return err_set(e, ERR_DATA, "--pictures: %s holds %s, and %s clips of %s: encode both with the same autoencoder, or neither",
		               r->o->pictures, mine->arrays ? "latents" : "pixels", r->o->shards, clips->arrays ? "latents" : "pixels");
	if (mine->frames > 1 || mine->channels != clips->channels || mine->height != clips->height || mine->width != clips->width)
		return err_set(e, ERR_DATA, "--pictures: %s holds samples of %s, and the frames of %s are %s%s", r->o->pictures,
		               net_sample_text(mine->frames, mine->channels, mine->height, mine->width, one), r->o->shards,
		               net_sample_text(0, clips->channels, clips->height, clips->width, other),
		               mine->frames > 1                    ? ": pictures are not clips"
		               : mine->arrays                      ? ""
		               : clips->channels == mine->channels ? ": --size resizes the pictures"
		                                                   : ": --grey makes the pictures grey");
	if (mine->text_width != clips->text_width || mine->pooled_width != clips->pooled_width)
		return err_set(e, ERR_DATA, "--pictures: the texts of %s have the width %lld and pooled vectors of %lld, those of %s %lld and %lld",
		               r->o->pictures, (long long)mine->text_width, (long long)mine->pooled_width, r->o->shards, (long long)clips->text_width,
		               (long long)clips->pooled_width);
	return check_classes(r, mine, e);
}

/* Whether the weights of the network serve one frame too. */
static int check_network(const struct trainer *r, struct err *e)
{
	struct net_config one = picture_net(&r->net);
	struct params p = {0}, q = {0};
	int same;

	if (net_check(&one, e))
		return err_prefix(e, "--pictures: as clips of one frame");
	net_params(&r->net, &p);
	net_params(&one, &q);
	same = p.n == q.n;
	for (int i = 0; same && i < p.n; i++)
		same = !strcmp(p.v[i].name, q.v[i].name) && p.v[i].rank == q.v[i].rank &&
		       !memcmp(p.v[i].shape, q.v[i].shape, (size_t)p.v[i].rank * sizeof *p.v[i].shape);
	params_release(&p);
	params_release(&q);
	return same ? 0
	            : err_set(e, ERR_USAGE,
	                      "--pictures: the weights of a %s network depend on the number of frames, so that they do not fit pictures; use a "
	                      "preset such as vdit-nano/1x4",
	                      net_name(&r->net));
}

int pictures_open(struct trainer *r, const struct dataset_options *d, struct err *e)
{
	const struct train_options *o = r->o;
	struct dataset_options mine = *d;
	struct manifest m = {0};
	int rc;

	if (!r->net.frames)
		return err_set(e, ERR_USAGE, "--pictures: %s holds no clips; pictures alone need no such option", o->shards);
	if (check_network(r, e))
		return -1;
	if (manifest_load(&m, o->pictures, e))
		return err_prefix(e, "--pictures");
	rc = find_cluster(r, &m, &mine.cluster, e);
	manifest_release(&m);
	r->picture_cluster = mine.cluster;
	mine.text_tokens = r->net.text_tokens;
	if (rc || train_set_open(r, &r->pictures, o->pictures, &mine, e))
		return rc ? -1 : err_prefix(e, "--pictures");
	return check_samples(r, dataset_info(r->pictures.data), e);
}
