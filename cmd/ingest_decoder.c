/* The decoder of ddm-ingest, a program of its own that alone links FFmpeg: decodes one file or renders a few graphs in a sandbox, and writes the
 * frames to standard output. ddm-ingest starts it; see cmd/ingest.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ingest.h"
#include "core/mem.h"
#include "file/fileio.h"

/* State of a decoder process. */
struct server {
	uint64_t item; /* index of the graph that is rendered */
};

static int head_write(enum frame_kind kind, uint32_t w, uint32_t h, uint64_t item, uint64_t index, uint64_t size)
{
	struct frame_head head = {FRAME_MAGIC, kind, w, h, item, index, size};

	return fd_write(STDOUT_FILENO, &head, sizeof head);
}

static int frame_write(void *arg, const uint8_t *rgb, int width, int height, uint64_t index)
{
	struct server *s = arg;
	uint64_t size = (uint64_t)width * height * 3;

	return head_write(FRAME_PIXELS, width, height, s->item, index, size) || fd_write(STDOUT_FILENO, rgb, size);
}

static int error_write(const struct server *s, const struct err *e)
{
	size_t n = strlen(e->msg);

	n = n < DECODER_TEXT_MAX ? n : DECODER_TEXT_MAX;
	if (head_write(FRAME_ERROR, 0, 0, s->item, e->code, n) || fd_write(STDOUT_FILENO, e->msg, n))
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

/* ingest-decoder --serve-frames[-bare] FRAMES FPS MAX_PIXELS MEMORY [GRAPH ...], with the limits of struct decode_limits and of sandbox_enter;
 * without graphs the file is on descriptor DECODER_MEDIA_FD. ingest-decoder --versions prints those of FFmpeg's libraries. */
int main(int argc, char **argv)
{
	struct decode_limits l = {0};
	struct server s = {0};
	struct err e = {0};
	int64_t memory;
	int rc, bare = argc > 1 && !strcmp(argv[1], DECODER_BARE);

	mem_on_failure(out_of_memory);
	if (argc == 2 && !strcmp(argv[1], DECODER_VERSIONS))
		return print_versions();
	if (argc < 6 || (!bare && strcmp(argv[1], DECODER_SERVE)) || parse_i64(argv[2], 0, INT64_MAX, &l.frames) ||
	    parse_f64(argv[3], 0, 1e6, &l.fps) || parse_i64(argv[4], 1, INT64_MAX, &l.max_pixels) || parse_i64(argv[5], 0, INT64_MAX, &memory)) {
		fputs(DECODER_NAME ": a part of ddm-ingest(1), which starts it\n", stderr);
		return ERR_USAGE;
	}
	close_range(argc > 6 ? DECODER_MEDIA_FD : DECODER_MEDIA_FD + 1, ~0u, 0);
	if (sandbox_enter((uint64_t)memory, bare, &e))
		return error_write(&s, &e);
	rc = argc > 6 ? 0 : media_decode(&l, frame_write, &s, &e);
	for (int i = 6; i < argc && !rc; i++) {
		rc = media_render(argv[i], &l, frame_write, &s, &e);
		if (!rc)
			rc = head_write(FRAME_ITEM_END, 0, 0, s.item++, 0, 0);
	}
	if (rc)
		return error_write(&s, &e);
	return head_write(FRAME_END, 0, 0, s.item, 0, 0) ? 1 : 0;
}
