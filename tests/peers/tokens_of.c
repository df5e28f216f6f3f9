/* tokens_of TOKENIZER <TEXTS: the tokens of each NUL-terminated text on a line, for the comparison with other tokenizers. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "text/tokenizer.h"
#include "file/fileio.h"

int main(int argc, char **argv)
{
	struct err e = {0};
	struct tokenizer *t = argc == 2 ? tokenizer_open(argv[1], &e) : NULL;
	size_t len;
	char *all = t ? file_load("-", 1 << 30, &len, &e) : NULL, *end;

	if (!all) {
		fprintf(stderr, "tokens_of: %s\n", argc == 2 ? e.msg : "usage: tokens_of TOKENIZER <TEXTS");
		return 1;
	}
	for (char *p = all; (end = memchr(p, 0, (size_t)(all + len - p))); p = end + 1) {
		int32_t *ids;
		int64_t n = tokenizer_encode_all(t, p, (size_t)(end - p), &ids);

		for (int64_t i = 0; i < n; i++)
			printf(i ? " %d" : "%d", ids[i]);
		putchar('\n');
		mem_free(ids);
	}
	mem_free(all);
	tokenizer_free(t);
	return fclose(stdout) != 0;
}
