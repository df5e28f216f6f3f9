/* Finds the word that a user probably meant, for "did you mean" in messages. */
#ifndef DDM_CORE_WORDSUGGEST_H
#define DDM_CORE_WORDSUGGEST_H

/* The number of letters to insert, delete, replace or swap with their neighbour to turn a into b (optimal string alignment distance). Ignores
 * case. Words of more than 63 characters have a distance larger than any other. */
int word_distance(const char *a, const char *b);

/* The word of a NULL-terminated list that is nearest to `text`: the only one that begins with `text`, or else the one with the smallest
 * distance, if that is at most one letter or a third of its length. NULL if no word is near. */
const char *word_nearest(const char *text, const char *const *words);

/* Write "; did you mean WORD" into `text` to append to a message, or "" if no word is near. Returns text. */
enum { WORD_SUGGESTION = 96 };
const char *word_suggest(char text[WORD_SUGGESTION], const char *said, const char *const *words);

#endif
