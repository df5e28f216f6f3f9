/* Addresses of objects in S3 and in stores with its protocol. */
#ifndef DDM_FILE_S3URL_H
#define DDM_FILE_S3URL_H

#include "core/err.h"
#include "file/remoteinput.h"

/* The URL of "s3://BUCKET/KEY". With an endpoint it is ENDPOINT/BUCKET/KEY, else https://BUCKET.s3.REGION.amazonaws.com/KEY, or
 * https://s3.REGION.amazonaws.com/BUCKET/KEY for a bucket with a dot, which no certificate covers. The key is percent-encoded as the signature
 * demands (RFC 3986, all but unreserved characters and slashes). ERR_USAGE if there is no bucket, no key, or an endpoint that is neither http
 * nor https. Caller frees with mem_free. */
char *s3url(const char *path, const struct remote_options *o, struct err *e);

#endif
