/* TAEHV, the tiny autoencoders for clips (https://github.com/madebyollin/taehv): taehv, taehv1_5, taew2_1, taew2_2, taecvx, taeos1_3, taeh3, taeltx,
 * and those of them with a larger decoder, _super. Each is one file of both halves, .pth or .safetensors, without config.json. The configuration
 * follows from the tensors, and for taecvx and taeh3, whose frames are counted in another way, from the file's name. */
#ifndef DDM_NET_TAEHV_H
#define DDM_NET_TAEHV_H

#include "net/autoencoder.h"

/* Whether there is one at `at`: a file, or a folder without config.json that holds one or several. */
int taehv_is(const char *at);
/* The path of the file. ERR_USAGE if the folder holds several. Caller frees with mem_free. */
char *taehv_file(const char *at, struct err *e);
/* Read the configuration from the tensors. ERR_DATA if they are not those of a TAEHV. */
int taehv_config(const char *at, struct autoencoder_config *c, struct err *e);

#endif
