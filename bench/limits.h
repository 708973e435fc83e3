/* What this machine allows: arithmetic and memory probes, and the rates of the formats relative to them. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* GMAC/s of f32 FMA on one core of the machine the limits of the formats were taken on. */
#define LIMIT_PROBE_BASE 50.0

/* GMAC/s that the instructions for a weight format (its number in the file) allow on one core of that machine, for
 * products of n_cols columns, without or with VNNI; 0 for a format that is not known here. Scale it by a probe over
 * LIMIT_PROBE_BASE. */
double limit_gmacs(uint32_t type, size_t n_cols, bool vnni);
bool limit_has_vnni(void); /* this CPU */

/* GMAC/s of f32 FMA: one short run on the calling thread; LIMIT_PROBE_BASE where there is no probe. */
bool limit_has_probe(void);
double limit_probe(void);

/* Sums over n_threads that run at once, the best of some rounds; 0 when out of memory or threads. */
double limit_fma_gmacs(size_t n_threads);
double limit_read_gb_s(size_t n_threads); /* of memory far larger than the caches */

void cpu_name(char *name, size_t n_bytes);
const char *compiler_name(void); /* the one that compiled this */

#endif
