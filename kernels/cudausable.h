/* Whether a GPU can be used, and why not. A part of kernels/cuda.cu, which alone includes it. */
#ifndef DDM_KERNELS_CUDAUSABLE_H
#define DDM_KERNELS_CUDAUSABLE_H

static __global__ void cuda_probe(void)
{
}

/* Whether this build holds code for the GPU. */
static int runs_here(const struct cudaDeviceProp *p, struct err *e)
{
	cudaFuncAttributes a;
	cudaError_t rc = cudaFuncGetAttributes(&a, (const void *)cuda_probe);

	if (rc == cudaSuccess)
		return 0;
	cudaGetLastError();
	return err_set(e, ERR_UNAVAILABLE, "%s: this build has no code for compute capability %d.%d: %s", p->name, p->major, p->minor,
	               cudaGetErrorString(rc));
}

/* Report why no GPU can be used. The runtime returns the same error for a missing driver as for one that is too old; a driver of the runtime's
 * major version suffices. */
static int unusable(cudaError_t rc, struct err *e)
{
	int driver = 0;

	cudaGetLastError();
	if (rc == cudaSuccess || rc == cudaErrorNoDevice)
		return err_set(e, ERR_UNAVAILABLE, "no GPU can be used: there is an NVIDIA driver, but no GPU that this process may see");
	if (cudaDriverGetVersion(&driver) != cudaSuccess || !driver)
		return err_set(e, ERR_UNAVAILABLE, "no GPU can be used: there is no NVIDIA driver here");
	if (rc == cudaErrorInsufficientDriver)
		return err_set(e, ERR_UNAVAILABLE,
		               "no GPU can be used: the NVIDIA driver here is for CUDA %d.%d and this program needs one for CUDA %d: install a newer "
		               "driver, or build with an older toolkit",
		               driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000);
	return err_set(e, ERR_UNAVAILABLE, "no GPU can be used: %s", cudaGetErrorString(rc));
}

#endif
