/* Compares the stamp of an existing output with the stamp of the command that would replace it. */
#include "file/standing.h"

#include <string.h>
#include <sys/stat.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/still.h"
#include "file/tarfile.h"

enum { TEXT_MOST = 1 << 26, MARKUP_MOST = 1 << 20 };

static char *of_tar(const char *path, struct err *why)
{
	struct tar_reader *t = tar_open(path, NULL, why);
	struct tar_member m;
	char *line = NULL;

	if (t && tar_next(t, &m, why) >= 0 && tar_stamp(t))
		line = mem_strdup(tar_stamp(t));
	tar_close(t);
	return line;
}

static char *of_table(const struct filemap *f)
{
	static const char start[] = "\n#stamp ";
	const uint8_t *line = memchr(f->data, '\n', f->len), *end;

	if (!line || f->len - (size_t)(line - f->data) < sizeof start || memcmp(line, start, sizeof start - 1))
		return NULL;
	line += sizeof start - 1;
	end = memchr(line, '\n', f->len - (size_t)(line - f->data));
	return end ? str_new("%.*s", (int)(end - line), (const char *)line) : NULL;
}

/* `<metadata id="ddm">STAMP</metadata>` of an SVG, `<meta name="ddm" content="STAMP">` of a page, near the beginning. */
static char *of_markup(const struct filemap *f)
{
	static const char *const open[] = {"<metadata id=\"ddm\">", "<meta name=\"ddm\" content=\""};
	static const char end_of[] = {'<', '"'};
	static const struct entity {
		const char *text;
		char c;
	} entity[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}};
	size_t most = f->len < MARKUP_MOST ? f->len : MARKUP_MOST;
	struct str line = {0};

	for (int kind = 0; kind < 2; kind++) {
		const char *at = memmem(f->data, most, open[kind], strlen(open[kind])), *end = (const char *)f->data + most;

		if (!at)
			continue;
		for (at += strlen(open[kind]); at < end && *at != end_of[kind];) {
			size_t step = 1;
			char c = *at;

			for (size_t i = 0; i < 4 && *at == '&'; i++)
				if ((size_t)(end - at) > strlen(entity[i].text) && !memcmp(at, entity[i].text, strlen(entity[i].text))) {
					c = entity[i].c;
					step = strlen(entity[i].text);
				}
			str_add(&line, &c, 1);
			at += step;
		}
		if (at < end)
			return line.p;
		str_release(&line);
	}
	return NULL;
}

static char *of_json(const char *path, struct err *why)
{
	json_t *o = jsonio_load(path, why), *s = json_object_get(o, "stamp");
	char *line = NULL;

	json_object_del(o, "seal");
	json_object_del(o, "data-xxh3");
	if (json_is_object(s))
		line = jsonio_line(s);
	else if (json_object_get(o, "program"))
		line = jsonio_line(o);
	json_decref(o);
	return line;
}

static char *of_file(const char *path, struct err *why)
{
	struct filemap f;
	char *line = NULL;

	if (filemap_open(&f, path, why))
		return NULL;
	if (still_sniff(f.data, f.len) == STILL_PNG)
		line = still_png_text(f.data, f.len, "ddm");
	else if (f.len && *f.data == '#')
		line = of_table(&f);
	else if (f.len && *f.data == '{' && f.len <= TEXT_MOST)
		line = of_json(path, why);
	else if (f.len && *f.data == '<')
		line = of_markup(&f);
	else if (tar_sniff(f.data, f.len))
		line = of_tar(path, why);
	filemap_close(&f);
	return line;
}

static int is_damage(const struct err *why)
{
	return why->code != ERR_IO && why->code != ERR_NOMEM;
}

char *standing_stamp(const char *path, struct err *e)
{
	char *side = str_new("%s.json", path), *line;
	struct err why = {0};

	line = of_file(path, &why);
	if (!line && is_damage(&why) && path_exists(side)) {
		why = (struct err){0};
		line = of_json(side, &why);
	}
	if (!line && !is_damage(&why))
		err_set(e, why.code, "%s", why.msg);
	mem_free(side);
	return line;
}

/* Remove the keys from the old stamp that s lacks. */
static void keep_common(json_t *old, const json_t *s)
{
	const char *key;
	json_t *v;
	void *next;

	json_object_foreach_safe(old, next, key, v)
	{
		json_t *mine = json_object_get(s, key);

		if (!mine)
			json_object_del(old, key);
		else if (json_is_object(mine) && json_is_object(v))
			keep_common(v, mine);
	}
}

int standing_is_file(const char *path)
{
	struct stat st;

	return strcmp(path, "-") && !stat(path, &st) && S_ISREG(st.st_mode) && st.st_size;
}

int standing_are_files(const char *const *path, int n)
{
	for (int i = 0; i < n; i++)
		if (path[i] && !standing_is_file(path[i]))
			return 0;
	return 1;
}

/* Whether the first line of a file is an object with all keys. */
static int has_line(const char *path, const char *const *keys, struct err *why)
{
	struct filemap f;
	const uint8_t *end;
	json_t *o = NULL;
	int yes = 0;

	if (!keys || filemap_open(&f, path, why))
		return 0;
	end = memchr(f.data, '\n', f.len < MARKUP_MOST ? f.len : MARKUP_MOST);
	if (f.len && *f.data == '{')
		o = json_loadb((const char *)f.data, end ? (size_t)(end - f.data) : f.len < MARKUP_MOST ? f.len : 0, JSON_REJECT_DUPLICATES, NULL);
	for (yes = json_is_object(o); yes && *keys; keys++)
		yes = json_object_get(o, *keys) != NULL;
	json_decref(o);
	filemap_close(&f);
	return yes;
}

/* Early versions of ddm-report wrote tables with an empty stamp. */
int standing_view(const char *path, const char *program, const char *const *keys, struct err *e)
{
	struct err why = {0};
	char *line = !standing_is_file(path) ? NULL : standing_stamp(path, &why);
	json_t *old = line ? json_loads(line, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const char *maker = json_string_value(json_object_get(old, "program"));
	int own = !standing_is_file(path) || (maker && !strcmp(maker, program)) || (!strcmp(program, "ddm-report") && old && !json_object_size(old));

	if (!own && !why.code)
		own = has_line(path, keys, &why);
	mem_free(line);
	json_decref(old);
	if (!is_damage(&why))
		return err_set(e, why.code, "%s", why.msg);
	return own ? 0
	           : err_set(e, ERR_EXISTS,
	                     "%s: exists and is not an output of %s, which replaces only its own outputs: remove it, or name another file", path,
	                     program);
}

int standing_check(const char *path, const struct stamp *s, int partial, struct err *e)
{
	struct str what = {0};
	struct err why = {0};
	char *line;
	json_t *old;
	int n;

	if (!standing_is_file(path))
		return 0;
	line = standing_stamp(path, &why);
	if (why.code)
		return err_set(e, why.code, "%s", why.msg);
	old = line ? json_loads(line, JSON_REJECT_DUPLICATES, NULL) : NULL;
	mem_free(line);
	if (!json_is_object(old)) {
		json_decref(old);
		return err_set(e, ERR_EXISTS, "%s: exists and is not an output of this program", path);
	}
	if (partial)
		keep_common(old, stamp_root(s));
	line = jsonio_line(old);
	n = stamp_differs(s, line, &what);
	if (n)
		err_set(e, ERR_EXISTS, "%s: exists and was made with other options or inputs: %s", path, str_text(&what));
	json_decref(old);
	mem_free(line);
	str_release(&what);
	return n ? -1 : 0;
}

int standing_all(const char *const *path, int n, const struct stamp *s, struct err *e)
{
	int there = 1, talking = 0;

	for (int i = 0; i < n; i++)
		talking += path[i] && !strcmp(path[i], "-");
	if (talking > 1)
		return err_set(e, ERR_USAGE, "%d outputs on standard output: name files (-o FILE)", talking);
	for (int i = 0; i < n; i++) {
		if (!path[i])
			continue;
		if (standing_check(path[i], s, 0, e))
			return -1;
		there &= strcmp(path[i], "-") && path_exists(path[i]);
	}
	return there;
}
