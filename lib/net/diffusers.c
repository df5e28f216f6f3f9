/* Finds the architecture that a configuration of diffusers describes. */
#include "net/diffusers.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/str.h"
#include "net/netdef.h"

int diffusers_config(const json_t *o)
{
	return json_object_get(o, "_class_name") && !json_object_get(o, "model_type");
}

int diffusers_expect(const json_t *o, const char *key, const char *want, const char *where, struct err *e)
{
	const char *is = want;

	if (jsonio_str(o, key, 0, &is, where, e))
		return -1;
	return strcmp(is, want) ? err_set(e, ERR_DATA, "%s: %s \"%s\" is not known here, which is \"%s\"", where, key, is, want) : 0;
}

/* "DiTTransformer2DModel, PixArtTransformer2DModel" */
static void list_classes(struct str *s)
{
	const struct net_def *def;

	for (int i = 0; (def = net_def_at(i)); i++)
		if (def->diffusers)
			str_printf(s, "%s%s", s->len ? ", " : "", def->diffusers->class);
}

static const struct net_def *find_class(const char *class, const char *norm_type)
{
	const struct net_def *def, *found = NULL;

	for (int i = 0; (def = net_def_at(i)); i++) {
		const struct net_diffusers *d = def->diffusers;

		if (d && !strcmp(d->class, class))
			return def;
		if (d && d->norm_type && norm_type && !strcmp(d->norm_type, norm_type))
			found = def;
	}
	return found;
}

int diffusers_parse(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const char *class = NULL, *norm = NULL;
	const struct net_def *def;
	struct str all = {0};

	if (jsonio_str(o, "_class_name", 1, &class, where, e) || jsonio_str(o, "norm_type", 0, &norm, where, e))
		return -1;
	if ((def = find_class(class, norm))) {
		net_init(c, def);
		return def->diffusers->parse(o, where, c, e);
	}
	list_classes(&all);
	err_set(e, ERR_DATA, "%s: class %s is not one this program knows (%s)", where, class, str_text(&all));
	str_release(&all);
	return -1;
}
