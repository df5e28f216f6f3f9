/* Compares the stamps of two training runs, with or without the length of the runs. */
#include "core/jsonio.h"
#include "core/mem.h"
#include "train/run.h"

static const char *const length_keys[] = {"steps", "epochs", "extended"};
enum { LENGTH_KEYS = sizeof length_keys / sizeof *length_keys, ASKED_FOR = 2 };

/* The stamp with its optimizer named, also if that is AdamW; `but_length`: without the keys that give the length of the run. NULL if it is not
 * JSON; caller frees with mem_free. */
static char *completed(const char *line, int but_length)
{
	json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	char *text = NULL;

	for (int i = 0; but_length && i < LENGTH_KEYS; i++)
		json_object_del(o, length_keys[i]);
	if (json_is_object(o) && !json_object_get(o, "optimizer"))
		json_object_set_new(o, "optimizer", json_string(optimizer_names[OPTIMIZER_ADAMW]));
	if (json_is_object(o))
		text = jsonio_line(o);
	json_decref(o);
	return text;
}

static int differs(const char *now, const char *line, int but_length, struct str *what)
{
	char *a = completed(now, but_length), *b = completed(line, but_length);
	int n = a && b ? stamp_line_differs(a, b, what) : -1;

	mem_free(a);
	mem_free(b);
	return n;
}

int run_differs(const char *now, const char *line, struct str *what)
{
	return differs(now, line, 0, what);
}

int extend_differs(const char *now, const char *line, struct str *what)
{
	return differs(now, line, 1, what);
}

int extend_same_length(const char *now, const char *line)
{
	json_t *a = json_loads(now, 0, NULL), *b = json_loads(line, 0, NULL);
	int same = 1;

	for (int i = 0; i < ASKED_FOR; i++) {
		const json_t *v = json_object_get(a, length_keys[i]), *w = json_object_get(b, length_keys[i]);

		same &= !v == !w && (!v || json_number_value(v) == json_number_value(w));
	}
	json_decref(a);
	json_decref(b);
	return same;
}
