/* Finds the kind of a file from its first bytes, and guesses from its name whether it should be a picture or video. */
#include <string.h>
#include <strings.h>

#include "cmd/ingest.h"
#include "file/tarfile.h"

/* Bytes at an offset that identify a format. */
struct magic {
	size_t at, len;
	const char *bytes;
	enum media_kind kind;
};

static const struct magic magics[] = {
    {0, 5, "GIF87", MEDIA_PICTURE},
    {0, 5, "GIF89", MEDIA_PICTURE},
    {0, 4, "II*\0", MEDIA_PICTURE},
    {0, 4, "MM\0*", MEDIA_PICTURE},
    {4, 8, "ftypavif", MEDIA_PICTURE},
    {4, 8, "ftypheic", MEDIA_PICTURE},
    {4, 8, "ftypheix", MEDIA_PICTURE},
    {4, 8, "ftypmif1", MEDIA_PICTURE},
    {4, 4, "ftyp", MEDIA_VIDEO},
    {4, 4, "moov", MEDIA_VIDEO},
    {4, 4, "mdat", MEDIA_VIDEO},
    {4, 4, "wide", MEDIA_VIDEO},
    {4, 4, "free", MEDIA_VIDEO},
    {4, 4, "skip", MEDIA_VIDEO},
    {0, 4, "\x1a\x45\xdf\xa3", MEDIA_VIDEO},
    {0, 4, "OggS", MEDIA_VIDEO},
    {0, 4, "DKIF", MEDIA_VIDEO},
    {0, 9, "YUV4MPEG2", MEDIA_VIDEO},
    {0, 4, "\x00\x00\x01\xba", MEDIA_VIDEO},
    {0, 4, "\x00\x00\x01\xb3", MEDIA_VIDEO},
};

enum media_kind media_sniff(const uint8_t *data, size_t len)
{
	if (still_sniff(data, len) != STILL_UNKNOWN)
		return MEDIA_STILL;
	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
		if (len >= magics[i].at + magics[i].len && !memcmp(data + magics[i].at, magics[i].bytes, magics[i].len))
			return magics[i].kind;
	if (len >= 12 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "AVI ", 4))
		return MEDIA_VIDEO;
	if (len >= 18 && data[0] == 'B' && data[1] == 'M' && data[15] == 0 && data[16] == 0)
		return MEDIA_PICTURE;
	if (len >= 377 && data[0] == 0x47 && data[188] == 0x47 && data[376] == 0x47)
		return MEDIA_VIDEO;
	return tar_sniff(data, len) ? MEDIA_TAR : MEDIA_NONE;
}

int media_named(const char *path)
{
	static const char *const ext[] = {"jpg", "jpeg", "png",  "webp", "gif", "bmp", "tif",  "tiff", "avif", "mp4", "m4v",
	                                  "mov", "mkv",  "webm", "avi",  "ts",  "mpg", "mpeg", "ogv",  "ivf",  "y4m"};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof ext / sizeof *ext; i++)
		if (!strcasecmp(dot + 1, ext[i]))
			return 1;
	return 0;
}
