/* Weights of X86_N rows interleaved, so that each 32-bit lane of a register is a row: the layouts of all quantised
 * formats. Included once by each file of a level, with X86_N defined (8 for 256-bit registers, 16 for 512); the structs
 * are called FORMATxN. pack.h makes them.
 *
 * Register i of a row has 4 bytes: bytes 4i..4i+3 of what the file has in qs, or elements 4i..4i+3 where bits of a
 * value lie in two places. Whatever is read first comes first: memory is fast only when it is read in one direction.
 * Scales and minimums of blocks of 256 are [pair of sub-blocks][row][2].
 *   Q5_0, Q5_1: bit i of qh is the fifth of register i of eight
 *   Q3_K, half h of the block: bit 2 (r % 4) + i / 4 of hm[i % 4] is the third of run r (of 32 elements), register i
 *   Q5_K, runs 2p and 2p + 1: bit i of qh[r % 2] is the fifth of run r, register i
 *   Q6_K, runs 2p and 2p + 1: low and high nibbles of ql; qh[i % 4] has two bits of run 2p, register i, two of register
 *   i + 4, then the same of run 2p + 1 */
#define X86_CAT3(a, b, c) a##b##c
#define X86_CAT(a, b, c) X86_CAT3(a, b, c)
#define X86_NAME(fmt) X86_CAT(fmt, x, X86_N)
#define X86_REG (4 * X86_N) /* bytes of a register */

struct X86_NAME(q4_0) {
	uint16_t d[X86_N];
	uint8_t qs[4][X86_REG];
};
struct X86_NAME(q4_1) {
	uint16_t d[X86_N], m[X86_N];
	uint8_t qs[4][X86_REG];
};
struct X86_NAME(q5_0) {
	uint16_t d[X86_N];
	uint8_t qh[X86_REG];
	uint8_t qs[4][X86_REG];
};
struct X86_NAME(q5_1) {
	uint16_t d[X86_N], m[X86_N];
	uint8_t qh[X86_REG];
	uint8_t qs[4][X86_REG];
};
struct X86_NAME(q8_0) {
	uint16_t d[X86_N];
	uint8_t qs[8][X86_REG]; /* int8; of 16 rows plus 128, as unsigned bytes */
};
struct X86_NAME(iq4_nl) {
	uint16_t d[X86_N];
	uint8_t qs[4][X86_REG];
};
struct X86_NAME(mxfp4) {
	uint8_t e[X86_N];
	uint8_t qs[4][X86_REG];
};

struct X86_NAME(q2_k) {
	uint16_t d[X86_N], dmin[X86_N];
	uint8_t scales[8][2 * X86_N]; /* scale low, minimum high, as in the file */
	uint8_t qs[16][X86_REG];
};
struct X86_NAME(q3_k) {
	uint16_t d[X86_N];
	int8_t scales[8][2 * X86_N];
	struct {
		uint8_t hm[4][X86_REG], qs[8][X86_REG];
	} h[2];
};
struct X86_NAME(q4_k) {
	uint16_t d[X86_N], dmin[X86_N];
	uint8_t scales[4][2 * X86_N], mins[4][2 * X86_N];
	uint8_t qs[32][X86_REG];
};
struct X86_NAME(q5_k) {
	uint16_t d[X86_N], dmin[X86_N];
	uint8_t scales[4][2 * X86_N], mins[4][2 * X86_N];
	struct {
		uint8_t qh[2][X86_REG], qs[8][X86_REG];
	} p[4];
};
struct X86_NAME(q6_k) {
	uint16_t d[X86_N];
	int8_t scales[8][2 * X86_N];
	struct {
		uint8_t qh[4][X86_REG], ql[8][X86_REG];
	} p[4];
};
struct X86_NAME(iq4_xs) {
	uint16_t d[X86_N];
	int8_t scales[4][2 * X86_N];
	uint8_t qs[32][X86_REG];
};

#define X86_BYTES(fmt, a_row) \
	_Static_assert(sizeof(struct X86_NAME(fmt)) == X86_N * (a_row), "as in the file, or little more")
X86_BYTES(q4_0, 18);
X86_BYTES(q4_1, 20);
X86_BYTES(q5_0, 22);
X86_BYTES(q5_1, 24);
X86_BYTES(q8_0, 34);
X86_BYTES(iq4_nl, 18);
X86_BYTES(mxfp4, 17);
X86_BYTES(q2_k, 84);
X86_BYTES(q3_k, 114);   /* 4 more: unpacked scales */
X86_BYTES(q4_k, 148);   /* 4 more */
X86_BYTES(q5_k, 180);   /* 4 more */
X86_BYTES(q6_k, 210);
X86_BYTES(iq4_xs, 138); /* 2 more */
