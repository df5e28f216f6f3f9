/* Chooses what the caller left open: the network by the data, the optimizer and the rate by the network, the passes by the number of samples. */
#include "train/usual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/samemath.h"
#include "data/clusterarg.h"
#include "data/dataset.h"
#include "data/operand.h"
#include "file/manifest.h"
#include "net/model.h"

/* Transformers and U-Nets. `measured` is the widest network for which rates were compared here, with the best one; `published` is DiT-XL, and DDPM's
 * U-Net for 32 x 32. A line through these two points, in the logarithms of width and rate, gives the other rates. */
static const struct family {
	const char *value;             /* the value of net_shape that is the width */
	enum optimizer_kind optimizer; /* the better one at that width and below */
	struct {
		double width, rate;
	} measured, published;
} families[] = {
    {"hidden", OPTIMIZER_MUON, {192, 3e-3}, {1152, 1e-4}},
    {"widths", OPTIMIZER_ADAMW, {64, 2e-3}, {256, 2e-4}},
};

/* The width, or of a U-Net that of its widest level, "64,128,128". */
static double widest(const struct net_value *v)
{
	double most = v->whole ? (double)v->i : 0;
	const char *p = v->text;

	while (*p) {
		most = fmax(most, strtod(p, NULL));
		p += strcspn(p, ",");
		p += *p == ',';
	}
	return most;
}

/* The family of a network, and its width; NULL if it has none. */
static const struct family *family_of(const struct net_config *c, double *width)
{
	struct net_value v;

	for (int i = 0; net_shape(c, i, &v); i++)
		for (size_t k = 0; k < sizeof families / sizeof *families; k++)
			if (!strcmp(v.name, families[k].value)) {
				*width = widest(&v);
				return &families[k];
			}
	return NULL;
}

static double rounded(double x, int digits)
{
	double unit = same_pow(10, floor(same_log(x) * .43429448190325182765) - digits + 1);

	return round(x / unit) * unit;
}

double usual_rate(const struct net_config *c)
{
	static const double most = 1e-2, least = 1e-4;
	double width = 0, power;
	const struct family *f = family_of(c, &width);

	if (!f)
		return least;
	power = same_log(f->measured.rate / f->published.rate) / same_log(f->published.width / f->measured.width);
	return fmin(most, rounded(f->published.rate * same_pow(f->published.width / width, power), 2));
}

enum optimizer_kind usual_optimizer(const struct net_config *c)
{
	double width = 0;
	const struct family *f = family_of(c, &width);

	return f && width <= f->measured.width ? f->optimizer : OPTIMIZER_ADAMW;
}

double usual_epochs(int64_t samples, int classifier)
{
	double most = classifier ? 1e5 : 5e5;

	return fmin(100, rounded(most / (double)(samples > 0 ? samples : 1), 3));
}

int64_t usual_chain(int64_t steps)
{
	enum { LINES = 20, FEWEST = 50 };

	return steps / LINES > FEWEST ? steps / LINES : FEWEST;
}

int64_t usual_validation(int64_t steps, int64_t batch, int64_t samples)
{
	enum { TIMES = 20, PASSES = 3, SHARE = 10 };
	int64_t every = steps / TIMES > 1 ? steps / TIMES : 1, least = (SHARE * samples + PASSES * batch - 1) / (PASSES * batch);

	return every > least ? every : least;
}

void usual_network(int64_t samples, int channels, int size, int64_t frames, int arrays, int classifier, char name[24])
{
	enum { NARROWEST = 96 };
	int patch = arrays ? 2 : 4;

	while (patch > 1 && (size % patch || size / patch < 8 || patch * patch * channels > NARROWEST))
		patch /= 2;
	patch *= classifier && size % (2 * patch) == 0 ? 2 : 1;
	snprintf(name, 24, "%s-%s/%s%d", frames && !classifier ? "vdit" : "dit", classifier || samples < 30000 ? "nano" : "micro",
	         frames && !classifier ? "1x" : "", patch);
}

static int count_samples(const char *shards, int64_t *samples, struct err *e)
{
	struct manifest m = {0};

	if (operand_shards(shards, e) || manifest_load(&m, shards, e))
		return -1;
	*samples = 0;
	for (int k = 0; k < m.clusters; k++)
		*samples += m.train[k];
	manifest_release(&m);
	return 0;
}

static int network_for_data(struct train_options *o, struct err *e)
{
	struct dataset_options d = {.cluster = o->cluster, .size = o->size, .channels = o->grey ? 1 : 0};
	const struct dataset_info *info;
	struct dataset *data;
	int64_t samples;
	char name[24];

	if (count_samples(o->shards, &samples, e) || !(data = dataset_open(o->shards, &d, e)))
		return -1;
	info = dataset_info(data);
	usual_network(samples, info->channels, info->width, info->frames, info->arrays, net_is_classifier(&o->net), name);
	dataset_free(data);
	return net_preset(name, &o->net, e);
}

static int network_of_model(struct train_options *o, struct err *e)
{
	struct model_config c;

	if (model_config_load(o->from, &c, e))
		return -1;
	net_shape_copy(&o->net, &c.net);
	model_config_release(&c);
	return 0;
}

static int choose_network(struct train_options *o, struct err *e)
{
	const struct {
		const char *name;
		int64_t value;
	} shape[] = {{"hidden", o->shape.hidden}, {"depth", o->shape.depth}, {"heads", o->shape.heads}, {"patch", o->shape.patch}};

	if (o->model ? net_preset(o->model, &o->net, e) : o->from ? network_of_model(o, e) : network_for_data(o, e))
		return -1;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
		if (shape[i].value && net_shape_set(&o->net, shape[i].name, shape[i].value, e))
			return -1;
	return 0;
}

int train_resolve(struct train_options *o, struct err *e)
{
	int64_t k = DATASET_ALL, samples;

	if (o->cluster_name && cluster_argument(o->cluster_name, o->shards, &k, e))
		return -1;
	o->cluster = o->cluster_name ? (int)k : o->cluster;
	if (o->target.kind == TARGET_UNCERTAINTY)
		o->cluster = o->target.expert;
	if (choose_network(o, e))
		return -1;
	if (o->optimizer == OPTIMIZER_USUAL)
		o->optimizer = usual_optimizer(&o->net);
	if (o->optimizer == OPTIMIZER_SCHEDULE_FREE)
		o->schedule = SCHEDULE_CONSTANT;
	if (!o->lr)
		o->lr = usual_rate(&o->net);
	if (!o->steps && !o->epochs) {
		if (count_samples(o->shards, &samples, e))
			return -1;
		o->epochs = usual_epochs(samples, net_is_classifier(&o->net));
	}
	return 0;
}
