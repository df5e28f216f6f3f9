/* Facts about sounds, of one file or of many samples. */
#include "inspect/soundtally.h"

#include "core/jsonio.h"
#include "file/flac.h"

int soundtally_add(struct soundtally *t, const void *data, size_t len, const char *name, struct err *e)
{
	struct flac_info f;
	int first;

	if (flac_parse(&f, data, len, name, e))
		return -1;
	first = !t->n++;
	t->rate = first || t->rate == f.rate ? f.rate : 0;
	t->channels = first || t->channels == f.channels ? f.channels : 0;
	t->seconds += (double)f.samples / f.rate;
	return 0;
}

static void put(json_t *o, int rate, int channels, double seconds)
{
	if (rate)
		json_object_set_new(o, "rate", json_integer(rate));
	if (channels)
		json_object_set_new(o, "channels", json_integer(channels));
	json_object_set_new(o, "seconds", jsonio_real(seconds));
}

void soundtally_facts(json_t *o, const struct soundtally *t)
{
	json_t *v;

	if (!t->n)
		return;
	v = json_object();
	put(v, t->rate, t->channels, t->seconds);
	json_object_set_new(o, "sound", v);
}

int sound_facts(json_t *o, const void *data, size_t len, const char *name, struct err *e)
{
	struct flac_info f;

	if (flac_parse(&f, data, len, name, e))
		return -1;
	put(o, f.rate, f.channels, (double)f.samples / f.rate);
	json_object_set_new(o, "bits", json_integer(f.bits));
	return 0;
}
