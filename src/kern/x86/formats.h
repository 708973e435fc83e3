/* The quantised formats that have interleaved rows, by the size of their blocks: each(type, name) of every one. */
#ifndef KERN_X86_FORMATS_H
#define KERN_X86_FORMATS_H

/* clang-format off */
#define X86_FORMATS_32(each)         \
	each(QUANT_Q4_0, q4_0)       \
	each(QUANT_Q4_1, q4_1)       \
	each(QUANT_Q5_0, q5_0)       \
	each(QUANT_Q5_1, q5_1)       \
	each(QUANT_Q8_0, q8_0)       \
	each(QUANT_IQ4_NL, iq4_nl)   \
	each(QUANT_MXFP4, mxfp4)
#define X86_FORMATS_256(each)        \
	each(QUANT_Q2_K, q2_k)       \
	each(QUANT_Q3_K, q3_k)       \
	each(QUANT_Q4_K, q4_k)       \
	each(QUANT_Q5_K, q5_k)       \
	each(QUANT_Q6_K, q6_k)       \
	each(QUANT_IQ4_XS, iq4_xs)
/* clang-format on */

/* For the functions that fill in the table, k: the level's products are called mm_FMT. */
#define X86_SET_MM(type, fmt) k->packed[type].mm = mm_##fmt;

#endif
