/* The word that was probably meant, for "did you mean" in messages. */
#ifndef DDM_CORE_MEANT_H
#define DDM_CORE_MEANT_H

/* Letters to insert, delete, replace or swap with the next one, to make b of a (optimal string alignment); upper and lower case are the
 * same. Words of more than 63 characters are far from everything. */
int word_distance(const char *a, const char *b);

/* The word of the NULL-terminated list that is nearest to `text`: the only one that begins with it, else the one with the smallest distance of
 * at most a third of its length (or one letter). NULL: none is near. */
const char *word_nearest(const char *text, const char *const *words);

/* "; did you mean WORD" of the word that is nearest, to end a message with; "" where none is. Returns text. */
enum { WORD_MEANT = 96 };
const char *word_meant(char text[WORD_MEANT], const char *said, const char *const *words);

#endif
