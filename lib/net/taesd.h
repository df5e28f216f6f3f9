/* Tiny autoencoders without a configuration: the files of taesd.py (https://github.com/madebyollin/taesd), halves as NAME_encoder and
 * NAME_decoder, .safetensors or .pth, layers under numbers; and a whole under the names of diffusers. What the network is can be told from
 * the layers. */
#ifndef DDM_NET_TAESD_H
#define DDM_NET_TAESD_H

#include "net/autoencoder.h"

/* at: a folder without config.json that holds such files of one name or one whole, DIR/NAME, or the file of a whole. Whether there is one
 * there, or several. */
int taesd_is(const char *at);
/* The file of one half. ERR_NOINPUT where there is none, ERR_USAGE where a folder holds several names. Caller frees with mem_free. */
char *taesd_file(const char *at, int half, struct err *e);
/* From the halves that are there; the other is taken for its mirror image. ERR_DATA where the layers are no such network's, or the halves
 * do not fit together. */
int taesd_config(const char *at, struct autoencoder_config *c, struct err *e);

#endif
