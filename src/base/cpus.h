/* How many threads can run at once: CPUs by affinity, and CPU time by the control group, as containers set it. */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stddef.h>
#include <stdint.h>

/* CPUs that this process may use, fewer where its control group has a quota of CPU time: the default number of threads.
 * At least 1. */
size_t cpus_usable(void);

/* The smallest quota of a process's control groups and those above, in CPUs, rounded up; 0: there is none.
 * root: where control groups are mounted ("/sys/fs/cgroup"). groups: what /proc/self/cgroup says. */
size_t cpus_quota(const char *root, const char *groups);

/* The CPU's name and the number of threads it runs, and the memory of the machine; 0: unknown. */
void cpus_describe(char *out, size_t n_out, uint64_t *total_bytes, uint64_t *free_bytes);

#endif
