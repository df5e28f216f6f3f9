/* Reads noise schedules from config.json and scheduler_config.json. */
#include "net/betas.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "file/fileio.h"

enum { STEPS_MOST = 100000, FILE_MOST = 64 << 20 };

static const struct {
	const char *path, *diffusers;
} rules[] = {{"linear_betas", "linear"}, {"scaled_linear_betas", "scaled_linear"}, {"cosine_betas", "squaredcos_cap_v2"}, {"betas", NULL}};

int betas_path(const char *path)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (!strcmp(path, rules[i].path))
			return 1;
	return 0;
}

static int parse_table(const json_t *v, struct betas *b, const char *where, struct err *e)
{
	if (!json_is_array(v) || json_array_size(v) != (size_t)b->steps)
		return err_set(e, ERR_DATA, "%s: \"trained_betas\" is not a list of %lld numbers", where, (long long)b->steps);
	b->v = mem_zalloc((size_t)b->steps, sizeof *b->v);
	for (int64_t k = 0; k < b->steps; k++) {
		b->v[k] = json_number_value(json_array_get(v, (size_t)k));
		if (!(b->v[k] > 0 && b->v[k] < 1))
			return err_set(e, ERR_DATA, "%s: \"trained_betas\"[%lld] is not between 0 and 1", where, (long long)k);
	}
	return 0;
}

int betas_parse(const json_t *o, const char *path, struct betas *b, const char *where, struct err *e)
{
	const json_t *v = json_object_get(o, "trained_betas");

	*b = (struct betas){.steps = 1000, .start = 1e-4, .end = .02};
	if (v && !json_is_null(v) && !json_is_array(v))
		return err_set(e, ERR_DATA, "%s: \"trained_betas\" is not a list of numbers", where);
	if (!strcmp(path, "betas"))
		b->steps = (int64_t)json_array_size(v);
	if (jsonio_i64(o, "num_train_timesteps", 0, 1, STEPS_MOST, &b->steps, where, e) ||
	    jsonio_f64(o, "beta_start", 0, 1e-12, .999999, &b->start, where, e) || jsonio_f64(o, "beta_end", 0, 1e-12, .999999, &b->end, where, e))
		return -1;
	if (strcmp(path, "betas"))
		return 0;
	if (b->steps < 1 || b->steps > STEPS_MOST)
		return err_set(e, ERR_DATA, "%s: path \"betas\" needs \"trained_betas\", a list of up to %d numbers", where, STEPS_MOST);
	return parse_table(v, b, where, e);
}

int sigma_data_parse(const json_t *o, const char *path, double *sigma_data, const char *where, struct err *e)
{
	double v = SIGMA_DATA_USUAL;

	*sigma_data = 0;
	if (json_object_get(o, "sigma_data") && strcmp(path, "edm"))
		return err_set(e, ERR_DATA, "%s: \"sigma_data\" belongs to path \"edm\", not to path \"%s\"", where, path);
	if (jsonio_f64(o, "sigma_data", 0, SIGMA_DATA_LEAST, SIGMA_DATA_MOST, &v, where, e))
		return -1;
	*sigma_data = v == SIGMA_DATA_USUAL ? 0 : v;
	return 0;
}

int betas_check_scale(const struct betas *b, const char *path, double time_scale, const char *where, struct err *e)
{
	if (b->steps < 2 || time_scale != (double)(b->steps - 1))
		return 0;
	return err_set(e, ERR_DATA,
	               "%s: \"time_scale\" %g on path \"%s\" of %lld steps: step k is at t = k/%lld, so %g gives the network "
	               "time %g where it learned %lld; change it to %lld",
	               where, time_scale, path, (long long)b->steps, (long long)b->steps, time_scale,
	               time_scale * (double)(b->steps - 1) / (double)b->steps, (long long)b->steps - 1, (long long)b->steps);
}

void betas_to_json(const struct betas *b, json_t *o)
{
	json_t *v = b->v ? json_array() : NULL;

	if (!b->steps)
		return;
	json_object_set_new(o, "num_train_timesteps", json_integer(b->steps));
	for (int64_t k = 0; b->v && k < b->steps; k++)
		json_array_append_new(v, json_real(b->v[k]));
	if (v) {
		json_object_set_new(o, "trained_betas", v);
	} else {
		json_object_set_new(o, "beta_start", json_real(b->start));
		json_object_set_new(o, "beta_end", json_real(b->end));
	}
}

void betas_release(struct betas *b)
{
	mem_free(b->v);
	*b = (struct betas){0};
}

/* Replace Infinity and -Infinity outside of strings by null and spaces, since they are not JSON. */
static void blank_words(char *p, size_t n)
{
	static const char *const words[] = {"-Infinity", "Infinity"};
	int quoted = 0;

	for (size_t i = 0; i < n; i++) {
		if (quoted && p[i] == '\\')
			i++;
		else if (p[i] == '"')
			quoted = !quoted;
		for (int k = 0; !quoted && k < 2; k++) {
			size_t len = strlen(words[k]);

			if (n - i < len || strncmp(p + i, words[k], len))
				continue;
			memset(p + i, ' ', len);
			memcpy(p + i, "null", 4);
		}
	}
}

json_t *scheduler_load(const char *file, struct err *e)
{
	json_error_t bad;
	size_t n;
	char *text = file_load(file, FILE_MOST, &n, e);
	json_t *o;

	if (!text)
		return NULL;
	blank_words(text, n);
	o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &bad);
	if (!json_is_object(o)) {
		json_decref(o);
		o = NULL;
		err_set(e, ERR_DATA, "%s:%d: %s", file, bad.line, bad.line > 0 ? bad.text : "not a JSON object");
	}
	mem_free(text);
	return o;
}

static int scheduler_path(const json_t *o, const char *where, const char **path, struct err *e)
{
	const char *rule = "linear";

	if (json_is_array(json_object_get(o, "trained_betas"))) {
		*path = "betas";
		return 0;
	}
	if (jsonio_str(o, "beta_schedule", 0, &rule, where, e))
		return -1;
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (rules[i].diffusers && !strcmp(rule, rules[i].diffusers)) {
			*path = rules[i].path;
			return 0;
		}
	return err_set(e, ERR_DATA, "%s: beta_schedule \"%s\" is not supported; expected linear, scaled_linear or squaredcos_cap_v2", where, rule);
}

int scheduler_parse(const json_t *o, const char *where, const char **path, const char **prediction, struct betas *b, struct err *e)
{
	static const struct {
		const char *diffusers, *ours;
	} kinds[] = {{"epsilon", "epsilon"}, {"sample", "x0"}, {"v_prediction", "v_prediction"}};
	const char *class = "", *kind = "epsilon";
	int singular = 0;

	*b = (struct betas){0};
	if (jsonio_str(o, "_class_name", 0, &class, where, e))
		return -1;
	if (!strncmp(class, "FlowMatch", 9)) {
		*path = "linear";
		*prediction = "velocity";
		return 0;
	}
	/* Its networks take the time as log(sigma) / 4, ours take time_scale * t. */
	if (!strncmp(class, "EDM", 3))
		return err_set(e, ERR_DATA, "%s: %s is not supported: its networks take the time as log(sigma)/4", where, class);
	if (jsonio_str(o, "prediction_type", 0, &kind, where, e) || scheduler_path(o, where, path, e) ||
	    jsonio_bool(o, "rescale_betas_zero_snr", 0, &singular, where, e))
		return -1;
	if (singular)
		return err_set(e, ERR_DATA, "%s: rescale_betas_zero_snr (a table that ends in pure noise) is not supported", where);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kind, kinds[i].diffusers)) {
			*prediction = kinds[i].ours;
			return betas_parse(o, *path, b, where, e);
		}
	return err_set(e, ERR_DATA, "%s: prediction_type \"%s\" is not supported; expected epsilon, sample or v_prediction", where, kind);
}

char *scheduler_find(const char *dir)
{
	static const char *const places[] = {"scheduler/scheduler_config.json", "../scheduler/scheduler_config.json"};

	for (size_t i = 0; i < 2; i++) {
		char *p = path_join(dir, places[i]);

		if (path_exists(p))
			return p;
		mem_free(p);
	}
	return NULL;
}
