/* Finds the line of a picture in the log of ddm-sample, and sums the experts' weights over the steps. */
#include "inspect/contribution.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "file/fileio.h"

/* Parse the line that begins at *at, and move *at behind it. NULL: it is not an object. */
static json_t *next_line(const char **at, const char *end)
{
	const char *start = *at, *stop = memchr(start, '\n', (size_t)(end - start));
	json_t *o = json_loadb(start, (size_t)((stop ? stop : end) - start), JSON_REJECT_DUPLICATES, NULL);

	*at = stop ? stop + 1 : end;
	if (json_is_object(o))
		return o;
	json_decref(o);
	return NULL;
}

static int is_line(const json_t *o)
{
	return json_is_integer(json_object_get(o, "index")) && json_is_array(json_object_get(o, "weights"));
}

int contribution_is_log(const char *path)
{
	struct filemap m = {0};
	const char *at;
	json_t *o = NULL;
	int is;

	if (!filemap_open(&m, path, NULL) && m.len && (at = (const char *)m.data)[0] == '{')
		o = next_line(&at, at + m.len);
	is = is_line(o);
	json_decref(o);
	filemap_close(&m);
	return is;
}

/* The weights of expert k in each step: their sum, the first and the last. -1: they are not numbers from 0 to 1. */
static int weights_of(const json_t *steps, size_t k, size_t experts, double *sum, double *first, double *last)
{
	size_t n = json_array_size(steps);

	*sum = 0;
	for (size_t s = 0; s < n; s++) {
		const json_t *row = json_array_get(steps, s), *v = json_array_get(row, k);
		double w = json_number_value(v);

		if (json_array_size(row) != experts || !json_is_number(v) || !(w >= 0 && w <= 1 + 1e-6))
			return -1;
		*sum += w;
		*last = w;
		if (!s)
			*first = w;
	}
	return 0;
}

/* The table from the weights of a line; NULL if they are damaged. */
static json_t *table_of(const json_t *steps)
{
	size_t n = json_array_size(steps), k = json_array_size(json_array_get(steps, 0));
	json_t *table = json_array();

	for (size_t i = 0; i < k; i++) {
		double sum, first = 0, last = 0;
		json_t *row = json_object();
		char name[32];

		snprintf(name, sizeof name, "expert_%zu", i);
		if (weights_of(steps, i, k, &sum, &first, &last)) {
			json_decref(row);
			json_decref(table);
			return NULL;
		}
		json_object_set_new(row, "expert", json_string(name));
		json_object_set_new(row, "share", json_real(sum / (double)n));
		json_object_set_new(row, "first", json_real(first));
		json_object_set_new(row, "last", json_real(last));
		json_array_append_new(table, row);
	}
	if (k)
		return table;
	json_decref(table);
	return NULL;
}

int contribution_read(const char *path, const char *hash, json_t **experts, struct err *e)
{
	struct filemap m = {0};
	const char *at, *end;
	int64_t line = 0;
	int rc = 0;

	*experts = NULL;
	if (filemap_open(&m, path, e))
		return -1;
	for (at = (const char *)m.data, end = at + m.len; at < end && !rc; line++) {
		const char *start = at;
		json_t *o = next_line(&at, end);
		const char *is = json_string_value(json_object_get(o, "stamp"));

		if (!is_line(o) || jsonio_check_seals(start, (size_t)(at - start), path, NULL))
			rc = err_set(e, ERR_DATA, "%s: line %" PRId64 " of this log of ddm-sample is damaged", path, line + 1);
		else if (!is)
			rc = err_set(e, ERR_DATA,
			             "%s: line %" PRId64 " has no hash of the picture's stamp: an older version of ddm-sample wrote this log", path,
			             line + 1);
		else if (!strcmp(is, hash) && !(*experts = table_of(json_object_get(o, "weights"))))
			rc = err_set(e, ERR_DATA, "%s: the weights in line %" PRId64 " are not numbers from 0 to 1, one for each expert and step",
			             path, line + 1);
		else
			rc = *experts != NULL;
		json_decref(o);
	}
	filemap_close(&m);
	return rc;
}
