/* Checkpoints written in the background hold the state as it was when they were started, whatever happens to its arenas meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "net/netdef.h"
#include "tests/unit/scratch.h"
#include "train/checkpointwriter.h"

struct world {
	struct pool *pool; /* of three threads; so the background writes with three too */
	struct device *device;
	struct params params;
	struct train_state state;
};

/* Fill the arenas with numbers that depend on `seed` and on the arena. */
static void fill(struct train_state *s, float seed)
{
	float *const arena[] = {s->values, s->ema, s->m, s->v, s->best};

	for (int a = 0; a < CHECKPOINT_ARENAS; a++)
		for (int64_t i = 0; i < (a == 2 || a == 3 ? s->params->trainable : s->params->total); i++)
			arena[a][i] = seed + (float)a + (float)(i % 1000) / 1024;
}

static void begin(struct world *w)
{
	struct net_config c = {.def = &net_dit, .channels = 3, .out_channels = 3, .size = 16, .time_scale = 1000};
	struct err e = {0};

	*w = (struct world){.pool = pool_new(3, NULL)};
	assert_non_null(w->pool);
	w->device = device_cpu(w->pool, DT_F32);
	assert_int_equal(net_preset("dit-nano/4", &c, &e), 0);
	net_params(&c, &w->params);
	assert_int_equal(state_init(&w->state, w->device, &w->params, 1, 0, 0, NULL, &e), 0);
	w->state.best_loss = .25;
	fill(&w->state, 1);
}

static void end(struct world *w)
{
	w->device->host = 1;
	state_release(&w->state);
	params_release(&w->params);
	device_free(w->device);
	pool_free(w->pool);
}

/* The newest checkpoint in `in` is of this step, and its arenas are those of fill(seed). */
static void check_saved(struct world *w, const char *in, int64_t step, float seed)
{
	struct train_state got, want;
	struct err e = {0};
	size_t total = (size_t)w->params.total * sizeof(float), trainable = (size_t)w->params.trainable * sizeof(float);

	assert_int_equal(state_init(&got, w->device, &w->params, 1, 0, 0, NULL, &e), 0);
	assert_int_equal(state_init(&want, w->device, &w->params, 1, 0, 0, NULL, &e), 0);
	fill(&want, seed);
	assert_int_equal(checkpoint_load(in, &got, "{}", -1, NULL, NULL, &e), 1);
	assert_int_equal(got.step, step);
	assert_memory_equal(got.values, want.values, total);
	assert_memory_equal(got.ema, want.ema, total);
	assert_memory_equal(got.m, want.m, trainable);
	assert_memory_equal(got.v, want.v, trainable);
	assert_memory_equal(got.best, want.best, total);
	state_release(&got);
	state_release(&want);
}

/* host: the device's memory is host memory. room: for a copy. prepared: for a copy that stays. The arenas are changed as soon as that is allowed:
 * with a device's own memory, at once. */
static void case_of(const char *name, int host, uint64_t room, uint64_t prepared)
{
	struct world w;
	struct checkpoint_writer writer = {0};
	struct err e = {0};
	char *in = path_join(dir, name);
	double seconds;
	int64_t step = -1;

	begin(&w);
	w.device->host = host;
	checkpoint_writer_prepare(&writer, &w.state, prepared);
	assert_int_equal(!host && prepared, writer.owner != NULL);
	assert_int_equal(checkpoint_writer_end(&writer, &step, &seconds, &e), 1);
	assert_int_equal(step, -1);
	for (int i = 0; i < 3; i++) {
		fill(&w.state, (float)i);
		w.state.step = 10 + i;
		checkpoint_writer_start(&writer, in, &w.state, "{}", room);
		w.state.step = 99;
		if (host)
			checkpoint_writer_wait_arenas(&writer);
		fill(&w.state, -7);
		assert_int_equal(checkpoint_writer_end(&writer, &step, &seconds, &e), 0);
		assert_int_equal(step, 10 + i);
		assert_false(checkpoint_writer_has_finished(&writer));
		w.device->host = 1;
		check_saved(&w, in, 10 + i, (float)i);
		w.device->host = host;
	}
	assert_int_equal(!host && prepared, writer.owner != NULL);
	checkpoint_writer_release(&writer);
	mem_free(in);
	end(&w);
}

static void copied_in_the_background(void **state)
{
	(void)state;
	case_of("copied", 1, UINT64_MAX, UINT64_MAX);
}

static void no_room_for_a_copy(void **state)
{
	(void)state;
	case_of("lent", 1, 0, 0);
}

static void device_with_its_own_memory(void **state)
{
	(void)state;
	case_of("fetched", 0, UINT64_MAX, 0);
	case_of("waited", 0, 0, 0);
	case_of("prepared", 0, 0, UINT64_MAX);
}

/* A background checkpoint and one that the training waits for have the same bytes. */
static void same_files(void **state)
{
	struct world w;
	struct checkpoint_writer writer = {0};
	struct err e = {0};
	char *one = path_join(dir, "one"), *two = path_join(dir, "two"), **names = NULL, *from, *to;
	double seconds;
	int64_t step;
	size_t n;

	(void)state;
	begin(&w);
	w.state.step = 3;
	assert_int_equal(dir_make(one, &e) || dir_make(two, &e), 0);
	assert_int_equal(checkpoint_save(one, &w.state, "{}", NULL, NULL, &e), 0);
	checkpoint_writer_start(&writer, two, &w.state, "{}", UINT64_MAX);
	assert_int_equal(checkpoint_writer_end(&writer, &step, &seconds, &e), 0);
	from = checkpoint_path(one, 3);
	to = checkpoint_path(two, 3);
	assert_int_equal(dir_list(from, &names, &n, &e), 0);
	assert_int_equal(n, 6);
	for (size_t i = 0; i < n; i++) {
		char *a = path_join(from, names[i]), *b = path_join(to, names[i]), *x, *y;
		size_t nx, ny;

		assert_non_null(x = file_load(a, SIZE_MAX, &nx, &e));
		assert_non_null(y = file_load(b, SIZE_MAX, &ny, &e));
		assert_int_equal(nx, ny);
		assert_memory_equal(x, y, nx);
		mem_free(x);
		mem_free(y);
		mem_free(a);
		mem_free(b);
	}
	names_free(names, n);
	mem_free(from);
	mem_free(to);
	mem_free(one);
	mem_free(two);
	end(&w);
}

/* A folder that cannot be written: checkpoint_writer_end gives the reason, and the next checkpoint can be written. */
static void cannot_be_written(void **state)
{
	struct world w;
	struct checkpoint_writer writer = {0};
	struct err e = {0};
	char *file = path_join(dir, "file"), *in = path_join(dir, "after");
	double seconds;
	int64_t step = -1;

	(void)state;
	begin(&w);
	assert_int_equal(commit_bytes(file, "x", 1, &e), 0);
	w.state.step = 5;
	checkpoint_writer_start(&writer, file, &w.state, "{}", UINT64_MAX);
	checkpoint_writer_wait_arenas(&writer);
	assert_int_equal(checkpoint_writer_end(&writer, &step, &seconds, &e), -1);
	assert_int_equal(step, 5);
	assert_non_null(strstr(e.msg, "file"));
	e = (struct err){0};
	assert_int_equal(dir_make(in, &e), 0);
	checkpoint_writer_start(&writer, in, &w.state, "{}", 0);
	assert_int_equal(checkpoint_writer_end(&writer, &step, &seconds, &e), 0);
	check_saved(&w, in, 5, 1);
	mem_free(file);
	mem_free(in);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(copied_in_the_background),   cmocka_unit_test(no_room_for_a_copy),
	    cmocka_unit_test(device_with_its_own_memory), cmocka_unit_test(same_files),
	    cmocka_unit_test(cannot_be_written),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
