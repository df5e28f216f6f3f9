/* bench_sample [-q] [-t THREADS] [-s SECONDS] [PATTERN]: sampling as in ddm-sample, from one network, and from eight experts of which a router
 * chooses two for every picture at every step, beside the best product in cache. The router runs, but its output is replaced by a fixed table, so
 * that another program (peer_torch.py) can use the same groups. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "net/model.h"
#include "net/netdef.h"
#include "tests/bench/meter.h"

/* The last but one uses the demo's network. */
static const struct work {
	const char *name, *preset, *router;
	int64_t channels, size, batch, steps; /* steps of one timed call */
	int experts, used;
} works[] = {
    {"sample dit-s/2, batch 32", "dit-s/2", NULL, 4, 32, 32, 1, 1, 1},
    {"sample dit-mini/4, batch 64", "dit-mini/4", NULL, 3, 32, 64, 2, 1, 1},
    {"sample dit-micro/4, batch 64", "dit-micro/4", NULL, 3, 32, 64, 4, 1, 1},
    {"sample dit-nano/4, batch 64", "dit-nano/4", NULL, 3, 32, 64, 4, 1, 1},
    {"sample 8 x dit-micro/4, top-2, batch 64", "dit-micro/4", "dit-nano/8", 3, 32, 64, 2, 8, 2},
};

struct setup {
	char dir[64];
	struct device *device;
	struct ensemble ensemble;
	struct router router;
	struct mixture mixture;
	struct sampler sampler;
	struct sampler_state *state;
	int64_t *index;
	float *x;
	int64_t batch;
	int call; /* number of calls of the router so far */
};

static void must(int rc, const struct err *e)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_sample: %s\n", e->msg);
	exit(e->code);
}

/* Write a network with random weights; its speed does not depend on them. */
static void write_net(struct device *d, const char *dir, const char *sub, const struct work *w, int router, uint64_t seed)
{
	struct model_config m = {.path = "linear", .cluster = -1};
	struct net_config *c = &m.net;
	char *folder = path_join(dir, sub), *config, *weights, *text;
	struct params p = {0};
	struct err e = {0};
	float *values;

	*c = (struct net_config){.def = router ? &net_router : &net_dit, .channels = w->channels, .size = w->size, .time_scale = 1000};
	must(net_preset(router ? w->router : w->preset, c, &e), &e);
	if (router)
		m.clusters = c->clusters = w->experts;
	else
		c->out_channels = w->channels;
	if (!router)
		snprintf(m.prediction, sizeof m.prediction, "velocity");
	net_params(c, &p);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	params_init(&p, seed, values);
	config = path_join(folder, "config.json");
	weights = path_join(folder, model_weights_name(net_role(c)));
	text = model_config_text(&m, NULL);
	must(dir_make(folder, &e) || commit_bytes(config, text, strlen(text), &e) || model_write_weights(weights, &p, d, values, NULL, 0, &e), &e);
	mem_free(values);
	mem_free(text);
	mem_free(config);
	mem_free(weights);
	mem_free(folder);
	params_release(&p);
}

/* At the router's call s, picture i goes to the experts (i + s) mod 8 and (3 i + s + 1) mod 8, or to the next one if they are equal. */
static int route_table(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	struct setup *s = arg;
	int k = s->ensemble.k, step = s->call++;

	if (s->ensemble.router.logits(s->ensemble.router.arg, n, x, t, logits, e))
		return -1;
	for (int64_t i = 0; i < n; i++) { /* the logits are in host memory, since this runs on the CPU */
		int a = (int)((i + step) % k), b = (int)((3 * i + step + 1) % k);

		for (int j = 0; j < k; j++)
			logits[i * k + j] = 0;
		logits[i * k + a] = 3;
		logits[i * k + (a == b ? (b + 1) % k : b)] = 2.5f;
	}
	return 0;
}

static void set_up(struct setup *s, const struct work *w, struct pool *pool)
{
	struct ensemble_options o = {.capacity = w->batch};
	struct err e = {0};

	o.device = s->device = device_cpu(pool, DT_F32);
	snprintf(s->dir, sizeof s->dir, "/tmp/ddm-bench-XXXXXX");
	if (!mkdtemp(s->dir)) {
		err_errno(&e, "%s", s->dir);
		must(-1, &e);
	}
	for (int k = 0; k < w->experts; k++) {
		char sub[32];

		snprintf(sub, sizeof sub, "expert_%d", k);
		write_net(s->device, s->dir, sub, w, 0, (uint64_t)k + 1);
	}
	if (w->router)
		write_net(s->device, s->dir, "router", w, 1, 99);
	must(policy_parse(w->router ? "top-2" : "expert:0", &o.policy, &e), &e);
	must(ensemble_open(&s->ensemble, s->dir, &o, &e), &e);
	s->batch = w->batch;
	s->router = s->ensemble.router;
	s->router.logits = route_table;
	s->router.arg = s;
	s->mixture = (struct mixture){.k = s->ensemble.k,
	                              .d = s->ensemble.d,
	                              .expert = s->ensemble.expert,
	                              .router = w->router ? &s->router : NULL,
	                              .policy = o.policy,
	                              .cfg = 1,
	                              .device = s->device};
	s->sampler = (struct sampler){.mixture = &s->mixture, .solver = {SOLVER_EULER, w->steps, 1, 0}, .seed = 1, .batch = w->batch};
	must(!(s->state = sampler_new(&s->sampler, &e)), &e);
	s->x = mem_zalloc((size_t)(w->batch * s->ensemble.d), sizeof *s->x);
	s->index = mem_zalloc((size_t)w->batch, sizeof *s->index);
	for (int64_t i = 0; i < w->batch; i++)
		s->index[i] = i;
}

static void tear_down(struct setup *s)
{
	sampler_free(s->state);
	ensemble_release(&s->ensemble);
	device_free(s->device);
	mem_free(s->x);
	mem_free(s->index);
	dir_remove(s->dir, NULL);
}

static void sample(void *arg)
{
	struct setup *s = arg;
	struct err e = {0};

	s->call = 0;
	must(sampler_run(s->state, s->x, &(struct sampler_call){.n = s->batch, .index = s->index}, NULL, NULL, &e), &e);
}

static void measure(struct bench *b, const struct work *w)
{
	const struct work small = {w->name, "dit-nano/2", w->router ? "dit-nano/2" : NULL, w->channels, 8, 2, 1, w->experts, w->used};
	struct setup s = {0};
	struct duty work = {sample, &s, 0};
	struct reading r;

	if (!bench_wants(b, w->name))
		return;
	if (b->quick)
		w = &small;
	set_up(&s, w, b->pool);
	work.amount = (double)(w->batch * w->steps) * (w->used * s.ensemble.expert[0].flops + (w->router ? s.router.flops : 0));
	r = bench_read(b, &work, yard_product(b), .05, 3);
	bench_print(w->name, r.rate / work.amount * (double)(w->steps * w->batch), "evaluations/s", &r);
	tear_down(&s);
}

int main(int argc, char **argv)
{
	struct bench b;

	bench_start(&b, "bench_sample", argc, argv);
	for (size_t i = 0; i < sizeof works / sizeof *works; i++)
		measure(&b, &works[i]);
	bench_end(&b);
	return 0;
}
