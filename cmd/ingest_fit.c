/* Resizes pictures as --size and --resize say. */
#include <string.h>

#include "cmd/ingest.h"
#include "file/resize.h"

int picture_fit(struct picture *p, const struct work_options *o, struct err *e)
{
	int filter = 0, size = (int)o->size, rc;
	struct picture to;

	if (!size || (p->width == size && p->height == size))
		return 0;
	while (resize_filter_names[filter] && strcmp(resize_filter_names[filter], o->resize))
		filter++;
	if (resize_filter_names[filter])
		rc = picture_square(&to, p, size, (enum resize_filter)filter, e);
	else
		rc = picture_square_adm(&to, p, size, e);
	if (rc)
		return -1;
	picture_release(p);
	*p = to;
	return 0;
}
