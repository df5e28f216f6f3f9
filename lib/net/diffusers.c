/* Reads the entries that all configurations of diffusers have in common. */
#include "net/diffusers.h"

#include <string.h>

#include "core/jsonio.h"

int diffusers_config(const json_t *o)
{
	return json_object_get(o, "_class_name") && !json_object_get(o, "model_type");
}

int diffusers_expect(const json_t *o, const char *key, const char *want, const char *where, struct err *e)
{
	const char *is = want;

	if (jsonio_str(o, key, 0, &is, where, e))
		return -1;
	return strcmp(is, want) ? err_set(e, ERR_DATA, "%s: %s \"%s\" is not supported; expected \"%s\"", where, key, is, want) : 0;
}
