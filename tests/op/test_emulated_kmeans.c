/* k-means on the CUDA kernels, run with tests/op/emulate.h. */
#include "tests/op/emulated.h"
#include "tests/unit/clusters.h"

static struct device *cluster_device(void)
{
	return device_emulated(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {CLUSTER_TESTS};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
