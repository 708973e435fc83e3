/* Rows that ask for their embedding only: every bit of what they and the others get is as if they had asked for all,
 * and the product with the vocabulary has only the rows that want it.
 *
 * Texts of several sequences, some with an adapter of the output matrix, are decoded and encoded with all outputs of
 * every row; then again in other chunks with each row asking at random for nothing, all or its embedding. Products are
 * counted by a table of operations in the place of the context's.
 *
 * Shown red by planted faults: logits placed where the embeddings are, the row numbers of narrowed rows not passed on
 * to the adapters, rows of x not gathered, COHORT_ROW_EMBEDDING taken for all (counted), bad embeddings not looked for
 * (first_row_with_a_bad_number_is_named), the place among those with logits taken for the place among all
 * (first_row_with_a_bad_number_is_named), places of logits that are not reset by a new call. */
#include "arch_case.h"

#include "cohort_tools.h"

#include "context/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_SEQS = 3, N_TOKENS = 40, BATCH_MAX = 64 };

struct rig {
	struct cohort_model *m;
	struct cohort_adapter *a; /* or NULL */
	struct cohort_context *c;
	size_t n_vocab, n_embd;
	cohort_token text[N_SEQS][N_TOKENS];
	float *logits, *embd; /* [N_SEQS, N_TOKENS, n_vocab or n_embd]: as they should be */
};

/* An adapter of the output matrix of a model with these sizes, with random numbers. */
static void write_adapter(const char *path, uint64_t n_embd, uint64_t n_vocab)
{
	enum { RANK = 4 };
	const uint64_t ne_a[] = {n_embd, RANK}, ne_b[] = {RANK, n_vocab};
	struct file f = {0};
	struct rng g;

	rng_init(&g, 3, 3);
	put_header(&f, 3, 2, 0);
	put_kv_str(&f, "general.type", "adapter");
	put_kv_str(&f, "adapter.type", "lora");
	put_kv_str(&f, "general.architecture", "llama");
	put_key(&f, "adapter.lora.alpha", GGUF_F32);
	put_f32(&f, 4);
	put_n_kv(&f);
	put_tensor(&f, "output.weight.lora_a", 2, ne_a, QUANT_F32, 0);
	put_tensor(&f, "output.weight.lora_b", 2, ne_b, QUANT_F32, n_embd * RANK * sizeof(float));
	put_pad(&f, 32);
	for (uint64_t i = 0; i < RANK * (n_embd + n_vocab); i++)
		put_f32(&f, (float)(rng_f64(&g) - 0.5));
	FILE *out = fopen(path, "wb");
	assert_true(out && fwrite(f.d, 1, f.n, out) == f.n && fclose(out) == 0);
	file_release(&f);
}

static struct cohort_context *context_open(const struct rig *r, int32_t n_ubatch, enum cohort_split split,
		uint32_t outputs, enum cohort_pooling pooling, bool output_all)
{
	struct cohort_context_params cp;
	struct cohort_context *c = NULL;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cp.n_ctx = 512;
	cp.n_batch = BATCH_MAX;
	cp.n_ubatch = n_ubatch;
	cp.n_seq_max = N_SEQS;
	cp.n_threads = 1;
	cp.split = split;
	cp.outputs = outputs;
	cp.pooling = pooling;
	cp.output_all = output_all;
	if (cohort_context_open(r->m, &cp, &c, &err))
		fail_msg("%s", err.text);
	for (cohort_seq seq = 0; r->a && seq < N_SEQS; seq += 2)
		assert_int_equal(cohort_seq_adapter_set(c, seq, r->a, seq ? 0.5f : 1, &err), COHORT_OK);
	return c;
}

/* Rows to compute, and whose they are. */
struct rows {
	cohort_token tokens[BATCH_MAX];
	cohort_pos pos[BATCH_MAX];
	cohort_seq seq[BATCH_MAX];
	uint8_t output[BATCH_MAX];
	int32_t n;
};

static void rows_add(struct rows *x, const struct rig *r, cohort_seq seq, cohort_pos pos, uint8_t output)
{
	x->tokens[x->n] = r->text[seq][pos];
	x->pos[x->n] = pos;
	x->seq[x->n] = seq;
	x->output[x->n++] = output;
}

static struct cohort_batch rows_view(struct rows *x)
{
	const struct cohort_batch_raw raw = {.n_tokens = x->n,
			.n_seq_row_max = 1,
			.n_pos_row = 1,
			.tokens = x->tokens,
			.pos = x->pos,
			.seq = x->seq,
			.output = x->output};
	struct cohort_batch b;
	assert_int_equal(cohort_batch_view_raw(&b, &raw, NULL), COHORT_OK);
	return b;
}

static void rows_run(struct rows *x, struct cohort_context *c, bool encode)
{
	struct cohort_err err;
	const struct cohort_batch b = rows_view(x);
	if (encode ? cohort_encode(c, &b, &err) : cohort_decode(c, &b, &err))
		fail_msg("%s", err.text);
}

/* What row i gave is what it should be. */
static void check_row(const struct rig *r, const struct cohort_context *c, const struct rows *x, int32_t i, bool logits,
		bool embedding)
{
	const size_t at = (size_t)(x->seq[i] * N_TOKENS + x->pos[i]);
	const float *l = cohort_logits_get(c, i, NULL), *e = cohort_embeddings_get(c, i, NULL);

	assert_true((l != NULL) == logits && (e != NULL) == embedding);
	if (l && memcmp(l, r->logits + at * r->n_vocab, r->n_vocab * sizeof *l) != 0)
		fail_msg("sequence %d, position %d: other logits", x->seq[i], x->pos[i]);
	if (e && memcmp(e, r->embd + at * r->n_embd, r->n_embd * sizeof *e) != 0)
		fail_msg("sequence %d, position %d: another embedding", x->seq[i], x->pos[i]);
}

/* Every text alone, with all there is. */
static void compute_all(struct rig *r, bool encode)
{
	enum { BOTH = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS };
	struct cohort_context *c = context_open(r, BATCH_MAX, COHORT_SPLIT_SIMPLE, BOTH, COHORT_POOL_NONE, false);

	for (cohort_seq seq = 0; seq < N_SEQS; seq++) {
		struct rows x = {.n = 0};
		for (int32_t i = 0; i < N_TOKENS; i++)
			rows_add(&x, r, seq, i, 1);
		rows_run(&x, c, encode);
		for (int32_t i = 0; i < N_TOKENS; i++) {
			const size_t at = (size_t)(seq * N_TOKENS + i);
			memcpy(r->logits + at * r->n_vocab, cohort_logits_get(c, i, NULL), r->n_vocab * sizeof(float));
			memcpy(r->embd + at * r->n_embd, cohort_embeddings_get(c, i, NULL), r->n_embd * sizeof(float));
		}
	}
	cohort_context_free(c);
}

static void rig_open(struct rig *r, const char *name)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_err err;
	char path[200];
	struct rng g;

	*r = (struct rig){0};
	if (cohort_model_open(arch_path(path, sizeof path, name, "gguf"), NULL, &r->m, &err))
		fail_msg("%s", err.text);
	cohort_model_info_get(r->m, &info);
	r->n_vocab = (size_t)info.n_vocab;
	r->n_embd = (size_t)info.n_embd;
	if (strcmp(info.arch, "llama") == 0) {
		write_adapter(arch_path(path, sizeof path, "output", "lora"), r->n_embd, r->n_vocab);
		if (cohort_adapter_open(r->m, path, &r->a, &err))
			fail_msg("%s", err.text);
	}
	r->logits = malloc(N_SEQS * N_TOKENS * r->n_vocab * sizeof(float));
	r->embd = malloc(N_SEQS * N_TOKENS * r->n_embd * sizeof(float));
	assert_true(r->logits && r->embd);
	rng_init(&g, 1, 1);
	for (int32_t i = 0; i < N_SEQS * N_TOKENS; i++)
		r->text[i / N_TOKENS][i % N_TOKENS] = 3 + (cohort_token)(rng_u32(&g) % (uint32_t)(info.n_vocab - 3));
}

static void rig_close(struct rig *r)
{
	cohort_adapter_free(r->a);
	cohort_model_free(r->m);
	free(r->logits);
	free(r->embd);
}

/* ---- Counting ---- */

static size_t n_products; /* rows that were multiplied by the output matrix */
static const struct be_buf *counted;
static struct be_ops counting;

static void count_matmul(struct be_buf *const *out, const struct model_weight *const *w, size_t n_w,
		const struct be_buf *x, size_t n, size_t out_row)
{
	n_products += out[0] == counted ? n : 0;
	be_get(0)->matmul(out, w, n_w, x, n, out_row);
}

static void count_in(struct cohort_context *c)
{
	counting = *be_get(0);
	counting.matmul = count_matmul;
	c->forward.parts[0].ops = &counting;
	counted = c->forward.logits;
	n_products = 0;
}

/* ---- Tests ---- */

static void check_refusal(const struct cohort_context *c, int32_t i, int32_t row)
{
	struct cohort_err err;
	assert_null(cohort_logits_get(c, i, &err));
	assert_int_equal(err.status, COHORT_E_ARG);
	assert_string_equal(err.rule, "output-kind");
	assert_int_equal(err.row, row);
}

/* Checks a call in which rows asked for this and that; returns how many wanted logits. */
static size_t check_mixed(const struct rig *r, const struct cohort_context *c, const struct rows *x)
{
	size_t n_logits = 0;
	int32_t last = -1;

	for (int32_t i = 0; i < x->n; i++) {
		check_row(r, c, x, i, x->output[i] == 1, x->output[i] != 0);
		n_logits += x->output[i] == 1;
		last = x->output[i] ? i : last;
		if (x->output[i] == COHORT_ROW_EMBEDDING)
			check_refusal(c, i, i);
	}
	if (last >= 0 && x->output[last] == COHORT_ROW_EMBEDDING)
		check_refusal(c, -1, last);
	return n_logits;
}

/* All texts in chunks, each row asking for something else. */
static void decode_mixed(const struct rig *r, struct cohort_context *c, struct rng *g)
{
	cohort_pos at[N_SEQS] = {0};
	size_t n_logits = 0, n_embeddings = 0;

	count_in(c);
	for (bool left = true; left;) {
		struct rows x = {.n = 0};
		left = false;
		for (cohort_seq seq = 0; seq < N_SEQS; seq++)
			for (int32_t n = 1 + (int32_t)(rng_u32(g) % 16); n > 0 && at[seq] < N_TOKENS; n--) {
				static const uint8_t kinds[] = {0, 1, 1, COHORT_ROW_EMBEDDING, COHORT_ROW_EMBEDDING};
				rows_add(&x, r, seq, at[seq]++, kinds[rng_u32(g) % 5]);
				n_embeddings += x.output[x.n - 1] == COHORT_ROW_EMBEDDING;
				left = true;
			}
		if (!left)
			break;
		rows_run(&x, c, false);
		n_logits += check_mixed(r, c, &x);
	}
	assert_true(n_logits > 20 && n_embeddings > 20);
	assert_int_equal(n_products, n_logits);
}

static void encode_mixed(const struct rig *r, struct cohort_context *c, struct rng *g)
{
	struct rows x = {.n = 0};

	count_in(c);
	for (int32_t i = 0; i < N_TOKENS; i++)
		rows_add(&x, r, 1, i, (uint8_t)(rng_u32(g) % 3));
	rows_run(&x, c, true);
	const size_t n = check_mixed(r, c, &x);
	assert_true(n > 5);
	assert_int_equal(n_products, n);
}

static void mixed(void **state)
{
	static const int32_t n_ubatch[] = {5, BATCH_MAX};
	struct rig r;
	struct rng g;

	rng_init(&g, 9, 9);
	rig_open(&r, *state);
	for (int encode = 0; encode < 2; encode++) {
		compute_all(&r, encode);
		for (int32_t k = 0; k < 6; k++) {
			struct cohort_context *c = context_open(&r, encode ? BATCH_MAX : n_ubatch[k / 3],
					(enum cohort_split)(k % 3), COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS,
					COHORT_POOL_NONE, false);
			if (encode)
				encode_mixed(&r, c, &g);
			else
				decode_mixed(&r, c, &g);
			cohort_context_free(c);
		}
	}
	rig_close(&r);
}

/* Where there is nothing to be spared, or the context says that rows want all, they get it. */
static void as_all(void **state)
{
	static const struct {
		uint32_t outputs;
		enum cohort_pooling pooling;
		bool all;
	} cases[] = {
			{COHORT_OUTPUT_LOGITS, COHORT_POOL_NONE, false},
			{COHORT_OUTPUT_EMBEDDINGS, COHORT_POOL_NONE, false},
			{COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS, COHORT_POOL_NONE, true},
			{COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS, COHORT_POOL_MEAN, false},
	};
	struct rig r;
	(void)state;

	rig_open(&r, "llama-base");
	compute_all(&r, false);
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct cohort_context *c = context_open(
				&r, 7, COHORT_SPLIT_SIMPLE, cases[k].outputs, cases[k].pooling, cases[k].all);
		struct rows x = {.n = 0};
		for (int32_t i = 0; i < 20; i++)
			rows_add(&x, &r, 2, i, i % 2 ? COHORT_ROW_EMBEDDING : 1);
		rows_run(&x, c, false);
		for (int32_t i = 0; i < 20; i++)
			check_row(&r, c, &x, i, (cases[k].outputs & COHORT_OUTPUT_LOGITS) != 0,
					(cases[k].outputs & COHORT_OUTPUT_EMBEDDINGS) != 0);
		cohort_context_free(c);
	}
	rig_close(&r);
}

/* A batch shows what its rows want. */
static void dumped(void **state)
{
	struct rig r;
	struct rows x = {.n = 0};
	char text[300];
	(void)state;

	rig_open(&r, "llama-base");
	for (int32_t i = 0; i < 3; i++)
		rows_add(&x, &r, 0, i, (uint8_t)i);
	const struct cohort_batch b = rows_view(&x);
	assert_true(cohort_batch_dump(&b, text, sizeof text) < sizeof text);
	const char *no = strstr(text, "output   no"), *yes = strstr(text, "output  yes");
	assert_true(no && yes > no && strstr(text, "output embd") > yes);
	rig_close(&r);
}

/* A model in which a number of a tensor's row is none. */
static void open_poisoned(struct rig *r, const char *name, uint64_t row)
{
	const struct shape shape = {50, 32, 2, 4, 2, 8, 8, 48, 8, 512, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
			false, NULL, NULL, NULL};
	const float nan = NAN;
	char *path = synth_write(&shape, 3);
	struct cohort_gguf_tensor t;
	struct cohort_gguf *g;
	bool found = false;

	*r = (struct rig){0};
	assert_int_equal(cohort_gguf_open(path, &g, NULL), COHORT_OK);
	for (size_t i = 0; !found && cohort_gguf_tensor_get(g, i, &t); i++)
		found = t.n_name == strlen(name) && memcmp(t.name, name, t.n_name) == 0;
	assert_true(found);
	FILE *f = fopen(path, "r+b");
	assert_true(f && fseek(f, (long)(t.offset + row * t.ne[0] * sizeof nan), SEEK_SET) == 0 &&
			fwrite(&nan, sizeof nan, 1, f) == 1 && fclose(f) == 0);
	cohort_gguf_free(g);
	assert_int_equal(cohort_model_open(path, NULL, &r->m, NULL), COHORT_OK);
	unlink(path);
	free(path);
}

static void expect_bad(struct cohort_context *c, struct rows *x, int32_t row)
{
	const struct cohort_batch b = rows_view(x);
	struct cohort_err err;

	cohort_seq_clear(c);
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_E_NUMERIC);
	assert_string_equal(err.rule, "finite");
	assert_int_equal(err.row, row);
}

/* The first row with a bad number is named: of a bad token whatever its row asked for, of a bad output matrix the first
 * that has logits. */
static void first_row_with_a_bad_number_is_named(void **state)
{
	enum { POISON = 7, N = 9 };
	struct rig r;
	(void)state;

	for (int output = 0; output < 2; output++) {
		open_poisoned(&r, output ? "output.weight" : "token_embd.weight", POISON);
		struct cohort_context *c = context_open(&r, BATCH_MAX, COHORT_SPLIT_SIMPLE,
				COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS, COHORT_POOL_NONE, false);
		for (int32_t bad = 0; bad < N; bad++)
			for (uint8_t kind = 1; kind <= COHORT_ROW_EMBEDDING - output; kind++) {
				struct rows x = {.n = 0};
				for (int32_t i = 0; i < N; i++) {
					const uint8_t other = (uint8_t)(output && i < bad ? 2 * (i % 2) : i % 3);
					rows_add(&x, &r, i / 3, i % 3, i == bad ? kind : other);
					x.tokens[i] = i == bad ? POISON : 8;
				}
				expect_bad(c, &x, bad);
			}
		cohort_context_free(c);
		cohort_model_free(r.m);
	}
}

int main(void)
{
	static const char *const names[] = {"llama-base", "gpt-oss", "gemma2", "command-r", "mamba", "phi2"};
	enum { N = sizeof names / sizeof *names };
	static struct CMUnitTest tests[N + 3] = {
			cmocka_unit_test(as_all),
			cmocka_unit_test(dumped),
			cmocka_unit_test(first_row_with_a_bad_number_is_named),
	};

	for (size_t i = 0; i < N; i++)
		tests[3 + i] = (struct CMUnitTest){names[i], mixed, NULL, NULL, (void *)names[i]};
	return cmocka_run_group_tests_name("row_embedding", tests, arch_make_models, arch_remove_models);
}
