/* The decoder of ddm-ingest, a program of its own that alone links FFmpeg: decodes one file or renders a few graphs in a sandbox, and writes the
 * frames to standard output, or serves the sound of a file. ddm-ingest starts it; see cmd/ingest.h and cmd/ingest_sound.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ingest.h"
#include "cmd/ingest_sound.h"
#include "core/mem.h"
#include "file/fileio.h"

enum { GRAPHS_AT = 9 /* the first graph in argv */ };

/* State of a decoder process. */
struct server {
	uint64_t item; /* index of the graph that is rendered */
};

static int head_write(enum frame_kind kind, uint64_t item, uint64_t index, uint64_t size)
{
	struct frame_head head = {FRAME_MAGIC, size, {0}};

	head.facts.kind = kind;
	head.facts.item = item;
	head.facts.index = index;
	return fd_write(STDOUT_FILENO, &head, sizeof head);
}

static int frame_write(void *arg, const struct frame_facts *f, const uint8_t *pixels)
{
	struct server *s = arg;
	struct frame_head head = {FRAME_MAGIC, frame_size(f), *f};

	head.facts.item = s->item;
	return fd_write(STDOUT_FILENO, &head, sizeof head) || fd_write(STDOUT_FILENO, pixels, head.size);
}

static int error_write(const struct server *s, const struct err *e)
{
	size_t n = strlen(e->msg);

	n = n < DECODER_TEXT_MAX ? n : DECODER_TEXT_MAX;
	if (head_write(FRAME_ERROR, s->item, e->code, n) || fd_write(STDOUT_FILENO, e->msg, n))
		return 1;
	return 1;
}

/* The parent recognises this exit status (see died). */
static void out_of_memory(size_t size)
{
	(void)size;
	_exit(ERR_NOMEM);
}

static int print_versions(void)
{
	struct str versions = {0};

	media_library_versions(&versions);
	if (fputs(str_text(&versions), stdout) < 0 || fflush(stdout))
		return ERR_IO;
	str_release(&versions);
	return 0;
}

/* ingest-decoder --serve-sound[-bare] RATE CHANNELS MEMORY MOST, see cmd/ingest_sound.h. Returns the exit status; -1 if the arguments are others. */
static int main_sound(int argc, char **argv)
{
	struct err e = {0};
	int64_t rate, channels, memory, most;
	int bare = argc > 1 && !strcmp(argv[1], SOUND_BARE);

	if (argc != 6 || (!bare && strcmp(argv[1], SOUND_SERVE)) || parse_i64(argv[2], SOUND_RATE_LEAST, SOUND_RATE_MOST, &rate) ||
	    parse_i64(argv[3], 1, SOUND_CHANNELS_MOST, &channels) || parse_i64(argv[4], 0, INT64_MAX, &memory) ||
	    parse_i64(argv[5], 1, (int64_t)SOUND_SECONDS_MOST * SOUND_RATE_MOST, &most))
		return -1;
	close_range(DECODER_MEDIA_FD + 1, ~0u, 0);
	if (sandbox_enter((uint64_t)memory, bare, &e))
		return sound_fail(&e);
	return sound_serve((int)rate, (int)channels, most);
}

/* ingest-decoder --serve-frames[-bare] FRAMES FPS MAX_PIXELS MEMORY CLIPS GLIMPSES PLANES_SIZE [GRAPH ...], with the limits of struct decode_limits
 * and of sandbox_enter; PLANES_SIZE is `size` if `planes` is set, else 0; without graphs the file is on descriptor DECODER_MEDIA_FD.
 * ingest-decoder --versions prints those of FFmpeg's libraries. */
int main(int argc, char **argv)
{
	struct decode_limits l = {0};
	struct server s = {0};
	struct err e = {0};
	int64_t memory, clips, glimpses;
	int rc, bare = argc > 1 && !strcmp(argv[1], DECODER_BARE);

	mem_on_failure(out_of_memory);
	if (argc == 2 && !strcmp(argv[1], DECODER_VERSIONS))
		return print_versions();
	if ((rc = main_sound(argc, argv)) >= 0)
		return rc;
	if (argc < GRAPHS_AT || (!bare && strcmp(argv[1], DECODER_SERVE)) || parse_i64(argv[2], 0, INT64_MAX, &l.frames) ||
	    parse_f64(argv[3], 0, 1e6, &l.fps) || parse_i64(argv[4], 1, INT64_MAX, &l.max_pixels) || parse_i64(argv[5], 0, INT64_MAX, &memory) ||
	    parse_i64(argv[6], 0, 1, &clips) || parse_i64(argv[7], 0, GLIMPSES_TRANSNET, &glimpses) || parse_i64(argv[8], 0, INT32_MAX, &l.size)) {
		fputs(DECODER_NAME ": a part of ddm-ingest(1), which starts it\n", stderr);
		return ERR_USAGE;
	}
	l.clips = (int)clips;
	l.glimpses = (int)glimpses;
	l.planes = l.size > 0;
	close_range(argc > GRAPHS_AT ? DECODER_MEDIA_FD : DECODER_MEDIA_FD + 1, ~0u, 0);
	if (sandbox_enter((uint64_t)memory, bare, &e))
		return error_write(&s, &e);
	rc = argc > GRAPHS_AT ? 0 : media_decode(&l, frame_write, &s, &e);
	for (int i = GRAPHS_AT; i < argc && !rc; i++) {
		rc = media_render(argv[i], &l, frame_write, &s, &e);
		if (!rc)
			rc = head_write(FRAME_ITEM_END, s.item++, 0, 0);
	}
	if (rc)
		return error_write(&s, &e);
	return head_write(FRAME_END, s.item, 0, 0) ? 1 : 0;
}
