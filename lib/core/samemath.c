/* Elementary functions from IEEE operations alone. The coefficients of the polynomials are published ones, of Sun's fdlibm (1993). */
#include "core/samemath.h"

#include <math.h>
#include <stdint.h>

#define LN2_HIGH 6.93147180369123816490e-01 /* ln 2 in two parts; k times the first is exact for the exponents of doubles */
#define LN2_LOW 1.90821492927058770002e-10

/* x = k ln 2 + r with |r| <= ln 2 / 2; e^r by a rational function of r^2. */
double same_exp(double x)
{
	double k, high, low, r, z, c, y;

	if (!(x < 709.8))
		return x != x ? x : INFINITY;
	if (x < -745.2)
		return 0;
	k = floor(x * 1.44269504088896338700 + .5);
	high = x - k * LN2_HIGH;
	low = k * LN2_LOW;
	r = high - low;
	z = r * r;
	c = r - z * (1.66666666666666019037e-01 +
	             z * (-2.77777777770155933842e-03 +
	                  z * (6.61375632143793436117e-05 + z * (-1.65339022054652515390e-06 + z * 4.13813679705723846039e-08))));
	y = 1 - ((low - r * c / (2 - c)) - high);
	return ldexp(y, (int)k);
}

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt 2); log(1 + f) = f - s (f - R) with s = f / (2 + f). */
double same_log(double x)
{
	double f, s, z, w, r, half;
	int k;

	if (!(x > 0) || x == INFINITY)
		return x == 0 ? -INFINITY : x < 0 ? NAN : x;
	f = frexp(x, &k);
	if (f < .70710678118654752440) {
		f *= 2;
		k--;
	}
	f -= 1;
	s = f / (2 + f);
	z = s * s;
	w = z * z;
	r = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)) +
	    z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
	half = .5 * f * f;
	return k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f);
}

/* Dividing by the rounded 1 + x makes up for its rounding (Kahan). */
double same_log1p(double x)
{
	double u = 1 + x;

	return u == 1 ? x : u == INFINITY || !(u > 0) ? same_log(u) : same_log(u) * (x / (u - 1));
}

/* Its error grows with n, so it serves small ones, which are then exact where they can be. */
enum { WHOLE = 32 };

static double whole_power(double x, unsigned n)
{
	double y = 1;

	for (; n; n >>= 1, x *= x)
		if (n & 1)
			y *= x;
	return y;
}

double same_pow(double x, double y)
{
	if (y == floor(y) && fabs(y) <= WHOLE)
		return y < 0 ? 1 / whole_power(x, (unsigned)-y) : whole_power(x, (unsigned)y);
	return x == 0 ? (y < 0 ? INFINITY : 0) : same_exp(y * same_log(x));
}

/* sin of x + low for |x| <= pi/4 */
static double sin_near(double x, double low)
{
	double z = x * x, v = z * x;
	double r =
	    8.33333333332248946124e-03 +
	    z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));

	return x - ((z * (.5 * low - v * r) - low) - v * -1.66666666666666324348e-01);
}

/* cos of x + low for |x| <= pi/4. 1 - z/2 is computed with its rounding error. */
static double cos_near(double x, double low)
{
	double z = x * x, half = .5 * z, w = 1 - half;
	double r = z * (4.16666666666666019037e-02 +
	                z * (-1.38888888888741095749e-03 +
	                     z * (2.48015872894767294178e-05 +
	                          z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));

	return w + (((1 - w) - half) + (z * r - x * low));
}

/* sin of x + quarter pi / 2. The multiple of pi / 2 is subtracted in parts of 33 bits, exactly for |x| < 10^5. */
static double sin_shifted(double x, int quarter)
{
	double n = floor(x * 6.36619772367581382433e-01 + .5), high, part, low, y;
	double a = x - n * 1.57079632673412561417e+00;

	part = n * 6.07710050630396597660e-11;
	high = a - part;
	low = n * 2.02226624879595063154e-21 - ((a - high) - part);
	y = high - low;
	low = (high - y) - low;
	switch (((int64_t)n + quarter) & 3) {
	case 0:
		return sin_near(y, low);
	case 1:
		return cos_near(y, low);
	case 2:
		return -sin_near(y, low);
	default:
		return -cos_near(y, low);
	}
}

double same_sin(double x)
{
	return x == 0 ? x : sin_shifted(x, 0);
}

double same_cos(double x)
{
	return sin_shifted(x, 1);
}

/* atan x = atan c + atan((x - c) / (1 + c x)) for the nearest of c = 0, 1/2, 1, 3/2, infinity. */
double same_atan(double x)
{
	static const double high[] = {0, 4.63647609000806093515e-01, 7.85398163397448278999e-01, 9.82793723247329054082e-01,
	                              1.57079632679489655800e+00};
	static const double low[] = {0, 2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17,
	                             6.12323399573676603587e-17};
	double a = fabs(x), z, w, odd, even, y;
	int i = a < .4375 ? 0 : a < .6875 ? 1 : a < 1.1875 ? 2 : a < 2.4375 ? 3 : 4;

	if (x != x)
		return x;
	a = i == 0 ? a : i == 1 ? (2 * a - 1) / (2 + a) : i == 2 ? (a - 1) / (a + 1) : i == 3 ? (a - 1.5) / (1 + 1.5 * a) : -1 / a;
	z = a * a;
	w = z * z;
	odd = z * (3.33333333333329318027e-01 +
	           w * (1.42857142725034663711e-01 +
	                w * (9.09088713343650656196e-02 +
	                     w * (6.66107313738753120669e-02 + w * (4.97687799461593236017e-02 + w * 1.62858201153657823623e-02)))));
	even = w * (-1.99999999998764832476e-01 +
	            w * (-1.11111104054623557880e-01 +
	                 w * (-7.69187620504482999495e-02 + w * (-5.83357013379057348645e-02 + w * -3.65315727442169155270e-02))));
	y = high[i] - ((a * (odd + even) - low[i]) - a);
	return x < 0 ? -y : y;
}

double same_acos(double x)
{
	return x == -1 ? 3.14159265358979311600 : 2 * same_atan(sqrt((1 - x) / (1 + x)));
}

/* erf x for small |x| by its series, 2 / sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ..), which has no cancellation; erfc x for large x by its
 * continued fraction (Abramowitz and Stegun 7.1.14), from the innermost term. */
enum { SERIES = 40, FRACTION = 120 };

double same_erfc(double x)
{
	double a = fabs(x), sum = 0, term = a, tail;

	if (x != x)
		return x;
	if (a < 2) {
		for (int n = 0; n < SERIES; n++) {
			sum += term;
			term *= 2 * a * a / (2 * n + 3);
		}
		sum *= 1.12837916709551257390 * same_exp(-a * a);
		return x < 0 ? 1 + sum : 1 - sum;
	}
	for (int n = FRACTION; n > 0; n--)
		sum = .5 * n / (a + sum);
	tail = a > 28 ? 0 : same_exp(-a * a) * .56418958354775628695 / (a + sum);
	return x < 0 ? 2 - tail : tail;
}

double same_hypot(double x, double y)
{
	return sqrt(x * x + y * y);
}
