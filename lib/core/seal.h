/* Seals: the hash of a file's content, kept inside the file where readers of its format do not look, so that one altered bit is noticed.
 *
 * A seal is the text "ddm-seal:HHHHHHHHHHHHHHHH:ddm-seal". H is the XXH3-64 of all that is sealed, with sixteen zeros in the place of
 * H itself. Its word stands on both sides: a single altered bit can spoil one of them, but cannot make a sealed file an unsealed one. */
#ifndef DDM_CORE_SEAL_H
#define DDM_CORE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

enum { SEAL_BYTES = 34 };

#define SEAL_BLANK "ddm-seal:0000000000000000:ddm-seal"

/* To be written: data[at ..] is SEAL_BLANK, and receives the hash. The second form takes a hash that was made elsewhere. */
void seal_put(char *data, size_t len, size_t at);
void seal_put_hash(char *seal, uint64_t hash);

/* Where the first of what looks like a seal begins, whole or with one of its words alone; -1: nowhere. */
int64_t seal_find(const void *data, size_t len);
/* Where the last one begins that ends in the last `tail` bytes of data. */
int64_t seal_find_last(const void *data, size_t len, size_t tail);

/* 1: the seal at `at` is whole and holds the hash of data; 0: it is damaged, or the data is. */
int seal_holds(const void *data, size_t len, size_t at);
int seal_read(const char *seal, uint64_t *hash); /* 0: a whole seal, and its hash; else -1 */

/* Of markup, an SVG or a page: a comment of one line at the end of `text` seals all of it. The second: 0 where a file's last line is
 * such a seal and holds; 1 where it is none; -1 and ERR_DATA. */
void seal_markup(struct str *text);
int seal_check_markup(const void *data, size_t len, const char *name, struct err *e);

/* The sentence about a file that was altered. Always -1. */
int seal_broken(const char *name, struct err *e);

#endif
