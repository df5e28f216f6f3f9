/* Decompresses whole zstd and gzip files in memory, with a limit. */
#include "file/unpack.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "core/mem.h"

enum { PIECE = 1 << 20 };

/* The output so far; one byte beyond the limit shows that there is too much. */
struct room {
	uint8_t *p;
	size_t len, cap, want;
};

static size_t make_room(struct room *r)
{
	if (r->len == r->cap && r->cap <= r->want) {
		r->cap = r->cap ? 2 * r->cap : PIECE;
		r->cap = r->cap > r->want ? r->want + 1 : r->cap;
		r->p = mem_resize(r->p, r->cap, 1);
	}
	return r->cap - r->len;
}

/* NULL, or an error text. */
static const char *by_zstd(struct room *r, const uint8_t *data, size_t len)
{
	ZSTD_DStream *z = ZSTD_createDStream();
	ZSTD_inBuffer in = {data, len, 0};
	const char *wrong = z ? NULL : "out of memory";
	size_t rc = 1;

	while (!wrong && (in.pos < in.size || rc)) {
		ZSTD_outBuffer out = {NULL, make_room(r), 0};
		size_t was = in.pos;

		out.dst = r->p + r->len;
		if (!out.size)
			break;
		rc = ZSTD_decompressStream(z, &out, &in);
		r->len += out.pos;
		if (ZSTD_isError(rc))
			wrong = ZSTD_getErrorName(rc);
		else if (rc && in.pos == was && !out.pos)
			wrong = "it is cut off";
	}
	ZSTD_freeDStream(z);
	return wrong;
}

static const char *by_gzip(struct room *r, const uint8_t *data, size_t len)
{
	z_stream z = {.next_in = (uint8_t *)(uintptr_t)data};
	const char *wrong = NULL;
	size_t left = len;
	int rc = Z_OK;

	if (inflateInit2(&z, 31) != Z_OK)
		return "out of memory";
	while (!wrong && (left || z.avail_in || rc != Z_STREAM_END)) {
		size_t room = make_room(r);

		if (!room)
			break;
		if (rc == Z_STREAM_END && inflateReset(&z) != Z_OK)
			wrong = "a damaged stream";
		if (!z.avail_in) {
			z.avail_in = left < PIECE ? (uInt)left : PIECE;
			left -= z.avail_in;
		}
		z.avail_out = room < PIECE ? (uInt)room : PIECE;
		z.next_out = r->p + r->len;
		room = z.avail_out;
		rc = inflate(&z, Z_NO_FLUSH);
		r->len += room - z.avail_out;
		if (rc == Z_BUF_ERROR)
			wrong = "it is cut off";
		else if (rc != Z_OK && rc != Z_STREAM_END)
			wrong = z.msg ? z.msg : "a damaged stream";
	}
	inflateEnd(&z);
	return wrong;
}

uint8_t *unpack(enum unpack_kind kind, const void *data, size_t len, size_t want, const char *name, struct err *e)
{
	struct room r = {.want = want};
	const char *wrong = kind == UNPACK_ZSTD ? by_zstd(&r, data, len) : by_gzip(&r, data, len);

	if (wrong)
		err_set(e, ERR_DATA, "%s: %s: %s", name, kind == UNPACK_ZSTD ? "zstd" : "gzip", wrong);
	else if (r.len != want)
		err_set(e, ERR_DATA, "%s: holds %s%zu bytes, not %zu", name, r.len > want ? "more than " : "", r.len > want ? want : r.len, want);
	else
		return r.p;
	mem_free(r.p);
	return NULL;
}
