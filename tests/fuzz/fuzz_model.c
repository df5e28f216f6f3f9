/* Any bytes as a model: the expert's config.json up to the first NUL, the router's up to the second (empty: there is none), then the weights, of the
 * expert, or of the router if the expert's config.json is empty. A model that opens also runs. A config.json cannot cause larger allocations than
 * the weights. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "diffusion/ensemble.h"
#include "net/model.h"
#include "net/netdef.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/replay.h"

static const double MOST_FLOPS = 1e7; /* of a run that is tried */

static void check(const struct err *e)
{
	if (e->code != ERR_DATA && e->code != ERR_NOINPUT)
		abort();
}

static void run(struct ensemble *s)
{
	float *x = mem_zalloc((size_t)s->d, sizeof *x), *v = mem_zalloc((size_t)s->d, sizeof *v), t = .5f;
	size_t tokens = (size_t)s->text_tokens;
	float *text = mem_zalloc(tokens * (size_t)s->text_width + 1, sizeof *text), *mask = mem_zalloc(tokens + 1, sizeof *mask);
	float *pooled = mem_zalloc((size_t)s->pooled_width + 1, sizeof *pooled);
	int32_t label = 0;

	for (int k = 0; k < s->k; k++)
		if (s->expert[k].velocity && s->expert[k].flops < MOST_FLOPS)
			s->expert[k].velocity(s->expert[k].arg, 1, x, &t,
			                      &(struct condition){.label = &label, .text = text, .mask = mask, .pooled = pooled}, v, NULL);
	mem_free(x);
	mem_free(v);
	mem_free(text);
	mem_free(pooled);
	mem_free(mask);
}

static void use_ensemble(void)
{
	struct ensemble_options o = {.policy = policy_of("prior"), .capacity = 2, .device = device_cpu(NULL, DT_F32)};
	struct ensemble s;
	struct err e = {0};

	if (ensemble_open(&s, folder_path(NULL), &o, &e))
		check(&e);
	else
		run(&s);
	ensemble_release(&s);
	device_free(o.device);
}

static void use_router(void)
{
	char *dir = folder_path("router");
	struct err e = {0};
	struct device *d = device_cpu(NULL, DT_F32);
	struct model *m = model_open(dir, 1, COMPACT_INT8, d, NULL, &e);

	if (!m)
		check(&e);
	else if (model_flops(m) < MOST_FLOPS && model_config(m)->net.def == &net_router) {
		const struct net_config *c = &model_config(m)->net;
		float *x = mem_zalloc((size_t)(c->channels * c->size * c->size), sizeof *x), t = 1;
		float *logits = mem_zalloc((size_t)model_elements(m), sizeof *logits);

		model_run(m, 1, &(struct model_input){.x = x, .t = &t}, logits);
		mem_free(x);
		mem_free(logits);
	}
	model_free(m);
	device_free(d);
	mem_free(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *part[3] = {data, data + len, data + len}, *end = data + len;
	int alone;

	for (int i = 0; i < 2; i++) {
		const uint8_t *nul = part[i] < end ? memchr(part[i], 0, (size_t)(end - part[i])) : NULL;

		part[i + 1] = nul ? nul + 1 : end;
	}
	alone = part[1] - part[0] <= 1;
	if (alone) {
		folder_put("router/config.json", part[1], (size_t)(part[2] - part[1]) - (part[2] > part[1] && !part[2][-1]));
		folder_put("router/model.safetensors", part[2], (size_t)(end - part[2]));
		use_router();
		return 0;
	}
	folder_put("expert_0/config.json", part[0], (size_t)(part[1] - part[0]) - !part[1][-1]);
	folder_put("expert_0/diffusion_pytorch_model.safetensors", part[2], (size_t)(end - part[2]));
	if (part[2] - part[1] > 1) {
		folder_put("router/config.json", part[1], (size_t)(part[2] - part[1]) - !part[2][-1]);
	} else {
		char *router = folder_path("router");

		dir_remove(router, NULL);
		mem_free(router);
	}
	use_ensemble();
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/model")
