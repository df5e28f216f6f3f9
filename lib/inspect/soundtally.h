/* Counts the sounds of samples for the facts about them. */
#ifndef DDM_INSPECT_SOUNDTALLY_H
#define DDM_INSPECT_SOUNDTALLY_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Zero-initialise. */
struct soundtally {
	int64_t n;
	int rate, channels; /* of all of them, 0 if they differ */
	double seconds;     /* together */
};

/* Count a FLAC file. ERR_DATA if its head is damaged. */
int soundtally_add(struct soundtally *t, const void *data, size_t len, const char *name, struct err *e);

/* Set o["sound"], {rate, channels, seconds}, if there were any; a rate or number of channels that differs is left out. */
void soundtally_facts(json_t *o, const struct soundtally *t);

/* Set rate, channels and seconds of one FLAC file as members of o. -1 if its head is damaged; then nothing is set. */
int sound_facts(json_t *o, const void *data, size_t len, const char *name, struct err *e);

#endif
