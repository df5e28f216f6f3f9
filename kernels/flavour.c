/* Chooses the flavour of the float kernels that others call by name (kernels/flavour.h). */
#include "kernels/flavour.h"

#include <stddef.h>

#include "config.h"
#include "kernels/compacttile.h"
#include "kernels/device.h"
#include "kernels/gemm.h"

#if defined(HAVE_FLAVOURS) && !defined(ONE_FLAVOUR)

extern const struct compact_kernel compact_portable_base, compact_portable_fma;

int flavour_is_fma(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct compact_kernel *flavour_compact(void)
{
	return flavour_is_fma() ? &compact_portable_fma : &compact_portable_base;
}

/* The products that are called by name. */
#define CHOOSE(type, name, params, args) \
	type name##_base params; \
	type name##_fma params; \
	type name##_f32 params; \
	type name##_f32 params \
	{ \
		return (flavour_is_fma() ? name##_fma : name##_base)args; \
	}
CHOOSE(size_t, gemm_scratch, (const struct gemm *g, int workers), (g, workers))
CHOOSE(void, gemm_run,
       (struct pool * p, const struct gemm *g, float *c, const float *a, const float *b, const struct gemm_epilogue_f32 *ep, void *scratch),
       (p, g, c, a, b, ep, scratch))
CHOOSE(void, gemm_serial, (const struct gemm *g, float *c, const float *a, const float *b, const struct gemm_epilogue_f32 *ep, void *scratch),
       (g, c, a, b, ep, scratch))
CHOOSE(int, gemm_library, (void), ())
CHOOSE(int64_t, gemm_packed, (const struct gemm *g), (g))
CHOOSE(void, gemm_pack, (const struct gemm *g, float *packed, const float *b), (g, packed, b))
CHOOSE(void, gemm_unpack, (const struct gemm *g, float *b, const float *packed), (g, b, packed))

#else

extern const struct compact_kernel compact_portable_f32;

const struct compact_kernel *flavour_compact(void)
{
	return &compact_portable_f32;
}

#endif
