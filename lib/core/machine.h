/* Memory of the host that this process can have. */
#ifndef DDM_CORE_MACHINE_H
#define DDM_CORE_MACHINE_H

#include <stdint.h>

/* In bytes; 0: unknown. */
struct machine_memory {
	uint64_t total; /* of the machine, or what its control groups allow where that is less */
	uint64_t free;  /* of it, now: what files occupy that can be read again counts as free, and so does swap */
};

/* `root` is before every path that is read (proc, sys/fs/cgroup): "" but in tests. Control groups are those of version 2. */
void machine_memory(struct machine_memory *m, const char *root);

#endif
