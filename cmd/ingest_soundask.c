/* Starts decoders of sound and asks them for the sound of clips. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/ingest_sound.h"
#include "core/clock.h"
#include "core/mem.h"
#include "file/flac.h"

#define MEMORY_BASE \
	((uint64_t)64 << 20) /* for FFmpeg 5.1; 44 MiB suffice for AAC, Opus, FLAC and PCM, 32 MiB of them are the data of its libraries */

struct sounder {
	struct decoder d;
	struct sound_options options;
	uint64_t memory;
	int64_t most;
	int media; /* the file */
	int ask;   /* our end of the decoder's standard input; -1: none */
	char note[DECODER_TEXT_MAX + 1];
};

int64_t sound_samples(const struct clip_options *o, double fps)
{
	int64_t n = llround((double)o->frames / fps * (double)o->sound.rate);

	return n > 0 ? n : 1;
}

uint64_t sound_memory(const struct sound_options *o, int64_t frames, double fps)
{
	double samples = (double)frames / fps * (double)o->rate;

	/* 2 bytes a sample and channel while it is decoded, 4 encoded and as much again where that grows, and one mark a sample */
	return MEMORY_BASE + (uint64_t)(samples * (10 * o->channels + 1));
}

static int start(struct sounder *s, struct err *e)
{
	int end[2], rc;
	char *argv[7] = {(char *)DECODER_NAME,
	                 (char *)(s->d.limits.bare ? SOUND_BARE : SOUND_SERVE),
	                 str_new("%lld", (long long)s->options.rate),
	                 str_new("%d", s->options.channels),
	                 str_new("%llu", (unsigned long long)s->memory),
	                 str_new("%lld", (long long)s->most),
	                 NULL};

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end)) {
		rc = err_set(e, ERR_UNAVAILABLE, "cannot start a decoder: %s", strerror(errno));
	} else {
		rc = decoder_spawn(&s->d, end[1], s->media, argv, e);
		close(end[1]);
		s->ask = end[0];
	}
	for (int i = 2; i < 6; i++)
		mem_free(argv[i]);
	return rc;
}

static void stop_process(struct sounder *s)
{
	decoder_kill(&s->d);
	if (s->ask >= 0)
		close(s->ask);
	s->ask = -1;
}

struct sounder *sounder_open(int fd, const char *name, const struct sound_options *o, const struct decode_limits *l, uint64_t memory, int64_t most,
                             struct err *e)
{
	struct sounder *s = mem_zalloc(1, sizeof *s);

	s->d = (struct decoder){.name = name, .gives = "sound", .limits = *l, .media = -1};
	s->options = *o;
	s->memory = memory;
	s->most = most;
	s->ask = -1;
	s->media = fcntl(fd, F_DUPFD_CLOEXEC, DECODER_MEDIA_FD + 1);
	if (s->media < 0)
		err_set(e, ERR_UNAVAILABLE, "cannot start a decoder: %s", strerror(errno));
	if (s->media >= 0 && !start(s, e))
		return s;
	sounder_close(s);
	return NULL;
}

void sounder_close(struct sounder *s)
{
	if (!s)
		return;
	stop_process(s);
	if (s->media >= 0)
		close(s->media);
	mem_free(s);
}

const char *sounder_note(const struct sounder *s)
{
	return *s->note ? s->note : NULL;
}

static int note_take(struct sounder *s, const struct sound_head *h, double *last_byte, int (*stop)(void), struct err *e)
{
	if (h->size > DECODER_TEXT_MAX)
		return decoder_nonsense(&s->d, e);
	memset(s->note, 0, sizeof s->note);
	if (decoder_receive(&s->d, s->note, h->size, last_byte, stop, e))
		return -1;
	for (char *c = s->note; *c; c++)
		if ((unsigned char)*c < 32 || (unsigned char)*c > 126)
			*c = '?';
	return 0;
}

/* Take the FLAC file of an answer, which must be what was asked for. */
static int clip_take(struct sounder *s, uint8_t **flac, size_t *len, const struct sound_head *h, int64_t count, double *last_byte, int (*stop)(void),
                     struct err *e)
{
	struct flac_info f;

	if (h->present < 0 || h->present > count || h->size > (uint64_t)(4 * count * s->options.channels) + 65536)
		return decoder_nonsense(&s->d, e);
	if (!h->size)
		return 0;
	*flac = mem_alloc(h->size);
	*len = h->size;
	if (decoder_receive(&s->d, *flac, h->size, last_byte, stop, e))
		return -1;
	if (flac_parse(&f, *flac, *len, s->d.name, e) || f.rate != s->options.rate || f.channels != s->options.channels || f.samples != count)
		return decoder_nonsense(&s->d, e);
	return 0;
}

/* Send the question and read up to its answer. */
static int ask_once(struct sounder *s, uint8_t **flac, size_t *len, double *present, const struct sound_ask *ask, int (*stop)(void), struct err *e)
{
	double last_byte = clock_seconds();
	struct sound_head h;

	send(s->ask, ask, sizeof *ask, MSG_NOSIGNAL); /* if it is dead, so says the pipe */
	for (;;) {
		if (decoder_receive(&s->d, &h, sizeof h, &last_byte, stop, e))
			return -1;
		if (h.magic != SOUND_MAGIC)
			return decoder_nonsense(&s->d, e);
		switch (h.kind) {
		case SOUND_BUSY:
			break;
		case SOUND_NOTE:
			if (note_take(s, &h, &last_byte, stop, e))
				return -1;
			break;
		case SOUND_FAILED:
			return decoder_receive_error(&s->d, h.size, h.present, &last_byte, stop, e);
		case SOUND_CLIP:
			*present = (double)h.present / (double)ask->count;
			return clip_take(s, flac, len, &h, ask->count, &last_byte, stop, e);
		default:
			return decoder_nonsense(&s->d, e);
		}
	}
}

/* A decoder that another process killed is started once more. */
int sounder_ask(struct sounder *s, uint8_t **flac, size_t *len, double *present, int64_t first, int64_t count, int (*stop)(void), struct err *e)
{
	struct sound_ask ask = {SOUND_MAGIC, first, count};

	for (;;) {
		int sig;

		*flac = NULL;
		*len = 0;
		if (!ask_once(s, flac, len, present, &ask, stop, e))
			return 0;
		mem_free(*flac);
		*flac = NULL;
		sig = s->d.killed;
		s->d.killed = 0;
		if (!sig)
			return -1;
		if (s->d.kills++)
			return err_set(e, ERR_UNAVAILABLE, "%s: its decoder of sound was killed twice, by another process or for lack of memory: %s",
			               s->d.name, strsignal(sig));
		stop_process(s);
		if (start(s, e))
			return -1;
	}
}
