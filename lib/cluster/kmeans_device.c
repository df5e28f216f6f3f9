/* Runs passes of k-means over points on a device, with the operations NEAREST and SEGMENT_SUM, chunk by chunk. */
#include <string.h>

#include "core/mem.h"
#include "cluster/kmeansimpl.h"

enum { CHUNK_BYTES = 1 << 28, MOST_CHUNK = 1 << 20, COPY_BYTES = 1 << 22, PIECES = POINTS_SCAN / NEAREST_PIECE };
enum { SLACK = 1 << 26 /* bytes of device memory left free */ };

struct device_points {
	struct device *device;
	struct pool *pool;
	const float *x; /* (n, d), host, borrowed */
	int64_t n, d, chunk, chunks;
	int most, ready, resident;
	int64_t loaded; /* if resident: number of chunks already in device memory */

	/* Device memory. */
	float *there;     /* resident: (n, d); else two chunks, used in turn */
	float *near;      /* [n] */
	int32_t *cluster; /* [n] */
	double *piece;    /* [pieces] sums of near */
	float *centre;    /* (most, d) */
	float *offset;    /* [most] */
	double *sum;      /* (most, d) */
	int32_t *size;    /* [most] */
	void *scratch;

	/* Host memory. stage: two pinned buffers from which chunks are sent in turn. Event sent[i]: the copy from stage[i] has finished, so stage[i]
	 * may be overwritten and the chunk may be used. Event used[i]: the device has finished computing with that chunk, so its device memory may be
	 * overwritten. sums, sizes and pieces are copies of the device's results. */
	float *stage[2];
	void *sent[2], *used[2];
	double *sums, *pieces;
	int32_t *sizes;
};

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t round_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static int64_t pieces_of(int64_t n)
{
	return (n + NEAREST_PIECE - 1) / NEAREST_PIECE;
}

struct device_points *device_points_new(const struct points_place *place, const float *x, int64_t n, int64_t d, struct pool *pool)
{
	struct device_points *p = mem_zalloc(1, sizeof *p);
	int64_t chunk = place->chunk ? place->chunk : CHUNK_BYTES / (d * (int64_t)sizeof *x);

	*p = (struct device_points){.device = place->device, .pool = pool, .x = x, .n = n, .d = d, .most = place->most};
	p->chunk = smaller(round_up(smaller(chunk > 0 ? chunk : 1, MOST_CHUNK), NEAREST_PIECE), round_up(n, NEAREST_PIECE));
	p->chunks = n ? (n + p->chunk - 1) / p->chunk : 0;
	return p;
}

void device_points_free(struct device_points *p)
{
	struct device *d = p ? p->device : NULL;
	void *memory[] = {p ? p->there : NULL,  p ? p->near : NULL, p ? p->cluster : NULL, p ? p->piece : NULL,  p ? p->centre : NULL,
	                  p ? p->offset : NULL, p ? p->sum : NULL,  p ? p->size : NULL,    p ? p->scratch : NULL};

	if (!p)
		return;
	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
		d->release(d, memory[i]);
	for (int i = 0; i < 2; i++) {
		d->release_host(d, p->stage[i]);
		d->event_free(d, p->sent[i]);
		d->event_free(d, p->used[i]);
	}
	mem_free(p->sums);
	mem_free(p->sizes);
	mem_free(p->pieces);
	mem_free(p);
}

static int64_t rows_of(const struct device_points *p, int64_t chunk)
{
	return smaller(p->chunk, p->n - chunk * p->chunk);
}

static struct array matrix(enum dtype t, void *data, int64_t rows, int64_t cols)
{
	return (struct array){.rank = 2, .dtype = t, .data = data, .shape = {rows, cols}, .stride = {cols, 1}};
}

static float *chunk_at(const struct device_points *p, int64_t chunk)
{
	return p->there + (p->resident ? chunk : chunk % 2) * p->chunk * p->d;
}

static struct op_call nearest_call(const struct device_points *p, enum device_pass pass, int offset, int k, int64_t chunk)
{
	int64_t at = chunk * p->chunk, n = rows_of(p, chunk);
	struct op_call c = {.nin = 3, .nout = 3, .attr.nearest = {pass == PASS_LOWER}};

	c.in[0] = matrix(DT_F32, chunk_at(p, chunk), n, p->d);
	c.in[1] = matrix(DT_F32, p->centre, k, p->d);
	if (offset)
		c.in[2] = array_vector(DT_F32, p->offset, k);
	if (pass >= PASS_FIND)
		c.out[0] = array_vector(DT_I32, p->cluster + at, n);
	c.out[1] = array_vector(DT_F32, p->near + at, n);
	c.out[2] = array_vector(DT_F64, p->piece + at / NEAREST_PIECE, pieces_of(n));
	return c;
}

static struct op_call sum_call(const struct device_points *p, int k, int64_t chunk)
{
	int64_t n = rows_of(p, chunk);
	struct op_call c = {.nin = 2, .nout = 2, .attr.segment_sum = {chunk == 0}};

	c.in[0] = matrix(DT_F32, chunk_at(p, chunk), n, p->d);
	c.in[1] = array_vector(DT_I32, p->cluster + chunk * p->chunk, n);
	c.out[0] = matrix(DT_F64, p->sum, k, p->d);
	c.out[1] = array_vector(DT_I32, p->size, k);
	return c;
}

/* The scratch of the largest chunk with the most centres, which suffices for all others. */
static size_t scratch_bytes(const struct device_points *p)
{
	struct op_call a = nearest_call(p, PASS_FIND, 1, p->most, 0), b = sum_call(p, p->most, 0);
	size_t x = device_scratch(p->device, OP_NEAREST, &a), y = device_scratch(p->device, OP_SEGMENT_SUM, &b);

	return x > y ? x : y;
}

static void *take(struct device_points *p, int64_t bytes, const char *what, struct err *e)
{
	return e->code ? NULL : p->device->alloc(p->device, (size_t)bytes, what, e);
}

static int fits(const struct device_points *p)
{
	struct device_memory m;

	p->device->memory(p->device, &m);
	return !m.total || (uint64_t)(p->n * p->d) * sizeof *p->x + SLACK <= m.free;
}

static int make_ready(struct device_points *p, struct err *e)
{
	struct device *d = p->device;
	int64_t k = p->most, word = sizeof(float);

	if (p->ready)
		return 0;
	p->near = take(p, p->n * word, "k-means distances", e);
	p->cluster = take(p, p->n * word, "k-means assignment", e);
	p->piece = take(p, pieces_of(p->n) * 8, "k-means sums", e);
	p->centre = take(p, k * p->d * word, "k-means centres", e);
	p->offset = take(p, k * word, "k-means offsets", e);
	p->sum = take(p, k * p->d * 8, "k-means sums", e);
	p->size = take(p, k * word, "k-means sizes", e);
	p->scratch = take(p, (int64_t)scratch_bytes(p), "k-means scratch", e);
	if (e->code)
		return -1;
	p->resident = fits(p);
	p->there = take(p, (p->resident ? p->n : 2 * p->chunk) * p->d * word, "points", e);
	p->sums = e->code ? NULL : mem_try((size_t)(k * p->d), sizeof *p->sums, "k-means sums", e);
	p->sizes = mem_zalloc((size_t)k, sizeof *p->sizes);
	p->pieces = mem_zalloc((size_t)pieces_of(p->n), sizeof *p->pieces);
	for (int i = 0; i < 2 && !e->code; i++) {
		p->stage[i] = d->alloc_host(d, (size_t)(p->chunk * p->d) * sizeof *p->x, "points", e);
		p->sent[i] = d->event_new(d);
		p->used[i] = d->event_new(d);
		if (!e->code)
			d->event_record(d, p->used[i], 0); /* memory is cleared on stream 0 */
	}
	p->ready = !e->code;
	return e->code ? -1 : 0;
}

struct copy_job {
	char *to;
	const char *from;
	size_t bytes;
};

static void copy_task(void *arg, int64_t task, int worker)
{
	const struct copy_job *j = arg;
	size_t at = (size_t)task * COPY_BYTES;

	(void)worker;
	memcpy(j->to + at, j->from + at, j->bytes - at < COPY_BYTES ? j->bytes - at : COPY_BYTES);
}

/* Copy a chunk to the device unless it is there already, on a second stream if there is one. */
static void load(struct device_points *p, int64_t chunk)
{
	struct device *d = p->device;
	int i = (int)(chunk % 2), stream = d->streams > 1;
	size_t bytes = (size_t)(rows_of(p, chunk) * p->d) * sizeof *p->x;
	struct copy_job job = {(char *)p->stage[i], (const char *)(p->x + chunk * p->chunk * p->d), bytes};

	if (chunk < p->loaded)
		return;
	d->event_passed(d, p->sent[i], 1);
	pool_run(p->pool, (int64_t)((bytes + COPY_BYTES - 1) / COPY_BYTES), copy_task, &job);
	d->event_follow(d, p->used[i], stream);
	d->send(d, stream, chunk_at(p, chunk), p->stage[i], bytes);
	d->event_record(d, p->sent[i], stream);
	if (p->resident)
		p->loaded = chunk + 1;
}

/* Compute with one chunk: NEAREST unless `centres` is 0, then SEGMENT_SUM for PASS_ADD. */
static void compute(struct device_points *p, enum device_pass pass, int centres, int offset, int k, int64_t chunk)
{
	struct device *d = p->device;
	struct op_call c;

	d->event_follow(d, p->sent[chunk % 2], 0);
	if (centres) {
		c = nearest_call(p, pass, offset, k, chunk);
		device_run(d, OP_NEAREST, &c, p->scratch);
	}
	if (pass == PASS_ADD) {
		c = sum_call(p, k, chunk);
		device_run(d, OP_SEGMENT_SUM, &c, p->scratch);
	}
	d->event_record(d, p->used[chunk % 2], 0);
}

static int run(struct device_points *p, enum device_pass pass, int centres, int offset, int k, struct err *e)
{
	struct device *d = p->device;

	for (int64_t i = 0; i < p->chunks; i++) {
		if (!i)
			load(p, 0);
		compute(p, pass, centres, offset, k, i);
		if (i + 1 < p->chunks)
			load(p, i + 1);
	}
	if (pass == PASS_ADD) {
		device_get(d, p->sums, p->sum, (size_t)(k * p->d) * sizeof *p->sums);
		device_get(d, p->sizes, p->size, (size_t)k * sizeof *p->sizes);
	}
	return d->error(d, e);
}

int device_points_pass(struct device_points *p, enum device_pass pass, const float *centre, const float *offset, int k, double *sum, struct err *e)
{
	if (make_ready(p, e))
		return -1;
	device_put(p->device, p->centre, centre, (size_t)(k * p->d) * sizeof *centre);
	if (offset)
		device_put(p->device, p->offset, offset, (size_t)k * sizeof *offset);
	if (run(p, pass, 1, offset != NULL, k, e))
		return -1;
	device_get(p->device, p->pieces, p->piece, (size_t)pieces_of(p->n) * sizeof *p->pieces);
	for (int64_t i = 0; i < pieces_of(p->n) && sum; i++)
		sum[i / PIECES] = p->pieces[i] + (i % PIECES ? sum[i / PIECES] : 0);
	return p->device->error(p->device, e);
}

int device_points_add(struct device_points *p, const int32_t *cluster, int k, struct err *e)
{
	device_put(p->device, p->cluster, cluster, (size_t)p->n * sizeof *cluster);
	return run(p, PASS_ADD, 0, 0, k, e);
}

const double *device_points_sums(const struct device_points *p)
{
	return p->sums;
}

const int32_t *device_points_sizes(const struct device_points *p)
{
	return p->sizes;
}

int device_points_get(struct device_points *p, float *near, int32_t *cluster, int64_t from, int64_t to, struct err *e)
{
	device_get(p->device, near + from, p->near + from, (size_t)(to - from) * sizeof *near);
	device_get(p->device, cluster + from, p->cluster + from, (size_t)(to - from) * sizeof *cluster);
	return p->device->error(p->device, e);
}
