/* Shared by the files of the kernel test: guarded buffers, random data, and the comparison every case goes through. */
#ifndef TESTS_KERN_KERN_COMMON_H
#define TESTS_KERN_KERN_COMMON_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "kern/kern.h"

/* One guarded buffer each; a slot's buffer lives until the slot is asked for again. */
enum guard_slot {
	GUARD_W, GUARD_PACKED, GUARD_PACKED_2, GUARD_ACT, GUARD_OUT, GUARD_SCRATCH, GUARD_X, GUARD_Y, GUARD_Z,
	GUARD_KV, GUARD_TABLE, GUARD_HELD,
	GUARD_N
};

/* Which end of the buffer touches an unreadable page. */
enum guard_side { GUARD_END, GUARD_START };

/* n_bytes with garbage in them, aligned; the bytes that alignment or the page size leaves over hold a pattern. */
void *guard_get(enum guard_slot slot, size_t n_bytes, size_t align, enum guard_side side);
/* Fails the test when a slot's pattern was written over. */
void guard_check_all(void);
void guard_release_all(void);

/* A quiet NaN that no kernel makes: marks floats that must stay untouched. */
#define POISON_BITS 0x7fe5a5a5u

void poison(float *x, size_t n);
float rand_between(struct rng *r, float lo, float hi);
size_t rand_below(struct rng *r, size_t n);
/* Mostly of size one, some much smaller or larger, some zeros of both signs. */
void fill_floats(struct rng *r, float *x, size_t n);

/* The comparison: true when two floats are not the same bits. nan_alike: any NaN equals any other, for inputs that are
 * not finite, where IEEE leaves the payload open. */
bool float_differs(float a, float b, bool nan_alike);
/* The first index that differs; n when none does. */
size_t floats_differ(const float *a, const float *b, size_t n, bool nan_alike);

/* Head sizes for the cache: whole groups, short ones, and no multiple of eight. */
enum { N_KV_HEAD_SIZES = 13 };
extern const size_t kv_head_sizes[N_KV_HEAD_SIZES];
/* One head's K or V, with groups at the edges of f16 and of Q8_0's scales; finite: every type can hold them. */
void fill_kv(struct rng *r, float *x, size_t n, bool finite);
/* The numbers in a cell, by kern.h's description of it. */
void kv_decode(enum kern_kv type, size_t n, const uint8_t *cell, float *out);

/* Levels under test get their table as the test's state; the reference is level 0. */
const struct kern *kern_reference(void);

/* The cases, by file; the state of each is a const struct kern *. */
void test_mm_random(void **state);
void test_mm_extreme(void **state);
void test_mm_nonfinite(void **state);
void test_mm_meaning(void **state);
void test_mm_planted(void **state);
void test_tanh(void **state);
void test_log(void **state);
void test_softplus(void **state);
void test_layer_norm(void **state);
void test_swiglu_oai(void **state);
void test_softcap(void **state);
void test_exp64(void **state);
void test_conv(void **state);
void test_scan(void **state);
void test_arch_rows_meaning(void **state);
void test_states_meaning(void **state);
void test_arch_planted(void **state);
void test_kv_put(void **state);
void test_kv_get(void **state);
void test_kv_meaning(void **state);
void test_kv_cells(void **state);
void test_attn(void **state);
void test_attn_edges(void **state);
void test_attn_rows(void **state);
void test_attn_extreme(void **state);
void test_attn_bent(void **state);
void test_attn_held(void **state);
void test_attn_types(void **state);
void test_attn_meaning(void **state);
void test_attn_planted(void **state);

int kern_bench(size_t level, const char *json_path);

#endif
