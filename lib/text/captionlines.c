/* Reads a text of captions, one a line. */
#include "text/captionlines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/openread.h"
#include "text/unicode.h"

struct captionlines {
	FILE *file;
	char *path;
	long long line; /* last read, from 1 */
};

struct captionlines *captionlines_open(const char *path, int fd, struct err *e)
{
	int own = fd < 0 ? open_read(path, e) : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	FILE *f = own < 0 ? NULL : fdopen(own, "rb");
	struct captionlines *l;

	if (!f) {
		err_errno(e, "%s", path);
		if (own >= 0)
			close(own);
		return NULL;
	}
	l = mem_zalloc(1, sizeof *l);
	l->file = f;
	l->path = mem_strdup(path);
	return l;
}

void captionlines_free(struct captionlines *l)
{
	if (!l)
		return;
	fclose(l->file);
	mem_free(l->path);
	mem_free(l);
}

static int is_text(const char *p, size_t n)
{
	for (size_t at = 0, len; at < n; at += len)
		if (!p[at] || (utf8_read(p + at, n - at, &len) == 0xfffd && len == 1))
			return 0;
	return 1;
}

/* Bytes up to the end of the line go to *out, at most CAPTIONLINES_LONGEST and one. EOF: nothing was left. */
static int take_line(struct captionlines *l, struct str *out)
{
	char some[4096];
	size_t n = 0, taken = 0;
	int c;

	while ((c = getc_unlocked(l->file)) != EOF && c != '\n') {
		some[n++] = (char)c;
		if (n < sizeof some)
			continue;
		if (taken <= CAPTIONLINES_LONGEST)
			str_add(out, some, n);
		taken += n;
		n = 0;
	}
	if (taken <= CAPTIONLINES_LONGEST)
		str_add(out, some, n);
	return c == EOF && !(n + taken) ? EOF : 0;
}

int captionlines_next(struct captionlines *l, struct str *out, struct err *e)
{
	size_t was = out->len;
	int end = take_line(l, out);

	if (ferror(l->file))
		return err_errno(e, "%s: read", l->path);
	if (end)
		return 0;
	if (!l->line++ && out->len >= was + 3 && !memcmp(out->p + was, "\xef\xbb\xbf", 3)) {
		memmove(out->p + was, out->p + was + 3, out->len - was - 3);
		out->len -= 3;
	}
	if (out->len > was && out->p[out->len - 1] == '\r')
		out->len--;
	if (out->len - was > CAPTIONLINES_LONGEST)
		err_set(e, ERR_DATA, "%s: line %lld: longer than %d bytes", l->path, l->line, CAPTIONLINES_LONGEST);
	else if (!is_text(str_text(out) + was, out->len - was))
		err_set(e, ERR_DATA, "%s: line %lld: not a text in UTF-8", l->path, l->line);
	else
		return 1;
	return 2;
}
