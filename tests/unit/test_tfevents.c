/* TensorBoard's event files, decoded here by the definition of the format: framing, checksums, fields; a second export adds only what is new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/tfevents.h"
#include "inspect/exportlog.h"
#include "tests/unit/scratch.h"

/* CRC-32C bit by bit. */
static uint32_t slow_crc(const uint8_t *p, size_t n)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < 8 * n; i++) {
		uint32_t bit = (crc ^ (uint32_t)(p[i / 8] >> i % 8)) & 1;

		crc = crc >> 1 ^ (bit ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static uint32_t slow_masked(const uint8_t *p, size_t n)
{
	uint32_t crc = slow_crc(p, n);

	return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static uint64_t little(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = bytes; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

struct event {
	double time;
	int64_t step, session; /* step -1: none */
	char version[32];
	int n;
	char tag[32][40];
	float value[32];
};

static uint64_t varint(const uint8_t **p, const uint8_t *end)
{
	uint64_t v = 0;

	for (int shift = 0; *p < end; shift += 7) {
		v |= (uint64_t)(**p & 127) << shift;
		if (!(*(*p)++ & 128))
			return v;
	}
	fail_msg("a cut varint");
	return 0;
}

/* Read the fields of a message. `depth`: 0 event, 1 summary, 2 value, 3 session. */
static void read_message(struct event *v, const uint8_t *p, const uint8_t *end, int depth)
{
	while (p < end) {
		uint64_t key = varint(&p, end), n;
		int field = depth * 100 + (int)(key >> 3);
		const uint8_t *at;

		switch (key & 7) {
		case 0:
			n = varint(&p, end);
			if (field == 2)
				v->step = (int64_t)n;
			else if (field == 301)
				v->session = (int64_t)n;
			else
				fail_msg("field %d is no number", field);
			break;
		case 1:
			assert_int_equal(field, 1);
			n = little(p, 8);
			memcpy(&v->time, &n, 8);
			p += 8;
			break;
		case 5:
			assert_int_equal(field, 202);
			n = little(p, 4);
			memcpy(&v->value[v->n], &(uint32_t){(uint32_t)n}, 4);
			p += 4;
			break;
		case 2:
			n = varint(&p, end);
			at = p;
			p += n;
			assert_true(p <= end);
			if (field == 3)
				snprintf(v->version, sizeof v->version, "%.*s", (int)n, (const char *)at);
			else if (field == 5)
				read_message(v, at, p, 1);
			else if (field == 7)
				read_message(v, at, p, 3);
			else if (field == 101) {
				read_message(v, at, p, 2);
				v->n++;
			} else if (field == 201)
				snprintf(v->tag[v->n], sizeof v->tag[0], "%.*s", (int)n, (const char *)at);
			else
				fail_msg("field %d is no text", field);
			break;
		default:
			fail_msg("a wire type of %d", (int)(key & 7));
		}
	}
}

/* The next record at *at. */
static struct event next_event(const struct str *s, size_t *at)
{
	struct event v = {.step = -1};
	const uint8_t *p = (const uint8_t *)s->p + *at;
	uint64_t n;

	assert_true(*at + 16 <= s->len);
	n = little(p, 8);
	assert_true(*at + 16 + n <= s->len);
	assert_int_equal(little(p + 8, 4), slow_masked(p, 8));
	assert_int_equal(little(p + 12 + n, 4), slow_masked(p + 12, n));
	read_message(&v, p + 12, p + 12 + n, 0);
	*at += 16 + n;
	return v;
}

/* The check value of CRC-32C, from RFC 3720, holds for the one that the tests here compare with. */
static void checksums(void **state)
{
	const uint8_t zeros[32] = {0};

	(void)state;
	assert_int_equal(slow_crc((const uint8_t *)"123456789", 9), 0xe3069283);
	assert_int_equal(slow_crc(zeros, 32), 0x8a9136aa);
}

static void records(void **state)
{
	static const char *const tag[] = {"loss", "part/a", "x"};
	static const double value[] = {.5, NAN, -3e30};
	struct str s = {0};
	struct event v;
	size_t at = 0;

	(void)state;
	if (tfevents_available(NULL))
		skip();
	tfevents_begin(&s, 1234.5, 700);
	tfevents_numbers(&s, 1240.25, 5000000000, tag, value, 3);
	tfevents_numbers(&s, 1240.25, 0, tag, value, 0);
	assert_true(tfevents_sniff(s.p, s.len));
	assert_false(tfevents_sniff(s.p + 1, s.len - 1));
	v = next_event(&s, &at);
	assert_string_equal(v.version, "brain.Event:2");
	assert_true(v.time == 1234.5);
	v = next_event(&s, &at);
	assert_int_equal(v.session, 1);
	assert_int_equal(v.step, 700);
	v = next_event(&s, &at);
	assert_true(v.time == 1240.25);
	assert_int_equal(v.step, 5000000000);
	assert_int_equal(v.n, 3);
	assert_string_equal(v.tag[1], "part/a");
	assert_true(v.value[0] == .5f);
	assert_true(isnan(v.value[1]));
	assert_true(v.value[2] == -3e30f);
	v = next_event(&s, &at);
	assert_int_equal(v.step, 0);
	assert_int_equal(v.n, 0);
	assert_int_equal(at, s.len);
	str_release(&s);
}

static void put(const char *path, const char *mode, const char *text)
{
	FILE *f = fopen(path, mode);

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* Export the run in `run` to `out`; the error's code. */
static int export(char *run, const char *out)
{
	struct runs r = {0};
	struct err e = {0};

	assert_int_equal(runs_find(&r, &run, 1, 0, &e), 0);
	runs_update(&r, 2000, &(struct run_limits){.straggler = 0});
	export_tensorboard(out, &r, &e);
	runs_release(&r);
	return e.code;
}

static void load(struct str *s, const char *path)
{
	size_t len;
	char *text = file_load(path, 1 << 20, &len, NULL);

	assert_non_null(text);
	str_reset(s);
	str_add(s, text, len);
	mem_free(text);
}

/* The steps of a file, behind its first record, as text. */
static void check_steps(const struct str *s, const char *want)
{
	struct str text = {0};
	size_t at = 0;

	next_event(s, &at);
	while (at < s->len)
		str_printf(&text, " %lld", (long long)next_event(s, &at).step);
	assert_string_equal(str_text(&text), want);
	str_release(&text);
}

#define START(attempt, step) \
	"{\"event\":\"start\",\"step\":" #step ",\"steps\":90,\"attempt\":" #attempt \
	",\"seconds_before\":0,\"time\":100,\"host\":\"a/b\",\"pid\":5}\n"

static void is_added(void **state)
{
	char *run = path_join(dir, "expert_0"), *log = path_join(run, "train.jsonl"), *out = path_join(dir, "out"),
	     *first = path_join(out, "expert_0/events.out.tfevents.000001.a_b.5"),
	     *second = path_join(out, "expert_0/events.out.tfevents.000002.a_b.5");
	struct str once = {0}, s = {0};
	struct stat st, later;
	FILE *f;

	(void)state;
	if (tfevents_available(NULL))
		skip();
	assert_int_equal(dir_make(run, NULL), 0);
	put(log, "w", START(1, 0) "{\"step\":10,\"loss\":3,\"seconds\":1}\n{\"step\":20,\"loss\":2,\"seconds\":2}\n");
	assert_int_equal(export(run, out), 0);
	load(&once, first);
	check_steps(&once, " 0 10 20");
	/* The same again touches nothing. */
	assert_int_equal(stat(first, &st), 0);
	assert_int_equal(export(run, out), 0);
	assert_int_equal(stat(first, &later), 0);
	assert_true(st.st_mtim.tv_sec == later.st_mtim.tv_sec && st.st_mtim.tv_nsec == later.st_mtim.tv_nsec);
	/* New steps are added to the same file, also where an export was killed in the middle of a record. */
	put(log, "a", "{\"step\":30,\"loss\":1,\"val_loss\":4,\"seconds\":3}\n");
	assert_int_equal(truncate(first, (off_t)once.len - 5), 0);
	assert_int_equal(export(run, out), 0);
	load(&s, first);
	check_steps(&s, " 0 10 20 30");
	assert_memory_equal(s.p, once.p, once.len);
	assert_int_equal(stat(first, &later), 0);
	assert_int_equal(st.st_ino, later.st_ino);
	/* A continued run repeats step 20 and 30: its file says from which step on, and the earlier file stays. */
	put(log, "w", START(1, 0) "{\"step\":10,\"loss\":3,\"seconds\":1}\n" START(2, 15) "{\"step\":20,\"loss\":7,\"seconds\":2}\n");
	assert_int_equal(export(run, out), 0);
	load(&once, first);
	assert_int_equal(once.len, s.len);
	load(&s, second);
	check_steps(&s, " 16 20");
	/* Damage is replaced; what is no event file stays. */
	once.p[once.len / 2] ^= 1;
	f = fopen(first, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(once.p, 1, once.len, f), once.len);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(export(run, out), 0);
	load(&s, first);
	check_steps(&s, " 0 10");
	put(second, "w", "mine");
	assert_int_equal(export(run, out), ERR_EXISTS);
	load(&s, second);
	assert_string_equal(str_text(&s), "mine");
	str_release(&once);
	str_release(&s);
	mem_free(run);
	mem_free(log);
	mem_free(out);
	mem_free(first);
	mem_free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(checksums), cmocka_unit_test(records), cmocka_unit_test(is_added)};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
