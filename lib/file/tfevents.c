/* Writes the records of a TensorBoard event file by protobuf-c.
 *
 * A record is the length of the message (8 bytes), the masked CRC-32C of these 8 bytes (4), the message, and its masked CRC-32C (4), all
 * little-endian. A reader waits at a record that is not complete yet. */
#include "file/tfevents.h"

#include <string.h>

#include "config.h"
#include "core/mem.h"

/* The first message: a wall time (a tag and 8 bytes), and the version (a tag and a length). */
static const char version[] = "brain.Event:2";
enum { VERSION_AT = 12 + 9 + 2 };

int tfevents_sniff(const void *data, size_t len)
{
	return len >= VERSION_AT + sizeof version - 1 && !memcmp((const char *)data + VERSION_AT, version, sizeof version - 1);
}

#ifdef HAVE_PROTOBUF

#include "file/tfevents.pb-c.h"

int tfevents_available(struct err *e)
{
	(void)e;
	return 0;
}

/* The CRC of Castagnoli's polynomial, bit-reversed 0x82f63b78, in steps of four bits. */
static uint32_t crc32c(const uint8_t *p, size_t n)
{
	static const uint32_t step[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	                                  0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
	uint32_t crc = 0xffffffff;

	for (; n--; p++) {
		crc = crc >> 4 ^ step[(crc ^ *p) & 15];
		crc = crc >> 4 ^ step[(crc ^ *p >> 4) & 15];
	}
	return ~crc;
}

static void put_little(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* Rotated and shifted, so that a CRC of data that holds CRCs is not weak. */
static uint32_t masked(const uint8_t *p, size_t n)
{
	uint32_t crc = crc32c(p, n);

	return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void put_event(struct str *out, const Tfevents__Event *event)
{
	size_t n = tfevents__event__get_packed_size(event);
	uint8_t *record = mem_alloc(n + 16);

	put_little(record, n, 8);
	put_little(record + 8, masked(record, 8), 4);
	tfevents__event__pack(event, record + 12);
	put_little(record + 12 + n, masked(record + 12, n), 4);
	str_add(out, record, n + 16);
	mem_free(record);
}

static Tfevents__Event event_at(double time)
{
	Tfevents__Event event = TFEVENTS__EVENT__INIT;

	event.has_wall_time = 1;
	event.wall_time = time;
	return event;
}

void tfevents_begin(struct str *out, double time, int64_t step)
{
	Tfevents__Event first = event_at(time), start = event_at(time);
	Tfevents__SessionLog session = TFEVENTS__SESSION_LOG__INIT;
	char text[sizeof version];

	memcpy(text, version, sizeof version);
	first.file_version = text;
	put_event(out, &first);
	session.has_status = 1;
	session.status = 1;
	start.has_step = 1;
	start.step = step;
	start.session_log = &session;
	put_event(out, &start);
}

void tfevents_numbers(struct str *out, double time, int64_t step, const char *const *tag, const double *value, int n)
{
	Tfevents__Event event = event_at(time);
	Tfevents__Summary summary = TFEVENTS__SUMMARY__INIT;
	Tfevents__Value *v = mem_alloc(((size_t)n + 1) * sizeof *v), **list = mem_alloc(((size_t)n + 1) * sizeof *list);
	char **name = mem_alloc(((size_t)n + 1) * sizeof *name);

	for (int i = 0; i < n; i++) {
		v[i] = (Tfevents__Value)TFEVENTS__VALUE__INIT;
		v[i].tag = name[i] = mem_strdup(tag[i]);
		v[i].has_simple_value = 1;
		v[i].simple_value = (float)value[i];
		list[i] = &v[i];
	}
	summary.n_value = (size_t)n;
	summary.value = list;
	event.has_step = 1;
	event.step = step;
	event.summary = &summary;
	put_event(out, &event);
	for (int i = 0; i < n; i++)
		mem_free(name[i]);
	mem_free(name);
	mem_free(list);
	mem_free(v);
}

#else

int tfevents_available(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE,
	               "--tensorboard: this build cannot write TensorBoard's files: install protobuf-c (Debian: libprotobuf-c-dev and "
	               "protobuf-c-compiler), configure and build again");
}

void tfevents_begin(struct str *out, double time, int64_t step)
{
	(void)out;
	(void)time;
	(void)step;
}

void tfevents_numbers(struct str *out, double time, int64_t step, const char *const *tag, const double *value, int n)
{
	(void)out;
	(void)time;
	(void)step;
	(void)tag;
	(void)value;
	(void)n;
}

#endif
