/* Decodes JPEG by libjpeg-turbo. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/stillimpl.h"

/* The state that must survive a longjmp out of libjpeg. */
struct jpeg_state {
	struct jpeg_decompress_struct c;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf out;
	const struct still_input *in;
	struct err *e;
	int max_scans;
	uint8_t *row; /* of a CMYK picture */
};

static struct jpeg_state *state_of(j_common_ptr c)
{
	return (struct jpeg_state *)c->client_data;
}

static void on_error(j_common_ptr c)
{
	struct jpeg_state *s = state_of(c);
	char text[JMSG_LENGTH_MAX];

	/* An even number: malloc failed; an odd one: the size is refused. */
	if (c->err->msg_code == JERR_OUT_OF_MEMORY && c->err->msg_parm.i[0] % 2 == 0) {
		err_set(s->e, ERR_NOMEM, "%s: no memory to decode this JPEG", s->in->name);
	} else if (c->err->msg_code == JERR_NO_BACKING_STORE || c->err->msg_code == JERR_OUT_OF_MEMORY) {
		err_set(s->e, ERR_DATA, "%s: decoding this JPEG needs more than the limit of %llu MiB", s->in->name,
		        (unsigned long long)(s->in->limits.max_memory >> 20));
	} else {
		c->err->format_message(c, text);
		err_set(s->e, ERR_DATA, "%s: damaged JPEG: %s", s->in->name, text);
	}
	longjmp(s->out, 1);
}

/* libjpeg conceals damage and only warns; here a warning is an error. The few exceptions do not concern the pixels. */
static void on_message(j_common_ptr c, int level)
{
	int code = c->err->msg_code;

	if (level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR)
		return;
	on_error(c);
}

/* Limits the passes: a file of a few hundred bytes can demand hundreds of passes over a large picture. */
static void on_progress(j_common_ptr c)
{
	struct jpeg_state *s = state_of(c);

	if (s->c.input_scan_number > s->max_scans) {
		err_set(s->e, ERR_DATA, "%s: JPEG with more than %d scans", s->in->name, s->max_scans);
		longjmp(s->out, 1);
	}
}

static void state_init(struct jpeg_state *s, const struct still_input *in, struct err *e)
{
	memset(s, 0, sizeof *s);
	s->in = in;
	s->e = e;
	s->c.err = jpeg_std_error(&s->errors);
	s->errors.error_exit = on_error;
	s->errors.emit_message = on_message;
	s->progress.progress_monitor = on_progress;
	s->c.client_data = s;
}

/* Everything up to the first scan. Runs under the caller's setjmp. */
static int header_read(struct jpeg_state *s)
{
	jpeg_create_decompress(&s->c);
	s->c.mem->max_memory_to_use = (long)s->in->limits.max_memory;
	jpeg_mem_src(&s->c, (unsigned char *)s->in->data, s->in->len);
	jpeg_save_markers(&s->c, JPEG_APP0 + 1, 0xffff);
	jpeg_read_header(&s->c, TRUE);
	return still_check_size(s->in, s->c.image_width, s->c.image_height, s->e);
}

int still_jpeg_size(const struct still_input *in, int *width, int *height, struct err *e)
{
	struct jpeg_state s;
	int rc = -1;

	state_init(&s, in, e);
	if (!setjmp(s.out) && !header_read(&s)) {
		*width = (int)s.c.image_width;
		*height = (int)s.c.image_height;
		jpeg_destroy_decompress(&s.c);
		return 0;
	}
	jpeg_destroy_decompress(&s.c);
	return rc;
}

static void read_meta(struct still_meta *meta, const struct jpeg_state *s)
{
	static const char xmp[] = "http://ns.adobe.com/xap/1.0/";
	struct str exif = {0};

	for (jpeg_saved_marker_ptr m = s->c.marker_list; m; m = m->next) {
		if (m->data_length >= 6 && !memcmp(m->data, "Exif\0\0", 6)) {
			size_t skip = exif.len ? 6 : 0;

			str_add(&exif, m->data + skip, m->data_length - skip);
		} else if (m->data_length > sizeof xmp && !memcmp(m->data, xmp, sizeof xmp)) {
			meta->xmp_orientation = still_xmp_orientation(m->data + sizeof xmp, m->data_length - sizeof xmp);
		}
	}
	if (exif.len)
		meta->exif_orientation = still_exif_orientation((const uint8_t *)exif.p, exif.len);
	str_release(&exif);
}

/* Inverted CMYK, as Adobe writes and Pillow assumes always, to RGB with Pillow's rounding: k - (255 - c) k / 255. */
static void cmyk_row(uint8_t *dst, const uint8_t *src, int width)
{
	for (int x = 0; x < width; x++, src += 4)
		for (int j = 0; j < 3; j++) {
			unsigned k = src[3], t = (255u - src[j]) * k + 128;

			*dst++ = k - ((t + (t >> 8)) >> 8);
		}
}

/* Runs under the caller's setjmp. */
static int rows_read(struct picture *out, struct jpeg_state *s)
{
	struct jpeg_decompress_struct *c = &s->c;
	int64_t pixels = (int64_t)c->image_width * c->image_height;
	int channels = c->num_components == 1 ? 1 : 3;

	if (c->num_components != 1 && c->num_components != 3 && c->num_components != 4)
		return err_set(s->e, ERR_DATA, "%s: JPEG with %d components", s->in->name, c->num_components);
	c->out_color_space = c->num_components == 1 ? JCS_GRAYSCALE : c->num_components == 3 ? JCS_RGB : JCS_CMYK;
	c->dct_method = JDCT_ISLOW;
	s->max_scans = pixels >= (int64_t)1 << 27 ? 32 : pixels <= (int64_t)1 << 24 ? 256 : (int)(((int64_t)1 << 32) / pixels);
	c->progress = &s->progress;
	if (picture_alloc(out, (int)c->image_width, (int)c->image_height, channels, s->e))
		return -1;
	if (c->out_color_space == JCS_CMYK && !(s->row = mem_try(c->image_width, 4, "a row", s->e)))
		return -1;
	jpeg_start_decompress(c);
	while (c->output_scanline < c->output_height) {
		uint8_t *dst = out->pixels + (size_t)c->output_scanline * out->width * channels;
		JSAMPROW row = s->row ? s->row : dst;

		jpeg_read_scanlines(c, &row, 1);
		if (s->row)
			cmyk_row(dst, s->row, out->width);
	}
	jpeg_finish_decompress(c);
	return 0;
}

static const char *space_name(J_COLOR_SPACE space)
{
	switch (space) {
	case JCS_GRAYSCALE:
		return "grey";
	case JCS_RGB:
		return "rgb";
	case JCS_YCbCr:
		return "ycbcr";
	case JCS_CMYK:
		return "cmyk";
	case JCS_YCCK:
		return "ycck";
	default:
		return "unknown";
	}
}

int still_jpeg_probe(struct still_facts *f, const struct still_input *in, struct err *e)
{
	struct still_meta meta = {0};
	struct jpeg_state s;

	state_init(&s, in, e);
	if (setjmp(s.out) || header_read(&s)) {
		jpeg_destroy_decompress(&s.c);
		return -1;
	}
	read_meta(&meta, &s);
	f->width = (int)s.c.image_width;
	f->height = (int)s.c.image_height;
	f->bits = s.c.data_precision;
	f->mode = space_name(s.c.jpeg_color_space);
	f->gradual = s.c.progressive_mode;
	f->orientation = meta.exif_orientation ? meta.exif_orientation : meta.xmp_orientation;
	jpeg_destroy_decompress(&s.c);
	return 0;
}

int still_jpeg_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e)
{
	struct jpeg_state s;
	volatile int rc = -1;

	state_init(&s, in, e);
	if (!setjmp(s.out) && !header_read(&s)) {
		read_meta(meta, &s);
		rc = rows_read(out, &s);
	}
	jpeg_destroy_decompress(&s.c);
	mem_free(s.row);
	return rc;
}
