/* Reads how many samples of each class a cluster holds. */
#include "diffusion/classsizes.h"

#include "core/jsonio.h"
#include "core/mem.h"

int class_sizes_load(double **shares, const char *path, int classes, int clusters, struct err *e)
{
	json_t *o = jsonio_load(path, e);
	const json_t *v = json_object_get(o, "class_cluster_sizes"), *row, *cell;
	size_t c, k;
	int rc = o ? 0 : -1;

	if (!o || !v)
		goto out;
	if (json_array_size(v) != (size_t)classes)
		goto bad;
	*shares = mem_zalloc((size_t)classes * (size_t)clusters, sizeof **shares);
	json_array_foreach (v, c, row) {
		if (json_array_size(row) != (size_t)clusters)
			goto bad;
		json_array_foreach (row, k, cell) {
			if (!json_is_number(cell) || json_number_value(cell) < 0)
				goto bad;
			(*shares)[c * (size_t)clusters + k] = json_number_value(cell);
		}
	}
	goto out;
bad:
	rc = err_set(e, ERR_DATA, "%s: \"class_cluster_sizes\" is not %d lists of %d sizes", path, classes, clusters);
out:
	json_decref(o);
	return rc;
}
