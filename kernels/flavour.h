/* The float kernels of a build for processors that may lack AVX2 and fused multiply-adds (configure --cpu=generic on x86-64) are compiled twice: for
 * such processors (names with _base), and for those with both (_fma). The program takes what suits the processor when it runs. Both compute the
 * same bits. Other builds have one flavour, _f32. The compiler reads this file before each file of two flavours, with FLAVOUR defined. */
#ifndef DDM_KERNELS_FLAVOUR_H
#define DDM_KERNELS_FLAVOUR_H

#define FLAVOUR_JOIN(name, flavour) name##_##flavour
#define FLAVOUR_JOINED(name, flavour) FLAVOUR_JOIN(name, flavour)
#ifdef FLAVOUR
#define FLAVOUR_NAME(name) FLAVOUR_JOINED(name, FLAVOUR)
/* What the headers declare with _f32, and a type that is the same in both. */
#define gemm_scratch_f32 FLAVOUR_NAME(gemm_scratch)
#define gemm_run_f32 FLAVOUR_NAME(gemm_run)
#define gemm_serial_f32 FLAVOUR_NAME(gemm_serial)
#define gemm_packed_f32 FLAVOUR_NAME(gemm_packed)
#define gemm_pack_f32 FLAVOUR_NAME(gemm_pack)
#define gemm_unpack_f32 FLAVOUR_NAME(gemm_unpack)
#define gemm_width_f32 FLAVOUR_NAME(gemm_width)
#define gemm_panel_f32 FLAVOUR_NAME(gemm_panel)
#define gemm_panels_f32 FLAVOUR_NAME(gemm_panels)
#define winograd_takes_f32 FLAVOUR_NAME(winograd_takes)
#define winograd_scratch_f32 FLAVOUR_NAME(winograd_scratch)
#define winograd_run_f32 FLAVOUR_NAME(winograd_run)
#define gemm_epilogue_base gemm_epilogue_f32
#define gemm_epilogue_fma gemm_epilogue_f32
#else
#define FLAVOUR_NAME(name) name##_f32
#endif

struct kernel;
struct compact_kernel;

/* Whether this processor has AVX2 and fused multiply-adds, in a build with two flavours. */
int flavour_is_fma(void);
/* The float kernels that suit this processor, by enum op; and those of compact_portable.c. */
const struct kernel *const *flavour_kernels(void);
const struct compact_kernel *flavour_compact(void);

#endif
