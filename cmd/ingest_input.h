/* Opens a media file with FFmpeg's libraries, 5.1 to 7, and keeps what they say. Runs in the decoder process only. */
#ifndef DDM_CMD_INGEST_INPUT_H
#define DDM_CMD_INGEST_INPUT_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

#include "core/err.h"

/* An open media file and the decoder of one of its streams. Zero-initialise and set fd. */
struct input {
	int fd;     /* of a file that can be read at any offset; its own offset is not used, because two decoders share it */
	int64_t at; /* the offset at which is read */
	AVIOContext *io;
	AVFormatContext *format;
	AVCodecContext *codec;
	AVStream *stream;
	AVPacket *packet;
	AVFrame *frame;
};

/* Open the file, with decoders of the list `codecs` ("h264,hevc,...") only. ERR_DATA: not a media file of an allowed format. Release with
 * input_release, also after failure. */
int input_open(struct input *in, const char *codecs, struct err *e);
/* Find the best stream of this type and open its decoder; packets of the other streams are discarded. Returns 1; 0 if there is no such stream; -1 on
 * error. ERR_DATA: no allowed decoder. */
int input_open_stream(struct input *in, enum AVMediaType type, const char *codecs, struct err *e);
void input_release(struct input *in);

/* Keep the messages of the libraries from now on, for media_failed. */
void media_listen(void);
/* The last error message of the libraries, which is more precise than an error code; empty if there is none. */
const char *media_complaint(void);
/* The name of a filter that graphs may not use and that has logged something since media_listen, or NULL. Its own message, such as a file that cannot
 * be opened, would hide the reason. */
const char *media_unlisted(void);
/* Set an error with FFmpeg's description of the code rc and its last message: -1. ENOMEM is ERR_NOMEM, any other code the error `as`. */
int media_failed_as(struct err *e, int as, const char *what, int rc);
int media_failed(struct err *e, const char *what, int rc); /* as ERR_DATA */

#endif
