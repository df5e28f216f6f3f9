/* Animated WebP: libwebp's own decoder gives the frames back, at their times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <webp/demux.h>

#include "core/mem.h"
#include "file/animation.h"

enum { W = 13, H = 7, N = 5 };

/* A different picture for every i, of any values. */
static void draw(struct picture *p, int channels, int i)
{
	struct err e = {0};

	assert_int_equal(picture_alloc(p, W, H, channels, &e), 0);
	for (int k = 0; k < W * H * channels; k++)
		p->pixels[k] = (uint8_t)(k * 37 + i * 101 + k * k * i);
}

static void round_trip(int channels, double fps)
{
	struct err e = {0};
	struct animation *a = animation_new(W, H, fps, &e);
	uint8_t *data = NULL, *rgba;
	size_t len = 0;
	WebPData d;
	WebPAnimDecoder *decoder;
	WebPAnimInfo info;
	int end, last = 0;

	assert_non_null(a);
	for (int i = 0; i < N; i++) {
		struct picture p;

		draw(&p, channels, i);
		assert_int_equal(animation_add(a, &p, &e), 0);
		picture_release(&p);
	}
	assert_int_equal(animation_end(a, &data, &len, &e), 0);
	animation_free(a);
	d = (WebPData){data, len};
	decoder = WebPAnimDecoderNew(&d, NULL);
	assert_non_null(decoder);
	assert_true(WebPAnimDecoderGetInfo(decoder, &info));
	assert_int_equal(info.canvas_width, W);
	assert_int_equal(info.canvas_height, H);
	assert_int_equal(info.frame_count, N);
	assert_int_equal(info.loop_count, 0);
	for (int i = 0; i < N; i++) {
		struct picture p;

		assert_true(WebPAnimDecoderGetNext(decoder, &rgba, &end));
		assert_int_equal(end, (int)llround((i + 1) * 1000 / fps)); /* the end of frame i */
		assert_true(end > last);
		last = end;
		draw(&p, channels, i);
		for (int k = 0; k < W * H; k++)
			for (int c = 0; c < 3; c++)
				assert_int_equal(rgba[4 * k + c], p.pixels[k * channels + (channels == 1 ? 0 : c)]);
		picture_release(&p);
	}
	assert_false(WebPAnimDecoderHasMoreFrames(decoder));
	WebPAnimDecoderDelete(decoder);
	mem_free(data);
}

static void frames(void **state)
{
	(void)state;
	round_trip(3, 8);
	round_trip(1, 24);
	round_trip(3, 29.97);
}

static void same_bytes(void **state)
{
	uint8_t *data[2];
	size_t len[2];
	struct err e = {0};

	(void)state;
	for (int r = 0; r < 2; r++) {
		struct animation *a = animation_new(W, H, 8, &e);

		for (int i = 0; i < 2; i++) {
			struct picture p;

			draw(&p, 3, i);
			assert_int_equal(animation_add(a, &p, &e), 0);
			picture_release(&p);
		}
		assert_int_equal(animation_end(a, &data[r], &len[r], &e), 0);
		animation_free(a);
	}
	assert_int_equal(len[0], len[1]);
	assert_memory_equal(data[0], data[1], len[0]);
	mem_free(data[0]);
	mem_free(data[1]);
}

static void too_large(void **state)
{
	struct err e = {0};

	(void)state;
	assert_null(animation_new(16384, 8, 8, &e));
	assert_int_equal(e.code, ERR_USAGE);
	animation_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames),
	    cmocka_unit_test(same_bytes),
	    cmocka_unit_test(too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
