/* Which format each tensor gets: the mixes on a model of sixteen layers, and names of every kind.
 *
 * The tables are what llama.cpp's quantiser makes of the same tensors (without an importance matrix, which it asks for
 * in Q2_K_S: that row follows its rules on paper).
 *
 * Shown red by the order of the file instead of that of the layers, by a layer's number for that of its value matrix,
 * by as many value matrices as layers (counting), by a fused attn_qkv of no role, by ffn_gate_inp left out of the
 * names that stay (names), by experts of which the layer is not looked at and eight of them taken for nine (experts),
 * by an eighth for a sixteenth in Q3_K_M (mixes_choose_types_by_tensor), and by a tied embedding that is no output
 * matrix (overrides). */
#include "quantize_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cohort_tools.h"

/* What became of each tensor. */
struct plan {
	struct {
		char name[64];
		const char *type;
	} tensors[256];
	size_t n;
};

static void note(const struct cohort_quantize_tensor *t, void *user)
{
	struct plan *a = user;
	assert_true(a->n < 256 && t->n_name < 64);
	memcpy(a->tensors[a->n].name, t->name, t->n_name);
	a->tensors[a->n].name[t->n_name] = '\0';
	a->tensors[a->n++].type = t->to;
}

/* Valid until the next call. */
static const struct plan *plan_of(const struct place *p, struct cohort_quantize_params qp)
{
	static struct plan a;
	a.n = 0;
	qp.report = note;
	qp.report_user = &a;
	quantize(p, &qp);
	return &a;
}

static void check_type(const struct plan *a, const char *mix, const char *name, const char *want)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(name, a->tensors[i].name) == 0) {
			if (strcmp(a->tensors[i].type, want) != 0)
				fail_msg("%s: %s is %s, expected %s", mix, name, a->tensors[i].type, want);
			return;
		}
	fail_msg("%s: no tensor %s", mix, name);
}

/* ---- The mixes ---- */

/* One sign per layer: a digit is the bits of a k-format, '.' the mix's own format. */
static const struct row {
	const char *mix, *base, *embd, *output, *o, *v, *down;
} rows[] = {
	{"Q2_K", "Q2_K", "Q2_K", "Q6_K", "Q3_K", "4444444444444444", "3333333333333333"},
	{"Q2_K_S", "Q2_K", "Q2_K", "Q6_K", "Q2_K", "4444444444444444", "44.............."},
	{"Q3_K_S", "Q3_K", "Q3_K", "Q6_K", "Q3_K", "................", "................"},
	{"Q3_K_M", "Q3_K", "Q3_K", "Q6_K", "Q4_K", "5544444444444444", "5444444444444444"},
	{"Q3_K_L", "Q3_K", "Q3_K", "Q6_K", "Q5_K", "5555555555555555", "5555555555555555"},
	{"Q4_K_S", "Q4_K", "Q4_K", "Q6_K", "Q4_K", "5555............", "55.............."},
	{"Q4_K_M", "Q4_K", "Q4_K", "Q6_K", "Q4_K", "66..6..6..6..666", "66..6..6..6..666"},
	{"Q5_K_S", "Q5_K", "Q5_K", "Q6_K", "Q5_K", "................", "................"},
	{"Q5_K_M", "Q5_K", "Q5_K", "Q6_K", "Q5_K", "66..6..6..6..666", "66..6..6..6..666"},
	{"Q6_K", "Q6_K", "Q6_K", "Q6_K", "Q6_K", "................", "................"},
	{"IQ4_NL", "IQ4_NL", "IQ4_NL", "Q6_K", "IQ4_NL", "5555555555555555", "55.............."},
	{"IQ4_XS", "IQ4_XS", "IQ4_XS", "Q6_K", "IQ4_XS", "5555555555555555", "55.............."},
	{"TQ2_0", "TQ2_0", "Q4_K", "Q6_K", "TQ2_0", "................", "................"},
	{"Q4_0", "Q4_0", "Q4_0", "Q6_K", "Q4_0", "................", "................"},
	{"Q5_1", "Q5_1", "Q5_1", "Q6_K", "Q5_1", "................", "................"},
	{"Q8_0", "Q8_0", "Q8_0", "Q8_0", "Q8_0", "................", "................"},
	{"F16", "F16", "F16", "F16", "F16", "................", "................"},
};

static void check_layer(const struct plan *a, const struct row *r, int layer, const char *part, char sign)
{
	const char digit[] = {'Q', sign, '_', 'K', '\0'};
	char name[64];
	snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part);
	check_type(a, r->mix, name, sign == '.' ? r->base : digit);
}

static void mixes_choose_types_by_tensor(void **state)
{
	const struct place *p = *state;
	struct cohort_synth_params sp = tiny("F16");
	sp.n_layer = 16;
	sp.n_ff = 256;
	make_input(p, &sp);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct row *r = &rows[i];
		struct cohort_quantize_params qp = params_of(r->mix);
		qp.dry_run = true; /* test_quantize.c compares its word with the file */
		const struct plan *a = plan_of(p, qp);
		check_type(a, r->mix, "token_embd.weight", r->embd);
		check_type(a, r->mix, "output.weight", r->output);
		check_type(a, r->mix, "output_norm.weight", "F32");
		for (int l = 0; l < 16; l++) {
			static const char *const plain[] = {"attn_q", "attn_k", "ffn_gate", "ffn_up"};
			char name[64];
			for (size_t k = 0; k < 4; k++)
				check_layer(a, r, l, plain[k], '.');
			check_layer(a, r, l, "attn_v", r->v[l]);
			check_layer(a, r, l, "ffn_down", r->down[l]);
			snprintf(name, sizeof name, "blk.%d.attn_output.weight", l);
			check_type(a, r->mix, name, r->o);
			snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", l);
			check_type(a, r->mix, name, "F32");
		}
	}
}

/* ---- Names ---- */

struct entry {
	const char *name;
	uint32_t type, n_dims;
	uint64_t ne[4];
	const char *want; /* in Q4_K_M */
};

struct number {
	const char *key;
	uint32_t v;
};

/* Tensors of any names, all zero. */
static void make_file(const struct place *p, const struct number *numbers, size_t n_numbers, const struct entry *e,
		size_t n)
{
	struct cohort_gguf_writer *w = NULL;
	static const uint8_t zeros[1 << 16];
	assert_int_equal(cohort_gguf_writer_open(input_of(p), &w, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_str(w, "general.architecture", "some", NULL), COHORT_OK);
	for (size_t i = 0; i < n_numbers; i++)
		assert_int_equal(cohort_gguf_writer_u32(w, numbers[i].key, numbers[i].v, NULL), COHORT_OK);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(cohort_gguf_writer_tensor(w, e[i].name, e[i].type, e[i].n_dims, e[i].ne, NULL),
				COHORT_OK);
	assert_int_equal(cohort_gguf_writer_begin(w, NULL), COHORT_OK);
	for (size_t i = 0; i < n; i++) {
		uint64_t n_bytes = e[i].type == 0 ? 4 : 2;
		for (uint32_t d = 0; d < e[i].n_dims; d++)
			n_bytes *= e[i].ne[d];
		assert_true(n_bytes <= sizeof zeros);
		assert_int_equal(cohort_gguf_writer_data(w, i, zeros, (size_t)n_bytes, NULL), COHORT_OK);
	}
	assert_int_equal(cohort_gguf_writer_finish(w, NULL), COHORT_OK);
	cohort_gguf_writer_free(w);
}

static void check_file(const struct place *p, const struct entry *e, size_t n)
{
	const struct plan *a = plan_of(p, params_of("Q4_K_M"));
	assert_int_equal(a->n, n);
	for (size_t i = 0; i < n; i++)
		check_type(a, "Q4_K_M", e[i].name, e[i].want);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void names(void **state)
{
	const struct place *p = *state;
	static const struct number numbers[] = {{"some.block_count", 1}, {"some.attention.head_count", 4}};
	static const struct entry e[] = {
		{"token_embd.weight", 0, 2, {256, 4}, "Q4_K"},
		{"per_layer_token_embd.weight", 0, 2, {256, 4}, "Q4_K"},
		{"output.weight", 1, 2, {256, 4}, "Q6_K"},
		{"position_embd.weight", 0, 2, {256, 4}, "F32"},
		{"token_types.weight", 0, 2, {256, 4}, "F32"},
		{"rope_freqs.weight", 0, 1, {64}, "F32"},
		{"blk.0.attn_qkv.weight", 0, 2, {256, 4}, "Q6_K"},
		{"blk.0.attn_qkv.bias", 0, 1, {256}, "F32"},
		{"blk.0.attn_rel_b.weight", 0, 2, {32, 4}, "F32"},
		{"blk.0.attn_q_norm.weight", 0, 2, {256, 4}, "F32"},
		{"blk.0.ffn_gate_inp.weight", 0, 2, {256, 4}, "F32"},
		{"blk.0.ffn_gate_exps.weight", 0, 3, {256, 2, 3}, "Q4_K"},
		{"blk.0.ssm_conv1d.weight", 0, 2, {256, 4}, "F32"},
		{"blk.0.time_mix_w1.weight", 0, 2, {256, 4}, "F32"},
		{"blk.0.weird.weight", 30, 2, {256, 4}, "Q4_K"},
		{"blk.0.by_32.weight", 0, 2, {96, 4}, "Q5_0"},
		{"blk.0.by_3.weight", 0, 2, {33, 4}, "F16"},
		{"blk.0.flat.weight", 0, 2, {256, 1}, "F32"},
		{"blk.0.no_ending", 1, 2, {256, 4}, "F16"},
		{"v.patch_embd.weight", 1, 4, {14, 14, 3, 2}, "F16"},
		{"weight", 0, 2, {256, 2}, "Q4_K"},
		{"x", 0, 2, {256, 2}, "F32"},
	};
	make_file(p, numbers, COUNT(numbers), e, COUNT(e));
	check_file(p, e, COUNT(e));
}

/* With eight experts attention has more bits; without experts in the name, too, the layer counts. */
static void experts(void **state)
{
	const struct place *p = *state;
	static const struct number numbers[] = {{"some.block_count", 17}, {"some.attention.head_count", 8},
			{"some.attention.head_count_kv", 2}, {"some.expert_count", 8}};
	static const struct entry e[] = {
		{"output.weight", 0, 2, {256, 4}, "Q6_K"},
		{"blk.0.attn_q.weight", 0, 2, {256, 4}, "Q4_K"},
		{"blk.0.attn_k.weight", 0, 2, {256, 4}, "Q8_0"},
		{"blk.0.attn_v.weight", 0, 2, {256, 4}, "Q8_0"},
		{"blk.0.attn_output.weight", 0, 2, {256, 4}, "Q5_K"},
		{"blk.0.ffn_down_exps.weight", 0, 3, {256, 2, 8}, "Q6_K"},
		{"blk.0.ffn_down_shexp.weight", 0, 2, {256, 2}, "Q6_K"},
		{"blk.2.ffn_down_exps.weight", 0, 3, {256, 2, 8}, "Q4_K"},
		{"blk.2.ffn_down_shexp.weight", 0, 2, {256, 2}, "Q4_K"},
		{"blk.4.ffn_down_exps.weight", 0, 3, {256, 2, 8}, "Q6_K"},
		{"blk.16.ffn_down_exps.weight", 0, 3, {256, 2, 8}, "Q6_K"},
		{"blk.16.ffn_up_exps.weight", 0, 3, {256, 2, 8}, "Q4_K"},
	};
	make_file(p, numbers, COUNT(numbers), e, COUNT(e));
	check_file(p, e, COUNT(e));
}

/* Value matrices on some layers only, and a file whose order is not that of the layers: eight of them, so the first,
 * the last and, from the second, every third have more bits. */
static void counting(void **state)
{
	const struct place *p = *state;
	static const struct number numbers[] = {{"some.block_count", 40}};
	static const struct entry e[] = {
		{"output.weight", 0, 2, {256, 4}, "Q6_K"},
		{"blk.39.attn_v.weight", 0, 2, {256, 2}, "Q6_K"}, /* 7 */
		{"blk.10.attn_v.weight", 0, 2, {256, 2}, "Q4_K"}, /* 2 */
		{"blk.2.attn_v.weight", 0, 2, {256, 2}, "Q6_K"},  /* 0 */
		{"blk.9.attn_v.weight", 0, 2, {256, 2}, "Q4_K"},  /* 1 */
		{"blk.20.attn_v.weight", 0, 2, {256, 2}, "Q4_K"}, /* 4 */
		{"blk.11.attn_v.weight", 0, 2, {256, 2}, "Q6_K"}, /* 3 */
		{"blk.30.attn_v.weight", 0, 2, {256, 2}, "Q6_K"}, /* 6 */
		{"blk.21.attn_v.weight", 0, 2, {256, 2}, "Q4_K"}, /* 5 */
	};
	make_file(p, numbers, COUNT(numbers), e, COUNT(e));
	check_file(p, e, COUNT(e));
}

/* Without output matrix the embedding serves as it; without any key the layers are counted. */
static void tied(void **state)
{
	const struct place *p = *state;
	static const struct entry e[] = {
		{"token_embd.weight", 0, 2, {256, 4}, "Q6_K"},
		{"blk.7.ffn_down.weight", 0, 2, {256, 4}, "Q6_K"}, /* the first of eight layers */
	};
	make_file(p, NULL, 0, e, COUNT(e));
	check_file(p, e, COUNT(e));
}

/* ---- What the caller asks for ---- */

static void overrides(void **state)
{
	const struct place *p = *state;
	static const struct {
		const char *mix;
		bool tied, pure;
		const char *embd, *output; /* asked for */
		const char *embd_is, *output_is, *q_is, *v_is;
	} cases[] = {
		{"Q4_K_M", false, false, "Q8_0", NULL, "Q8_0", "Q6_K", "Q4_K", "Q6_K"},
		{"Q4_K_M", false, false, NULL, "f16", "Q4_K", "F16", "Q4_K", "Q6_K"},
		{"Q4_K_M", false, false, "q5_k", "iq4_xs", "Q5_K", "IQ4_XS", "Q4_K", "Q6_K"},
		{"Q4_K_M", true, false, NULL, "Q5_0", "Q5_0", NULL, "Q4_K", "Q6_K"},
		{"Q4_K_M", true, false, "Q8_0", "Q5_0", "Q8_0", NULL, "Q4_K", "Q6_K"},
		{"Q4_K_M", false, true, NULL, NULL, "Q4_K", "Q4_K", "Q4_K", "Q4_K"},
		{"Q4_K_M", true, true, "Q8_0", NULL, "Q8_0", NULL, "Q4_K", "Q4_K"},
		{"F16", false, false, "Q8_0", NULL, "Q8_0", "F16", "F16", "F16"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct cohort_synth_params sp = tiny("F32");
		struct cohort_quantize_params qp = params_of(cases[i].mix);
		sp.tied = cases[i].tied;
		sp.n_layer = 8;
		qp.pure = cases[i].pure;
		qp.token_embedding_type = cases[i].embd;
		qp.output_tensor_type = cases[i].output;
		make_input(p, &sp);
		qp.dry_run = true;
		const struct plan *a = plan_of(p, qp);
		check_type(a, cases[i].mix, "token_embd.weight", cases[i].embd_is);
		if (cases[i].output_is)
			check_type(a, cases[i].mix, "output.weight", cases[i].output_is);
		check_type(a, cases[i].mix, "blk.0.attn_q.weight", cases[i].q_is);
		check_type(a, cases[i].mix, "blk.0.attn_v.weight", cases[i].v_is);
	}
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown_both)
	const struct CMUnitTest tests[] = {
		CASE(mixes_choose_types_by_tensor), CASE(names), CASE(experts), CASE(counting), CASE(tied),
		CASE(overrides),
	};
	return cmocka_run_group_tests_name("quantize_types", tests, NULL, NULL);
}
