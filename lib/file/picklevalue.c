/* Looks up members of the tree that pickle_parse made. */
#include <string.h>

#include "file/pickle.h"

int pickle_is_text(const struct pickle_value *v, const char *text_wanted)
{
	return v && v->kind == PICKLE_TEXT && v->n == strlen(text_wanted) && !memcmp(v->text, text_wanted, v->n);
}

int pickle_names(const struct pickle_value *v, const char *name)
{
	return v && v->kind == PICKLE_GLOBAL && !strcmp(v->text, name);
}

int pickle_calls(const struct pickle_value *v, const char *name)
{
	return v && v->kind == PICKLE_CALL && pickle_names(v->func, name);
}

const struct pickle_value *pickle_item(const struct pickle_value *v, size_t i)
{
	const struct pickle_value *of = v && v->kind == PICKLE_CALL ? v->args : v;

	return of && (of->kind == PICKLE_TUPLE || of->kind == PICKLE_LIST) && i < of->n ? of->item[i] : NULL;
}
