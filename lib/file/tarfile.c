/* Reads tar archives of any dialect and compression through libarchive. */
#include "file/tarfile.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/seal.h"
#include "file/archiveerror.h"
#include "file/bytesource.h"
#include "file/remoteinput.h"
#include "file/tarlinks.h"
#include "file/tarseal.h"

/* Two libarchive readers in a row: the outer one undoes compression, the inner one knows the dialects of tar. Between them we see
 * the plain stream, which shows whether the archive ends correctly; libarchive does not report that. */
struct tar_reader {
	char *where, *path;        /* path: to open the archive again; NULL where it was not opened by one */
	struct bytesource *source; /* NULL: in memory */
	struct err why;            /* of the last read of the source */
	int fd, close_fd;          /* of tar_open_fd, or -1; tar_close closes it */
	const uint8_t *memory;
	size_t memory_left;
	const uint8_t *piece; /* read and not yet handed to libarchive */
	size_t piece_len;
	struct archive *outer, *inner;
	uint8_t in[65536];
	uint8_t plain[65536];
	uint64_t total;    /* bytes of plain stream so far */
	uint64_t zeros;    /* zero bytes at its end */
	uint64_t last_end; /* where the last member ended */
	struct tar_limits limits;
	uint64_t members;
	uint8_t *data;
	size_t cap;
	struct str head; /* first bytes of the plain stream, until the stamp has been looked for */
	struct str name, stamp, link;
	int looked, at_end;
	const uint8_t *all; /* the memory, from its start */
	size_t all_len;
	off_t begin; /* of the tar in fd */
	struct tar_links links;
	int linked; /* links have been collected */
	int64_t passed;
	struct str passed_first;
	struct tarseal seal;
	struct tarend end;
};

static const uint64_t LINKED_MAX = (uint64_t)1 << 30;

enum { HEAD = 1 << 21 }; /* a pax header has at most half of that */

/* The next piece of the file in r->piece; at the end it is empty. */
static int fill(struct tar_reader *r)
{
	if (r->memory) {
		r->piece = r->memory;
		r->piece_len = r->memory_left < sizeof r->in ? r->memory_left : sizeof r->in;
		r->memory += r->piece_len;
		r->memory_left -= r->piece_len;
		tarend_add(&r->end, r->piece, r->piece_len);
		return 0;
	}
	/* Whole buffers, even from a pipe: the first one must show the magic. */
	if (bytesource_read(r->source, r->in, sizeof r->in, &r->piece_len, &r->why))
		return -1;
	r->piece = r->in;
	tarend_add(&r->end, r->piece, r->piece_len);
	return 0;
}

static la_ssize_t read_file(struct archive *a, void *arg, const void **buf)
{
	struct tar_reader *r = arg;
	size_t n;

	if (!r->piece && fill(r)) {
		archive_set_error(a, EIO, "read");
		return -1;
	}
	*buf = r->piece;
	n = r->piece_len;
	r->piece = NULL;
	return (la_ssize_t)n;
}

/* One filter, chosen by the magic. Letting libarchive choose from all would start external programs for some kinds, and takes
 * exponential time on a gzip that decompresses to itself. gzip alone is appended without libarchive's own look at the data,
 * which is where that time goes. */
static void add_filter(struct tar_reader *r)
{
	static const struct {
		const char *magic;
		size_t n;
		int (*add)(struct archive *);
	} kinds[] = {
	    {"BZh", 3, archive_read_support_filter_bzip2},
	    {"\xfd"
	     "7zXZ",
	     5, archive_read_support_filter_xz},
	    {"LZIP", 4, archive_read_support_filter_lzip},
	    {"\x28\xb5\x2f\xfd", 4, archive_read_support_filter_zstd},
	    {"\x04\x22\x4d\x18", 4, archive_read_support_filter_lz4},
	    {"\x02\x21\x4c\x18", 4, archive_read_support_filter_lz4},
	    {"\x1f\x9d", 2, archive_read_support_filter_compress},
	    {"\x5d\0\0", 3, archive_read_support_filter_lzma},
	};
	const uint8_t *p = r->piece;

	if (r->piece_len >= 2 && p[0] == 0x1f && p[1] == 0x8b) {
		archive_read_append_filter(r->outer, ARCHIVE_FILTER_GZIP);
		return;
	}
	/* A skippable frame first: zstd and lz4 share those. */
	if (r->piece_len >= 4 && (p[0] & 0xf0) == 0x50 && !memcmp(p + 1, "\x2a\x4d\x18", 3)) {
		archive_read_support_filter_zstd(r->outer);
		archive_read_support_filter_lz4(r->outer);
	}
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (r->piece_len >= kinds[i].n && !memcmp(p, kinds[i].magic, kinds[i].n))
			kinds[i].add(r->outer);
}

static void watch(struct tar_reader *r, size_t n)
{
	size_t tail = 0;

	while (tail < n && !r->plain[n - 1 - tail])
		tail++;
	r->zeros = tail == n ? r->zeros + n : tail;
	r->total += n;
	tarseal_add(&r->seal, r->plain, n);
	if (!r->looked && r->head.len < HEAD)
		str_add(&r->head, r->plain, n < HEAD - r->head.len ? n : HEAD - r->head.len);
}

static la_ssize_t read_plain(struct archive *a, void *arg, const void **buf)
{
	struct tar_reader *r = arg;
	size_t have = 0;

	/* Full blocks, whatever the decompressor hands out, so that the inner reader never sees a short one before the end. */
	while (have < sizeof r->plain) {
		la_ssize_t n = archive_read_data(r->outer, r->plain + have, sizeof r->plain - have);

		if (n == ARCHIVE_RETRY)
			continue;
		if (n < 0) {
			archive_set_error(a, EIO, "%s", archive_error_string(r->outer));
			return -1;
		}
		if (!n)
			break;
		have += (size_t)n;
	}
	watch(r, have);
	*buf = r->plain;
	return (la_ssize_t)have;
}

static int archive_failed(const struct tar_reader *r, struct archive *a, struct err *e)
{
	if (r->why.code)
		return err_set(e, r->why.code, "%s", r->why.msg);
	return archive_error(a, r->where, archive_filter_bytes(r->inner, 0), e);
}

static int start(struct tar_reader *r, struct err *e)
{
	struct archive_entry *entry;
	int rc;

	r->outer = archive_read_new();
	r->inner = archive_read_new();
	if (!r->outer || !r->inner)
		return err_set(e, ERR_NOMEM, "%s: no memory for a reader", r->where);
	if (fill(r))
		return err_set(e, r->why.code, "%s", r->why.msg);
	add_filter(r);
	archive_read_support_format_raw(r->outer);
	archive_read_support_format_empty(r->outer);
	archive_read_support_format_tar(r->inner);
	archive_read_set_options(r->inner, "tar:read_concatenated_archives");
	rc = archive_read_open(r->outer, r, NULL, read_file, NULL);
	if (rc == ARCHIVE_OK)
		rc = archive_read_next_header(r->outer, &entry);
	if (rc == ARCHIVE_EOF)
		return err_set(e, ERR_DATA, "%s: empty, not a tar", r->where);
	if (rc < ARCHIVE_WARN)
		return archive_failed(r, r->outer, e);
	if (archive_read_open(r->inner, r, NULL, read_plain, NULL) < ARCHIVE_WARN)
		return archive_failed(r, r->inner, e);
	return 0;
}

static struct tar_reader *reader_new(const char *name, const struct tar_limits *limits)
{
	struct tar_reader *r = mem_zalloc(1, sizeof *r);

	r->where = remote_shown(name);
	r->fd = -1;
	if (limits)
		r->limits = *limits;
	if (!r->limits.member)
		r->limits.member = (uint64_t)1 << 30;
	if (!r->limits.members)
		r->limits.members = (uint64_t)1 << 40;
	return r;
}

static struct tar_reader *started(struct tar_reader *r, struct err *e)
{
	int rc;

	mem_enter_exiting();
	rc = start(r, e);
	mem_leave_exiting();
	if (!rc)
		return r;
	tar_close(r);
	return NULL;
}

struct tar_reader *tar_open(const char *path, const struct tar_limits *limits, struct err *e)
{
	struct bytesource *source;
	struct tar_reader *r;

	if (!strcmp(path, "-"))
		return tar_open_fd(STDIN_FILENO, "standard input", limits, e);
	source = bytesource_open(path, e);
	if (!source)
		return NULL;
	r = reader_new(path, limits);
	r->path = mem_strdup(path);
	r->source = source;
	return started(r, e);
}

struct tar_reader *tar_open_fd(int fd, const char *name, const struct tar_limits *limits, struct err *e)
{
	struct tar_reader *r = reader_new(name, limits);

	r->fd = fd;
	r->source = bytesource_of_fd(fd, name);
	r->begin = lseek(fd, 0, SEEK_CUR);
	return started(r, e);
}

struct tar_reader *tar_open_memory(const void *data, size_t len, const char *name, const struct tar_limits *limits, struct err *e)
{
	struct tar_reader *r = reader_new(name, limits);

	r->memory = len ? data : (const uint8_t *)"";
	r->memory_left = len;
	r->all = r->memory;
	r->all_len = len;
	return started(r, e);
}

double tar_fraction(const struct tar_reader *r)
{
	int64_t size = r->source ? bytesource_size(r->source) : 0, at = r->begin > 0 ? r->begin : 0;

	if (size <= 0)
		return 0;
	at += bytesource_at(r->source);
	return at < size ? (double)at / (double)size : 1;
}

uint64_t tar_hash(const struct tar_reader *r)
{
	return r->source ? bytesource_hash(r->source) : 0;
}

void tar_close(struct tar_reader *r)
{
	if (!r)
		return;
	mem_enter_exiting();
	archive_read_free(r->inner);
	archive_read_free(r->outer);
	mem_leave_exiting();
	bytesource_close(r->source);
	if (r->close_fd && r->fd >= 0)
		close(r->fd);
	mem_free(r->data);
	mem_free(r->where);
	mem_free(r->path);
	str_release(&r->head);
	str_release(&r->name);
	str_release(&r->stamp);
	str_release(&r->link);
	str_release(&r->passed_first);
	tar_links_release(&r->links);
	tarseal_release(&r->seal);
	mem_free(r);
}

/* At the end of the stream: at least two zero blocks must follow the last member. */
static int check_end(struct tar_reader *r, struct err *e)
{
	uint64_t last = (r->last_end + 511) / 512 * 512;

	r->at_end = 1;
	if (r->source && bytesource_finish(r->source, e))
		return -1;
	if (!r->last_end && r->total > r->zeros)
		last = r->total - r->zeros; /* no member, but a global header */
	if (r->total < last + 1024 || r->zeros < r->total - last)
		return err_set(e, ERR_DATA, "%s: truncated: no end-of-archive blocks after byte %llu of the tar", r->where,
		               (unsigned long long)(r->last_end < r->total ? r->last_end : r->total));
	return tarseal_broken(&r->seal) ? seal_broken(r->where, e) : tarend_check(&r->end, r->where, str_text(&r->stamp), e);
}

static int grow(struct tar_reader *r, size_t need, struct err *e)
{
	size_t cap = r->cap ? r->cap : 65536;
	uint8_t *p;

	if (need <= r->cap)
		return 0;
	while (cap < need)
		cap *= 2;
	p = realloc(r->data, cap);
	if (!p)
		return err_set(e, ERR_NOMEM, "%s: %zu bytes for '%s' cannot be allocated", r->where, cap, str_text(&r->name));
	r->data = p;
	r->cap = cap;
	return 0;
}

/* Memory grows with the bytes actually read, not with the size in the header. */
static int read_content(struct tar_reader *r, size_t *size, struct err *e)
{
	size_t have = 0;

	for (;;) {
		la_ssize_t n;

		if (grow(r, have + 1, e))
			return -1;
		n = archive_read_data(r->inner, r->data + have, r->cap - have);
		if (n == ARCHIVE_RETRY)
			continue;
		if (n < 0)
			return archive_failed(r, r->inner, e);
		if (!n)
			break;
		have += (size_t)n;
		if (have > r->limits.member)
			return err_set(e, ERR_DATA, "%s: '%s' is larger than %llu bytes", r->where, str_text(&r->name),
			               (unsigned long long)r->limits.member);
	}
	*size = have;
	return 0;
}

static void look_for_stamp(struct tar_reader *r)
{
	struct tar_member m;
	struct str name = {0};
	size_t pos = 0;

	r->looked = 1;
	if (r->head.len >= 512 && r->head.p[156] == 'g')
		tar_parse((const uint8_t *)r->head.p, r->head.len, &pos, &m, &name, &r->stamp, r->where, NULL);
	str_release(&name);
	str_release(&r->head);
}

/* As stored, a leading "./" removed. */
static const char *plain_name(const char *name)
{
	while (!strncmp(name, "./", 2) && name[2])
		name += 2;
	return name;
}

static int take_name(struct tar_reader *r, struct archive_entry *entry, struct err *e)
{
	const char *name = archive_entry_pathname(entry);

	if (++r->members > r->limits.members)
		return err_set(e, ERR_DATA, "%s: more than %llu members", r->where, (unsigned long long)r->limits.members);
	if (!name)
		name = archive_entry_pathname_utf8(entry);
	if (!name)
		return err_set(e, ERR_DATA, "%s: at byte %lld: a name that cannot be read", r->where,
		               (long long)archive_read_header_position(r->inner));
	str_reset(&r->name);
	str_puts(&r->name, plain_name(name));
	return 0;
}

static int take_entry(struct tar_reader *r, struct archive_entry *entry, struct tar_member *m, struct err *e)
{
	int64_t size = archive_entry_size(entry);

	if (take_name(r, entry, e))
		return -1;
	if (size < 0 || (uint64_t)size > r->limits.member)
		return err_set(e, ERR_DATA, "%s: '%s' has %lld bytes, more than %llu", r->where, str_text(&r->name), (long long)size,
		               (unsigned long long)r->limits.member);
	m->offset = archive_read_header_position(r->inner);
	if (read_content(r, &m->size, e))
		return -1;
	m->name = str_text(&r->name);
	m->data = r->data;
	m->link = NULL;
	return 1;
}

void tar_pass(struct tar_reader *r, const char *name, const char *why)
{
	if (r->passed++ < 3)
		str_printf(&r->passed_first, "%s'%s' (%s)", r->passed_first.len ? ", " : "", name, why);
}

int64_t tar_passed(const struct tar_reader *r, const char **first)
{
	*first = str_text(&r->passed_first);
	return r->passed;
}

/* Open the same archive again from its beginning. */
static struct tar_reader *reopen(const struct tar_reader *r, struct err *e)
{
	struct tar_limits limits = r->limits;
	struct tar_reader *again;
	char path[64];
	struct stat st;

	limits.show_links = 1;
	if (r->all)
		return tar_open_memory(r->all, r->all_len, r->where, &limits, e);
	if (r->path && !remote_is_command(r->path))
		return tar_open(r->path, &limits, e);
	if (r->path || r->begin < 0 || fstat(r->fd, &st) || !S_ISREG(st.st_mode)) {
		err_set(e, ERR_DATA, "%s: '%s' is a hard link, which cannot be followed in a pipe: give the file by its name", r->where,
		        str_text(&r->name));
		return NULL;
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", r->fd);
	again = reader_new(r->where, &limits);
	again->close_fd = 1;
	again->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (again->fd < 0 || lseek(again->fd, r->begin, SEEK_SET) != r->begin) {
		err_errno(e, "%s: to be read a second time, for its hard links", r->where);
		tar_close(again);
		return NULL;
	}
	again->source = bytesource_of_fd(again->fd, r->where);
	return started(again, e);
}

static int read_links(struct tar_reader *r, struct tar_reader *first, struct tar_reader *second, struct err *e)
{
	struct tar_member m;
	int rc;

	while ((rc = tar_next(first, &m, e)) > 0)
		if (m.link)
			tar_links_learn(&r->links, m.name, m.link);
	if (rc)
		return -1;
	tar_links_resolve(&r->links);
	while ((rc = tar_next(second, &m, e)) > 0)
		if (!m.link && tar_links_keep(&r->links, &m, LINKED_MAX, r->where, e))
			return -1;
	return rc;
}

static int know_links(struct tar_reader *r, struct err *e)
{
	struct tar_reader *first = reopen(r, e), *second = first ? reopen(r, e) : NULL;
	int rc = second ? read_links(r, first, second, e) : -1;

	tar_close(first);
	tar_close(second);
	r->linked = 1;
	return rc;
}

/* A hard link is the member that it means; one that brings its own content, as pax can, is that. */
static int take_link(struct tar_reader *r, struct archive_entry *entry, struct tar_member *m, struct err *e)
{
	const struct tar_linked *to;

	if (archive_entry_size(entry) > 0)
		return take_entry(r, entry, m, e);
	if (take_name(r, entry, e) || archive_read_data_skip(r->inner) < ARCHIVE_WARN)
		return e && e->code ? -1 : archive_failed(r, r->inner, e);
	str_reset(&r->link);
	str_puts(&r->link, plain_name(archive_entry_hardlink(entry)));
	*m = (struct tar_member){str_text(&r->name), NULL, 0, archive_read_header_position(r->inner), str_text(&r->link)};
	if (r->limits.show_links)
		return 1;
	if (!r->linked && know_links(r, e))
		return -1;
	to = tar_links_find(&r->links, m->name);
	if (!to) {
		tar_pass(r, m->name, "a hard link to nothing in the archive");
		return 0;
	}
	m->data = to->data;
	m->size = to->size;
	m->link = NULL;
	return 1;
}

/* What is no file: a folder says nothing, others are counted. */
static int take_other(struct tar_reader *r, struct archive_entry *entry, struct err *e)
{
	unsigned type = archive_entry_filetype(entry);

	if (archive_read_data_skip(r->inner) < ARCHIVE_WARN)
		return archive_failed(r, r->inner, e);
	if (type != AE_IFDIR) {
		if (take_name(r, entry, e))
			return -1;
		tar_pass(r, str_text(&r->name), type == AE_IFLNK ? "a symbolic link" : type == AE_IFIFO ? "a FIFO" : "a device");
	}
	return 0;
}

static int next_member(struct tar_reader *r, struct tar_member *m, struct err *e)
{
	if (r->at_end)
		return 0;
	for (;;) {
		struct archive_entry *entry;
		int rc, got;

		do
			rc = archive_read_next_header(r->inner, &entry);
		while (rc == ARCHIVE_RETRY && archive_errno(r->inner) == EAGAIN);
		if (!r->looked)
			look_for_stamp(r);
		if (rc == ARCHIVE_EOF)
			return check_end(r, e);
		if (rc < ARCHIVE_WARN)
			return archive_failed(r, r->inner, e);
		if (archive_entry_hardlink(entry))
			got = take_link(r, entry, m, e);
		else if (archive_entry_filetype(entry) == AE_IFREG)
			got = take_entry(r, entry, m, e);
		else
			got = take_other(r, entry, e);
		r->last_end = (uint64_t)archive_filter_bytes(r->inner, 0);
		if (got)
			return got;
	}
}

int tar_next(struct tar_reader *r, struct tar_member *m, struct err *e)
{
	int rc;

	mem_enter_exiting();
	rc = next_member(r, m, e);
	mem_leave_exiting();
	return rc;
}

const char *tar_stamp(const struct tar_reader *r)
{
	return r->stamp.len ? r->stamp.p : NULL;
}
