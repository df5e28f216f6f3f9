/* Escapes text from files before it is printed on a terminal, according to the locale's character set. */
#include "cmd/clean.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/escape.h"

/* Whether the locale's variables, in the order of setlocale(3), name UTF-8. setlocale itself fails if the locale is not installed, although the
 * terminal may still show UTF-8. */
int clean_utf8(void)
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
	return escape_text(out, size, text, clean_utf8());
}

char *clean_output(char *out, size_t size, const char *text)
{
	return escape_text(out, size, text, !isatty(STDOUT_FILENO) || clean_utf8());
}
