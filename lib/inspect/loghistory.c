/* Reads a training log into columns of numbers. */
#include "inspect/loghistory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

enum { TAIL_MOST = 256, BLOCK = 1 << 22, LINE_MOST = 1 << 26, COLUMNS_MOST = 1000 };

static void forget(struct loghistory *h)
{
	for (int i = 0; i < h->attempts; i++) {
		mem_free(h->attempt[i].host);
		mem_free(h->attempt[i].device);
	}
	for (int i = 0; i < h->columns; i++) {
		mem_free(h->column[i].name);
		mem_free(h->column[i].v);
	}
	mem_free(h->attempt);
	mem_free(h->column);
	mem_free(h->step);
	mem_free(h->of);
	mem_free(h->program);
	mem_free(h->unsaved);
	mem_free(h->tail);
}

static void begin(struct loghistory *h, char *path)
{
	*h = (struct loghistory){.path = path,
	                         .steps = -1,
	                         .samples = -1,
	                         .batch = -1,
	                         .parameters = NAN,
	                         .gflop_per_image = NAN,
	                         .seconds_before = NAN,
	                         .program = mem_strdup("")};
}

struct loghistory *loghistory_new(const char *path)
{
	struct loghistory *h = mem_alloc(sizeof *h);

	begin(h, mem_strdup(path));
	return h;
}

void loghistory_free(struct loghistory *h)
{
	if (!h)
		return;
	forget(h);
	mem_free(h->path);
	mem_free(h);
}

static int64_t integer_of(const json_t *o, const char *key, int64_t unknown)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) ? json_integer_value(v) : unknown;
}

static double number_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

static char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return mem_strdup(text ? text : "");
}

static void take_start(struct loghistory *h, const json_t *o)
{
	const json_t *stamp = json_object_get(o, "stamp");
	int64_t before = h->attempts ? h->attempt[h->attempts - 1].number : 0;

	h->attempt = mem_resize(h->attempt, (size_t)h->attempts + 1, sizeof *h->attempt);
	h->attempt[h->attempts++] = (struct log_attempt){.number = integer_of(o, "attempt", before + 1),
	                                                 .step = integer_of(o, "step", 0),
	                                                 .pid = integer_of(o, "pid", 0),
	                                                 .time = number_of(o, "time"),
	                                                 .host = text_of(o, "host"),
	                                                 .device = text_of(o, "device")};
	h->steps = integer_of(o, "steps", -1);
	h->samples = integer_of(o, "samples", -1);
	h->batch = integer_of(stamp, "batch", -1);
	h->parameters = number_of(o, "parameters");
	h->gflop_per_image = number_of(o, "gflop_per_image");
	h->seconds_before = number_of(o, "seconds_before");
	h->finished = 0;
	mem_free(h->program);
	h->program = text_of(stamp, "program");
}

static struct log_column *column_named(struct loghistory *h, const char *name)
{
	for (int i = 0; i < h->columns; i++)
		if (!strcmp(h->column[i].name, name))
			return &h->column[i];
	return NULL;
}

/* A column of NaN for all lines so far. */
static struct log_column *column_add(struct loghistory *h, const char *name)
{
	struct log_column *c;

	if (h->columns >= COLUMNS_MOST)
		return NULL;
	h->column = mem_resize(h->column, (size_t)h->columns + 1, sizeof *h->column);
	c = &h->column[h->columns++];
	*c = (struct log_column){mem_strdup(name), mem_alloc((size_t)h->room * sizeof *c->v)};
	for (int64_t i = 0; i < h->n; i++)
		c->v[i] = NAN;
	return c;
}

static void put_numbers(struct loghistory *h, json_t *o, const char *outer);

/* The numbers of objects that each have a time t, under "outer.t.inner". */
static void put_by_time(struct loghistory *h, json_t *times, const char *outer)
{
	for (size_t i = 0; i < json_array_size(times); i++) {
		json_t *o = json_array_get(times, i);
		const json_t *t = json_object_get(o, "t");
		char *name;

		if (!json_is_number(t))
			continue;
		name = str_new("%s.%g", outer, json_number_value(t));
		put_numbers(h, o, name);
		mem_free(name);
	}
}

/* Put the numbers of an object into the last line; those of an object in it under "outer.inner". The time of a list by time is in the name alone. */
static void put_numbers(struct loghistory *h, json_t *o, const char *outer)
{
	const char *key;
	json_t *v;

	json_object_foreach (o, key, v) {
		char *name = str_new("%s%s%s", outer, *outer ? "." : "", key);

		if (json_is_object(v) && !*outer) {
			put_numbers(h, v, name);
		} else if (json_is_array(v) && !*outer) {
			put_by_time(h, v, name);
		} else if ((json_is_number(v) || json_is_null(v)) && strcmp(name, "step") != 0 && !(*outer && !strcmp(key, "t"))) {
			struct log_column *c = column_named(h, name);

			c = c ? c : column_add(h, name);
			if (c)
				c->v[h->n - 1] = json_is_number(v) ? json_number_value(v) : NAN;
		}
		mem_free(name);
	}
}

static void grow(struct loghistory *h)
{
	if (h->n < h->room)
		return;
	h->room = h->room ? 2 * h->room : 64;
	h->step = mem_resize(h->step, (size_t)h->room, sizeof *h->step);
	h->of = mem_resize(h->of, (size_t)h->room, sizeof *h->of);
	for (int i = 0; i < h->columns; i++)
		h->column[i].v = mem_resize(h->column[i].v, (size_t)h->room, sizeof *h->column[i].v);
}

/* A step that is not above the last one means that a run repeated steps: the lines from that step on are dropped. */
static void take_step(struct loghistory *h, json_t *o, int64_t step)
{
	while (h->n && h->step[h->n - 1] >= step)
		h->n--;
	grow(h);
	h->step[h->n] = step;
	h->of[h->n] = h->attempts - 1;
	for (int i = 0; i < h->columns; i++)
		h->column[i].v[h->n] = NAN;
	h->n++;
	put_numbers(h, o, "");
}

static void take_line(struct loghistory *h, json_t *o)
{
	const char *event = json_string_value(json_object_get(o, "event"));
	double seconds = number_of(o, "seconds");

	if (!event) {
		const json_t *step = json_object_get(o, "step");

		if (json_is_integer(step))
			take_step(h, o, json_integer_value(step));
	} else if (!strcmp(event, "start")) {
		take_start(h, o);
	} else if (!strcmp(event, "end")) {
		h->finished = 1;
	} else if (!strcmp(event, "unsaved")) {
		mem_free(h->unsaved);
		h->unsaved = text_of(o, "why");
		h->unsaved_step = integer_of(o, "at", 0);
	}
	if (h->attempts && seconds >= 0)
		h->attempt[h->attempts - 1].seconds = seconds;
}

/* Take over a line of n bytes without its newline. An empty one is nothing. */
static void read_line(struct loghistory *h, const char *line, size_t n)
{
	json_t *o;
	struct err e = {0};

	h->lines++;
	if (!n)
		return;
	o = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(o))
		err_set(&e, ERR_DATA, "%s:%" PRId64 ": not a JSON object", h->path, h->lines);
	else if (jsonio_check_seals(line, n, h->path, NULL))
		err_set(&e, ERR_DATA, "%s:%" PRId64 ": altered after it was written: its seal does not hold", h->path, h->lines);
	if (e.code) {
		if (!h->damaged++)
			err_set(&h->why, ERR_DATA, "%s", e.msg);
	} else {
		take_line(h, o);
	}
	json_decref(o);
}

/* Read whole lines from descriptor fd, block by block. A block that holds no whole line is made longer. -1 with errno. */
static int read_lines(struct loghistory *h, int fd)
{
	size_t room = BLOCK;
	char *block = mem_alloc(room);
	int any = 0;

	for (;;) {
		ssize_t n = fd_pread(fd, block, room, h->offset);
		const char *last = n > 0 ? memrchr(block, '\n', (size_t)n) : NULL, *line = block;

		if (n < 0) {
			mem_free(block);
			return -1;
		}
		if (!last && (size_t)n == room && room < LINE_MOST) {
			room *= 2;
			block = mem_resize(block, room, 1);
			continue;
		}
		if (!last)
			break;
		for (const char *stop; line <= last; line = stop + 1) {
			stop = memchr(line, '\n', (size_t)(last + 1 - line));
			read_line(h, line, (size_t)(stop - line));
		}
		h->offset += last + 1 - block;
		h->tail_bytes = last + 1 - block < TAIL_MOST ? (int)(last + 1 - block) : TAIL_MOST;
		h->tail = mem_resize(h->tail, TAIL_MOST, 1);
		memcpy(h->tail, last + 1 - h->tail_bytes, (size_t)h->tail_bytes);
		any = 1;
	}
	mem_free(block);
	return any;
}

/* Whether the file is the one that was read, and its bytes up to the offset are still there. */
static int is_continued(const struct loghistory *h, int fd, const struct stat *st)
{
	char now[TAIL_MOST];

	if (!h->offset)
		return 1;
	return st->st_ino == h->inode && st->st_size >= h->offset &&
	       fd_pread(fd, now, (size_t)h->tail_bytes, h->offset - h->tail_bytes) == h->tail_bytes && !memcmp(now, h->tail, (size_t)h->tail_bytes);
}

int loghistory_update(struct loghistory *h, struct err *e)
{
	int fd = open(h->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc, again;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		err_errno(e, "%s", h->path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(e, ERR_DATA, "%s: not a file", h->path);
	}
	again = !is_continued(h, fd, &st);
	if (again) {
		forget(h);
		begin(h, h->path);
	}
	h->inode = st.st_ino;
	rc = read_lines(h, fd);
	if (rc < 0)
		err_errno(e, "%s", h->path);
	close(fd);
	return rc < 0 ? -1 : rc || again;
}

const struct log_column *loghistory_column(const struct loghistory *h, const char *name)
{
	for (int i = 0; i < h->columns; i++)
		if (!strcmp(h->column[i].name, name))
			return &h->column[i];
	return NULL;
}

double loghistory_last(const struct loghistory *h, const char *name, int finite)
{
	const struct log_column *c = loghistory_column(h, name);

	for (int64_t i = h->n; c && i > 0; i--)
		if (!finite || isfinite(c->v[i - 1]))
			return c->v[i - 1];
	return NAN;
}

double loghistory_seconds(const struct loghistory *h)
{
	double sum = 0;

	if (!h->attempts)
		return 0;
	if (isfinite(h->seconds_before))
		return h->seconds_before + h->attempt[h->attempts - 1].seconds;
	for (int i = 0; i < h->attempts; i++)
		sum += h->attempt[i].seconds;
	return sum;
}

double loghistory_time(const struct loghistory *h, int64_t i)
{
	const struct log_column *c = loghistory_column(h, "seconds");

	return c && h->of[i] >= 0 ? h->attempt[h->of[i]].time + c->v[i] : NAN;
}
