/* Seals: a hash of a file's content, kept inside the file where readers of its format ignore it, so that one altered bit is noticed.
 *
 * A seal is the text "ddm-seal:HHHHHHHHHHHHHHHH:ddm-seal". H is the XXH3-64 of all sealed bytes, with sixteen zeros in the place of
 * H itself. The word ddm-seal stands on both sides of H: a single altered bit can damage one of them, but cannot make a sealed file look
 * unsealed. */
#ifndef DDM_CORE_SEAL_H
#define DDM_CORE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

enum { SEAL_BYTES = 34 };

#define SEAL_BLANK "ddm-seal:0000000000000000:ddm-seal"

/* Complete a seal before writing: data[at ..] holds SEAL_BLANK, and receives the hash of data. The second form takes a hash computed
 * elsewhere. */
void seal_put(char *data, size_t len, size_t at);
void seal_put_hash(char *seal, uint64_t hash);

/* Offset of the first seal in data, even one of which only the first or the last word is intact; -1 if there is none. */
int64_t seal_find(const void *data, size_t len);
/* Offset of the last seal that ends within the last `tail` bytes of data, or -1. */
int64_t seal_find_last(const void *data, size_t len, size_t tail);

/* 1 if the seal at offset `at` is intact and its hash is that of data; 0 if either was altered. */
int seal_holds(const void *data, size_t len, size_t at);
int seal_read(const char *seal, uint64_t *hash); /* 0 and the hash of an intact seal, else -1 */

/* Append a comment line to an SVG or HTML text that seals all of it. seal_check_markup: 0 if the last line is such a seal and holds, 1 if there
 * is no seal, -1 and ERR_DATA if the file was altered. */
void seal_markup(struct str *text);
int seal_check_markup(const void *data, size_t len, const char *name, struct err *e);

/* Set the error for an altered file. Returns -1. */
int seal_broken(const char *name, struct err *e);

#endif
