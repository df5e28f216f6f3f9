/* Presets and checks that transformers of patches share. */
#include "net/patches.h"

#include <string.h>

#include "core/str.h"

int patches_preset(const char *const *names, const char *text, int64_t *patch)
{
	const char *slash = strrchr(text, '/');

	for (int i = 0; slash && names[i]; i++)
		if (strlen(names[i]) == (size_t)(slash - text) && !memcmp(names[i], text, strlen(names[i])))
			return parse_i64(slash + 1, 1, 64, patch) ? -1 : i;
	return -1;
}

int patches_check(const struct net_config *c, int64_t patch, struct err *e)
{
	if (patch < 1 || c->size % patch)
		return err_set(e, ERR_USAGE, "patch %lld does not divide the size %lld", (long long)patch, (long long)c->size);
	return 0;
}

int patches_check_shape(int64_t hidden, int64_t heads, int64_t depth, struct err *e)
{
	if (hidden < 4 || hidden > 65536 || hidden % 4)
		return err_set(e, ERR_USAGE, "hidden width %lld is not a multiple of 4 in 4..65536", (long long)hidden);
	if (heads < 1 || hidden % heads)
		return err_set(e, ERR_USAGE, "%lld heads do not divide the hidden width %lld", (long long)heads, (long long)hidden);
	if (depth < 1 || depth > 1000)
		return err_set(e, ERR_USAGE, "depth %lld is not in 1..1000", (long long)depth);
	return 0;
}

int patches_check_tokens(int64_t tokens, struct err *e)
{
	if (tokens > PATCHES_TOKENS_MOST)
		return err_set(e, ERR_USAGE, "a sequence of %lld tokens is longer than %d", (long long)tokens, PATCHES_TOKENS_MOST);
	return 0;
}

int patches_check_noise(int64_t numbers, int64_t hidden, struct err *e)
{
	if (numbers <= hidden)
		return 0;
	return err_set(
	    e, ERR_USAGE,
	    "this network can learn neither noise nor velocity: a patch has %lld numbers, more than the network's width of %lld, so most of "
	    "the noise would be lost; use --predict x0, a smaller patch or a wider network",
	    (long long)numbers, (long long)hidden);
}
