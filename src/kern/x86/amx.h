/* Shared by the files of the AMX level: products of many columns in tiles, one instruction for 16 rows by 16 columns by
 * 32 or 64 k. Everything else, products of few columns and columns that fill no tile are the AVX-512 level's.
 *
 * A tile register is up to 16 rows of up to 64 bytes. Here
 *  A is activations: a row for each column of the product, straight from where they lie;
 *  B is weights: row i has k = 4i .. 4i + 3 of sixteen rows, which is register i of layout.h, unpacked to bytes;
 *  C is sums: a row for each column of the product, int32 of sixteen rows.
 * The integers are exact, and what is done with them in floats is what the other levels do, in the same order. */
#ifndef KERN_X86_AMX_H
#define KERN_X86_AMX_H

#include "kern/x86/avx512.h"

#define AMX                                                                                                      \
	__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,amx-tile,amx-int8"))) \
	X86_PLAIN
#define AMX_INLINE AMX __attribute__((always_inline)) static inline

/* As AVX2_UNROLL, for loops over the sixteen columns of a tile. */
#if defined(__clang__)
#define AMX_UNROLL AVX2_UNROLL
#else
#define AMX_UNROLL _Pragma("GCC unroll 16")
#endif

/* Columns of a tile, and how many it takes for tiles to pay, as unpacking is for all of them: 32 with weights from the
 * cache, but 32 rows of a model in Q8_0 took 10 % longer than at the level below (Emerald Rapids). */
enum { AMX_COLS = 16, AMX_LEAST = 48 };

/* The registers' numbers, which gcc wants as they stand. */
#define AMX_C0 0
#define AMX_C1 1
#define AMX_A 2
#define AMX_B0 3
#define AMX_B1 4

/* What a tile instruction reads is not all that gcc 12's intrinsics tell the compiler (8 bytes of 64 of the shapes),
 * and it drops what nobody reads: whatever was stored through p is in memory behind this. */
#define AMX_MEMORY(p) __asm__ volatile("" ::"r"(p) : "memory")

/* Shapes of the registers as the CPU wants them. */
struct amx_shapes {
	uint8_t palette, start_row, zero[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

void kern_amx_init_mm_32(struct kern *k);
void kern_amx_init_mm_256(struct kern *k);

/* Tiles of k_bytes of k. _tile_release() ends it: registers that are in use make switching threads slow. */
AMX_INLINE void amx_begin(int k_bytes)
{
	struct amx_shapes s;

	memset(&s, 0, sizeof s);
	s.palette = 1;
	for (int i = AMX_C0; i <= AMX_B1; i++) {
		s.row_bytes[i] = (uint16_t)(i == AMX_A ? k_bytes : 64);
		s.rows[i] = (uint8_t)(i >= AMX_B0 ? k_bytes / 4 : AMX_COLS);
	}
	AMX_MEMORY(&s);
	_tile_loadconfig(&s);
	AMX_MEMORY(&s);
}

/* The accumulators of a tile's columns: sixteen rows each. */
AMX_INLINE void amx_clear(__m512 *acc)
{
	AMX_UNROLL
	for (int c = 0; c < AMX_COLS; c++)
		acc[c] = _mm512_setzero_ps();
}
AMX_INLINE void amx_store(const struct kern_mm *m, size_t row, size_t col, const __m512 *acc)
{
	AMX_UNROLL
	for (int c = 0; c < AMX_COLS; c++)
		avx512_store_rows(m, row, col + (size_t)c, acc[c]);
}

/* mm_FMT: each sixteen rows are unpacked into the scratch block by block, by unpack_FMT, and all whole tiles of columns
 * go over them by `columns`, whose last arguments follow. */
#define AMX_MM(fmt, block, ...)                                                                         \
	AMX static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1)                     \
	{                                                                                               \
		const size_t nb = m->k / (block), whole = m->n_cols - m->n_cols % AMX_COLS;             \
		struct unpacked *o = m->scratch;                                                        \
		struct kern_mm rest = *m;                                                               \
		if (m->n_cols < AMX_LEAST) {                                                            \
			kern_avx512_mm_##fmt(m, row0, row1);                                            \
			return;                                                                         \
		}                                                                                       \
		if ((rest.n_cols = m->n_cols - whole) > 0) {                                            \
			rest.act = x86_act_row(m, whole);                                               \
			rest.out += whole * m->out_ld;                                                  \
		}                                                                                       \
		amx_begin((block) == 32 ? 32 : 64);                                                     \
		for (size_t r = row0; r < row1; r += 16) {                                              \
			const struct fmt##x16 *w = (const struct fmt##x16 *)m->w + r / 16 * nb;         \
			for (size_t b = 0; b < nb; b++, w++) {                                          \
				X86_FETCH(w, sizeof *w, nb * sizeof *w);                                \
				unpack_##fmt(o + b, w);                                                 \
			}                                                                               \
			AMX_MEMORY(o);                                                                  \
			for (size_t c = 0; c < whole; c += AMX_COLS)                                    \
				columns(m, o, r, c, __VA_ARGS__);                                       \
			kern_avx512_mm_##fmt(&rest, r, r + 16 < row1 ? r + 16 : row1);                  \
		}                                                                                       \
		_tile_release();                                                                        \
	}

#endif
