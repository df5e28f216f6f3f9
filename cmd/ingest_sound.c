/* Decodes the sound of a film, places it in time, and encodes intervals of it. Runs in the decoder process only; the protocol is in
 * cmd/ingest_sound.h. */
#include <string.h>
#include <unistd.h>

#include <libavutil/channel_layout.h>
#include <libavutil/cpu.h>
#include <libavutil/mathematics.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>

#include "cmd/ingest_input.h"
#include "cmd/ingest_sound.h"
#include "core/mem.h"
#include "file/fileio.h"

/* The allowed codecs of sound: none of them opens other files. */
static const char codecs[] =
    "aac,mp3,mp3float,mp2,mp2float,opus,vorbis,flac,alac,ac3,eac3,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_f32le,"
    "pcm_u8,pcm_s8,pcm_alaw,pcm_mulaw,adpcm_ms,adpcm_ima_wav,adpcm_ima_qt";

enum {
	RATE_LOW = 1000, /* sampling rates of files */
	RATE_HIGH = 768000,
	CHANNELS_MOST = 64,
	FLAC_INFO = 34 /* bytes of the block STREAMINFO */
};

#define INDEX_MOST ((int64_t)1 << 56) /* larger indices come from wrong time stamps, which count as missing */

/* Sound of consecutive samples, at the rate and layout of the answers. */
struct stretch {
	int64_t first, n;
	int16_t *pcm; /* (n, channels) */
	size_t cap;   /* in samples */
};

struct listener {
	struct input in;
	int rate, channels;
	int has_sound; /* a stream is open */
	int flushing;  /* the decoder was told that the file ends */
	int ended;     /* no more sound comes */

	/* A segment: frames that follow each other without a gap, in one format. */
	SwrContext *swr;
	AVChannelLayout layout;
	int in_rate, in_format;
	int64_t begin, taken, made; /* index of its first sample; samples of the file that went in; samples that came out */
	int pending;                /* in.frame holds a frame that is not converted yet */

	int64_t known;            /* it is known which samples below this index the film has */
	struct stretch out, rest; /* what the converter gave last; what lies behind the window */

	/* The interval that is asked for. */
	int64_t first, count, most;
	int16_t *pcm;    /* (count, channels), 0 where there is no sound */
	uint8_t *has;    /* (count) 1: the film has this sample */
	int64_t busy_at; /* `known` at the last sign of getting on */
};

static int send_head(enum sound_kind kind, uint64_t size, int64_t present, const void *bytes)
{
	struct sound_head h = {SOUND_MAGIC, (uint64_t)kind, size, present};

	return fd_write(STDOUT_FILENO, &h, sizeof h) || fd_write(STDOUT_FILENO, bytes, size) ? -1 : 0;
}

static int send_text(enum sound_kind kind, const struct err *e)
{
	size_t n = strlen(e->msg);

	return send_head(kind, n < DECODER_TEXT_MAX ? n : DECODER_TEXT_MAX, e->code, e->msg);
}

int sound_fail(const struct err *e)
{
	send_text(SOUND_FAILED, e);
	return 1;
}

/* Copy what of the stretch lies in the window. */
static void window_fill(struct listener *s, const struct stretch *from)
{
	int64_t a = from->first > s->first ? from->first : s->first;
	int64_t b = from->first + from->n < s->first + s->count ? from->first + from->n : s->first + s->count;
	size_t c = (size_t)s->channels;

	if (a >= b)
		return;
	memcpy(s->pcm + (size_t)(a - s->first) * c, from->pcm + (size_t)(a - from->first) * c, (size_t)(b - a) * c * sizeof *s->pcm);
	memset(s->has + (a - s->first), 1, (size_t)(b - a));
}

/* Move the window to the interval, and keep what it has of it. */
static void window_move(struct listener *s, int64_t first, int64_t count)
{
	size_t c = (size_t)s->channels, kept = 0, n = (size_t)count;
	int64_t by = first - s->first;

	if (by < s->count) {
		kept = (size_t)(s->count - by < count ? s->count - by : count);
		memmove(s->pcm, s->pcm + (size_t)by * c, kept * c * sizeof *s->pcm);
		memmove(s->has, s->has + by, kept);
	}
	memset(s->pcm + kept * c, 0, (n - kept) * c * sizeof *s->pcm);
	memset(s->has + kept, 0, n - kept);
	s->first = first;
	s->count = count;
	window_fill(s, &s->rest);
}

static void stretch_room(struct stretch *t, int64_t n, int channels)
{
	if ((size_t)n <= t->cap)
		return;
	t->cap = (size_t)n;
	t->pcm = mem_resize(t->pcm, t->cap * (size_t)channels, sizeof *t->pcm);
}

/* Place the n samples in `out`, which follow what the segment gave before. Where sounds overlap in time, the earlier counts. */
static void place(struct listener *s, int64_t n)
{
	size_t c = (size_t)s->channels;
	int64_t cut;

	s->out.first = s->begin + s->made;
	s->out.n = n;
	s->made += n;
	cut = s->known > s->out.first ? s->known - s->out.first : 0;
	if (cut >= n)
		return;
	memmove(s->out.pcm, s->out.pcm + (size_t)cut * c, (size_t)(n - cut) * c * sizeof *s->out.pcm);
	s->out.first += cut;
	s->out.n -= cut;
	s->known = s->out.first + s->out.n;
	window_fill(s, &s->out);
	if (s->known > s->first + s->count) {
		struct stretch swap = s->rest;

		s->rest = s->out;
		s->out = swap;
	}
}

/* Convert n samples of the frame, or with NULL what the converter still holds. */
static int convert(struct listener *s, const uint8_t **data, int n, struct err *e)
{
	int room = swr_get_out_samples(s->swr, n), got;

	if (room < 0)
		return media_failed(e, "the sound cannot be converted", room);
	stretch_room(&s->out, room + 1, s->channels);
	got = swr_convert(s->swr, (uint8_t *[]){(uint8_t *)s->out.pcm}, room + 1, data, n);
	if (got < 0)
		return media_failed(e, "the sound cannot be converted", got);
	s->taken += n;
	place(s, got);
	return 0;
}

/* The index of a frame's first sample by its time stamp. INT64_MIN: it has none. */
static int64_t stamp_index(const struct listener *s, const AVFrame *f)
{
	AVRational unit = s->in.stream->time_base;
	int64_t at = f->best_effort_timestamp;

	if (at == AV_NOPTS_VALUE || unit.num <= 0 || unit.den <= 0)
		return INT64_MIN;
	at = av_rescale_q(at, unit, (AVRational){1, s->rate});
	return at > INDEX_MOST || at < -INDEX_MOST ? INT64_MIN : at;
}

static int layout_of(AVChannelLayout *to, const AVFrame *f)
{
	if (f->ch_layout.order != AV_CHANNEL_ORDER_UNSPEC)
		return av_channel_layout_copy(to, &f->ch_layout);
	av_channel_layout_default(to, f->ch_layout.nb_channels);
	return 0;
}

/* Begin a segment with this frame at an index. */
static int segment_begin(struct listener *s, const AVFrame *f, int64_t at, struct err *e)
{
	AVChannelLayout to, from = {0};
	int rc;

	av_channel_layout_default(&to, s->channels);
	rc = layout_of(&from, f);
	if (rc >= 0)
		rc = swr_alloc_set_opts2(&s->swr, &to, AV_SAMPLE_FMT_S16, s->rate, &from, f->format, f->sample_rate, 0, NULL);
	if (rc >= 0)
		rc = av_opt_set_sample_fmt(s->swr, "internal_sample_fmt", AV_SAMPLE_FMT_FLTP, 0);
	if (rc >= 0)
		rc = swr_init(s->swr);
	if (rc >= 0)
		rc = av_channel_layout_copy(&s->layout, &f->ch_layout);
	av_channel_layout_uninit(&from);
	if (rc < 0)
		return media_failed(e, "the sound cannot be converted", rc);
	s->in_rate = f->sample_rate;
	s->in_format = f->format;
	s->begin = at;
	s->taken = s->made = 0;
	return 0;
}

static int segment_end(struct listener *s, struct err *e)
{
	int rc = convert(s, NULL, 0, e);

	swr_free(&s->swr);
	av_channel_layout_uninit(&s->layout);
	return rc;
}

/* Whether the frame, whose stamp says `at`, goes on from the segment. */
static int goes_on(const struct listener *s, const AVFrame *f, int64_t at)
{
	int64_t expected = s->begin + av_rescale(s->taken, s->rate, s->in_rate), off = at == INT64_MIN ? 0 : at - expected;

	return f->sample_rate == s->in_rate && f->format == s->in_format && !av_channel_layout_compare(&f->ch_layout, &s->layout) &&
	       off <= (int64_t)(SOUND_SLACK * s->rate) && off >= -(int64_t)(SOUND_SLACK * s->rate);
}

static int is_possible(const AVFrame *f)
{
	return f->nb_samples > 0 && f->sample_rate >= RATE_LOW && f->sample_rate <= RATE_HIGH && f->ch_layout.nb_channels > 0 &&
	       f->ch_layout.nb_channels <= CHANNELS_MOST;
}

/* Convert the frame that waits; without a stamp it follows the sound before. Or only end the segment before, if the frame does not go on from it. */
static int frame_take(struct listener *s, struct err *e)
{
	const AVFrame *f = s->in.frame;
	int64_t at = stamp_index(s, f), end = s->known > -INDEX_MOST ? s->known : 0;
	int rc = 0;

	if (s->swr && !goes_on(s, f, at))
		return segment_end(s, e);
	if (!s->swr)
		rc = segment_begin(s, f, at == INT64_MIN ? end : at, e);
	if (!rc)
		rc = convert(s, (const uint8_t **)f->extended_data, f->nb_samples, e);
	av_frame_unref(s->in.frame);
	s->pending = 0;
	return rc;
}

/* Give the decoder its next packet. Where the file cannot be read any more, its sound ends. */
static void packet_next(struct listener *s)
{
	int rc = av_read_frame(s->in.format, s->in.packet);

	if (rc < 0) {
		s->flushing = 1;
		avcodec_send_packet(s->in.codec, NULL);
		return;
	}
	if (s->in.packet->stream_index == s->in.stream->index)
		avcodec_send_packet(s->in.codec, s->in.packet); /* a packet that is damaged leaves a gap */
	av_packet_unref(s->in.packet);
}

/* Go on by one frame, one packet, or the end of a segment. */
static int step(struct listener *s, struct err *e)
{
	int rc;

	if (s->pending)
		return frame_take(s, e);
	rc = avcodec_receive_frame(s->in.codec, s->in.frame);
	if (!rc) {
		s->pending = is_possible(s->in.frame);
		if (!s->pending)
			av_frame_unref(s->in.frame);
	} else if (rc == AVERROR(ENOMEM)) {
		return media_failed(e, "the sound", rc);
	} else if (s->flushing && rc != AVERROR_EOF && rc != AVERROR(EAGAIN)) {
		; /* a damaged frame among the last ones */
	} else if (s->flushing) {
		rc = s->swr ? segment_end(s, e) : 0;
		s->ended = 1;
		return rc;
	} else {
		packet_next(s);
	}
	return 0;
}

/* Append a FLAC file (RFC 9639) of the window. */
static int encode(struct str *out, const struct listener *s, struct err *e)
{
	const AVCodec *codec = avcodec_find_encoder(AV_CODEC_ID_FLAC);
	AVCodecContext *c = codec ? avcodec_alloc_context3(codec) : NULL;
	AVPacket *packet = av_packet_alloc();
	AVFrame *f = av_frame_alloc();
	static const uint8_t head[8] = {'f', 'L', 'a', 'C', 0x80 /* the last block of metadata */, 0, 0, FLAC_INFO};
	size_t info = out->len + sizeof head;
	int64_t at = 0;
	int rc = AVERROR(ENOMEM);

	str_add(out, head, sizeof head);
	str_add(out, (uint8_t[FLAC_INFO]){0}, FLAC_INFO);
	if (c && packet && f) {
		c->sample_rate = s->rate;
		c->sample_fmt = AV_SAMPLE_FMT_S16;
		c->flags |= AV_CODEC_FLAG_BITEXACT;
		c->time_base = (AVRational){1, s->rate};
		av_channel_layout_default(&c->ch_layout, s->channels);
		rc = avcodec_open2(c, codec, NULL);
	}
	while (rc >= 0 && rc != AVERROR_EOF) {
		int64_t n = s->count - at < c->frame_size ? s->count - at : c->frame_size;

		f->format = c->sample_fmt;
		f->sample_rate = s->rate;
		f->nb_samples = (int)n;
		f->pts = at;
		if (n && (rc = av_channel_layout_copy(&f->ch_layout, &c->ch_layout)) >= 0 && (rc = av_frame_get_buffer(f, 0)) >= 0) {
			memcpy(f->data[0], s->pcm + at * s->channels, (size_t)n * (size_t)s->channels * sizeof *s->pcm);
			at += n;
		}
		if (rc >= 0)
			rc = avcodec_send_frame(c, n ? f : NULL);
		av_frame_unref(f);
		while (rc >= 0 && (rc = avcodec_receive_packet(c, packet)) >= 0) {
			str_add(out, packet->data, (size_t)packet->size);
			av_packet_unref(packet);
		}
		rc = rc == AVERROR(EAGAIN) ? 0 : rc;
	}
	if (rc == AVERROR_EOF && c->extradata_size >= FLAC_INFO)
		memcpy(out->p + info, c->extradata, FLAC_INFO); /* complete at the end only: sizes and MD5 */
	av_frame_free(&f);
	av_packet_free(&packet);
	avcodec_free_context(&c);
	return rc == AVERROR_EOF ? 0 : codec ? media_failed(e, "FLAC", rc) : err_set(e, ERR_FAIL, "this FFmpeg has no encoder of FLAC");
}

/* Answer a question. */
static int answer(struct listener *s, struct err *e)
{
	struct str flac = {0};
	int64_t present = 0;
	int rc = 0;

	while (!rc && s->has_sound && !s->ended && s->known < s->first + s->count) {
		rc = step(s, e);
		if (!rc && s->known >= s->busy_at + s->rate) {
			s->busy_at = s->known;
			rc = send_head(SOUND_BUSY, 0, 0, "");
		}
	}
	for (int64_t i = 0; i < s->count; i++)
		present += s->has[i];
	if (!rc && present && (double)(s->count - present) <= SOUND_LACK * s->rate)
		rc = encode(&flac, s, e);
	if (!rc)
		rc = send_head(SOUND_CLIP, flac.len, present, str_text(&flac));
	str_release(&flac);
	return rc;
}

/* Open the file's sound. One that cannot be decoded is noted, and the file has no sound then. */
static int sound_open(struct listener *s, struct err *e)
{
	struct err why = {0};
	int rc = input_open(&s->in, codecs, &why);

	media_listen(); /* what was said of streams of pictures does not matter */
	if (!rc)
		rc = input_open_stream(&s->in, AVMEDIA_TYPE_AUDIO, codecs, &why);
	s->has_sound = rc > 0;
	if (rc < 0 && why.code == ERR_NOMEM)
		return err_set(e, ERR_NOMEM, "%s", why.msg);
	s->known = s->busy_at = -INDEX_MOST;
	return rc < 0 ? send_text(SOUND_NOTE, &why) : 0;
}

int sound_serve(int rate, int channels, int64_t most)
{
	struct listener s = {.in = {.fd = DECODER_MEDIA_FD}, .rate = rate, .channels = channels, .most = most, .first = -INDEX_MOST};
	struct err e = {0};
	struct sound_ask ask;
	int rc;

	media_listen();
	av_force_cpu_flags(0); /* vector code of different processors rounds differently */
	s.pcm = mem_try((size_t)most * (size_t)channels, sizeof *s.pcm, "the sound of a clip", &e);
	s.has = e.code ? NULL : mem_try((size_t)most, 1, "the sound of a clip", &e);
	rc = e.code ? -1 : sound_open(&s, &e);
	while (!rc && fd_read(STDIN_FILENO, &ask, sizeof ask) == (ssize_t)sizeof ask) {
		if (ask.magic != SOUND_MAGIC || ask.count < 1 || ask.count > most || ask.first < s.first || ask.first > INDEX_MOST) {
			rc = err_set(&e, ERR_FAIL, "a question that cannot be answered");
			break;
		}
		window_move(&s, ask.first, ask.count);
		rc = answer(&s, &e);
	}
	if (e.code)
		sound_fail(&e);
	swr_free(&s.swr);
	av_channel_layout_uninit(&s.layout);
	input_release(&s.in);
	mem_free(s.pcm);
	mem_free(s.has);
	mem_free(s.out.pcm);
	mem_free(s.rest.pcm);
	return rc ? 1 : 0;
}
