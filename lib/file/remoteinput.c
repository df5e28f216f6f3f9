/* Tells remote inputs from paths, and keeps the settings for them. */
#include "file/remoteinput.h"

#include <string.h>

#include "core/mem.h"

enum { TIMEOUT = 30, TRIES = 5 };

static struct remote_options settings = {.cache_bytes = (uint64_t)10 << 30, .timeout = TIMEOUT, .tries = TRIES, .region = "us-east-1"};

void remote_configure(const struct remote_options *o)
{
	settings = *o;
	if (!settings.cache_bytes)
		settings.cache_bytes = (uint64_t)10 << 30;
	if (settings.timeout <= 0)
		settings.timeout = TIMEOUT;
	if (settings.tries < 1)
		settings.tries = TRIES;
	if (!settings.region)
		settings.region = "us-east-1";
}

const struct remote_options *remote_settings(void)
{
	return &settings;
}

int remote_is_command(const char *path)
{
	return !strncmp(path, "pipe:", 5);
}

int remote_is_url(const char *path)
{
	return !strncmp(path, "http://", 7) || !strncmp(path, "https://", 8) || !strncmp(path, "s3://", 5);
}

int remote_is(const char *path)
{
	return remote_is_command(path) || remote_is_url(path);
}

char *remote_shown(const char *path)
{
	return remote_is_url(path) ? mem_strndup(path, strcspn(path, "?#")) : mem_strdup(path);
}
