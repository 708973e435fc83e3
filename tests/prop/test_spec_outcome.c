/* SPEC section 3 from the codes on, sentence by sentence; its beginning is test_spec_decode.c.
 *
 * 3. Decode
 *   code 0, 1, 2, negative                                      spec3_codes
 *   after any non-zero code every sequence is as before         spec3_failure_changes_nothing, spec3_late_chunks_*,
 *                                                               tests/prop/test_transaction.c (not finite, too)
 *   code 1: how many rows fit, which sequence lacks room        spec3_no_room_*
 *   (code 2: between ubatches and within)                       spec3_abort_is_asked_at_every_layer
 *   logits by batch index, -1, -2; anything else NULL, status   spec3_logits_index
 *   outputs in batch order whatever the split                   spec3_outputs_in_batch_order
 *   embeddings, and pooled: none, mean, cls, last               spec3_embeddings, spec3_pooling, _needs_one_chunk
 *   counters tell prefill and decode apart, with time           spec3_counters
 *   (warm-up, in cohort.h)                                      spec3_warm_up_changes_nothing
 *
 * Shown red on planted faults, one at a time:
 *   context_decode commits where it should roll back            spec3_abort_is_asked_at_every_layer,
 *                                                               spec3_failure_changes_nothing
 *   run_feed does                                               spec3_failure_changes_nothing, _late_chunks_aborted
 *   run_feed without its dry pass                               spec3_late_chunks_without_room
 *   rows of earlier chunks are not counted                      spec3_no_room_counts_rows_of_many
 *   outputs ranked in the order of the ubatches                 spec3_outputs_in_batch_order, spec3_pooling
 *   a failed decode leaves the old outputs                      spec3_logits_index, _failure_changes_nothing, _pooling
 *   pooling begins a sequence at row 0 only                     spec3_pooling
 *   a warm-up writes where outputs are                          spec3_warm_up_changes_nothing */
#include "spec_case.h"

/* ---- Codes ---- */

static void spec3_codes(void **state)
{
	static const char *const names[] = {"ok", "no room", "aborted"};
	(void)state;
	assert_true(COHORT_OK == 0 && COHORT_NO_ROOM == 1 && COHORT_ABORTED == 2);
	for (int i = 0; i < 3; i++)
		assert_string_equal(cohort_status_name((enum cohort_status)i), names[i]);
	for (int i = COHORT_E_BUG; i < 0; i++) /* every one has a name of its own */
		for (int j = COHORT_E_BUG; j < i; j++)
			assert_string_not_equal(cohort_status_name((enum cohort_status)i),
					cohort_status_name((enum cohort_status)j));
}

/* A pool of 8 blocks, of which prepare() takes 4; rows of old and new sequences, in a mixture that wants 5 more. */
static struct cohort_context_params tight(void)
{
	struct cohort_context_params p = small();
	p.n_ctx = 8 * BLOCK;
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	p.n_batch = 200;
	return p;
}

static struct cohort_batch greedy(int32_t n_rows)
{
	struct cohort_batch b = new_batch(200, 1);
	cohort_pos next[16] = {[0] = 40, [2] = 43, [3] = 5};

	for (int32_t i = 0; i < n_rows; i++) {
		const cohort_seq seq = (const cohort_seq[]){2, 9, 0, 2, 9, 11}[i % 6];
		add_row(&b, texts[3][i], next[seq]++, seq, i % 10 == 0);
	}
	return b;
}

static void spec3_no_room_counts_rows(void **state)
{
	struct cohort_context *c = context_of(golden, tight());
	struct cohort_batch b = greedy(200);
	struct cohort_err err;
	(void)state;

	prepare(c);
	const uint64_t before = books(c);
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_NO_ROOM);
	assert_string_equal(err.rule, "kv-room");
	const int32_t fit = (int32_t)err.expected;
	struct cohort_batch_raw raw;
	cohort_batch_raw_get(&b, &raw);
	assert_true(fit > 20 && fit < 199 && err.row == fit && err.seq == raw.seq[fit]);
	assert_true(mentions(err.text, fit) && mentions(err.text, err.seq));
	assert_int_equal(books(c), before);
	cohort_batch_release(&b);

	b = greedy(fit + 1);
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_NO_ROOM);
	assert_int_equal(err.expected, fit);
	cohort_batch_release(&b);
	b = greedy(fit);
	OK(cohort_decode(c, &b, &err));
	cohort_batch_release(&b);
	cohort_context_free(c);
}

/* The same for a call of several chunks, whose rows are counted over all of them. */
static void spec3_no_room_counts_rows_of_many(void **state)
{
	struct cohort_context_params p = tight();
	struct cohort_err err;
	(void)state;

	p.n_batch = 50;
	struct cohort_context *c = context_of(golden, p);
	say(c, 4, texts[4], 0, 70);
	const uint64_t before = books(c);
	assert_int_equal(cohort_decode_many(c, texts[0], 200, 0, 9, &err), COHORT_NO_ROOM);
	check_err(&err, COHORT_NO_ROOM, "kv-room", 160, 9, 160, 0); /* 8 - 3 blocks */
	assert_int_equal(books(c), before);
	assert_int_equal(cohort_decode_many(c, texts[0], 161, 0, 9, &err), COHORT_NO_ROOM);
	OK(cohort_decode_many(c, texts[0], 160, 0, 9, &err));
	cohort_context_free(c);
}

static void spec3_abort_is_asked_at_every_layer(void **state)
{
	struct countdown d = {-1, 0};
	struct cohort_context_params p = small();
	struct cohort_batch b;
	(void)state;

	p.abort = count_down;
	p.abort_user = &d;
	struct cohort_context *c = context_of(golden, p);
	OK(cohort_batch_view(&b, texts[0], 60, NULL));
	OK(cohort_decode(c, &b, NULL));
	assert_int_equal(d.n_asked, 4 * 2); /* 60 rows in ubatches of 16, two layers */
	for (int at = 0; at < 8; at++) {
		struct cohort_err err;
		cohort_seq_clear(c);
		d = (struct countdown){at, 0};
		assert_int_equal(cohort_decode(c, &b, &err), COHORT_ABORTED);
		assert_int_equal(d.n_asked, at + 1); /* and nothing was computed after it */
		assert_int_equal(err.status, COHORT_ABORTED);
		assert_true(usage(c).n_used == 0 && cohort_seq_pos_max(c, 0) == -1);
		OK(cohort_batch_view(&b, texts[0], 60, NULL));
	}
	d = (struct countdown){0, 0};
	OK(cohort_batch_view(&b, texts[0], 16, NULL));
	assert_int_equal(cohort_encode(c, &b, NULL), COHORT_ABORTED);
	cohort_context_free(c);
}

/* Calls that fail, each with its status. 0 and 1 are coupled, grow a common tail and part; new sequences appear. */
enum { N_FAILURES = 9 };

static enum cohort_status fail_somehow(struct cohort_context *c, int how, struct countdown *d)
{
	struct cohort_batch b = new_batch(64, 2);
	struct cohort_scatter_item spans[] = {{texts[5], 60, 40, 0, true}, {texts[6], 60, 43, 2, true},
			{texts[7], 20, 0, 12, true}};
	enum cohort_status st;

	for (int32_t i = 40; i < 44; i++)
		OK(cohort_batch_add(&b, texts[5][i], i, (cohort_seq[]){1, 0}, 2, true, NULL));
	add_row(&b, 5, 44, 0, true);
	add_row(&b, 6, 44, 1, true);
	for (int32_t i = 0; i < 25; i++)
		add_row(&b, texts[6][i], i, 8, true);
	switch (how) {
	case 0: d->n_left = 3; break; /* within the second ubatch */
	case 1: d->n_left = 2; break; /* between two */
	case 2: add_row(&b, VOCAB, 43, 2, true); break;
	case 3: add_row(&b, 5, 44, 2, true); break;
	case 4: mem_fail_after(0); break;
	case 5:
		d->n_left = 11; /* a later chunk */
		st = cohort_decode_many(c, texts[5], 180, 40, 1, NULL);
		break;
	case 6:
		d->n_left = 13;
		st = cohort_decode_scatter(c, spans, 3, NULL, NULL);
		break;
	case 7:
		spans[2].pos = 1; /* seen in the last chunk only */
		st = cohort_decode_scatter(c, spans, 3, NULL, NULL);
		break;
	default:
		d->n_left = 1;
		st = cohort_encode(c, &b, NULL); /* refused before it is asked */
		break;
	}
	if (how < 5)
		st = cohort_decode(c, &b, NULL);
	mem_fail_after(-1);
	d->n_left = -1;
	cohort_batch_release(&b);
	return st;
}

static void spec3_failure_changes_nothing(void **state)
{
	static const enum cohort_status want_st[N_FAILURES] = {COHORT_ABORTED, COHORT_ABORTED, COHORT_E_BATCH,
			COHORT_E_BATCH, COHORT_E_MEMORY, COHORT_ABORTED, COHORT_ABORTED, COHORT_E_BATCH,
			COHORT_E_BATCH};
	const enum cohort_split splits[] = {COHORT_SPLIT_SIMPLE, COHORT_SPLIT_EQUAL, COHORT_SPLIT_SEQ};
	float *want = probe_untouched();
	(void)state;

	for (int how = 0; how < N_FAILURES; how++)
		for (size_t s = 0; s < 3; s++) {
			struct countdown d = {-1, 0};
			struct cohort_context_params p = small();
			p.abort = count_down;
			p.abort_user = &d;
			p.split = splits[s];
			struct cohort_context *c = context_of(golden, p);
			struct cohort_counters before_n, after_n;
			prepare(c);
			const uint64_t before = books(c);
			cohort_counters_get(c, &before_n);
			assert_int_equal(fail_somehow(c, how, &d), want_st[how]);
			cohort_counters_get(c, &after_n);
			assert_memory_equal(&before_n, &after_n, sizeof before_n);
			assert_int_equal(cohort_n_outputs(c), 0);
			as_before(c, before, want);
			cohort_context_free(c);
		}
	free(want);
}

/* Many and scatter of several chunks, ended at every layer of every ubatch. */
static void spec3_late_chunks_aborted(void **state)
{
	struct countdown d = {-1, 0};
	struct cohort_context_params p = small();
	float *want = probe_untouched();
	const struct cohort_scatter_item spans[] = {{texts[5], 90, 40, 1, true}, {texts[6], 30, 43, 2, true},
			{texts[7], 50, 0, 12, true}};
	(void)state;

	p.abort = count_down;
	p.abort_user = &d;
	struct cohort_context *c = context_of(golden, p);
	for (int scatter = 0; scatter < 2; scatter++) {
		int at = 0;
		for (;; at++) {
			prepare(c);
			const uint64_t before = books(c);
			d.n_left = at;
			const enum cohort_status st = scatter ? cohort_decode_scatter(c, spans, 3, NULL, NULL)
							      : cohort_decode_many(c, texts[5], 150, 40, 0, NULL);
			d.n_left = -1;
			if (st == COHORT_OK)
				break;
			assert_int_equal(st, COHORT_ABORTED);
			as_before(c, before, want);
		}
		assert_int_equal(at, scatter ? 2 * (4 + 2 + 2 + 4) : 2 * (4 + 4 + 2));
	}
	free(want);
	cohort_context_free(c);
}

/* A late chunk that has no room is found out before anything is computed. */
static void spec3_late_chunks_without_room(void **state)
{
	struct countdown d = {-1, 0};
	struct cohort_context_params p = tight();
	float *want = probe_untouched();
	const struct cohort_scatter_item spans[] = {{texts[5], 60, 0, 9, true}, {texts[6], 60, 43, 2, true},
			{texts[7], 60, 0, 12, true}};
	struct cohort_err err;
	(void)state;

	p.n_batch = 64;
	p.abort = count_down;
	p.abort_user = &d;
	struct cohort_context *c = context_of(golden, p);
	for (int scatter = 0; scatter < 2; scatter++) {
		prepare(c);
		const uint64_t before = books(c);
		d.n_asked = 0;
		assert_int_equal(scatter ? cohort_decode_scatter(c, spans, 3, NULL, &err)
					 : cohort_decode_many(c, texts[5], 200, 0, 9, &err),
				COHORT_NO_ROOM);
		assert_string_equal(err.rule, "kv-room");
		assert_int_equal(err.seq, scatter ? 12 : 9);
		assert_int_equal(d.n_asked, 0);
		as_before(c, before, want);
	}
	free(want);
	cohort_context_free(c);
}

/* ---- Outputs ---- */

static void no_output(const struct cohort_context *c, int32_t i, const char *why)
{
	struct cohort_err err = {0};
	assert_null(cohort_logits_get(c, i, &err));
	check_err(&err, COHORT_E_ARG, "output-index", i, -1, cohort_n_outputs(c), i);
	assert_non_null(strstr(err.text, why));
}

static void spec3_logits_index(void **state)
{
	struct cohort_context *c = context();
	struct cohort_batch b = new_batch(8, 1);
	struct cohort_err err;
	(void)state;

	no_output(c, 0, "outside");
	no_output(c, -1, "outside");
	for (int32_t i = 0; i < 6; i++)
		add_row(&b, texts[0][i], i, 0, i == 1 || i == 4);
	OK(cohort_decode(c, &b, NULL));
	const float *one = cohort_logits_get(c, 1, NULL), *four = cohort_logits_get(c, 4, NULL);
	assert_true(one && four && one != four);
	assert_ptr_equal(cohort_logits_get(c, -1, NULL), four);
	assert_ptr_equal(cohort_logits_get(c, -2, NULL), one);
	no_output(c, 0, "did not ask");
	no_output(c, 5, "did not ask");
	no_output(c, 6, "outside");
	no_output(c, -3, "outside");
	no_output(c, INT32_MIN, "outside");
	no_output(c, INT32_MAX, "outside");
	assert_null(cohort_logits_get(NULL, 0, &err));
	assert_null(cohort_embeddings_get(c, 1, &err)); /* not opened with them */
	check_arg(err.status, &err, "embeddings");
	assert_int_not_equal(cohort_decode(c, &b, NULL), COHORT_OK); /* the same positions again */
	no_output(c, 1, "outside");
	no_output(c, -1, "outside");
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static void spec3_outputs_in_batch_order(void **state)
{
	const enum cohort_split splits[] = {COHORT_SPLIT_SIMPLE, COHORT_SPLIT_EQUAL, COHORT_SPLIT_SEQ};
	struct cohort_batch b = new_batch(64, 2);
	cohort_pos next[4] = {0};
	int32_t place[60];
	float *want[60];
	struct rng r;
	(void)state;

	rng_init(&r, 9, 0);
	for (int32_t i = 0; i < 60; i++) {
		const cohort_seq seq = (cohort_seq)(rng_u32(&r) % 4);
		place[i] = rng_u32(&r) % 3 == 0;
		want[i] = place[i] ? alone(golden, small(), texts[seq], next[seq] + 1) : NULL;
		add_row(&b, texts[seq][next[seq]], next[seq], 4 * seq, place[i]);
		next[seq]++;
	}
	for (size_t s = 0; s < 3; s++)
		for (int32_t n_ubatch = 1; n_ubatch <= 64; n_ubatch += 7) {
			struct cohort_context_params p = small();
			int32_t from_end = 0;
			p.split = splits[s];
			p.n_ubatch = n_ubatch;
			struct cohort_context *c = context_of(golden, p);
			OK(cohort_decode(c, &b, NULL));
			for (int32_t i = 59; i >= 0; i--)
				if (place[i])
					assert_true(same_logits(c, i, want[i]) && same_logits(c, --from_end, want[i]));
			assert_int_equal(cohort_n_outputs(c), -from_end);
			cohort_context_free(c);
		}
	for (int32_t i = 0; i < 60; i++)
		free(want[i]);
	cohort_batch_release(&b);
}

static void spec3_embeddings(void **state)
{
	struct cohort_context_params p = small();
	(void)state;
	p.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
	struct cohort_context *both = context_of(golden, p), *only = context_of(golden, embedding_params());
	struct cohort_context *logits = context();
	struct cohort_batch b;
	struct cohort_err err;

	OK(cohort_batch_view(&b, texts[0], 40, NULL));
	OK(cohort_decode(both, &b, NULL));
	OK(cohort_decode(only, &b, NULL));
	OK(cohort_decode(logits, &b, NULL));
	assert_true(same_logits(both, 39, cohort_logits_get(logits, 39, NULL)));
	const float *e = cohort_embeddings_get(both, 39, NULL);
	assert_non_null(e);
	assert_ptr_equal(cohort_embeddings_get(both, -1, NULL), e);
	assert_memory_equal(e, cohort_embeddings_get(only, 39, NULL), EMBD * sizeof *e);
	assert_null(cohort_embeddings_get(both, 38, &err));
	assert_non_null(cohort_embeddings_get(only, 38, NULL));
	assert_null(cohort_logits_get(only, 39, &err));
	check_arg(err.status, &err, "logits");
	/* They are what the logits are made of: the output matrix times them. */
	float row[EMBD];
	const struct model_weight *w = golden->model.output;
	quant_format_get(w->type)->to_f32(w->data, row, EMBD);
	double sum = 0;
	for (size_t i = 0; i < EMBD; i++)
		sum += (double)row[i] * (double)e[i];
	assert_true(fabs(sum - (double)cohort_logits_get(both, 39, NULL)[0]) < 1e-4 * (1 + fabs(sum)));
	cohort_context_free(both);
	cohort_context_free(only);
	cohort_context_free(logits);
}

/* Against what one would write down: over a sequence's rows in batch order. */
static void spec3_pooling(void **state)
{
	const enum cohort_pooling kinds[] = {COHORT_POOL_NONE, COHORT_POOL_MEAN, COHORT_POOL_CLS, COHORT_POOL_LAST};
	struct cohort_batch b = new_batch(64, 2);
	cohort_pos next[3] = {0};
	(void)state;

	for (int32_t i = 0; i < 50; i++) {
		const cohort_seq seq = (const cohort_seq[]){0, 2, 2, 1, 2, 2, 1}[i % 7];
		add_row(&b, texts[seq][next[seq]], next[seq], seq, false);
		next[seq]++;
	}
	for (int k = 0; k < 4; k++) {
		struct cohort_context_params p = small();
		struct cohort_err err;
		p.outputs = COHORT_OUTPUT_EMBEDDINGS;
		p.pooling = kinds[k];
		p.split = k == 1 ? COHORT_SPLIT_EQUAL : COHORT_SPLIT_SIMPLE;
		struct cohort_context *c = context_of(golden, p), *rows = context_of(golden, embedding_params());
		OK(cohort_decode(c, &b, NULL));
		OK(cohort_decode(rows, &b, NULL));
		for (cohort_seq seq = 0; seq < 3; seq++) {
			float want[EMBD];
			int32_t n = 0;
			for (int32_t i = 0; i < 50; i++) {
				const float *e = cohort_embeddings_get(rows, i, NULL);
				if (rows->checked.seq[i][0] != seq)
					continue;
				for (size_t j = 0; j < EMBD && (n == 0 || kinds[k] != COHORT_POOL_CLS); j++)
					want[j] = n == 0 || kinds[k] == COHORT_POOL_LAST ? e[j] : want[j] + e[j];
				n++;
			}
			for (size_t j = 0; j < EMBD && kinds[k] == COHORT_POOL_MEAN; j++)
				want[j] /= (float)n;
			const float *got = cohort_embeddings_seq_get(c, seq, &err);
			if (kinds[k] == COHORT_POOL_NONE) {
				assert_null(got);
				check_arg(err.status, &err, "pooling");
			} else {
				assert_non_null(got);
				assert_memory_equal(got, want, sizeof want);
			}
		}
		assert_null(cohort_embeddings_seq_get(c, 5, &err));
		assert_null(cohort_embeddings_seq_get(c, 16, &err));
		assert_int_not_equal(cohort_decode(c, &b, NULL), COHORT_OK);
		assert_null(cohort_embeddings_seq_get(c, 0, &err)); /* gone with the failure */
		cohort_context_free(c);
		cohort_context_free(rows);
	}
	cohort_batch_release(&b);
}

/* What would have to keep more rows than there is room for is refused; and so is pooling without embeddings. */
static void spec3_pooling_needs_one_chunk(void **state)
{
	struct cohort_context_params p = embedding_params();
	struct cohort_context *c = context_of(golden, p), *no;
	struct cohort_err err;
	(void)state;

	assert_int_equal(cohort_decode_many(c, texts[0], 65, 0, 0, &err), COHORT_E_LIMIT);
	check_err(&err, COHORT_E_LIMIT, "n-batch", -1, -1, 64, 65);
	OK(cohort_decode_many(c, texts[0], 64, 0, 0, &err));
	cohort_context_free(c);
	p.pooling = COHORT_POOL_MEAN;
	p.outputs = COHORT_OUTPUT_LOGITS;
	check_arg(cohort_context_open(golden, &p, &no, &err), &err, "pooling");
}

/* ---- Around it ---- */

static void spec3_counters(void **state)
{
	struct cohort_context *c = context();
	struct cohort_counters n, m;
	const struct cohort_each_item ones[] = {{5, 20, 0, true}, {5, 100, 1, true}};
	struct cohort_batch b = new_batch(8, 1);
	(void)state;

	cohort_counters_get(c, &n);
	assert_true(n.n_decode == 0 && n.n_prefill_rows == 0 && n.n_decode_rows == 0);
	assert_true(n.prefill_s == 0 && n.decode_s == 0);
	say(c, 0, texts[0], 0, 20);
	say(c, 1, texts[1], 0, 100);
	cohort_counters_get(c, &n);
	assert_true(n.n_decode == 2 && n.n_prefill_rows == 120 && n.n_decode_rows == 0);
	assert_true(n.prefill_s > 0 && n.decode_s == 0);
	OK(cohort_decode_each(c, ones, 2, NULL, NULL));
	cohort_counters_get(c, &m);
	assert_true(m.n_decode == 3 && m.n_prefill_rows == 120 && m.n_decode_rows == 2 && m.decode_s > 0);
	assert_true(m.prefill_s == n.prefill_s);
	for (int32_t i = 0; i < 3; i++) /* both in one batch */
		add_row(&b, 5, i, 2, false);
	add_row(&b, 5, 21, 0, true);
	OK(cohort_decode(c, &b, NULL));
	cohort_counters_get(c, &n);
	assert_true(n.n_decode == 4 && n.n_prefill_rows == 123 && n.n_decode_rows == 3);
	assert_true(n.prefill_s > m.prefill_s && n.decode_s > m.decode_s);
	/* In chunks as in one batch. */
	const struct cohort_scatter_item spans[] = {{texts[2], 70, 0, 5, true}, {texts[2], 1, 0, 6, true}};
	OK(cohort_decode_scatter(c, spans, 2, NULL, NULL));
	cohort_counters_get(c, &m);
	assert_true(m.n_decode == 5 && m.n_prefill_rows == 193 && m.n_decode_rows == 4);
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static void spec3_warm_up_changes_nothing(void **state)
{
	float *want = probe_untouched(), *last;
	struct cohort_context *c = context();
	struct cohort_counters n, m;
	struct cohort_err err;
	(void)state;

	prepare(c);
	last = keep_logits(c, -1);
	cohort_counters_get(c, &n);
	const uint64_t before = books(c);
	OK(cohort_warm_up(c, 16, 1, NULL));
	OK(cohort_warm_up(c, 1, 3, NULL));
	OK(cohort_warm_up(c, 1, 16, NULL));
	assert_int_equal(cohort_warm_up(c, 17, 1, &err), COHORT_E_LIMIT);
	check_err(&err, COHORT_E_LIMIT, "n-ubatch", -1, -1, 16, 17);
	assert_int_equal(cohort_warm_up(c, 1, 17, &err), COHORT_E_LIMIT);
	check_err(&err, COHORT_E_LIMIT, "n-seqs", -1, -1, 16, 17);
	cohort_counters_get(c, &m);
	assert_memory_equal(&n, &m, sizeof n);
	assert_true(cohort_n_outputs(c) == 1 && same_logits(c, 4, last) && same_logits(c, -1, last));
	as_before(c, before, want);
	free(want);
	free(last);
	cohort_context_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec3_codes),
		cmocka_unit_test(spec3_no_room_counts_rows),
		cmocka_unit_test(spec3_no_room_counts_rows_of_many),
		cmocka_unit_test(spec3_abort_is_asked_at_every_layer),
		cmocka_unit_test(spec3_failure_changes_nothing),
		cmocka_unit_test(spec3_late_chunks_aborted),
		cmocka_unit_test(spec3_late_chunks_without_room),
		cmocka_unit_test(spec3_logits_index),
		cmocka_unit_test(spec3_outputs_in_batch_order),
		cmocka_unit_test(spec3_embeddings),
		cmocka_unit_test(spec3_pooling),
		cmocka_unit_test(spec3_pooling_needs_one_chunk),
		cmocka_unit_test(spec3_counters),
		cmocka_unit_test(spec3_warm_up_changes_nothing),
	};
	return cmocka_run_group_tests_name("spec_outcome", tests, open_golden, close_golden);
}
