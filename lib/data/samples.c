/* Samples of tars, shards, folders, lists and latents, one after the other. */
#include "data/samples.h"

#include <string.h>
#include <unistd.h>

#include "data/samplesimpl.h"

int samples_bad(struct samples *s, struct err *e)
{
	if (!s->o.skip_bad)
		return -1;
	if (!s->second) {
		s->skipped++;
		if (s->o.bad)
			s->o.bad(s->o.bad_arg, e->msg);
	}
	*e = (struct err){0};
	return 0;
}

/* Members of a tar that belong to no sample: counted, and reported after all samples have been read. */
static void remember_passed(struct samples *s)
{
	const char *first;
	int64_t n = s->tar && !s->second ? tar_passed(s->tar, &first) : 0;

	if (n)
		str_printf(&s->passed, "%s%s: passed over: %s%s", s->passed.len ? "; " : "", s->unit[s->at].fd >= 0 ? "stdin" : s->unit[s->at].name,
		           first, n > 3 ? " and more" : "");
}

static void tell_passed(struct samples *s)
{
	void (*tell)(void *, const char *) = s->o.passed ? s->o.passed : s->o.bad;

	if (s->passed.len && tell)
		tell(s->o.bad_arg, str_text(&s->passed));
	str_reset(&s->passed);
}

static void end_unit(struct samples *s)
{
	tar_close(s->tar);
	shard_sample_release(&s->read);
	s->read = (struct shard_sample){0};
	shard_free(s->shard);
	latents_free(s->latents);
	idx_free(s->idx);
	mds_free(s->mds);
	captionlines_free(s->lines);
	s->lines = NULL;
	s->mds = NULL;
	s->latents = NULL;
	s->idx = NULL;
	s->tar = NULL;
	s->shard = NULL;
	s->have_ahead = s->stamp_read = 0;
	s->next = 0;
}

void samples_close(struct samples *s)
{
	if (!s)
		return;
	end_unit(s);
	for (size_t i = 0; i < s->units; i++) {
		entries_release(&s->unit[i].files);
		labels_free(s->unit[i].labels);
		mem_free(s->unit[i].path);
		mem_free(s->unit[i].name);
	}
	for (size_t i = 0; i < s->manifests; i++) {
		manifest_release(s->manifest[i]);
		mem_free(s->manifest[i]);
	}
	feed_close(&s->feed);
	mem_free(s->manifest);
	mem_free(s->unit);
	mem_free(s->what);
	str_release(&s->bytes);
	str_release(&s->key);
	json_decref(s->class_names);
	str_release(&s->passed);
	arena_release(&s->names);
	keyset_release(&s->keys);
	mem_free(s);
}

int samples_rewind(struct samples *s, struct err *e)
{
	end_unit(s);
	if (s->o.once)
		return err_set(e, ERR_INTERNAL, "these samples can be read only once");
	for (size_t i = 0; i < s->units; i++)
		if (s->unit[i].fd >= 0 && lseek(s->unit[i].fd, 0, SEEK_SET))
			return err_errno(e, "stdin");
	keyset_clear(&s->keys);
	s->at = 0;
	s->line = 0;
	s->second = 1;
	return 0;
}

static void digest_add(struct samples *s, const struct sample *x)
{
	sha256_add(&s->digest, x->key, strlen(x->key) + 1);
	for (int i = 0; i < x->n; i++) {
		const struct sample_member *m = &x->member[i];
		uint64_t v[2] = {m->len, hash64(m->data, m->len)};
		uint8_t le[16];

		for (int b = 0; b < 16; b++)
			le[b] = (uint8_t)(v[b / 8] >> (8 * (b % 8)));
		sha256_add(&s->digest, m->ext, strlen(m->ext) + 1);
		sha256_add(&s->digest, le, sizeof le);
	}
	sha256_add(&s->digest, "\n", 1);
}

static int at_end(struct samples *s, struct err *e)
{
	if (s->count) {
		tell_passed(s);
		return 0;
	}
	if (s->skipped)
		return err_set(e, ERR_DATA, "%s: none of %lld samples is readable", s->what, (long long)s->skipped);
	if (s->elsewhere)
		return err_set(e, ERR_DATA, "%s: none of %lld samples belongs to job %lld of %lld", s->what, (long long)s->elsewhere,
		               (long long)s->o.share.index, (long long)s->o.share.count);
	return err_set(e, ERR_DATA, "%s: no samples (%s)", s->what, s->o.captions ? "captions" : "pictures or arrays");
}

int samples_next(struct samples *s, struct sample *out, struct err *e)
{
	struct err scratch = {0}; /* samples_bad needs one to clear */

	if (!e)
		e = &scratch;
	for (; s->at < s->units; remember_passed(s), s->at++, end_unit(s)) {
		struct unit *u = &s->unit[s->at];
		int rc;

		while ((rc = samplesread_next(s, u, out, e)) > 0) {
			if (rc == 2) {
				if (samples_bad(s, e))
					return -1;
				continue;
			}
			if (!sample_picture(out) && !sample_find(out, "npy") && !(s->o.captions && sample_find(out, "txt")))
				continue;
			if (!jobshare_takes(&s->o.share, out->key) && ++s->elsewhere)
				continue;
			if (!s->o.repeats && keyset_add(&s->keys, out->key))
				return err_set(e, ERR_DATA, "%s: the key \"%s\" appears twice", out->origin, out->key);
			if (!s->second) {
				s->count++;
				digest_add(s, out);
			}
			return 1;
		}
		if (rc < 0)
			return -1;
	}
	return at_end(s, e);
}

void samples_passed(struct samples *s, int64_t n)
{
	s->skipped += n;
}

const struct samples_options *samples_settings(const struct samples *s)
{
	return &s->o;
}

const json_t *samples_class_names(const struct samples *s)
{
	return s->class_names;
}

int64_t samples_count(const struct samples *s)
{
	return s->count;
}

/* The fraction of the current unit that has been read. */
static double fraction_read(const struct samples *s)
{
	const struct unit *u = &s->unit[s->at];

	if (u->kind == UNIT_FILES)
		return u->files.n ? (double)s->next / (double)u->files.n : 0;
	if (s->idx)
		return (double)s->next / (double)(idx_count(s->idx) + 1);
	return s->tar ? tar_fraction(s->tar) : s->shard ? (double)s->next / (double)(shard_count(s->shard) + 1) : 0;
}

int64_t samples_expected(const struct samples *s)
{
	double fraction = s->at < s->units ? ((double)s->at + fraction_read(s)) / (double)s->units : 1;

	return fraction > 0 ? (int64_t)((double)s->count / fraction) : 0;
}

int64_t samples_skipped(const struct samples *s)
{
	return s->skipped;
}

void samples_digest(const struct samples *s, char hex[65])
{
	struct sha256 copy = s->digest;

	sha256_end(&copy, hex);
}

int samples_check(const struct samples *s, struct err *e)
{
	if (s->o.max_errors < 0 || s->skipped <= s->o.max_errors)
		return 0;
	return err_set(e, ERR_SKIPPED, "%lld bad samples skipped, more than the %lld allowed", (long long)s->skipped, (long long)s->o.max_errors);
}

const struct sample_member *sample_find(const struct sample *s, const char *ext)
{
	for (int i = 0; i < s->n; i++)
		if (!strcmp(s->member[i].ext, ext))
			return &s->member[i];
	return NULL;
}

int sample_put(struct tar_writer *t, const struct sample *s, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < s->n && !rc; i++) {
		char *name = str_new("%s.%s", s->key, s->member[i].ext);

		rc = tar_add(t, name, s->member[i].data, s->member[i].len, e);
		mem_free(name);
	}
	return rc;
}

const struct sample_member *sample_picture(const struct sample *s)
{
	for (int i = 0; i < s->n; i++)
		if (entry_is_picture(s->member[i].ext))
			return &s->member[i];
	return NULL;
}
