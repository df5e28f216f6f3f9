/* k-means on the GPU beside the CPU's. */
#include "tests/cuda/remote.h"

#include <stdio.h>

#include "tests/unit/clusters.h"

static struct device *cluster_device(void)
{
	struct err e = {0};
	struct device *d = remote_open(NULL, &e);

	if (!d) {
		printf("# needs cuda: %s\n", e.msg);
		skip();
	}
	return d;
}

int main(void)
{
	const struct CMUnitTest tests[] = {CLUSTER_TESTS};

	remote_filter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
