/* Follows hashes from stamp to stamp. */
#include "inspect/trail.h"

#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "diffusion/ensemble.h"
#include "file/fileio.h"
#include "file/stamp.h"
#include "inspect/contribution.h"
#include "inspect/describe.h"

/* A file or folder to look in. */
struct place {
	const char *path;
	json_t *facts; /* of describe_path */
	int digested;
	char digest[65]; /* of its samples; empty: none, or not computed */
};

struct trail {
	struct place *place;
	int places;
	json_t *rows, *ends;
	json_t *done;    /* hashes that were followed, so that networks of the same shards follow them once */
	json_t *experts; /* what each expert contributed to the picture; NULL: not known */
};

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* "program version" of a stamp in new memory, or NULL. */
static char *made_by(const json_t *stamp)
{
	const char *program = text_of(stamp, "program"), *version = text_of(stamp, "version");

	return program ? str_new("%s%s%s", program, version ? " " : "", version ? version : "") : NULL;
}

/* Add a step; detail is taken over. */
static void add(struct trail *t, const char *step, const char *hash, const char *found, const json_t *stamp, char *detail)
{
	json_t *row = json_object();
	char *by = made_by(stamp);

	json_object_set_new(row, "step", jsonio_text(step));
	if (hash)
		json_object_set_new(row, "hash", jsonio_text(hash));
	if (found)
		json_object_set_new(row, "found", jsonio_text(found));
	if (by)
		json_object_set_new(row, "made_by", jsonio_text(by));
	if (detail && *detail)
		json_object_set_new(row, "detail", jsonio_text(detail));
	json_array_append_new(t->rows, row);
	mem_free(by);
	mem_free(detail);
}

static void add_end(struct trail *t, char *sentence)
{
	json_array_append_new(t->ends, jsonio_text(sentence));
	mem_free(sentence);
}

/* A step whose thing is in no operand. */
static void add_lost(struct trail *t, const char *step, const char *hash)
{
	add(t, step, hash, NULL, NULL, NULL);
	add_end(t, t->places ? str_new("%s: no operand has this hash", step) : str_new("%s: name it as a further operand", step));
}

/* Whether this hash is followed for the first time. */
static int is_new(struct trail *t, const char *hash)
{
	if (json_object_get(t->done, hash))
		return 0;
	json_object_set_new(t->done, hash, json_true());
	return 1;
}

/* The operand of a kind whose fact `key` is this hash, or NULL. */
static struct place *find(struct trail *t, const char *kind, const char *key, const char *hash)
{
	for (int i = 0; i < t->places; i++) {
		const char *is = text_of(t->place[i].facts, "kind"), *has = text_of(t->place[i].facts, key);

		if (is && has && !strcmp(is, kind) && !strcmp(has, hash))
			return &t->place[i];
	}
	return NULL;
}

static void digest(struct place *p)
{
	struct samples_options so = {.once = 1};
	struct samples *x = samples_open(&p->path, 1, &so, NULL);
	struct sample sample;
	int rc = -1;

	p->digested = 1;
	while (x && (rc = samples_next(x, &sample, NULL)) == 1)
		;
	if (!rc)
		samples_digest(x, p->digest);
	samples_close(x);
}

static void follow_samples(struct trail *t, const char *hash)
{
	for (int i = 0; i < t->places; i++) {
		struct place *p = &t->place[i];
		const char *kind = text_of(p->facts, "kind");
		const json_t *stamp = json_object_get(p->facts, "stamp");

		if (!kind || (strcmp(kind, "tar") && strcmp(kind, "folder") && strcmp(kind, "shards") && strcmp(kind, "shard")))
			continue;
		if (!p->digested)
			digest(p);
		if (strcmp(p->digest, hash))
			continue;
		add(t, "samples", hash, p->path, stamp, str_new("%lld samples", (long long)json_integer_value(json_object_get(p->facts, "samples"))));
		add_end(t,
		        str_new(text_of(stamp, "program") ? "%s: its stamp has the options, and no source files" : "%s: it has no stamp", p->path));
		return;
	}
	add_lost(t, "samples", hash);
}

static void follow_assignment(struct trail *t, const char *hash)
{
	struct place *p = find(t, "table", "sha256", hash);
	const json_t *stamp = p ? json_object_get(p->facts, "stamp") : NULL;
	const char *samples = text_of(json_object_get(stamp, "inputs"), "samples"), *features = text_of(stamp, "features");

	if (!p) {
		add_lost(t, "assignment", hash);
		return;
	}
	add(t, "assignment", hash, p->path, stamp,
	    str_new("%lld clusters%s%s", (long long)json_integer_value(json_object_get(stamp, "k")), features ? " by " : "",
	            features ? features : ""));
	if (!samples)
		add_end(t, str_new("%s: it does not record the samples", p->path));
	else if (is_new(t, samples))
		follow_samples(t, samples);
}

static void follow_shards(struct trail *t, const char *step, const char *hash)
{
	struct place *p = find(t, "shards", "sha256", hash);
	const json_t *stamp = p ? json_object_get(p->facts, "stamp") : NULL, *inputs = json_object_get(stamp, "inputs");
	const char *assign = text_of(inputs, "assign"), *samples = text_of(inputs, "samples"), *before = text_of(inputs, "shards");

	if (!p) {
		add_lost(t, step, hash);
		return;
	}
	add(t, step, hash, p->path, stamp,
	    str_new("%lld samples in %lld clusters", (long long)json_integer_value(json_object_get(p->facts, "samples")),
	            (long long)json_integer_value(json_object_get(p->facts, "k"))));
	if (before && is_new(t, before))
		follow_shards(t, "shards before samples were forgotten", before);
	if (assign && is_new(t, assign))
		follow_assignment(t, assign);
	if (samples && is_new(t, samples))
		follow_samples(t, samples);
	if (!before && !assign)
		add_end(t, str_new("%s: its stamp records no assignment", p->path));
}

/* Append where the training ran, from the last start in its log. */
static void add_run(struct str *s, const char *dir)
{
	static const char start[] = "{\"event\":\"start\"";
	char *path = path_join(dir, "train.jsonl");
	struct filemap m = {0};
	const char *last = NULL, *end;
	json_t *o = NULL;

	if (path_exists(path) && !filemap_open(&m, path, NULL)) {
		end = (const char *)m.data + m.len;
		for (const char *p = (const char *)m.data; p && p < end; p = memchr(p, '\n', (size_t)(end - p)), p += p != NULL)
			if ((size_t)(end - p) > sizeof start && !memcmp(p, start, sizeof start - 1))
				last = p;
		if (last) {
			const char *stop = memchr(last, '\n', (size_t)(end - last));

			o = json_loadb(last, (size_t)((stop ? stop : end) - last), 0, NULL);
		}
	}
	if (text_of(o, "host"))
		str_printf(s, ", on %s (%s)", text_of(o, "host"), text_of(o, "device") ? text_of(o, "device") : "unknown device");
	if (json_integer_value(json_object_get(o, "attempt")) > 1)
		str_printf(s, ", started %lld times", (long long)json_integer_value(json_object_get(o, "attempt")));
	json_decref(o);
	filemap_close(&m);
	mem_free(path);
}

/* Add to the row of an expert's contribution what its data were. */
static void add_data(struct trail *t, const char *expert, const json_t *facts)
{
	static const char *const keys[] = {"cluster", "cluster_name"};
	const json_t *provenance = json_object_get(facts, "provenance");
	json_t *row, *v;
	const char *key;
	size_t i;

	json_array_foreach (t->experts, i, row) {
		if (strcmp(text_of(row, "expert"), expert))
			continue;
		for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
			if ((v = json_object_get(facts, keys[k])))
				json_object_set(row, keys[k], v);
		json_object_foreach ((json_t *)(uintptr_t)provenance, key, v)
			json_object_set(row, key, v);
	}
}

/* The training of a network whose weights have this hash. */
static void follow_network(struct trail *t, const char *dir, const char *name, const char *hash)
{
	static const struct facts_options quick;
	static const char *const starts[] = {"init", "from", "experts"};
	json_t *facts = json_object();
	const json_t *stamp, *step;
	const char *data, *pictures;
	struct str s = {0};

	describe_path(facts, dir, &quick, NULL);
	add_data(t, name, facts);
	stamp = json_object_get(facts, "stamp");
	step = json_object_get(json_object_get(facts, "weights"), "step");
	if (json_is_integer(json_object_get(facts, "cluster")))
		str_printf(&s, "cluster %lld, ", (long long)json_integer_value(json_object_get(facts, "cluster")));
	if (step)
		str_printf(&s, "checkpoint of step %lld, ", (long long)json_integer_value(step));
	str_printf(&s, "seed %lld", (long long)json_integer_value(json_object_get(stamp, "seed")));
	if (stamp)
		add_run(&s, dir);
	add(t, name, hash, dir, stamp, mem_strdup(stamp ? str_text(&s) : ""));
	str_release(&s);
	data = text_of(json_object_get(stamp, "inputs"), "shards");
	pictures = text_of(json_object_get(stamp, "inputs"), "pictures");
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
		if (text_of(json_object_get(stamp, "inputs"), starts[i]))
			add_end(t, str_new("%s: it %s, with the hash %.16s", dir,
			                   i == 2 ? "learned from the errors of experts" : "started from the weights of another network",
			                   text_of(json_object_get(stamp, "inputs"), starts[i])));
	if (!data)
		add_end(t, str_new("%s: it does not record its training", dir));
	else if (is_new(t, data))
		follow_shards(t, "shards", data);
	if (pictures && is_new(t, pictures))
		follow_shards(t, "shards of pictures", pictures);
	json_decref(facts);
}

/* The length of "expert_1/" in the name of a model's file, 0 for a network alone, or -1 if the name is not of weights. */
static int weights_of(const char *name)
{
	const char *slash = strchr(name, '/');
	const char *base = slash ? slash + 1 : name;

	if (strchr(base, '/') || str_ends(base, ".json") || str_ends(base, ".npy"))
		return -1;
	return slash ? (int)(slash - name) : 0;
}

static void follow_file(struct trail *t, const char *model, const char *name, const char *hash)
{
	int n = weights_of(name);
	char *network = n > 0 ? mem_strndup(name, (size_t)n) : mem_strdup("network");
	char *dir = n > 0 ? path_join(model, network) : mem_strdup(model);

	if (n >= 0)
		follow_network(t, dir, network, hash);
	mem_free(network);
	mem_free(dir);
}

/* Open an operand as the model of the sample: the files that the sample depends on are those of its route. */
static int open_model(struct ensemble *s, const char *path, const char *route, int own, struct device *d)
{
	struct ensemble_options eo = {.capacity = 1, .device = d, .own = own};

	*s = (struct ensemble){0};
	return policy_parse(route ? route : "full", &eo.policy, NULL) ? -1 : ensemble_open(s, path, &eo, NULL);
}

/* Find the model with this hash, and follow its networks. */
static void follow_model(struct trail *t, const char *hash, const char *route)
{
	struct device *d = device_cpu(NULL, DT_F32);
	int found = 0;

	for (int i = 0; i < t->places && !found; i++) {
		const char *kind = text_of(t->place[i].facts, "kind");

		for (int own = 0; own < 2 && !found && kind && (!strcmp(kind, "model") || !strcmp(kind, "network") || !strcmp(kind, "pipeline"));
		     own++) {
			struct ensemble s;

			found = !open_model(&s, t->place[i].path, route, own, d) && !strcmp(s.hash, hash);
			if (found)
				add(t, "model", hash, t->place[i].path, NULL, NULL);
			for (int k = 0; found && k < s.files; k++)
				follow_file(t, t->place[i].path, s.file[k].name, s.file[k].hash);
			ensemble_release(&s);
		}
	}
	device_free(d);
	if (!found)
		add_lost(t, "model", hash);
}

/* The hash of a model from the stamp of all pictures, which lists the hashes of its files, as ensemble_open makes it. 0 if it lists none. */
static int hash_of_files(const json_t *inputs, char hex[65])
{
	struct sha256 h;
	const char *name;
	json_t *v;
	int n = 0;

	sha256_init(&h);
	json_object_foreach ((json_t *)(uintptr_t)inputs, name, v)
		if (strchr(name, '.') && strncmp(name, "guide/", 6) && json_is_string(v) && strlen(json_string_value(v)) == 64) {
			sha256_add(&h, name, strlen(name) + 1);
			sha256_add(&h, json_string_value(v), 65);
			n++;
		}
	sha256_end(&h, hex);
	return n;
}

/* Other inputs of the sample, which are not followed. */
static void add_inputs(struct trail *t, const json_t *inputs)
{
	const char *role;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)inputs, role, v)
		if (!strchr(role, '.') && strcmp(role, "model") && json_is_string(v)) {
			add(t, role, json_string_value(v), NULL, NULL, NULL);
			add_end(t, str_new("%s: it is known by its hash alone", role));
		}
}

static char *sample_detail(const json_t *stamp)
{
	static const char *const keys[] = {"seed", "index", "n", "route", "solver", "steps", "class", "prompt", "expert"};
	struct str s = {0};
	char *text;

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const json_t *v = json_object_get(stamp, keys[i]);

		if (json_is_string(v))
			str_printf(&s, "%s%s %s", s.len ? ", " : "", keys[i], json_string_value(v));
		else if (json_is_integer(v))
			str_printf(&s, "%s%s %lld", s.len ? ", " : "", keys[i], (long long)json_integer_value(v));
	}
	text = mem_strdup(str_text(&s));
	str_release(&s);
	return text;
}

/* The stamp in a picture, or, of a format without a place for one, in the json member of its sample. NULL: there is none. */
static json_t *stamp_of_sample(const char *file, const struct sample *s)
{
	static const struct facts_options quick;
	const struct sample_member *m = sample_picture(s), *facts = sample_find(s, "json");
	json_t *stamp = NULL, *o;

	if (m) {
		struct facts_source source = {.name = file, .data = m->data, .len = m->len};

		o = json_object();
		facts_still(o, &source, &quick, NULL);
		stamp = json_incref(json_object_get(o, "stamp"));
		json_decref(o);
	}
	if (stamp || !facts)
		return stamp;
	o = json_loadb(facts->data, facts->len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(o))
		return o;
	json_decref(o);
	return NULL;
}

/* The stamp of the picture with this number in a tar. NULL and *e: there is none. */
static json_t *stamp_in_tar(const char *file, int64_t index, struct err *e)
{
	struct samples_options so = {.once = 1};
	struct samples *x = samples_open(&file, 1, &so, e);
	struct sample sample;
	json_t *stamp = NULL;
	int64_t number;
	int rc = -1, found = 0;

	while (x && !found && (rc = samples_next(x, &sample, e)) == 1) {
		found = !parse_i64(sample.key, 0, INT64_MAX, &number) && number == index;
		if (found)
			stamp = stamp_of_sample(file, &sample);
	}
	samples_close(x);
	if (!found && rc == 0)
		err_set(e, ERR_USAGE, "%s: it has no picture %lld", file, (long long)index);
	else if (found && !stamp)
		err_set(e, ERR_DATA, "%s: picture %lld has no stamp", file, (long long)index);
	return stamp;
}

/* The stamp of the file. A report has none, but the route and the hash of the model. */
static json_t *stamp_of_file(const char *file, struct err *e)
{
	static const struct facts_options quick;
	json_t *o = json_object(), *stamp;
	const json_t *values;

	if (describe_path(o, file, &quick, e)) {
		json_decref(o);
		return NULL;
	}
	stamp = json_incref(json_object_get(o, "stamp"));
	values = json_object_get(o, "values");
	if (!stamp && text_of(values, "model") && json_object_get(values, "cluster_mass")) {
		stamp = json_copy((json_t *)(uintptr_t)values);
		json_object_clear(stamp);
		json_object_set_new(stamp, "program", json_string("ddm-sample"));
		json_object_set(stamp, "n", json_object_get(values, "n"));
		json_object_set(stamp, "route", json_object_get(values, "route"));
		json_object_set(stamp, "solver", json_object_get(values, "solver"));
		json_object_set(stamp, "steps", json_object_get(values, "steps"));
		json_object_set_new(stamp, "inputs", json_pack("{s:s}", "model", text_of(values, "model")));
	}
	json_decref(o);
	return stamp;
}

/* Whether the policy chose among experts: then the stamp does not say which it chose. */
static int chosen_by_router(const json_t *stamp)
{
	const char *route = text_of(stamp, "route");

	return route && strncmp(route, "expert:", 7) && strcmp(route, "full") && !json_object_get(stamp, "expert");
}

/* Look for the picture in the logs among the operands. *logs: their number. */
static int find_contribution(struct trail *t, const json_t *stamp, int *logs, struct err *e)
{
	char hash[65];
	int rc = 0;

	*logs = 0;
	stamp_hash(stamp, hash);
	for (int i = 0; i < t->places && !t->experts && rc >= 0; i++)
		if (contribution_is_log(t->place[i].path)) {
			*logs += 1;
			rc = contribution_read(t->place[i].path, hash, &t->experts, e);
		}
	return rc < 0 ? -1 : 0;
}

/* Say where the contributions of the experts could have been read. */
static void add_unknown_experts(struct trail *t, const char *file, const json_t *stamp, int logs)
{
	if (t->experts)
		return;
	if (logs && json_object_get(stamp, "index"))
		add_end(t, str_new("%s: no log among the operands has this picture", file));
	else if (logs)
		add_end(t, str_new("%s: a log tells of single pictures: give the number of one, or its file", file));
	else if (chosen_by_router(stamp))
		add_end(t, str_new("%s: which of the experts drew it is recorded by ddm-sample --log alone", file));
}

static void open_places(struct trail *t, const char *const *path, int n)
{
	static const struct facts_options quick;

	t->place = mem_zalloc((size_t)n + 1, sizeof *t->place);
	for (; t->places < n; t->places++) {
		struct place *p = &t->place[t->places];

		*p = (struct place){.path = path[t->places], .facts = json_object()};
		describe_path(p->facts, p->path, &quick, NULL);
	}
}

static int check_places(const char *const *path, int n, struct err *e)
{
	for (int i = 0; i < n; i++)
		if (!path_exists(path[i]))
			return err_set(e, ERR_NOINPUT, "%s: no such file or folder", path[i]);
	return 0;
}

int trail_follow(json_t *o, const char *file, int64_t index, const char *const *place, int n, struct err *e)
{
	json_t *stamp = check_places(place, n, e) ? NULL : index == TRAIL_WHOLE ? stamp_of_file(file, e) : stamp_in_tar(file, index, e);
	const json_t *inputs = json_object_get(stamp, "inputs");
	const char *program = text_of(stamp, "program"), *model = text_of(inputs, "model");
	struct trail t = {0};
	char hex[65];
	int logs = 0, rc;

	if (!program || strcmp(program, "ddm-sample")) {
		json_decref(stamp);
		return err_set(e, ERR_DATA, "%s: no stamp of ddm-sample, so there is nothing to follow", file);
	}
	t = (struct trail){.rows = json_array(), .ends = json_array(), .done = json_object()};
	open_places(&t, place, n);
	add(&t, json_object_get(stamp, "index") ? "picture" : "pictures", NULL, file, stamp, sample_detail(stamp));
	rc = find_contribution(&t, stamp, &logs, e);
	if (!model && hash_of_files(inputs, hex))
		model = hex;
	if (model)
		follow_model(&t, model, text_of(stamp, "route"));
	else
		add_end(&t, str_new("%s: its stamp records no model", file));
	add_inputs(&t, inputs);
	add_unknown_experts(&t, file, stamp, logs);
	json_object_set_new(o, "trail", t.rows);
	if (t.experts)
		json_object_set_new(o, "experts", t.experts);
	json_object_set_new(o, "ends", t.ends);
	if (json_object_get(stamp, "version"))
		json_object_set(o, "stamp", stamp);
	for (int i = 0; i < t.places; i++)
		json_decref(t.place[i].facts);
	mem_free(t.place);
	json_decref(t.done);
	json_decref(stamp);
	return rc;
}
