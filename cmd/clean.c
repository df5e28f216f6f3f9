/* Escapes text from files before it is printed on a terminal, according to the locale's character set. */
#include "cmd/clean.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/escape.h"

/* As setlocale(3) looks for them; the locale itself need not be installed for the terminal to be what it says. */
static int locale_is_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *v = getenv(names[i]);

		if (v && *v)
			return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
	}
	return 0;
}

char *clean_message(char *out, size_t size, const char *text)
{
	return escape_text(out, size, text, locale_is_utf8());
}

char *clean_output(char *out, size_t size, const char *text)
{
	return escape_text(out, size, text, !isatty(STDOUT_FILENO) || locale_is_utf8());
}
