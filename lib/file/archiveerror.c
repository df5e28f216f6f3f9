/* libarchive's errors in the toolkit's words. */
#include "file/archiveerror.h"

#include <archive.h>
#include <errno.h>
#include <string.h>

/* libarchive's messages may contain bytes of the file and its function names, so they are replaced. */
static const char *archive_words(const char *text)
{
	static const struct {
		const char *theirs, *ours;
	} words[] = {
	    {"trunc", "cut short"},
	    {"premature end", "cut short"},
	    {"checksum", "damaged: a checksum is wrong"},
	    {"crc", "damaged: a checksum is wrong"},
	    {"unrecognized archive", "not a tar"},
	    {"memory limit", "it needs too much memory to decompress"},
	    {"allocate", "out of memory"},
	    {"out of memory", "out of memory"},
	};

	for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
		if (strcasestr(text, words[i].theirs))
			return words[i].ours;
	return "damaged";
}

int archive_error(struct archive *a, const char *where, int64_t at, struct err *e)
{
	return err_set(e, archive_errno(a) == ENOMEM ? ERR_NOMEM : ERR_DATA, "%s: at byte %lld of the tar: %s", where, (long long)at,
	               archive_words(archive_error_string(a)));
}
