/* Binding a file to a model: what is refused, with which words, and what the hyper-parameters mean. */
#include "model_case.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct shape plain = {
		40, 32, 1, 2, 1, 16, 16, 64, 16, 64, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32, false, NULL, NULL,
		NULL};

static enum cohort_status open_shape(const struct shape *s, struct cohort_model **m, struct cohort_err *err)
{
	char *path = synth_write(s, 1);
	enum cohort_status st = cohort_model_open(path, NULL, m, err);
	unlink(path);
	free(path);
	return st;
}

static void refused(const struct shape *s, enum cohort_status want, const char *word)
{
	struct cohort_model *m = NULL;
	struct cohort_err err;
	assert_int_equal(open_shape(s, &m, &err), want);
	assert_null(m);
	if (!strstr(err.text, word))
		fail_msg("'%s' does not say '%s'", err.text, word);
	for (const char *p = err.text; *p; p++)
		assert_true((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f); /* one readable line */
}

/* Logits of a few tokens, to tell whether two files mean the same. */
static void logits_of(const struct shape *s, float out[6 * 40])
{
	struct cohort_model *m;
	struct cohort_context *c = NULL;
	struct cohort_batch b;
	struct cohort_err err;
	const cohort_seq zero = 0;

	if (open_shape(s, &m, &err) || cohort_context_open(m, NULL, &c, &err) || cohort_batch_init(&b, 6, 0, 1, &err))
		fail_msg("%s", err.text);
	for (int32_t i = 0; i < 6; i++)
		assert_int_equal(cohort_batch_add(&b, 3 * i + 1, i, &zero, 1, true, &err), COHORT_OK);
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_OK);
	for (int32_t i = 0; i < 6; i++)
		memcpy(out + 40 * i, cohort_logits_get(c, i, &err), 40 * sizeof *out);
	cohort_batch_release(&b);
	cohort_context_free(c);
	cohort_model_free(m);
}

static void put_factor(struct file *f, const char *key, float v)
{
	put_key(f, key, GGUF_F32);
	put_f32(f, v);
}

static void linear_2(struct file *f)
{
	put_kv_str(f, "llama.rope.scaling.type", "linear");
	put_factor(f, "llama.rope.scaling.factor", 2.0f);
}
static void untyped_2(struct file *f)
{
	put_factor(f, "llama.rope.scaling.factor", 2.0f);
}
static void old_2(struct file *f)
{
	put_factor(f, "llama.rope.scale_linear", 2.0f);
}
static void none_2(struct file *f)
{
	put_kv_str(f, "llama.rope.scaling.type", "none");
	put_factor(f, "llama.rope.scaling.factor", 2.0f);
}
static void factor_0(struct file *f)
{
	put_factor(f, "llama.rope.scaling.factor", 0.0f);
}
static void yarn(struct file *f)
{
	put_kv_str(f, "llama.rope.scaling.type", "yarn\n\x1b[31m");
}
static void negative(struct file *f)
{
	put_factor(f, "llama.rope.scaling.factor", -1.0f);
}
static void experts(struct file *f)
{
	put_kv_u32(f, "llama.expert_count", 4);
}

/* A factor means the same with its type, without, and under its old name; it means nothing with type none, or as 0. */
static void rope_scaling(void **state)
{
	float a[240], b[240];
	struct shape s = plain;
	(void)state;

	logits_of(&plain, a);
	s.extra_keys = linear_2;
	logits_of(&s, b);
	assert_memory_not_equal(a, b, sizeof a);
	memcpy(a, b, sizeof a);
	s.extra_keys = untyped_2;
	logits_of(&s, b);
	assert_memory_equal(a, b, sizeof a);
	s.extra_keys = old_2;
	logits_of(&s, b);
	assert_memory_equal(a, b, sizeof a);
	logits_of(&plain, a);
	s.extra_keys = none_2;
	logits_of(&s, b);
	assert_memory_equal(a, b, sizeof a);
	s.extra_keys = factor_0;
	logits_of(&s, b);
	assert_memory_equal(a, b, sizeof a);
	s.extra_keys = yarn;
	refused(&s, COHORT_E_UNSUPPORTED, "rope scaling 'yarn\\x0a\\x1b[31m' is not known");
	s.extra_keys = negative;
	refused(&s, COHORT_E_FORMAT, "rope.scaling.factor is -1");
}

static void near_0(struct file *f)
{
	put_factor(f, "llama.rope.scaling.factor", 1e-30f);
}
static void yarn_of_nothing(struct file *f)
{
	/* 1 + m * 0.1 * ln(factor) is 0. */
	put_kv_str(f, "llama.rope.scaling.type", "yarn");
	put_factor(f, "llama.rope.scaling.factor", 0.5f);
	put_factor(f, "llama.rope.scaling.yarn_log_multiplier", 14.4269504f);
}
static void yarn_of_less(struct file *f)
{
	put_kv_str(f, "llama.rope.scaling.type", "yarn");
	put_factor(f, "llama.rope.scaling.factor", 0.5f);
}

/* Angles and sizes that would make every row NaN are the file's fault, not the run's. Seen red without either check. */
static void rope_bounds(void **state)
{
	struct cohort_model *m = NULL;
	struct shape s = plain;
	(void)state;

	s.extra_keys = near_0;
	refused(&s, COHORT_E_FORMAT, "llama.rope.scaling: rotary angle 0 is 1e+30 per position");
	s.extra_keys = yarn_of_nothing;
	refused(&s, COHORT_E_FORMAT, "llama.rope.scaling: factor 0.5 and yarn_log_multiplier 14.427 give a size of");
	s.extra_keys = yarn_of_less;
	assert_int_equal(open_shape(&s, &m, NULL), COHORT_OK);
	cohort_model_free(m);
	/* Of longrope's two tables one is not enough, whether or not the file names it. Seen red by taking either. */
	s = plain;
	s.n_rot = 8;
	s.extra_tensor = "rope_factors_short.weight";
	refused(&s, COHORT_E_FORMAT, "tensor rope_factors_long.weight is missing");
	s.extra_tensor = "rope_factors_long.weight";
	refused(&s, COHORT_E_FORMAT, "tensor rope_factors_short.weight is missing");
}

static void model_refuses_missing_and_extra_tensors(void **state)
{
	struct shape s = plain;
	(void)state;

	s.leave_out = "blk.0.ffn_up.weight";
	refused(&s, COHORT_E_FORMAT, "tensor blk.0.ffn_up.weight is missing");
	s = plain;
	s.extra_tensor = "blk.0.attn_extra.weight";
	refused(&s, COHORT_E_UNSUPPORTED, "tensor 'blk.0.attn_extra.weight' is not part of a llama model");
	s.extra_tensor = "blk.0.attn_q.bias"; /* 4 floats where 32 belong */
	refused(&s, COHORT_E_FORMAT, "tensor blk.0.attn_q.bias has shape [4, 1, 1, 1], expected [32, 1, 1]");
	s.extra_tensor = "evil\n\x1b[31m";
	refused(&s, COHORT_E_UNSUPPORTED, "tensor 'evil\\x0a\\x1b[31m'");
	s.extra_tensor = "rope_freqs.weight"; /* 4 floats where 8 belong */
	refused(&s, COHORT_E_FORMAT, "has shape [4, 1, 1, 1], expected [8, 1, 1]");
	s.extra_tensor = "blk.0.attn_rot_embd"; /* of old files: not needed */
	struct cohort_model *m = NULL;
	assert_int_equal(open_shape(&s, &m, NULL), COHORT_OK);
	cohort_model_free(m);
	s = plain;
	s.extra_keys = experts;
	refused(&s, COHORT_E_FORMAT, "'llama.expert_used_count' is missing");
}

static void model_refuses_bad_shapes(void **state)
{
	struct shape s = plain;
	(void)state;

	s.n_head = 3, s.n_head_kv = 2;
	refused(&s, COHORT_E_FORMAT, "3 heads cannot share 2 KV heads evenly");
	s = plain;
	s.n_rot = 18;
	refused(&s, COHORT_E_FORMAT, "rope.dimension_count is 18, expected 0 to 16");
	s = plain;
	s.n_rot = 7;
	refused(&s, COHORT_E_FORMAT, "expected an even number");
	s = plain;
	s.n_ctx = 0;
	refused(&s, COHORT_E_FORMAT, "context_length is 0");
	/* Without a size of its own a head is a share of the width, which must be whole. Seen red by a share that is
	 * rounded down. */
	s = plain;
	s.n_head = 3, s.leave_out = KEY_LENGTH;
	refused(&s, COHORT_E_FORMAT, "llama.embedding_length is 32, which 3 heads cannot share evenly");
	s.n_head = 64;
	refused(&s, COHORT_E_FORMAT, "llama.embedding_length is 32, which 64 heads cannot share evenly");
	s.n_head = 2;
	struct cohort_model *m = NULL;
	assert_int_equal(open_shape(&s, &m, NULL), COHORT_OK);
	cohort_model_free(m);
}

/* Heads of one element, nothing rotated, a vocabulary of one token. */
static void smallest_model_runs(void **state)
{
	struct shape s = {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32, true, NULL, NULL,
			NULL};
	struct cohort_model *m;
	struct cohort_context *c = NULL;
	struct cohort_batch b;
	struct cohort_err err;
	const cohort_token zero = 0;
	(void)state;

	if (open_shape(&s, &m, &err) || cohort_context_open(m, NULL, &c, &err))
		fail_msg("%s", err.text);
	assert_int_equal(cohort_batch_from_tokens(&b, &zero, 1, &err), COHORT_OK);
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_OK);
	assert_non_null(cohort_logits_get(c, -1, &err));
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_E_BATCH); /* position 1, trained for 1 */
	assert_string_equal(err.rule, "pos-limit");
	cohort_batch_release(&b);
	cohort_context_free(c);
	cohort_model_free(m);
}

static void model_open_refuses_bad_arguments(void **state)
{
	struct cohort_model *m = NULL;
	struct cohort_model_params mp;
	struct cohort_err err;
	char *path = synth_write(&plain, 1), longer[600];
	(void)state;

	assert_int_equal(cohort_model_open(NULL, NULL, &m, &err), COHORT_E_ARG);
	assert_int_equal(cohort_model_open(path, NULL, NULL, &err), COHORT_E_ARG);
	cohort_model_params_init(&mp);
	mp.isa = "sse9";
	assert_int_equal(cohort_model_open(path, &mp, &m, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "known: ref"));
	for (size_t i = 0; i < cohort_isa_count(); i++)
		assert_non_null(strstr(err.text, cohort_isa_name(i)));
	mp.isa = NULL;
	mp.n_threads = -1;
	assert_int_equal(cohort_model_open(path, &mp, &m, &err), COHORT_E_ARG);
	mp = (struct cohort_model_params){0};
	assert_int_equal(cohort_model_open(path, &mp, &m, &err), COHORT_E_ARG);
	/* A path too long for the message loses its beginning, not the reason. */
	memset(longer, 'x', sizeof longer);
	memcpy(longer + sizeof longer - 6, "/end!", 6);
	assert_int_equal(cohort_model_open(longer, NULL, &m, &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, "/end!: "));
	assert_null(m);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rope_scaling),
		cmocka_unit_test(rope_bounds),
		cmocka_unit_test(model_refuses_missing_and_extra_tensors),
		cmocka_unit_test(model_refuses_bad_shapes),
		cmocka_unit_test(smallest_model_runs),
		cmocka_unit_test(model_open_refuses_bad_arguments),
	};
	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
