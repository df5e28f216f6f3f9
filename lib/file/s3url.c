/* Makes the URLs of objects in S3. */
#include "file/s3url.h"

#include <string.h>

#include "core/mem.h"
#include "core/str.h"

static void encode(struct str *out, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";

	for (; *text; text++)
		if (strchr(plain, *text))
			str_add(out, text, 1);
		else
			str_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

/* Lower-case letters, digits, dots and hyphens; some stores allow underscores. */
static int is_bucket(const char *name, size_t n)
{
	return n >= 3 && n <= 63 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") >= n;
}

char *s3url(const char *path, const struct remote_options *o, struct err *e)
{
	const char *bucket = path + 5, *key = strchr(bucket, '/');
	size_t n = key ? (size_t)(key - bucket) : strlen(bucket);
	struct str url = {0};

	if (!key || !key[1] || !is_bucket(bucket, n)) {
		err_set(e, ERR_USAGE, "%s: not s3://BUCKET/KEY with a bucket of 3 to 63 letters, digits, dots and hyphens", path);
		return NULL;
	}
	if (o->endpoint && strncmp(o->endpoint, "http://", 7) && strncmp(o->endpoint, "https://", 8)) {
		err_set(e, ERR_USAGE, "AWS_ENDPOINT_URL: %s begins neither with http:// nor with https://", o->endpoint);
		return NULL;
	}
	if (o->endpoint)
		str_printf(&url, "%.*s/%.*s", (int)(strlen(o->endpoint) - str_ends(o->endpoint, "/")), o->endpoint, (int)n, bucket);
	else if (memchr(bucket, '.', n))
		str_printf(&url, "https://s3.%s.amazonaws.com/%.*s", o->region, (int)n, bucket);
	else
		str_printf(&url, "https://%.*s.s3.%s.amazonaws.com", (int)n, bucket, o->region);
	encode(&url, key);
	return url.p;
}
