/* Encodes PNG by zlib, with our stamp and sums in text chunks. */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/still.h"

struct writer {
	png_structp png;
	png_infop info;
	struct str out;
	struct err *e;
	int no_memory; /* an allocation of libpng failed */
};

static void on_error(png_structp png, png_const_charp text)
{
	struct writer *w = png_get_error_ptr(png);

	err_set(w->e, w->no_memory ? ERR_NOMEM : ERR_FAIL, "cannot encode a PNG: %s", text);
	longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
	(void)png;
	(void)text;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t n)
{
	struct writer *w = png_get_mem_ptr(png);
	void *p = mem_try(n, 1, "libpng", NULL);

	w->no_memory |= !p;
	return p;
}

static void on_free(png_structp png, png_voidp p)
{
	(void)png;
	mem_free(p);
}

static void on_write(png_structp png, png_bytep p, png_size_t n)
{
	struct writer *w = png_get_io_ptr(png);

	str_add(&w->out, p, n);
}

static void on_flush(png_structp png)
{
	(void)png;
}

static int is_ascii(const char *s)
{
	while (*s && (unsigned char)*s < 128)
		s++;
	return !*s;
}

static void texts_set(struct writer *w, const struct still_text *texts, int n)
{
	for (int i = 0; i < n; i++) {
		int plain = is_ascii(texts[i].value);
		png_text t = {.key = (char *)texts[i].key, .text = (char *)texts[i].value};

		t.compression = plain ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
		t.text_length = plain ? strlen(texts[i].value) : 0;
		t.itxt_length = plain ? 0 : strlen(texts[i].value);
		t.lang = t.lang_key = plain ? NULL : (char *)"";
		png_set_text(w->png, w->info, &t, 1);
	}
}

static void rows_write(struct writer *w, const struct picture *p)
{
	size_t stride = (size_t)p->width * p->channels;

	for (int y = 0; y < p->height; y++)
		png_write_row(w->png, p->pixels + y * stride);
}

/* Compression level, strategy and filters are set explicitly, so that the bytes do not depend on libpng's defaults. */
static void settings(struct writer *w, const struct picture *p)
{
	static const int types[] = {[1] = PNG_COLOR_TYPE_GRAY, [3] = PNG_COLOR_TYPE_RGB, [4] = PNG_COLOR_TYPE_RGB_ALPHA};

	png_set_write_fn(w->png, w, on_write, on_flush);
	png_set_user_limits(w->png, 0x7fffffff, 0x7fffffff);
	png_set_compression_level(w->png, 6);
	png_set_compression_strategy(w->png, 1); /* Z_FILTERED */
	png_set_compression_buffer_size(w->png, 65536);
	png_set_filter(w->png, PNG_FILTER_TYPE_BASE, PNG_ALL_FILTERS);
	png_set_IHDR(w->png, w->info, p->width, p->height, 8, types[p->channels], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
	             PNG_FILTER_TYPE_DEFAULT);
}

int still_encode_png(const struct picture *p, const struct still_text *texts, int ntexts, uint8_t **out, size_t *len, struct err *e)
{
	struct writer w = {.e = e};
	volatile int rc = -1;

	for (int i = 0; i < ntexts; i++)
		if (!texts[i].key[0] || strlen(texts[i].key) > 79)
			return err_set(e, ERR_FAIL, "a PNG text keyword has 1 to 79 bytes, not \"%s\"", texts[i].key);
	w.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &w, on_error, on_warning, &w, on_malloc, on_free);
	if (w.png)
		w.info = png_create_info_struct(w.png);
	if (!w.info) {
		png_destroy_write_struct(&w.png, NULL);
		return err_set(e, ERR_NOMEM, "libpng cannot start");
	}
	if (!setjmp(png_jmpbuf(w.png))) {
		settings(&w, p);
		texts_set(&w, texts, ntexts);
		png_write_info(w.png, w.info);
		rows_write(&w, p);
		png_write_end(w.png, w.info);
		rc = w.no_memory ? err_set(e, ERR_NOMEM, "no memory to encode a PNG") : 0;
	}
	png_destroy_write_struct(&w.png, &w.info);
	if (rc) {
		str_release(&w.out);
		return -1;
	}
	*out = (uint8_t *)w.out.p;
	*len = w.out.len;
	return 0;
}
