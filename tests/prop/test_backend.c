/* A second backend gives the bits of the first: tests/plain_backend.c, which relies on nothing but the interface, on
 * its own and beside the CPU with the layers divided between them.
 *
 * The same calls run on each device: prompts in chunks, copies, shifts, gaps, tails that go, checkpoints, saved states.
 * All that it returns (statuses, lengths, logits, states) is compared with what the CPU returns, by memcmp.
 *
 * Shown red by planted faults, in the library: no wait at the end of a ubatch (forward_run), the host's copy of x used
 * after x was written again, or not all of its rows handed over (hand_over), cells of all devices saved as the first
 * one's (forward_cells_pass). In the backend: a window one position longer, rows of products or of the embedding read
 * from the host (which has given them back), adapters of rows not narrowed with the rows. */
#include "arch_names.h"
#include "backend_case.h"
#include "effort.h"

static void decode(struct telling *t)
{
	struct cohort_err err;

	if (cohort_decode(t->c, &t->b, &err))
		fail_msg("%s", err.text);
	note_outputs(t);
	cohort_batch_reset(&t->b);
}

/* n more tokens of a sequence; every third row, and the last, has output, some without logits. */
static void go_on(struct telling *t, cohort_seq seq, int32_t token, int32_t n)
{
	const cohort_pos at = cohort_seq_pos_max(t->c, seq) + 1;
	struct cohort_batch_raw raw;

	for (int32_t i = 0; i < n; i++)
		add(t, token + i, at + i, &seq, 1, i % 3 == 0 || i + 1 == n);
	cohort_batch_raw_get(&t->b, &raw);
	for (int32_t i = 6; i < n; i += 9)
		raw.output[i] = COHORT_ROW_EMBEDDING;
	decode(t);
}

/* Rows that are vectors, of an empty sequence. */
static void tell_vectors(struct telling *t, cohort_seq seq)
{
	struct cohort_batch tokens = t->b;
	float row[1024];

	assert_int_equal(cohort_seq_rm(t->c, seq, 0, -1, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_init(&t->b, 8, t->info.n_embd, 1, NULL), COHORT_OK);
	for (cohort_pos pos = 0; pos < 5; pos++) {
		for (int32_t i = 0; i < t->info.n_embd; i++)
			row[i] = (float)((i * 7 + pos * 13) % 31 - 15) / 16;
		assert_int_equal(cohort_batch_add_embd(&t->b, row, &pos, &seq, 1, pos > 1, NULL), COHORT_OK);
	}
	decode(t);
	cohort_batch_release(&t->b);
	t->b = tokens;
}

/* Chunks, then everything that moves, copies or forgets cells; what a model cannot do is refused alike. */
static void tell_decoder(struct telling *t)
{
	const cohort_seq both[] = {0, 1}, zero = 0, one = 1;
	const int32_t tail = t->info.n_ctx_train < 100 ? 10 : 20;
	uint8_t *bytes;

	for (int32_t i = 0; i < 3; i++)
		add(t, i, i, both, 2, 1);
	add(t, 50, 3, &zero, 1, 1);
	add(t, 51, 3, &one, 1, 1);
	decode(t);
	go_on(t, 2, 0, 37);
	go_on(t, 2, 37, tail);
	note_number(t->r, cohort_seq_cp(t->c, 2, 3, 0, -1, NULL));
	note_number(t->r, cohort_seq_cp(t->c, 2, 4, 0, 41, NULL));
	note_number(t->r, cohort_seq_checkpoint(t->c, 3, NULL));
	go_on(t, 3, 7, 9);
	note_number(t->r, cohort_seq_rm(t->c, 3, 37 + tail, -1, NULL));
	go_on(t, 3, 8, 3);
	note_number(t->r, cohort_seq_rm(t->c, 4, 9, 14, NULL)); /* a gap */
	if (cohort_seq_pos_max(t->c, 4) >= 0)
		go_on(t, 4, 20, 5);
	note_number(t->r, cohort_seq_add(t->c, 2, 20, -1, -7, NULL));
	note_number(t->r, cohort_seq_rm(t->c, 2, 0, 3, NULL));
	note_number(t->r, cohort_seq_add(t->c, 2, 0, -1, -3, NULL));
	go_on(t, 2, 33, 4);
	note_books(t);
	note_state(t);
	const size_t n = save(t, 2, &bytes);
	note_number(t->r, cohort_state_restore(t->c, 5, bytes, n, NULL));
	free(bytes);
	go_on(t, 5, 60, 3);
	tell_vectors(t, 1);
	for (cohort_seq s = 0; s < SEQ_MAX; s++)
		add(t, 70 + s, cohort_seq_pos_max(t->c, s) + 1, &s, 1, 1);
	decode(t);
	note_books(t);
}

/* Texts of different lengths together, their vectors and the pooled ones. */
static void tell_encoder(struct telling *t)
{
	static const int32_t lengths[] = {7, 1, 30, 12};
	struct cohort_err err;

	for (cohort_seq s = 0; s < 4; s++)
		for (int32_t i = 0; i < lengths[s]; i++)
			add(t, 3 * s + i, i, &s, 1, true);
	if (cohort_encode(t->c, &t->b, &err))
		fail_msg("%s", err.text);
	note_outputs(t);
	for (cohort_seq s = 0; s < 4; s++)
		note(t->r, cohort_embeddings_seq_get(t->c, s, NULL), (size_t)t->info.n_embd * sizeof(float));
	cohort_batch_reset(&t->b);
}

static struct record tell(const struct setting *s)
{
	struct record r = {0};
	struct telling t;

	telling_open(&t, s, &r);
	if (t.info.encoder)
		tell_encoder(&t);
	else
		tell_decoder(&t);
	telling_close(&t);
	return r;
}

static void compare(const struct setting *s, const struct record *want)
{
	struct record got = tell(s);
	size_t i = 0;

	while (i < got.n && i < want->n && got.bytes[i] == want->bytes[i])
		i++;
	if (got.n != want->n || i < got.n)
		fail_msg("%s on %s, cache %d, ubatches of %d: byte %zu of %zu and %zu differs", s->path, s->device,
				(int)s->kv, s->n_ubatch, i, got.n, want->n);
	free(got.bytes);
}

/* ---- Cases ---- */

/* All types of cache; of most models one, unless there is time. */
static void plain_gives_the_bits_of_the_cpu(void **state)
{
	static const int32_t ubatch[] = {64, 7, 30};
	static const char *const all[] = {"gemma3", "mamba", "gpt-oss", "qwen2moe", "llama", "bloom"};
	const char *const name = *state;
	bool every = effort_is("long");
	char path[600];

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		every |= strcmp(name, all[i]) == 0;
	for (int kv = COHORT_KV_F16; kv <= COHORT_KV_Q8_0; kv++) {
		if (!every && kv != (name[0] + name[strlen(name) - 1]) % 3)
			continue;
		struct setting s = {.path = model_path(path, sizeof path, name),
				.device = "cpu",
				.kv = (enum cohort_kv_type)kv,
				.n_ubatch = ubatch[kv],
				.split = (enum cohort_split)kv,
				.no_mmap = kv == 1};
		struct record want = tell(&s);
		s.device = "plain0";
		compare(&s, &want);
		free(want.bytes);
	}
}

static int32_t n_layers(const char *path)
{
	struct cohort_model_info info;
	struct cohort_model *m;
	struct cohort_err err;

	if (cohort_model_open(path, NULL, &m, &err))
		fail_msg("%s", err.text);
	cohort_model_info_get(m, &info);
	cohort_model_free(m);
	return info.n_layer;
}

/* Every place to cut, between backends and between devices of one; and a device for each layer. */
static void any_division_gives_the_same_bits(void **state)
{
	char path[600], list[200];
	struct setting s = {.path = path, .device = "cpu", .kv = COHORT_KV_F16, .n_ubatch = 11};
	const char *const name = (const char *)*state + strlen("divided ");
	const struct {
		const char *first, *second;
	} pairs[] = {{"cpu", "plain0"}, {"plain0", "cpu"}, {"plain1", "plain0"}};
	int32_t n_layer;

	model_path(path, sizeof path, name);
	n_layer = n_layers(path);
	struct record want = tell(&s);
	s.device = list;
	for (int32_t at = 1; at < n_layer; at++)
		for (size_t i = 0; i < 3; i++) {
			s.kv = COHORT_KV_F16;
			snprintf(list, sizeof list, "%s:%d,%s", pairs[i].first, at, pairs[i].second);
			s.no_mmap = i == 1;
			compare(&s, &want);
		}
	size_t n = 0;
	for (int32_t i = 0; i + 1 < n_layer && i < 6; i++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s:1,", i % 3 == 1 ? "cpu" : i % 3 ? "plain1"
												     : "plain0");
	snprintf(list + n, sizeof list - n, "plain0");
	compare(&s, &want);
	free(want.bytes);
}

/* A list that leaves a device without layers, or the layers without a device. */
static void lists_that_divide_nothing(void **state)
{
	static const char *const lists[] = {"cpu:0,plain0", "plain0:2,cpu", "plain0:1,cpu:0,plain1",
			"plain0:1,cpu:1,cpu",
			"cpu:3,plain0", "plain0:1,cpu:2", "plain0,cpu", "plain0:,cpu", "plain2"};
	struct cohort_model_params mp;
	struct cohort_model *m;
	struct cohort_err err;
	char path[600];
	(void)state;

	model_path(path, sizeof path, "llama");
	assert_int_equal(n_layers(path), 2);
	cohort_model_params_init(&mp);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		mp.device = lists[i];
		assert_int_equal(cohort_model_open(path, &mp, &m, &err), COHORT_E_ARG);
		assert_non_null(strstr(err.text, "device"));
	}
}

/* Saved on one division, restored on another: the same bytes, and the same bits after them. */
static void states_go_from_device_to_device(void **state)
{
	static const char *const lists[] = {"cpu", "plain0", "cpu:1,plain0", "plain1:1,cpu", "plain0:1,plain1"};
	enum { N = sizeof lists / sizeof *lists };
	static const char *const names[] = {"gemma3", "mamba"};
	uint8_t *bytes[N];
	(void)state;

	for (size_t m = 0; m < 2; m++) {
		struct record want = {0};
		size_t n = 0;
		char path[600];
		model_path(path, sizeof path, names[m]);
		for (size_t i = 0; i < N; i++) {
			struct record r = {0};
			struct telling t;
			const struct setting on = {
					.path = path, .device = lists[i], .kv = COHORT_KV_Q8_0, .n_ubatch = 20};
			telling_open(&t, &on, &r);
			tell_decoder(&t);
			const size_t n_bytes = save(&t, COHORT_SEQ_ALL, &bytes[i]);
			if (i)
				assert_int_equal(n_bytes, n);
			assert_memory_equal(bytes[i], bytes[0], n_bytes);
			n = n_bytes;
			telling_close(&t);
			free(r.bytes);
		}
		for (size_t i = 0; i < N; i++) {
			struct record r = {0};
			struct telling t;
			const struct setting on = {
					.path = path, .device = lists[i], .kv = COHORT_KV_Q8_0, .n_ubatch = 9};
			telling_open(&t, &on, &r);
			assert_int_equal(cohort_state_restore(t.c, COHORT_SEQ_ALL, bytes[(i + 1) % N], n, NULL),
					COHORT_OK);
			for (cohort_seq q = 0; q < SEQ_MAX; q++)
				go_on(&t, q, 5 * q, 4);
			note_state(&t);
			if (i == 0)
				want = r;
			assert_int_equal(r.n, want.n);
			assert_memory_equal(r.bytes, want.bytes, r.n);
			if (i)
				free(r.bytes);
			telling_close(&t);
		}
		for (size_t i = 0; i < N; i++)
			free(bytes[i]);
		free(want.bytes);
	}
}

/* Of the model, and of sequences, several in a batch. */
static void adapters_of_rows_and_of_models(void **state)
{
	static const char *const lists[] = {"cpu", "plain0", "plain0:1,cpu", "cpu:1,plain0"};
	char path[600], lora[600];
	struct record kept[2] = {{0}};
	(void)state;

	model_path(path, sizeof path, "llama-base");
	model_path(lora, sizeof lora, "llama-lora");
	for (size_t i = 0; i < 8; i++) {
		struct setting s = {.path = path, .device = lists[i / 2], .n_ubatch = 13, .no_mmap = i % 3 == 1};
		struct cohort_adapter *a, *b;
		struct record r = {0};
		struct telling t;
		s.adapter = i % 2 ? lora : NULL;
		telling_open(&t, &s, &r);
		if (cohort_adapter_open(t.m, lora, &a, NULL) || cohort_adapter_open(t.m, lora, &b, NULL))
			fail();
		for (cohort_seq q = 0; q < SEQ_MAX; q++)
			assert_int_equal(cohort_seq_adapter_set(t.c, q, q % 3 == 0 ? NULL : q % 3 == 1 ? a
												       : b,
							 0.25f * (float)q, NULL),
					COHORT_OK);
		for (int32_t round = 0; round < 3; round++) {
			for (cohort_seq q = 0; q < SEQ_MAX; q++)
				for (int32_t k = 0; k < 3; k++)
					add(&t, 3 * q + k, 3 * round + k, &q, 1, (q + k) % 2);
			decode(&t);
		}
		cohort_batch_release(&t.b);
		cohort_context_free(t.c);
		cohort_adapter_free(a);
		cohort_adapter_free(b);
		cohort_model_free(t.m);
		if (i < 2) {
			kept[i] = r;
			continue;
		}
		assert_int_equal(r.n, kept[i % 2].n);
		assert_memory_equal(r.bytes, kept[i % 2].bytes, r.n);
		free(r.bytes);
	}
	assert_memory_not_equal(kept[0].bytes, kept[1].bytes, kept[0].n);
	free(kept[0].bytes);
	free(kept[1].bytes);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {ARCH_DECODERS, ARCH_ENCODERS,
			"llama", "llama3", "quant-q4_0", "quant-q4_k", "quant-q6_k", "quant-q8_0"};
	static const char *const divided[] = {"divided gemma3", "divided mamba", "divided gpt-oss", "divided qwen2moe",
			"divided jina-bert-v2", "divided llama", "divided gpt2", "divided starcoder2-tied"};
	enum { N = sizeof names / sizeof *names,
		N_DIVIDED = sizeof divided / sizeof *divided };
	static struct CMUnitTest tests[N + N_DIVIDED + 3];
	size_t n = 0;

	for (size_t i = 0; i < N; i++)
		if (argc < 2 || strcmp(argv[1], names[i]) == 0)
			tests[n++] = (struct CMUnitTest){
					names[i], plain_gives_the_bits_of_the_cpu, NULL, NULL, (void *)names[i]};
	for (size_t i = 0; i < N_DIVIDED; i++)
		if (argc < 2 || strcmp(argv[1], "divided") == 0)
			tests[n++] = (struct CMUnitTest){divided[i], any_division_gives_the_same_bits, NULL, NULL,
					(void *)divided[i]};
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(lists_that_divide_nothing);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(states_go_from_device_to_device);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(adapters_of_rows_and_of_models);
	return _cmocka_run_group_tests("backend", tests, n, setup, arch_remove_models);
}
