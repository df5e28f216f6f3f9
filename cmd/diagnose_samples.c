/* Chooses and reads the samples at whose noised states ddm-diagnose measures a model. */
#include "cmd/diagnose_samples.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/diagnose.h"
#include "cmd/diagnose_table.h"
#include "core/mem.h"
#include "data/dataset.h"
#include "net/net.h"

enum { ID_BITS = 44 };

static const struct diagnose_request *const ask = &diagnose_request;

/* A sample in the order of measurement, which depends on the seed and the key alone: the same for every partition of the same samples. */
struct diagnose_pick {
	uint64_t order, id;
	int64_t index; /* in the dataset */
};

int diagnose_holdout(void)
{
	return ask->split_given ? ask->split : 1;
}

int diagnose_same_clusters(const struct ensemble *m, const struct manifest *shards_of, const char *model, const char *shards, struct err *e)
{
	if (*m->partition && *shards_of->partition && strcmp(m->partition, shards_of->partition) != 0)
		return err_set(e, ERR_DATA, "the clusters of %s are not those of %s: the labels would mean other clusters", shards, model);
	return 0;
}

int diagnose_samples_check(struct diagnose_samples *s, const struct ensemble *m, const struct manifest *shards_of, const char *model,
                           const char *shards, struct err *e)
{
	if (m->text_tokens)
		return err_set(e, ERR_USAGE, "%s: reads text, and losses are measured without texts", model);
	if (ensemble_without_first(m, model, e))
		return -1;
	if (ask->untold && m->classes && !m->null_label)
		return err_set(e, ERR_USAGE, "--untold: %s was trained without the null label, and needs its condition", model);
	if (m->classes && !ask->untold)
		s->told = m->told_cluster ? TOLD_CLUSTER : TOLD_CLASS;
	if (s->told == TOLD_CLUSTER && m->classes != shards_of->clusters)
		return err_set(e, ERR_DATA, "%s was told one of %d clusters, but %s has %d", model, m->classes, shards, shards_of->clusters);
	return s->told == TOLD_CLUSTER ? diagnose_same_clusters(m, shards_of, model, shards, e) : 0;
}

void diagnose_samples_stamp(struct stamp *s, const double *time, int times, const struct manifest *shards_of, const struct ensemble *m)
{
	stamp_json(s, "times", diagnose_time_list(time, times));
	stamp_i64(s, "n", ask->count);
	stamp_text(s, "split", diagnose_splits[diagnose_holdout()]);
	stamp_i64(s, "untold", ask->untold);
	stamp_u64(s, "seed", ask->seed);
	stamp_input(s, "shards", shards_of->sha256);
	diagnose_stamp_model(s, m);
}

static int by_order(const void *a, const void *b)
{
	const struct diagnose_pick *p = a, *q = b;

	if (p->order != q->order)
		return p->order < q->order ? -1 : 1;
	return p->id < q->id ? -1 : p->id > q->id;
}

/* A sample that is in several clusters is measured once. */
static void pick_samples(struct diagnose_samples *s, int64_t count)
{
	s->pick = mem_alloc((size_t)count * sizeof *s->pick);
	for (int64_t i = 0; i < count; i++) {
		const char *key = dataset_key(s->data, i, &s->key);
		char *keyed = str_new("%llu/%s", (unsigned long long)ask->seed, key);

		s->pick[i] = (struct diagnose_pick){hash64(keyed, strlen(keyed)), hash64(key, strlen(key)) & (((uint64_t)1 << ID_BITS) - 1), i};
		mem_free(keyed);
	}
	qsort(s->pick, (size_t)count, sizeof *s->pick, by_order);
	for (int64_t i = 0; i < count && s->n < ask->count; i++)
		if (!s->n || by_order(&s->pick[s->n - 1], &s->pick[i]) != 0)
			s->pick[s->n++] = s->pick[i];
}

int diagnose_samples_open(struct diagnose_samples *s, const struct ensemble *m, const char *shards, struct pool *pool, struct err *e)
{
	const struct dataset_options o = {.cluster = DATASET_ALL,
	                                  .holdout = diagnose_holdout(),
	                                  .size = (int)m->size,
	                                  .verify = !ask->no_verify,
	                                  .labelled = s->told == TOLD_CLASS,
	                                  .deviations = 1,
	                                  .channels = m->channels == 1,
	                                  .pool = pool};
	const struct dataset_info *info;
	size_t n = (size_t)ask->batch;
	char theirs[NET_SAMPLE_TEXT], ours[NET_SAMPLE_TEXT];

	if (!(s->data = dataset_open(shards, &o, e)))
		return -1;
	info = dataset_info(s->data);
	if (info->channels != m->channels || info->height != m->size || info->width != m->size || info->frames != m->frames)
		return err_set(e, ERR_DATA, "%s: samples of %s, but the model is of %s", shards,
		               net_sample_text(info->frames, info->channels, info->height, info->width, ours),
		               net_sample_text(m->frames, m->channels, m->size, m->size, theirs));
	if (s->told == TOLD_CLASS && info->classes > m->classes)
		return err_set(e, ERR_DATA, "%s: has %d classes, but the model was trained with %d", shards, info->classes, m->classes);
	pick_samples(s, info->count);
	s->d = m->d;
	sha256_init(&s->hash);
	if (!(s->x0 = mem_try(n * (size_t)s->d, sizeof *s->x0, "samples", e)) || !(s->std = mem_try((size_t)s->d, sizeof *s->std, "deviations", e)))
		return -1;
	s->id = mem_zalloc(n, sizeof *s->id);
	s->index = mem_zalloc(n, sizeof *s->index);
	s->label = mem_zalloc(n, sizeof *s->label);
	s->cluster = mem_zalloc(n, sizeof *s->cluster);
	s->now = (struct velocity_samples){.x0 = s->x0, .id = s->id, .index = s->index, .label = s->told ? s->label : NULL, .cluster = s->cluster};
	return 0;
}

/* A latent is drawn from its distribution by seed and id. */
int diagnose_samples_read(struct diagnose_samples *s, int64_t first, struct err *e)
{
	int drawn = dataset_info(s->data)->deviations;

	s->now.n = s->n - first < ask->batch ? s->n - first : ask->batch;
	for (int64_t i = 0; i < s->now.n; i++) {
		const struct diagnose_pick *p = &s->pick[first + i];
		struct dataset_item it = {.x = s->x0 + i * s->d, .std = drawn ? s->std : NULL};
		const char *key = dataset_key(s->data, p->index, &s->key);

		if (dataset_item(s->data, p->index, &it, e))
			return -1;
		if (drawn)
			latent_draw(it.x, s->std, s->d, ask->seed, 0, p->id);
		sha256_add(&s->hash, key, strlen(key) + 1);
		sha256_add(&s->hash, it.x, (size_t)s->d * sizeof *it.x);
		s->id[i] = p->id;
		s->index[i] = first + i;
		s->label[i] = s->told == TOLD_CLASS ? it.label : s->told == TOLD_CLUSTER ? it.cluster : -1;
		s->cluster[i] = it.cluster;
	}
	return 0;
}

const char *diagnose_samples_key(struct diagnose_samples *s, int64_t i)
{
	return dataset_key(s->data, s->pick[i].index, &s->key);
}

const char *diagnose_samples_hash(const struct diagnose_samples *s, char hash[65])
{
	struct sha256 h = s->hash;

	sha256_end(&h, hash);
	return hash;
}

void diagnose_samples_release(struct diagnose_samples *s)
{
	dataset_free(s->data);
	mem_free(s->pick);
	str_release(&s->key);
	mem_free(s->x0);
	mem_free(s->std);
	mem_free(s->id);
	mem_free(s->index);
	mem_free(s->label);
	mem_free(s->cluster);
	*s = (struct diagnose_samples){0};
}
