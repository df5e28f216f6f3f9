/* Reads and renders outlines of fonts by FreeType. */
#include "file/font.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"

#ifdef HAVE_FREETYPE

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_BBOX_H
#include FT_MODULE_H
#include FT_OUTLINE_H
#include FT_SYSTEM_H
#include FT_TRUETYPE_TABLES_H

/* Each has a library of its own, which FreeType demands of threads that work at the same time, and which takes no settings from the environment. */
struct font {
	struct FT_MemoryRec_ memory;
	struct err lacking; /* set when an allocation failed: FreeType goes on without a table that it could not load */
	FT_Library library;
	FT_Face face;
	char *name, *file, *renderer;
};

static void *font_alloc(FT_Memory memory, long size)
{
	struct font *f = memory->user;

	return mem_try((size_t)size, 1, "a font", &f->lacking);
}

static void font_free(FT_Memory memory, void *block)
{
	(void)memory;
	mem_free(block);
}

static void *font_realloc(FT_Memory memory, long old, long size, void *block)
{
	void *now = font_alloc(memory, size);

	if (!now)
		return NULL;
	memcpy(now, block, (size_t)(old < size ? old : size));
	mem_free(block);
	return now;
}

/* ERR_NOMEM if an allocation failed since the font was opened. */
static int check_memory(const struct font *f, struct err *e)
{
	return f->lacking.code ? err_set(e, f->lacking.code, "%s: %s", f->file, f->lacking.msg) : 0;
}

int font_available(void)
{
	return 1;
}

struct font *font_open(const void *data, size_t len, int face, const char *name, struct err *e)
{
	struct font *f = mem_zalloc(1, sizeof *f);
	FT_Int major, minor, patch;
	FT_Error bad;

	f->file = mem_strdup(name);
	f->memory = (struct FT_MemoryRec_){f, font_alloc, font_free, font_realloc};
	bad = FT_New_Library(&f->memory, &f->library);
	if (!bad) {
		FT_Add_Default_Modules(f->library);
		bad = FT_New_Memory_Face(f->library, data, (FT_Long)len, face, &f->face);
	}
	if (check_memory(f, e))
		;
	else if (bad)
		err_set(e, ERR_DATA, "%s: not a font that FreeType reads (error %d)", name, (int)bad);
	else if (!FT_IS_SCALABLE(f->face) || f->face->units_per_EM < 1)
		err_set(e, ERR_DATA, "%s: a font of bitmaps, without outlines to scale", name);
	else if (FT_Select_Charmap(f->face, FT_ENCODING_UNICODE))
		err_set(e, ERR_DATA, "%s: the font has no table of Unicode's characters", name);
	if (e->code) {
		font_close(f);
		return NULL;
	}
	FT_Library_Version(f->library, &major, &minor, &patch);
	f->renderer = str_new("freetype %d.%d.%d", (int)major, (int)minor, (int)patch);
	f->name = str_new("%s%s%s", f->face->family_name ? f->face->family_name : "unnamed", f->face->style_name ? " " : "",
	                  f->face->style_name ? f->face->style_name : "");
	return f;
}

void font_close(struct font *f)
{
	if (!f)
		return;
	if (f->library)
		FT_Done_Library(f->library); /* closes the face, too */
	mem_free(f->name);
	mem_free(f->file);
	mem_free(f->renderer);
	mem_free(f);
}

int font_faces(const struct font *f)
{
	return (int)f->face->num_faces;
}

const char *font_name(const struct font *f)
{
	return f->name;
}

const char *font_renderer(const struct font *f)
{
	return f->renderer;
}

int font_weight(const struct font *f)
{
	const TT_OS2 *os2 = FT_Get_Sfnt_Table(f->face, FT_SFNT_OS2);

	return os2 ? os2->usWeightClass : 0;
}

int font_has(const struct font *f, uint32_t code_point)
{
	return FT_Get_Char_Index(f->face, code_point) != 0;
}

/* Set *o to the outline in units of the font, without hints, and *box to its box; *o is NULL if there is none. */
static int load_outline(struct font *f, uint32_t code_point, FT_Outline **o, FT_BBox *box, struct err *e)
{
	FT_UInt glyph = FT_Get_Char_Index(f->face, code_point);
	FT_GlyphSlot slot = f->face->glyph;
	FT_Error bad = glyph ? FT_Load_Glyph(f->face, glyph, FT_LOAD_NO_SCALE) : 0;

	*o = NULL;
	if (check_memory(f, e))
		return -1;
	if (!glyph || bad || slot->format != FT_GLYPH_FORMAT_OUTLINE)
		return 0;
	if (slot->outline.n_points > 0 && !FT_Outline_Get_BBox(&slot->outline, box) && box->xMax > box->xMin && box->yMax > box->yMin)
		*o = &slot->outline;
	return 0;
}

int font_outline_hash(struct font *f, uint32_t code_point, uint64_t *hash, struct err *e)
{
	struct str bytes = {0};
	FT_Outline *o;
	FT_BBox box;

	*hash = 0;
	if (load_outline(f, code_point, &o, &box, e))
		return -1;
	if (!o)
		return 0;
	str_printf(&bytes, "%d %d %d:", (int)f->face->units_per_EM, (int)o->n_points, (int)o->n_contours);
	for (int i = 0; i < o->n_contours; i++)
		str_printf(&bytes, "%d ", (int)o->contours[i]);
	for (int i = 0; i < o->n_points; i++) {
		int64_t point[3] = {o->points[i].x - box.xMin, o->points[i].y - box.yMin, FT_CURVE_TAG(o->tags[i])};

		str_add(&bytes, point, sizeof point);
	}
	*hash = hash64(bytes.p, bytes.len);
	*hash += !*hash;
	str_release(&bytes);
	return 0;
}

static FT_Pos to_64ths(double v)
{
	return (FT_Pos)llround(64 * v);
}

int font_render(struct font *f, uint32_t code_point, const struct font_pose *pose, uint8_t *coverage, int side, struct err *e)
{
	double scale = pose->em / f->face->units_per_EM, angle = pose->degrees * 3.14159265358979323846 / 180, c = cos(angle), s = sin(angle);
	FT_Bitmap bitmap = {
	    .rows = (unsigned)side, .width = (unsigned)side, .pitch = side, .buffer = coverage, .num_grays = 256, .pixel_mode = FT_PIXEL_MODE_GRAY};
	FT_BBox box;
	FT_Outline *o;
	FT_Error bad;

	memset(coverage, 0, (size_t)side * (size_t)side);
	if (load_outline(f, code_point, &o, &box, e))
		return -1;
	if (!o)
		return err_set(e, ERR_DATA, "%s: no glyph for U+%04X", f->file, (unsigned)code_point);
	for (int i = 0; i < o->n_points; i++) {
		double x = scale * ((double)o->points[i].x - .5 * (double)(box.xMin + box.xMax));
		double y = scale * ((double)o->points[i].y - .5 * (double)(box.yMin + box.yMax));

		/* The place is rounded by itself, so that a shift by whole pixels moves all points alike. FreeType's y begins at the bottom. */
		o->points[i].x = to_64ths(x * c - y * s) + to_64ths(pose->x);
		o->points[i].y = to_64ths(x * s + y * c) + to_64ths(side - pose->y);
	}
	bad = FT_Outline_Get_Bitmap(f->library, o, &bitmap);
	if (check_memory(f, e))
		return -1;
	return bad ? err_set(e, ERR_DATA, "%s: FreeType cannot render U+%04X (error %d)", f->file, (unsigned)code_point, (int)bad) : 0;
}

#else

struct font {
	int none;
};

int font_available(void)
{
	return 0;
}

static int not_built(const char *name, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "%s: this build cannot render fonts: configure it with FreeType (Debian: libfreetype-dev)", name);
}

struct font *font_open(const void *data, size_t len, int face, const char *name, struct err *e)
{
	(void)data;
	(void)len;
	(void)face;
	not_built(name, e);
	return NULL;
}

void font_close(struct font *f)
{
	mem_free(f);
}

int font_faces(const struct font *f)
{
	return f->none;
}

const char *font_name(const struct font *f)
{
	return f->none ? "" : NULL;
}

const char *font_renderer(const struct font *f)
{
	return font_name(f);
}

int font_weight(const struct font *f)
{
	return f->none;
}

int font_has(const struct font *f, uint32_t code_point)
{
	(void)code_point;
	return f->none;
}

int font_outline_hash(struct font *f, uint32_t code_point, uint64_t *hash, struct err *e)
{
	(void)f;
	(void)code_point;
	*hash = 0;
	return not_built("a font", e);
}

int font_render(struct font *f, uint32_t code_point, const struct font_pose *pose, uint8_t *coverage, int side, struct err *e)
{
	(void)f;
	(void)code_point;
	(void)pose;
	(void)coverage;
	(void)side;
	return not_built("a font", e);
}

#endif
