/* Shared by the files that read pickles: the machine that follows a pickle's instructions, and its stack. */
#ifndef DDM_FILE_PICKLEIMPL_H
#define DDM_FILE_PICKLEIMPL_H

#include "file/pickle.h"

struct pickle_machine {
	const uint8_t *start, *p, *end;
	struct arena *arena;
	struct pickle *out;
	const char *where;
	struct err *e;
	struct pickle_value **stack;
	size_t n, cap;
	size_t *mark; /* heights of the stack */
	size_t marks, marks_cap;
	struct pickle_value **memo;
	size_t memos, memos_cap; /* memos: what MEMOIZE counts */
	size_t pushed;
};

/* -1 and ERR_DATA naming the byte that was reached. */
int pickle_refuse(const struct pickle_machine *m, const char *what);

/* Read on: the next n bytes; a little-endian number of `bytes` bytes into *v; the rest of the line, whose length goes into *n. NULL or -1 and
 * ERR_DATA where the pickle ends before. */
const uint8_t *pickle_take(struct pickle_machine *m, uint64_t n);
int pickle_take_le(struct pickle_machine *m, int bytes, uint64_t *v);
const char *pickle_take_line(struct pickle_machine *m, size_t *n);

/* Push a value; push a new, empty value of this kind and return it. -1 or NULL where the stack is full. */
int pickle_push(struct pickle_machine *m, struct pickle_value *v);
struct pickle_value *pickle_push_new(struct pickle_machine *m, enum pickle_kind kind);
/* The value on top: pickle_top leaves it there, pickle_pop removes it. NULL and ERR_DATA where no value lies above the last mark. */
struct pickle_value *pickle_top(const struct pickle_machine *m);
struct pickle_value *pickle_pop(struct pickle_machine *m);

/* A mark on the stack. pickle_pop_mark removes the last one and gives the n values above it, which stay in place until the next push. */
int pickle_push_mark(struct pickle_machine *m);
int pickle_pop_mark(struct pickle_machine *m, struct pickle_value ***v, size_t *n);

/* Replace the top n values, or all above the last mark, by a container that holds them. */
int pickle_collect(struct pickle_machine *m, enum pickle_kind kind, size_t n);
int pickle_collect_marked(struct pickle_machine *m, enum pickle_kind kind);
/* Move the values above the last mark, or the top n, into the container of this kind below them. The result of a call takes them too; anything else
 * is refused. */
int pickle_extend_marked(struct pickle_machine *m, enum pickle_kind kind);
int pickle_extend_top(struct pickle_machine *m, enum pickle_kind kind, size_t n);

#endif
