/* Draws pictures of glyphs into a tar: each with its class (.cls), its factors (.json) and its pixels (.png). */
#include "data/synthglyphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/synthoptions.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/standing.h"
#include "file/still.h"
#include "file/tarfile.h"
#include "text/scripts.h"
#include "text/unicode.h"

enum { BLOCK = 256 };

struct picturing {
	const struct synth_request *r;
	struct glyph_set set;
	int32_t script_class[32]; /* of each script, the class by script; the last is "other" */
	int scripts;              /* classes by script */
	int64_t at;               /* the first sample of the block */
	struct glyph_draw draw[BLOCK];
	uint8_t *pixels; /* (BLOCK, side, side) */
	struct err err[BLOCK];
	uint8_t *png[BLOCK];
	size_t len[BLOCK];
	struct outfile file;
	struct tar_writer tar;
};

enum { OTHER = 31 };

static int script_at(const struct glyph *g)
{
	int s = script_of(g->code_point);

	return s < 0 ? OTHER : s;
}

static const char *script_text(int s)
{
	return s == OTHER ? "other" : script_names[s];
}

/* Number the scripts that occur, in the order of the table. */
static void number_scripts(struct picturing *p)
{
	for (int s = 0; s < 32; s++)
		p->script_class[s] = -1;
	for (int64_t i = 0; i < p->set.n; i++)
		p->script_class[script_at(&p->set.glyph[i])] = 0;
	for (int s = 0; s < 32; s++)
		if (!p->script_class[s])
			p->script_class[s] = p->scripts++;
}

static int64_t class_of(const struct picturing *p, const struct glyph *g)
{
	return p->r->glyphs.classes == SYNTH_BY_GLYPH    ? glyph_set_character(&p->set, g)
	       : p->r->glyphs.classes == SYNTH_BY_SCRIPT ? p->script_class[script_at(g)]
	                                                 : g->face;
}

static json_t *character_name(uint32_t c)
{
	char name[16];

	snprintf(name, sizeof name, "U+%04X", (unsigned)c);
	return json_string(name);
}

/* The name of a face; one that an earlier face has is followed by its number. */
static json_t *face_name(const struct glyph_set *s, int face)
{
	int same = 1;
	char *text;
	json_t *name;

	for (int i = 0; i < face; i++)
		same += !strcmp(s->face[i].name, s->face[face].name);
	text = same > 1 ? str_new("%s %d", s->face[face].name, same) : str_new("%s", s->face[face].name);
	name = jsonio_text(text);
	mem_free(text);
	return name;
}

/* Names of the classes. Above GLYPH_CLASSES characters they would make the stamp long, and the factors have them anyway. */
static void put_class_names(struct stamp *stamp, const struct picturing *p)
{
	const struct glyph_set *s = &p->set;
	json_t *names = json_array();

	if (p->r->glyphs.classes == SYNTH_BY_GLYPH)
		for (int64_t i = 0; i < s->characters && s->characters <= GLYPH_CLASSES; i++)
			json_array_append_new(names, character_name(s->character[i]));
	if (p->r->glyphs.classes == SYNTH_BY_SCRIPT)
		for (int i = 0; i < 32; i++)
			if (p->script_class[i] >= 0)
				json_array_append_new(names, json_string(script_text(i)));
	if (p->r->glyphs.classes == SYNTH_BY_FONT)
		for (int i = 0; i < s->faces; i++)
			json_array_append_new(names, face_name(s, i));
	if (json_array_size(names))
		stamp_json(stamp, "class_names", names);
	else
		json_decref(names);
}

static void picture_task(void *arg, int64_t i, int worker)
{
	struct picturing *p = arg;
	int side = p->r->glyphs.side;
	struct picture picture = {side, side, 1, p->pixels + i * side * side};

	p->err[i] = (struct err){0};
	p->png[i] = NULL;
	p->draw[i] = glyph_draw(&p->set, &p->r->glyphs.law, side, p->r->seed, (uint64_t)(p->at + i));
	if (!glyph_picture(&p->set, worker, &p->draw[i], picture.pixels, side, &p->err[i]))
		still_encode_png(&picture, NULL, 0, &p->png[i], &p->len[i], &p->err[i]);
}

static char *factors_text(const struct picturing *p, const struct glyph_draw *d)
{
	const struct glyph_face *face = &p->set.face[d->glyph->face];
	struct str c = {0};
	json_t *o;
	char *text;

	utf8_add(&c, d->glyph->code_point);
	o = json_pack("{s:o, s:o, s:s, s:o, s:i, s:f, s:f, s:f, s:f, s:i, s:i}", "glyph", character_name(d->glyph->code_point), "text",
	              jsonio_text(str_text(&c)), "script", script_text(script_at(d->glyph)), "font", face_name(&p->set, d->glyph->face), "weight",
	              face->weight, "x", d->pose.x, "y", d->pose.y, "em", d->pose.em, "rotation", d->pose.degrees, "ink", d->ink, "ground",
	              d->ground);
	text = jsonio_line(o);
	json_decref(o);
	str_release(&c);
	return text;
}

static int put_member(struct picturing *p, int64_t i, const char *ext, const void *data, size_t len, struct err *e)
{
	char name[64];

	snprintf(name, sizeof name, "%llu-%09lld.%s", (unsigned long long)p->r->seed, (long long)(p->at + i), ext);
	return tar_add(&p->tar, name, data, len, e);
}

static int put_picture(struct picturing *p, int64_t i, struct err *e)
{
	char *factors, class[24];
	int rc;

	if (p->err[i].code)
		return err_set(e, p->err[i].code, "%s", p->err[i].msg);
	snprintf(class, sizeof class, "%lld", (long long)class_of(p, p->draw[i].glyph));
	factors = factors_text(p, &p->draw[i]);
	rc = put_member(p, i, "cls", class, strlen(class), e) || put_member(p, i, "json", factors, strlen(factors), e) ||
	             put_member(p, i, "png", p->png[i], p->len[i], e)
	         ? -1
	         : 0;
	mem_free(factors);
	return rc;
}

static int draw_all(struct picturing *p, struct pool *pool, volatile sig_atomic_t *stop, struct err *e)
{
	const struct synth_request *r = p->r;
	int rc = 0;

	for (p->at = 0; p->at < r->count && !rc; p->at += BLOCK) {
		int64_t n = r->count - p->at < BLOCK ? r->count - p->at : BLOCK;

		if (progress_tell(r->progress, "samples", p->at, r->count) || (stop && *stop))
			return err_set(e, ERR_AGAIN, "interrupted");
		pool_run(pool, n, picture_task, p);
		for (int64_t i = 0; i < n; i++) {
			rc = rc ? rc : put_picture(p, i, e);
			mem_free(p->png[i]);
		}
	}
	progress_tell(r->progress, "samples", r->count, r->count);
	return rc;
}

static int write_pictures(struct picturing *p, const struct stamp *stamp, struct pool *pool, volatile sig_atomic_t *stop, struct err *e)
{
	size_t side = (size_t)p->r->glyphs.side;
	char *line = stamp_line(stamp);
	int rc = -1;

	if ((p->pixels = mem_try(BLOCK * side * side, 1, "pictures", e)) && !outfile_open(&p->file, p->r->out, e) &&
	    !tar_start(&p->tar, &p->file, line, e) && !draw_all(p, pool, stop, e) && !tar_finish(&p->tar, e))
		rc = outfile_commit(&p->file, e);
	tar_release(&p->tar);
	outfile_abort(&p->file);
	mem_free(p->pixels);
	mem_free(line);
	return rc;
}

int synth_glyphs_draw(const struct synth_request *asked, struct pool *pool, volatile sig_atomic_t *stop, struct synth_report *report, struct err *e)
{
	struct picturing *p = mem_zalloc(1, sizeof *p);
	struct synth_request own = *asked;
	const struct synth_request *r = p->r = &own;
	struct stamp *s;
	int rc;

	if (!own.glyphs.choice.scripts && !own.glyphs.choice.ranges)
		own.glyphs.choice.scripts = 1; /* latin, the first of script_names */
	s = synth_stamp(r);
	rc =
	    claim_take(&r->out, 1, e) || glyph_set_open(&p->set, r->glyphs.fonts, r->glyphs.nfonts, &r->glyphs.choice, pool, r->progress, e) ? -1 : 0;
	if (!rc) {
		number_scripts(p);
		stamp_text(s, "renderer", font_renderer(p->set.open[0]));
		stamp_input(s, "fonts", p->set.hash);
		put_class_names(s, p);
		rc = standing_all(&r->out, 1, s, e);
	}
	if (!rc) {
		rc = write_pictures(p, s, pool, stop, e);
		*report = (struct synth_report){.made = !rc,
		                                .samples = r->count,
		                                .channels = 1,
		                                .size = r->glyphs.side,
		                                .glyphs = p->set.n,
		                                .characters = p->set.characters,
		                                .faces = p->set.faces,
		                                .missing = p->set.missing,
		                                .blank = p->set.blank,
		                                .repetitions = p->set.repetitions};
	}
	stamp_free(s);
	glyph_set_release(&p->set);
	mem_free(p);
	return rc < 0 ? -1 : 0;
}
