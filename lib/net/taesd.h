/* Tiny autoencoders without config.json: files of taesd.py (https://github.com/madebyollin/taesd), NAME_encoder and NAME_decoder, .safetensors or
 * .pth, with numbered layers; or one file of both halves with the names of diffusers. The configuration follows from the layers. */
#ifndef DDM_NET_TAESD_H
#define DDM_NET_TAESD_H

#include "net/autoencoder.h"

/* Whether there is at least one such autoencoder at `at`: a folder without config.json, DIR/NAME, or a file of both halves. */
int taesd_is(const char *at);
/* The path of the file with one half. ERR_NOINPUT if there is none, ERR_USAGE if a folder holds several names. Caller frees with mem_free. */
char *taesd_file(const char *at, int half, struct err *e);
/* Derive the configuration from the halves that are there; a missing half is assumed to mirror the other. ERR_DATA if the layers are not those of
 * such an autoencoder, or the halves do not fit together. */
int taesd_config(const char *at, struct autoencoder_config *c, struct err *e);

#endif
