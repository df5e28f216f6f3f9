/* The encoder of ddm-play, a program of its own that links FFmpeg: reads frames as RGB pixels from standard input and writes a film to standard
 * output, which must be a file. film_child.c starts it. A failure is written to standard error as one line. */
#include <errno.h>
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/film.h"
#include "core/mem.h"

enum { CHUNK = 1 << 16 };

/* FFmpeg 7 made the bytes const. */
#if LIBAVFORMAT_VERSION_MAJOR >= 61
typedef const uint8_t written;
#else
typedef uint8_t written;
#endif

/* How a format is written: the muxer, encoders in order of preference, their options, and the filters that make frames fit. A video must have even
 * sides, and players take colours for those of BT.709. */
static const struct format {
	const char *name, *muxer, *encoder[4], *options[4], *filters;
} formats[] = {
    {"mp4",
     "mp4",
     {"libx264", "libopenh264", "mpeg4"},
     {"crf=16", "b=8000000", "q=2:flags=+qscale"},
     "pad=ceil(iw/2)*2:ceil(ih/2)*2,scale=out_color_matrix=bt709,format=yuv420p"},
    {"webm",
     "webm",
     {"libvpx-vp9", "libvpx"},
     {"crf=20:b=0", "crf=8:b=4000000"},
     "pad=ceil(iw/2)*2:ceil(ih/2)*2,scale=out_color_matrix=bt709,format=yuv420p"},
    {"gif", "gif", {"gif"}, {""}, "split[a][b];[a]palettegen[p];[b][p]paletteuse"},
};

struct film {
	const struct format *format;
	int width, height;
	AVRational rate;
	AVFilterGraph *graph;
	AVFilterContext *source, *sink;
	AVFormatContext *muxer;
	AVCodecContext *encoder;
	AVStream *stream;
	AVFrame *in, *out;
	AVPacket *packet;
	int started; /* the header has been written */
};

static int fail(const char *what, int code)
{
	char why[AV_ERROR_MAX_STRING_SIZE];

	fprintf(stderr, "%s: %s\n", what, code ? av_make_error_string(why, sizeof why, code) : "not available in this FFmpeg");
	return -1;
}

static int put_bytes(void *arg, written *bytes, int n)
{
	(void)arg;
	for (int at = 0; at < n;) {
		ssize_t k = write(STDOUT_FILENO, bytes + at, (size_t)(n - at));

		if (k < 0 && errno != EINTR)
			return AVERROR(errno);
		at += k > 0 ? (int)k : 0;
	}
	return n;
}

static int64_t seek_file(void *arg, int64_t at, int whence)
{
	off_t to;

	(void)arg;
	if (whence & AVSEEK_SIZE)
		return -1;
	to = lseek(STDOUT_FILENO, at, whence & ~AVSEEK_FORCE);
	return to < 0 ? AVERROR(errno) : to;
}

static int open_graph(struct film *f)
{
	char args[160];
	AVFilterInOut *in = NULL, *out = NULL;
	int rc;

	f->graph = avfilter_graph_alloc();
	snprintf(args, sizeof args, "video_size=%dx%d:pix_fmt=%d:time_base=%d/%d:pixel_aspect=1/1", f->width, f->height, AV_PIX_FMT_RGB24,
	         f->rate.den, f->rate.num);
	if ((rc = avfilter_graph_create_filter(&f->source, avfilter_get_by_name("buffer"), "in", args, NULL, f->graph)) < 0 ||
	    (rc = avfilter_graph_create_filter(&f->sink, avfilter_get_by_name("buffersink"), "out", NULL, NULL, f->graph)) < 0)
		return fail("filters", rc);
	f->graph->nb_threads = 1;
	out = avfilter_inout_alloc();
	in = avfilter_inout_alloc();
	*out = (AVFilterInOut){av_strdup("in"), f->source, 0, NULL};
	*in = (AVFilterInOut){av_strdup("out"), f->sink, 0, NULL};
	rc = avfilter_graph_parse_ptr(f->graph, f->format->filters, &in, &out, NULL);
	if (rc >= 0)
		rc = avfilter_graph_config(f->graph, NULL);
	avfilter_inout_free(&in);
	avfilter_inout_free(&out);
	return rc < 0 ? fail("filters", rc) : 0;
}

/* The first encoder of the format that this FFmpeg has. One thread and no versions in the file, so that the same frames give the same bytes. */
static int open_encoder(struct film *f, const AVFrame *first)
{
	const AVCodec *codec = NULL;
	AVDictionary *options = NULL;
	int i, rc;

	for (i = 0; f->format->encoder[i] && !(codec = avcodec_find_encoder_by_name(f->format->encoder[i])); i++)
		;
	if (!codec)
		return fail(f->format->encoder[0], 0);
	if (!(f->encoder = avcodec_alloc_context3(codec)))
		return fail(codec->name, AVERROR(ENOMEM));
	f->encoder->width = first->width;
	f->encoder->height = first->height;
	f->encoder->pix_fmt = first->format;
	f->encoder->time_base = av_inv_q(f->rate);
	f->encoder->framerate = f->rate;
	f->encoder->thread_count = 1;
	f->encoder->flags |= AV_CODEC_FLAG_BITEXACT | (f->muxer->oformat->flags & AVFMT_GLOBALHEADER ? AV_CODEC_FLAG_GLOBAL_HEADER : 0);
	if (first->format == AV_PIX_FMT_YUV420P) {
		f->encoder->colorspace = AVCOL_SPC_BT709;
		f->encoder->color_primaries = AVCOL_PRI_BT709;
		f->encoder->color_trc = AVCOL_TRC_IEC61966_2_1;
		f->encoder->color_range = AVCOL_RANGE_MPEG;
	}
	rc = av_dict_parse_string(&options, f->format->options[i], "=", ":", 0);
	if (rc >= 0)
		rc = avcodec_open2(f->encoder, codec, &options);
	av_dict_free(&options);
	return rc < 0 ? fail(codec->name, rc) : 0;
}

static int open_muxer(struct film *f)
{
	uint8_t *buffer = av_malloc(CHUNK);
	int rc = avformat_alloc_output_context2(&f->muxer, NULL, f->format->muxer, NULL);

	if (rc < 0)
		return fail(f->format->muxer, rc);
	f->muxer->flags |= AVFMT_FLAG_BITEXACT;
	f->muxer->pb = avio_alloc_context(buffer, CHUNK, 1, NULL, NULL, put_bytes, seek_file);
	return f->muxer->pb ? 0 : fail(f->format->muxer, AVERROR(ENOMEM));
}

/* After the first frame left the filters, which decide the size and the kind of pixels. */
static int start_film(struct film *f, const AVFrame *first)
{
	int rc;

	if (open_encoder(f, first))
		return -1;
	f->stream = avformat_new_stream(f->muxer, NULL);
	f->stream->time_base = f->encoder->time_base;
	f->stream->avg_frame_rate = f->rate;
	if ((rc = avcodec_parameters_from_context(f->stream->codecpar, f->encoder)) < 0 || (rc = avformat_write_header(f->muxer, NULL)) < 0)
		return fail("header", rc);
	f->started = 1;
	return 0;
}

/* Send a frame, or NULL at the end, to the encoder, and write what comes out. */
static int encode_frame(struct film *f, AVFrame *frame)
{
	int rc = avcodec_send_frame(f->encoder, frame);

	while (rc >= 0 && (rc = avcodec_receive_packet(f->encoder, f->packet)) >= 0) {
		f->packet->duration = f->packet->duration ? f->packet->duration : 1;
		av_packet_rescale_ts(f->packet, f->encoder->time_base, f->stream->time_base);
		f->packet->stream_index = 0;
		rc = av_interleaved_write_frame(f->muxer, f->packet);
	}
	return rc == AVERROR(EAGAIN) || rc == AVERROR_EOF ? 0 : fail("encoding", rc);
}

/* Send a frame, or NULL at the end, through the filters. */
static int filter_frame(struct film *f, AVFrame *frame)
{
	int rc = av_buffersrc_add_frame_flags(f->source, frame, AV_BUFFERSRC_FLAG_KEEP_REF);

	while (rc >= 0 && (rc = av_buffersink_get_frame(f->sink, f->out)) >= 0) {
		f->out->pict_type = AV_PICTURE_TYPE_NONE;
		if ((!f->started && start_film(f, f->out)) || encode_frame(f, f->out))
			return -1;
		av_frame_unref(f->out);
	}
	return rc == AVERROR(EAGAIN) || rc == AVERROR_EOF ? 0 : fail("filters", rc);
}

/* 1 a frame, 0 the end, -1 the input ends within a frame. */
static int read_frame(struct film *f)
{
	int rc = av_frame_make_writable(f->in);
	size_t row = (size_t)f->width * 3;

	for (int y = 0; rc >= 0 && y < f->height; y++) {
		size_t n = fread(f->in->data[0] + (ptrdiff_t)y * f->in->linesize[0], 1, row, stdin);

		if (!n && !y && feof(stdin))
			return 0;
		if (n != row)
			return fail("the frames", AVERROR_INVALIDDATA);
	}
	return rc < 0 ? fail("a frame", rc) : 1;
}

static int make_film(struct film *f)
{
	int64_t n = 0;
	int rc;

	f->in = av_frame_alloc();
	f->out = av_frame_alloc();
	f->packet = av_packet_alloc();
	f->in->format = AV_PIX_FMT_RGB24;
	f->in->width = f->width;
	f->in->height = f->height;
	if ((rc = av_frame_get_buffer(f->in, 0)) < 0)
		return fail("a frame", rc);
	if (open_muxer(f) || open_graph(f))
		return -1;
	while ((rc = read_frame(f)) == 1) {
		f->in->pts = n++;
		if (filter_frame(f, f->in))
			return -1;
	}
	if (rc || filter_frame(f, NULL))
		return -1;
	if (!f->started)
		return fail("the frames", AVERROR_EOF);
	if (encode_frame(f, NULL))
		return -1;
	rc = av_write_trailer(f->muxer);
	avio_flush(f->muxer->pb);
	return rc < 0 || f->muxer->pb->error < 0 ? fail("writing", rc < 0 ? rc : f->muxer->pb->error) : 0;
}

static void film_release(struct film *f)
{
	av_frame_free(&f->in);
	av_frame_free(&f->out);
	av_packet_free(&f->packet);
	avfilter_graph_free(&f->graph);
	avcodec_free_context(&f->encoder);
	if (f->muxer && f->muxer->pb) {
		av_freep(&f->muxer->pb->buffer);
		avio_context_free(&f->muxer->pb);
	}
	avformat_free_context(f->muxer);
}

/* film-encoder FORMAT WIDTH HEIGHT FPS, or film-encoder --versions. */
int main(int argc, char **argv)
{
	struct film f = {0};
	int64_t width, height;
	double fps;
	int rc;

	if (argc == 2 && !strcmp(argv[1], FILM_VERSIONS)) {
		unsigned c = avcodec_version(), m = avformat_version();

		printf("libavcodec %u.%u.%u libavformat %u.%u.%u", AV_VERSION_MAJOR(c), AV_VERSION_MINOR(c), AV_VERSION_MICRO(c), AV_VERSION_MAJOR(m),
		       AV_VERSION_MINOR(m), AV_VERSION_MICRO(m));
		return fflush(stdout) ? ERR_IO : 0;
	}
	for (size_t i = 0; argc == 5 && i < sizeof formats / sizeof *formats; i++)
		if (!strcmp(argv[1], formats[i].name))
			f.format = &formats[i];
	if (!f.format || parse_i64(argv[2], 1, 1 << 15, &width) || parse_i64(argv[3], 1, 1 << 15, &height) || parse_f64(argv[4], 1e-3, 1e6, &fps)) {
		fputs(FILM_ENCODER ": a part of ddm-play(1), which starts it\n", stderr);
		return ERR_USAGE;
	}
	av_log_set_level(AV_LOG_QUIET);
	f.width = (int)width;
	f.height = (int)height;
	f.rate = av_d2q(fps, 1000000);
	rc = make_film(&f);
	film_release(&f);
	return rc ? ERR_UNAVAILABLE : 0;
}
