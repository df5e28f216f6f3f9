/* Encodes JPEG by libjpeg-turbo. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "core/mem.h"
#include "file/still.h"

struct handler {
	struct jpeg_error_mgr base;
	jmp_buf back;
	char text[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr j)
{
	struct handler *h = (struct handler *)j->err;

	h->base.format_message(j, h->text);
	longjmp(h->back, 1);
}

int still_encode_jpeg(const struct picture *p, int quality, uint8_t **out, size_t *len, struct err *e)
{
	struct jpeg_compress_struct j = {0};
	struct handler h;
	unsigned char *data = NULL;
	unsigned long size = 0;

	j.err = jpeg_std_error(&h.base);
	h.base.error_exit = on_error;
	if (setjmp(h.back)) {
		jpeg_destroy_compress(&j);
		free(data);
		return err_set(e, ERR_FAIL, "cannot encode a JPEG of %d x %d: %s", p->width, p->height, h.text);
	}
	jpeg_create_compress(&j);
	jpeg_mem_dest(&j, &data, &size);
	j.image_width = (JDIMENSION)p->width;
	j.image_height = (JDIMENSION)p->height;
	j.input_components = p->channels;
	j.in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&j);
	jpeg_set_quality(&j, quality, TRUE);
	j.dct_method = JDCT_ISLOW;
	j.optimize_coding = TRUE;
	for (int c = 0; c < j.num_components; c++)
		j.comp_info[c].h_samp_factor = j.comp_info[c].v_samp_factor = 1;
	jpeg_start_compress(&j, TRUE);
	while (j.next_scanline < j.image_height) {
		JSAMPROW row = (JSAMPROW)(p->pixels + (size_t)j.next_scanline * (size_t)p->width * (size_t)p->channels);

		jpeg_write_scanlines(&j, &row, 1);
	}
	jpeg_finish_compress(&j);
	jpeg_destroy_compress(&j);
	*out = mem_alloc(size);
	*len = size;
	memcpy(*out, data, size);
	free(data);
	return 0;
}
