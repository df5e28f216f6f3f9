/* Recognises a tar by its first bytes, and splits the name of a member into key and extension. */
#include <stdint.h>
#include <string.h>

#include "file/tarfile.h"

int tar_sniff(const void *data, size_t len)
{
	static const struct {
		const char *magic;
		size_t at, n;
	} known[] = {
	    {"ustar", 257, 5},
	    {"\x1f\x8b", 0, 2},
	    {"BZh", 0, 3},
	    {"\xfd"
	     "7zXZ",
	     0, 6},
	    {"\x28\xb5\x2f\xfd", 0, 4},
	    {"\x04\x22\x4d\x18", 0, 4},
	    {"\x1f\x9d", 0, 2},
	    {"LZIP", 0, 4},
	    {"\x02\x21\x4c\x18", 0, 4},
	    {"]\0\0", 0, 3},
	};
	const uint8_t *p = data;
	uint64_t sum = 0, want = 0;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (len >= known[i].at + known[i].n && !memcmp(p + known[i].at, known[i].magic, known[i].n))
			return 1;
	if (len >= 4 && (p[0] & 0xf0) == 0x50 && !memcmp(p + 1, "\x2a\x4d\x18", 3))
		return 1;
	if (len < 512)
		return 0;
	/* An old tar has no magic, but a sum. */
	for (size_t i = 0; i < 512; i++)
		sum += i >= 148 && i < 156 ? ' ' : p[i];
	for (size_t i = 148; i < 156 && (p[i] == ' ' || (p[i] >= '0' && p[i] <= '7')); i++)
		want = p[i] == ' ' ? want : want * 8 + (p[i] - '0');
	return want > 256 && want == sum;
}

int tar_key(const char *name, size_t *key_len, char ext[64])
{
	const char *base = strrchr(name, '/');
	const char *dot;
	size_t n;

	base = base ? base + 1 : name;
	dot = strchr(base, '.');
	if (!dot || dot == base)
		return -1;
	n = strlen(dot + 1);
	if (!n || n >= 64)
		return -1;
	for (size_t i = 0; i <= n; i++)
		ext[i] = dot[1 + i] >= 'A' && dot[1 + i] <= 'Z' ? (char)(dot[1 + i] + 32) : dot[1 + i];
	*key_len = (size_t)(dot - name);
	return 0;
}
