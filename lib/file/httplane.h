/* Connections to HTTP servers, each with at most one answer on the way (libcurl). All files of a process share a few of them, and threads borrow
 * one for each request; an answer that is read in pieces stays on its connection between the calls. Callers use file/httpfile.h. */
#ifndef DDM_FILE_HTTPLANE_H
#define DDM_FILE_HTTPLANE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/httpanswer.h"

struct httplane;

struct http_request {
	const char *url;      /* http or https */
	const char *shown;    /* the URL for messages */
	const char *if_range; /* an ETag, or NULL */
	int64_t from, to;     /* the bytes asked for, both included; to -1: up to the end of the file */
	int sign;             /* sign as S3 demands, with the keys of remote_settings, and follow no redirection */
};

/* A connection for the calling thread: that on which an answer for `owner` goes on at byte `at` of its file, if there is one. *goes_on says so.
 * NULL: none can be made, *e says why. End with httplane_return. */
struct httplane *httplane_borrow(const void *owner, int64_t at, int *goes_on, struct err *e);
void httplane_return(struct httplane *l);
/* Drop the answers for an owner that is about to be freed, none of whose connections is borrowed. */
void httplane_forget(const void *owner);

/* Send a request, follow up to five redirections, and wait for the header of the answer: *a. A redirection from https to http, or to another
 * protocol, is ERR_DATA; a status of 400 or more ERR_NOINPUT or ERR_UNAVAILABLE with the URL and the status; no answer ERR_UNAVAILABLE. Status
 * 416 is no error. If httplane_may_retry says so, the same request may succeed later. */
int httplane_begin(struct httplane *l, const struct http_request *r, struct http_answer *a, struct err *e);
int httplane_may_retry(const struct httplane *l);
double httplane_retry_after(const struct httplane *l); /* seconds that the server asks to wait; 0: it asks for none */

/* Read up to n bytes of the answer's body into p (NULL: drop them), at least one unless it is over: *got. The same errors. */
int httplane_take(struct httplane *l, void *p, size_t n, size_t *got, struct err *e);

int httplane_has_more(const struct httplane *l); /* 0: the answer has ended, and all of it has been taken */

/* The answer's next byte is byte `at` of the file of `owner`: httplane_borrow finds it. */
void httplane_mark(struct httplane *l, const void *owner, int64_t at);
/* End the answer, and its connection with it if not all of it has been read. */
void httplane_stop(struct httplane *l);

#endif
