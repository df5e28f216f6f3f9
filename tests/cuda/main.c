/* Runs a test of tests/op on the GPU; its main() is compiled as tests_main(). */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "tests/cuda/remote.h"
#include "tests/op/optest.h"

int tests_main(void);

int main(int argc, char **argv)
{
	const char *name = argc && strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : "kernels";
	struct err e = {0};
	struct device *d = remote_open(NULL, &e);
	int rc;

	if (!d) {
		printf("1..1\nok 1 - %s # SKIP needs cuda: %s\n", name, e.msg);
		return 0;
	}
	remote_use(d);
	optest_remote = remote_run;
	remote_filter();
	rc = tests_main();
	device_free(d);
	return rc;
}
