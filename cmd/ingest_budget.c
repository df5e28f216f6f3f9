/* Divides --max-memory among the pictures that threads decode and the decoder processes. The memory for a picture is estimated from its header. A
 * decoder process gets a share, which the kernel enforces. */
#include <pthread.h>
#include <string.h>

#include "cmd/ingest.h"
#include "file/yuv.h"

/* The smallest share of a decoder, of which two thirds are for the process. FFmpeg's libraries have 31 MB of private data before they decode
 * anything, and a 1280x720 video in H.264 adds 11 MB (VmData with libavcodec 59). */
#define SHARE_MIN ((uint64_t)96 << 20)

void budget_init(struct budget *b, uint64_t memory, int threads)
{
	*b = (struct budget){.total = memory / 4 * 3, .files = memory / 4};
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->freed, NULL);
	b->share = b->total / (uint64_t)(threads > 0 ? threads : 1);
	if (b->share < SHARE_MIN)
		b->share = b->total < SHARE_MIN ? b->total : SHARE_MIN;
}

uint64_t budget_process(uint64_t granted)
{
	return granted / 3 * 2;
}

uint64_t budget_frame(uint64_t granted)
{
	return granted / 3;
}

int budget_wait(struct budget *b, uint64_t bytes)
{
	int rc = 0;

	pthread_mutex_lock(&b->lock);
	if (b->total && b->waiting + bytes > b->files)
		rc = -1;
	else
		b->waiting += bytes;
	pthread_mutex_unlock(&b->lock);
	return rc;
}

void budget_written(struct budget *b)
{
	b->waiting = 0;
}

void budget_release(struct budget *b)
{
	pthread_cond_destroy(&b->freed);
	pthread_mutex_destroy(&b->lock);
}

/* Callers never ask for more than the total, so a waiting thread proceeds at the latest when the others have returned theirs. */
void budget_take(struct budget *b, uint64_t bytes)
{
	if (!b->total)
		return;
	pthread_mutex_lock(&b->lock);
	while (b->used && b->used + bytes > b->total)
		pthread_cond_wait(&b->freed, &b->lock);
	b->used += bytes;
	pthread_mutex_unlock(&b->lock);
}

void budget_give(struct budget *b, uint64_t bytes)
{
	if (!b->total)
		return;
	pthread_mutex_lock(&b->lock);
	b->used -= bytes;
	pthread_cond_broadcast(&b->freed);
	pthread_mutex_unlock(&b->lock);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t fitted_pixels(const struct work_options *o)
{
	struct bucket most = bucket_largest(&o->buckets);

	return o->size ? (uint64_t)o->size * (uint64_t)o->size : (uint64_t)most.width * (uint64_t)most.height;
}

int64_t fitted_side(const struct work_options *o)
{
	int64_t most = o->size;

	for (int i = 0; i < o->buckets.n; i++) {
		const struct bucket *b = &o->buckets.v[i];

		most = b->width > most ? b->width : most;
		most = b->height > most ? b->height : most;
	}
	return most;
}

/* Memory for resizing, without the picture itself: a band of the new width, a band of sums, and the result twice. */
static uint64_t fit_bytes(uint64_t w, uint64_t h, int64_t size)
{
	uint64_t side = (uint64_t)size;

	return 3 * side * (w < h ? w : h) + 16 * larger(side, w) * 3 + 4 * 3 * side * side;
}

/* Peak memory of decoding, conversion from grey to RGB, rotation and resizing to side `size` (0: not resized). */
static uint64_t still_bytes(const struct still_facts *f, int64_t size)
{
	uint64_t w = (uint64_t)f->width, h = (uint64_t)f->height, pixels = w * h, rgb = 3 * pixels;
	int grey = !strncmp(f->mode, "grey", 4), alpha = !strcmp(f->mode, "grey alpha") || !strcmp(f->mode, "rgba");
	uint64_t channels = (grey || !strcmp(f->mode, "palette") ? 1 : 3) + (uint64_t)alpha, out = grey ? pixels : rgb, peak;

	if (f->kind == STILL_PNG) {
		/* libpng holds two rows, and this program one row, or the whole picture if it is interlaced. */
		uint64_t row = w * channels * (f->bits > 8 ? 2 : 1);

		peak = out + 2 * row + row * (f->gradual ? h : 1);
	} else if (f->kind == STILL_JPEG) {
		/* Progressive: the coefficients of all scans, 16 bits each. Baseline: some rows of blocks. */
		peak = out + (f->gradual ? 2 * 4 * pixels : 64 * 4 * w);
	} else {
		peak = rgb + pixels * (f->frames > 1 ? 12 : 8);
	}
	if (grey)
		peak = larger(peak, out + rgb);
	if (f->orientation > 1)
		peak = larger(peak, 2 * rgb);
	if (size)
		peak = larger(peak, rgb + fit_bytes(w, h, size));
	return peak;
}

uint64_t frame_bytes(uint64_t width, uint64_t height, int64_t size)
{
	return size ? 3 * width * height + fit_bytes(width, height, size) : 2 * 3 * width * height;
}

uint64_t frame_size(const struct frame_facts *f)
{
	return f->planes ? yuv_bytes((int)f->width, (int)f->height, (int)f->shift_x, (int)f->shift_y) : (uint64_t)f->width * f->height * 3;
}

int still_budget(struct budget *b, const void *data, size_t len, const char *name, const struct work_options *o, uint64_t *bytes, struct err *e)
{
	struct still_facts f;
	struct err why = {0};

	*bytes = 0;
	/* still_decode reports an unreadable header and too many pixels. */
	if (!b->total || still_probe(&f, data, len, name, &why) || (int64_t)f.width * f.height > o->max_pixels)
		return 0;
	*bytes = still_bytes(&f, fitted_side(o));
	if (*bytes > b->total)
		return err_set(e, ERR_DATA, "%s: %dx%d pixels take %llu MiB to decode, more than %llu MiB, three quarters of --max-memory", name,
		               f.width, f.height, (unsigned long long)(*bytes >> 20), (unsigned long long)(b->total >> 20));
	return 0;
}
