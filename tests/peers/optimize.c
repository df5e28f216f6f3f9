/* optimize NAME ROWS COLUMNS STEPS LR WARMUP DECAY <FLOATS >FLOATS: the weights of a matrix and of a bias (ROWS) after steps of an optimizer, for
 * the comparison with other libraries. Reads the initial weights, matrix and bias, then a gradient of both for each step; writes the weights that
 * a checkpoint holds as the result: of schedule-free, its average. The decay is the matrix's only. Without clipping or moving average. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "train/update.h"

/* Reads or writes both parameters at their places in an arena. */
static int move(const struct params *p, float *arena, int writing)
{
	size_t moved = 0;

	for (int i = 0; i < p->n; i++) {
		size_t n = (size_t)p->v[i].count;
		float *at = arena + p->v[i].offset;

		moved += writing ? fwrite(at, sizeof *at, n, stdout) == n : fread(at, sizeof *at, n, stdin) == n;
	}
	return moved == (size_t)p->n ? 0 : -1;
}

int main(int argc, char **argv)
{
	double number[7] = {0}, plan[PLAN_COUNT] = {[PLAN_BETA1] = .9, [PLAN_BETA2] = .999, [PLAN_EPS] = 1e-8};
	struct params p = {0};
	struct train_state s;
	struct update u;
	struct err e = {0};
	float loss = 0;
	int64_t size[2], steps;
	int kind = -1, failed;

	for (int i = 0; argc == 8 && optimizer_names[i]; i++)
		kind = strcmp(argv[1], optimizer_names[i]) ? kind : i;
	for (int i = 2; kind >= 0 && i < argc; i++)
		number[i - 2] = strtod(argv[i], NULL);
	size[0] = (int64_t)number[0];
	size[1] = (int64_t)number[1];
	steps = (int64_t)number[2];
	if (kind < 0 || size[0] < 1 || size[1] < 1) {
		fprintf(stderr, "usage: optimize NAME ROWS COLUMNS STEPS LR WARMUP DECAY <FLOATS >FLOATS\n");
		return 2;
	}
	params_add(&p, "weight", 2, size, PARAM_DECAY | PARAM_BULK, (struct init){.kind = INIT_ZERO});
	params_add(&p, "bias", 1, size, 0, (struct init){.kind = INIT_ZERO});
	params_layout(&p);
	if (state_init(&s, device_cpu(NULL, DT_F32), &p, 0, 0, 0, NULL, &e))
		return 1;
	s.optimizer = (enum optimizer_kind)kind;
	failed = move(&p, s.values, 0);
	state_begin(&s);
	if (update_init(&u, &s, 1, &loss, 1, NULL, &e))
		return 1;
	plan[PLAN_DECAY] = number[5];
	for (int64_t i = 0; !failed && i < steps; i++) {
		failed = move(&p, u.grads, 0);
		plan[PLAN_LR] = (double)i < number[4] ? number[3] * (double)(i + 1) / number[4] : number[3];
		update_apply(&u, plan, -1, NULL);
		update_finished(&u, 1);
	}
	return failed || move(&p, s.ema, 1) || fclose(stdout);
}
