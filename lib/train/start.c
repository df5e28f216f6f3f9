/* Initialises a run from files: the features of the empty text, and the weights of a pretrained network. */
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/texthalves.h"
#include "file/bytesource.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "net/adopt.h"
#include "train/run.h"
#include "train/trainlog.h"

static int has_null_text(const struct trainer *r)
{
	return net_reads(&r->o->net, NET_IN_TEXT) && r->o->text_drop > 0;
}

static char *null_text_path(const struct trainer *r)
{
	return r->o->null_text ? mem_strdup(r->o->null_text) : path_join(r->o->shards, "null-text.npy");
}

static char *null_pooled_path(const struct trainer *r)
{
	return r->o->null_pooled ? mem_strdup(r->o->null_pooled) : path_join(r->o->shards, "null-pooled.npy");
}

int null_text_stamp(struct trainer *r, struct stamp *s, struct err *e)
{
	char *path, hex[65];
	int rc;

	if (!has_null_text(r))
		return 0;
	path = null_text_path(r);
	rc = bytesource_exists(path, e);
	if (!rc)
		rc = err_set(e, ERR_NOINPUT,
		             "%s: no such file: dropping texts needs the features of the empty text there; give --null-text FILE, or --text-drop 0",
		             path);
	else if (rc > 0)
		rc = bytesource_sha256(path, hex, NULL, e);
	if (!rc)
		stamp_input(s, "null_text", hex);
	mem_free(path);
	path = null_pooled_path(r);
	if (!rc && net_may_read(&r->o->net, NET_IN_POOLED) && (rc = bytesource_exists(path, e)) > 0 && !(rc = bytesource_sha256(path, hex, NULL, e)))
		stamp_input(s, "null_pooled", hex);
	mem_free(path);
	return rc;
}

static int null_text_fit(struct trainer *r, uint16_t *text, int64_t rows, int64_t width, const char *path, struct err *e)
{
	const struct net_config *c = &r->net;

	if (width != c->text_width)
		return err_set(e, ERR_DATA, "%s: the features have width %lld, but those of the samples have %lld", path, (long long)width,
		               (long long)c->text_width);
	r->null_text = mem_zalloc((size_t)(c->text_tokens * width), sizeof *text);
	memcpy(r->null_text, text, (size_t)(rows * width) * sizeof *text);
	r->null_rows = (int32_t)rows;
	return 0;
}

enum { MOST = 1 << 30 };

/* The pooled vector of the empty text, if the samples have pooled vectors. */
static int null_pooled_open(struct trainer *r, struct err *e)
{
	char *path, *bytes = NULL;
	int64_t width;
	size_t len;
	int rc = -1, there;

	if (!r->net.pooled_width)
		return 0;
	path = null_pooled_path(r);
	there = bytesource_exists(path, e);
	if (!there)
		err_set(e, ERR_NOINPUT,
		        "%s: no such file: dropping texts needs the pooled vector of the empty text there; give --null-pooled FILE, or --text-drop 0",
		        path);
	else if (there > 0 && (bytes = bytesource_load(path, MOST, &len, e)) && (r->null_pooled = texthalves_pooled(bytes, len, path, &width, e)))
		rc = width == r->net.pooled_width ? 0
		                                  : err_set(e, ERR_DATA, "%s: the pooled vector has width %lld, but those of the samples have %lld",
		                                            path, (long long)width, (long long)r->net.pooled_width);
	mem_free(bytes);
	mem_free(path);
	return rc;
}

int null_text_open(struct trainer *r, struct err *e)
{
	char *path, *bytes;
	uint16_t *text = NULL;
	int64_t rows, width;
	size_t len;
	int rc = -1;

	if (!has_null_text(r))
		return 0;
	path = null_text_path(r);
	bytes = bytesource_load(path, MOST, &len, e);
	if (bytes && (text = texthalves_tokens(bytes, len, path, r->net.text_tokens, &rows, &width, e)))
		rc = null_text_fit(r, text, rows, width, path, e) || null_pooled_open(r, e) ? -1 : 0;
	mem_free(text);
	mem_free(bytes);
	mem_free(path);
	return rc;
}

void null_text_keep(const struct trainer *r, float *values)
{
	int i = r->null_text && net_null_text(&r->net) ? params_find(&r->params, net_null_text(&r->net)) : -1;

	if (i >= 0)
		text_expand(values + r->params.v[i].offset, r->null_text, r->params.v[i].count);
}

static int hash_weights(const char *dir, enum net_role role, char hex[65], struct err *e)
{
	char *path = model_weights_path(dir, role, e);
	int rc = path ? weightfile_hash_at(path, hex, e) : -1;

	mem_free(path);
	return rc;
}

int start_open(struct trainer *r, struct stamp *s, struct err *e)
{
	char hex[65], *config;

	if (!r->o->from)
		return 0;
	if (model_config_load(r->o->from, &r->from, e))
		return err_lacking(e, NULL);
	if (!s)
		return 0;
	config = model_config_text(&r->from, NULL);
	sha256_text(config, hex);
	mem_free(config);
	stamp_input(s, "from_config", hex);
	if (hash_weights(r->o->from, net_role(&r->from.net), hex, e))
		return -1;
	stamp_input(s, "from", hex);
	return 0;
}

int start_config(struct trainer *r, struct err *e)
{
	if (!r->o->from)
		return 0;
	if (net_is_classifier(&r->o->net))
		return head_config(r, e);
	if (adopt_config(&r->net, &r->from, e))
		return err_prefix(e, "%s", r->o->from);
	return 0;
}

static const char *const fates[ADOPT_FATES] = {
    [ADOPT_TAKEN] = "taken", [ADOPT_DERIVED] = "derived", [ADOPT_NEW] = "new", [ADOPT_DROPPED] = "dropped"};

/* Tensors that differ only in the number of their block share one entry, "blocks.*.mlp.fc1.weight", whose value counts them. */
static void report_adoption(void *arg, enum adopt_fate fate, const char *name)
{
	json_t *list = json_object_get(arg, fates[fate]);
	struct str key = {0};
	json_t *count;

	for (const char *p = name; *p; p++) {
		size_t digits = strspn(p, "0123456789");
		int number = digits && p > name + 1 && p[-1] == '.' && p[-2] == 's' && p[digits] == '.';

		if (number) {
			str_puts(&key, "*");
			p += digits - 1;
		} else {
			str_add(&key, p, 1);
		}
	}
	count = json_object_get(list, str_text(&key));
	json_object_set_new(list, str_text(&key), json_integer(json_integer_value(count) + 1));
	str_release(&key);
}

static void say_report(const struct trainer *r)
{
	for (int i = 0; i < ADOPT_FATES; i++) {
		json_t *list = json_object_get(r->from_report, fates[i]), *count;
		struct str line = {0};
		const char *key;

		json_object_foreach (list, key, count) {
			str_printf(&line, "%s%s", line.len ? ", " : "", key);
			if (json_integer_value(count) > 1)
				str_printf(&line, " (%d)", (int)json_integer_value(count));
		}
		train_say(r, "of %s, %s: %s", r->o->from, fates[i], line.len ? str_text(&line) : "nothing");
		str_release(&line);
	}
}

int start_weights(struct trainer *r, float *values, struct err *e)
{
	int same = r->from.prediction[0] && !strcmp(r->from.prediction, prediction_name(r->o->objective.prediction)) &&
	           !strcmp(r->from.path, r->main.objective.path->name) && r->from.sigma_data == r->o->objective.path.sigma_data;

	if (!r->o->from)
		return 0;
	if (net_is_classifier(&r->net))
		return head_weights(r, values, e);
	r->from_report = json_object();
	for (int i = 0; i < ADOPT_FATES; i++)
		json_object_set_new(r->from_report, fates[i], json_object());
	if (adopt_weights(r->o->from, &r->from, &r->net, same, &r->params, values, report_adoption, r->from_report, e))
		return -1;
	say_report(r);
	return 0;
}

void start_log(const struct trainer *r)
{
	json_t *o;

	if (!r->from_report)
		return;
	o = json_object();
	json_object_set_new(o, "event", json_string("from"));
	json_object_update(o, r->from_report);
	trainlog_line(r->log, o);
}
