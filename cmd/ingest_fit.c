/* Crops pictures, and resizes them as --size or --buckets and --resize say. */
#include <string.h>

#include "cmd/ingest.h"
#include "file/resize.h"
#include "file/yuv.h"

/* The filter of --resize, or -1 for adm. */
static int filter_of(const struct work_options *o)
{
	int filter = 0;

	while (resize_filter_names[filter] && strcmp(resize_filter_names[filter], o->resize))
		filter++;
	return resize_filter_names[filter] ? filter : -1;
}

int fits_planes(const struct work_options *o)
{
	return o->size > 0 && filter_of(o) >= 0;
}

int is_fitted(const struct work_options *o)
{
	return o->size > 0 || o->buckets.n > 0;
}

json_t *bucket_facts(const struct work_options *o, int w, int h)
{
	char text[BUCKET_TEXT];

	return o->buckets.n ? json_pack("{s:s}", "bucket", bucket_text(bucket_for(&o->buckets, w, h), text)) : NULL;
}

int picture_fit(struct picture *p, const struct work_options *o, struct err *e)
{
	int filter = filter_of(o), size = (int)o->size, rc;
	struct bucket want = o->buckets.n ? bucket_for(&o->buckets, p->width, p->height) : (struct bucket){size, size};
	struct picture to;

	if (!is_fitted(o) || (p->width == want.width && p->height == want.height))
		return 0;
	if (filter >= 0)
		rc = picture_cover(&to, p, want.width, want.height, (enum resize_filter)filter, e);
	else
		rc = picture_square_adm(&to, p, size, e);
	if (rc)
		return -1;
	picture_release(p);
	*p = to;
	return 0;
}

static int picture_crop(struct picture *to, const struct picture *from, int x, int y, int w, int h, struct err *e)
{
	size_t channels = (size_t)from->channels;

	if (picture_alloc(to, w, h, from->channels, e))
		return -1;
	for (int row = 0; row < h; row++)
		memcpy(to->pixels + (size_t)row * (size_t)w * channels,
		       from->pixels + ((size_t)(y + row) * (size_t)from->width + (size_t)x) * channels, (size_t)w * channels);
	return 0;
}

/* The planes of a frame, which lie in the row of p. */
static struct yuv planes_of(const struct picture *p, const struct frame_facts *f)
{
	struct yuv yuv = {
	    .width = (int)f->width, .height = (int)f->height, .shift_x = (int)f->shift_x, .shift_y = (int)f->shift_y, .full = (int)f->full};
	uint64_t luma = (uint64_t)f->width * f->height, all = frame_size(f);

	memcpy(yuv.matrix, f->matrix, sizeof yuv.matrix);
	yuv.plane[0] = p->pixels;
	yuv.plane[1] = p->pixels + luma;
	yuv.plane[2] = p->pixels + luma + (all - luma) / 2;
	return yuv;
}

int frame_fit(struct picture *to, struct picture *from, const struct frame_facts *f, int x, int y, int w, int h, const struct work_options *o,
              struct err *e)
{
	struct picture fitted;
	int rc, whole = x == 0 && y == 0 && w == (int)f->width && h == (int)f->height;

	if (to == from && whole && !f->planes)
		return picture_fit(from, o, e);
	if (f->planes) {
		struct yuv yuv = planes_of(from, f);

		rc = yuv_square(&fitted, &yuv, x, y, w, h, (int)o->size, (enum resize_filter)filter_of(o), e);
	} else {
		rc = picture_crop(&fitted, from, x, y, w, h, e);
		if (!rc && picture_fit(&fitted, o, e)) {
			picture_release(&fitted);
			rc = -1;
		}
	}
	if (rc)
		return -1;
	if (to == from)
		picture_release(from);
	*to = fitted;
	return 0;
}
