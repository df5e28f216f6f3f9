/* The CUDA device, kernels/cuda.cu, on a fake runtime that runs submitted work late, early or in an odd order: memory, queues, graphs, training,
 * paging and k-means give the same bytes as kernels that run at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "net/trunkconfig.h"
#include "net/pager.h"
#include "tests/op/emulated.h"
#include "tests/op/fakecuda.h"
#include "tests/unit/clusters.h"
#include "tests/unit/stripesdir.h"
#include "tests/unit/tinyrun.h"
#include "train/trainer.h"

/* The streams that run ahead: none, those of uploads and downloads, that of the kernels, all; and random ones. */
static const struct {
	unsigned eager, odd;
} ways[] = {{0, 0}, {0x1e, 0}, {1, 0}, {0x1f, 0}, {0, 1}, {2, 3}};
enum { WAYS = sizeof ways / sizeof *ways };

static double some_flops(struct device *d)
{
	(void)d;
	return 1e9;
}

static struct device *fake_device(int way)
{
	struct err e = {0};
	struct device *d;

	fake_cuda = (struct fake_cuda){.eager = ways[way].eager, .odd = ways[way].odd, .total = (size_t)1 << 30};
	if (!(d = device_fake_cuda(0, NULL, &e)))
		fail_msg("%s", e.msg);
	d->peak_flops = some_flops; /* a product of size 512 would take a minute */
	return d;
}

static struct device *cluster_device(void)
{
	return fake_device(5);
}

static void closed(struct device *d)
{
	device_free(d);
	assert_int_equal(fake_cuda.alive, 0);
}

static void well(struct device *d)
{
	struct err e = {0};

	if (d->sync(d, &e))
		fail_msg("%s", e.msg);
}

/* Copies larger than the staging buffers. put has read its source on return; fetched data is valid after its event. */
static void memory(void **state)
{
	enum { N = 5000003 };
	unsigned char *host = mem_alloc(N), *back = mem_zalloc(N, 1);

	(void)state;
	for (int w = 0; w < WAYS; w++) {
		struct device *d = fake_device(w);
		unsigned char *pinned = d->alloc_host(d, N, "bytes", NULL), *a = d->alloc(d, N, "bytes", NULL), *b = d->alloc(d, N, "bytes", NULL);
		void *event = d->event_new(d);
		struct err e = {0};

		for (int i = 0; i < N; i++)
			host[i] = (unsigned char)(i * 7 + i / 251 + w);
		device_put(d, a, host, N);
		memset(host, 0, N);
		device_copy(d, b, a, N);
		d->fill(d, 0, a, 0x5a, N);
		d->event_record(d, event, 0);
		d->event_follow(d, event, 1);
		d->fetch(d, 1, pinned, b, N);
		d->event_record(d, event, 1);
		assert_int_equal(d->event_passed(d, event, 1), 1);
		device_get(d, back, a, N);
		for (int i = 0; i < N; i++)
			assert_true(pinned[i] == (unsigned char)(i * 7 + i / 251 + w) && back[i] == 0x5a);
		assert_null(d->alloc(d, (size_t)1 << 40, "a terabyte", &e));
		assert_int_equal(e.code, ERR_NOMEM);
		assert_non_null(strstr(e.msg, "a terabyte needs 1099511.6 MB"));
		assert_null(d->alloc(d, (size_t)1 << 50, "a petabyte", &e));
		assert_int_equal(e.code, ERR_NOMEM);
		well(d);
		d->event_free(d, event);
		d->release_host(d, pinned);
		d->release(d, a);
		d->release(d, b);
		closed(d);
	}
	mem_free(host);
	mem_free(back);
}

/* New memory is zero before any stream writes it. A put on one stream does not wait for the work of another. */
static void streams(void **state)
{
	enum { N = 1 << 20 };
	struct device *d = fake_device(0);
	char *a = d->alloc(d, N, "bytes", NULL), *b = d->alloc(d, N, "bytes", NULL), *pinned = d->alloc_host(d, N, "bytes", NULL);
	char *back = mem_alloc(N), *host = mem_zalloc(N, 1);
	void *busy = d->event_new(d), *event = d->event_new(d);

	(void)state;
	memset(pinned, 1, N);
	d->send(d, 1, a, pinned, N);
	d->event_record(d, event, 1);
	assert_int_equal(d->event_passed(d, event, 1), 1);
	device_get(d, back, a, N);
	for (int i = 0; i < N; i++)
		assert_int_equal(back[i], 1);
	d->fill(d, 0, b, 1, N);
	d->event_record(d, busy, 0);
	for (int i = 0; i < 2; i++)
		d->put(d, 0, b, host, N);
	for (int i = 0; i < 9; i++)
		d->put(d, 1, a, host, N);
	assert_int_equal(d->event_passed(d, busy, 0), 0);
	well(d);
	assert_int_equal(d->event_passed(d, busy, 0), 1);
	d->event_free(d, busy);
	d->event_free(d, event);
	d->release_host(d, pinned);
	d->release(d, a);
	d->release(d, b);
	mem_free(back);
	mem_free(host);
	closed(d);
}

/* A graph does nothing until it is launched. A call that is not allowed during capture makes only the graph invalid. */
static void graphs(void **state)
{
	struct device *d = fake_device(0);
	char *a = d->alloc(d, 64, "bytes", NULL), back[64];
	void *graph, *hop = d->event_new(d);
	struct err e = {0};

	(void)state;
	assert_int_equal(d->capture_begin(d, 0), 0);
	d->fill(d, 0, a, 1, 64);
	d->event_record(d, hop, 0);
	d->event_follow(d, hop, 1);
	d->fill(d, 1, a, 2, 32);
	d->event_record(d, hop, 1);
	d->event_follow(d, hop, 0);
	graph = d->capture_end(d, 0);
	assert_non_null(graph);
	device_get(d, back, a, 64);
	assert_int_equal(back[0], 0);
	d->graph_launch(d, graph, 0);
	device_get(d, back, a, 64);
	assert_true(back[31] == 2 && back[32] == 1 && !d->uncaptured[0]);
	d->graph_free(d, graph);

	assert_int_equal(d->capture_begin(d, 0), 0);
	d->fill(d, 0, a, 3, 64);
	assert_null(d->alloc(d, 64, "bytes", &e));
	assert_null(d->capture_end(d, 0));
	assert_non_null(strstr(d->uncaptured, "not permitted"));
	d->uncaptured[0] = 0;
	assert_int_equal(d->capture_begin(d, 0), 0);
	d->fill(d, 0, a, 3, 64);
	d->event_record(d, hop, 0);
	d->event_follow(d, hop, 2);
	d->fill(d, 2, a, 3, 64); /* no one waits for it */
	assert_null(d->capture_end(d, 0));
	assert_true(d->uncaptured[0]);
	device_get(d, back, a, 64);
	assert_true(back[31] == 2 && back[32] == 1);
	well(d);
	d->event_free(d, hop);
	d->release(d, a);
	closed(d);
}

static void pages(void **state)
{
	enum { PAGES = 4, SLOTS = 2, BYTES = 4096, TURNS = 12 };
	static const int order[] = {2, 0, 3};

	(void)state;
	for (int w = 0; w < WAYS; w++) {
		struct device *d = fake_device(w);
		struct pager *p = pager_new(d, SLOTS, BYTES, NULL);
		char *seen = d->alloc(d, TURNS * BYTES, "what was read", NULL), *back = mem_alloc(TURNS * BYTES);

		for (int i = 0; i < PAGES; i++) {
			void *host;

			assert_int_equal(pager_add(p, BYTES, &host, NULL), i);
			memset(host, 10 + i, BYTES);
		}
		for (int t = 0; t < TURNS; t++) {
			int page = order[t % 3];

			if (t % 3 == 0)
				pager_order(p, order, 3);
			device_copy(d, seen + t * BYTES, pager_take(p, page), BYTES);
			pager_give(p, page);
		}
		device_get(d, back, seen, TURNS * BYTES);
		for (int i = 0; i < TURNS * BYTES; i++)
			assert_int_equal(back[i], 10 + order[i / BYTES % 3]);
		well(d);
		d->release(d, seen);
		pager_free(p);
		mem_free(back);
		closed(d);
	}
}

static struct train_options tiny(const char *out)
{
	struct train_options o = tiny_run(&net_dit, shards, out);

	trunk_edit(&o.net)->depth = 1;
	o.steps = 7;
	o.batch = 4;
	o.accumulate = 2;
	o.validate_every = 3;
	o.validate_samples = 4;
	o.log_every = 1;
	return o;
}

static void hash_of(const char *out, const char *name, char hex[65])
{
	char *path = path_join(out, name);

	assert_int_equal(sha256_file(path, hex, NULL, NULL), 0);
	mem_free(path);
}

/* In a profile each product took time, also within graphs. */
static void on_line(void *arg, const char *line)
{
	int64_t *timed = arg, calls;
	double seconds;

	if (sscanf(line, "LINEAR %" SCNd64 " %lf", &calls, &seconds) == 2)
		*timed += calls > 0 && seconds >= (double)calls;
}

static void train_on(struct device *d, const struct train_options *o, char hex[2][65])
{
	int64_t timed = 0;
	const struct train_hooks h = {.say = on_line, .arg = &timed};
	struct err e = {0};

	if (train_run(o, d, &h, &e))
		fail_msg("%s: %s", o->out, e.msg);
	assert_int_equal(timed, o->profile);
	hash_of(o->out, "diffusion_pytorch_model.safetensors", hex[0]);
	hash_of(o->out, "train/step-00000007/exp_avg_sq.safetensors", hex[1]);
}

/* Weights and moments of a run in several parts, with validation, checkpoints, moments in host memory, and a profile. */
static void training(void **state)
{
	(void)state;
	for (int bf16 = 0; bf16 < 2; bf16++) {
		char *out = str_new("%s/at-once-%d", dir, bf16), want[2][65];
		struct train_options o = tiny(out);
		struct device *d = device_emulated(NULL);

		o.precision = bf16 ? PRECISION_BF16 : PRECISION_F32;
		train_on(d, &o, want);
		device_free(d);
		mem_free(out);
		for (int k = 0; k < 2 * WAYS; k++) {
			char got[2][65];

			out = str_new("%s/later-%d-%d", dir, bf16, k);
			o.out = out;
			o.offload = k % 2 ? 4096 : 0;
			o.profile = k == 4;
			d = fake_device(k / 2);
			train_on(d, &o, got);
			assert_true(fake_cuda.captures >= 3 && fake_cuda.launches > 5 * fake_cuda.captures);
			assert_string_equal(d->uncaptured, "");
			closed(d);
			for (int i = 0; i < 2; i++)
				if (strcmp(got[i], want[i]))
					fail_msg("%s of way %d, %s: other bytes", i ? "moments" : "weights", k / 2,
					         k % 2 ? "offloaded" : "all there");
			mem_free(out);
		}
	}
}

/* The other optimizers: as graphs, on queues that run in odd orders, and for schedule-free with moments in host memory. */
static void optimizers(void **state)
{
	static const enum optimizer_kind kinds[] = {OPTIMIZER_MUON, OPTIMIZER_SCHEDULE_FREE};

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *out = str_new("%s/optimizer-%d", dir, i), want[2][65], got[2][65];
		struct train_options o = tiny(out);
		struct device *d = device_emulated(NULL);

		o.optimizer = kinds[i];
		o.ema_half_life = i ? 0 : o.ema_half_life;
		o.schedule = SCHEDULE_CONSTANT;
		train_on(d, &o, want);
		device_free(d);
		mem_free(out);
		for (int k = 0; k < 4; k++) {
			out = str_new("%s/optimizer-%d-%d", dir, i, k);
			o.out = out;
			o.offload = i && k % 2 ? 4096 : 0;
			d = fake_device(k);
			train_on(d, &o, got);
			assert_true(fake_cuda.captures >= 3);
			assert_string_equal(d->uncaptured, "");
			closed(d);
			assert_string_equal(got[0], want[0]);
			assert_string_equal(got[1], want[1]);
			mem_free(out);
		}
	}
}

/* A kernel that needs more shared memory than a block can have is not launched, and the device's error says why. */
static void shared_memory(void **state)
{
	struct device *d = fake_device(0);
	struct op_call c = {.device = d};
	struct err e = {0};

	(void)state;
	assert_int_equal(d->shared, FAKE_SHARED);
	assert_int_equal(cuda_shared(&c, dir, 48 << 10), 0);
	assert_int_equal(cuda_shared(&c, dir, 99 << 10), 0);
	assert_int_equal(cuda_shared(&c, dir, d->shared), 0);
	well(d);
	assert_int_equal(cuda_shared(&c, dir, FAKE_SHARED + 1), -1);
	assert_int_equal(d->sync(d, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "a kernel's shared memory: "));
	closed(d);
}

/* The device is lost at any call: 69 with the reason, and nothing stays allocated. */
static void lost(void **state)
{
	char *out = path_join(dir, "lost");
	struct train_options o = tiny(out);

	(void)state;
	for (int64_t at = 40; at < 1500; at += 120) {
		struct device *d = fake_device(4);
		struct err e = {0};
		int rc;

		o.offload = at % 240 ? 4096 : 0;
		fake_cuda.lost_at = at;
		rc = train_run(&o, d, NULL, &e);
		closed(d);
		assert_true(fake_cuda.submitted < at || rc);
		if (rc && (e.code != ERR_UNAVAILABLE || !strstr(e.msg, "uncorrectable ECC error")))
			fail_msg("lost at %d: %d, %s", (int)at, (int)e.code, e.msg);
		assert_int_equal(dir_remove(out, NULL), 0);
	}
	mem_free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(memory),        cmocka_unit_test(streams),  cmocka_unit_test(graphs),
	                                   cmocka_unit_test(pages),         cmocka_unit_test(training), cmocka_unit_test(optimizers),
	                                   cmocka_unit_test(shared_memory), cmocka_unit_test(lost),     CLUSTER_TESTS};

	return cmocka_run_group_tests(tests, make_shards_dir, remove_shards_dir);
}
