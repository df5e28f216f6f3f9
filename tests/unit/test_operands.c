/* On a CPU that multiplies bf16 numbers, the tape stores in bfloat16 what only products read. The loss and all gradients have the bits that they have
 * with everything in float, for several networks and ways to recompute, by the CPU's instructions and by emulation; and the arena is smaller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "kernels/compact.h"
#include "net/netdef.h"
#include "train/noised.h"

enum { BATCH = 6, SAMPLES = 5, CHANNELS = 4, SIDE = 16, FRAMES = 8 };

struct kind {
	const struct net_def *def;
	const char *preset;
	int frames;
	enum precision precision;
	enum recompute recompute;
};

struct outcome {
	int64_t arena, parameters;
	float loss[SAMPLES], *grads;
};

static struct outcome gradients(const struct kind *kind, int float_operands)
{
	struct net_config c = {
	    .def = kind->def, .channels = CHANNELS, .out_channels = CHANNELS, .size = SIDE, .frames = kind->frames ? FRAMES : 0, .time_scale = 1000};
	struct pool *pool = pool_new(2, NULL);
	struct device *d = device_cpu(pool, DT_F32);
	struct objective o = {.path = &path_linear};
	struct params p = {0};
	struct loss_tape l;
	struct noised z;
	struct outcome r = {0};
	struct err e = {0};
	float dloss[BATCH], *x0, *values;
	int32_t label[BATCH] = {0};
	size_t n;

	if (net_preset(kind->preset, &c, &e) || device_set_precision(d, kind->precision, &e))
		fail_msg("%s", e.msg);
	o.d = net_sample_elements(&c);
	n = (size_t)(BATCH * o.d);
	loss_record(&l, &c, LOSS_SQUARED, &p, DT_F32, BATCH, 1, kind->recompute);
	tape_layout(l.tape, d, &(struct plan_options){.poison = 1, .float_operands = float_operands});
	if (tape_allocate(l.tape, &e) || noised_init(&z, d, BATCH, &c, LOSS_SQUARED, &e))
		fail_msg("%s", e.msg);
	r.arena = tape_arena_bytes(l.tape);
	r.parameters = p.trainable;
	r.grads = mem_zalloc((size_t)p.trainable, sizeof *r.grads);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	x0 = mem_zalloc(n, sizeof *x0);
	rng_normal(values, (size_t)p.total, 1, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < p.total; i++)
		values[i] *= .05f;
	rng_normal(x0, n, 2, RNG_TEST, 0, 0);
	for (int i = 0; i < BATCH; i++)
		dloss[i] = 1.f / SAMPLES;
	tape_bind_params(l.tape, values, r.grads);
	tape_bind(l.tape, l.dloss, dloss);
	loss_bind(&l, &z);
	objective_noise(&o, &z, &l, SAMPLES, &(struct clean){.x0 = x0, .label = label, .cluster = label}, 7, 3, 0);
	tape_run(l.tape, SAMPLES, 0, l.end);
	memcpy(r.loss, tape_data(l.tape, l.loss), sizeof r.loss);
	tape_free(l.tape);
	noised_release(&z);
	params_release(&p);
	device_free(d);
	pool_free(pool);
	mem_free(values);
	mem_free(x0);
	return r;
}

static void same_bits(const struct kind *kind, int64_t saved_percent)
{
	struct outcome plain = gradients(kind, 1), stored = gradients(kind, 0);
	double size = 0;

	assert_int_equal(plain.parameters, stored.parameters);
	assert_memory_equal(plain.loss, stored.loss, sizeof plain.loss);
	assert_memory_equal(plain.grads, stored.grads, (size_t)plain.parameters * sizeof *plain.grads);
	for (int64_t i = 0; i < plain.parameters; i++)
		size += fabs(plain.grads[i]);
	assert_true(isfinite(size) && size > 0);
	if (stored.arena * 100 > plain.arena * (100 - saved_percent))
		fail_msg("%s: arena %lld of %lld bytes", kind->preset, (long long)stored.arena, (long long)plain.arena);
	mem_free(plain.grads);
	mem_free(stored.grads);
}

static void operands_in_bf16_change_no_bits(void **state)
{
	static const struct kind kinds[] = {
	    {&net_dit, "dit-nano/2", 0, PRECISION_BF16_EMULATED, RECOMPUTE_NONE},
	    {&net_dit, "dit-nano/2", 0, PRECISION_BF16, RECOMPUTE_NONE},
	    {&net_dit, "dit-nano/2", 0, PRECISION_BF16, RECOMPUTE_BLOCKS},
	    {&net_dit, "dit-nano/2", 0, PRECISION_BF16, RECOMPUTE_NORMS},
	    {&net_dit, "dit-nano/2", 0, PRECISION_BF16, RECOMPUTE_ACTS},
	    {&net_video_dit, "vdit-nano/1x2", 1, PRECISION_BF16, RECOMPUTE_NONE},
	    {&net_unet, "unet-nano", 0, PRECISION_BF16, RECOMPUTE_NONE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct kind k = kinds[i];

		k.precision = compact_isa() == COMPACT_PORTABLE ? PRECISION_BF16_EMULATED : k.precision;
		same_bits(&k, k.def == &net_dit && k.recompute == RECOMPUTE_NONE ? 25 : 0);
	}
}

/* Float products store everything in float. */
static void float_products_keep_floats(void **state)
{
	const struct kind k = {&net_dit, "dit-nano/2", 0, PRECISION_F32, RECOMPUTE_NONE};
	struct outcome plain = gradients(&k, 1), other = gradients(&k, 0);

	(void)state;
	assert_int_equal(plain.arena, other.arena);
	assert_memory_equal(plain.grads, other.grads, (size_t)plain.parameters * sizeof *plain.grads);
	mem_free(plain.grads);
	mem_free(other.grads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(operands_in_bf16_change_no_bits), cmocka_unit_test(float_products_keep_floats)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
