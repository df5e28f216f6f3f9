/* Reads the EXIF and XMP orientation of a picture as Pillow does. */
#include <string.h>

#include "core/mem.h"
#include "file/stillimpl.h"

struct tiff {
	const uint8_t *data;
	size_t len;
	int big_endian;
};

static uint32_t tiff_uint(const struct tiff *t, size_t at, int bytes)
{
	uint32_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint32_t)t->data[at + i] << 8 * (t->big_endian ? bytes - 1 - i : i);
	return v;
}

/* The first value of the entry at `at`, or 0 if its type is not an integer or its data lie outside. */
static uint32_t entry_value(const struct tiff *t, size_t at)
{
	static const uint8_t width[] = {[3] = 2, [4] = 4, [6] = 1, [8] = 2, [9] = 4, [13] = 4};
	uint32_t type = tiff_uint(t, at + 2, 2), count = tiff_uint(t, at + 4, 4);
	size_t from = at + 8;

	if (type >= sizeof width || !width[type] || !count)
		return 0;
	if ((uint64_t)count * width[type] > 4) {
		from = tiff_uint(t, at + 8, 4);
		if (from > t->len || (uint64_t)count * width[type] > t->len - from)
			return 0;
	}
	return tiff_uint(t, from, width[type]);
}

int still_exif_orientation(const uint8_t *data, size_t len)
{
	struct tiff t;
	size_t ifd;
	uint32_t count;
	int found = 0;

	for (int i = 0; i < 2 && len >= 6 && !memcmp(data, "Exif\0\0", 6); i++)
		data += 6, len -= 6;
	if (len < 8 || (memcmp(data, "II", 2) && memcmp(data, "MM", 2)) || data[2] + data[3] != 42 || (data[2] && data[3]))
		return 0;
	t = (struct tiff){data, len, data[0] == 'M'};
	ifd = tiff_uint(&t, 4, 4);
	if (ifd > len || len - ifd < 2)
		return 0;
	count = tiff_uint(&t, ifd, 2);
	for (uint32_t i = 0; i < count; i++) {
		size_t at = ifd + 2 + 12 * (size_t)i;

		if (at > len || len - at < 12)
			break;
		if (tiff_uint(&t, at, 2) == 0x0112) {
			uint32_t v = entry_value(&t, at);

			found = v >= 1 && v <= 8 ? (int)v : found ? found : 1;
		}
	}
	return found;
}

int still_xmp_orientation(const uint8_t *data, size_t len)
{
	static const char tag[] = "tiff:Orientation";
	const uint8_t *end = data + len;

	for (const uint8_t *p = data; p && p < end; p++) {
		size_t n;

		p = memmem(p, end - p, tag, sizeof tag - 1);
		if (!p)
			break;
		n = sizeof tag - 1;
		if (end - p > (ptrdiff_t)n + 2 && p[n] == '=' && p[n + 1] == '"')
			n += 2;
		else if (end - p > (ptrdiff_t)n + 1 && p[n] == '>')
			n += 1;
		else
			continue;
		if (p[n] >= '0' && p[n] <= '9')
			return p[n] - '0';
	}
	return 0;
}

int still_orient(struct picture *p, int o, struct err *e)
{
	int w = p->width, h = p->height, c = p->channels;
	int swap = o >= 5, flip_x = o == 2 || o == 3 || o == 7 || o == 8, flip_y = o == 3 || o == 4 || o == 6 || o == 7;
	struct picture to;

	if (o < 2 || o > 8)
		return 0;
	if (picture_alloc(&to, swap ? h : w, swap ? w : h, c, e))
		return -1;
	for (int y = 0; y < to.height; y++) {
		uint8_t *dst = to.pixels + (size_t)y * to.width * c;

		for (int x = 0; x < to.width; x++, dst += c) {
			int sx = swap ? y : x, sy = swap ? x : y;
			const uint8_t *src = p->pixels + ((size_t)(flip_y ? h - 1 - sy : sy) * w + (flip_x ? w - 1 - sx : sx)) * c;

			for (int k = 0; k < c; k++)
				dst[k] = src[k];
		}
	}
	picture_release(p);
	*p = to;
	return 0;
}
