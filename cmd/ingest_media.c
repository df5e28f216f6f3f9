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
#include "cmd/ingest_input.h"
#include "cmd/ingest_output.h"

/* Replaces libavutil's function for filters that call it, so that a source filter without a seed gives the same frames in every run. libavutil's own
 * calls, for random default colours, are not replaced. */
uint32_t av_get_random_seed(void)
{
	return 1;
}

/* The allowed video codecs: none of them opens other files. */
static const char codecs[] = "h264,hevc,av1,libdav1d,libaom-av1,vp8,vp9,mpeg1video,mpeg2video,mpeg4,mjpeg,ffv1,theora,prores,rawvideo,"
			     "png,apng,gif,bmp,tiff,webp";

void media_library_versions(struct str *out)
{
	str_printf(out, "libavcodec %u.%u.%u libavfilter %u.%u.%u libswscale %u.%u.%u", AV_VERSION_MAJOR(avcodec_version()),
	           AV_VERSION_MINOR(avcodec_version()), AV_VERSION_MICRO(avcodec_version()), AV_VERSION_MAJOR(avfilter_version()),
	           AV_VERSION_MINOR(avfilter_version()), AV_VERSION_MICRO(avfilter_version()), AV_VERSION_MAJOR(swscale_version()),
	           AV_VERSION_MINOR(swscale_version()), AV_VERSION_MICRO(swscale_version()));
}

/* A video that is decoded. */
struct video {
	struct input in;
	double origin, ticks; /* time of the first frame in seconds; the next frame taken is at or after origin + ticks / fps */
	int64_t decoded;      /* number of frames decoded */
	int64_t start;        /* time of the file's beginning in microseconds, which times of frames count from */
};

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
static int is_wanted(struct video *v, double fps)
{
	double rate = av_q2d(v->in.stream->avg_frame_rate), t, tolerance = 1e-4;

	if (fps <= 0)
		return 1;
	if (v->in.frame->best_effort_timestamp != AV_NOPTS_VALUE)
		t = v->in.frame->best_effort_timestamp * av_q2d(v->in.stream->time_base);
	else
		t = v->decoded / (rate > 0 ? rate : 25);
	if (v->decoded == 0)
		v->origin = t;
	if (t < v->origin + v->ticks / fps - tolerance)
		return 0;
	/* Not a loop over ticks, because timestamps in a file may be arbitrarily large. */
	v->ticks = floor((t - v->origin + tolerance) * fps) + 1;
	return 1;
}

/* Pass on all frames that the codec has ready: 0 if it needs more packets, 1 if no more frames are wanted, -1 on error. */
static int frames_drain(struct video *v, struct output *o, struct err *e)
{
	for (;;) {
		int rc = avcodec_receive_frame(v->in.codec, v->in.frame);

		if (rc == AVERROR(EAGAIN) || rc == AVERROR_EOF)
			return 0;
		if (rc < 0)
			return media_failed(e, "damaged", rc);
		if (v->in.frame->decode_error_flags || v->in.frame->flags & AV_FRAME_FLAG_CORRUPT)
			return err_set(e, ERR_DATA, "damaged at frame %lld%s%s", (long long)v->decoded, *media_complaint() ? ": " : "",
			               media_complaint());
		rc = o->limits->clips || is_wanted(v, o->limits->fps) ? output_add(o, v->in.frame, v->in.stream->time_base, v->start, e) : 0;
		v->decoded++;
		av_frame_unref(v->in.frame);
		if (rc)
			return rc;
	}
}

static int packets_decode(struct video *v, struct output *o, struct err *e)
{
	for (;;) {
		int rc = av_read_frame(v->in.format, v->in.packet), done;

		if (rc < 0 && rc != AVERROR_EOF)
			return media_failed(e, "damaged", rc);
		done = rc == AVERROR_EOF;
		if (!done && v->in.packet->stream_index != v->in.stream->index) {
			av_packet_unref(v->in.packet);
			continue;
		}
		if (!done && v->in.packet->flags & AV_PKT_FLAG_CORRUPT)
			return err_set(e, ERR_DATA, "damaged after frame %lld", (long long)v->decoded);
		rc = avcodec_send_packet(v->in.codec, done ? NULL : v->in.packet);
		av_packet_unref(v->in.packet);
		if (rc < 0 && rc != AVERROR_EOF)
			return media_failed(e, "damaged", rc);
		rc = frames_drain(v, o, e);
		if (rc)
			return rc < 0 ? -1 : 0;
		if (done)
			break;
	}
	if (!v->decoded)
		return err_set(e, ERR_DATA, "no frame in it");
	if (v->in.io->error < 0)
		return media_failed(e, "cannot be read", v->in.io->error);
	return output_end(o, e) < 0 ? -1 : 0;
}

int media_decode(const struct decode_limits *l, frame_put *put, void *arg, struct err *e)
{
	struct video f = {.in = {.fd = DECODER_MEDIA_FD}};
	struct output o = {.put = put, .arg = arg, .limits = l};
	int rc, found;

	media_listen();
	rc = input_open(&f.in, codecs, e);
	if (!rc) {
		found = input_open_stream(&f.in, AVMEDIA_TYPE_VIDEO, codecs, e);
		rc = found > 0 ? 0 : found ? -1 : err_set(e, ERR_DATA, "no video in it");
	}
	if (!rc) {
		f.start = f.in.format->start_time != AV_NOPTS_VALUE ? f.in.format->start_time : 0;
		o.quarter_turns = quarter_turns(f.in.stream);
		output_rate(&o, f.in.stream->time_base, f.in.stream->avg_frame_rate);
		rc = packets_decode(&f, &o, e);
	}
	output_release(&o);
	input_release(&f.in);
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
	return rc < 0 ? media_failed(e, "the graph cannot be started", rc) : 0;
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
			return media_failed(e, "the graph fails", rc);
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

	media_listen();
	if (!g || !frame)
		return err_set(e, ERR_NOMEM, "out of memory");
	g->nb_threads = 1;
	g->thread_type = 0;
	g->scale_sws_opts = av_strdup("flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact");
	rc = avfilter_graph_parse2(g, graph, &in, &out);
	if (rc < 0)
		rc = media_unlisted() ? filter_refused(media_unlisted(), e) : media_failed_as(e, ERR_USAGE, "not a filter graph", rc);
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
