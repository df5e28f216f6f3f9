/* train/stepdetail: the gradient's norm by block, the loss by time, and steps that stand out, against values computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/op.h"
#include "train/stepdetail.h"

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/* Blocks are named by the number in a parameter's name; those of one block need not lie side by side, and frozen ones have no gradient. */
static void norms_by_block(void **state)
{
	static const struct {
		const char *name, *block;
		int64_t count;
		int flags;
	} param[] = {
	    {"x_embedder.proj.weight", "x_embedder", 40, 0},
	    {"blocks.0.attn.qkv.weight", "blocks.0", 64, 0},
	    {"blocks.0.mlp.bias", "blocks.0", 5, 0},
	    {"pos_embed", "pos_embed", 100, PARAM_FROZEN},
	    {"blocks.1.attn.qkv.weight", "blocks.1", 33, 0},
	    {"down_blocks.0.resnets.1.conv.weight", "down_blocks.0", 7, 0},
	    {"down_blocks.10.resnets.1.conv.weight", "down_blocks.10", 7, 0},
	    {"blocks.0.late", "blocks.0", 3, 0},
	    {"temperature", "temperature", 1, 0},
	    {"final_layer.mlp.1.bias", "final_layer", 2, 0},
	    {"final_layer.weight", "final_layer", 9, 0},
	};
	enum { PARAMS = sizeof param / sizeof *param };
	struct device *d = device_cpu(NULL, DT_F32);
	struct params p = {0};
	struct block_norms b;
	double want[PARAMS] = {0}, whole = 0, sum = 0;
	struct op_call whole_norm;
	float *grads;
	void *scratch;
	json_t *o;

	(void)state;
	for (int i = 0; i < PARAMS; i++)
		params_add(&p, param[i].name, 1, (const int64_t[]){param[i].count}, param[i].flags, (struct init){0});
	params_layout(&p);
	grads = mem_zalloc((size_t)p.trainable, sizeof *grads);
	whole_norm =
	    (struct op_call){.nin = 1, .nout = 1, .in = {array_vector(DT_F32, grads, p.trainable)}, .out = {array_vector(DT_F64, &whole, 1)}};
	scratch = mem_alloc(device_scratch(d, OP_SUMSQ, &whole_norm) + 1);
	for (int i = 0; i < PARAMS; i++) {
		const struct param *q = &p.v[params_find(&p, param[i].name)];
		int first = 0;

		while (strcmp(param[first].block, param[i].block) != 0)
			first++;
		for (int64_t k = 0; k < q->count && !(param[i].flags & PARAM_FROZEN); k++) {
			grads[q->offset + k] = (float)(i + 1) * (k % 2 ? -.5f : .25f);
			want[first] += (double)grads[q->offset + k] * (double)grads[q->offset + k];
		}
	}
	assert_int_equal(block_norms_init(&b, d, &p, NULL), 0);
	assert_null(block_norms_json(&b, 6));
	block_norms_submit(&b, d, grads, scratch, 6);
	assert_null(block_norms_json(&b, 2));
	assert_null(block_norms_json(&b, 7));
	o = block_norms_json(&b, 6);
	assert_non_null(o);
	assert_int_equal(json_object_size(o), 7);
	for (int i = 0; i < PARAMS; i++) {
		if (want[i] == 0)
			continue;
		assert_float_equal(number(o, param[i].block), sqrt(want[i]), 1e-12);
		sum += want[i];
	}
	device_run(d, OP_SUMSQ, &whole_norm, scratch);
	assert_float_equal(whole, sum, 1e-9);
	json_decref(o);
	block_norms_release(&b, d);
	params_release(&p);
	mem_free(grads);
	mem_free(scratch);
	device_free(d);
}

/* Step `at` with two samples of these losses, at times .05 and .95. */
static json_t *take(struct step_detail *s, struct device *d, int64_t at, float first, float second, double norm)
{
	const float t[] = {.05f, .95f};
	const int64_t index[] = {10 * at, 10 * at + 1};

	step_detail_put(s, d, at, 0, 1, t, index, &first);
	step_detail_put(s, d, at, 1, 1, t + 1, index + 1, &second);
	return step_detail_take(s, at, isfinite(first + second), ((double)first + (double)second) / 2, norm);
}

static void losses_by_time(void **state)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct step_detail s;
	json_t *a;

	(void)state;
	assert_int_equal(step_detail_init(&s, d, 2, NULL), 0);
	assert_null(step_detail_by_time(&s));
	for (int64_t i = 0; i < 6; i++)
		assert_null(take(&s, d, i, (float)i, 10, 1));
	json_decref(take(&s, d, 6, NAN, 10, 1)); /* such a step counts nowhere */
	a = step_detail_by_time(&s);
	assert_int_equal(json_array_size(a), 2);
	assert_float_equal(number(json_array_get(a, 0), "t"), .05, 1e-12);
	assert_float_equal(number(json_array_get(a, 0), "loss"), 2.5, 1e-12);
	assert_float_equal(number(json_array_get(a, 1), "t"), .95, 1e-12);
	assert_float_equal(number(json_array_get(a, 1), "loss"), 10, 1e-12);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(a, 1), "n")), 6);
	json_decref(a);
	assert_null(step_detail_by_time(&s));
	step_detail_release(&s, d);
	device_free(d);
}

/* Before the window is full no norm stands out. Then 4.9 times the median does not, and 5.1 times does, once until the next line. */
static void spikes(void **state)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct step_detail s;
	int64_t worst[SPIKE_SAMPLES], at = 0;
	json_t *o;

	(void)state;
	assert_int_equal(step_detail_init(&s, d, 2, NULL), 0);
	assert_null(take(&s, d, at++, 1, 1, 2));
	assert_null(take(&s, d, at++, 1, 1, 1000));
	while (at < SPIKE_WINDOW)
		assert_null(take(&s, d, at++, 1, 1, 2));
	assert_null(take(&s, d, at++, 1, 1, 9.8));
	o = take(&s, d, at, 1, 3, 10.2);
	assert_non_null(o);
	assert_float_equal(number(o, "usual_norm"), 2, 0);
	assert_float_equal(number(o, "grad_norm"), 10.2, 0);
	assert_float_equal(number(o, "loss"), 2, 0);
	json_decref(o);
	assert_int_equal(step_detail_worst(&s, at, worst), 2);
	assert_int_equal(worst[0], 1);
	assert_int_equal(worst[1], 0);
	at++;
	assert_null(take(&s, d, at++, 1, 1, 50));
	json_decref(step_detail_by_time(&s));
	o = take(&s, d, at++, 1, 1, 50);
	assert_non_null(o);
	json_decref(o);
	step_detail_release(&s, d);
	device_free(d);
}

/* A loss that is not finite comes first; of equal ones the first. */
static void worst_samples(void **state)
{
	const float loss[] = {3, 9, NAN, 1, 9, 7, INFINITY, 8}, t[8] = {0};
	const int64_t index[8] = {0}, want[] = {2, 6, 1, 4};
	struct device *d = device_cpu(NULL, DT_F32);
	struct step_detail s;
	int64_t worst[SPIKE_SAMPLES];

	(void)state;
	assert_int_equal(step_detail_init(&s, d, 8, NULL), 0);
	step_detail_put(&s, d, 5, 0, 8, t, index, loss);
	assert_int_equal(step_detail_worst(&s, 5, worst), SPIKE_SAMPLES);
	assert_memory_equal(worst, want, sizeof want);
	step_detail_release(&s, d);
	device_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(norms_by_block),
	    cmocka_unit_test(losses_by_time),
	    cmocka_unit_test(spikes),
	    cmocka_unit_test(worst_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
