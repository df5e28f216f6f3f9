/* Reads samples from files, tars, shards, latents, idx files, MosaicML's shards and lines of captions. */
#include <stdlib.h>
#include <string.h>

#include "data/classnames.h"
#include "data/memberfile.h"
#include "data/samplesimpl.h"
#include "file/still.h"

/* Start a sample. Members are copied one after the other; their addresses are set when the sample is complete. */
static void begin(struct samples *s, struct sample *out, const char *key, const char *origin)
{
	arena_release(&s->names);
	str_reset(&s->bytes);
	*out = (struct sample){arena_strdup(&s->names, key), origin, 0, s->member};
}

static int by_ext(const void *a, const void *b)
{
	return strcmp(((const struct sample_member *)a)->ext, ((const struct sample_member *)b)->ext);
}

static int member_add(struct samples *s, struct sample *out, const char *ext, size_t len, struct err *e)
{
	if (out->n == MEMBERS)
		return err_set(e, ERR_DATA, "%s: sample \"%s\" has more than %d members", out->origin, out->key, MEMBERS);
	s->member[out->n] = (struct sample_member){arena_strdup(&s->names, ext), NULL, len};
	s->start[out->n++] = s->bytes.len;
	return 0;
}

/* Names the member of a dotless file by its magic. */
static int finish(struct samples *s, struct sample *out, struct err *e)
{
	for (int i = 0; i < out->n; i++) {
		struct sample_member *m = &s->member[i];

		m->data = str_text(&s->bytes) + s->start[i];
		if (!*m->ext)
			m->ext = entry_picture_ext(still_sniff(m->data, m->len));
		if (!*m->ext)
			return err_set(e, ERR_DATA, "%s: neither JPEG, PNG nor WebP", out->origin);
	}
	qsort(s->member, (size_t)out->n, sizeof *s->member, by_ext);
	for (int i = 1; i < out->n; i++)
		if (!strcmp(s->member[i].ext, s->member[i - 1].ext))
			return err_set(e, ERR_DATA, "%s: sample \"%s\" has two members \"%s\"", out->origin, out->key, s->member[i].ext);
	return 0;
}

static int add_class(struct samples *s, struct sample *out, int32_t label, struct err *e)
{
	size_t was = s->bytes.len;

	if (member_add(s, out, "cls", 0, e))
		return -1;
	str_printf(&s->bytes, "%d\n", (int)label);
	s->member[out->n - 1].len = s->bytes.len - was;
	return 0;
}

/* Add the class from the labels beside the folder, if no member gives one. */
static int class_beside(struct samples *s, const struct unit *u, struct sample *out, const char *path, struct err *e)
{
	int32_t label;
	int rc = 0;

	for (int i = 0; i < out->n; i++)
		if (!strcmp(s->member[i].ext, "cls"))
			return 0;
	if (u->labels)
		rc = labels_get(u->labels, path, &label, e);
	return rc > 0 ? add_class(s, out, label, e) : rc;
}

static int next_files(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const struct entry *v = u->files.v;
	int64_t n = (int64_t)u->files.n, i = s->next;
	int rc = 1;

	if (i >= n)
		return 0;
	begin(s, out, v[i].key, v[i].path);
	for (; s->next < n && !strcmp(v[s->next].key, v[i].key); s->next++) {
		size_t len;

		if (rc != 1)
			continue;
		if (member_add(s, out, v[s->next].ext, 0, e) || member_file(&s->bytes, v[s->next].path, s->o.max_member, &len, e))
			rc = 2;
		else
			s->member[out->n - 1].len = len;
	}
	return rc == 1 && (class_beside(s, u, out, v[i].path, e) || finish(s, out, e)) ? 2 : rc;
}

static int tar_begin(struct samples *s, struct unit *u, const char *name, struct err *e)
{
	struct tar_limits limits = {.member = s->o.max_member};

	if (!s->tar)
		s->tar = u->fd >= 0 ? tar_open_fd(u->fd, name, &limits, e) : tar_open(u->path, &limits, e);
	return s->tar ? 0 : -1;
}

/* Add the member read ahead to *out; a sample that is already bad discards it. */
static int tar_take(struct samples *s, struct sample *out, const char *ext, const char *name, struct err *e)
{
	if (s->bytes.len + s->ahead.size > 4 * s->o.max_member)
		return err_set(e, ERR_DATA, "%s: sample \"%s\" is larger than %zu bytes", name, out->key, 4 * s->o.max_member);
	if (member_add(s, out, ext, s->ahead.size, e))
		return -1;
	str_add(&s->bytes, s->ahead.data, s->ahead.size);
	return 0;
}

/* A command that is run once more, for another pass, must give the same bytes. */
static int tar_ended(struct samples *s, struct unit *u, const char *name, struct err *e)
{
	uint64_t hash = tar_hash(s->tar);

	if (s->second && hash != u->hash)
		return err_set(e, ERR_DATA, "%s: the command gave other bytes when it was run again", name);
	u->hash = hash;
	return 0;
}

static int next_tar(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const char *key, *ext, *name = u->fd >= 0 ? "stdin" : u->name;
	struct arena scratch = {0};
	int rc, got = 0, bad = 0;

	if (tar_begin(s, u, name, e))
		return -1;
	while ((rc = s->have_ahead ? 1 : tar_next(s->tar, &s->ahead, e)) > 0) {
		int keyed = entry_key(&scratch, s->ahead.name, NULL, &key, &ext, e);

		s->have_ahead = 0;
		if (keyed > 0) {
			if (entry_is_picture(s->ahead.name))
				tar_pass(s->tar, s->ahead.name, "a name that is not a valid key");
			continue;
		}
		if (keyed < 0 && !got) {
			err_prefix(e, "%s", name);
			bad = 1;
			break;
		}
		if (got && (keyed < 0 || strcmp(key, out->key))) {
			if (keyed < 0 && !bad)
				*e = (struct err){0};
			s->have_ahead = 1;
			break;
		}
		if (!got++)
			begin(s, out, key, name);
		if (!bad)
			bad = tar_take(s, out, ext, name, e) != 0;
	}
	arena_release(&scratch);
	if (rc >= 0 && !s->stamp_read++ && classnames_join(&s->class_names, classnames_of_stamp(tar_stamp(s->tar)), name, SAMPLES_APART, e))
		return -1;
	if (rc < 0 || bad)
		return rc < 0 ? -1 : 2;
	if (!got)
		return tar_ended(s, u, name, e);
	return finish(s, out, e) ? 2 : 1;
}

static int next_shard(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	if (!s->shard) {
		s->shard = u->manifest ? manifest_shard_open(u->manifest, u->row, 0, e) : shard_open(u->path, e);
		if (!s->shard)
			return -1;
	}
	shard_sample_release(&s->read);
	s->read = (struct shard_sample){0};
	if (s->next >= shard_count(s->shard))
		return 0;
	if (shard_read(s->shard, s->next++, &s->read, e))
		return -1;
	if (s->read.members > MEMBERS)
		return err_set(e, ERR_DATA, "%s: sample \"%s\" has more than %d members", u->name, s->read.key, MEMBERS);
	*out = (struct sample){s->read.key, u->name, s->read.members, s->member};
	for (int i = 0; i < out->n; i++)
		s->member[i] = (struct sample_member){s->read.member[i].ext, s->read.member[i].data, s->read.member[i].size};
	return 1;
}

static int add_latent(struct samples *s, struct sample *out, int64_t i, int flip, struct err *e)
{
	size_t was = s->bytes.len;

	if (member_add(s, out, flip ? "flip.npy" : "npy", 0, e))
		return -1;
	if (latents_array(s->latents, i, flip, &s->bytes))
		s->member[out->n - 1].len = s->bytes.len - was;
	else
		out->n--;
	return 0;
}

static int next_latents(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	int64_t i = s->next;
	int32_t label;

	if (!s->latents && !(s->latents = latents_open(u->path, e)))
		return -1;
	if (i >= latents_count(s->latents))
		return 0;
	s->next++;
	label = latents_label(s->latents, i);
	latents_key(s->latents, i, &s->key);
	begin(s, out, str_text(&s->key), u->path);
	if (add_latent(s, out, i, 0, e) || add_latent(s, out, i, 1, e) || (label >= 0 && add_class(s, out, label, e)) || finish(s, out, e))
		return -1;
	return 1;
}

static int next_idx(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	int64_t i = s->next;
	size_t was;

	if (!s->idx && !(s->idx = idx_open(u->path, e)))
		return -1;
	if (i >= idx_count(s->idx))
		return 0;
	s->next++;
	idx_key(s->idx, i, &s->key);
	begin(s, out, str_text(&s->key), u->path);
	was = s->bytes.len;
	if (member_add(s, out, "png", 0, e) || idx_picture(s->idx, i, &s->bytes, e))
		return -1;
	s->member[out->n - 1].len = s->bytes.len - was;
	return (idx_label(s->idx, i) >= 0 && add_class(s, out, idx_label(s->idx, i), e)) || finish(s, out, e) ? -1 : 1;
}

static int next_mds(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const char *ext;
	size_t was = 0;
	int rc;

	if (!s->mds && !(s->mds = mds_open(u->path, !s->second, 4 * s->o.max_member, e)))
		return -1;
	if (s->next >= mds_count(s->mds))
		return 0;
	str_reset(&s->key);
	rc = mds_seek(s->mds, s->next++, &s->key, e);
	if (rc != 1)
		return rc;
	begin(s, out, str_text(&s->key), mds_file(s->mds));
	while ((rc = mds_member(s->mds, &ext, &s->bytes, e)) == 1) {
		if (member_add(s, out, ext, s->bytes.len - was, e))
			return 2;
		s->start[out->n - 1] = was;
		was = s->bytes.len;
	}
	return rc || finish(s, out, e) ? 2 : 1;
}

static int next_line(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const char *name = u->fd >= 0 ? "stdin" : u->path;
	int rc;

	if (!s->lines && !(s->lines = captionlines_open(name, u->fd, e)))
		return -1;
	str_reset(&s->key);
	str_printf(&s->key, "%09lld", (long long)s->line);
	begin(s, out, str_text(&s->key), name);
	rc = captionlines_next(s->lines, &s->bytes, e);
	s->line += rc > 0;
	if (rc != 1)
		return rc;
	s->start[0] = 0;
	s->member[0] = (struct sample_member){"txt", str_text(&s->bytes), s->bytes.len};
	out->n = 1;
	return 1;
}

int samplesread_next(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	static int (*const next_of[])(struct samples * s, struct unit * u, struct sample * out, struct err * e) = {
	    [UNIT_FILES] = next_files, [UNIT_TAR] = next_tar, [UNIT_SHARD] = next_shard, [UNIT_LATENTS] = next_latents,
	    [UNIT_IDX] = next_idx,     [UNIT_MDS] = next_mds, [UNIT_LINES] = next_line};

	return next_of[u->kind](s, u, out, e);
}
