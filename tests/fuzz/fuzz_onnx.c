/* Any bytes as an ONNX file, and as a network of pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/pool.h"
#include "file/onnx.h"
#include "net/onnxnet.h"
#include "tests/fuzz/replay.h"

/* Run the network on a picture if it can be made: as a file, which is how networks come. */
static void run(const uint8_t *data, size_t len)
{
	static char path[] = "/tmp/ddm-fuzz-onnx-XXXXXX";
	static struct pool *pool;
	static struct device *device;
	static float x[64 * 64 * 3];
	struct err e = {0};
	struct onnxnet *n;
	int64_t out[3];
	FILE *f;
	int fd;

	if (!pool) {
		if ((fd = mkstemp(path)) < 0 || !(pool = pool_new(1, &e)))
			abort();
		close(fd);
		device = device_cpu(pool, DT_F32);
	}
	f = fopen(path, "wb");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f))
		abort();
	n = onnxnet_open(path, 3, device, &e);
	if (!n && e.code != ERR_DATA && e.code != ERR_NOMEM && e.code != ERR_UNAVAILABLE)
		abort();
	if (n && !onnxnet_plan(n, 64, 64, out, &e) && out[0] * out[1] * out[2] < 1 << 20) {
		float *y = malloc((size_t)(out[0] * out[1] * out[2]) * sizeof *y);

		onnxnet_run(n, x, y, &e);
		free(y);
	}
	onnxnet_free(n);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err e = {0};
	struct onnx *o = onnx_open_memory(data, len, "fuzz", &e);
	int64_t sum = 0;

	if (!o && e.code != ERR_DATA && e.code != ERR_UNAVAILABLE)
		abort();
	for (int i = 0; o && i < onnx_values(o); i++)
		sum += onnx_tensor(o, i) ? st_count(onnx_tensor(o, i)) : 0;
	for (int i = 0; o && i < onnx_nodes(o); i++)
		for (int k = 0; k < onnx_node(o, i)->ins; k++)
			sum += onnx_node(o, i)->in[k];
	if (o && sum != INT64_MIN)
		run(data, len);
	onnx_free(o);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/onnx")
