/* Saved states that are refused, because of their bytes, for want of room or because they are of another kind, and
 * change nothing.
 *
 * Shown red by
 *  - not comparing the checksum: changed_states_are_refused; or the size: sealed_mutations
 *  - importing without the dry run: room_in_one_group
 *  - leaving the tensors, or only their data, out of the fingerprint: other_kinds
 *  - not comparing the words of blocks with the tables, the order of ids, windows or the count of cells:
 *    sealed_mutations
 *  - not comparing the count of sequences, groups or table entries with the bytes left, or block numbers with their
 *    count: sealed_mutations in the sanitizer build
 *  - not comparing where the groups of a sequence begin: groups_begin_alike
 *  - leaving out any one check of flags, positions, ids, the count of blocks or the end: refusals_say_why */
#include "effort.h"
#include "state_rig.h"

static void restore_refused_without_room(void **state)
{
	struct rig r;
	struct cohort_err err;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 0);
	grow(r.c, 0, 100, 1);
	struct bytes b = save(r.c, 0);
	/* Five blocks: one taken by 1, four needed. */
	struct cohort_context *small = context_of(r.m, COHORT_KV_F16, 5 * 32, N_IDS);
	grow(small, 1, 20, 2);
	restore(small, 0, &b);
	grow(small, 1, 3, 2);
	struct look before = look(small);
	assert_int_equal(cohort_state_restore(small, 2, b.p, b.n, &err), COHORT_NO_ROOM);
	unchanged(small, &before);
	assert_int_equal(cohort_state_restore(small, 1, b.p, b.n, &err), COHORT_NO_ROOM);
	unchanged(small, &before);
	restore(small, 0, &b); /* what it replaces is room enough */
	struct bytes after = save(small, COHORT_SEQ_ALL);
	same_bytes(&after, &before.cells);
	free(after.p);
	free(before.cells.p);
	free(b.p);
	cohort_context_free(small);
	rig_close(&r);
}

/* The windowed group takes its image, the other one does not: neither changes. */
static void room_in_one_group(void **state)
{
	struct rig r;
	struct cohort_err err;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 40);
	assert_int_equal(r.c->n_groups, 2);
	grow(r.c, 0, 150, 1);
	assert_true(kv_pos_first(r.c->memory.kv[0], 0) > 0);
	struct bytes one = save(r.c, 0), all = save(r.c, COHORT_SEQ_ALL);
	struct cohort_context *small = context_of(r.m, COHORT_KV_F16, 4 * 32, N_IDS);
	grow(small, 0, 30, 2);
	struct look before = look(small);
	assert_int_equal(cohort_state_restore(small, 0, one.p, one.n, &err), COHORT_NO_ROOM);
	unchanged(small, &before);
	assert_int_equal(cohort_state_restore(small, COHORT_SEQ_ALL, all.p, all.n, &err), COHORT_NO_ROOM);
	unchanged(small, &before);
	free(before.cells.p);
	free(one.p);
	free(all.p);
	cohort_context_free(small);
	rig_close(&r);
}

static void refused(struct cohort_context *c, const struct bytes *b, const struct look *before)
{
	struct cohort_err err;
	/* A copy of its own, so that reading past the end is seen. */
	struct bytes d = dup_of(b);
	const enum cohort_status st = cohort_state_restore(c, COHORT_SEQ_ALL, d.p, d.n, &err);
	assert_true(st == COHORT_E_FORMAT || st == COHORT_E_UNSUPPORTED);
	assert_int_equal(err.status, st);
	assert_true(st == COHORT_E_UNSUPPORTED || (err.offset >= 0 && (size_t)err.offset <= d.n));
	books_unchanged(c, before);
	free(d.p);
}

static void changed_states_are_refused(void **state)
{
	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct rig r;
		struct bytes b = small_state(&r, windows[w]);
		float want[N_VOCAB];
		grow(r.c, 2, 3, 5); /* not what the state says */
		probe(r.c, 2, want);
		struct look before = look(r.c);
		for (size_t n = 0; n < b.n; n++)
			refused(r.c, &(struct bytes){b.p, n}, &before);
		for (size_t i = 0; i < b.n; i++)
			for (unsigned bit = 1; bit < 256; bit <<= 3) {
				b.p[i] ^= (uint8_t)bit;
				refused(r.c, &b, &before);
				b.p[i] ^= (uint8_t)bit;
			}
		unchanged(r.c, &before);
		check_next(r.c, 2, want);
		restore(r.c, COHORT_SEQ_ALL, &b);
		free(before.cells.p);
		free(b.p);
		rig_close(&r);
	}
}

/* The same with a right checksum: refused or taken, but the books are sound and a refusal changes nothing. */
static void try_sealed(struct cohort_context *c, struct bytes *b, const struct look *before, size_t *n_taken)
{
	struct cohort_err err;
	struct bytes d = dup_of(b);
	state_seal(d.p, d.n);
	const enum cohort_status st = cohort_state_restore(c, COHORT_SEQ_ALL, d.p, d.n, &err);
	if (st) {
		assert_true(st == COHORT_E_FORMAT || st == COHORT_E_UNSUPPORTED || st == COHORT_E_ARG ||
				st == COHORT_NO_ROOM);
		assert_true(st != COHORT_E_FORMAT || (err.offset >= 0 && (size_t)err.offset <= d.n));
		books_unchanged(c, before);
	} else {
		assert_true(memory_consistent(&c->memory));
		struct bytes again = save(c, COHORT_SEQ_ALL);
		/* Every state has one encoding only. A state of one sequence becomes one of all, though. */
		if (state_get(d.p + STATE_AT_FLAGS, 4) == 1)
			same_bytes(&again, &d);
		free(again.p);
		for (cohort_seq s = 0; s < N_IDS - 1; s++)
			if (cohort_seq_pos_max(c, s) >= 0 && cohort_seq_pos_max(c, s) < 255)
				assert_int_equal(cohort_decode_one(c, 9, cohort_seq_pos_max(c, s) + 1, s, true, NULL),
						COHORT_OK);
		assert_true(memory_consistent(&c->memory));
		restore(c, COHORT_SEQ_ALL, &before->cells);
		++*n_taken;
	}
	free(d.p);
}

/* Whether byte `at` of a sound state belongs to a cell. */
static bool in_cells(const struct bytes *b, size_t at)
{
	const size_t n_groups = state_get(b->p + STATE_AT_N_GROUPS, 4), n_seqs = state_get(b->p + STATE_AT_N_SEQS, 4);
	const uint8_t *seqs = b->p + STATE_AT_GROUPS + STATE_GROUP * n_groups;
	const size_t n_seq = STATE_SEQ + STATE_SEQ_GROUP * n_groups;
	const uint8_t *p = seqs + n_seqs * n_seq;

	for (size_t g = 0; g < n_groups; g++) {
		const uint8_t *group = b->p + STATE_AT_GROUPS + STATE_GROUP * g;
		size_t n_cells = 0;
		for (size_t i = 0; i < n_seqs; i++) {
			const uint8_t *q = seqs + i * n_seq;
			const uint64_t first = state_get(q + STATE_SEQ + STATE_SEQ_GROUP * g + 4, 4);
			p += 8 * (state_get(q + 4, 4) / 32 - first / 32 + 1);
		}
		for (size_t i = 0; i < state_get(group + 4, 4); i++, p += 4)
			n_cells += (size_t)__builtin_popcountll(state_get(p, 4));
		const size_t from = (size_t)(p - b->p), n = n_cells * state_get(group + 8, 8);
		if (at >= from && at < from + n)
			return true;
		p += n;
	}
	assert_true(p + STATE_SUM == b->p + b->n);
	return false;
}

static void sealed_mutations(void **state)
{
	static const uint32_t values[] = {0, 1, 2, 3, 31, 32, 255, 256, 1u << 16, 1u << 24, INT32_MAX, 1u << 31,
			UINT32_MAX - 1, UINT32_MAX};
	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct rig r;
		struct bytes b = small_state(&r, windows[w]);
		const size_t apart = effort_is("short") ? 3 : 1;
		size_t n_taken = 0;
		struct look before;
		/* Restored once, so that restoring again gives the same books. */
		restore(r.c, COHORT_SEQ_ALL, &b);
		restore(r.c, COHORT_SEQ_ALL, &b);
		before = look(r.c);
		for (size_t i = 0; i < b.n - STATE_SUM; i += 4) {
			uint8_t old[4];
			if (in_cells(&b, i))
				continue;
			memcpy(old, b.p + i, 4);
			for (size_t v = 0; v < 2 * sizeof values / sizeof *values; v += apart) {
				const uint32_t was = (uint32_t)state_get(old, 4), x = values[v / 2];
				state_put(b.p + i, 4, v % 2 ? was + x : x);
				try_sealed(r.c, &b, &before, &n_taken);
				before.books = memory_hash(&r.c->memory);
			}
			memcpy(b.p + i, old, 4);
		}
		for (size_t i = 0; i < b.n - STATE_SUM; i += apart)
			for (unsigned bit = 1; bit < 256; bit <<= in_cells(&b, i) ? 4 : 1) {
				b.p[i] ^= (uint8_t)bit;
				try_sealed(r.c, &b, &before, &n_taken);
				before.books = memory_hash(&r.c->memory);
				b.p[i] ^= (uint8_t)bit;
			}
		for (size_t n = 0; n < b.n; n += apart) {
			struct bytes cut = {b.p, n};
			struct bytes d = dup_of(&cut);
			if (n >= STATE_AT_MODEL + STATE_SUM)
				state_put(d.p + STATE_AT_SIZE, 8, n);
			const size_t n_before = n_taken;
			try_sealed(r.c, &d, &before, &n_taken);
			assert_int_equal(n_taken, n_before);
			free(d.p);
		}
		assert_true(n_taken > 0);
		unchanged(r.c, &before);
		free(before.cells.p);
		free(b.p);
		rig_close(&r);
	}
}

/* Tables of one group from another state, and the rest as it should be: groups that disagree about a sequence would be
 * at odds at its next change. Seen red without the comparison of groups. */
static void groups_agree(void **state)
{
	struct rig r;
	struct cohort_err err;
	(void)state;
	rig_open(&r, COHORT_KV_F16, 40);
	grow(r.c, 0, 10, 1);
	struct bytes whole = save(r.c, 0);
	rm(r.c, 0, 5, 8);
	struct bytes gap = save(r.c, 0);
	const size_t head = STATE_AT_GROUPS + 2 * STATE_GROUP + STATE_SEQ + 2 * STATE_SEQ_GROUP;
	const size_t n_cell = state_get(whole.p + STATE_AT_GROUPS + 8, 8);
	const size_t n_whole = 8 + 4 + 10 * n_cell, n_gap = 8 + 4 + 7 * n_cell; /* a table entry, a word, cells */
	struct bytes d = {malloc(whole.n), head + n_whole + n_gap + STATE_SUM};
	assert_non_null(d.p);
	assert_int_equal(whole.n, head + 2 * n_whole + STATE_SUM);
	memcpy(d.p, whole.p, head + n_whole);
	memcpy(d.p + head + n_whole, gap.p + head + n_gap, n_gap);
	state_put(d.p + STATE_AT_SIZE, 8, d.n);
	state_seal(d.p, d.n);
	struct look before = look(r.c);
	assert_int_equal(cohort_state_restore(r.c, 0, d.p, d.n, &err), COHORT_E_FORMAT);
	assert_non_null(strstr(err.text, "different cells of sequence 0"));
	unchanged(r.c, &before);
	free(before.cells.p);
	free(d.p);
	free(gap.p);
	free(whole.p);
	rig_close(&r);
}

/* A group that begins behind another, of which nothing tells but the number: what is removed from there on would empty
 * one and not the other, and no row could be decoded any more. */
static void groups_begin_alike(void **state)
{
	static const cohort_pos later[] = {1, 90};
	(void)state;

	for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
		struct rig r;
		struct cohort_err err;
		rig_open(&r, COHORT_KV_F16, 40);
		grow(r.c, 0, 150, 1);
		assert_true(kv_pos_gone(r.c->memory.kv[0], 0) >= 90 && kv_pos_gone(r.c->memory.kv[1], 0) == 0);
		struct bytes b = save(r.c, 0);
		struct look before = look(r.c);
		uint8_t *min = b.p + STATE_AT_GROUPS + 2 * STATE_GROUP + STATE_SEQ;
		assert_int_equal(state_get(min, 4), 0);
		state_put(min, 4, (uint64_t)later[i]);
		state_seal(b.p, b.n);
		assert_int_equal(cohort_state_restore(r.c, 0, b.p, b.n, &err), COHORT_E_FORMAT);
		if (!strstr(err.text, "different beginnings of sequence 0"))
			fail_msg("case %zu: \"%s\"", i, err.text);
		unchanged(r.c, &before);
		free(before.cells.p);
		free(b.p);
		rig_close(&r);
	}
}

/* One wrong number in a state of sequences 0, 2 and 3 (two blocks of one group), and what is said of it. */
static void refusals_say_why(void **state)
{
	enum { SEQS = STATE_AT_GROUPS + STATE_GROUP, TABLES = SEQS + 3 * 20, WORDS = TABLES + 3 * 8 };
	static const struct {
		size_t at;
		uint32_t v;
		enum cohort_status status;
		int64_t offset;
		const char *word;
	} cases[] = {
		{0, 1, COHORT_E_FORMAT, 0, "not a saved state"},
		{STATE_AT_FLAGS, 3, COHORT_E_FORMAT, STATE_AT_FLAGS, "flags 0x3"},
		{STATE_AT_FLAGS, 0, COHORT_E_FORMAT, STATE_AT_N_SEQS, "one sequence and lists 3"},
		{STATE_AT_SIZE, 7, COHORT_E_FORMAT, STATE_AT_SIZE, "should have 7 bytes"},
		{STATE_AT_N_SEQS, 1 << 30, COHORT_E_FORMAT, SEQS, "ends within its list of sequences"},
		{STATE_AT_GROUPS + 4, UINT32_MAX, COHORT_E_FORMAT, TABLES, "ends within its blocks"},
		{SEQS, UINT32_MAX, COHORT_E_FORMAT, SEQS, "negative"},
		{SEQS, 2, COHORT_E_FORMAT, SEQS + 20, "does not come after"},
		{SEQS + 2 * 20, 8, COHORT_E_ARG, -1, "the state holds sequence 8"},
		{SEQS + 4, 256, COHORT_E_FORMAT, SEQS, "cannot have positions"},
		{SEQS + 4, INT32_MAX, COHORT_E_FORMAT, SEQS, "cannot have positions"},
		{SEQS + 4, UINT32_MAX, COHORT_E_FORMAT, SEQS, "cannot have positions"},
		{SEQS + 8, 4, COHORT_E_FORMAT, SEQS, "cannot have positions"},
		{SEQS + 12, 4, COHORT_E_FORMAT, SEQS, "cannot have positions"},
		{SEQS + 4, 255, COHORT_E_FORMAT, WORDS, "names block 15 of 2"},
		{TABLES, 2, COHORT_E_FORMAT, TABLES, "names block 2 of 2"},
		{TABLES + 4, 0, COHORT_E_FORMAT, TABLES, "names block 0 of 2"},
		{TABLES + 4, 0x1f, COHORT_E_FORMAT, WORDS, "block 0 has other cells"},
		{TABLES + 12, 0x3, COHORT_E_FORMAT, TABLES, "first or last cell"},
		{WORDS + 4, 0, COHORT_E_FORMAT, WORDS + 4, "block 1 has other cells"},
	};
	struct rig r;
	struct cohort_err err;
	(void)state;
	struct bytes b = small_state(&r, 0);
	struct look before = look(r.c);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct bytes d = dup_of(&b);
		state_put(d.p + cases[i].at, 4, cases[i].v);
		state_seal(d.p, d.n);
		const enum cohort_status st = cohort_state_restore(r.c, COHORT_SEQ_ALL, d.p, d.n, &err);
		if (st != cases[i].status || err.offset != cases[i].offset || !strstr(err.text, cases[i].word))
			fail_msg("case %zu: %s: \"%s\" at %lld", i, cohort_status_name(st), err.text,
					(long long)err.offset);
		unchanged(r.c, &before);
		free(d.p);
	}
	/* More than there should be. */
	struct bytes longer = {calloc(1, b.n + 32), b.n};
	assert_non_null(longer.p);
	memcpy(longer.p, b.p, b.n - STATE_SUM);
	for (longer.n = b.n + 1; longer.n <= b.n + 32; longer.n++) {
		state_put(longer.p + STATE_AT_SIZE, 8, longer.n);
		state_seal(longer.p, longer.n);
		assert_int_equal(cohort_state_restore(r.c, COHORT_SEQ_ALL, longer.p, longer.n, &err), COHORT_E_FORMAT);
		assert_non_null(strstr(err.text, "behind its end"));
		unchanged(r.c, &before);
		memset(longer.p + b.n - STATE_SUM, 0, 32 + STATE_SUM);
	}
	free(longer.p);
	free(before.cells.p);
	free(b.p);
	rig_close(&r);
}

/* Well-formed, but not for this context; the text says why. */
static void other(struct cohort_context *c, const struct bytes *b, const char *a_word, const char *another)
{
	struct cohort_err err;
	struct look before = look(c);
	assert_int_equal(cohort_state_restore(c, COHORT_SEQ_ALL, b->p, b->n, &err), COHORT_E_UNSUPPORTED);
	if (!strstr(err.text, a_word) || !strstr(err.text, another))
		fail_msg("\"%s\" should have \"%s\" and \"%s\"", err.text, a_word, another);
	unchanged(c, &before);
	free(before.cells.p);
}

/* The state with another value in a 4-byte field, sealed. */
static void other_field(struct cohort_context *c, const struct bytes *b, size_t at, uint32_t v, const char *a_word,
		const char *another)
{
	struct bytes d = dup_of(b);
	state_put(d.p + at, 4, v);
	state_seal(d.p, d.n);
	other(c, &d, a_word, another);
	free(d.p);
}

static void other_kinds(void **state)
{
	const struct shape shape = {50, 64, 2, 4, 2, 16, 16, 96, 16, 64, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
			false, NULL, NULL, NULL};
	struct rig r;
	struct cohort_err err;
	(void)state;
	struct bytes b = small_state(&r, 40);
	other_field(r.c, &b, STATE_AT_VERSION, 1, "saved by an older version", "format 1");
	other_field(r.c, &b, STATE_AT_VERSION, 3, "version 3", "version 2");
	other_field(r.c, &b, STATE_AT_BLOCK, 16, "16", "32");
	other_field(r.c, &b, STATE_AT_N_GROUPS, 1, "1 groups", "2");
	other_field(r.c, &b, STATE_AT_GROUPS, 41, "41", "40");
	other_field(r.c, &b, STATE_AT_GROUPS + 8, 100, "100", "128");
	other_field(r.c, &b, STATE_AT_TYPE, 77, "unknown (77)", "f16");
	for (size_t i = 1; i < 3; i++) {
		struct cohort_context *c = context_of(r.m, types[i], 256, N_IDS);
		grow(c, 1, 5, 1);
		other(c, &b, "f16", i == 1 ? "f32" : "q8_0");
		cohort_context_free(c);
	}
	struct rig third = {.m = model_of("llama3.gguf")};
	third.c = context_of(third.m, COHORT_KV_F16, 256, N_IDS);
	other(third.c, &b, "another model", "");
	rig_close(&third);
	free(b.p);
	rig_close(&r);

	/* Models of the same shape. */
	struct rig synth[2];
	for (uint64_t i = 0; i < 2; i++) {
		char *path = synth_write(&shape, 3 + i);
		ok(cohort_model_open(path, NULL, &synth[i].m, &err), &err);
		synth[i].c = context_of(synth[i].m, COHORT_KV_F16, 256, N_IDS);
		unlink(path);
		free(path);
	}
	b = save(synth[0].c, COHORT_SEQ_ALL);
	other(synth[1].c, &b, "another model", "");
	restore(synth[0].c, COHORT_SEQ_ALL, &b);
	free(b.p);
	rig_close(&synth[0]);
	rig_close(&synth[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restore_refused_without_room),
		cmocka_unit_test(room_in_one_group),
		cmocka_unit_test(changed_states_are_refused),
		cmocka_unit_test(sealed_mutations),
		cmocka_unit_test(groups_agree),
		cmocka_unit_test(groups_begin_alike),
		cmocka_unit_test(refusals_say_why),
		cmocka_unit_test(other_kinds),
	};
	return cmocka_run_group_tests_name("state_refuse", tests, NULL, NULL);
}
