/* Choosing a level. The table is the only mutable global of the library: filled once, then read-only. */
#include "kern/kern.h"

#include "base/once.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static struct kern levels[] = {{.name = "ref"}, {.name = "avx2"}};
enum { N_LEVELS = sizeof levels / sizeof *levels };
static const char *failed[N_LEVELS]; /* what a level does otherwise than the reference; NULL: nothing */

#if defined(__x86_64__)
/* The compilers' feature test knows AVX2 and FMA (and whether the OS saves the registers); F16C only in some. */
static bool has_f16c(void)
{
	unsigned a, b, c, d;
	return __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 29);
}
#endif

size_t kern_count(void)
{
	return N_LEVELS;
}

const char *kern_name(size_t level)
{
	static const char *const names[N_LEVELS] = {"ref", "avx2"};
	return level < N_LEVELS ? names[level] : NULL;
}

/* Whether the CPU has the instructions. */
static bool cpu_can(size_t level)
{
	if (level == 0)
		return true;
#if defined(__x86_64__)
	if (level == 1)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#endif
	return false;
}

/* Each level proves itself against the reference before it is used. */
static void fill(void)
{
	kern_init_ref(&levels[0]);
#if defined(__x86_64__)
	if (cpu_can(1)) {
		levels[1] = levels[0];
		kern_init_avx2(&levels[1]);
		failed[1] = kern_prove(&levels[1], &levels[0]);
	}
#endif
}

static void fill_once(void)
{
	static struct once once = ONCE_INIT;
	once_run(&once, fill);
}

bool kern_usable(size_t level)
{
	if (level >= N_LEVELS || !cpu_can(level))
		return false;
	fill_once();
	return !failed[level];
}

const char *kern_failed(size_t level)
{
	fill_once();
	return level < N_LEVELS ? failed[level] : NULL;
}

const struct kern *kern_get(size_t level)
{
	return kern_usable(level) ? &levels[level] : NULL;
}

size_t kern_best(void)
{
	size_t i = N_LEVELS - 1;
	while (!kern_usable(i))
		i--;
	return i;
}

size_t kern_act_bytes(enum quant_act kind, size_t k)
{
	switch (kind) {
	case QUANT_ACT_Q8_32: return k / 32 * sizeof(struct kern_act_q8_32);
	case QUANT_ACT_Q8_256: return k / 256 * sizeof(struct kern_act_q8_256);
	case QUANT_ACT_F32: break;
	}
	return k * sizeof(float);
}

/* One row as floats is the most any level asks for. */
size_t kern_mm_scratch_bytes(size_t k)
{
	return kern_pad8(k) * sizeof(float);
}

/* Per query head: scores of one block, the accumulator, and two running numbers, padded to a line. */
size_t kern_attn_scratch_bytes(size_t n_q, size_t head_v)
{
	return n_q * (KERN_KV_BLOCK + kern_pad8(head_v) + 16) * sizeof(float);
}
