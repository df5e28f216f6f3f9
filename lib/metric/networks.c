/* Opens the pretrained networks that metrics are defined on, as extractors. */
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "metric/extractor.h"
#include "net/clip.h"
#include "net/inception.h"
#include "net/vit.h"

enum { BATCH = 16 };

/* published: the name under which missing weights can be obtained. */
static int weights_hash(char hex[65], const char *path, const char *published, struct err *e)
{
	return weightfile_hash_at(path, hex, e) ? err_lacking(e, published) : 0;
}

/* The requested input convention, or `otherwise` if none was requested. ERR_USAGE if it is not among the n allowed ones. */
static int input_choose(enum netinput *out, const struct extractor_options *o, enum netinput otherwise, const enum netinput *allowed, int n,
                        const char *name, struct err *e)
{
	struct str s = {0};

	*out = o->input < 0 ? otherwise : (enum netinput)o->input;
	for (int i = 0; i < n; i++) {
		if (*out == allowed[i]) {
			str_release(&s);
			return 0;
		}
		str_printf(&s, "%s%s", i ? ", " : "", netinput_names[allowed[i]]);
	}
	err_set(e, ERR_USAGE, "%s cannot use --input \"%s\"; expected %s", name, netinput_names[*out], str_text(&s));
	str_release(&s);
	return -1;
}

static int inception_taps(void *net, struct pool *pool, float *const out[TAPS], const float *pixels, int n, struct err *e)
{
	struct inception_result r = {.features = out[TAP_MAIN], .logits = out[TAP_LOGITS], .spatial = out[TAP_SPATIAL]};

	(void)pool;
	return inception_run(net, n, pixels, &r, e);
}

static void inception_close(void *net)
{
	inception_free(net);
}

int networks_inception(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e)
{
	static const enum netinput inputs[] = {NETINPUT_TF1, NETINPUT_TORCH, NETINPUT_CLEAN};
	struct extractor_network n = {.name = "inception",
	                              .metrics = "fid,kid,is,pr",
	                              .batch = BATCH,
	                              .dims = {INCEPTION_FEATURES, INCEPTION_SPATIAL, INCEPTION_CLASSES},
	                              .run = inception_taps,
	                              .free = inception_close};
	char hash[65];

	if (input_choose(&n.input, o, NETINPUT_TF1, inputs, 3, n.name, e) || weights_hash(hash, path, "inception", e) ||
	    !(n.net = inception_open(path, BATCH, o->bulk, o->device, e)))
		return -1;
	n.weights_hash = hash;
	n.flops = inception_flops(n.net);
	n.rounding = o->device->compact ? NULL : compact_rounding(o->bulk); /* the CPU computes convolutions in float */
	extractor_from_network(x, &n);
	x->all_floats = o->device->compact;
	return 0;
}

/* A transformer, DINOv2 or CLIP: exactly one of vit and clip is not NULL. */
struct tower {
	struct vit *vit;
	struct clip_vision *clip;
	struct device *device;
};

static int tower_run(void *net, struct pool *pool, float *const out[TAPS], const float *pixels, int n, struct err *e)
{
	struct tower *t = net;

	(void)pool;
	if (t->vit)
		vit_run(t->vit, n, pixels, out[TAP_MAIN], NULL);
	else
		clip_vision_run(t->clip, n, pixels, NULL, out[TAP_MAIN]);
	return t->device->error(t->device, e);
}

static void tower_free(void *net)
{
	struct tower *t = net;

	vit_free(t->vit);
	clip_vision_free(t->clip);
	mem_free(t);
}

int networks_dinov2(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e)
{
	static const enum netinput inputs[] = {NETINPUT_DINOV2, NETINPUT_DINOV2_256};
	struct extractor_network n = {.name = "dinov2", .metrics = "fid,kid,pr,dc", .batch = BATCH, .run = tower_run, .free = tower_free};
	struct tower *t = mem_zalloc(1, sizeof *t);
	char hash[65];

	t->device = o->device;
	n.net = t;
	if (!input_choose(&n.input, o, NETINPUT_DINOV2, inputs, 2, n.name, e) && !weights_hash(hash, path, "dinov2-l", e))
		t->vit = vit_open(path, 0, VIT_CLASS, BATCH, o->bulk, o->device, e);
	if (!t->vit) {
		tower_free(t);
		return -1;
	}
	n.dims[TAP_MAIN] = (int)vit_config(t->vit)->hidden;
	n.flops = vit_flops(t->vit);
	n.weights_hash = hash;
	n.rounding = compact_rounding(o->bulk);
	extractor_from_network(x, &n);
	return 0;
}

int networks_clip(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e)
{
	static const enum netinput inputs[] = {NETINPUT_CLIP, NETINPUT_CMMD};
	struct extractor_network n = {.name = "clip", .metrics = "cmmd", .batch = BATCH, .run = tower_run, .free = tower_free};
	struct tower *t = mem_zalloc(1, sizeof *t);
	const struct clip_config *c;
	char hash[65];
	int rc = -1;

	t->device = o->device;
	n.net = t;
	if (weights_hash(hash, path, "clip-vit-large-patch14", e) || !(t->clip = clip_vision_open(path, VIT_CLASS, BATCH, o->bulk, o->device, e)))
		goto out;
	c = clip_vision_config(t->clip);
	if (input_choose(&n.input, o, c->size == netinput_side(NETINPUT_CMMD) ? NETINPUT_CMMD : NETINPUT_CLIP, inputs, 2, n.name, e))
		goto out;
	if (c->size != netinput_side(n.input)) {
		err_set(e, ERR_DATA, "%s reads pictures of %lld x %lld, but --input \"%s\" makes them %d x %d", path, (long long)c->size,
		        (long long)c->size, netinput_names[n.input], netinput_side(n.input), netinput_side(n.input));
		goto out;
	}
	n.dims[TAP_MAIN] = (int)(c->projection ? c->projection : c->hidden);
	n.flops = clip_vision_flops(t->clip);
	n.weights_hash = hash;
	n.rounding = compact_rounding(o->bulk);
	extractor_from_network(x, &n);
	rc = 0;
out:
	if (rc)
		tower_free(t);
	return rc;
}
