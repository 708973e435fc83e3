/* Saved states of a model with recurrent states: what was restored decodes on with the same bits, sharing and
 * checkpoints included; damaged bytes are refused, and refusals change nothing.
 *
 * Shown red by planted faults: states written back in the wrong order (recurrent_state_round_trip), checkpoints left
 * out of the image (recurrent_state_round_trip), an image state that nobody names let through
 * (unsound_recurrent_images_are_refused), references of emptied sequences not counted as room
 * (replaced_states_count_as_room), positions moved past those the model has (moved_sequences_are_restored). */
#include "effort.h"
#include "arch_case.h"

#include "base/mem.h"
#include "context/state.h"
#include "kv/recur_impl.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 12, N_SEQ = 6 };

struct rig {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
};

static void rig_open_model(struct rig *r, const char *name, int32_t n_seq_max, int32_t n_checkpoints)
{
	struct cohort_context_params cp;
	struct cohort_err err;
	char path[128];

	if (cohort_model_open(arch_path(path, sizeof path, name, "gguf"), NULL, &r->m, &err))
		fail_msg("%s", err.text);
	cohort_context_params_init(&cp);
	cp.n_seq_max = n_seq_max;
	cp.n_checkpoints = n_checkpoints;
	cp.n_threads = 1;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, 64, 0, 4, &err))
		fail_msg("%s", err.text);
}

static void rig_open(struct rig *r, int32_t n_seq_max, int32_t n_checkpoints)
{
	rig_open_model(r, "mamba", n_seq_max, n_checkpoints);
}

static void rig_close(struct rig *r)
{
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

/* n tokens behind what the sequence holds; the logits of the last. */
static const float *go_on(struct rig *r, cohort_seq seq, int32_t n, int32_t salt)
{
	struct cohort_err err;
	const cohort_pos at = cohort_seq_pos_max(r->c, seq) + 1;

	cohort_batch_reset(&r->b);
	for (int32_t i = 0; i < n; i++)
		assert_int_equal(
				cohort_batch_add(&r->b, (7 * (at + i) + salt) % 280, at + i, &seq, 1, i + 1 == n, &err),
				COHORT_OK);
	if (cohort_decode(r->c, &r->b, &err))
		fail_msg("%s", err.text);
	return cohort_logits_get(r->c, -1, &err);
}

static void *save(struct rig *r, cohort_seq seq, size_t *n)
{
	struct cohort_err err;
	*n = cohort_state_size(r->c, seq);
	assert_true(*n > 0);
	void *bytes = malloc(*n);
	assert_non_null(bytes);
	if (cohort_state_save(r->c, seq, bytes, *n, n, &err))
		fail_msg("%s", err.text);
	return bytes;
}

/* Sequence 1 is a copy of 0 that went on; 3 goes its own way; 0 and 1 share a checkpoint. */
static void fill(struct rig *r)
{
	struct cohort_err err;
	go_on(r, 0, N, 1);
	assert_int_equal(cohort_seq_checkpoint(r->c, 0, &err), COHORT_OK);
	go_on(r, 0, 3, 2);
	assert_int_equal(cohort_seq_cp(r->c, 0, 1, 0, -1, &err), COHORT_OK);
	go_on(r, 1, 2, 3);
	go_on(r, 3, 5, 4);
	assert_int_equal(cohort_seq_cp(r->c, 0, 4, 0, -1, &err), COHORT_OK); /* the same state as 0's */
}

static void recurrent_state_round_trip(void **state)
{
	struct rig a, b;
	struct cohort_err err;
	size_t n, n_one, n_again;
	(void)state;

	rig_open(&a, N_SEQ, 2);
	rig_open(&b, N_SEQ, 2);
	fill(&a);
	void *all = save(&a, COHORT_SEQ_ALL, &n), *one = save(&a, 1, &n_one);
	assert_int_equal(cohort_state_restore(b.c, COHORT_SEQ_ALL, all, n, &err), COHORT_OK);
	assert_true(recur_consistent(b.c->memory.recur));
	void *again = save(&b, COHORT_SEQ_ALL, &n_again);
	assert_int_equal(n_again, n);
	assert_memory_equal(all, again, n);
	assert_int_equal(cohort_state_restore(b.c, 5, one, n_one, &err), COHORT_OK);
	for (cohort_seq s = 0; s < N_SEQ; s++) {
		assert_int_equal(cohort_seq_pos_max(b.c, s), cohort_seq_pos_max(a.c, s == 5 ? 1 : s));
		if (cohort_seq_pos_max(b.c, s) < 0)
			continue;
		/* On a copy, so that the states stay to be compared. */
		const cohort_seq from = s == 5 ? 1 : s;
		float want[288];
		assert_int_equal(cohort_seq_cp(a.c, from, 2, 0, -1, &err), COHORT_OK);
		memcpy(want, go_on(&a, 2, 4, 9), sizeof want);
		assert_int_equal(cohort_seq_rm(a.c, 2, 0, -1, &err), COHORT_OK);
		assert_int_equal(cohort_seq_cp(b.c, s, 2, 0, -1, &err), COHORT_OK);
		assert_memory_equal(go_on(&b, 2, 4, 9), want, sizeof want);
		assert_int_equal(cohort_seq_rm(b.c, 2, 0, -1, &err), COHORT_OK);
	}
	/* Back to the checkpoint, in both. */
	assert_int_equal(cohort_seq_rm(a.c, 1, N, -1, &err), COHORT_OK);
	assert_int_equal(cohort_seq_rm(b.c, 5, N, -1, &err), COHORT_OK);
	float want[288];
	memcpy(want, go_on(&a, 1, 3, 8), sizeof want);
	assert_memory_equal(go_on(&b, 5, 3, 8), want, sizeof want);
	/* An empty sequence empties what it replaces. */
	size_t n_none;
	void *none = save(&a, 2, &n_none);
	assert_int_equal(cohort_state_restore(b.c, 0, none, n_none, &err), COHORT_OK);
	assert_int_equal(cohort_seq_pos_max(b.c, 0), -1);
	assert_true(recur_consistent(b.c->memory.recur));
	free(all);
	free(one);
	free(again);
	free(none);
	rig_close(&a);
	rig_close(&b);
}

/* Any change is refused, with a right checksum too, or gives sound books. */
static void damaged_recurrent_states_are_refused(void **state)
{
	struct rig a, b;
	struct cohort_err err;
	size_t n;
	uint64_t hash;
	(void)state;

	rig_open(&a, N_SEQ, 2);
	rig_open(&b, N_SEQ, 2);
	fill(&a);
	uint8_t *bytes = save(&a, COHORT_SEQ_ALL, &n);
	const size_t apart = effort_is("short") ? 19 : 5;
	hash = recur_hash(a.c->memory.recur);
	for (size_t cut = 0; cut < n; cut += cut < 400 ? 1 : 997)
		assert_true(cohort_state_restore(a.c, COHORT_SEQ_ALL, bytes, cut, &err) < 0);
	assert_int_equal(recur_hash(a.c->memory.recur), hash);
	const size_t books = n - SUM_BYTES - 6 * state_bytes(a.c) + 64; /* all but the content of states */
	for (size_t i = 0; i < (books < n - SUM_BYTES ? books : n - SUM_BYTES); i += i < 128 ? 1 : apart)
		for (int bit = 0; bit < 8; bit += 7) {
			bytes[i] ^= (uint8_t)(1 << bit);
			assert_true(cohort_state_restore(a.c, COHORT_SEQ_ALL, bytes, n, &err) < 0); /* the checksum */
			const uint64_t sum = state_sum(bytes, n - SUM_BYTES);
			uint8_t old[SUM_BYTES];
			memcpy(old, bytes + n - SUM_BYTES, SUM_BYTES);
			for (size_t k = 0; k < SUM_BYTES; k++)
				bytes[n - SUM_BYTES + k] = (uint8_t)(sum >> 8 * k);
			cohort_state_restore(b.c, COHORT_SEQ_ALL, bytes, n, &err);
			assert_true(recur_consistent(b.c->memory.recur));
			memcpy(bytes + n - SUM_BYTES, old, SUM_BYTES);
			bytes[i] ^= (uint8_t)(1 << bit);
		}
	assert_int_equal(recur_hash(a.c->memory.recur), hash);
	free(bytes);
	rig_close(&a);
	rig_close(&b);
}

/* An image as the books see it: what is not sound is refused. */
static void unsound_recurrent_images_are_refused(void **state)
{
	const struct recur_check good = {3, 1}, late = {9, 1}, nobody = {3, 2}, early = {0, 1}, none = {3, -1};
	const struct recur_check twice[] = {{3, 1}, {3, 1}}, rising[] = {{2, 1}, {3, 1}};
	const struct {
		struct recur_image_seq q;
		size_t n_states;
		enum cohort_status want;
	} cases[] = {
			{{0, 0, 5, 0, NULL, 0}, 1, COHORT_OK},
			{{0, 0, 5, 0, &good, 1}, 2, COHORT_OK},
			{{0, -1, -1, -1, NULL, 0}, 0, COHORT_OK},
			{{0, 0, 5, 0, NULL, 0}, 2, COHORT_E_FORMAT},
			{{0, 0, 5, 1, NULL, 0}, 1, COHORT_E_FORMAT},
			{{0, 0, 5, -1, NULL, 0}, 0, COHORT_E_FORMAT},
			{{0, 6, 5, 0, NULL, 0}, 1, COHORT_E_FORMAT},
			{{0, -1, 5, 0, NULL, 0}, 1, COHORT_E_FORMAT},
			{{0, 0, 5, 0, &late, 1}, 2, COHORT_E_FORMAT},
			{{0, 0, 5, 0, &nobody, 1}, 2, COHORT_E_FORMAT},
			{{0, 0, -1, 0, NULL, 0}, 1, COHORT_E_FORMAT},
			{{9, 0, 5, 0, NULL, 0}, 1, COHORT_E_ARG},
			{{0, 0, 5, 0, &good, 1}, 7, COHORT_E_FORMAT},
			{{0, 1, 5, 0, &early, 1}, 2, COHORT_E_FORMAT},
			{{0, 0, 5, 0, &none, 1}, 1, COHORT_E_FORMAT},
			{{0, 0, 5, 0, twice, 2}, 2, COHORT_E_FORMAT},
			{{0, 0, 5, 0, rising, 2}, 2, COHORT_E_UNSUPPORTED},
			{{0, -1, -2, -1, NULL, 0}, 0, COHORT_E_FORMAT},
			{{0, -1, -1, 0, NULL, 0}, 1, COHORT_E_FORMAT},
			{{0, -1, -1, -1, &good, 1}, 2, COHORT_E_FORMAT},
	};
	int32_t ids[8];
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct recur *r = recur_open(&(struct recur_limits){
				.n_states = 4, .n_seq_max = 3, .n_rows_max = 4, .n_checkpoints = 1});
		const struct recur_image image = {&cases[i].q, 1, cases[i].n_states, true};
		const uint64_t hash = recur_hash(r);
		struct cohort_err err;
		if (recur_import(r, &image, true, ids, &err) != cases[i].want)
			fail_msg("case %zu: %s", i, err.text);
		assert_int_equal(recur_hash(r), hash);
		if (cases[i].want == COHORT_OK) {
			assert_int_equal(recur_import(r, &image, false, ids, &err), COHORT_OK);
			assert_true(recur_consistent(r));
		}
		recur_free(r);
	}
}

/* Sequences out of order; a transaction that is open; a model without states, to which a checkpoint is nothing. */
static void recur_import_refuses_wrong_orders(void **state)
{
	struct recur *r = recur_open(
			&(struct recur_limits){.n_states = 3, .n_seq_max = 4, .n_rows_max = 4, .n_checkpoints = 1});
	const struct recur_image_seq backwards[] = {{1, 0, 1, 0, NULL, 0}, {0, 0, 1, 1, NULL, 0}};
	const struct recur_image image = {backwards, 2, 2, true}, nothing = {.all = true};
	struct cohort_err err;
	struct rig a;
	int32_t ids[2];
	(void)state;

	assert_int_equal(recur_import(r, &image, true, ids, &err), COHORT_E_FORMAT);
	recur_begin(r);
	assert_int_equal(recur_import(r, &nothing, true, ids, &err), COHORT_E_BUG);
	recur_rollback(r);
	assert_int_equal(recur_import(r, &nothing, true, ids, &err), COHORT_OK);
	recur_free(r);
	rig_open_model(&a, "llama-base", 2, 1);
	assert_int_equal(cohort_seq_checkpoint(a.c, 0, &err), COHORT_OK);
	rig_close(&a);
}

/* States of sequences that are replaced count as room; what does not fit changes nothing. */
static void replaced_states_count_as_room(void **state)
{
	struct rig a, b;
	struct cohort_err err;
	size_t n, n_one;
	(void)state;

	rig_open(&a, N_SEQ, 2);
	fill(&a);
	void *all = save(&a, COHORT_SEQ_ALL, &n), *one = save(&a, 1, &n_one);
	rig_open(&b, 2, 0); /* four states, two sequences, no checkpoints */
	assert_int_equal(cohort_state_restore(b.c, COHORT_SEQ_ALL, all, n, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-id");
	assert_int_equal(cohort_state_restore(b.c, 0, one, n_one, &err), COHORT_E_UNSUPPORTED);
	assert_string_equal(err.rule, "checkpoint");
	rig_close(&b);

	struct recur *r = recur_open(
			&(struct recur_limits){.n_states = 3, .n_seq_max = 4, .n_rows_max = 4, .n_checkpoints = 1});
	const struct recur_image_seq two[] = {{0, 0, 1, 0, NULL, 0}, {1, 0, 1, 1, NULL, 0}};
	const struct recur_image image = {two, 2, 2, false};
	int32_t ids[2];
	assert_int_equal(recur_import(r, &image, true, ids, &err), COHORT_OK);
	assert_int_equal(recur_import(r, &image, false, ids, &err), COHORT_OK);
	/* One is free, two more come back: the same again fits, beside others it does not. */
	assert_int_equal(recur_import(r, &image, true, ids, &err), COHORT_OK);
	const struct recur_image_seq others[] = {{2, 0, 1, 0, NULL, 0}, {3, 0, 1, 1, NULL, 0}};
	const struct recur_image more = {others, 2, 2, false};
	assert_int_equal(recur_import(r, &more, true, ids, &err), COHORT_NO_ROOM);
	/* A state that somebody else holds as well does not come back. */
	assert_int_equal(recur_seq_cp(r, 1, 2, 0, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_import(r, &image, true, ids, &err), COHORT_OK);
	assert_int_equal(recur_seq_cp(r, 0, 3, 0, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_import(r, &image, true, ids, &err), COHORT_NO_ROOM);
	assert_true(recur_consistent(r));
	recur_free(r);
	free(all);
	free(one);
	rig_close(&a);
}

static void recurrent_state_restore_out_of_memory_at_every_point(void **state)
{
	struct rig a;
	struct cohort_err err;
	size_t n;
	enum cohort_status st = COHORT_E_MEMORY;
	int64_t k = 0;
	(void)state;

	rig_open(&a, N_SEQ, 2);
	fill(&a);
	void *all = save(&a, COHORT_SEQ_ALL, &n);
	const uint64_t hash = recur_hash(a.c->memory.recur);
	for (; st; k++) {
		mem_fail_after(k);
		st = cohort_state_restore(a.c, COHORT_SEQ_ALL, all, n, &err);
		mem_fail_after(-1);
		assert_true(st == COHORT_OK || st == COHORT_E_MEMORY);
		assert_true(st == COHORT_OK || recur_hash(a.c->memory.recur) == hash);
	}
	assert_true(k > 3);
	for (k = 0, st = COHORT_E_MEMORY; st; k++) {
		size_t got;
		mem_fail_after(k);
		st = cohort_state_save(a.c, COHORT_SEQ_ALL, all, n, &got, &err);
		mem_fail_after(-1);
	}
	assert_true(k > 2);
	free(all);
	rig_close(&a);
}

/* A sequence moves as far as the model's positions go, and is then saved, restored and decoded on; not further. */
static void moved_sequences_are_restored(void **state)
{
	struct rig a;
	struct cohort_err err;
	struct cohort_model_info info;
	size_t n;
	(void)state;

	rig_open(&a, N_SEQ, 1);
	cohort_model_info_get(a.m, &info);
	go_on(&a, 0, 4, 1);
	assert_int_equal(cohort_seq_add(a.c, 0, 0, -1, info.n_ctx_train + 100, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-limit");
	assert_int_equal(err.expected, info.n_ctx_train);
	assert_int_equal(cohort_seq_add(a.c, 0, 0, -1, info.n_ctx_train - 4 + 1, &err), COHORT_E_ARG);
	assert_int_equal(cohort_seq_pos_max(a.c, 0), 3);
	assert_int_equal(cohort_seq_add(a.c, 0, 0, -1, info.n_ctx_train - 4 - 1, &err), COHORT_OK);
	void *one = save(&a, 0, &n);
	assert_int_equal(cohort_state_restore(a.c, 1, one, n, &err), COHORT_OK);
	go_on(&a, 1, 1, 1);
	assert_int_equal(cohort_seq_pos_max(a.c, 1), info.n_ctx_train - 1);
	free(one);
	rig_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(recurrent_state_round_trip),
			cmocka_unit_test(damaged_recurrent_states_are_refused),
			cmocka_unit_test(unsound_recurrent_images_are_refused),
			cmocka_unit_test(recur_import_refuses_wrong_orders),
			cmocka_unit_test(replaced_states_count_as_room),
			cmocka_unit_test(recurrent_state_restore_out_of_memory_at_every_point),
			cmocka_unit_test(moved_sequences_are_restored)};
	return cmocka_run_group_tests_name("state_recur", tests, arch_make_models, arch_remove_models);
}
