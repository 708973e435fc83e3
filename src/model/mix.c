/* The usual mixes of formats: more bits where rounding hurts most.
 *
 * The rules are those by which published GGUF files are made (llama.cpp's quantiser without an importance matrix), so
 * that a file of a given name has the size and the kernels people expect of that name. They grew by measurement, not
 * from a principle; the numbers 8, 16 and 3 below are theirs.
 *
 * Invariants
 *  1. The result always divides the row: a format that does not is replaced by one of 32 per block, that by F16.
 *  2. Float formats have no mix: everything gets them.
 *
 * Refuses to know tensor names, and what a format's bits are. */
#include "model/mix.h"

#include "quant/quant.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Numbers of general.file_type, as files in circulation have them. */
enum {
	FT_F32 = 0, FT_F16 = 1, FT_Q4_0 = 2, FT_Q4_1 = 3, FT_Q8_0 = 7, FT_Q5_0 = 8, FT_Q5_1 = 9, FT_Q2_K = 10,
	FT_Q3_K_S = 11, FT_Q3_K_M = 12, FT_Q3_K_L = 13, FT_Q4_K_S = 14, FT_Q4_K_M = 15, FT_Q5_K_S = 16, FT_Q5_K_M = 17,
	FT_Q6_K = 18, FT_Q2_K_S = 21, FT_IQ4_NL = 25, FT_IQ4_XS = 30, FT_BF16 = 32, FT_TQ2_0 = 37
};

static const struct mix mixes[] = {
	{"F32", QUANT_F32, FT_F32}, {"F16", QUANT_F16, FT_F16}, {"BF16", QUANT_BF16, FT_BF16},
	{"Q8_0", QUANT_Q8_0, FT_Q8_0}, {"Q4_0", QUANT_Q4_0, FT_Q4_0}, {"Q4_1", QUANT_Q4_1, FT_Q4_1},
	{"Q5_0", QUANT_Q5_0, FT_Q5_0}, {"Q5_1", QUANT_Q5_1, FT_Q5_1},
	{"Q2_K", QUANT_Q2_K, FT_Q2_K}, {"Q2_K_S", QUANT_Q2_K, FT_Q2_K_S},
	{"Q3_K_S", QUANT_Q3_K, FT_Q3_K_S}, {"Q3_K_M", QUANT_Q3_K, FT_Q3_K_M}, {"Q3_K_L", QUANT_Q3_K, FT_Q3_K_L},
	{"Q4_K_S", QUANT_Q4_K, FT_Q4_K_S}, {"Q4_K_M", QUANT_Q4_K, FT_Q4_K_M},
	{"Q5_K_S", QUANT_Q5_K, FT_Q5_K_S}, {"Q5_K_M", QUANT_Q5_K, FT_Q5_K_M}, {"Q6_K", QUANT_Q6_K, FT_Q6_K},
	{"IQ4_NL", QUANT_IQ4_NL, FT_IQ4_NL}, {"IQ4_XS", QUANT_IQ4_XS, FT_IQ4_XS}, {"TQ2_0", QUANT_TQ2_0, FT_TQ2_0},
};
enum { N_MIXES = sizeof mixes / sizeof *mixes };

const struct mix *mix_get(size_t i)
{
	return i < N_MIXES ? &mixes[i] : NULL;
}

const struct mix *mix_find(const char *name)
{
	static const char *const medium[][2] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};

	for (size_t i = 0; i < sizeof medium / sizeof *medium; i++)
		if (strcasecmp(name, medium[i][0]) == 0)
			name = medium[i][1];
	for (size_t i = 0; i < N_MIXES; i++)
		if (strcasecmp(name, mixes[i].name) == 0)
			return &mixes[i];
	return NULL;
}

enum cohort_status mix_parse(const char *name, const struct mix **out, struct cohort_err *err)
{
	char known[320] = "";
	size_t n = 0;

	*out = mix_find(name);
	if (*out)
		return COHORT_OK;
	for (size_t i = 0; i < N_MIXES && n < sizeof known; i++)
		n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", mixes[i].name);
	return err_set(err, COHORT_E_ARG, "type '%.40s' is not known; known: %s", name, known);
}

static uint64_t block(uint32_t type)
{
	return quant_format_get(type)->block;
}

/* The first and last eighth of the layers, and every third between. */
static bool more_bits(uint32_t i, uint32_t n)
{
	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* Eight experts (Mixtral): beside them attention is so small that it may have all the bits. */
static bool eight(const struct mix_model *m)
{
	return m->n_expert == 8;
}

static uint32_t type_v(const struct mix *x, const struct mix_model *m, uint32_t i)
{
	/* A small matrix, each row of which serves many heads. */
	const bool many = m->n_head_kv && m->n_head / m->n_head_kv >= 4;
	uint32_t type = x->base;

	switch (x->file_type) {
	case FT_Q2_K: type = many ? QUANT_Q4_K : QUANT_Q3_K; break;
	case FT_Q2_K_S: type = many ? QUANT_Q4_K : type; break;
	case FT_Q3_K_M: type = i < 2 ? QUANT_Q5_K : QUANT_Q4_K; break;
	case FT_Q3_K_L: type = QUANT_Q5_K; break;
	case FT_IQ4_NL: case FT_IQ4_XS: type = many ? QUANT_Q5_K : type; break;
	case FT_Q4_K_M: case FT_Q5_K_M: type = more_bits(i, m->n_v) ? QUANT_Q6_K : type; break;
	case FT_Q4_K_S: type = i < 4 ? QUANT_Q5_K : type; break;
	default: break;
	}
	/* 80 layers with shared heads are the 70 B models, whose value matrices are an eighth of the queries'. */
	if (m->n_layer == 80 && m->n_head != m->n_head_kv && (type == QUANT_Q3_K || type == QUANT_Q4_K))
		type = QUANT_Q5_K;
	return eight(m) ? QUANT_Q8_0 : type;
}

static uint32_t type_down(const struct mix *x, const struct mix_model *m, uint32_t i)
{
	const bool first = i < m->n_layer / 8;

	switch (x->file_type) {
	case FT_Q2_K: return QUANT_Q3_K;
	case FT_Q2_K_S: return first ? QUANT_Q4_K : x->base;
	case FT_Q3_K_M: return i < m->n_layer / 16 ? QUANT_Q5_K : QUANT_Q4_K;
	case FT_Q3_K_L: return QUANT_Q5_K;
	case FT_Q4_K_M: case FT_Q5_K_M: return more_bits(i, m->n_layer) ? QUANT_Q6_K : x->base;
	case FT_IQ4_NL: case FT_IQ4_XS: case FT_Q4_K_S: return first ? QUANT_Q5_K : x->base;
	default: return x->base;
	}
}

static uint32_t type_o(const struct mix *x, const struct mix_model *m)
{
	switch (x->file_type) {
	case FT_Q2_K: return eight(m) ? QUANT_Q5_K : QUANT_Q3_K;
	case FT_Q3_K_M: return eight(m) ? QUANT_Q5_K : QUANT_Q4_K;
	case FT_Q3_K_L: return eight(m) ? x->base : QUANT_Q5_K;
	case FT_Q3_K_S: case FT_Q4_K_S: case FT_Q4_K_M: case FT_IQ4_NL: case FT_IQ4_XS:
		return eight(m) ? QUANT_Q5_K : x->base;
	default: return x->base;
	}
}

static uint32_t type_output(const struct mix *x, uint64_t ne0)
{
	return x->base == QUANT_Q8_0 || ne0 % block(x->base) ? QUANT_Q8_0 : QUANT_Q6_K;
}

static uint32_t by_role(const struct mix *x, const struct mix_model *m, enum mix_role role, uint32_t i, uint64_t ne0)
{
	switch (role) {
	case MIX_OUTPUT: return type_output(x, ne0);
	case MIX_EMBD: return m->tied ? type_output(x, ne0) : x->base == QUANT_TQ2_0 ? QUANT_Q4_K : x->base;
	case MIX_K: return eight(m) ? QUANT_Q8_0 : x->base;
	case MIX_V: return type_v(x, m, i);
	case MIX_DOWN: return type_down(x, m, i);
	case MIX_O: return type_o(x, m);
	default: return x->base;
	}
}

/* For rows that are no whole blocks. */
static uint32_t fall_back(uint32_t type)
{
	switch (type) {
	case QUANT_IQ4_XS: return QUANT_IQ4_NL;
	case QUANT_Q2_K: case QUANT_Q3_K: case QUANT_TQ2_0: return QUANT_Q4_0;
	case QUANT_Q4_K: return QUANT_Q5_0;
	case QUANT_Q5_K: return QUANT_Q5_1;
	case QUANT_Q6_K: return QUANT_Q8_0;
	default: return QUANT_F16;
	}
}

uint32_t mix_wanted(const struct mix *x, const struct mix_model *m, enum mix_role role, uint32_t i, uint64_t ne0)
{
	return m->pure || block(x->base) == 1 ? x->base : by_role(x, m, role, i, ne0);
}

uint32_t mix_fit(uint32_t type, uint64_t ne0)
{
	while (ne0 % block(type))
		type = fall_back(type);
	return type;
}

uint32_t mix_type(const struct mix *x, const struct mix_model *m, enum mix_role role, uint32_t i, uint64_t ne0)
{
	return mix_fit(mix_wanted(x, m, role, i, ne0), ne0);
}
