/* Opens a media file with FFmpeg's libraries. Runs in the decoder process only. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libavfilter/avfilter.h>
#include <libavutil/avstring.h>

#include "cmd/ingest.h"
#include "cmd/ingest_input.h"

/* The allowed containers: none of them opens other files. */
static const char formats[] = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,ogg,ivf,gif,apng,yuv4mpegpipe,bmp_pipe,"
			      "tiff_pipe,png_pipe,jpeg_pipe,webp_pipe";

static char complaint[300], unlisted[64];

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

void media_listen(void)
{
	*unlisted = *complaint = 0;
	av_log_set_callback(on_log);
}

const char *media_complaint(void)
{
	return complaint;
}

const char *media_unlisted(void)
{
	return *unlisted ? unlisted : NULL;
}

int media_failed_as(struct err *e, int as, const char *what, int rc)
{
	char code[AV_ERROR_MAX_STRING_SIZE] = "";

	av_strerror(rc, code, sizeof code);
	return err_set(e, rc == AVERROR(ENOMEM) ? ERR_NOMEM : as, "%s: %s%s%s", what, code, *complaint ? ": " : "", complaint);
}

int media_failed(struct err *e, const char *what, int rc)
{
	return media_failed_as(e, ERR_DATA, what, rc);
}

/* Callbacks through which FFmpeg reads the file. Its own protocols, which could open other files or network addresses, are not used. */
static int io_read(void *opaque, uint8_t *buf, int n)
{
	struct input *in = opaque;
	ssize_t got = pread(in->fd, buf, (size_t)n, in->at);

	in->at += got > 0 ? got : 0;
	return got > 0 ? (int)got : got == 0 ? AVERROR_EOF : AVERROR(EIO);
}

static int64_t io_seek(void *opaque, int64_t offset, int whence)
{
	struct input *in = opaque;
	int64_t size = lseek(in->fd, 0, SEEK_END), to = offset; /* the sandbox does not allow what fstat calls */

	whence &= ~AVSEEK_FORCE;
	if (size < 0)
		return AVERROR(EIO);
	if (whence == AVSEEK_SIZE)
		return size;
	if (whence != SEEK_SET && __builtin_add_overflow(offset, whence == SEEK_CUR ? in->at : size, &to))
		return AVERROR(EINVAL);
	if (to < 0)
		return AVERROR(EINVAL);
	return in->at = to;
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

void input_release(struct input *in)
{
	av_frame_free(&in->frame);
	av_packet_free(&in->packet);
	avcodec_free_context(&in->codec);
	avformat_close_input(&in->format);
	if (in->io)
		av_freep(&in->io->buffer);
	avio_context_free(&in->io);
}

int input_open(struct input *in, const char *codecs, struct err *e)
{
	int rc;

	in->io = avio_alloc_context(av_malloc(65536), 65536, 0, in, io_read, NULL, io_seek);
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
		return media_failed(e, "cannot be opened", rc);
	rc = avformat_find_stream_info(in->format, NULL);
	return rc < 0 ? media_failed(e, "cannot be read", rc) : 0;
}

int input_open_stream(struct input *in, enum AVMediaType type, const char *codecs, struct err *e)
{
	const char *name = av_get_media_type_string(type);
	const AVCodec *codec = NULL;
	int rc = av_find_best_stream(in->format, type, -1, -1, &codec, 0);

	if (rc == AVERROR_STREAM_NOT_FOUND)
		return 0;
	if (rc < 0 || !codec || !av_match_list(codec->name, codecs, ','))
		return err_set(e, ERR_DATA, "its %s codec%s%s is not supported", name, codec ? " " : "", codec ? codec->name : "");
	in->stream = in->format->streams[rc];
	for (unsigned i = 0; i < in->format->nb_streams; i++)
		in->format->streams[i]->discard = in->format->streams[i] == in->stream ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
	in->codec = avcodec_alloc_context3(codec);
	if (!in->codec || avcodec_parameters_to_context(in->codec, in->stream->codecpar) < 0)
		return err_set(e, ERR_NOMEM, "out of memory");
	in->codec->thread_count = 1;
	in->codec->flags |= AV_CODEC_FLAG_BITEXACT;
	in->codec->pkt_timebase = in->stream->time_base;
	in->codec->codec_whitelist = av_strdup(codecs);
	if (!in->codec->codec_whitelist)
		return err_set(e, ERR_NOMEM, "out of memory");
	if (type == AVMEDIA_TYPE_VIDEO)
		in->codec->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER;
	rc = avcodec_open2(in->codec, codec, NULL);
	return rc < 0 ? media_failed(e, "the decoder cannot be started", rc) : 1;
}
