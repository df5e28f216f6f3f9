/* The learning rate of a step. */
#include <math.h>

#include "core/samemath.h"
#include "train/trainer.h"

double schedule_rate(const struct train_options *o, int64_t steps, int64_t s)
{
	double x;

	if (s < o->warmup)
		return o->lr * (double)(s + 1) / (double)o->warmup;
	if (o->schedule == SCHEDULE_CONSTANT || steps <= o->warmup)
		return o->lr;
	x = (double)(s - o->warmup) / (double)(steps - o->warmup);
	return o->lr * .5 * (1 + same_cos(M_PI * x));
}

double ema_decay_of(const struct train_options *o, int64_t steps)
{
	double half = o->ema_half_life ? o->ema_half_life : (double)steps / 20;

	return half > 0 ? same_pow(2, -1 / half) : 0;
}
