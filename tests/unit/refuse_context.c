/* Rows of the table of refusals: models, contexts, decoding, outputs, sequences, saved states, adapters. */
#include "refuse_case.h"

#include <unistd.h>

/* ---- Models and contexts ---- */

static void models(void)
{
	const char *source = getenv("COHORT_SOURCE");
	struct cohort_model_params p;
	struct cohort_model *m = NULL;
	char path[1024];

	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", source ? source : ".");
	NOTHING(cohort_model_params_init, (NULL));
	cohort_model_params_init(&p);
	p.vocab_only = true;
	IS_NULL(cohort_model_open, (NULL, &p, &m, err), "path is NULL");
	IS_NULL(cohort_model_open, (path, &p, NULL, err), "out is NULL");
	PASSES_AND(cohort_model_open, _, (path, NULL, &m, err), cohort_model_free(m));
	p.n_threads = -1;
	REFUSED(cohort_model_open, params, (path, &p, &m, err), COHORT_E_ARG, "n_threads", -1, -1, 0, -1);
	p.n_threads = 1025;
	REFUSED(cohort_model_open, params, (path, &p, &m, err), COHORT_E_ARG, "n_threads", -1, -1, 1024, 1025);
	p.n_threads = 1024;
	PASSES_AND(cohort_model_open, params, (path, &p, &m, err), cohort_model_free(m));
	p.n_adapters = 1;
	REFUSED(cohort_model_open, params, (path, &p, &m, err), COHORT_E_ARG, NULL, -1, -1, 0, 0); /* adapters NULL */
	NOTHING(cohort_model_free, (NULL));
	NOTHING(cohort_model_info_get, (w.model, NULL));
	NOTHING(cohort_model_info_get, (NULL, &w.info));
	assert_string_equal(w.info.arch, "");
	cohort_model_info_get(w.model, &w.info);
}

static void rooms(void)
{
	struct cohort_room_params p;
	struct cohort_room_info room;
	const int64_t most = 1 << 30;

	NOTHING(cohort_room_params_init, (NULL));
	cohort_room_params_init(&p);
	IS_NULL(cohort_room_needed, (NULL, &room, err), "params is NULL");
	IS_NULL(cohort_room_needed, (&p, NULL, err), "out is NULL");
	PASSES(cohort_room_needed, _, (&p, &room, err));
	p.struct_size = 0;
	REFUSED(cohort_room_needed, params, (&p, &room, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
#define FIELD(field, hi) \
	do { \
		cohort_room_params_init(&p); \
		p.field = -1; \
		REFUSED(cohort_room_needed, params, (&p, &room, err), COHORT_E_ARG, #field, -1, -1, 0, -1); \
		p.field = (hi) + 1; \
		REFUSED(cohort_room_needed, params, (&p, &room, err), COHORT_E_ARG, #field, -1, -1, hi, (hi) + 1); \
		p.field = hi; \
		PASSES(cohort_room_needed, params, (&p, &room, err)); \
	} while (0)
	FIELD(n_ctx, most);
	FIELD(n_blocks, 1 << 26);
	FIELD(n_seq_max, most);
	FIELD(n_seqs, most);
	FIELD(n_tokens, most);
	FIELD(n_prompt, 0);
	FIELD(n_fork, most);
	FIELD(n_more, most);
#undef FIELD
	/* All at once: nothing overflows. */
	p = (struct cohort_room_params){sizeof p, NULL, most, 0, most, most, most, 0, most, most};
	PASSES(cohort_room_needed, params, (&p, &room, err));
	assert_true(room.n_needed > most && room.n_ctx_needed > room.n_needed);
	assert_int_equal(room.n_free, room.n_blocks - room.n_needed);
}

void refuse_context(void **state)
{
	struct cohort_context_params p;
	struct cohort_context *c = NULL;
	struct cohort_context_info info;
	struct cohort_device device;

	(void)state;
	models();
	NOTHING(cohort_context_params_init, (NULL));
	IS_NULL(cohort_context_open, (NULL, &p, &c, err), "model is NULL");
	cohort_context_params_init(&p);
	p.n_threads = 1;
	IS_NULL(cohort_context_open, (w.model, &p, NULL, err), "out is NULL");
	PASSES_AND(cohort_context_open, _, (w.model, NULL, &c, err), cohort_context_free(c));
	c = NULL;
	/* Each field one below and one above its range. At its ends it passes: then it is the pooling that is refused,
	 * which is looked at last, as contexts of such sizes are not to be opened. */
#define FIELD(field, lo, hi) \
	do { \
		const int64_t ends[] = {lo, hi}; \
		for (int i = 0; i < 2; i++) { \
			const int64_t bad = i ? ends[i] + 1 : ends[i] - 1; \
			cohort_context_params_init(&p); \
			memcpy(&p.field, &(int32_t){(int32_t)bad}, sizeof(int32_t)); \
			REFUSED(cohort_context_open, params, (w.model, &p, &c, err), COHORT_E_ARG, #field, -1, -1, \
					ends[i], bad); \
			memcpy(&p.field, &(int32_t){(int32_t)ends[i]}, sizeof(int32_t)); \
			p.pooling = (enum cohort_pooling)9; \
			REFUSED(cohort_context_open, params, (w.model, &p, &c, err), COHORT_E_ARG, "pooling", -1, -1, \
					COHORT_POOL_LAST, 9); \
		} \
	} while (0)
	FIELD(n_ctx, 1, 1 << 30);
	FIELD(n_batch, 1, 1 << 20);
	FIELD(n_ubatch, 1, 1 << 20);
	FIELD(n_seq_max, 1, 1 << 16);
	FIELD(n_threads, 0, 1024);
	FIELD(n_checkpoints, 0, 1024);
	FIELD(n_blocks, 0, 1 << 26);
	FIELD(outputs, 1, 3);
	/* Enums have no number below 0 of their own. */
#undef FIELD
#define FIELD(field, above) \
	do { \
		cohort_context_params_init(&p); \
		p.field = (above); \
		REFUSED(cohort_context_open, params, (w.model, &p, &c, err), COHORT_E_ARG, #field, -1, -1, (above)-1, \
				above); \
	} while (0)
	FIELD(kv_type, 3);
	FIELD(split, 3);
	FIELD(pooling, 4);
#undef FIELD
	cohort_context_params_init(&p);
	p.pooling = COHORT_POOL_MEAN; /* of no embeddings */
	REFUSED(cohort_context_open, params, (w.model, &p, &c, err), COHORT_E_ARG, "pooling", -1, -1, COHORT_POOL_NONE,
			COHORT_POOL_MEAN);
	assert_null(c);
	NOTHING(cohort_context_free, (NULL));
	NOTHING(cohort_context_info_get, (w.ctx, NULL));
	NOTHING(cohort_context_info_get, (NULL, &info));
	assert_int_equal(info.n_ctx, 0);
	GIVES(cohort_device_count, _, () > 0, true);
	GIVES(cohort_device_get, out, (0, NULL), false);
	GIVES(cohort_device_get, i, (cohort_device_count(), &device), false);
	GIVES(cohort_device_get, i, (cohort_device_count() - 1, &device), true);
	rooms();
	NOTHING(cohort_usage_get, (w.ctx, NULL));
	NOTHING(cohort_usage_get, (NULL, &(struct cohort_usage){0}));
	NOTHING(cohort_counters_get, (w.ctx, NULL));
	NOTHING(cohort_counters_get, (NULL, &(struct cohort_counters){0}));
	refuse_end();
}

/* ---- Decoding ---- */

static void batches(void)
{
	struct cohort_batch n, more, one;

	assert_int_equal(cohort_batch_from_tokens(&n, w.tokens, REFUSE_BATCH, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_from_tokens(&more, w.tokens, REFUSE_BATCH + 1, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_from_tokens(&one, w.tokens, 1, NULL), COHORT_OK);
	IS_NULL(cohort_check, (NULL, &n, err), "context is NULL");
	IS_NULL(cohort_check, (w.ctx, NULL, err), "batch is NULL");
	PASSES(cohort_check, _, (w.ctx, &n, err));
	REFUSED(cohort_check, batch, (w.ctx, &more, err), COHORT_E_LIMIT, "n-batch", -1, -1, REFUSE_BATCH,
			REFUSE_BATCH + 1);
	IS_NULL(cohort_decode, (NULL, &n, err), "context is NULL");
	IS_NULL(cohort_decode, (w.ctx, NULL, err), "batch is NULL");
	PASSES_AND(cohort_decode, _, (w.ctx, &n, err), cohort_seq_clear(w.ctx));
	REFUSED(cohort_decode, batch, (w.ctx, &more, err), COHORT_E_LIMIT, "n-batch", -1, -1, REFUSE_BATCH,
			REFUSE_BATCH + 1);
	IS_NULL(cohort_encode, (NULL, &n, err), "context is NULL");
	IS_NULL(cohort_encode, (w.ctx, NULL, err), "batch is NULL");
	PASSES(cohort_encode, _, (w.ctx, &one, err));
	/* As many rows of a sequence as a ubatch has, and one more. */
	for (int i = 0; i < 2; i++) {
		cohort_batch_release(&one);
		assert_int_equal(cohort_batch_from_tokens(&one, w.tokens, REFUSE_UBATCH + i, NULL), COHORT_OK);
		if (i == 0)
			PASSES(cohort_encode, batch, (w.ctx, &one, err));
		else
			REFUSED(cohort_encode, batch, (w.ctx, &one, err), COHORT_E_LIMIT, "n-ubatch", REFUSE_UBATCH, 0,
					REFUSE_UBATCH, REFUSE_UBATCH + 1);
	}
	cohort_batch_release(&n);
	cohort_batch_release(&more);
	cohort_batch_release(&one);
}

static void of_one_sequence(void)
{
	const int32_t n_vocab = w.info.n_vocab;

	IS_NULL(cohort_decode_one, (NULL, 1, 0, 0, true, err), "context is NULL");
	REFUSED(cohort_decode_one, token, (w.ctx, -1, 0, 0, true, err), COHORT_E_BATCH, "token", 0, -1, n_vocab, -1);
	REFUSED(cohort_decode_one, token, (w.ctx, n_vocab, 0, 0, true, err), COHORT_E_BATCH, "token", 0, -1, n_vocab,
			n_vocab);
	REFUSED(cohort_decode_one, pos, (w.ctx, 1, -1, 0, true, err), COHORT_E_BATCH, "pos-negative", 0, 0, 0, -1);
	REFUSED(cohort_decode_one, pos, (w.ctx, 1, 1, 0, true, err), COHORT_E_BATCH, "pos-start", 0, 0, 0, 1);
	REFUSED(cohort_decode_one, seq, (w.ctx, 1, 0, -1, true, err), COHORT_E_BATCH, "seq-id", 0, -1, REFUSE_SEQS, -1);
	REFUSED(cohort_decode_one, seq, (w.ctx, 1, 0, REFUSE_SEQS, true, err), COHORT_E_BATCH, "seq-id", 0, REFUSE_SEQS,
			REFUSE_SEQS, REFUSE_SEQS);
	PASSES_AND(cohort_decode_one, token, (w.ctx, n_vocab - 1, 0, REFUSE_SEQS - 1, true, err),
			cohort_seq_clear(w.ctx));

	IS_NULL(cohort_decode_many, (NULL, w.tokens, 2, 0, 0, err), "context is NULL");
	IS_NULL(cohort_decode_many, (w.ctx, NULL, 2, 0, 0, err), "tokens is NULL");
	RANGE(cohort_decode_many, n_tokens, (w.ctx, w.tokens, -1, 0, 0, err), 0, -1);
	PASSES(cohort_decode_many, n_tokens, (w.ctx, NULL, 0, 0, 0, err));
	REFUSED(cohort_decode_many, n_past, (w.ctx, w.tokens, 2, -1, 0, err), COHORT_E_BATCH, "pos-negative", 0, 0, 0,
			-1);
	REFUSED(cohort_decode_many, n_past, (w.ctx, w.tokens, 2, 1, 0, err), COHORT_E_BATCH, "pos-start", 0, 0, 0, 1);
	/* The model's positions: the last one is only not where the sequence goes on. */
	REFUSED(cohort_decode_many, n_past, (w.ctx, w.tokens, 2, w.info.n_ctx_train - 2, 0, err), COHORT_E_BATCH,
			"pos-start", 0, 0, 0, w.info.n_ctx_train - 2);
	REFUSED(cohort_decode_many, n_past, (w.ctx, w.tokens, 2, w.info.n_ctx_train - 1, 0, err), COHORT_E_BATCH,
			"pos-limit", 1, 0, w.info.n_ctx_train, w.info.n_ctx_train);
	REFUSED(cohort_decode_many, seq, (w.ctx, w.tokens, 2, 0, -1, err), COHORT_E_BATCH, "seq-id", 0, -1, REFUSE_SEQS,
			-1);
	REFUSED(cohort_decode_many, seq, (w.ctx, w.tokens, 2, 0, REFUSE_SEQS, err), COHORT_E_BATCH, "seq-id", 0,
			REFUSE_SEQS, REFUSE_SEQS, REFUSE_SEQS);
	PASSES_AND(cohort_decode_many, seq, (w.ctx, w.tokens, 2, 0, REFUSE_SEQS - 1, err), cohort_seq_clear(w.ctx));
	/* Chunks of n_batch, but where every row has output. */
	PASSES_AND(cohort_decode_many, _, (w.ctx, w.tokens, REFUSE_BATCH + 1, 0, 0, err), cohort_seq_clear(w.ctx));
	PASSES_AND(cohort_decode_many, _, (w.pooled, w.tokens, REFUSE_BATCH, 0, 0, err), cohort_seq_clear(w.pooled));
	REFUSED(cohort_decode_many, n_tokens, (w.pooled, w.tokens, REFUSE_BATCH + 1, 0, 0, err), COHORT_E_LIMIT,
			"n-batch", -1, -1, REFUSE_BATCH, REFUSE_BATCH + 1);
}

static void take(void *user, int32_t item, const float *logits)
{
	(void)user;
	(void)item;
	(void)logits;
}

static void of_many_sequences(void)
{
	static const cohort_token t[] = {1, 2};
	const struct cohort_each_item each[] = {{1, 0, 0, true}, {1, 0, 1, true}, {1, 0, 0, true}};
	struct cohort_scatter_item items[] = {{t, 2, 0, 0, true}, {t, -1, 0, 1, true}};
	struct cohort_scratch s;
	int user = 0;

	NOTHING(cohort_scratch_init, (NULL));
	NOTHING(cohort_scratch_release, (NULL));
	cohort_scratch_init(&s);
	IS_NULL(cohort_decode_each, (NULL, each, 2, &s, err), "context is NULL");
	IS_NULL(cohort_decode_each, (w.ctx, NULL, 2, &s, err), "items is NULL");
	RANGE(cohort_decode_each, n_items, (w.ctx, each, -1, &s, err), 0, -1);
	PASSES_AND(cohort_decode_each, _, (w.ctx, each, 2, NULL, err), cohort_seq_clear(w.ctx));
	REFUSED(cohort_decode_each, items, (w.ctx, each, 3, &s, err), COHORT_E_BATCH, "seq-duplicate", 2, 0, 1, 2);
	IS_NULL(cohort_decode_scatter, (NULL, items, 1, &s, err), "context is NULL");
	IS_NULL(cohort_decode_scatter, (w.ctx, NULL, 1, &s, err), "items is NULL");
	RANGE(cohort_decode_scatter, n_items, (w.ctx, items, -1, &s, err), 0, -1);
	PASSES_AND(cohort_decode_scatter, _, (w.ctx, items, 1, NULL, err), cohort_seq_clear(w.ctx));
	REFUSED(cohort_decode_scatter, items, (w.ctx, items, 2, &s, err), COHORT_E_ARG, "item", 1, 1, 0, -1);
	items[1] = (struct cohort_scatter_item){NULL, 2, 0, 1, true};
	REFUSED(cohort_decode_scatter, items, (w.ctx, items, 2, &s, err), COHORT_E_ARG, "item", 1, 1, 0, 2);
	IS_NULL(cohort_decode_scatter_to, (NULL, items, 1, &s, take, &user, err), "context is NULL");
	IS_NULL(cohort_decode_scatter_to, (w.ctx, NULL, 1, &s, take, &user, err), "items is NULL");
	RANGE(cohort_decode_scatter_to, n_items, (w.ctx, items, -1, &s, take, &user, err), 0, -1);
	IS_NULL(cohort_decode_scatter_to, (w.ctx, items, 1, &s, NULL, &user, err), "take is NULL");
	PASSES_AND(cohort_decode_scatter_to, _, (w.ctx, items, 1, NULL, take, &user, err), cohort_seq_clear(w.ctx));
	PASSES_AND(cohort_decode_scatter_to, _, (w.ctx, items, 1, &s, take, NULL, err), cohort_seq_clear(w.ctx));
	cohort_scratch_release(&s);
}

/* Items of more sequences than the others have: as many as a decode has rows, and one more. */
static void of_most_sequences(void)
{
	static const cohort_token t[] = {1};
	struct cohort_each_item each[REFUSE_BATCH + 1];
	struct cohort_scatter_item items[REFUSE_BATCH + 1];
	struct cohort_context_params p;
	struct cohort_context *c;

	cohort_context_params_init(&p);
	p.n_ctx = 512;
	p.n_batch = REFUSE_BATCH;
	p.n_threads = 1;
	assert_int_equal(cohort_context_open(w.model, &p, &c, NULL), COHORT_OK);
	for (int32_t i = 0; i <= REFUSE_BATCH; i++) {
		each[i] = (struct cohort_each_item){1, 0, i, true};
		items[i] = (struct cohort_scatter_item){t, 1, 0, i, true};
	}
	PASSES_AND(cohort_decode_each, n_items, (c, each, REFUSE_BATCH, NULL, err), cohort_seq_clear(c));
	REFUSED(cohort_decode_each, n_items, (c, each, REFUSE_BATCH + 1, NULL, err), COHORT_E_LIMIT, "n-batch", -1, -1,
			REFUSE_BATCH, REFUSE_BATCH + 1);
	PASSES_AND(cohort_decode_scatter, n_items, (c, items, REFUSE_BATCH, NULL, err), cohort_seq_clear(c));
	REFUSED(cohort_decode_scatter, n_items, (c, items, REFUSE_BATCH + 1, NULL, err), COHORT_E_LIMIT, "n-outputs",
			REFUSE_BATCH, REFUSE_BATCH, REFUSE_BATCH, REFUSE_BATCH + 1);
	PASSES_AND(cohort_decode_scatter_to, n_items, (c, items, REFUSE_BATCH + 1, NULL, take, NULL, err),
			cohort_seq_clear(c));
	cohort_context_free(c);
}

static void warming_up(void)
{
	struct cohort_context_params p;
	struct cohort_context *c;

	IS_NULL(cohort_warm_up, (NULL, 1, 1, err), "context is NULL");
	RANGE(cohort_warm_up, n_seq_tokens, (w.ctx, 0, 1, err), 1, 0);
	RANGE(cohort_warm_up, n_seqs, (w.ctx, 1, 0, err), 1, 0);
	PASSES(cohort_warm_up, n_seqs, (w.ctx, 1, REFUSE_SEQS, err));
	REFUSED(cohort_warm_up, n_seqs, (w.ctx, 1, REFUSE_SEQS + 1, err), COHORT_E_LIMIT, "n-seqs", -1, -1, REFUSE_SEQS,
			REFUSE_SEQS + 1);
	PASSES(cohort_warm_up, n_seq_tokens, (w.ctx, REFUSE_UBATCH, 1, err));
	REFUSED(cohort_warm_up, n_seq_tokens, (w.ctx, REFUSE_UBATCH + 1, 1, err), COHORT_E_LIMIT, "n-ubatch", -1, -1,
			REFUSE_UBATCH, REFUSE_UBATCH + 1);
	REFUSED(cohort_warm_up, n_seq_tokens, (w.ctx, w.info.n_ctx_train, 1, err), COHORT_E_LIMIT, "n-ubatch", -1, -1,
			REFUSE_UBATCH, w.info.n_ctx_train);
	REFUSED(cohort_warm_up, n_seq_tokens, (w.ctx, w.info.n_ctx_train + 1, 1, err), COHORT_E_LIMIT, "pos-limit", -1,
			-1, w.info.n_ctx_train, w.info.n_ctx_train + 1);
	/* 64 sequences, where the context has more. */
	cohort_context_params_init(&p);
	p.n_seq_max = 100;
	p.n_threads = 1;
	assert_int_equal(cohort_context_open(w.model, &p, &c, NULL), COHORT_OK);
	PASSES(cohort_warm_up, n_seqs, (c, 1, 64, err));
	REFUSED(cohort_warm_up, n_seqs, (c, 1, 65, err), COHORT_E_LIMIT, "n-seqs", -1, -1, 64, 65);
	cohort_context_free(c);
	GIVES(cohort_repack, seconds, (NULL, 0), 1);
	GIVES(cohort_repack, seconds, (w.ctx, (double)NAN) >= 0, true);
	GIVES(cohort_repack, seconds, (w.ctx, -1) >= 0, true);
}

void refuse_decode(void **state)
{
	(void)state;
	batches();
	of_one_sequence();
	of_many_sequences();
	of_most_sequences();
	warming_up();
	refuse_end();
}

/* ---- Outputs ---- */

void refuse_outputs(void **state)
{
	(void)state;
	assert_int_equal(cohort_decode_many(w.ctx, w.tokens, 2, 0, 0, NULL), COHORT_OK);
	assert_int_equal(cohort_decode_many(w.pooled, w.tokens, 2, 0, 1, NULL), COHORT_OK);
	GIVES(cohort_n_outputs, _, (NULL), 0);
	GIVES(cohort_n_outputs, _, (w.ctx), 1);
	IS_NULL(cohort_logits_get, (NULL, 1, err), "context is NULL");
	PASSES(cohort_logits_get, i, (w.ctx, 1, err));
	PASSES(cohort_logits_get, i, (w.ctx, -1, err));
	REFUSED(cohort_logits_get, i, (w.ctx, 0, err), COHORT_E_ARG, "output-index", 0, -1, 1, 0); /* asked for none */
	REFUSED(cohort_logits_get, i, (w.ctx, 2, err), COHORT_E_ARG, "output-index", 2, -1, 1, 2);
	REFUSED(cohort_logits_get, i, (w.ctx, -2, err), COHORT_E_ARG, "output-index", -2, -1, 1, -2);
	IS_NULL(cohort_embeddings_get, (NULL, 1, err), "context is NULL");
	PASSES(cohort_embeddings_get, i, (w.pooled, 1, err));
	REFUSED(cohort_embeddings_get, i, (w.pooled, 2, err), COHORT_E_ARG, "output-index", 2, -1, 2, 2);
	REFUSED(cohort_embeddings_get, i, (w.pooled, -3, err), COHORT_E_ARG, "output-index", -3, -1, 2, -3);
	REFUSED(cohort_embeddings_get, ctx, (w.ctx, 1, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	IS_NULL(cohort_embeddings_seq_get, (NULL, 1, err), "context is NULL");
	PASSES(cohort_embeddings_seq_get, seq, (w.pooled, 1, err));
	REFUSED(cohort_embeddings_seq_get, seq, (w.pooled, 0, err), COHORT_E_ARG, "output-index", -1, 0, 1, 0);
	REFUSED(cohort_embeddings_seq_get, seq, (w.pooled, -1, err), COHORT_E_ARG, "seq-id", -1, -1, REFUSE_SEQS, -1);
	REFUSED(cohort_embeddings_seq_get, seq, (w.pooled, REFUSE_SEQS, err), COHORT_E_ARG, "seq-id", -1, REFUSE_SEQS,
			REFUSE_SEQS, REFUSE_SEQS);
	REFUSED(cohort_embeddings_seq_get, ctx, (w.ctx, 0, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	cohort_seq_clear(w.pooled);
	cohort_seq_clear(w.ctx);
	refuse_end();
}

/* ---- Sequences ---- */

#define NO_SEQ(fn, param, seq, arguments) \
	REFUSED(fn, param, arguments, COHORT_E_ARG, "seq-id", -1, seq, REFUSE_SEQS, seq)

void refuse_seqs(void **state)
{
	const int32_t limit = w.info.n_ctx_train;

	(void)state;
	assert_int_equal(cohort_decode_many(w.ctx, w.tokens, 4, 0, 1, NULL), COHORT_OK);
	IS_NULL(cohort_seq_rm, (NULL, 1, 4, -1, err), "context is NULL");
	NO_SEQ(cohort_seq_rm, seq, -1, (w.ctx, -1, 0, -1, err));
	NO_SEQ(cohort_seq_rm, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, 0, -1, err));
	REFUSED(cohort_seq_rm, p0, (w.ctx, 1, -1, 2, err), COHORT_E_ARG, "range", -1, 1, 0, -1);
	REFUSED(cohort_seq_rm, p1, (w.ctx, 1, 0, -2, err), COHORT_E_ARG, "range", -1, 1, -1, -2);
	PASSES(cohort_seq_rm, p1, (w.ctx, 1, 4, -1, err));
	IS_NULL(cohort_seq_cp, (NULL, 1, 2, 0, -1, err), "context is NULL");
	NO_SEQ(cohort_seq_cp, src, -1, (w.ctx, -1, 2, 0, -1, err));
	NO_SEQ(cohort_seq_cp, src, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, 2, 0, -1, err));
	NO_SEQ(cohort_seq_cp, dst, -1, (w.ctx, 1, -1, 0, -1, err));
	NO_SEQ(cohort_seq_cp, dst, REFUSE_SEQS, (w.ctx, 1, REFUSE_SEQS, 0, -1, err));
	REFUSED(cohort_seq_cp, p0, (w.ctx, 1, 2, -1, 2, err), COHORT_E_ARG, "range", -1, 1, 0, -1);
	REFUSED(cohort_seq_cp, p1, (w.ctx, 1, 2, 0, -2, err), COHORT_E_ARG, "range", -1, 1, -1, -2);
	PASSES_AND(cohort_seq_cp, _, (w.ctx, 1, 2, 0, -1, err), cohort_seq_rm(w.ctx, 2, 0, -1, NULL));
	IS_NULL(cohort_seq_keep, (NULL, 1, err), "context is NULL");
	NO_SEQ(cohort_seq_keep, seq, -1, (w.ctx, -1, err));
	NO_SEQ(cohort_seq_keep, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, err));
	PASSES(cohort_seq_keep, seq, (w.ctx, 1, err));
	IS_NULL(cohort_seq_add, (NULL, 1, 0, -1, 1, err), "context is NULL");
	NO_SEQ(cohort_seq_add, seq, -1, (w.ctx, -1, 0, -1, 1, err));
	NO_SEQ(cohort_seq_add, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, 0, -1, 1, err));
	REFUSED(cohort_seq_add, p0, (w.ctx, 1, -1, 2, 1, err), COHORT_E_ARG, "range", -1, 1, 0, -1);
	REFUSED(cohort_seq_add, p1, (w.ctx, 1, 0, -2, 1, err), COHORT_E_ARG, "range", -1, 1, -1, -2);
	/* Positions 0 to 3: to the first that there is, to the last, and past both. */
	REFUSED(cohort_seq_add, delta, (w.ctx, 1, 0, -1, -1, err), COHORT_E_ARG, "pos-negative", -1, 1, 0, -1);
	REFUSED(cohort_seq_add, delta, (w.ctx, 1, 0, -1, limit - 3, err), COHORT_E_ARG, "pos-limit", -1, 1, limit,
			limit);
	PASSES_AND(cohort_seq_add, delta, (w.ctx, 1, 0, -1, limit - 4, err),
			cohort_seq_add(w.ctx, 1, 0, -1, 4 - limit, NULL));
	assert_int_equal(cohort_seq_pos_min(w.ctx, 1), 0);
	IS_NULL(cohort_seq_checkpoint, (NULL, 1, err), "context is NULL");
	NO_SEQ(cohort_seq_checkpoint, seq, -1, (w.ctx, -1, err));
	NO_SEQ(cohort_seq_checkpoint, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, err));
	PASSES(cohort_seq_checkpoint, seq, (w.ctx, REFUSE_SEQS - 1, err));
	GIVES(cohort_seq_pos_min, _, (NULL, 1), -1);
	GIVES(cohort_seq_pos_min, seq, (w.ctx, -1), -1);
	GIVES(cohort_seq_pos_min, seq, (w.ctx, REFUSE_SEQS), -1);
	GIVES(cohort_seq_pos_max, _, (NULL, 1), -1);
	GIVES(cohort_seq_pos_max, seq, (w.ctx, -1), -1);
	GIVES(cohort_seq_pos_max, seq, (w.ctx, REFUSE_SEQS), -1);
	GIVES(cohort_seq_is_whole, _, (NULL, 1), false);
	GIVES(cohort_seq_is_whole, seq, (w.ctx, -1), false);
	GIVES(cohort_seq_is_whole, seq, (w.ctx, REFUSE_SEQS), false);
	GIVES(cohort_seq_is_whole, seq, (w.ctx, REFUSE_SEQS - 1), true);
	NOTHING(cohort_seq_clear, (NULL));
	cohort_seq_clear(w.ctx);
	refuse_end();
}

/* ---- Saved states ---- */

void refuse_states(void **state)
{
	const char *path = refuse_path("state");

	(void)state;
	assert_int_equal(cohort_decode_many(w.ctx, w.tokens, 4, 0, 1, NULL), COHORT_OK);
	GIVES(cohort_state_size, _, (NULL, 1), 0);
	GIVES(cohort_state_size, seq, (w.ctx, -2), 0);
	GIVES(cohort_state_size, seq, (w.ctx, REFUSE_SEQS), 0);
	size_t n = cohort_state_size(w.ctx, 1), n_out;
	char *bytes = malloc(n);
	assert_non_null(bytes);
	IS_NULL(cohort_state_save, (NULL, 1, bytes, n, &n_out, err), "context is NULL");
	IS_NULL(cohort_state_save, (w.ctx, 1, NULL, n, &n_out, err), "out is NULL");
	IS_NULL(cohort_state_save, (w.ctx, 1, bytes, n, NULL, err), "n_out is NULL");
	NO_SEQ(cohort_state_save, seq, -2, (w.ctx, -2, bytes, n, &n_out, err));
	NO_SEQ(cohort_state_save, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, bytes, n, &n_out, err));
	REFUSED(cohort_state_save, n_max, (w.ctx, 1, bytes, n - 1, &n_out, err), COHORT_E_LIMIT, NULL, -1, -1, 0, 0);
	PASSES(cohort_state_save, n_max, (w.ctx, 1, bytes, n, &n_out, err));
	assert_int_equal(n_out, n);
	IS_NULL(cohort_state_restore, (NULL, 2, bytes, n, err), "context is NULL");
	IS_NULL(cohort_state_restore, (w.ctx, 2, NULL, n, err), "bytes is NULL");
	NO_SEQ(cohort_state_restore, seq, -2, (w.ctx, -2, bytes, n, err));
	NO_SEQ(cohort_state_restore, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, bytes, n, err));
	PASSES(cohort_state_restore, seq, (w.ctx, 2, bytes, n, err));
	IS_NULL(cohort_state_save_file, (NULL, 1, path, err), "context is NULL");
	IS_NULL(cohort_state_save_file, (w.ctx, 1, NULL, err), "path is NULL");
	NO_SEQ(cohort_state_save_file, seq, -2, (w.ctx, -2, path, err));
	NO_SEQ(cohort_state_save_file, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, path, err));
	PASSES(cohort_state_save_file, seq, (w.ctx, 1, path, err));
	IS_NULL(cohort_state_restore_file, (NULL, 2, path, err), "context is NULL");
	IS_NULL(cohort_state_restore_file, (w.ctx, 2, NULL, err), "path is NULL");
	NO_SEQ(cohort_state_restore_file, seq, -2, (w.ctx, -2, path, err));
	NO_SEQ(cohort_state_restore_file, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, path, err));
	PASSES(cohort_state_restore_file, seq, (w.ctx, 2, path, err));
	free(bytes);
	unlink(path);
	cohort_seq_clear(w.ctx);
	refuse_end();
}

/* ---- Adapters ---- */

/* An adapter of one matrix, all 0. */
static void write_adapter(const char *path)
{
	struct cohort_gguf_writer *f;
	const uint64_t a[] = {(uint64_t)w.info.n_embd, 1}, b[] = {1, (uint64_t)(w.info.n_head * w.info.head_k)};
	const size_t n = sizeof(float) * (size_t)(a[0] > b[1] ? a[0] : b[1]);
	float *zeros = calloc(1, n);

	assert_non_null(zeros);
	assert_int_equal(cohort_gguf_writer_open(path, &f, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_str(f, "general.type", "adapter", NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_str(f, "general.architecture", w.info.arch, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_str(f, "adapter.type", "lora", NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_f32(f, "adapter.lora.alpha", 1, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_tensor(f, "blk.0.attn_q.weight.lora_a", 0, 2, a, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_tensor(f, "blk.0.attn_q.weight.lora_b", 0, 2, b, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_begin(f, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_data(f, 0, zeros, (size_t)a[0] * sizeof(float), NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_data(f, 1, zeros, (size_t)b[1] * sizeof(float), NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_finish(f, NULL), COHORT_OK);
	cohort_gguf_writer_free(f);
	free(zeros);
}

void refuse_adapters(void **state)
{
	const float above = nextafterf(1e6f, INFINITY);
	const char *path = refuse_path("adapter");
	struct cohort_adapter *a = NULL;

	(void)state;
	write_adapter(path);
	IS_NULL(cohort_adapter_open, (NULL, path, &a, err), "model is NULL");
	IS_NULL(cohort_adapter_open, (w.model, NULL, &a, err), "path is NULL");
	IS_NULL(cohort_adapter_open, (w.model, path, NULL, err), "out is NULL");
	PASSES_AND(cohort_adapter_open, _, (w.model, path, &a, err), cohort_adapter_free(a));
	NOTHING(cohort_adapter_free, (NULL));
	assert_int_equal(cohort_adapter_open(w.model, path, &a, NULL), COHORT_OK);
	unlink(path);
	IS_NULL(cohort_seq_adapter_set, (NULL, 1, a, 1, err), "context is NULL");
	PASSES(cohort_seq_adapter_set, _, (w.ctx, 1, NULL, 1, err));
	NO_SEQ(cohort_seq_adapter_set, seq, -1, (w.ctx, -1, a, 1, err));
	NO_SEQ(cohort_seq_adapter_set, seq, REFUSE_SEQS, (w.ctx, REFUSE_SEQS, a, 1, err));
	PASSES(cohort_seq_adapter_set, scale, (w.ctx, 1, a, 1e6f, err));
	PASSES(cohort_seq_adapter_set, scale, (w.ctx, 1, a, -1e6f, err));
	RANGE(cohort_seq_adapter_set, scale, (w.ctx, 1, a, above, err), 0, 0);
	RANGE(cohort_seq_adapter_set, scale, (w.ctx, 1, a, -above, err), 0, 0);
	RANGE(cohort_seq_adapter_set, scale, (w.ctx, 1, a, NAN, err), 0, 0);
	assert_int_equal(cohort_seq_adapter_set(w.ctx, 1, NULL, 0, NULL), COHORT_OK);
	cohort_adapter_free(a);
	refuse_end();
}
