/* Parses the header of an HTTP answer. */
#include "file/httpanswer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/str.h"

void httpanswer_reset(struct http_answer *a)
{
	*a = (struct http_answer){.length = -1, .from = -1, .to = -1, .total = -1};
}

/* A run of digits at *p, which is moved behind it; -1 if there is none, or the number is too large. */
static int64_t number_at(const char **p)
{
	char digits[20];
	size_t n = strspn(*p, "0123456789");
	int64_t v;

	if (!n || n >= sizeof digits)
		return -1;
	snprintf(digits, sizeof digits, "%.*s", (int)n, *p);
	*p += n;
	return parse_i64(digits, 0, INT64_MAX, &v) ? -1 : v;
}

/* "bytes 0-99/1234", "bytes 0-99/" and "*" for an unknown size, or, with status 416, "bytes" and "*" instead of the range. */
static int take_range(struct http_answer *a, const char *v)
{
	if (strncasecmp(v, "bytes ", 6))
		return -1;
	v += 6 + strspn(v + 6, " ");
	if (*v == '*') {
		v++;
	} else {
		a->from = number_at(&v);
		if (a->from < 0 || *v++ != '-')
			return -1;
		a->to = number_at(&v);
		if (a->to < a->from)
			return -1;
	}
	if (*v++ != '/')
		return -1;
	if (!strcmp(v, "*"))
		return 0;
	a->total = number_at(&v);
	return a->total < 0 || *v || a->to >= a->total ? -1 : 0;
}

static int take_length(struct http_answer *a, const char *v)
{
	a->length = number_at(&v);
	return a->length < 0 || *v ? -1 : 0;
}

/* "HTTP/1.1 206 Partial Content" */
static int take_status(struct http_answer *a, const char *line)
{
	size_t bytes = a->bytes;
	const char *v = strchr(line, ' ');
	int64_t status;

	httpanswer_reset(a);
	a->bytes = bytes;
	if (!v)
		return -1;
	v += strspn(v, " ");
	status = number_at(&v);
	if (status < 100 || status > 999)
		return -1;
	a->status = (int)status;
	return 0;
}

int httpanswer_line(struct http_answer *a, const char *line, size_t n)
{
	char text[1024], *value, *end;

	a->bytes += n;
	if (a->bytes > HTTP_HEADER_MOST)
		return -1;
	if (n >= sizeof text)
		return 0; /* no header that is read here is so long */
	memcpy(text, line, n);
	text[n] = 0;
	for (end = text + strlen(text); end > text && isspace((unsigned char)end[-1]); end--)
		;
	*end = 0;
	if (!strncmp(text, "HTTP/", 5))
		return take_status(a, text);
	value = strchr(text, ':');
	if (!value)
		return 0;
	*value++ = 0;
	value += strspn(value, " \t");
	if (!strcasecmp(text, "Content-Length"))
		return take_length(a, value);
	if (!strcasecmp(text, "Content-Range"))
		return take_range(a, value);
	if (!strcasecmp(text, "ETag") && strlen(value) < sizeof a->etag)
		snprintf(a->etag, sizeof a->etag, "%s", value);
	if (!strcasecmp(text, "Last-Modified") && strlen(value) < sizeof a->modified)
		snprintf(a->modified, sizeof a->modified, "%s", value);
	return 0;
}

int httpanswer_differs(const struct http_answer *a, const struct http_answer *b)
{
	if (*a->etag && *b->etag)
		return strcmp(a->etag, b->etag) != 0;
	return *a->modified && *b->modified && strcmp(a->modified, b->modified);
}

int httpanswer_is_strong(const struct http_answer *a)
{
	return *a->etag == '"';
}
