/* Decodes PNG by libpng, as Pillow does. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/stillimpl.h"

#define TEXT_MAX (1u << 20) /* of a decompressed text chunk, Pillow's limit */

/* The state that must survive a longjmp out of libpng. */
struct png_state {
	png_structp png;
	png_infop info;
	const struct still_input *in;
	struct err *e;
	size_t at;     /* reading position in the file */
	uint64_t idat; /* compressed bytes */
	uint8_t *raw;  /* one row, or the whole picture if it is interlaced */
	uint8_t palette[256][3];
	int no_memory; /* an allocation of libpng failed: its errors then do not mean a damaged file */
};

static void on_error(png_structp png, png_const_charp text)
{
	struct png_state *s = png_get_error_ptr(png);

	if (s->no_memory)
		err_set(s->e, ERR_NOMEM, "%s: no memory to decode this PNG", s->in->name);
	err_set(s->e, ERR_DATA, "%s: damaged PNG: %s", s->in->name, text);
	longjmp(png_jmpbuf(png), 1);
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t n)
{
	struct png_state *s = png_get_mem_ptr(png);
	void *p = mem_try(n, 1, "libpng", NULL);

	s->no_memory |= !p;
	return p;
}

static void on_free(png_structp png, png_voidp p)
{
	(void)png;
	mem_free(p);
}

static void on_warning(png_structp png, png_const_charp text)
{
	(void)png;
	(void)text;
}

static void on_read(png_structp png, png_bytep p, png_size_t n)
{
	struct png_state *s = png_get_io_ptr(png);

	if (n > s->in->len - s->at)
		png_error(png, "truncated");
	memcpy(p, s->in->data + s->at, n);
	s->at += n;
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* Inflate a zlib stream of at most TEXT_MAX bytes. */
static int text_inflate(struct str *out, const uint8_t *p, size_t n)
{
	uint8_t *buf = mem_alloc(TEXT_MAX);
	uLongf len = TEXT_MAX;
	int rc = uncompress(buf, &len, p, n);

	if (rc == Z_OK)
		str_add(out, buf, len);
	mem_free(buf);
	return rc == Z_OK ? 0 : -1;
}

/* ImageMagick's way of storing EXIF: "\nexif\n<length>\n<hex digits in lines>". */
static int raw_profile_orientation(const char *text, size_t n)
{
	const char *p = text, *end = text + n;
	struct str bytes = {0};
	int o, half = -1;

	for (int lines = 0; lines < 3 && p; lines++) {
		p = memchr(p, '\n', end - p);
		p = p ? p + 1 : NULL;
	}
	for (; p && p < end; p++) {
		int v = *p >= '0' && *p <= '9' ? *p - '0' : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10 : -1;
		char byte;

		if (v < 0)
			continue;
		if (half >= 0) {
			byte = (char)(half << 4 | v);
			str_add(&bytes, &byte, 1);
			v = -1;
		}
		half = v;
	}
	o = still_exif_orientation((const uint8_t *)str_text(&bytes), bytes.len);
	str_release(&bytes);
	return o;
}

/* Read tEXt, zTXt or iTXt: only the two keywords that carry an orientation matter. */
static void text_chunk(struct still_meta *meta, int *raw, const uint8_t *type, const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n, *nul = memchr(p, 0, n);
	int profile = nul && !strcmp((const char *)p, "Raw profile type exif");
	int xmp = nul && type[0] == 'i' && !strcmp((const char *)p, "XML:com.adobe.xmp");
	int compressed = type[0] == 'z';
	struct str text = {0};

	if (!profile && !xmp)
		return;
	p = nul + 1;
	if (type[0] == 'z')
		p += p < end;
	if (type[0] == 'i') {
		if (end - p < 2)
			return;
		compressed = p[0];
		p += 2;
		for (int i = 0; i < 2; i++) {
			nul = memchr(p, 0, end - p);
			if (!nul)
				return;
			p = nul + 1;
		}
	}
	if (!compressed)
		str_add(&text, p, end - p);
	if (!compressed || !text_inflate(&text, p, end - p)) {
		if (profile)
			*raw = raw_profile_orientation(str_text(&text), text.len);
		else
			meta->xmp_orientation = still_xmp_orientation((const uint8_t *)str_text(&text), text.len);
	}
	str_release(&text);
}

/* Walk the chunks as far as they go, whatever their checksums: collects the orientation. */
static void chunks_read(const struct still_input *in, struct still_meta *meta)
{
	int raw = 0, seen_exif = 0;
	size_t n;

	for (size_t at = 8; in->len - at >= 12 && (n = be32(in->data + at)) <= in->len - at - 12; at += 12 + n) {
		const uint8_t *p = in->data + at;

		if (!memcmp(p + 4, "eXIf", 4)) {
			meta->exif_orientation = still_exif_orientation(p + 8, n);
			seen_exif = 1;
		}
		if (!memcmp(p + 5, "TXt", 3) || !memcmp(p + 4, "tEXt", 4))
			text_chunk(meta, &raw, p + 4, p + 8, n);
	}
	if (!seen_exif)
		meta->exif_orientation = raw;
}

int still_png_probe(struct still_facts *f, const struct still_input *in, struct err *e)
{
	static const char *const modes[] = {[0] = "grey", [2] = "rgb", [3] = "palette", [4] = "grey alpha", [6] = "rgba"};
	struct still_meta meta = {0};
	uint8_t type;

	if (still_png_size(in, &f->width, &f->height, e))
		return -1;
	if (in->len < 33)
		return err_set(e, ERR_DATA, "%s: truncated PNG", in->name);
	type = in->data[25];
	if (type >= sizeof modes / sizeof *modes || !modes[type])
		return err_set(e, ERR_DATA, "%s: damaged PNG: colour type %d", in->name, type);
	f->bits = in->data[24];
	f->mode = modes[type];
	f->gradual = in->data[28] != 0;
	chunks_read(in, &meta);
	f->orientation = meta.exif_orientation ? meta.exif_orientation : meta.xmp_orientation;
	return 0;
}

char *still_png_text(const void *data, size_t len, const char *key)
{
	const uint8_t *p = data;
	size_t size = strlen(key) + 1, n;

	if (still_sniff(data, len) != STILL_PNG)
		return NULL;
	for (size_t at = 8; len - at >= 12 && (n = be32(p + at)) <= len - at - 12; at += 12 + n) {
		size_t skip = !memcmp(p + at + 4, "tEXt", 4) ? size : !memcmp(p + at + 4, "iTXt", 4) ? size + 4 : 0;

		if (skip && n >= skip && !memcmp(p + at + 8, key, size))
			return str_new("%.*s", (int)(n - skip), (const char *)p + at + 8 + skip);
	}
	return NULL;
}

/* Walk the chunks: every checksum must hold and IEND be there, so that a truncated or damaged file is refused whichever
 * part of it was hit. Collects the orientation on the way; libpng sees none of the ancillary chunks. */
static int chunks_check(struct png_state *s, struct still_meta *meta)
{
	const struct still_input *in = s->in;
	size_t at = 8;
	int raw = 0, seen_exif = 0;

	for (;;) {
		const uint8_t *p = in->data + at;
		size_t n;

		if (in->len - at < 12 || (n = be32(p)) > in->len - at - 12)
			return err_set(s->e, ERR_DATA, "%s: truncated PNG", in->name);
		if (crc32(0, p + 4, n + 4) != be32(p + 8 + n))
			return err_set(s->e, ERR_DATA, "%s: damaged PNG: a chunk at byte %zu fails its checksum", in->name, at);
		if (!memcmp(p + 4, "IDAT", 4))
			s->idat += n;
		if (!memcmp(p + 4, "eXIf", 4)) {
			meta->exif_orientation = still_exif_orientation(p + 8, n);
			seen_exif = 1;
		}
		if (!memcmp(p + 5, "TXt", 3) || !memcmp(p + 4, "tEXt", 4))
			text_chunk(meta, &raw, p + 4, p + 8, n);
		if (!memcmp(p + 4, "IEND", 4))
			break;
		at += 12 + n;
	}
	if (!seen_exif)
		meta->exif_orientation = raw;
	return 0;
}

int still_png_size(const struct still_input *in, int *width, int *height, struct err *e)
{
	uint32_t w, h;

	if (in->len < 24 || memcmp(in->data + 12, "IHDR", 4))
		return err_set(e, ERR_DATA, "%s: truncated or damaged PNG", in->name);
	w = be32(in->data + 16);
	h = be32(in->data + 20);
	if (still_check_size(in, w, h, e))
		return -1;
	*width = (int)w;
	*height = (int)h;
	return 0;
}

/* Raw samples of one row to 1 or 3 channels of 8 bits, with Pillow's reading of each colour type: the high byte of 16-bit
 * colour, but 16-bit grey clipped to 255. */
static void row_unpack(uint8_t *dst, const uint8_t *src, const struct png_state *s, int width, int type, int depth)
{
	int wide = depth == 16, channels = type == PNG_COLOR_TYPE_PALETTE ? 1 : png_get_channels(s->png, s->info);
	int step = channels << wide;

	for (int x = 0; x < width; x++, src += step) {
		if (type == PNG_COLOR_TYPE_PALETTE) {
			memcpy(dst, s->palette[src[0]], 3);
			dst += 3;
		} else if (type & PNG_COLOR_MASK_COLOR) {
			for (int j = 0; j < 3; j++)
				*dst++ = src[j << wide];
		} else if (wide && type == PNG_COLOR_TYPE_GRAY) {
			*dst++ = src[0] ? 255 : src[1];
		} else {
			*dst++ = src[0];
		}
	}
}

/* Entries the file does not define stay black, as in Pillow. */
static void palette_read(struct png_state *s)
{
	png_colorp colors;
	int n = 0;

	png_get_PLTE(s->png, s->info, &colors, &n);
	for (int i = 0; i < n; i++) {
		s->palette[i][0] = colors[i].red;
		s->palette[i][1] = colors[i].green;
		s->palette[i][2] = colors[i].blue;
	}
}

static void reader_setup(struct png_state *s)
{
	png_set_read_fn(s->png, s, on_read);
	png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
	png_set_crc_action(s->png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
	png_set_user_limits(s->png, 0x7fffffff, 0x7fffffff);
	png_set_check_for_invalid_index(s->png, 0);
	png_set_benign_errors(s->png, 1);
}

/* Runs under the caller's setjmp. */
static int rows_read(struct picture *out, struct png_state *s)
{
	int type, depth, whole;
	uint64_t row_bytes;

	png_read_info(s->png, s->info);
	type = png_get_color_type(s->png, s->info);
	depth = png_get_bit_depth(s->png, s->info);
	whole = png_get_interlace_type(s->png, s->info) != PNG_INTERLACE_NONE;
	if (type == PNG_COLOR_TYPE_PALETTE) {
		png_set_packing(s->png);
		palette_read(s);
	} else if (type == PNG_COLOR_TYPE_GRAY && depth < 8) {
		png_set_expand_gray_1_2_4_to_8(s->png);
	}
	png_set_interlace_handling(s->png);
	png_read_update_info(s->png, s->info);
	row_bytes = png_get_rowbytes(s->png, s->info);
	/* Deflate expands at most 1032 times: a short file cannot hold a large picture. */
	if ((row_bytes * out->height) / 8 > (s->idat + 64) * 1032)
		return err_set(s->e, ERR_DATA, "%s: truncated PNG", s->in->name);
	if (still_check_memory(s->in, row_bytes * (whole ? out->height : 1), s->e))
		return -1;
	s->raw = mem_try(row_bytes, whole ? out->height : 1, "a PNG", s->e);
	if (!s->raw || picture_alloc(out, out->width, out->height, type & PNG_COLOR_MASK_COLOR ? 3 : 1, s->e))
		return -1;
	for (int pass = 0; pass < (whole ? 7 : 1); pass++)
		for (int y = 0; y < out->height; y++) {
			uint8_t *raw = s->raw + (whole ? y * row_bytes : 0);

			png_read_row(s->png, raw, NULL);
			if (pass == (whole ? 6 : 0))
				row_unpack(out->pixels + (size_t)y * out->width * out->channels, raw, s, out->width, type, depth);
		}
	png_read_end(s->png, NULL);
	return 0;
}

int still_png_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e)
{
	struct png_state s = {.in = in, .e = e};
	volatile int rc = -1;

	if (still_png_size(in, &out->width, &out->height, e) || chunks_check(&s, meta))
		return -1;
	s.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning, &s, on_malloc, on_free);
	if (s.png)
		s.info = png_create_info_struct(s.png);
	if (!s.info) {
		png_destroy_read_struct(&s.png, NULL, NULL);
		return err_set(e, ERR_NOMEM, "%s: libpng cannot start", in->name);
	}
	if (!setjmp(png_jmpbuf(s.png))) {
		reader_setup(&s);
		rc = rows_read(out, &s);
		if (!rc && s.no_memory)
			rc = err_set(e, ERR_NOMEM, "%s: no memory to decode this PNG", in->name);
	}
	png_destroy_read_struct(&s.png, &s.info, NULL);
	mem_free(s.raw);
	return rc;
}
