/* Decodes a file or a filter graph into RGB frames with FFmpeg's libraries, 5.1 to 7. Runs in the decoder process only. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/opt.h>
#include <libavutil/random_seed.h>
#include <libswscale/swscale.h>

#include "cmd/ingest.h"
#include "cmd/ingest_output.h"

/* Replaces libavutil's function for filters that call it, so that a source filter without a seed gives the same frames in every run. libavutil's own
 * calls, for random default colours, are not replaced. */
uint32_t av_get_random_seed(void)
{
	return 1;
}

/* The allowed containers and codecs: none of them opens other files. */
static const char formats[] = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,ogg,ivf,gif,apng,yuv4mpegpipe,bmp_pipe,"
			      "tiff_pipe,png_pipe,jpeg_pipe,webp_pipe";
static const char codecs[] = "h264,hevc,av1,libdav1d,libaom-av1,vp8,vp9,mpeg1video,mpeg2video,mpeg4,mjpeg,ffv1,theora,prores,rawvideo,"
			     "png,apng,gif,bmp,tiff,webp";

void media_library_versions(struct str *out)
{
	str_printf(out, "libavcodec %u.%u.%u libavfilter %u.%u.%u libswscale %u.%u.%u", AV_VERSION_MAJOR(avcodec_version()),
	           AV_VERSION_MINOR(avcodec_version()), AV_VERSION_MICRO(avcodec_version()), AV_VERSION_MAJOR(avfilter_version()),
	           AV_VERSION_MINOR(avfilter_version()), AV_VERSION_MICRO(avfilter_version()), AV_VERSION_MAJOR(swscale_version()),
	           AV_VERSION_MINOR(swscale_version()), AV_VERSION_MICRO(swscale_version()));
}

/* The last error message of the libraries, which is more precise than the error code. */
static char complaint[300];

/* A filter that graphs may not use and that has logged something. Its own message, such as a file that cannot be opened, would hide the reason. */
static char unlisted[64];

static void on_log(void *object, int level, const char *fmt, va_list ap)
{
	const AVClass *class = object ? *(const AVClass **)object : NULL;

	if (class && class == avfilter_get_class() && ((AVFilterContext *)object)->filter &&
	    !filter_allowed(((AVFilterContext *)object)->filter->name))
		snprintf(unlisted, sizeof unlisted, "%s", ((AVFilterContext *)object)->filter->name);
	if (level > AV_LOG_ERROR)
		return;
	vsnprintf(complaint, sizeof complaint, fmt, ap);
	complaint[strcspn(complaint, "\n")] = 0;
}

/* Set an error with FFmpeg's description of the code rc and its last message. ENOMEM is ERR_NOMEM, any other code the error `as`. */
static int failed_as(struct err *e, int as, const char *what, int rc)
{
	char code[AV_ERROR_MAX_STRING_SIZE] = "";

	av_strerror(rc, code, sizeof code);
	return err_set(e, rc == AVERROR(ENOMEM) ? ERR_NOMEM : as, "%s: %s%s%s", what, code, *complaint ? ": " : "", complaint);
}

static int failed(struct err *e, const char *what, int rc)
{
	return failed_as(e, ERR_DATA, what, rc);
}

/* Callbacks through which FFmpeg reads the file. Its own protocols, which could open other files or network addresses, are not used. */
static int io_read(void *opaque, uint8_t *buf, int n)
{
	ssize_t got = read(*(int *)opaque, buf, (size_t)n);

	return got > 0 ? (int)got : got == 0 ? AVERROR_EOF : AVERROR(EIO);
}

static int64_t io_seek(void *opaque, int64_t offset, int whence)
{
	int fd = *(int *)opaque;
	off_t here, end;

	if (whence == AVSEEK_SIZE) {
		here = lseek(fd, 0, SEEK_CUR);
		end = lseek(fd, 0, SEEK_END);
		lseek(fd, here, SEEK_SET);
		return end < 0 ? AVERROR(EIO) : end;
	}
	here = lseek(fd, offset, whence & ~AVSEEK_FORCE);
	return here < 0 ? AVERROR(EIO) : here;
}

/* FFmpeg calls this to open a file that the input refers to. */
static int io_refuse(AVFormatContext *s, AVIOContext **pb, const char *url, int flags, AVDictionary **options)
{
	(void)s;
	(void)pb;
	(void)url;
	(void)flags;
	(void)options;
	return AVERROR(EPERM);
}

/* An open media file. */
struct input {
	int fd;
	AVIOContext *io;
	AVFormatContext *format;
	AVCodecContext *codec;
	AVStream *stream;
	AVPacket *packet;
	AVFrame *frame;
	double origin, ticks; /* time of the first frame in seconds; the next frame taken is at or after origin + ticks / fps */
	int64_t decoded;      /* number of frames decoded */
	int64_t start;        /* time of the file's beginning in microseconds, which times of frames count from */
};

static void input_release(struct input *in)
{
	av_frame_free(&in->frame);
	av_packet_free(&in->packet);
	avcodec_free_context(&in->codec);
	avformat_close_input(&in->format);
	if (in->io)
		av_freep(&in->io->buffer);
	avio_context_free(&in->io);
}

static int format_open(struct input *in, struct err *e)
{
	int rc;

	in->io = avio_alloc_context(av_malloc(65536), 65536, 0, &in->fd, io_read, NULL, io_seek);
	in->format = avformat_alloc_context();
	in->packet = av_packet_alloc();
	in->frame = av_frame_alloc();
	if (!in->io || !in->io->buffer || !in->format || !in->packet || !in->frame)
		return err_set(e, ERR_NOMEM, "out of memory");
	in->format->pb = in->io;
	in->format->io_open = io_refuse;
	in->format->flags |= AVFMT_FLAG_BITEXACT | AVFMT_FLAG_CUSTOM_IO;
	in->format->max_streams = 64;
	in->format->max_probe_packets = 500;
	in->format->format_whitelist = av_strdup(formats);
	in->format->codec_whitelist = av_strdup(codecs);
	in->format->protocol_whitelist = av_strdup("none");
	if (!in->format->format_whitelist || !in->format->codec_whitelist || !in->format->protocol_whitelist)
		return err_set(e, ERR_NOMEM, "out of memory"); /* a list that is NULL would allow everything */
	rc = avformat_open_input(&in->format, NULL, NULL, NULL);
	if (rc < 0)
		return failed(e, "cannot be opened", rc);
	rc = avformat_find_stream_info(in->format, NULL);
	return rc < 0 ? failed(e, "cannot be read", rc) : 0;
}

static int codec_open(struct input *in, struct err *e)
{
	const AVCodec *codec;
	int rc = av_find_best_stream(in->format, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);

	if (rc < 0 || !codec)
		return err_set(e, ERR_DATA, rc == AVERROR_STREAM_NOT_FOUND ? "no video in it" : "a video codec that is not supported");
	in->stream = in->format->streams[rc];
	for (unsigned i = 0; i < in->format->nb_streams; i++)
		in->format->streams[i]->discard = in->format->streams[i] == in->stream ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
	in->codec = avcodec_alloc_context3(codec);
	if (!in->codec || avcodec_parameters_to_context(in->codec, in->stream->codecpar) < 0)
		return err_set(e, ERR_NOMEM, "out of memory");
	in->codec->thread_count = 1;
	in->codec->flags |= AV_CODEC_FLAG_BITEXACT;
	in->codec->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER;
	in->codec->pkt_timebase = in->stream->time_base;
	in->codec->codec_whitelist = av_strdup(codecs);
	if (!in->codec->codec_whitelist)
		return err_set(e, ERR_NOMEM, "out of memory");
	rc = avcodec_open2(in->codec, codec, NULL);
	return rc < 0 ? failed(e, "the decoder cannot be started", rc) : 0;
}

#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
static const int32_t *display_matrix(const AVStream *s)
{
	const AVPacketSideData *d = av_packet_side_data_get(s->codecpar->coded_side_data, s->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);

	return d && d->size >= 36 ? (const int32_t *)d->data : NULL;
}
#else
static const int32_t *display_matrix(const AVStream *s)
{
	size_t n = 0;
	const uint8_t *d = av_stream_get_side_data(s, AV_PKT_DATA_DISPLAYMATRIX, &n);

	return d && n >= 36 ? (const int32_t *)d : NULL;
}
#endif

/* Clockwise quarter turns that display a video upright. Phones store the sensor's picture with a display matrix. */
static int quarter_turns(const AVStream *s)
{
	const int32_t *m = display_matrix(s);
	double degrees = m ? -av_display_rotation_get(m) : 0;

	if (!(degrees > -1000 && degrees < 1000))
		return 0;
	return (((int)(degrees / 90 + (degrees < 0 ? -.5 : .5))) % 4 + 4) % 4;
}

/* Whether --fps F takes this frame: the first at or after each multiple of 1/F since the first frame. */
static int is_wanted(struct input *in, double fps)
{
	double rate = av_q2d(in->stream->avg_frame_rate), t, tolerance = 1e-4;

	if (fps <= 0)
		return 1;
	if (in->frame->best_effort_timestamp != AV_NOPTS_VALUE)
		t = in->frame->best_effort_timestamp * av_q2d(in->stream->time_base);
	else
		t = in->decoded / (rate > 0 ? rate : 25);
	if (in->decoded == 0)
		in->origin = t;
	if (t < in->origin + in->ticks / fps - tolerance)
		return 0;
	/* Not a loop over ticks, because timestamps in a file may be arbitrarily large. */
	in->ticks = floor((t - in->origin + tolerance) * fps) + 1;
	return 1;
}

/* Pass on all frames that the codec has ready: 0 if it needs more packets, 1 if no more frames are wanted, -1 on error. */
static int frames_drain(struct input *in, struct output *o, struct err *e)
{
	for (;;) {
		int rc = avcodec_receive_frame(in->codec, in->frame);

		if (rc == AVERROR(EAGAIN) || rc == AVERROR_EOF)
			return 0;
		if (rc < 0)
			return failed(e, "damaged", rc);
		if (in->frame->decode_error_flags || in->frame->flags & AV_FRAME_FLAG_CORRUPT)
			return err_set(e, ERR_DATA, "damaged at frame %lld%s%s", (long long)in->decoded, *complaint ? ": " : "", complaint);
		rc = o->limits->clips || is_wanted(in, o->limits->fps) ? output_add(o, in->frame, in->stream->time_base, in->start, e) : 0;
		in->decoded++;
		av_frame_unref(in->frame);
		if (rc)
			return rc;
	}
}

static int packets_decode(struct input *in, struct output *o, struct err *e)
{
	for (;;) {
		int rc = av_read_frame(in->format, in->packet), done;

		if (rc < 0 && rc != AVERROR_EOF)
			return failed(e, "damaged", rc);
		done = rc == AVERROR_EOF;
		if (!done && in->packet->stream_index != in->stream->index) {
			av_packet_unref(in->packet);
			continue;
		}
		if (!done && in->packet->flags & AV_PKT_FLAG_CORRUPT)
			return err_set(e, ERR_DATA, "damaged after frame %lld", (long long)in->decoded);
		rc = avcodec_send_packet(in->codec, done ? NULL : in->packet);
		av_packet_unref(in->packet);
		if (rc < 0 && rc != AVERROR_EOF)
			return failed(e, "damaged", rc);
		rc = frames_drain(in, o, e);
		if (rc)
			return rc < 0 ? -1 : 0;
		if (done)
			break;
	}
	if (!in->decoded)
		return err_set(e, ERR_DATA, "no frame in it");
	if (in->io->error < 0)
		return failed(e, "cannot be read", in->io->error);
	return output_end(o, e) < 0 ? -1 : 0;
}

int media_decode(const struct decode_limits *l, frame_put *put, void *arg, struct err *e)
{
	struct input in = {.fd = DECODER_MEDIA_FD};
	struct output o = {.put = put, .arg = arg, .limits = l};
	int rc;

	av_log_set_callback(on_log);
	rc = format_open(&in, e);
	if (!rc)
		rc = codec_open(&in, e);
	if (!rc) {
		in.start = in.format->start_time != AV_NOPTS_VALUE ? in.format->start_time : 0;
		o.quarter_turns = quarter_turns(in.stream);
		output_rate(&o, in.stream->time_base, in.stream->avg_frame_rate);
		rc = packets_decode(&in, &o, e);
	}
	output_release(&o);
	input_release(&in);
	return rc;
}

/* Connect the output of a parsed graph to a conversion to RGB and a sink, and configure the graph. */
static int graph_finish(AVFilterGraph *g, AVFilterInOut *end, AVFilterContext **sink, struct err *e)
{
	AVFilterContext *format = NULL;
	int rc = avfilter_graph_create_filter(&format, avfilter_get_by_name("format"), "rgb", "pix_fmts=rgb24", NULL, g);

	if (rc >= 0)
		rc = avfilter_graph_create_filter(sink, avfilter_get_by_name("buffersink"), "sink", NULL, NULL, g);
	if (rc >= 0)
		rc = avfilter_link(end->filter_ctx, end->pad_idx, format, 0);
	if (rc >= 0)
		rc = avfilter_link(format, 0, *sink, 0);
	if (rc >= 0)
		rc = avfilter_graph_config(g, NULL);
	return rc < 0 ? failed(e, "the graph cannot be started", rc) : 0;
}

static int graph_run(AVFilterContext *sink, AVFrame *frame, struct output *o, struct err *e)
{
	for (;;) {
		int rc = av_buffersink_get_frame(sink, frame);

		if (rc == AVERROR_EOF && !o->decoded)
			return err_set(e, ERR_DATA, "the graph makes no frames");
		if (rc == AVERROR_EOF)
			return output_end(o, e) < 0 ? -1 : 0;
		if (rc < 0)
			return failed(e, "the graph fails", rc);
		rc = output_add(o, frame, av_buffersink_get_time_base(sink), 0, e);
		av_frame_unref(frame);
		if (rc)
			return rc < 0 ? -1 : 0;
	}
}

static int filter_refused(const char *name, struct err *e)
{
	if (!strcmp(name, "movie") || !strcmp(name, "amovie"))
		return err_set(e, ERR_USAGE, "the filters movie and amovie are not allowed in graphs: name the file as a source");
	return err_set(e, ERR_USAGE, "the filter %s is not allowed in graphs: it uses more than pictures, or is unknown", name);
}

/* Check that every filter of a parsed graph is allowed. The text is not searched for names, because FFmpeg has its own quoting rules. */
static int filters_check(const AVFilterGraph *g, struct err *e)
{
	for (unsigned i = 0; i < g->nb_filters; i++)
		if (!filter_allowed(g->filters[i]->filter->name))
			return filter_refused(g->filters[i]->filter->name, e);
	return 0;
}

int media_render(const char *graph, const struct decode_limits *l, frame_put *put, void *arg, struct err *e)
{
	struct output o = {.put = put, .arg = arg, .limits = l};
	AVFilterGraph *g = avfilter_graph_alloc();
	AVFilterInOut *in = NULL, *out = NULL;
	AVFilterContext *sink = NULL;
	AVFrame *frame = av_frame_alloc();
	int rc;

	av_log_set_callback(on_log);
	if (!g || !frame)
		return err_set(e, ERR_NOMEM, "out of memory");
	*unlisted = 0;
	g->nb_threads = 1;
	g->thread_type = 0;
	g->scale_sws_opts = av_strdup("flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact");
	rc = avfilter_graph_parse2(g, graph, &in, &out);
	if (rc < 0)
		rc = *unlisted ? filter_refused(unlisted, e) : failed_as(e, ERR_USAGE, "not a filter graph", rc);
	else if (filters_check(g, e))
		rc = -1;
	else if (in || !out || out->next || avfilter_pad_get_type(out->filter_ctx->output_pads, out->pad_idx) != AVMEDIA_TYPE_VIDEO)
		rc = err_set(e, ERR_USAGE, "a graph must have no input and one video output");
	else
		rc = graph_finish(g, out, &sink, e);
	if (!rc) {
		output_rate(&o, av_buffersink_get_time_base(sink), av_buffersink_get_frame_rate(sink));
		rc = graph_run(sink, frame, &o, e);
	}
	output_release(&o);
	avfilter_inout_free(&in);
	avfilter_inout_free(&out);
	av_frame_free(&frame);
	avfilter_graph_free(&g);
	return rc;
}
