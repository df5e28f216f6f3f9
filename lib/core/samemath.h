/* Elementary functions that have the same bits on every machine.
 *
 * The C library's exp, log, sin, pow .. are not correctly rounded: glibc has several versions of each and takes the one that suits the processor, and
 * they differ in the last bit. These use only + - * / and sqrt, which IEEE 754 defines to the bit, in a fixed order and never fused (the project is
 * compiled with -ffp-contract=off). Whatever the numbers of a training depend on uses them; a kernel's own are in kernels/vmath.h.
 *
 * The errors beside each are the largest that tests/unit/test_samemath.c found against the C library, in units of the last place. */
#ifndef DDM_CORE_SAMEMATH_H
#define DDM_CORE_SAMEMATH_H

double same_exp(double x);             /* 1 */
double same_log(double x);             /* 1; -infinity at 0, NaN below */
double same_log1p(double x);           /* log(1 + x), 3 */
double same_pow(double x, double y);   /* x >= 0; 20 + 2 |y log x|. 10^n is exact for n in 0..22 */
double same_sin(double x);             /* 1 for |x| < 10^5, not meant for larger x */
double same_cos(double x);             /* 1 for |x| < 10^5 */
double same_atan(double x);            /* 1 */
double same_acos(double x);            /* 3; NaN outside [-1, 1] */
double same_erfc(double x);            /* a relative error of 3e-13 while the result is normal */
double same_hypot(double x, double y); /* sqrt(x^2 + y^2), 2; the squares must neither overflow nor underflow */

#endif
