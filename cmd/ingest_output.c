/* Converts frames to RGB, turns them, and decides which frames are sent for clips. Runs in the decoder process only. */
#include <string.h>

#include <libavutil/mathematics.h>
#include <libavutil/pixdesc.h>
#include <libavutil/version.h>

#include "cmd/ingest_output.h"
#include "core/mem.h"
#include "data/scenes.h"
#include "file/yuv.h"

#define SWS_FLAGS (SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_BITEXACT)
/* For the detector of scenes every pixel is the nearest of the frame. PySceneDetect takes the 2 x 2 nearest; means over more pixels, which would
 * cost a quarter of the decoding, make the scores of noisy videos smaller than its thresholds are meant for. */
#define SMALL_FLAGS (SWS_POINT | SWS_ACCURATE_RND | SWS_BITEXACT)

/* The PyTorch version of TransNet V2 has the program ffmpeg scale frames, whose default this is. */
#define TRANSNET_FLAGS (SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT)

#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
#define FRAME_DURATION(f) ((f)->duration)
#else
#define FRAME_DURATION(f) ((f)->pkt_duration)
#endif

static const AVRational nanosecond = {1, 1000000000};

void output_release(struct output *o)
{
	sws_freeContext(o->sws);
	sws_freeContext(o->down);
	mem_free(o->rgb);
	mem_free(o->rotated);
	mem_free(o->small);
	mem_free(o->planes);
	av_frame_free(&o->held);
}

void output_rate(struct output *o, AVRational unit, AVRational rate)
{
	int64_t slack = unit.num > 0 && unit.den > 0 ? av_rescale_q(1, unit, nanosecond) : 0;

	o->grid.rate = o->limits->fps;
	o->grid.slack = clipgrid_slack(slack);
	if (rate.num > 0 && rate.den > 0)
		o->grid.length = av_rescale_q(1, av_inv_q(rate), nanosecond);
}

static int is_full_range(const AVFrame *f)
{
	return f->color_range == AVCOL_RANGE_JPEG || f->format == AV_PIX_FMT_YUVJ420P || f->format == AV_PIX_FMT_YUVJ422P ||
	       f->format == AV_PIX_FMT_YUVJ444P;
}

static const int *matrix_of(const AVFrame *f)
{
	return sws_getCoefficients(f->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : f->colorspace);
}

/* A context that converts frames to RGB of width x height with their own colour matrix and range. */
static struct SwsContext *scaler(struct SwsContext *old, const AVFrame *f, int width, int height, int flags, struct err *e)
{
	int full = is_full_range(f);
	const int *matrix = matrix_of(f);
	struct SwsContext *s = sws_getCachedContext(old, f->width, f->height, f->format, width, height, AV_PIX_FMT_RGB24, flags, NULL, NULL, NULL);

	if (!s)
		err_set(e, ERR_DATA, "no conversion from %s to RGB", av_get_pix_fmt_name(f->format));
	else
		sws_setColorspaceDetails(s, matrix, full, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
	return s;
}

/* The scaler may write past the end of a row by a vector. */
static uint8_t *rgb_alloc(int width, int height, struct err *e)
{
	return mem_try((size_t)width * height + 64, 3, "a frame", e);
}

/* Prepare the conversion to RGB, and the buffers for its size. */
static int scaler_setup(struct output *o, const AVFrame *f, struct err *e)
{
	o->sws = scaler(o->sws, f, f->width, f->height, SWS_FLAGS, e);
	if (!o->sws)
		return -1;
	if (f->width != o->width || f->height != o->height) {
		mem_free(o->rgb);
		mem_free(o->rotated);
		o->rotated = NULL;
		o->width = f->width;
		o->height = f->height;
		o->rgb = rgb_alloc(f->width, f->height, e);
		if (o->rgb && o->quarter_turns)
			o->rotated = mem_try((size_t)f->width * f->height, 3, "a frame", e);
		if (!o->rgb || (o->quarter_turns && !o->rotated))
			return -1;
	}
	return 0;
}

static int convert(struct SwsContext *s, uint8_t *rgb, int width, int height, const AVFrame *f, struct err *e)
{
	uint8_t *to[4] = {rgb};
	int stride[4] = {width * 3};

	if (sws_scale(s, (const uint8_t *const *)f->data, f->linesize, 0, f->height, to, stride) != height)
		return err_set(e, ERR_DATA, "a frame cannot be converted to RGB");
	return 0;
}

/* to = from (h, w) turned by quarter_turns. */
static void turn(const struct output *o, uint8_t *to, const uint8_t *from, int w, int h)
{
	int q = o->quarter_turns, tw = q & 1 ? h : w, th = q & 1 ? w : h;

	for (int y = 0; y < th; y++)
		for (int x = 0; x < tw; x++) {
			int sx = q == 1 ? y : q == 2 ? w - 1 - x : w - 1 - y, sy = q == 1 ? h - 1 - x : q == 2 ? h - 1 - y : x;

			memcpy(to + ((size_t)y * tw + x) * 3, from + ((size_t)sy * w + sx) * 3, 3);
		}
}

/* Whether a frame is three planes of bytes. */
static int is_planar(const AVFrame *f)
{
	static const int formats[] = {AV_PIX_FMT_YUV420P,  AV_PIX_FMT_YUV422P,  AV_PIX_FMT_YUV444P,
	                              AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUVJ444P};

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (f->format == formats[i])
			return 1;
	return 0;
}

/* Whether the planes of a frame are sent. Turned frames, those that are not made much smaller, and deep colours are converted here. */
static int planes_wanted(const struct output *o, const AVFrame *f)
{
	int shorter = f->width < f->height ? f->width : f->height;

	return o->limits->planes && !o->quarter_turns && shorter / 2 >= o->limits->size && is_planar(f);
}

/* Pass the planes of a frame to put, without the padding of their rows. */
static int planes_out(struct output *o, const AVFrame *f, struct frame_facts *facts, struct err *e)
{
	const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
	const int *matrix = matrix_of(f);
	uint8_t *to;

	*facts = (struct frame_facts){facts->kind,
	                              facts->item,
	                              facts->index,
	                              facts->start,
	                              facts->time,
	                              facts->length,
	                              facts->first,
	                              facts->targets,
	                              facts->segment,
	                              1,
	                              d->log2_chroma_w,
	                              d->log2_chroma_h,
	                              (uint32_t)is_full_range(f),
	                              {matrix[0], matrix[1], matrix[2], matrix[3]},
	                              (uint32_t)f->width,
	                              (uint32_t)f->height};
	if (f->width != o->planes_of[0] || f->height != o->planes_of[1] || f->format != o->planes_of[2]) {
		mem_free(o->planes);
		o->planes = mem_try(frame_size(facts), 1, "a frame", e);
		if (!o->planes)
			return -1;
		o->planes_of[0] = f->width;
		o->planes_of[1] = f->height;
		o->planes_of[2] = f->format;
	}
	to = o->planes;
	for (int i = 0; i < 3; i++) {
		int w = i ? AV_CEIL_RSHIFT(f->width, d->log2_chroma_w) : f->width, h = i ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height;

		for (int y = 0; y < h; y++, to += w)
			memcpy(to, f->data[i] + (ptrdiff_t)y * f->linesize[i], (size_t)w);
	}
	return o->put(o->arg, facts, o->planes) ? 1 : 0;
}

/* Convert a frame and pass it to put: 0; 1 if no more frames are wanted; -1 on error. */
static int frame_out(struct output *o, const AVFrame *f, struct frame_facts *facts, struct err *e)
{
	int q = o->quarter_turns;

	if (planes_wanted(o, f))
		return planes_out(o, f, facts, e);
	if (scaler_setup(o, f, e) || convert(o->sws, o->rgb, o->width, o->height, f, e))
		return -1;
	if (q)
		turn(o, o->rotated, o->rgb, o->width, o->height);
	facts->width = (uint32_t)(q & 1 ? o->height : o->width);
	facts->height = (uint32_t)(q & 1 ? o->width : o->height);
	return o->put(o->arg, facts, q ? o->rotated : o->rgb) ? 1 : 0;
}

/* Choose the size of frames scaled down. For TransNet V2 every frame has one size, in which it is turned as the video is shown. */
static void glimpse_size(struct output *o, const AVFrame *f)
{
	int aside = o->quarter_turns & 1;

	if (o->limits->glimpses == GLIMPSES_TRANSNET) {
		o->small_width = aside ? TRANSNET_HEIGHT : TRANSNET_WIDTH;
		o->small_height = aside ? TRANSNET_WIDTH : TRANSNET_HEIGHT;
	} else {
		scene_size(f->width, f->height, &o->small_width, &o->small_height);
	}
}

/* Scale a frame down by leaving out pixels, several times as fast as libswscale does it. */
static void pick_pixels(struct output *o, const AVFrame *f)
{
	const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
	const int *m = matrix_of(f);
	const struct yuv yuv = {.width = f->width,
	                        .height = f->height,
	                        .shift_x = d->log2_chroma_w,
	                        .shift_y = d->log2_chroma_h,
	                        .full = is_full_range(f),
	                        .matrix = {m[0], m[1], m[2], m[3]}};

	yuv_pick(o->small, o->small_width, o->small_height, &yuv, (const uint8_t *const[]){f->data[0], f->data[1], f->data[2]}, f->linesize);
}

/* Scale a frame down and pass it to put. For the detectors of data/scenes.h it is not turned, which does not change their score. */
static int glimpse_out(struct output *o, const AVFrame *f, struct err *e)
{
	struct frame_facts facts = {.kind = FRAME_GLIMPSE, .index = o->decoded};
	int transnet = o->limits->glimpses == GLIMPSES_TRANSNET, turned = transnet && o->quarter_turns;
	uint8_t upright[TRANSNET_BYTES];

	if (f->width != o->small_of[0] || f->height != o->small_of[1]) {
		mem_free(o->small);
		o->small_of[0] = f->width;
		o->small_of[1] = f->height;
		glimpse_size(o, f);
		o->small = rgb_alloc(o->small_width, o->small_height, e);
		if (!o->small)
			return -1;
	}
	if (!transnet && is_planar(f)) {
		pick_pixels(o, f);
	} else {
		o->down = scaler(o->down, f, o->small_width, o->small_height, transnet ? TRANSNET_FLAGS : SMALL_FLAGS, e);
		if (!o->down || convert(o->down, o->small, o->small_width, o->small_height, f, e))
			return -1;
	}
	if (turned)
		turn(o, upright, o->small, o->small_width, o->small_height);
	facts.width = (uint32_t)(transnet ? TRANSNET_WIDTH : o->small_width);
	facts.height = (uint32_t)(transnet ? TRANSNET_HEIGHT : o->small_height);
	return o->put(o->arg, &facts, turned ? upright : o->small) ? 1 : 0;
}

static int is_full(const struct output *o, uint64_t n)
{
	return o->limits->frames && n >= (uint64_t)o->limits->frames;
}

/* Send the frame that waits if it is shown at a target. */
static int held_out(struct output *o, const struct clipgrid_shown *s, struct err *e)
{
	struct frame_facts facts = {.kind = FRAME_PIXELS,
	                            .index = o->decoded - 1,
	                            .start = o->start,
	                            .time = s->time,
	                            .length = s->length,
	                            .first = s->first,
	                            .targets = s->targets,
	                            .segment = s->segment};
	uint64_t most = (uint64_t)o->limits->frames;
	int rc;

	if (most && s->first + s->targets > most)
		facts.targets = s->first < most ? most - s->first : 0;
	rc = facts.targets ? frame_out(o, o->held, &facts, e) : 0;
	return rc ? rc : is_full(o, s->first + s->targets);
}

static int64_t frame_time(const AVFrame *f, AVRational unit, int64_t start)
{
	int64_t ticks = f->best_effort_timestamp != AV_NOPTS_VALUE ? f->best_effort_timestamp : f->pts, time;

	if (ticks == AV_NOPTS_VALUE || unit.num <= 0 || unit.den <= 0)
		return CLIPGRID_UNKNOWN;
	time = av_rescale_q(ticks, unit, nanosecond);
	if (time == INT64_MIN || time == INT64_MAX || start > INT64_MAX / 4000 || start < -INT64_MAX / 4000)
		return CLIPGRID_UNKNOWN;
	return time / 2 > INT64_MAX / 4 || time / 2 < -INT64_MAX / 4 ? CLIPGRID_UNKNOWN : time - start * 1000;
}

static int64_t frame_length(const AVFrame *f, AVRational unit)
{
	return FRAME_DURATION(f) > 0 && unit.num > 0 && unit.den > 0 ? av_rescale_q(FRAME_DURATION(f), unit, nanosecond) : 0;
}

/* Clips: send the frame before this one if it is shown at a target, and this one scaled down. */
static int clip_frame(struct output *o, AVFrame *f, int64_t time, int64_t length, struct err *e)
{
	struct clipgrid_shown shown;
	int rc = clipgrid_add(&o->grid, time, length, &shown) ? held_out(o, &shown, e) : 0;

	if (!rc && o->limits->glimpses)
		rc = glimpse_out(o, f, e);
	if (rc)
		return rc;
	if (!o->held)
		o->held = av_frame_alloc();
	if (!o->held)
		return err_set(e, ERR_NOMEM, "out of memory");
	av_frame_unref(o->held);
	av_frame_move_ref(o->held, f);
	o->decoded++;
	return 0;
}

int output_add(struct output *o, AVFrame *f, AVRational unit, int64_t start, struct err *e)
{
	struct frame_facts facts = {.kind = FRAME_PIXELS, .index = o->index};
	int rc;

	if (f->width < 1 || f->height < 1 || (int64_t)f->width * f->height > o->limits->max_pixels)
		return err_set(e, ERR_DATA, "a frame of %dx%d pixels, more than the limit of %lld", f->width, f->height,
		               (long long)o->limits->max_pixels);
	o->start = start > INT64_MAX / 4000 || start < -INT64_MAX / 4000 ? 0 : start * 1000;
	facts.time = frame_time(f, unit, start);
	facts.length = frame_length(f, unit);
	if (o->limits->clips)
		return clip_frame(o, f, facts.time, facts.length, e);
	rc = frame_out(o, f, &facts, e);
	if (rc)
		return rc;
	o->decoded++;
	return is_full(o, ++o->index);
}

int output_end(struct output *o, struct err *e)
{
	struct clipgrid_shown shown;

	return o->held && clipgrid_end(&o->grid, &shown) ? held_out(o, &shown, e) : 0;
}
