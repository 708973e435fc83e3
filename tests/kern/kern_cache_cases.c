/* The cache: put_k, put_v and get_k of every level against the reference bit for bit; what Q8_0 may lose, against
 * double; cells moved from area to area. Inputs are whole groups at the edges of f16 and of Q8_0's scales.
 *
 * Faults planted by hand and seen red: no clamp, at 127 in the scalar rounding (kv: put, kv: meaning) and at -127 in
 * AVX2's or NEON's (kv: put); K's scale taken from the neighbour position (kv: meaning, kv: cells); scales of V moved
 * to another slot (kv: cells). */
#include "kern_common.h"

#include "kern/kern_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = KERN_KV_BLOCK, G = KERN_KV_GROUP };

const size_t kv_head_sizes[N_KV_HEAD_SIZES] = {1, 5, 8, 20, 32, 33, 40, 48, 64, 80, 96, 128, 256};

/* One float of a group of kind `how`; what the other elements of the group are decides its scale. */
static float rand_of_kind(struct rng *r, uint32_t how)
{
	switch (how) {
	case 0: return rng_u32(r) % 2 ? 0.0f : -0.0f;
	case 1: return rand_between(r, -1e-38f, 1e-38f);     /* subnormal floats */
	case 2: return rand_between(r, -1e-7f, 1e-7f);       /* the edge of f16; no scale */
	case 3: return rand_between(r, -8e-6f, 8e-6f);       /* the edge of no scale */
	case 4: return rand_between(r, -3e-5f, 3e-5f);       /* subnormal scales, where the clamp bites */
	case 5: return rand_between(r, -7e-3f, 7e-3f);       /* the largest of them */
	case 6: return (float)rand_below(r, 254) - 126.5f;   /* ties */
	case 7: return (float)(1024 + rand_below(r, 1024)) + 0.5f;
	/* From here on some type makes Inf or NaN of it. */
	case 8: return rand_between(r, 65472.0f, 65568.0f);  /* overflow of f16 */
	case 9: return rand_between(r, 8316000.0f, 8323000.0f); /* overflow of a scale */
	case 10: return rand_between(r, -3e38f, 3e38f);
	default: return rand_between(r, -1.0f, 1.0f);
	}
}

void fill_kv(struct rng *r, float *x, size_t n, bool finite)
{
	static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff};

	for (size_t g = 0; g < kern_kv_groups(n); g++) {
		uint32_t how = rng_u32(r) % 16;
		if (finite && how >= 8)
			how = 11;
		for (size_t i = 0; i < kern_kv_group_len(n, g); i++)
			x[g * G + i] = rand_of_kind(r, how);
		size_t at = g * G + rand_below(r, kern_kv_group_len(n, g));
		if (how == 6)
			x[at] = -127.0f; /* d is 1: the halves are ties */
		else if (how == 15)
			x[at] = fm_from_bits(bad[rand_below(r, 6)]);
		else if (how == 14)
			x[at] = fm_from_bits(rng_u32(r));
	}
}

void kv_decode(enum kern_kv type, size_t n, const uint8_t *cell, float *out)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t h;
		if (type == KERN_KV_F32) {
			memcpy(out + i, cell + 4 * i, 4);
			continue;
		}
		memcpy(&h, type == KERN_KV_F16 ? cell + 2 * i : cell + n + 2 * (i / G), 2);
		out[i] = quant_f16_to_f32(h) * (type == KERN_KV_F16 ? 1.0f : (float)(int8_t)cell[i]);
	}
}

/* An area against its guard page: the bytes in use only, as those that round an area up to 64 would hide a stray
 * access. */
static size_t used_bytes(enum kern_kv type, size_t n, bool is_v)
{
	return is_v ? kern_v_area_bytes(type, n) : B * kern_cell_bytes(type, n);
}

/* The whole area is compared: the cell written, and all others untouched. NaN keeps its bits in F32 and F16 (they are
 * copied, or rounded as the hardware does, see test_quant) and has one pattern in Q8_0. */
void test_kv_put(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 11, 0);
	for (int i = 0; i < 6000; i++) {
		enum kern_kv type = (enum kern_kv)(i % KERN_KV_N);
		enum guard_side side = i / 2 % 2 ? GUARD_START : GUARD_END;
		bool is_v = i / 4 % 2;
		size_t n = kv_head_sizes[rand_below(&r, N_KV_HEAD_SIZES)], slot = rand_below(&r, B);
		size_t n_bytes = used_bytes(type, n, is_v);
		float *x = guard_get(GUARD_X, n * sizeof *x, 4, side);
		uint8_t *got = guard_get(GUARD_KV, n_bytes, 4, side), *want = malloc(n_bytes);

		assert_non_null(want);
		fill_kv(&r, x, n, false);
		memset(want, 0x5a, n_bytes);
		memset(got, 0x5a, n_bytes);
		(is_v ? kern_reference()->put_v : kern_reference()->put_k)[type](x, n, slot, want);
		(is_v ? level->put_v : level->put_k)[type](x, n, slot, got);
		if (memcmp(got, want, n_bytes) != 0)
			fail_msg("case %d: type %d, %zu elements, slot %zu", i, (int)type, n, slot);
		guard_check_all();
		free(want);
	}
}

/* Any bytes whatever: what attention meets in cells nobody wrote must not trouble get_k either. */
void test_kv_get(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	float want[256];

	rng_init(&r, 15, 0);
	for (int i = 0; i < 3000; i++) {
		enum kern_kv type = (enum kern_kv)(i % KERN_KV_N);
		enum guard_side side = i / 2 % 2 ? GUARD_START : GUARD_END;
		size_t n = kv_head_sizes[rand_below(&r, N_KV_HEAD_SIZES)], slot = rand_below(&r, B);
		size_t n_bytes = used_bytes(type, n, false);
		uint8_t *area = guard_get(GUARD_KV, n_bytes, 4, side);
		float *got = guard_get(GUARD_OUT, n * sizeof *got, 4, side);

		for (size_t j = 0; j < n_bytes; j++)
			area[j] = (uint8_t)rng_u32(&r);
		kern_reference()->get_k[type](area, n, slot, want);
		level->get_k[type](area, n, slot, got);
		if (floats_differ(want, got, n, true) < n)
			fail_msg("case %d: type %d, %zu elements, slot %zu", i, (int)type, n, slot);
		guard_check_all();
	}
}

/* One group of Q8_0 against what it was: the special groups, and within half a step of it otherwise. A scale that is
 * subnormal in f16 may be half of 2^-24 too small, which 127 steps then lack. */
static void check_group(const float *x, const float *got, size_t n)
{
	float top = 0.0f;
	bool bad = false;

	for (size_t i = 0; i < n; i++) {
		bad |= !isfinite(x[i]);
		top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
	}
	float d = quant_f16_to_f32(quant_f32_to_f16(top / 127.0f));
	for (size_t i = 0; i < n; i++) {
		double error = fabs((double)x[i] - (double)got[i]);
		if (bad || isinf(d))
			assert_true(isnan(got[i]));
		else if (d < 0x1p-14f)
			assert_true(error <= 0.5 * (double)d * 1.0001 || (error <= 127 * 0x1p-25 &&
					fabsf(got[i]) == 127.0f * d) || (d == 0.0f && error <= 127 * 0x1p-25));
		else
			assert_true(error <= 0.5 * (double)d * 1.0001);
		if (d == 1.0f && !bad)
			assert_true(got[i] == nearbyintf(x[i])); /* ties to even, exactly */
	}
}

/* What was put is what get_k and both cells say, and is what its type may make of it. */
void test_kv_meaning(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	float x[256], k[256], cell_k[256], cell_v[256];
	uint8_t cell[1024];

	rng_init(&r, 16, 0);
	for (int i = 0; i < 6000; i++) {
		enum kern_kv type = (enum kern_kv)(i % KERN_KV_N);
		size_t n = kv_head_sizes[rand_below(&r, N_KV_HEAD_SIZES)], slot = rand_below(&r, B);
		void *area = guard_get(GUARD_KV, kern_k_area_bytes(type, n), 64, GUARD_END);
		void *area_v = guard_get(GUARD_OUT, kern_v_area_bytes(type, n), 64, GUARD_END);

		for (int j = 0; j < 8; j++) { /* neighbours with other scales */
			fill_kv(&r, x, n, false);
			level->put_k[type](x, n, rand_below(&r, B), area);
			level->put_v[type](x, n, rand_below(&r, B), area_v);
		}
		fill_kv(&r, x, n, false);
		level->put_k[type](x, n, slot, area);
		level->put_v[type](x, n, slot, area_v);
		level->get_k[type](area, n, slot, k);
		kern_k_cell_read(type, n, area, slot, cell);
		kv_decode(type, n, cell, cell_k);
		kern_v_cell_read(type, n, area_v, slot, cell);
		kv_decode(type, n, cell, cell_v);
		assert_int_equal(floats_differ(k, cell_k, n, true), n);
		assert_int_equal(floats_differ(k, cell_v, n, true), n);
		for (size_t e = 0; e < n && type != KERN_KV_Q8_0; e++) {
			float want = type == KERN_KV_F32 ? x[e] : quant_f16_to_f32(quant_f32_to_f16(x[e]));
			assert_false(float_differs(k[e], want, true));
		}
		for (size_t g = 0; g < kern_kv_groups(n) && type == KERN_KV_Q8_0; g++)
			check_group(x + g * G, k + g * G, kern_kv_group_len(n, g));
	}
}

/* A cell read, and written to another slot of another area: the same bytes come back, get_k sees the same numbers, and
 * no other byte of the area changed. */
void test_kv_cells(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	float before[256], after[256];

	rng_init(&r, 17, 0);
	for (int i = 0; i < 3000; i++) {
		enum kern_kv type = (enum kern_kv)(i % KERN_KV_N);
		enum guard_side side = i / 2 % 2 ? GUARD_START : GUARD_END;
		bool is_v = i / 4 % 2;
		size_t n = kv_head_sizes[rand_below(&r, N_KV_HEAD_SIZES)];
		size_t from = rand_below(&r, B), to = rand_below(&r, B);
		size_t n_bytes = used_bytes(type, n, is_v), n_cell = kern_cell_bytes(type, n);
		uint8_t *src = guard_get(GUARD_KV, n_bytes, 4, side), *dst = guard_get(GUARD_OUT, n_bytes, 4, side);
		uint8_t *cell = guard_get(GUARD_Y, n_cell, 1, side), *again = guard_get(GUARD_Z, n_cell, 1, side);
		uint8_t *old = malloc(n_bytes);

		assert_non_null(old);
		assert_true(kern_k_area_bytes(type, n) % 64 == 0 && kern_v_area_bytes(type, n) % 64 == 0);
		assert_true(kern_k_area_bytes(type, n) >= n_bytes || is_v);
		for (size_t j = 0; j < n_bytes; j++) {
			src[j] = (uint8_t)rng_u32(&r);
			dst[j] = old[j] = (uint8_t)rng_u32(&r);
		}
		(is_v ? kern_v_cell_read : kern_k_cell_read)(type, n, src, from, cell);
		(is_v ? kern_v_cell_write : kern_k_cell_write)(type, n, dst, to, cell);
		(is_v ? kern_v_cell_read : kern_k_cell_read)(type, n, dst, to, again);
		assert_memory_equal(cell, again, n_cell);
		if (!is_v) {
			level->get_k[type](src, n, from, before);
			level->get_k[type](dst, n, to, after);
			assert_memory_equal(before, after, n * sizeof *before);
		}
		/* Every other slot is as it was, and with this one put back, all bytes (padding too) are. */
		for (size_t j = 0; j < B; j++) {
			if (j == to)
				continue;
			(is_v ? kern_v_cell_read : kern_k_cell_read)(type, n, old, j, cell);
			(is_v ? kern_v_cell_read : kern_k_cell_read)(type, n, dst, j, again);
			assert_memory_equal(cell, again, n_cell);
		}
		(is_v ? kern_v_cell_read : kern_k_cell_read)(type, n, old, to, cell);
		(is_v ? kern_v_cell_write : kern_k_cell_write)(type, n, dst, to, cell);
		assert_memory_equal(dst, old, n_bytes);
		guard_check_all();
		free(old);
	}
}
