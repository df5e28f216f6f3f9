/* Reads ranges of a file on a server. */
#include "file/httpfile.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/interrupt.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/blockcache.h"
#include "file/httplane.h"
#include "file/remoteinput.h"
#include "file/s3url.h"

/* PIECE: bytes at either end that are fetched at once and kept. RUN: most further blocks of the cache that a request asks for. */
enum { PIECE = 1 << 16, BLOCK = 1 << 18, RUN = 64, SLICE_US = 50000 };

struct piece {
	uint8_t *data;
	int64_t at;
	size_t len;
};

struct httpfile {
	char *url, *shown;
	int sign;
	struct http_answer first; /* to the first request: its validators and the size are those of the file */
	int64_t size;             /* -1: unknown */
	int no_ranges;            /* the server ignores them */
	struct blockcache cache;  /* folder NULL: none */
	char key[BLOCKCACHE_KEY];
	pthread_mutex_t lock; /* of what follows */
	struct piece head, tail;
	int trimmed;
	int64_t next; /* where the last read ended */
};

/* Wait before another attempt: half a second, then twice as long each time, or as long as the server asks, within the time limit. */
static int pause_before(int attempt, double asked, const char *shown, struct err *e)
{
	double limit = remote_settings()->timeout, seconds = .5 * (double)(1 << (attempt < 8 ? attempt : 8)), end;

	if (asked > seconds)
		seconds = asked;
	if (seconds > limit)
		seconds = limit;
	for (end = clock_seconds() + seconds; clock_seconds() < end; usleep(SLICE_US))
		if (interrupt_given())
			return err_set(e, ERR_AGAIN, "%s: interrupted", shown);
	return 0;
}

static int changed(const struct httpfile *f, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: has changed on the server while it was read", f->shown);
}

/* The first answer says what the file is. */
static int take_first(struct httpfile *f, const struct http_answer *a, struct err *e)
{
	if (a->status == 416 && a->total > 0)
		return err_set(e, ERR_DATA, "%s: the server refuses to send the first bytes of %lld", f->shown, (long long)a->total);
	f->first = *a;
	f->no_ranges = a->status == 200;
	f->size = a->status == 200 ? a->length : a->status == 416 ? 0 : a->total;
	return 0;
}

/* Check an answer to a request for bytes from `from` on. *skip: bytes of the body that come before these. */
static int check_answer(struct httpfile *f, const struct http_answer *a, int64_t from, int64_t to, int64_t *skip, struct err *e)
{
	int first = !f->first.status;

	*skip = 0;
	if (!first && (httpanswer_differs(&f->first, a) || a->status == 416))
		return changed(f, e);
	if (a->status == 206 && (a->from != from || (to >= 0 && a->to > to)))
		return err_set(e, ERR_DATA, "%s: the server sends bytes %lld to %lld where %lld to %lld were asked for", f->shown, (long long)a->from,
		               (long long)a->to, (long long)from, (long long)to);
	if (first)
		return take_first(f, a, e);
	if (f->size >= 0 && (a->status == 206 ? a->total : a->length) >= 0 && f->size != (a->status == 206 ? a->total : a->length))
		return changed(f, e);
	if (a->status == 206)
		return 0;
	if (!*f->first.etag && !*f->first.modified)
		return err_set(e, ERR_DATA,
		               "%s: cut off at byte %lld, and the server neither sends ranges nor says whether the file is still the same", f->shown,
		               (long long)from);
	*skip = from;
	return 0;
}

/* Ask for bytes from `from` to `to`, -1: all that follow. */
static int ask(struct httpfile *f, struct httplane *l, int64_t from, int64_t to, struct err *e)
{
	struct http_request r = {f->url, f->shown, NULL, from, to, f->sign};
	struct http_answer a;
	int64_t skip;
	size_t got = 1;

	if (f->first.status && from && httpanswer_is_strong(&f->first) && !f->sign)
		r.if_range = f->first.etag;
	if (httplane_begin(l, &r, &a, e) || check_answer(f, &a, from, to, &skip, e))
		return -1;
	for (; skip && got; skip -= (int64_t)got)
		if (httplane_take(l, NULL, skip < BLOCK ? (size_t)skip : BLOCK, &got, e))
			return -1;
	return 0;
}

/* Take n bytes of an answer, that begin at `at`. *n becomes the number that came; fewer only at the end of the file. 1: the connection was lost,
 * or the answer ended too early. */
static int take(struct httpfile *f, struct httplane *l, uint8_t *p, size_t *n, int64_t at, struct err *e)
{
	size_t want = *n, got;

	if (f->size >= 0 && (int64_t)want > f->size - at)
		want = (size_t)(f->size - at);
	for (*n = 0; *n < want; *n += got) {
		if (httplane_take(l, p + *n, want - *n, &got, e))
			return httplane_may_retry(l) ? 1 : -1;
		if (got)
			continue;
		if (f->size < 0 || at + (int64_t)*n >= f->size)
			return 0;
		err_set(e, ERR_UNAVAILABLE, "%s: the answer ended at byte %lld of %lld", f->shown, (long long)(at + (int64_t)*n), (long long)f->size);
		return 1;
	}
	return 0;
}

/* The last byte to ask for, when a read of n bytes at `at` follows the one before it: -1, the end of the file, or with a cache the last of the
 * blocks that it lacks, RUN at most. */
static int64_t ask_until(const struct httpfile *f, int64_t at, size_t n)
{
	int64_t first = at / BLOCK, last = first;

	if (!f->cache.folder)
		return -1;
	while (last - first < RUN && (last + 1) * BLOCK < f->size && !blockcache_has(&f->cache, f->key, last + 1))
		last++;
	return last == first ? at + (int64_t)n - 1 : (last + 1) * BLOCK < f->size ? (last + 1) * BLOCK - 1 : f->size - 1;
}

/* Fetch up to n bytes at `at` from the server, on a connection whose answer may go on there. */
static int fetch_on(struct httpfile *f, struct httplane *l, int goes_on, uint8_t *p, size_t n, int64_t at, int follows, size_t *got, struct err *e)
{
	const struct remote_options *o = remote_settings();
	size_t enough = PIECE, since = 0; /* bytes that make up for a lost connection: more than come within the time limit at the least rate */

	if ((double)enough < 4000 * o->timeout)
		enough = (size_t)(4000 * o->timeout);
	for (int attempt = 0;; attempt++) {
		struct err why = {0};
		size_t k = n - *got;
		int64_t from = at + (int64_t)*got;
		int rc = 0;

		if (!goes_on && ask(f, l, from, follows ? ask_until(f, from, k) : from + (int64_t)k - 1, &why))
			rc = why.code == ERR_UNAVAILABLE && httplane_may_retry(l) ? 1 : -1;
		if (rc)
			k = 0;
		else
			rc = take(f, l, p + *got, &k, from, &why);
		*got += k;
		since += k;
		if (!rc)
			return 0;
		if (goes_on && !k) { /* the server has closed a connection that waited for us */
			goes_on = 0;
			attempt--;
			continue;
		}
		if (since >= enough)
			attempt = 0, since = 0;
		if (rc < 0 || attempt + 1 >= o->tries) {
			httplane_stop(l);
			if (attempt)
				return err_set(e, why.code, "%s (%d attempts)", why.msg, attempt + 1);
			return err_set(e, why.code, "%s", why.msg);
		}
		if (pause_before(k ? 0 : attempt, httplane_retry_after(l), f->shown, e))
			return -1;
		goes_on = 0;
	}
}

static int fetch(struct httpfile *f, void *p, size_t n, int64_t at, size_t *got, struct err *e)
{
	int goes_on, in_order, rc;
	struct httplane *l = httplane_borrow(f, at, &goes_on, e);

	*got = 0;
	if (!l)
		return err_prefix(e, "%s", f->shown);
	pthread_mutex_lock(&f->lock);
	in_order = f->next == at;
	pthread_mutex_unlock(&f->lock);
	if (!goes_on && f->no_ranges && at && !in_order)
		rc = err_set(e, ERR_DATA, "%s: the server does not send ranges of a file, and this one is not read in order", f->shown);
	else
		rc = fetch_on(f, l, goes_on, p, n, at, in_order && f->first.status, got, e);
	pthread_mutex_lock(&f->lock);
	f->next = at + (int64_t)*got;
	pthread_mutex_unlock(&f->lock);
	/* What else is on its way is for the read that follows. */
	if (!rc && *got == n && httplane_has_more(l))
		httplane_mark(l, f, at + (int64_t)n);
	else
		httplane_stop(l);
	httplane_return(l);
	return rc;
}

static void use_cache(struct httpfile *f)
{
	const struct remote_options *o = remote_settings();
	char *what;

	if (!o->cache || f->size < 0 || f->no_ranges || (!*f->first.etag && !*f->first.modified))
		return;
	f->cache = (struct blockcache){o->cache, o->cache_bytes};
	what = str_new("%s\n%s\n%s\n%lld", f->url, f->first.etag, f->first.modified, (long long)f->size);
	blockcache_key(f->key, what);
	mem_free(what);
}

struct httpfile *httpfile_open(const char *url, struct err *e)
{
	const struct remote_options *o = remote_settings();
	struct httpfile *f = mem_zalloc(1, sizeof *f);

	f->shown = remote_shown(url);
	f->sign = !strncmp(url, "s3:", 3);
	f->size = -1;
	pthread_mutex_init(&f->lock, NULL);
	f->url = f->sign ? s3url(url, o, e) : mem_strdup(url);
	f->head.data = mem_alloc(PIECE);
	if (!f->url || (o->cache && blockcache_open(&(struct blockcache){o->cache, 0}, e)) || fetch(f, f->head.data, PIECE, 0, &f->head.len, e)) {
		httpfile_close(f);
		return NULL;
	}
	use_cache(f);
	return f;
}

void httpfile_close(struct httpfile *f)
{
	if (!f)
		return;
	httplane_forget(f);
	pthread_mutex_destroy(&f->lock);
	mem_free(f->head.data);
	mem_free(f->tail.data);
	mem_free(f->url);
	mem_free(f->shown);
	mem_free(f);
}

int httpfile_has_ranges(const struct httpfile *f)
{
	return !f->no_ranges;
}

int64_t httpfile_size(const struct httpfile *f)
{
	return f->size;
}

void httpfile_trim(struct httpfile *f)
{
	pthread_mutex_lock(&f->lock);
	mem_free(f->head.data);
	mem_free(f->tail.data);
	f->head = f->tail = (struct piece){0};
	f->trimmed = 1;
	pthread_mutex_unlock(&f->lock);
}

/* Copy the part of a read that begins in a piece: its bytes, 0 if none. */
static size_t from_piece(struct httpfile *f, const struct piece *piece, uint8_t *p, size_t n, int64_t at)
{
	size_t k = 0;

	pthread_mutex_lock(&f->lock);
	if (piece->data && at >= piece->at && at < piece->at + (int64_t)piece->len) {
		k = (size_t)(piece->at + (int64_t)piece->len - at);
		k = k < n ? k : n;
		memcpy(p, piece->data + (at - piece->at), k);
	}
	pthread_mutex_unlock(&f->lock);
	return k;
}

/* A read near the end fetches all of the end, where shards have their index. */
static int want_tail(struct httpfile *f, int64_t at)
{
	int wanted;

	pthread_mutex_lock(&f->lock);
	wanted = !f->trimmed && !f->no_ranges && !f->tail.data && !f->cache.folder && f->size > PIECE && at >= f->size - PIECE && f->next != at;
	pthread_mutex_unlock(&f->lock);
	return wanted;
}

static int fetch_tail(struct httpfile *f, struct err *e)
{
	struct piece t = {mem_alloc(PIECE), f->size > PIECE ? f->size - PIECE : 0, 0};

	if (fetch(f, t.data, (size_t)(f->size - t.at), t.at, &t.len, e)) {
		mem_free(t.data);
		return -1;
	}
	pthread_mutex_lock(&f->lock);
	if (f->tail.data)
		mem_free(t.data);
	else
		f->tail = t;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

/* The part of a read that lies in one block, through the cache. */
static int read_block(struct httpfile *f, uint8_t *p, size_t n, int64_t at, size_t *got, struct err *e)
{
	int64_t index = at / BLOCK, begin = index * BLOCK;
	size_t len = f->size - begin < BLOCK ? (size_t)(f->size - begin) : BLOCK, k;
	uint8_t *block = mem_alloc(len);
	int rc = 0;

	if (!blockcache_get(&f->cache, f->key, index, block, len)) {
		rc = fetch(f, block, len, begin, &k, e);
		if (!rc && k == len)
			blockcache_put(&f->cache, f->key, index, block, len);
	}
	*got = begin + (int64_t)len - at < (int64_t)n ? (size_t)(begin + (int64_t)len - at) : n;
	if (!rc)
		memcpy(p, block + (at - begin), *got);
	mem_free(block);
	return rc;
}

int httpfile_read(struct httpfile *f, void *p, size_t n, int64_t offset, size_t *got, struct err *e)
{
	*got = 0;
	while (*got < n) {
		int64_t at = offset + (int64_t)*got;
		size_t left = n - *got, k;

		if (f->size >= 0 && at >= f->size)
			return 0;
		if (f->size >= 0 && (int64_t)left > f->size - at)
			left = (size_t)(f->size - at);
		if (want_tail(f, at) && fetch_tail(f, e))
			return -1;
		k = from_piece(f, &f->head, (uint8_t *)p + *got, left, at);
		if (!k)
			k = from_piece(f, &f->tail, (uint8_t *)p + *got, left, at);
		if (!k && (f->cache.folder ? read_block(f, (uint8_t *)p + *got, left, at, &k, e) : fetch(f, (uint8_t *)p + *got, left, at, &k, e)))
			return -1;
		if (!k)
			return 0;
		*got += k;
	}
	return 0;
}
