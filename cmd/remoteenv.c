/* Reads the environment variables for inputs on servers. */
#include "cmd/remoteenv.h"

#include <stdlib.h>

#include "core/str.h"
#include "file/remoteinput.h"

/* The value of the first of two variables (the second may be NULL) that is set and not empty, or NULL. */
static const char *variable(const char *name, const char *other)
{
	const char *value = getenv(name);

	if (value && *value)
		return value;
	return other ? variable(other, NULL) : NULL;
}

static int take_cache(struct remote_options *o, struct err *e)
{
	const char *size = variable("DDM_CACHE_SIZE", NULL);

	o->cache = variable("DDM_CACHE", NULL);
	if (!size)
		return 0;
	if (parse_size(size, &o->cache_bytes) || !o->cache_bytes)
		return err_set(e, ERR_USAGE, "DDM_CACHE_SIZE: '%.100s' is not a size such as 500M or 10G", size);
	return 0;
}

static int take_limits(struct remote_options *o, struct err *e)
{
	const char *timeout = variable("DDM_HTTP_TIMEOUT", NULL), *tries = variable("DDM_HTTP_TRIES", NULL);
	int64_t n = 0;

	if (timeout && (parse_duration(timeout, &o->timeout) || o->timeout < .1 || o->timeout > 3600))
		return err_set(e, ERR_USAGE, "DDM_HTTP_TIMEOUT: '%.100s' is not a duration between .1s and 1h", timeout);
	if (tries && parse_i64(tries, 1, 100, &n))
		return err_set(e, ERR_USAGE, "DDM_HTTP_TRIES: '%.100s' is not a number from 1 to 100", tries);
	o->tries = (int)n;
	return 0;
}

static void take_s3(struct remote_options *o)
{
	o->access_key = variable("AWS_ACCESS_KEY_ID", NULL);
	o->secret_key = variable("AWS_SECRET_ACCESS_KEY", NULL);
	if (!o->secret_key)
		o->access_key = NULL;
	o->session_token = variable("AWS_SESSION_TOKEN", NULL);
	o->region = variable("AWS_REGION", "AWS_DEFAULT_REGION");
	o->endpoint = variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
}

int remoteenv_read(struct err *e)
{
	struct remote_options o = {.certificates = variable("SSL_CERT_FILE", NULL)};

	take_s3(&o);
	if (take_cache(&o, e) || take_limits(&o, e))
		return -1;
	remote_configure(&o);
	return 0;
}
