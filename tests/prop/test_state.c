/* Saved states: a sequence that was saved and restored decodes on with the same bits, in the same context or another,
 * from memory or a file, and running out of memory or disk on the way changes nothing. test_state_refuse.c has bad
 * states.
 *
 * Shown red by
 *  - importing without the dry run: state_calls_out_of_memory_at_every_point
 *  - not comparing the checksum or the size: state_files_save_and_restore
 *  - writing whole blocks instead of held slots: nothing_of_others and most others
 *  - writing cells back into the image's block numbers: one_goes_on, all_go_on,
 *    state_files_save_and_restore */
#include "state_rig.h"
#include "temp.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/stat.h>

#define N_KINDS 6
#define KIND(k) types[(k) % 3], windows[(k) / 3]

static void one_goes_on(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_KINDS; k++) {
		struct rig r;
		rig_open(&r, KIND(k));
		struct cohort_context *other = context_of(r.m, types[k % 3], 500, 3);
		prepare(r.c);
		for (cohort_seq seq = 0; seq < N_IDS - 1; seq++) {
			if (cohort_seq_pos_max(r.c, seq) < 0)
				continue;
			const cohort_pos min = cohort_seq_pos_min(r.c, seq), max = cohort_seq_pos_max(r.c, seq);
			float want[N_VOCAB];
			probe(r.c, seq, want);
			struct look before = look(r.c);
			struct bytes b = save(r.c, seq), again;
			unchanged(r.c, &before);

			/* In place of itself, after it went on and after all is gone. */
			grow(r.c, seq, 9, 5);
			restore(r.c, COHORT_SEQ_ALL, &b);
			check_next(r.c, seq, want);
			cohort_seq_clear(r.c);
			restore(r.c, COHORT_SEQ_ALL, &b);
			assert_int_equal(cohort_seq_pos_min(r.c, seq), min);
			assert_int_equal(cohort_seq_pos_max(r.c, seq), max);
			check_next(r.c, seq, want);
			/* Beside itself, where another one was. */
			grow(r.c, 3, 50, 6);
			restore(r.c, 3, &b);
			check_next(r.c, 3, want);
			check_next(r.c, seq, want);
			again = save(r.c, 3);
			state_put(again.p + STATE_AT_GROUPS + STATE_GROUP * r.c->n_groups, 4, (uint64_t)seq);
			state_seal(again.p, again.n);
			same_bytes(&again, &b);
			/* In another context. */
			cohort_seq_clear(other);
			grow(other, 0, 40, 7);
			restore(other, 1, &b);
			grow(r.c, seq, 40, 8);
			grow(other, 1, 40, 8);
			assert_memory_equal(cohort_logits_get(other, -1, NULL), cohort_logits_get(r.c, -1, NULL),
					sizeof want);
			restore(r.c, COHORT_SEQ_ALL, &before.cells);
			free(again.p);
			free(b.p);
			free(before.cells.p);
		}
		cohort_context_free(other);
		rig_close(&r);
	}
}

static void same_usage(struct cohort_context *c, const struct cohort_usage *want)
{
	struct cohort_usage u;
	cohort_usage_get(c, &u);
	assert_int_equal(u.n_used, want->n_used);
	assert_int_equal(u.n_shared, want->n_shared);
	assert_int_equal(u.n_seqs, want->n_seqs);
}

static void all_go_on(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_KINDS; k++) {
		struct rig r;
		float want[N_IDS][N_VOCAB];
		cohort_pos min[N_IDS], max[N_IDS];
		struct cohort_usage u;
		rig_open(&r, KIND(k));
		prepare(r.c);
		for (cohort_seq s = 0; s < N_IDS; s++) {
			min[s] = cohort_seq_pos_min(r.c, s);
			max[s] = cohort_seq_pos_max(r.c, s);
			if (max[s] >= 0)
				probe(r.c, s, want[s]);
		}
		cohort_usage_get(r.c, &u);
		assert_true(u.n_shared > 0);
		struct bytes b = save(r.c, COHORT_SEQ_ALL);
		struct cohort_context *to[] = {r.c, context_of(r.m, types[k % 3], 1000, 20)};
		grow(r.c, 0, 20, 9);
		rm(r.c, 2, 0, -1);
		grow(r.c, 3, 40, 10);
		grow(to[1], 19, 100, 11);
		for (size_t i = 0; i < 2; i++) {
			restore(to[i], COHORT_SEQ_ALL, &b);
			same_usage(to[i], &u);
			struct bytes again = save(to[i], COHORT_SEQ_ALL);
			same_bytes(&again, &b);
			free(again.p);
			for (cohort_seq s = 0; s < N_IDS; s++) {
				assert_int_equal(cohort_seq_pos_min(to[i], s), min[s]);
				assert_int_equal(cohort_seq_pos_max(to[i], s), max[s]);
				if (max[s] >= 0)
					check_next(to[i], s, want[s]);
			}
		}
		free(b.p);
		cohort_context_free(to[1]);
		rig_close(&r);
	}
}

static void empty_ones(void **state)
{
	struct rig r;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 40);
	struct bytes none = save(r.c, COHORT_SEQ_ALL), empty = save(r.c, 4);
	assert_int_equal(none.n, STATE_AT_GROUPS + 2 * STATE_GROUP + STATE_SUM);
	assert_int_equal(empty.n, none.n + STATE_SEQ + 2 * STATE_SEQ_GROUP);
	prepare(r.c);
	restore(r.c, 2, &empty);
	assert_int_equal(cohort_seq_pos_max(r.c, 2), -1);
	assert_int_equal(cohort_seq_pos_max(r.c, 1), 72);
	restore(r.c, COHORT_SEQ_ALL, &empty); /* its own id was empty already */
	assert_int_equal(cohort_seq_pos_max(r.c, 1), 72);
	restore(r.c, COHORT_SEQ_ALL, &none);
	struct cohort_usage u;
	cohort_usage_get(r.c, &u);
	assert_int_equal(u.n_used, 0);
	assert_int_equal(u.n_seqs, 0);
	free(none.p);
	free(empty.p);
	rig_close(&r);
}

/* The fields are where the page has them, and no more cells are written than are held. */
static void as_documented(void **state)
{
	struct rig r;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 0);
	grow(r.c, 3, 40, 1);
	rm(r.c, 3, 2, 5);
	struct bytes b = save(r.c, 3);
	const uint8_t *p = b.p;
	assert_memory_equal(p, "COHSTATE", 8);
	assert_int_equal(state_get(p + STATE_AT_VERSION, 4), 2);
	assert_int_equal(state_get(p + STATE_AT_FLAGS, 4), 0);
	assert_int_equal(state_get(p + STATE_AT_SIZE, 8), b.n);
	assert_int_equal(state_get(p + STATE_AT_TYPE, 4), COHORT_KV_F16);
	assert_int_equal(state_get(p + STATE_AT_BLOCK, 4), 32);
	assert_int_equal(state_get(p + STATE_AT_N_GROUPS, 4), 1);
	assert_int_equal(state_get(p + STATE_AT_N_SEQS, 4), 1);
	p += STATE_AT_GROUPS;
	assert_int_equal(state_get(p, 4), 0);
	assert_int_equal(state_get(p + 4, 4), 2);
	const size_t n_cell = state_get(p + 8, 8);
	assert_int_equal(n_cell, 2 * 2 * (16 + 16) * 2);
	p += STATE_GROUP;
	const uint32_t seq[] = {3, 39, 0, 0, 0}, table[] = {0, 0xffffffe3, 1, 0xff}, held[] = {0xffffffe3, 0xff};
	for (size_t i = 0; i < 5; i++, p += 4)
		assert_int_equal(state_get(p, 4), seq[i]);
	for (size_t i = 0; i < 4; i++, p += 4)
		assert_int_equal(state_get(p, 4), table[i]);
	for (size_t i = 0; i < 2; i++, p += 4)
		assert_int_equal(state_get(p, 4), held[i]);
	assert_int_equal(b.n, (size_t)(p - b.p) + 37 * n_cell + STATE_SUM);
	free(b.p);
	rig_close(&r);
}

/* A restored sequence with a window takes and refuses what the saved one does: released cells and removed ones are told
 * apart. Seen red without the position that tells them apart (`gone`) in the state. */
static void windows_stay_as_they_are(void **state)
{
	struct rig r;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 40);
	grow(r.c, 1, 20, 1);
	assert_true(cohort_seq_is_whole(r.c, 1));
	rm(r.c, 1, 5, 9); /* a gap */
	assert_false(cohort_seq_is_whole(r.c, 1));
	rm(r.c, 1, 0, -1);
	grow(r.c, 0, 150, 1); /* the window has left the beginning */
	assert_false(cohort_seq_is_whole(r.c, 0));
	rm(r.c, 0, 96, 105);
	struct bytes b = save(r.c, 0);
	restore(r.c, 5, &b);
	for (cohort_pos p = 149; p > 60; p--) {
		struct cohort_err a = {0}, z = {0};
		assert_int_equal(cohort_seq_rm(r.c, 0, p, -1, &a), cohort_seq_rm(r.c, 5, p, -1, &z));
		assert_true(a.expected == z.expected && a.got == z.got);
		assert_int_equal(cohort_seq_pos_max(r.c, 0), cohort_seq_pos_max(r.c, 5));
	}
	free(b.p);
	rig_close(&r);
}

/* Two sequences that hold different cells of one block: the state of one has no cell of the other. */
static void nothing_of_others(void **state)
{
	struct rig r;
	uint8_t cell[4096];
	(void)state;
	rig_open(&r, COHORT_KV_F16, 0);
	grow(r.c, 0, 20, 1);
	cp(r.c, 0, 1);
	rm(r.c, 0, 10, -1);
	rm(r.c, 1, 0, 10);
	assert_int_equal(kv_table(r.c->memory.kv[0], 0)[0], kv_table(r.c->memory.kv[0], 1)[0]);
	struct bytes b = save(r.c, 0);
	const size_t n = forward_cell_bytes(&r.c->forward, 0);
	assert_true(n <= sizeof cell);
	for (int32_t slot = 0; slot < 20; slot++) {
		const struct be_span span = {kv_table(r.c->memory.kv[0], 0)[0], slot, 1};
		forward_cells_pass(&r.c->forward, 0, &span, 1, cell, false);
		if (slot < 10)
			assert_non_null(memmem(b.p, b.n, cell, n));
		else
			assert_null(memmem(b.p, b.n, cell, n));
	}
	free(b.p);
	rig_close(&r);
}

/* ---- Calling ---- */

static void state_calls_refuse_bad_arguments(void **state)
{
	struct rig r;
	struct cohort_err err;
	uint8_t out[64] = {1, 2, 3};
	const uint8_t untouched[64] = {1, 2, 3};
	size_t n = 0;
	(void)state;
	struct bytes all = small_state(&r, 0), one = save(r.c, 3);
	struct look before = look(r.c);
	assert_int_equal(cohort_state_size(NULL, 0), 0);
	assert_int_equal(cohort_state_save(NULL, 0, out, 64, &n, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "context"));
	assert_int_equal(cohort_state_restore(NULL, 0, one.p, one.n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_state_save_file(NULL, 0, "x", &err), COHORT_E_ARG);
	assert_int_equal(cohort_state_restore_file(NULL, 0, "x", &err), COHORT_E_ARG);
	static const cohort_seq bad[] = {-2, N_IDS, INT32_MAX, INT32_MIN};
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(cohort_state_size(r.c, bad[i]), 0);
		assert_int_equal(cohort_state_save(r.c, bad[i], out, 64, &n, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "seq-id");
		assert_int_equal(cohort_state_restore(r.c, bad[i], one.p, one.n, &err), COHORT_E_ARG);
		assert_int_equal(err.seq, bad[i]);
		assert_int_equal(cohort_state_save_file(r.c, bad[i], "x", &err), COHORT_E_ARG);
		assert_int_equal(cohort_state_restore_file(r.c, bad[i], "x", &err), COHORT_E_ARG);
	}
	assert_int_equal(cohort_state_save(r.c, 0, out, 64, NULL, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "n_out"));
	assert_int_equal(cohort_state_save(r.c, 0, NULL, 64, &n, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "out"));
	assert_int_equal(cohort_state_restore(r.c, 0, NULL, 64, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "bytes"));
	assert_int_equal(cohort_state_save_file(r.c, 0, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_state_restore_file(r.c, 0, NULL, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "path"));

	assert_int_equal(cohort_state_save(r.c, 3, NULL, 0, &n, &err), COHORT_E_LIMIT);
	assert_int_equal(n, one.n);
	n = 0;
	assert_int_equal(cohort_state_save(r.c, 3, out, sizeof out, &n, &err), COHORT_E_LIMIT);
	assert_int_equal(n, one.n);
	assert_memory_equal(out, untouched, sizeof out);
	uint8_t *exact = malloc(one.n);
	assert_non_null(exact);
	assert_int_equal(cohort_state_save(r.c, 3, exact, one.n - 1, &n, &err), COHORT_E_LIMIT);
	assert_int_equal(cohort_state_save(r.c, 3, exact, one.n, &n, NULL), COHORT_OK);
	free(exact);

	assert_int_equal(cohort_state_restore(r.c, 3, all.p, all.n, &err), COHORT_E_ARG);
	unchanged(r.c, &before);
	struct cohort_context *few = context_of(r.m, COHORT_KV_F16, 256, 3);
	assert_int_equal(cohort_state_restore(few, COHORT_SEQ_ALL, all.p, all.n, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-id");
	assert_int_equal(err.seq, 3);
	assert_int_equal(cohort_state_restore(few, COHORT_SEQ_ALL, one.p, one.n, &err), COHORT_E_ARG);
	restore(few, 2, &one);
	assert_int_equal(cohort_seq_pos_max(few, 2), 4);
	cohort_context_free(few);
	free(before.cells.p);
	free(all.p);
	free(one.p);
	rig_close(&r);
}

/* ---- Files ---- */

struct place {
	char dir[TEMP_MAX], path[96];
};

static struct place place_make(void)
{
	struct place p;
	assert_non_null(mkdtemp(temp_name(p.dir, "state")));
	snprintf(p.path, sizeof p.path, "%s/a", p.dir);
	return p;
}

static void put_file(const char *path, const struct bytes *b)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(b->p, 1, b->n, f), b->n);
	fclose(f);
}

static void file_refused(struct cohort_context *c, const char *path, enum cohort_status want, const char *word)
{
	struct cohort_err err;
	struct look before = look(c);
	assert_int_equal(cohort_state_restore_file(c, COHORT_SEQ_ALL, path, &err), want);
	if (!strstr(err.text, path) || !strstr(err.text, word))
		fail_msg("\"%s\" should have \"%s\"", err.text, word);
	unchanged(c, &before);
	free(before.cells.p);
}

static void state_files_save_and_restore(void **state)
{
	const struct place at = place_make();
	struct rig r;
	struct cohort_err err;
	char path[1100];
	(void)state;
	struct bytes b = small_state(&r, 40);
	ok(cohort_state_save_file(r.c, COHORT_SEQ_ALL, at.path, &err), &err);
	struct stat st;
	assert_int_equal(stat(at.path, &st), 0);
	assert_int_equal(st.st_size, b.n);
	grow(r.c, 0, 3, 5);
	ok(cohort_state_restore_file(r.c, COHORT_SEQ_ALL, at.path, &err), &err);
	struct bytes again = save(r.c, COHORT_SEQ_ALL);
	same_bytes(&again, &b);
	free(again.p);
	ok(cohort_state_save_file(r.c, 2, at.path, &err), &err);
	ok(cohort_state_restore_file(r.c, 6, at.path, &err), &err);
	assert_int_equal(cohort_seq_pos_max(r.c, 6), 3);

	snprintf(path, sizeof path, "%s/none", at.dir);
	file_refused(r.c, path, COHORT_E_IO, "No such file");
	assert_int_equal(cohort_state_restore_file(r.c, 0, "-", &err), COHORT_E_IO);
	file_refused(r.c, at.dir, COHORT_E_IO, "is a directory");
	for (size_t n = 0; n < b.n; n += n < 70 ? 1 : 97) {
		put_file(at.path, &(struct bytes){b.p, n});
		file_refused(r.c, at.path, COHORT_E_FORMAT, "at byte");
	}
	struct bytes longer = {malloc(b.n + 1), b.n + 1};
	assert_non_null(longer.p);
	memcpy(longer.p, b.p, b.n);
	longer.p[b.n] = 0;
	put_file(at.path, &longer);
	file_refused(r.c, at.path, COHORT_E_FORMAT, "should have");
	longer.p[b.n / 2] ^= 1;
	put_file(at.path, &(struct bytes){longer.p, b.n});
	file_refused(r.c, at.path, COHORT_E_FORMAT, "checksum");
	state_put(longer.p + STATE_AT_SIZE, 8, UINT64_MAX);
	put_file(at.path, &(struct bytes){longer.p, b.n});
	file_refused(r.c, at.path, COHORT_E_FORMAT, "should have");
	snprintf(path, sizeof path, "%s/tests/golden/data/llama.gguf", env_or("COHORT_SOURCE", "."));
	file_refused(r.c, path, COHORT_E_FORMAT, "not a saved state");
	assert_int_equal(cohort_state_save_file(r.c, 0, "/nonexistent-directory/a", &err), COHORT_E_IO);
	assert_int_equal(cohort_state_save_file(r.c, 0, at.dir, &err), COHORT_E_IO);

	/* Whatever fails while saving leaves the file of before. */
	put_file(at.path, &b);
	for (int64_t i = 0; i < 7; i++) {
		file_fail_after(i, ENOSPC);
		assert_int_equal(cohort_state_save_file(r.c, 2, at.path, &err), COHORT_E_IO);
		file_fail_after(-1, 0);
		assert_non_null(strstr(err.text, at.path));
		ok(cohort_state_restore_file(r.c, COHORT_SEQ_ALL, at.path, &err), &err);
	}
	for (int64_t i = 0; i < 6; i++) {
		file_fail_after(i, EIO);
		file_refused(r.c, at.path, COHORT_E_IO, strerror(EIO));
		file_fail_after(-1, 0);
	}
	unlink(at.path);
	assert_int_equal(rmdir(at.dir), 0); /* nothing was left behind */
	free(longer.p);
	free(b.p);
	rig_close(&r);
}

/* ---- Memory ---- */

enum way { SAVE, SAVE_FILE, RESTORE_ONE, RESTORE_ALL, RESTORE_FILE, N_WAYS };

static enum cohort_status go(enum way way, struct cohort_context *c, const struct bytes *all, const struct bytes *one,
		const char *path, struct cohort_err *err)
{
	static uint8_t out[1 << 18];
	size_t n;
	switch (way) {
	case SAVE: return cohort_state_save(c, COHORT_SEQ_ALL, out, sizeof out, &n, err);
	case SAVE_FILE: return cohort_state_save_file(c, COHORT_SEQ_ALL, path, err);
	case RESTORE_ONE: return cohort_state_restore(c, 1, one->p, one->n, err);
	case RESTORE_ALL: return cohort_state_restore(c, COHORT_SEQ_ALL, all->p, all->n, err);
	default: return cohort_state_restore_file(c, COHORT_SEQ_ALL, path, err);
	}
}

/* Each allocation fails in turn, in a context that never restored anything before: E_MEMORY, nothing changed, and
 * nothing leaks (the sanitizer build looks). */
static void state_calls_out_of_memory_at_every_point(void **state)
{
	const struct place at = place_make();
	struct rig r;
	struct cohort_err err;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 40);
	prepare(r.c);
	struct bytes all = save(r.c, COHORT_SEQ_ALL), one = save(r.c, 2);
	for (int way = 0; way < N_WAYS; way++) {
		bool done = false;
		for (int64_t k = 0; !done; k++) {
			struct cohort_context *c = context_of(r.m, COHORT_KV_F16, 1024, N_IDS);
			float want[N_VOCAB];
			grow(c, 1, 40, 1);
			grow(c, 3, 10, 2);
			probe(c, 1, want);
			put_file(at.path, &all);
			struct look before = look(c);
			mem_fail_after(k);
			const enum cohort_status st = go((enum way)way, c, &all, &one, at.path, &err);
			mem_fail_after(-1);
			done = st == COHORT_OK;
			if (!done) {
				assert_int_equal(st, COHORT_E_MEMORY);
				assert_int_equal(err.status, COHORT_E_MEMORY);
				unchanged(c, &before);
				check_next(c, 1, want);
			} else {
				assert_true(k >= 4);
				assert_true(memory_consistent(&c->memory));
			}
			free(before.cells.p);
			cohort_context_free(c);
		}
	}
	mem_fail_after(0);
	assert_int_equal(cohort_state_size(r.c, 0), 0);
	mem_fail_after(-1);
	unlink(at.path);
	assert_int_equal(rmdir(at.dir), 0);
	free(all.p);
	free(one.p);
	rig_close(&r);
}

/* Each allocation of opening a context fails in turn. Seen red with any of those of cpu_lora_init, of the buffers or of
 * the books taken for one that was there. */
static void contexts_out_of_memory_at_every_point(void **state)
{
	struct rig r;
	struct cohort_err err;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 40);
	const struct cohort_context_params p = r.c->p;
	for (int64_t k = 0;; k++) {
		struct cohort_context *c = NULL;
		const uint64_t before = mem_count();
		mem_fail_after(k);
		const enum cohort_status st = cohort_context_open(r.m, &p, &c, &err);
		mem_fail_after(-1);
		if (st) {
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_null(c);
			continue;
		}
		assert_true(mem_count() - before <= (uint64_t)k && k >= 20);
		grow(c, 0, 50, 1);
		cohort_context_free(c);
		break;
	}
	rig_close(&r);
}

static bool abort_always(void *user)
{
	++*(int *)user;
	return true;
}

/* The weights are read before the first state, which may take long: aborted, nothing is written or changed, and the
 * next call reads them again. Seen red with the status ignored in each of the calls. */
static void state_calls_are_aborted(void **state)
{
	const struct place at = place_make();
	struct rig r;
	struct cohort_err err;
	int n = 0;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 40);
	prepare(r.c);
	struct bytes all = save(r.c, COHORT_SEQ_ALL), one = save(r.c, 2);
	for (int way = 0; way < N_WAYS; way++) {
		struct cohort_context *c = context_of(r.m, COHORT_KV_F16, 1024, N_IDS);
		char path[96];
		snprintf(path, sizeof path, "%s", at.path);
		if (way == RESTORE_FILE)
			put_file(path, &all);
		grow(c, 1, 40, 1);
		const struct cohort_context_params p = c->p;
		c->p.abort = abort_always;
		c->p.abort_user = &n;
		assert_int_equal(go((enum way)way, c, &all, &one, path, &err), COHORT_ABORTED);
		if (way == RESTORE_FILE)
			assert_memory_equal(err.text, path, strlen(path));
		assert_non_null(strstr(err.text, "aborted by the caller"));
		assert_int_equal(n, way + 1);
		assert_int_equal(access(at.path, F_OK), way == RESTORE_FILE ? 0 : -1);
		c->p = p;
		assert_int_equal(cohort_seq_pos_max(c, 1), 39);
		assert_int_equal(cohort_seq_pos_max(c, 0), -1);
		ok(go((enum way)way, c, &all, &one, at.path, &err), &err);
		if (way == SAVE_FILE)
			unlink(at.path);
		cohort_context_free(c);
	}
	unlink(at.path);
	assert_int_equal(rmdir(at.dir), 0);
	free(all.p);
	free(one.p);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_goes_on),
		cmocka_unit_test(all_go_on),
		cmocka_unit_test(empty_ones),
		cmocka_unit_test(as_documented),
		cmocka_unit_test(windows_stay_as_they_are),
		cmocka_unit_test(nothing_of_others),
		cmocka_unit_test(state_calls_refuse_bad_arguments),
		cmocka_unit_test(state_files_save_and_restore),
		cmocka_unit_test(state_calls_out_of_memory_at_every_point),
		cmocka_unit_test(contexts_out_of_memory_at_every_point),
		cmocka_unit_test(state_calls_are_aborted),
	};
	return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
