/* The tables of the float kernels, by flavour (kernels/flavour.h). */
#include "config.h"
#include "kernels/device.h"
#include "kernels/flavour.h"

#define ENTRY_base(id, fn) [OP_##id] = &kernel_##fn##_base,
#define ENTRY_fma(id, fn) [OP_##id] = &kernel_##fn##_fma,
#define ENTRY_f32(id, fn) [OP_##id] = &kernel_##fn##_f32,
#define DECLARE_base(id, fn) extern const struct kernel kernel_##fn##_base;
#define DECLARE_fma(id, fn) extern const struct kernel kernel_##fn##_fma;
#define DECLARE_f32(id, fn) extern const struct kernel kernel_##fn##_f32;

#if defined(HAVE_FLAVOURS) && !defined(ONE_FLAVOUR)

OPS(DECLARE_base)
OPS(DECLARE_fma)

static const struct kernel *const kernels_base[OP_COUNT] = {OPS(ENTRY_base)};
static const struct kernel *const kernels_fma[OP_COUNT] = {OPS(ENTRY_fma)};

const struct kernel *const *flavour_kernels(void)
{
	return flavour_is_fma() ? kernels_fma : kernels_base;
}

#else

OPS(DECLARE_f32)

static const struct kernel *const kernels_f32[OP_COUNT] = {OPS(ENTRY_f32)};

const struct kernel *const *flavour_kernels(void)
{
	return kernels_f32;
}

#endif
