/* Writes the hash chain of a training. */
#include "train/chain.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "file/commit.h"
#include "file/fileio.h"

const char chain_zero[65] = "0000000000000000000000000000000000000000000000000000000000000000";

static void hash_bytes(const void *p, size_t n, char hex[65])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, hex);
}

/* Nothing has happened since the last line. */
static void forget(struct chain *c)
{
	memcpy(c->keys, chain_zero, sizeof c->keys);
	c->loss_sum = 0;
	c->loss_count = 0;
	str_reset(&c->steps);
}

int chain_create(struct chain *c, const char *path, struct err *e)
{
	c->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	memcpy(c->last, chain_zero, sizeof c->last);
	forget(c);
	return c->fd < 0 ? err_errno(e, "%s", path) : 0;
}

/* The offset behind the line with this hash; -1 if there is none. */
static off_t line_end(const char *text, size_t len, const char *hash)
{
	const char *end = text + len, *stop;
	char hex[65];

	for (const char *line = text; line < end && (stop = memchr(line, '\n', (size_t)(end - line))); line = stop + 1) {
		hash_bytes(line, (size_t)(stop - line), hex);
		if (!strcmp(hex, hash))
			return stop + 1 - text;
	}
	return -1;
}

/* -1 if the object is damaged. */
static int take_place(struct chain *c, const json_t *o)
{
	const char *line = NULL, *keys = NULL, *sum = NULL, *steps = NULL;

	if (jsonio_str(o, "line", 1, &line, "", NULL) || jsonio_str(o, "keys", 1, &keys, "", NULL) || jsonio_str(o, "sum", 1, &sum, "", NULL) ||
	    jsonio_str(o, "steps", 1, &steps, "", NULL) || jsonio_i64(o, "count", 1, 0, INT64_MAX, &c->loss_count, "", NULL) || strlen(line) != 64 ||
	    strlen(keys) != 64 || strlen(steps) % CHAIN_BRIEF || parse_f64(sum, -INFINITY, INFINITY, &c->loss_sum))
		return -1;
	memcpy(c->last, line, sizeof c->last);
	memcpy(c->keys, keys, sizeof c->keys);
	str_reset(&c->steps);
	str_puts(&c->steps, steps);
	return 0;
}

int chain_reopen(struct chain *c, const char *path, const char *place, struct err *e)
{
	json_t *o = json_loads(place, 0, NULL);
	size_t len = 0;
	char *text = NULL;
	off_t end = -1;
	int rc = 1;

	c->fd = -1;
	if (o && !take_place(c, o) && path_exists(path) && (text = file_load(path, CHAIN_MOST, &len, NULL)))
		end = line_end(text, len, c->last);
	if (end >= 0) {
		(void)!commit_head(path, end, NULL); /* as trainlog_open does, and for the same reason; a full disk has no room for it */
		c->fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
		rc = c->fd < 0 || ftruncate(c->fd, end) ? err_errno(e, "%s", path) : 0;
	}
	if (rc)
		chain_close(c);
	mem_free(text);
	json_decref(o);
	return rc;
}

void chain_close(struct chain *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	str_release(&c->steps);
	str_release(&c->unwritten);
}

char *chain_add(struct chain *c, json_t *o)
{
	char *text;

	json_object_set_new(o, "prev", json_string(c->last));
	text = jsonio_sealed_line(o);
	json_decref(o);
	hash_bytes(text, strlen(text), c->last);
	forget(c);
	str_puts(&c->unwritten, text);
	str_puts(&c->unwritten, "\n");
	return text;
}

int chain_flush(struct chain *c, struct err *e)
{
	const char *text = str_text(&c->unwritten);
	off_t before;

	if (!*text)
		return 0;
	before = lseek(c->fd, 0, SEEK_END);
	if (before < 0 || fd_write(c->fd, text, strlen(text))) {
		err_errno(e, "the hash chain");
		if (before >= 0)
			(void)!ftruncate(c->fd, before);
		return -1;
	}
	str_reset(&c->unwritten);
	return 0;
}

void chain_batch(struct chain *c, int64_t n, const char *(*key)(void *arg, int64_t i), void *arg)
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, c->keys, 64);
	for (int64_t i = 0; i < n; i++) {
		const char *k = key(arg, i);

		sha256_add(&s, k, strlen(k) + 1);
	}
	sha256_end(&s, c->keys);
}

void chain_step(struct chain *c, double loss, double norm, int finite)
{
	const double v[3] = {finite ? loss : 0, finite ? norm : 0, finite};

	if (finite) {
		c->loss_sum += loss;
		c->loss_count++;
	}
	str_printf(&c->steps, "%0*x", CHAIN_BRIEF, (unsigned)(hash64(v, sizeof v) & 0xffffffff));
}

int chain_sync(struct chain *c, struct err *e)
{
	return c->fd >= 0 && fdatasync(c->fd) ? err_errno(e, "the hash chain") : 0;
}

char *chain_place(const struct chain *c)
{
	json_t *o = json_object();
	char exact[32], *text;

	snprintf(exact, sizeof exact, "%a", c->loss_sum);
	json_object_set_new(o, "line", json_string(c->last));
	json_object_set_new(o, "keys", json_string(c->keys));
	json_object_set_new(o, "sum", json_string(exact));
	json_object_set_new(o, "count", json_integer(c->loss_count));
	json_object_set_new(o, "steps", json_string(str_text(&c->steps)));
	text = jsonio_line(o);
	json_decref(o);
	return text;
}

void chain_line_of(const char *place, char line[65])
{
	json_t *o = place ? json_loads(place, 0, NULL) : NULL;
	const char *hash = json_string_value(json_object_get(o, "line"));

	snprintf(line, 65, "%s", hash ? hash : "");
	json_decref(o);
}
