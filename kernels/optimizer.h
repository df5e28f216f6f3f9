/* Parameters and state of the optimizer's ops (SUMSQ, TOTAL, RATES, ADAMW, SCHEDULE_FREE), each a vector of doubles on the device.
 * The device decides whether to apply a step, so the host does not wait for the gradient's norm.
 *
 * AdamW (Loshchilov & Hutter, arXiv 1711.05101) with an exponential moving average of the weights, in one pass:
 *   g' = scale g;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
 *   p -= lr (m / (1 - b1^n) / (sqrt(v / (1 - b2^n)) + eps) + decay mask p)
 *   ema = d ema + (1 - d) p
 * where n counts the updates, this one included, and scale = min(1, clip / norm). A step whose norm or loss is not finite changes
 * nothing but the counts in status.
 *
 * Schedule-free AdamW (Defazio et al., arXiv 2405.15682, algorithm 1). The gradient is that at y; x is the result:
 *   g' = scale g;  v = b2 v + (1 - b2) g'^2
 *   z -= lr (g' / (sqrt(v / (1 - b2^n)) + eps) + decay mask y)
 *   x += c (z - x), c = lr^2 / (the sum of lr^2 over all updates)
 *   y = (1 - b1) z + b1 x
 * x is the mean of z over the updates, each weighted by lr^2, so that the updates of a warm-up count for little. */
#ifndef DDM_KERNELS_OPTIMIZER_H
#define DDM_KERNELS_OPTIMIZER_H

/* Number of consecutive parameters that share an element of ADAMW's mask. */
enum { DECAY_RUN = 16 };

/* Number of elements whose squares SUMSQ adds up before it adds the chunks' sums. */
enum { SUMSQ_CHUNK = 16384 };

/* From the host, for one step. clip 0: none. */
enum { PLAN_LR, PLAN_BETA1, PLAN_BETA2, PLAN_EPS, PLAN_DECAY, PLAN_EMA, PLAN_CLIP, PLAN_COUNT };

/* State kept between steps: number of updates, number of skipped steps in a row; for the last step, whether it was finite, the gradient's
 * norm, and the loss; the sum of lr^2 over all updates. */
enum { STATUS_UPDATES, STATUS_SKIPPED_IN_A_ROW, STATUS_FINITE, STATUS_NORM, STATUS_LOSS, STATUS_LR_SQUARES, STATUS_COUNT };

/* From RATES to the passes that change weights. rate = lr / (1 - b1^n), root = 1 / sqrt(1 - b2^n), shrink = lr decay,
 * average = lr^2 / the sum of lr^2 over all updates; go 0: change nothing. */
enum {
	COEF_GO,
	COEF_SCALE,
	COEF_BETA1,
	COEF_REST1, /* 1 - beta1 */
	COEF_BETA2,
	COEF_REST2,
	COEF_RATE,
	COEF_ROOT,
	COEF_EPS,
	COEF_SHRINK,
	COEF_EMA,
	COEF_REST_EMA,
	COEF_LR,
	COEF_AVERAGE,
	COEF_COUNT
};

/* The smallest norm that MUON_UNIT divides by. */
#define MUON_SMALLEST 1e-7

#endif
