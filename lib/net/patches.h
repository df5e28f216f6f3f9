/* What transformers that cut pictures into patches have in common: names of presets, and checks of a configuration. */
#ifndef DDM_NET_PATCHES_H
#define DDM_NET_PATCHES_H

#include "net/netdef.h"

#define PATCHES_TAIL "/P"
#define PATCHES_NOTE " with a patch size P of 1 to 64"

/* Read "NAME/P": the index of NAME among names[], which ends with NULL, and the patch size. -1 if the text is anything else. */
int patches_preset(const char *const *names, const char *text, int64_t *patch);

/* ERR_USAGE unless the patch divides the picture, 4 and the heads divide the hidden width, and depth is in 1..1000. */
int patches_check(const struct net_config *c, int64_t patch, struct err *e);
int patches_check_shape(int64_t hidden, int64_t heads, int64_t depth, struct err *e);

/* ERR_USAGE if a sequence has more tokens than PATCHES_TOKENS_MOST, for which a table of rotary positions would not fit into memory. */
enum { PATCHES_TOKENS_MOST = 1 << 22 };
int patches_check_tokens(int64_t tokens, struct err *e);

/* ERR_USAGE if a patch has more numbers than the network is wide: such a network can predict pictures, but neither noise nor velocity. */
int patches_check_noise(int64_t numbers, int64_t hidden, struct err *e);

#endif
