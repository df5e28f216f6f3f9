/* Decodes WebP by libwebp. */
#include <errno.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "core/mem.h"
#include "file/stillimpl.h"

/* Some functions of libwebp give no reason; errno shows whether an allocation failed. */
static int damaged(const struct still_input *in, struct err *e)
{
	if (errno == ENOMEM)
		return err_set(e, ERR_NOMEM, "%s: no memory to decode this WebP", in->name);
	return err_set(e, ERR_DATA, "%s: truncated or damaged WebP", in->name);
}

int still_webp_size(const struct still_input *in, int *width, int *height, struct err *e)
{
	errno = 0;
	if (!WebPGetInfo(in->data, in->len, width, height))
		return damaged(in, e);
	return still_check_size(in, *width, *height, e);
}

static int chunk_orientation(WebPDemuxer *demux, const char *fourcc, int (*read)(const uint8_t *, size_t))
{
	WebPChunkIterator it;
	int o = 0;

	if (WebPDemuxGetChunk(demux, fourcc, 1, &it)) {
		o = read(it.chunk.bytes, it.chunk.size);
		WebPDemuxReleaseChunkIterator(&it);
	}
	return o;
}

/* The first frame on its canvas, which starts out transparent black. */
static int animation_first(struct picture *out, const WebPData *data, const struct still_input *in, struct err *e)
{
	WebPAnimDecoderOptions opt;
	WebPAnimDecoder *dec;
	uint8_t *canvas;
	int when, ok = 0;

	if (!WebPAnimDecoderOptionsInit(&opt))
		return damaged(in, e);
	opt.color_mode = MODE_RGBA;
	opt.use_threads = 0;
	dec = WebPAnimDecoderNew(data, &opt);
	if (dec && WebPAnimDecoderGetNext(dec, &canvas, &when)) {
		for (size_t i = 0; i < (size_t)out->width * out->height; i++)
			memcpy(out->pixels + 3 * i, canvas + 4 * i, 3);
		ok = 1;
	}
	WebPAnimDecoderDelete(dec);
	return ok ? 0 : damaged(in, e);
}

int still_webp_probe(struct still_facts *f, const struct still_input *in, struct err *e)
{
	WebPData data = {in->data, in->len};
	WebPBitstreamFeatures features;
	WebPDemuxer *demux;
	WebPDemuxState state;

	if (still_webp_size(in, &f->width, &f->height, e))
		return -1;
	if (WebPGetFeatures(in->data, in->len, &features) != VP8_STATUS_OK)
		return damaged(in, e);
	f->mode = features.has_alpha ? "rgba" : "rgb";
	demux = WebPDemuxPartial(&data, &state);
	if (!demux)
		return 0;
	f->orientation = chunk_orientation(demux, "EXIF", still_exif_orientation);
	if (!f->orientation)
		f->orientation = chunk_orientation(demux, "XMP ", still_xmp_orientation);
	if (features.has_animation)
		f->frames = (int)WebPDemuxGetI(demux, WEBP_FF_FRAME_COUNT);
	WebPDemuxDelete(demux);
	return 0;
}

static int still_picture(struct picture *out, const struct still_input *in, struct err *e)
{
	WebPDecoderConfig c;
	VP8StatusCode status;

	if (!WebPInitDecoderConfig(&c))
		return damaged(in, e);
	c.output.colorspace = MODE_RGB;
	c.output.u.RGBA.rgba = out->pixels;
	c.output.u.RGBA.stride = out->width * 3;
	c.output.u.RGBA.size = (size_t)out->width * out->height * 3;
	c.output.is_external_memory = 1;
	status = WebPDecode(in->data, in->len, &c);
	return status == VP8_STATUS_OK ? 0 : damaged(in, e);
}

int still_webp_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e)
{
	WebPData data = {in->data, in->len};
	WebPBitstreamFeatures features;
	WebPDemuxer *demux;
	int w, h, rc;

	if (still_webp_size(in, &w, &h, e))
		return -1;
	if (WebPGetFeatures(in->data, in->len, &features) != VP8_STATUS_OK)
		return damaged(in, e);
	if (still_check_memory(in, (uint64_t)w * h * (features.has_animation ? 12 : 8), e))
		return -1;
	demux = WebPDemux(&data);
	if (!demux)
		return damaged(in, e);
	meta->exif_orientation = chunk_orientation(demux, "EXIF", still_exif_orientation);
	meta->xmp_orientation = chunk_orientation(demux, "XMP ", still_xmp_orientation);
	WebPDemuxDelete(demux);
	if (picture_alloc(out, w, h, 3, e))
		return -1;
	if (features.has_animation)
		rc = animation_first(out, &data, in, e);
	else
		rc = still_picture(out, in, e);
	return rc;
}
