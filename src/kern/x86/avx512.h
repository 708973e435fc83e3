/* Shared by the files of the AVX-512 level, which wants VNNI: one instruction multiplies 64 unsigned by 64 signed bytes
 * and adds fours of them to 16 sums, without a bound on the way. Every function carries the target attribute, as in
 * avx2.h. */
#ifndef KERN_X86_AVX512_H
#define KERN_X86_AVX512_H

#include "kern/x86/avx2.h"

#define AVX512 \
	__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))) X86_PLAIN
#define AVX512_INLINE AVX512 __attribute__((always_inline)) static inline

/* Each fills in its part of the table. */
void kern_avx512_init_pack(struct kern *k);
void kern_avx512_init_mm_32(struct kern *k);
void kern_avx512_init_attn(struct kern *k);
void kern_avx512_init_mm_256(struct kern *k);
void kern_avx512_init_mm_float(struct kern *k);

/* Products, which the level above uses as well. One by one: the amalgamation takes a macro for one declaration. */
#define AVX512_MM_DECLARE(fmt) void kern_avx512_mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1);
AVX512_MM_DECLARE(q4_0)
AVX512_MM_DECLARE(q4_1)
AVX512_MM_DECLARE(q5_0)
AVX512_MM_DECLARE(q5_1)
AVX512_MM_DECLARE(q8_0)
AVX512_MM_DECLARE(iq4_nl)
AVX512_MM_DECLARE(mxfp4)
AVX512_MM_DECLARE(q2_k)
AVX512_MM_DECLARE(q3_k)
AVX512_MM_DECLARE(q4_k)
AVX512_MM_DECLARE(q5_k)
AVX512_MM_DECLARE(q6_k)
AVX512_MM_DECLARE(iq4_xs)
#define AVX512_SET_MM(type, fmt) k->packed[type].mm = kern_avx512_mm_##fmt;

AVX512_INLINE __m512i avx512_load(const void *p)
{
	return _mm512_loadu_si512(p);
}

/* Four bytes in every lane. */
AVX512_INLINE __m512i avx512_bcast4(const void *p)
{
	int32_t v;
	memcpy(&v, p, sizeof v);
	return _mm512_set1_epi32(v);
}

/* Sixteen f16 as floats. */
AVX512_INLINE __m512 avx512_halves(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

/* Low (0) or high (4) nibbles. Shifts work on 16 bits; what crosses a byte is masked away. */
AVX512_INLINE __m512i avx512_nibbles(__m512i q, const int shift)
{
	return _mm512_and_si512(shift ? _mm512_srli_epi16(q, 4) : q, _mm512_set1_epi8(15));
}

/* Sixteen outputs of column col from row on; rows past the end are not stored. */
AVX512_INLINE void avx512_store_rows(const struct kern_mm *m, size_t row, size_t col, __m512 v)
{
	float *out = m->out + col * m->out_ld + row;
	if (row + 16 <= m->n_rows)
		_mm512_storeu_ps(out, v);
	else
		_mm512_mask_storeu_ps(out, (__mmask16)((1u << (m->n_rows - row)) - 1), v);
}

#define AVX512_MM(type, fmt) X86_MM(AVX512, kern_avx512_mm_##fmt, 16, fmt, 8)
#define X86_INLINE_avx512 AVX512_INLINE
#define X86_VEC_avx512 __m512
#define X86_ZERO_avx512 _mm512_setzero_ps()
#define AVX512_TILE_32(fmt, each) X86_TILE(avx512, 16, fmt, 32, struct kern_act_q8_32, 8, each)
#define AVX512_TILE_256(type, fmt) \
	X86_TILE(avx512, 16, fmt, 256, struct kern_act_q8_256, 8, block_##fmt(w, act, step, acc, n))

#endif
