/* Memory of the host that this process can have, and its processor. */
#ifndef DDM_CORE_MACHINE_H
#define DDM_CORE_MACHINE_H

#include <stdint.h>

/* Sizes in bytes; 0 if unknown. */
struct machine_memory {
	uint64_t total; /* of the machine, or the limit of the control group if that is lower */
	uint64_t free;  /* of that, now; the page cache and swap count as free */
};

/* `root` is put in front of every path that is read (proc, sys/fs/cgroup): "" outside tests. Control groups of both versions are read. */
void machine_memory(struct machine_memory *m, const char *root);

/* The model of the processor as Linux names it, "AMD EPYC 9B14"; "unknown" if it does not say. `root` as above. Caller frees with mem_free. */
char *machine_processor(const char *root);

#endif
