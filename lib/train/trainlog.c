/* Appends to train.jsonl and reads it. */
#include "train/trainlog.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "file/commit.h"
#include "file/fileio.h"

/* The length up to and including the last newline. */
static off_t whole_lines(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char block[4096];

	while (end > 0) {
		off_t from = end > (off_t)sizeof block ? end - (off_t)sizeof block : 0;
		ssize_t n = fd_pread(fd, block, (size_t)(end - from), from);

		if (n < 0)
			return -1;
		for (; n > 0; n--)
			if (block[n - 1] == '\n')
				return from + n;
		end = from;
	}
	return end;
}

enum { LOG_MOST = 1 << 30 };

/* Whether a line belongs to a step after `step`, or to the end. */
static int is_later(const char *line, size_t n, int64_t step)
{
	json_t *o = json_loadb(line, n, 0, NULL);
	const json_t *at = json_object_get(o, "step");
	const char *event = json_string_value(json_object_get(o, "event"));
	int later;

	at = at ? at : json_object_get(o, "at");
	later = json_integer_value(at) > step || (event && !strcmp(event, "end"));
	json_decref(o);
	return later;
}

/* The first byte after the line that begins at `line`. */
static const char *line_end(const char *line, const char *end)
{
	const char *stop = memchr(line, '\n', (size_t)(end - line));

	return stop ? stop + 1 : end;
}

static const char *lines_until(const char *text, const char *end, int64_t step)
{
	const char *next;

	for (const char *line = text; line < end; line = next) {
		next = line_end(line, end);
		if (is_later(line, (size_t)(next - line), step))
			return line;
	}
	return end;
}

/* Add the seconds of an attempt, which its last line with "seconds" says (NULL: there is none). */
static void attempt_add(struct trainlog_past *past, const char *line, const char *end)
{
	json_t *o = line ? json_loadb(line, (size_t)(line_end(line, end) - line), 0, NULL) : NULL;

	past->seconds += json_number_value(json_object_get(o, "seconds"));
	json_decref(o);
}

static int line_has(const char *line, const char *next, const char *words)
{
	return memmem(line, (size_t)(next - line), words, strlen(words)) != NULL;
}

/* A start line counts the attempts and seconds before it, because lines of those may be gone. Those of earlier versions do not, and are counted. */
static void past_read(struct trainlog_past *past, const char *text, const char *end)
{
	const char *last = NULL, *next;

	for (const char *line = text; line < end; line = next) {
		next = line_end(line, end);
		if (line_has(line, next, "\"event\":\"start\"")) {
			json_t *o = json_loadb(line, (size_t)(next - line), 0, NULL);
			const json_t *attempt = json_object_get(o, "attempt"), *before = json_object_get(o, "seconds_before");

			attempt_add(past, last, end);
			past->attempts = attempt ? json_integer_value(attempt) : past->attempts + 1;
			past->seconds = before ? json_number_value(before) : past->seconds;
			last = NULL;
			json_decref(o);
		} else if (line_has(line, next, "\"seconds\":")) {
			last = line;
		}
	}
	attempt_add(past, last, end);
}

/* The length of the lines up to `step`; the whole length for a log that cannot be read or is too large. */
static off_t kept_length(const char *path, off_t whole, int64_t step, struct trainlog_past *past)
{
	struct filemap m;
	const char *text, *end;

	if (!whole || whole > LOG_MOST || filemap_open(&m, path, NULL))
		return whole;
	text = (const char *)m.data;
	end = text + ((off_t)m.len < whole ? (off_t)m.len : whole);
	past_read(past, text, end);
	whole = lines_until(text, end, step) - text;
	filemap_close(&m);
	return whole;
}

static int open_log_file(const char *path)
{
	return open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

int trainlog_open(const char *path, int64_t step, struct trainlog_past *past, struct err *e)
{
	int fd = open_log_file(path), fresh;
	off_t whole = fd < 0 ? -1 : whole_lines(fd), kept = 0;

	*past = (struct trainlog_past){0};
	if (whole >= 0)
		kept = kept_length(path, whole, step, past);
	/* A process that was stopped while another took over its folder may have decided to write a line before it was stopped: that line goes into
	 * the old file, which has no name any more. */
	if (whole >= 0 && !commit_head(path, kept, NULL) && (fresh = open_log_file(path)) >= 0) {
		close(fd);
		return fresh;
	}
	if (whole >= 0 && !ftruncate(fd, kept)) /* a full disk has no room for a copy */
		return fd;
	err_errno(e, "%s", path);
	if (fd >= 0)
		close(fd);
	return -1;
}

void trainlog_line(int fd, json_t *o)
{
	char *text = jsonio_sealed_line(o);
	size_t n = strlen(text);
	off_t before = lseek(fd, 0, SEEK_END);

	text[n] = '\n'; /* in place of the NUL: one write */
	if (fd_write(fd, text, n + 1) && before >= 0)
		(void)!ftruncate(fd, before);
	mem_free(text);
	json_decref(o);
}

/* The state of reading a log line by line. */
struct reading {
	json_t *start, *step, *validated, *end; /* the last line of each */
	double best;
	int64_t best_step, runs;
};

static void hold(json_t **place, json_t *o)
{
	json_decref(*place);
	*place = json_incref(o);
}

static void take_line(struct reading *r, json_t *o)
{
	const char *event = json_string_value(json_object_get(o, "event"));
	const json_t *val = json_object_get(o, "val_loss"), *attempt = json_object_get(o, "attempt");

	if (event && !strcmp(event, "start")) {
		hold(&r->start, o);
		hold(&r->end, NULL);
		r->runs = json_is_integer(attempt) ? json_integer_value(attempt) : r->runs + 1;
	} else if (event && !strcmp(event, "end")) {
		hold(&r->end, o);
	} else if (json_is_integer(json_object_get(o, "step"))) {
		hold(&r->step, o);
	}
	if (!json_is_number(val))
		return;
	hold(&r->validated, o);
	if (json_number_value(val) < r->best) {
		r->best = json_number_value(val);
		r->best_step = json_integer_value(json_object_get(o, "step"));
	}
}

static void copy(json_t *to, const json_t *from, const char *key, const char *as)
{
	json_t *v = json_object_get(from, key);

	if (v && !json_is_null(v))
		json_object_set(to, as, v);
}

/* Whether the last loss was not finite; a running training may still recover. */
static int has_diverged(const json_t *step)
{
	return json_is_null(json_object_get(step, "loss"));
}

static void reading_facts(json_t *o, const struct reading *r)
{
	int64_t step = json_integer_value(json_object_get(r->end ? r->end : r->step, "step"));
	int64_t steps = json_integer_value(json_object_get(r->start, "steps"));
	double batch = json_number_value(json_object_get(json_object_get(r->start, "stamp"), "batch"));
	double speed = json_number_value(json_object_get(r->step, "images_per_s"));

	json_object_set_new(o, "state", json_string(r->end ? "finished" : has_diverged(r->step) ? "diverged" : r->step ? "in training" : "begun"));
	json_object_set_new(o, "step", json_integer(step));
	copy(o, r->start, "steps", "steps");
	if (steps > 0)
		json_object_set_new(o, "percent", json_real(100. * (double)step / (double)steps));
	copy(o, r->step, "loss", "loss");
	copy(o, r->validated, "val_loss", "val_loss");
	if (r->validated) {
		json_object_set_new(o, "best_val_loss", json_real(r->best));
		json_object_set_new(o, "best_step", json_integer(r->best_step));
	}
	copy(o, r->step, "images_per_s", "images_per_s");
	copy(o, r->step, "percent_of_peak", "percent_of_peak");
	if (!r->end && speed > 0 && batch > 0 && steps > step)
		json_object_set_new(o, "eta_s", json_real((double)(steps - step) * batch / speed));
	copy(o, r->start, "parameters", "parameters");
	copy(o, r->start, "samples", "samples");
	json_object_set_new(o, "runs", json_integer(r->runs));
	copy(o, r->start, "stamp", "stamp");
}

/* Whether a line must be parsed: all but ordinary steps. */
static int matters(const char *line, size_t n)
{
	return memmem(line, n, "\"event\"", 7) || memmem(line, n, "\"val_loss\"", 10);
}

int trainlog_read(json_t *o, const char *text, size_t len, const char *name, int check, struct err *e)
{
	const char *last = len ? memrchr(text, '\n', len) : NULL, *end = last ? last + 1 : text, *passed = NULL;
	struct reading r = {.best = INFINITY};
	int64_t number = 0;
	int rc = check ? jsonio_check_seals(text, (size_t)(end - text), name, e) : 0;

	for (const char *line = text, *next; line < end && !rc; line = next) {
		size_t n = (size_t)((const char *)memchr(line, '\n', (size_t)(end - line)) - line);
		json_t *v = NULL;

		next = line + n + 1;
		number++;
		if (!check && !matters(line, n)) {
			passed = line;
			continue;
		}
		v = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
		if (json_is_object(v))
			take_line(&r, v);
		else if (check)
			rc = err_set(e, ERR_DATA, "%s:%lld: not a JSON object", name, (long long)number);
		if (!json_object_get(v, "event"))
			passed = NULL;
		json_decref(v);
	}
	if (passed) { /* the last line, if it was an ordinary step */
		json_t *v = json_loadb(passed, (size_t)((const char *)memchr(passed, '\n', (size_t)(end - passed)) - passed), 0, NULL);

		take_line(&r, v);
		json_decref(v);
	}
	if (r.start || r.step)
		reading_facts(o, &r);
	if (end < text + len)
		json_object_set_new(o, "torn", json_true());
	json_decref(r.start);
	json_decref(r.step);
	json_decref(r.validated);
	json_decref(r.end);
	return rc;
}

int trainlog_facts(json_t *o, const char *path, int check, struct err *e)
{
	size_t len;
	char *text = file_load(path, LOG_MOST, &len, e);
	int rc = text ? trainlog_read(o, text, len, path, check, e) : -1;

	mem_free(text);
	return rc;
}
