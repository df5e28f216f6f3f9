/* The report of ddm-forget. The script can be read, changed and piped to sh: it comments on everything and runs only what must be run. */
#include "cmd/forgetreport.h"

#include <stdio.h>
#include <string.h>

#include "cmd/clean.h"
#include "core/jsonio.h"
#include "core/mem.h"

static int64_t sum(const int64_t *n, int k)
{
	int64_t all = 0;

	for (int i = 0; i < k; i++)
		all += n[i];
	return all;
}

const char *forgetreport_partition(const struct forget_result *r)
{
	const char *features = json_string_value(json_object_get(r->stamp, "features"));

	if (!features)
		return "The clusters stay as they are. What made them is not recorded.";
	if (!strcmp(features, "random"))
		return "The clusters stay as they are. They were drawn at random and depend on no picture.";
	if (!sum(r->train, r->clusters))
		return "The clusters stay as they are. Centroids are fitted to the training part, so they do not depend on the samples.";
	return "The clusters stay as they are. The centroids were fitted to the samples too: to forget them there, run ddm-cluster and all trainings "
	       "again.";
}

/* Print text within a comment. */
static void put(const char *raw)
{
	size_t room = 4 * strlen(raw) + 1;
	char *text = clean_output(mem_alloc(room), room, raw);

	fputs(text, stdout);
	mem_free(text);
}

/* Print a word of a command, quoted if sh would read more into it. */
static void put_word(const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,@%+=-";

	if (*word && strspn(word, plain) == strlen(word)) {
		fputs(word, stdout);
		return;
	}
	putchar('\'');
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*word);
	putchar('\'');
}

static void put_items(const struct forget_result *r)
{
	const json_t *it, *c;
	size_t i, k;

	json_array_foreach (r->items, i, it) {
		const json_t *clusters = json_object_get(it, "clusters");

		fputs("#   ", stdout);
		put(json_string_value(json_object_get(it, "key")));
		printf(": cluster%s ", json_array_size(clusters) > 1 ? "s" : "");
		json_array_foreach (clusters, k, c)
			printf("%s%lld", k ? ", " : "", (long long)json_integer_value(c));
		printf(", %s\n", strcmp(json_string_value(json_object_get(it, "split")), "train") ? "held-out part" : "training part");
	}
}

static const char *fate(const struct lineage_network *x)
{
	if (x->saw == LINEAGE_TRAINED && x->keep)
		return "stays all the same (--keep-router)";
	return x->saw == LINEAGE_TRAINED ? "must be trained again" : x->saw == LINEAGE_UNKNOWN ? "stays, but may have seen them" : "stays";
}

static void put_networks(const struct forget_report *r)
{
	for (int i = 0; i < r->lineage->n; i++) {
		const struct lineage_network *x = &r->lineage->v[i];
		const struct retrain_step *s = retrainplan_find(r->plan, x);

		fputs("# ", stdout);
		put(x->dir);
		fputs(": ", stdout);
		put(x->why);
		printf("; %s\n", fate(x));
		if (s && s->note) {
			fputs("#   but ", stdout);
			put(s->note);
			putchar('\n');
		}
	}
}

static void put_commands(const struct forget_report *r)
{
	const json_t *word;
	size_t k;

	if (!r->plan->n)
		return;
	fputs("set -e\nmkdir -p ", stdout);
	put_word(r->model);
	putchar('\n');
	for (int i = 0; i < r->lineage->n; i++) {
		const struct lineage_network *x = &r->lineage->v[i];

		if (x->model || retrainplan_find(r->plan, x))
			continue;
		fputs("cp -Rp ", stdout);
		put_word(x->dir);
		putchar(' ');
		put_word(r->model);
		putchar('\n');
	}
	for (int i = 0; i < r->plan->n; i++) {
		json_array_foreach (r->plan->v[i].words, k, word) {
			if (k)
				putchar(' ');
			put_word(json_string_value(word));
		}
		putchar('\n');
	}
}

void forgetreport_script(const struct forget_report *r)
{
	const struct forget_result *f = r->result;

	fputs("# ", stdout);
	put(r->out);
	printf(": without %lld sample%s of ", (long long)f->keys, f->keys == 1 ? "" : "s");
	put(r->shards);
	if (f->made)
		printf("; %lld shards taken over, %lld written\n", (long long)f->linked, (long long)f->written);
	else
		fputs("; made before\n", stdout);
	put_items(f);
	printf("# %s\n", forgetreport_partition(f));
	if (!r->from) {
		fputs("# Which networks saw them: --model MODEL\n", stdout);
		return;
	}
	put_networks(r);
	put_commands(r);
}

void forgetreport_json(const struct forget_report *r)
{
	const struct forget_result *f = r->result;
	json_t *o = json_object(), *list = json_array();
	char *line;

	json_object_set_new(o, "shards", jsonio_text(r->shards));
	json_object_set_new(o, "out", jsonio_text(r->out));
	json_object_set_new(o, "forgotten", json_integer(f->keys));
	json_object_set_new(o, "made", json_boolean(f->made));
	if (f->made) {
		json_object_set_new(o, "shards_kept", json_integer(f->linked));
		json_object_set_new(o, "shards_written", json_integer(f->written));
	}
	json_object_set(o, "samples", f->items);
	json_object_set_new(o, "clusters", json_string(forgetreport_partition(f)));
	for (int i = 0; i < r->lineage->n; i++) {
		const struct lineage_network *x = &r->lineage->v[i];
		const struct retrain_step *s = retrainplan_find(r->plan, x);
		json_t *v = json_pack("{s:o, s:s, s:o}", "network", jsonio_text(x->dir), "saw", lineage_saws[x->saw], "why", jsonio_text(x->why));

		if (s)
			json_object_set(v, "command", s->words);
		if (s && s->note)
			json_object_set_new(v, "note", jsonio_text(s->note));
		json_array_append_new(list, v);
	}
	if (r->from)
		json_object_set(o, "networks", list);
	line = jsonio_line(o);
	printf("%s\n", line);
	mem_free(line);
	json_decref(list);
	json_decref(o);
}
