/* Inputs that are not files of this machine: "pipe:COMMAND", "http://..", "https://.." and "s3://BUCKET/KEY", and the settings for them. */
#ifndef DDM_FILE_REMOTEINPUT_H
#define DDM_FILE_REMOTEINPUT_H

#include <stdint.h>

/* A zeroed struct gives the defaults. Texts are borrowed until the process ends. */
struct remote_options {
	const char *cache;                   /* folder for blocks of remote files (file/blockcache.h); NULL: no cache */
	uint64_t cache_bytes;                /* its largest size; 0: 10 GiB */
	double timeout;                      /* seconds in which 1000 bytes a second must come, the connection included; 0: 30 */
	int tries;                           /* attempts until a request has failed; 0: 5 */
	const char *certificates;            /* PEM file of the authorities that https trusts; NULL: the system's */
	const char *access_key, *secret_key; /* of S3; NULL: requests are not signed */
	const char *session_token;           /* of temporary S3 keys; NULL */
	const char *region;                  /* of S3; NULL: us-east-1 */
	const char *endpoint;                /* URL of a server with the protocol of S3; NULL: Amazon's */
};

/* Settings of this process. *o is copied. Call before the first remote input is opened and before other threads start. */
void remote_configure(const struct remote_options *o);
const struct remote_options *remote_settings(void); /* defaults filled in */

int remote_is_command(const char *path); /* 1: "pipe:COMMAND" */
int remote_is_url(const char *path);     /* 1: http, https or s3 */
int remote_is(const char *path);         /* 1: either */

/* The path for messages: of a URL without its query, which may hold a signature. Caller frees with mem_free. */
char *remote_shown(const char *path);

#endif
