/* What the header of an HTTP answer says about a file (RFC 9110). */
#ifndef DDM_FILE_HTTPANSWER_H
#define DDM_FILE_HTTPANSWER_H

#include <stddef.h>
#include <stdint.h>

enum { HTTP_VALIDATOR = 256, HTTP_HEADER_MOST = 1 << 18 };

struct http_answer {
	int status;                    /* 0: no status line yet */
	int64_t length;                /* Content-Length; -1: none */
	int64_t from, to, total;       /* Content-Range, both ends included; -1: none, or unknown */
	char etag[HTTP_VALIDATOR];     /* with its quotes; "": none */
	char modified[HTTP_VALIDATOR]; /* Last-Modified; "": none */
	size_t bytes;                  /* of header lines so far */
};

void httpanswer_reset(struct http_answer *a);

/* Take a line of the header, its line end included. A status line begins a new answer. -1 if the header is larger than HTTP_HEADER_MOST, or a
 * Content-Length or Content-Range is malformed. */
int httpanswer_line(struct http_answer *a, const char *line, size_t n);

/* 1 if the validators of b contradict those of a: another ETag, or, where one of the two has no ETag, another Last-Modified. */
int httpanswer_differs(const struct http_answer *a, const struct http_answer *b);

int httpanswer_is_strong(const struct http_answer *a); /* 1: the ETag may stand in If-Range */

#endif
