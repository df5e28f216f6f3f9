/* Chooses the inner kernels of products with bf16 numbers by the CPU's instructions (kernels/compact.h, kernels/compactrun.h). */
#include "kernels/compactrun.h"
#include "kernels/flavour.h"

#if defined(__x86_64__)

static enum compact_isa isa_detect(void)
{
	if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
		return COMPACT_PORTABLE;
	return compact_amx_permitted() ? COMPACT_AMX : COMPACT_AVX512_BF16;
}

/* The first call decides. Two threads that call it at the same time find the same. */
enum compact_isa compact_isa(void)
{
	static _Atomic int known;

	if (!known)
		known = 1 + (int)isa_detect();
	return (enum compact_isa)(known - 1);
}

const struct compact_kernel *compact_kernel_of(enum compact_isa isa)
{
	return isa == COMPACT_AVX512_BF16 ? &compact_avx512 : isa == COMPACT_AMX ? &compact_amx : flavour_compact();
}

#else

enum compact_isa compact_isa(void)
{
	return COMPACT_PORTABLE;
}

const struct compact_kernel *compact_kernel_of(enum compact_isa isa)
{
	(void)isa;
	return flavour_compact();
}

#endif

enum compact_isa compact_isa_pairwise(void)
{
	return compact_isa() == COMPACT_AMX ? COMPACT_AVX512_BF16 : compact_isa();
}
