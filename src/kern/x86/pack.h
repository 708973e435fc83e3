/* Making the layouts of layout.h: the source of a level's pack file, which defines X86_N, X86_Q8_0_SIGNS (bits to turn
 * over in four bytes of Q8_0) and X86_INIT_PACK (the name of the function that fills in the table), and includes this.
 *
 * Invariants
 *  1. Rows past n_rows are packed as zeros.
 *  2. A row goes to its place whatever the others are: ranges of rows can be packed by different threads. */
#include "kern/kern.h"

#include <string.h>

#include "kern/x86/formats.h"
#include "kern/x86/layout.h"

/* n units of 4 bytes of row j, one register per unit. */
static void put_units(uint8_t (*out)[X86_REG], size_t j, const void *qs, int n)
{
	for (int i = 0; i < n; i++)
		memcpy(out[i] + 4 * j, (const uint8_t *)qs + 4 * i, 4);
}

/* Four bytes at once; adding bits to four bytes. */
static uint32_t four(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}
static void put_four(uint8_t *to, uint32_t bits)
{
	bits |= four(to);
	memcpy(to, &bits, sizeof bits);
}

/* Element e has bit e of the file's qh: byte b of four gets every fourth bit, from b on. */
static void put_fifths(uint8_t out[X86_REG], size_t j, const uint8_t qh[4])
{
	for (int b = 0; b < 4; b++) {
		uint32_t x = four(qh) >> b & 0x11111111u;
		x = (x | x >> 3) & 0x03030303u;
		x = (x | x >> 6) & 0x000f000fu;
		out[4 * j + (size_t)b] = (uint8_t)(x | x >> 12);
	}
}

/* ---- Row j of X86_N, one block ---- */

#define ROW(fmt) static void row_##fmt(struct X86_NAME(fmt) *o, size_t j, const struct fmt *s)

ROW(q4_0)
{
	o->d[j] = s->d;
	put_units(o->qs, j, s->qs, 4);
}

ROW(q4_1)
{
	o->d[j] = s->d;
	o->m[j] = s->m;
	put_units(o->qs, j, s->qs, 4);
}

ROW(q5_0)
{
	o->d[j] = s->d;
	put_fifths(o->qh, j, s->qh);
	put_units(o->qs, j, s->qs, 4);
}

ROW(q5_1)
{
	o->d[j] = s->d;
	o->m[j] = s->m;
	put_fifths(o->qh, j, s->qh);
	put_units(o->qs, j, s->qs, 4);
}

ROW(q8_0)
{
	o->d[j] = s->d;
	for (size_t i = 0; i < 8; i++)
		put_four(o->qs[i] + 4 * j, four(s->qs + 4 * i) ^ X86_Q8_0_SIGNS);
}

ROW(iq4_nl)
{
	o->d[j] = s->d;
	put_units(o->qs, j, s->qs, 4);
}

ROW(mxfp4)
{
	o->e[j] = s->e;
	put_units(o->qs, j, s->qs, 4);
}

ROW(q2_k)
{
	o->d[j] = s->d;
	o->dmin[j] = s->dmin;
	for (size_t i = 0; i < 16; i++)
		o->scales[i / 2][2 * j + i % 2] = s->scales[i];
	put_units(o->qs, j, s->qs, 16);
}

ROW(q3_k)
{
	int8_t scales[16];

	o->d[j] = s->d;
	quant_q3_k_scales(s->scales, scales);
	for (size_t i = 0; i < 16; i++)
		o->scales[i / 2][2 * j + i % 2] = scales[i];
	for (size_t h = 0; h < 2; h++)
		put_units(o->h[h].qs, j, s->qs + 32 * h, 8);
	for (size_t r = 0; r < 8; r++)
		for (size_t i = 0; i < 8; i++)
			put_four(o->h[r / 4].hm[i % 4] + 4 * j,
					(four(s->hmask + 4 * i) >> r & 0x01010101u) << (2 * (r % 4) + i / 4));
}

ROW(q4_k)
{
	o->d[j] = s->d;
	o->dmin[j] = s->dmin;
	for (size_t i = 0; i < 8; i++)
		quant_k_scale_min(s->scales, (int)i, &o->scales[i / 2][2 * j + i % 2], &o->mins[i / 2][2 * j + i % 2]);
	put_units(o->qs, j, s->qs, 32);
}

ROW(q5_k)
{
	o->d[j] = s->d;
	o->dmin[j] = s->dmin;
	for (size_t i = 0; i < 8; i++)
		quant_k_scale_min(s->scales, (int)i, &o->scales[i / 2][2 * j + i % 2], &o->mins[i / 2][2 * j + i % 2]);
	for (size_t p = 0; p < 4; p++)
		put_units(o->p[p].qs, j, s->qs + 32 * p, 8);
	for (size_t r = 0; r < 8; r++)
		for (size_t i = 0; i < 8; i++)
			put_four(o->p[r / 2].qh[r % 2] + 4 * j, (four(s->qh + 4 * i) >> r & 0x01010101u) << i);
}

ROW(q6_k)
{
	int8_t q[256];

	o->d[j] = s->d;
	for (size_t i = 0; i < 16; i++)
		o->scales[i / 2][2 * j + i % 2] = s->scales[i];
	quant_ints_q6_k(s, q);
	for (size_t e = 0; e < 256; e++)
		q[e] = (int8_t)(q[e] + 32);
	for (size_t r = 0; r < 8; r++)
		for (size_t i = 0; i < 8; i++) {
			const uint32_t v = four(q + 32 * r + 4 * i);
			put_four(o->p[r / 2].ql[i] + 4 * j, (v & 0x0f0f0f0fu) << 4 * (r % 2));
			put_four(o->p[r / 2].qh[i % 4] + 4 * j, (v >> 4 & 0x03030303u) << (2 * (i / 4) + 4 * (r % 2)));
		}
}

ROW(iq4_xs)
{
	o->d[j] = s->d;
	for (size_t i = 0; i < 8; i++) {
		int lo = s->scales_l[i / 2] >> 4 * (i % 2) & 15, hi = s->scales_h >> 2 * i & 3;
		o->scales[i / 2][2 * j + i % 2] = (int8_t)((lo | hi << 4) - 32);
	}
	put_units(o->qs, j, s->qs, 32);
}

/* ---- The table's functions ---- */

#define PACK(fmt, block)                                                                                            \
	static size_t bytes_##fmt(size_t n_rows, size_t k)                                                        \
	{                                                                                                         \
		return (n_rows + X86_N - 1) / X86_N * (k / (block)) * sizeof(struct X86_NAME(fmt));                   \
	}                                                                                                         \
	static void pack_##fmt(void *dst, const void *src, size_t n_rows, size_t k, size_t row0, size_t row1)     \
	{                                                                                                         \
		const size_t nb = k / (block);                                                                    \
		for (size_t r = row0; r < row1; r += X86_N)                                                       \
			for (size_t b = 0; b < nb; b++) {                                                         \
				struct X86_NAME(fmt) *o = dst;                                                    \
				o += r / X86_N * nb + b;                                                          \
				memset(o, 0, sizeof *o);                                                          \
				for (size_t j = 0; j < X86_N && r + j < n_rows; j++)                              \
					row_##fmt(o, j, (const struct fmt *)src + (r + j) * nb + b);              \
			}                                                                                         \
	}
#define PACK_32(type, fmt) PACK(fmt, 32)
#define PACK_256(type, fmt) PACK(fmt, 256)
X86_FORMATS_32(PACK_32)
X86_FORMATS_256(PACK_256)

void X86_INIT_PACK(struct kern *k)
{
#define ENTRY(type, fmt) k->packed[type] = (struct kern_mat){X86_N, NULL, bytes_##fmt, pack_##fmt};
	X86_FORMATS_32(ENTRY)
	X86_FORMATS_256(ENTRY)
}
