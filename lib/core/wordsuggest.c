/* Finds the word of a list that is nearest to a misspelt one. */
#include "core/wordsuggest.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 63 };

static int letter(char c)
{
	return tolower((unsigned char)c);
}

static int least(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

/* The restricted Damerau-Levenshtein distance (Damerau 1964). Only three rows of the table are kept. */
int word_distance(const char *a, const char *b)
{
	int row[3][LONGEST + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > LONGEST || m > LONGEST)
		return INT_MAX;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = (int)j;
	for (size_t i = 1; i <= n; i++) {
		int *now = row[i % 3], *last = row[(i - 1) % 3], *before = row[(i + 1) % 3];

		now[0] = (int)i;
		for (size_t j = 1; j <= m; j++) {
			int differ = letter(a[i - 1]) != letter(b[j - 1]);

			now[j] = least(last[j] + 1, now[j - 1] + 1, last[j - 1] + differ);
			if (i > 1 && j > 1 && letter(a[i - 1]) == letter(b[j - 2]) && letter(a[i - 2]) == letter(b[j - 1]) &&
			    before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
	}
	return row[n % 3][m];
}

const char *word_nearest(const char *text, const char *const *words)
{
	const char *best = NULL, *begun = NULL;
	int nearest = INT_MAX, beginnings = 0;
	size_t len = strlen(text);

	for (int i = 0; words[i]; i++) {
		int d = word_distance(text, words[i]), most = (int)strlen(words[i]) / 3;

		if (len > 1 && !strncasecmp(words[i], text, len)) {
			begun = words[i];
			beginnings++;
		}
		if (d <= (most ? most : 1) && d < nearest && d < (int)len) {
			nearest = d;
			best = words[i];
		}
	}
	return beginnings == 1 ? begun : best;
}

const char *word_suggest(char text[WORD_SUGGESTION], const char *said, const char *const *words)
{
	const char *near = word_nearest(said, words);

	*text = 0;
	if (near)
		snprintf(text, WORD_SUGGESTION, "; did you mean %.70s", near);
	return text;
}
