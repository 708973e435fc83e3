/* Choosing a level. The table is the only mutable global of the library: filled once, then read-only. */
#include "kern/kern.h"

#include "base/fp.h"
#include "base/hwcap.h"
#include "base/once.h"

#if defined(__x86_64__) && !defined(KERN_REF_ONLY) /* a build for MemorySanitizer has the reference only */
#define KERN_X86
#include <cpuid.h>
#endif

static bool can_ref(void)
{
	return true;
}

#if defined(KERN_X86)
/* The compilers' feature test knows these (and whether the OS saves the registers), but F16C only in some. */
static bool can_avx2(void)
{
	unsigned a, b, c, d;
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
			(c & 1u << 29);
}

static bool can_avx512(void)
{
	return can_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
			__builtin_cpu_supports("avx512vnni");
}

static bool can_amx(void)
{
	unsigned a, b, c, d;
	return can_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 24) && (d & 1u << 25) &&
			hwcap_amx_ask();
}
#endif

/* Worst to best. Each starts from a copy of the one before it. */
static const struct {
	const char *name;
	bool (*can)(void); /* whether the CPU has the instructions */
	void (*init)(struct kern *k);
} ladder[] = {
	{"ref", can_ref, kern_init_ref},
#if defined(KERN_X86)
	{"avx2", can_avx2, kern_init_avx2},
	{"avx512", can_avx512, kern_init_avx512},
	{"amx", can_amx, kern_init_amx},
#elif defined(KERN_NEON) /* 64-bit ARM, built by a compiler that knows its target attributes */
	{"neon", hwcap_arm_dot, kern_init_neon},
#endif
};
enum { N_LEVELS = sizeof ladder / sizeof *ladder };

static struct kern levels[N_LEVELS];
static const char *failed[N_LEVELS]; /* what a level does otherwise than the reference; NULL: nothing */

/* Each level proves itself against the reference before it is used. Whether the CPU can run it is asked here, once: the
 * answer about tiles may be another one later, when the table can no longer be filled. */
static void fill(void)
{
	struct fp_mode fp;

	fp_enter(&fp);
	for (size_t i = 0; i < N_LEVELS && !hwcap_hidden(ladder[i].name) && ladder[i].can(); i++) {
		if (i > 0)
			levels[i] = levels[i - 1];
		ladder[i].init(&levels[i]);
		levels[i].name = ladder[i].name;
		if (i > 0)
			failed[i] = kern_prove(&levels[i], &levels[0]);
	}
	fp_leave(&fp);
}

static void fill_once(void)
{
	static struct once once = ONCE_INIT;
	once_run(&once, fill);
}

size_t kern_count(void)
{
	return N_LEVELS;
}

const char *kern_name(size_t level)
{
	return level < N_LEVELS ? ladder[level].name : NULL;
}

bool kern_usable(size_t level)
{
	fill_once();
	return level < N_LEVELS && levels[level].name && !failed[level];
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
