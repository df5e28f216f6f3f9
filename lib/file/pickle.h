/* Parses a Python pickle (protocols 0 to 5) into a tree. Nothing is run and nothing is imported: a global is stored as its name, a call as
 * its function and arguments, and the caller interprets them. */
#ifndef DDM_FILE_PICKLE_H
#define DDM_FILE_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/mem.h"

enum pickle_kind {
	PICKLE_NONE,
	PICKLE_BOOL,
	PICKLE_INT,
	PICKLE_BIG, /* an integer beyond 64 bits; its value is not kept */
	PICKLE_FLOAT,
	PICKLE_TEXT, /* str, bytes, bytearray */
	PICKLE_TUPLE,
	PICKLE_LIST, /* and set, frozenset */
	PICKLE_DICT,
	PICKLE_GLOBAL, /* a class or function */
	PICKLE_CALL,   /* what one of them would return; items and state that were added to it are in `item` and `state` */
	PICKLE_PERSISTENT
};

struct pickle_value {
	enum pickle_kind kind;
	union {
		int64_t i;                       /* BOOL, INT */
		double f;                        /* FLOAT */
		const char *text;                /* TEXT: n bytes, no NUL behind them; GLOBAL: "module.name" with a NUL, "?" where that is long */
		const struct pickle_value *func; /* CALL; PERSISTENT: the identity */
	};
	size_t n;                                /* TEXT: bytes; others: items */
	struct pickle_value **item;              /* TUPLE, LIST: items; DICT: key, value, key, value ..; CALL: one of both */
	size_t cap;                              /* private */
	const struct pickle_value *args, *state; /* CALL: a tuple; NULL, or what BUILD gave. DICT: the same state */
};

enum { PICKLE_BYTES_MOST = 1 << 26, PICKLE_VALUES_MOST = 1 << 22 };

struct pickle {
	const struct pickle_value *root;
	const struct pickle_value **persistent; /* every PERSISTENT in it, wherever it stands, in the order of the text */
	size_t persistents, persistents_cap;
	size_t used; /* bytes */
};

/* What begins at data. The tree lives in the arena and points into data. It may share branches and even hold itself: who walks it counts
 * steps. Damage, more than the bytes or values above, an instruction that needs a registry or buffers of its writer: ERR_DATA. Takes
 * time in proportion to the bytes, and no more than 100 bytes of memory a value. */
int pickle_parse(struct pickle *p, struct arena *a, const void *data, size_t len, const char *where, struct err *e);

/* Whether v is a global of this name, or a call of it. */
int pickle_names(const struct pickle_value *v, const char *global);
int pickle_calls(const struct pickle_value *v, const char *global);
/* Argument i of a call, or item i of a tuple or list; NULL if there is none. */
const struct pickle_value *pickle_item(const struct pickle_value *v, size_t i);
int pickle_is_text(const struct pickle_value *v, const char *text);

#endif
