/* The facts of samples: scores, and objects that are put into the .json of a sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ingest.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "data/clipscores.h"

/* The later digits of a score say nothing. */
json_t *score_number(double v)
{
	char text[40];

	snprintf(text, sizeof text, "%.6g", v);
	return jsonio_real(strtod(text, NULL));
}

void scores_put(json_t *facts, const struct clip_scores *s, int clip)
{
	json_object_set_new(facts, "sharp", score_number(s->sharp));
	json_object_set_new(facts, "exposure", score_number(s->exposure));
	json_object_set_new(facts, "contrast", score_number(s->contrast));
	if (!clip)
		return;
	json_object_set_new(facts, "black", score_number(s->black));
	json_object_set_new(facts, "frozen", score_number(s->frozen));
	json_object_set_new(facts, "motion", score_number(s->motion));
	json_object_set_new(facts, "motion_x", score_number(s->motion_x));
	json_object_set_new(facts, "motion_y", score_number(s->motion_y));
	json_object_set_new(facts, "moving", score_number(s->moving));
}

int facts_merge(struct item *it, const json_t *facts, const char *origin, struct err *e)
{
	json_t *all = NULL;
	char *line;

	for (int i = 0; i < it->n; i++)
		if (!strcmp(it->m[i].ext, "json")) {
			json_error_t why;

			all = json_loadb((const char *)it->m[i].data, it->m[i].len, 0, &why);
			if (!json_is_object(all)) {
				json_decref(all);
				return err_set(e, ERR_DATA, "%s: the .json beside it is not an object: %s", origin, all ? "another value" : why.text);
			}
			item_remove(it, i);
			break;
		}
	if (!all)
		all = json_object();
	json_object_update(all, (json_t *)(uintptr_t)facts);
	line = jsonio_line(all);
	item_add(it, "json", line, strlen(line));
	mem_free(line);
	json_decref(all);
	return 0;
}

int item_finish(struct item *it, const char *origin, struct err *e)
{
	return it->facts ? facts_merge(it, it->facts, origin, e) : 0;
}
