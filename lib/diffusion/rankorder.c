/* Deals the experts out to ranks. */
#include "diffusion/rankorder.h"

int expert_rank(const struct expert *expert, int k, int ranks)
{
	int before = 0;

	for (int i = 0; i < k; i++)
		before += expert[i].velocity != NULL;
	return before % ranks;
}
