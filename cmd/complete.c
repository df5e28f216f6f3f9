/* Makes completion scripts for bash, zsh and fish from a program's option table. */
#include "cmd/complete.h"

#include <stddef.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

/* The kinds of values that can follow an option. */
enum follows { NOTHING, WORDS, WORDS_OR_FILES, FILES, NUMBER };

static enum follows what_follows(const struct option *o)
{
	switch (o->type) {
	case OPTION_FLAG:
	case OPTION_OFF:
		return NOTHING;
	case OPTION_CHOICE:
		return WORDS;
	case OPTION_TEXT:
	case OPTION_LIST:
		return o->choices ? WORDS_OR_FILES : FILES;
	case OPTION_PARSED:
		return o->choices ? WORDS : NUMBER;
	default:
		return NUMBER;
	}
}

/* Append text for use inside single quotes: characters in `escape` get a backslash, and a single quote becomes `quote`. */
static void add_quoted(struct str *s, const char *text, const char *escape, const char *quote)
{
	for (; text && *text; text++) {
		if (*text == '\'') {
			str_puts(s, quote);
			continue;
		}
		if (strchr(escape, *text))
			str_puts(s, "\\");
		str_add(s, text, 1);
	}
}

/* Append the choices of an option. */
static void add_words(struct str *s, const struct option *o, const char *between, const char *escape, const char *quote)
{
	for (int i = 0; o->choices && o->choices[i]; i++) {
		if (i)
			str_puts(s, between);
		add_quoted(s, o->choices[i], escape, quote);
	}
}

/* Append the names of an option, such as "-n|--count". */
static void add_names(struct str *s, const struct option *o, const char *between)
{
	if (o->letter)
		str_printf(s, "-%c%s", o->letter, o->name ? between : "");
	if (o->name)
		str_puts(s, o->name);
}

/* Append the name of the shell function, such as "_ddm_train". */
static void add_function(struct str *s, const struct program *p)
{
	str_puts(s, "_");
	for (const char *c = p->name; *c; c++)
		str_add(s, *c == '-' ? "_" : c, 1);
}

static const char bash_head[] = "()\n"
				"{\n"
				"\tlocal cur=${COMP_WORDS[COMP_CWORD]} opt=${COMP_WORDS[COMP_CWORD-1]} words= files= front= only=\n"
				"\tlocal IFS=$'\\n' i\n"
				"\tCOMPREPLY=()\n"
				"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
				"\t\t[[ ${COMP_WORDS[i]} == -- ]] && only=1\n"
				"\tdone\n"
				"\t# --name=value is three words, or one where COMP_WORDBREAKS lacks the =.\n"
				"\tif [[ $cur == = ]]; then\n"
				"\t\tcur=\n"
				"\telif [[ $opt == = ]]; then\n"
				"\t\topt=${COMP_WORDS[COMP_CWORD-2]}\n"
				"\telif [[ $cur == *=* ]]; then\n"
				"\t\topt=${cur%%=*} front=${cur%%=*}= cur=${cur#*=}\n"
				"\tfi\n"
				"\t[[ $only ]] && opt=\n"
				"\tcase $opt in\n";

static const char bash_tail[] = "\t\tfiles=1\n"
				"\t\tif [[ $cur == -* && ! $only ]]; then\n"
				"\t\t\tfiles= words=$options\n"
				"\t\tfi\n"
				"\t\t;;\n"
				"\tesac\n"
				"\t[[ $words ]] && mapfile -t COMPREPLY < <(compgen -P \"$front\" -W \"$words\" -- \"$cur\")\n"
				"\tif [[ $files && ${#COMPREPLY[@]} -eq 0 ]]; then\n"
				"\t\tcompopt -o filenames 2>/dev/null\n"
				"\t\tmapfile -t COMPREPLY < <(compgen -P \"$front\" -f -- \"$cur\")\n"
				"\tfi\n"
				"}\n";

/* A single quote inside single quotes. */
static const char bash_quote[] = "'\\''";

static void bash_script(struct str *s, const struct program *p)
{
	struct option_row rows[OPTION_MOST];
	int n = option_rows(p, rows);

	str_printf(s, "# Completion of %s for bash, from its own table of options: %s --completion bash\n", p->name, p->name);
	add_function(s, p);
	str_puts(s, bash_head);
	for (int i = 0; i < n; i++) {
		const struct option *o = rows[i].o;
		enum follows f = what_follows(o);

		if (f == NOTHING)
			continue;
		str_puts(s, "\t");
		add_names(s, o, "|");
		str_puts(s, ")");
		if (f == WORDS || f == WORDS_OR_FILES) {
			str_puts(s, " words='");
			add_words(s, o, "\n", "", bash_quote);
			str_puts(s, "'");
		}
		str_puts(s, f == FILES || f == WORDS_OR_FILES ? " files=1 ;;\n" : " ;;\n");
	}
	str_puts(s, "\t*)\n\t\tlocal options='");
	for (int i = 0; i < n; i++) {
		str_puts(s, i ? "\n" : "");
		add_names(s, rows[i].o, "\n");
	}
	str_puts(s, "'\n");
	str_puts(s, bash_tail);
	str_puts(s, "complete -F ");
	add_function(s, p);
	str_printf(s, " %s\n", p->name);
}

static const char zsh_quote[] = "'\\''";

/* Append the help of an option and its default. */
static void add_about(struct str *s, const struct option *o, const char *escape, const char *quote)
{
	struct str about = {0};

	option_describe(&about, o);
	add_quoted(s, str_text(&about), escape, quote);
	str_release(&about);
}

/* Append an argument of zsh's _arguments: '(-n --count)'{-n+,--count=}'[help]:N: ' \ */
static void zsh_option(struct str *s, const struct option *o)
{
	enum follows f = what_follows(o);
	const char *letter_end = f == NOTHING ? "" : "+", *name_end = f == NOTHING ? "" : "=";

	str_puts(s, "\t'");
	if (o->type == OPTION_LIST) {
		str_puts(s, "*'");
	} else {
		str_puts(s, "(");
		add_names(s, o, " ");
		str_puts(s, ")'");
	}
	if (o->letter && o->name)
		str_printf(s, "{-%c%s,%s%s}'[", o->letter, letter_end, o->name, name_end);
	else if (o->letter)
		str_printf(s, "-%c%s'[", o->letter, letter_end);
	else
		str_printf(s, "%s%s'[", o->name, name_end);
	add_about(s, o, "[]\\:", zsh_quote);
	str_puts(s, "]");
	if (f != NOTHING) {
		str_puts(s, ":");
		add_quoted(s, o->arg ? o->arg : "VALUE", ":\\", zsh_quote);
		str_puts(s, f == WORDS ? ":(" : f == WORDS_OR_FILES ? ":{compadd - " : f == FILES ? ":_files" : ": ");
		add_words(s, o, " ", ":\\ ()", zsh_quote);
		str_puts(s, f == WORDS ? ")" : f == WORDS_OR_FILES ? " || _files}" : "");
	}
	str_puts(s, "' \\\n");
}

static void zsh_script(struct str *s, const struct program *p)
{
	struct option_row rows[OPTION_MOST];
	int n = option_rows(p, rows);

	str_printf(s, "#compdef %s\n# From its own table of options: %s --completion zsh\n_arguments -s -S \\\n", p->name, p->name);
	for (int i = 0; i < n; i++)
		zsh_option(s, rows[i].o);
	str_puts(s, strstr(p->operands, "LABEL=") ? "\t'*:operand:{compset -P \"*=\"; _files}'\n" : "\t'*:operand:_files'\n");
}

static const char fish_quote[] = "\\'";

static void fish_script(struct str *s, const struct program *p)
{
	static const char *const how[] = {[NOTHING] = "", [WORDS] = " -x", [WORDS_OR_FILES] = " -r -F", [FILES] = " -r -F", [NUMBER] = " -x"};
	struct option_row rows[OPTION_MOST];
	int n = option_rows(p, rows);

	str_printf(s, "# Completion of %s for fish, from its own table of options: %s --completion fish\n", p->name, p->name);
	for (int i = 0; i < n; i++) {
		const struct option *o = rows[i].o;

		str_printf(s, "complete -c %s", p->name);
		if (o->letter)
			str_printf(s, " -s %c", o->letter);
		if (o->name)
			str_printf(s, " -l %s", o->name + strlen("--"));
		str_puts(s, how[what_follows(o)]);
		if (o->choices) {
			str_puts(s, " -a '");
			add_words(s, o, " ", "\\", fish_quote);
			str_puts(s, "'");
		}
		str_puts(s, " -d '");
		add_about(s, o, "\\", fish_quote);
		str_puts(s, "'\n");
	}
}

char *complete_script(const struct program *p, const char *shell, struct err *e)
{
	static const struct {
		const char *shell;
		void (*write)(struct str *s, const struct program *p);
	} kinds[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
	struct str s = {0};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(shell, kinds[i].shell)) {
			kinds[i].write(&s, p);
			return s.p;
		}
	err_set(e, ERR_USAGE, "--completion: '%s' is not one of bash, zsh, fish", shell);
	return NULL;
}
