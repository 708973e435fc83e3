/* The vocabulary: special tokens and their roles, and every refusal of malformed metadata. */
#include "tok_case.h"
#include "temp.h"

#include "base/sum.h"

#include <stdlib.h>
#include <unistd.h>

static void special_parsing(void **state)
{
	struct vocab v;
	(void)state;

	spm_open(&v);
	/* User-defined ones always, the longest at each place; a space behind each. */
	EXPECT(&v, "hi<x>hi", NO_BOS, M "hi", "<x>", M "hi");
	EXPECT(&v, "<x>y<xx><x>", NO_BOS, "<x>y", "<xx>", "<x>");
	EXPECT(&v, "<x<x>", NO_BOS, M, "<", "<0x78>", "<x>");
	/* Control tokens when asked. */
	EXPECT(&v, "<|user|>hi<s>", NO_BOS | SPECIAL, "<|user|>", M "hi", "<s>");
	EXPECT(&v, "<|us<|user", NO_BOS | SPECIAL, "<|us", "<|us", M, "<0x65>", "<0x72>");
	EXPECT(&v, "<|us", NO_BOS, M, "<", "<0x7C>", "<0x75>", "s");
	/* The unknown token is one of them, as in SentencePiece; unused ones never are. */
	EXPECT(&v, "<unk>", NO_BOS | SPECIAL, "<unk>");
	EXPECT(&v, "a<never>", NO_BOS | SPECIAL, M "a", "<never>");
	EXPECT(&v, "<never>", NO_BOS, M, "<", "<0x6E>", "<0x65>", "<0x76>", "<0x65>", "<0x72>", ">");
	EXPECT(&v, "<unused>", NO_BOS | SPECIAL, M, "<", "<0x75>", "<0x6E>", "<0x75>", "s", "<0x65>", "<0x64>", ">");
	done(&v);

	bpe_open(&v, "gpt-2");
	EXPECT(&v, "ab<x>ab", NO_BOS, "ab", "<x>", "ab");
	EXPECT(&v, "<|bos|>ab", NO_BOS | SPECIAL, "<|bos|>", "ab");
	EXPECT(&v, "<|bos|>", NO_BOS, "<", "|", "b", "o", "s", "|", ">");
	/* One text, two tokens: the control token is first when asked for, else the user-defined one is found. */
	cohort_token *ids;
	size_t n;
	for (int special = 0; special < 2; special++) {
		unsigned flags = NO_BOS | (special ? SPECIAL : 0);
		assert_int_equal(tok_encode(v.t, "<|im_end|>", 10, flags, &ids, &n, NULL), COHORT_OK);
		assert_int_equal(n, 1);
		assert_int_equal(ids[0], special ? 256 + 14 : 256 + 17);
		mem_free(ids);
	}
	done(&v);
}

static void bos_eos(void **state)
{
	struct vocab v;
	cohort_token *ids;
	size_t n;
	(void)state;

	spm_open(&v);
	EXPECT(&v, "hi", 0, "<s>", M "hi");
	EXPECT(&v, "hi", COHORT_TOKENIZE_BOS, "<s>", M "hi");
	EXPECT(&v, "hi", NO_BOS, M "hi");
	EXPECT(&v, "", 0, "<s>");
	assert_int_equal(tok_encode(v.t, "", 0, 3, &ids, &n, NULL), COHORT_E_ARG);
	assert_int_equal(tok_encode(v.t, "", 0, 8, &ids, &n, NULL), COHORT_E_ARG);
	assert_int_equal(tok_encode(v.t, NULL, 1, 0, &ids, &n, NULL), COHORT_E_ARG);
	assert_int_equal(tok_encode(v.t, "a", TOK_TEXT_MAX + 1, 0, &ids, &n, NULL), COHORT_E_LIMIT);
	assert_int_equal(tok_encode(v.t, NULL, 0, NO_BOS, &ids, &n, NULL), COHORT_OK);
	assert_int_equal(n, 0);
	mem_free(ids);
	done(&v);

	spm_vocab(&v, true);
	w_vocab(&v, HAS_ALL);
	kv_bool(&v.w, "add_bos_token", false);
	kv_bool(&v.w, "add_eos_token", true);
	open_ok(&v);
	EXPECT(&v, "hi", 0, M "hi", "</s>");
	EXPECT(&v, "hi", COHORT_TOKENIZE_BOS, "<s>", M "hi", "</s>");
	EXPECT(&v, "hi", NO_BOS, M "hi");
	done(&v);

	bpe_open(&v, "gpt-2");
	EXPECT(&v, "ab", 0, "ab");
	EXPECT(&v, "ab", COHORT_TOKENIZE_BOS, "<|bos|>", "ab");
	assert_int_equal(tok_bos(v.t), 256 + 13);
	assert_int_equal(tok_eos(v.t), 256 + 13);
	done(&v);

	bpe_vocab(&v);
	w_vocab(&v, HAS_ALL & ~(unsigned)HAS_IDS);
	open_ok(&v);
	EXPECT(&v, "ab", COHORT_TOKENIZE_BOS, "ab");
	assert_int_equal(tok_bos(v.t), -1);
	assert_int_equal(tok_eos(v.t), -1);
	done(&v);
}

static void end_tokens_of_a_vocabulary(void **state)
{
	struct vocab v;
	size_t n;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, HAS_ALL);
	kv_u32(&v.w, "eot_token_id", (uint32_t)id_of(&v, "hi"));
	kv_u32(&v.w, "eom_token_id", (uint32_t)id_of(&v, "aa"));
	open_ok(&v);
	assert_true(tok_is_eog(v.t, 2));
	assert_true(tok_is_eog(v.t, id_of(&v, "hi")));
	assert_true(tok_is_eog(v.t, id_of(&v, "aa")));
	assert_true(tok_is_eog(v.t, id_of(&v, "<|end|>")));
	assert_false(tok_is_eog(v.t, 1));
	assert_false(tok_is_eog(v.t, -1));
	assert_false(tok_is_eog(v.t, (cohort_token)v.n));
	assert_true(tok_is_control(v.t, 1));
	assert_false(tok_is_control(v.t, id_of(&v, "hi")));
	assert_false(tok_is_control(v.t, (cohort_token)v.n));
	assert_non_null(tok_bytes(v.t, 1, false, &n));
	assert_int_equal(n, 0);
	assert_memory_equal(tok_bytes(v.t, 1, true, &n), "<s>", 3);
	assert_int_equal(n, 3);
	tok_bytes(v.t, 0, false, &n);
	assert_int_equal(n, 0);
	assert_null(tok_bytes(v.t, -1, true, &n));
	assert_null(tok_bytes(v.t, (cohort_token)v.n, true, &n));
	done(&v);

	/* Well-known texts count only when they are special. */
	bpe_open(&v, "gpt-2");
	assert_true(tok_is_eog(v.t, 256 + 14));
	assert_true(tok_is_eog(v.t, 256 + 17));
	assert_true(tok_is_eog(v.t, 256 + 13));
	assert_false(tok_is_eog(v.t, id_of(&v, "hello")));
	done(&v);
}

/* Texts that end a turn with some models and not with others. Seen red without drop_eog_texts. */
static void ends_of_turns(void **state)
{
	struct vocab v;
	(void)state;

	for (int k = 0; k < 3; k++) {
		spm_vocab(&v, true);
		piece(&v, "<|return|>", TOK_CONTROL, 0);
		if (k == 1)
			piece(&v, "<|call|>", TOK_CONTROL, 0);
		if (k == 2)
			piece(&v, "<|tool_response>", TOK_CONTROL, 0);
		w_vocab(&v, k == 2 ? HAS_ALL & ~(unsigned)HAS_IDS : HAS_ALL);
		open_ok(&v);
		assert_true(tok_is_eog(v.t, id_of(&v, "<|return|>")));
		assert_int_equal(tok_is_eog(v.t, id_of(&v, "<|end|>")), k != 1);
		assert_int_equal(tok_is_eog(v.t, id_of(&v, "</s>")), k != 2);
		done(&v);
	}
}

/* Special tokens that take the white space at their side, by the model's name. Seen red without special_mark_strip, and
 * with the marks of one side on the other. */
static void white_space_of_specials(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, HAS_ALL);
	put_kv_str(&v.w, "general.name", "Some Phi-3 mini");
	open_ok(&v);
	EXPECT(&v, "hi <|user|> \n\t hi", NO_BOS | SPECIAL, M "hi", M, "<|user|>", M "hi");
	EXPECT(&v, "<s> hi<x>  hi", NO_BOS | SPECIAL, "<s>", M M, "hi", "<x>", M "hi");
	EXPECT(&v, "<|user|> ", NO_BOS | SPECIAL, "<|user|>");
	done(&v);
	spm_open(&v);
	EXPECT(&v, "<|user|> hi", NO_BOS | SPECIAL, "<|user|>", M M, "hi");
	done(&v);

	bpe_vocab(&v);
	piece(&v, "<mask>", TOK_CONTROL, 0);
	w_vocab(&v, HAS_ALL);
	kv_str(&v.w, "pre", "jina-v2-de");
	open_ok(&v);
	EXPECT(&v, "ab \n<mask> ab", NO_BOS | SPECIAL, "ab", "<mask>", G, "ab");
	EXPECT(&v, " <mask>", NO_BOS | SPECIAL, "<mask>");
	EXPECT(&v, "ab <x>", NO_BOS | SPECIAL, "ab", G, "<x>");
	done(&v);
}

static void refused(struct vocab *v, enum cohort_status want, const char *part)
{
	struct cohort_err err = {0};

	parse(v);
	assert_int_equal(tok_open(&v->t, &v->g, &err), want);
	if (!strstr(err.text, part))
		fail_msg("\"%s\" does not say \"%s\"", err.text, part);
	assert_null(v->t);
	done(v);
}

static void malformed_arrays(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, WITHOUT(HAS_MODEL));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.model");
	w_vocab(&v, WITHOUT(HAS_MODEL));
	kv_str(&v.w, "model", "rwkv");
	refused(&v, COHORT_E_UNSUPPORTED, "\"rwkv\" is not known (known: \"llama\"");
	w_vocab(&v, WITHOUT(HAS_MODEL));
	kv_str(&v.w, "model", "r\x1b[1m");
	refused(&v, COHORT_E_UNSUPPORTED, "\"r\\x1b[1m\" is not known");
	w_vocab(&v, WITHOUT(HAS_MODEL));
	kv_u32(&v.w, "model", 1);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.model");
	w_vocab(&v, WITHOUT(HAS_TOKENS));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.tokens");
	w_vocab(&v, WITHOUT(HAS_TOKENS));
	kv_array(&v.w, "tokens", GGUF_STRING, 0);
	refused(&v, COHORT_E_FORMAT, "0 tokens");
	w_vocab(&v, WITHOUT(HAS_SCORES));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.scores");
	w_vocab(&v, WITHOUT(HAS_SCORES));
	kv_array(&v.w, "scores", GGUF_F32, v.n - 1);
	put(&v.w, v.score, (v.n - 1) * sizeof *v.score);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.scores");
	w_vocab(&v, WITHOUT(HAS_TYPES));
	kv_array(&v.w, "token_type", GGUF_I32, v.n - 1);
	put(&v.w, v.type, (v.n - 1) * sizeof *v.type);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.token_type");
	w_vocab(&v, WITHOUT(HAS_TYPES));
	kv_array(&v.w, "token_type", GGUF_F32, v.n);
	put(&v.w, v.type, v.n * sizeof *v.type);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.token_type");

	v.type[7] = 9;
	w_vocab(&v, HAS_ALL);
	refused(&v, COHORT_E_FORMAT, "token 7 has type 9");
	v.type[7] = -1;
	w_vocab(&v, HAS_ALL);
	refused(&v, COHORT_E_FORMAT, "token 7 has type -1");
	v.type[7] = TOK_BYTE;
	strcpy(v.text[7], "<0xZZ>");
	w_vocab(&v, HAS_ALL);
	refused(&v, COHORT_E_FORMAT, "token 7");
}

static void malformed_values(void **state)
{
	static const char *const keys[] = {
		"bos_token_id", "eos_token_id", "unknown_token_id", "eot_token_id", "eom_token_id",
	};
	static const char *const bad_merges[] = {"ab", "a", "", " ", " b", "a "};
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	for (size_t i = 0; i < N_OF(keys); i++) {
		w_vocab(&v, WITHOUT(HAS_IDS));
		kv_u32(&v.w, keys[i], (uint32_t)v.n);
		refused(&v, COHORT_E_FORMAT, keys[i]);
		w_vocab(&v, WITHOUT(HAS_IDS));
		kv_u32(&v.w, keys[i], UINT32_MAX);
		refused(&v, COHORT_E_FORMAT, keys[i]);
		w_vocab(&v, WITHOUT(HAS_IDS));
		kv_str(&v.w, keys[i], "1");
		refused(&v, COHORT_E_FORMAT, keys[i]);
	}
	w_vocab(&v, HAS_ALL);
	kv_str(&v.w, "add_bos_token", "yes");
	refused(&v, COHORT_E_FORMAT, "add_bos_token");

	bpe_vocab(&v);
	w_vocab(&v, WITHOUT(HAS_MERGES));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.merges");
	for (size_t i = 0; i < N_OF(bad_merges); i++) {
		v.merges = &bad_merges[i];
		v.n_merges = 1;
		w_vocab(&v, HAS_ALL);
		refused(&v, COHORT_E_FORMAT, "merge 0");
	}
	v.n_merges = 0;
	w_vocab(&v, HAS_ALL);
	kv_u32(&v.w, "pre", 1);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.pre");
	/* Scores say nothing here, but must be as many. */
	w_vocab(&v, HAS_ALL);
	kv_array(&v.w, "scores", GGUF_F32, 1);
	put_u32(&v.w, 0);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.scores");

	put_header(&v.w, 3, 0, 0);
	kv_str(&v.w, "model", "gpt2");
	kv_array(&v.w, "tokens", GGUF_STRING, 1);
	char *longest = mem_zalloc(TOK_SPECIAL_MAX + 1, 1);
	memset(longest, 'x', TOK_SPECIAL_MAX + 1);
	put_strn(&v.w, longest, TOK_SPECIAL_MAX + 1);
	mem_free(longest);
	kv_array(&v.w, "token_type", GGUF_U32, 1);
	put_u32(&v.w, TOK_CONTROL);
	kv_array(&v.w, "merges", GGUF_STRING, 0);
	refused(&v, COHORT_E_LIMIT, "token 0");
}

/* Shown red by: has_control that is always true. */
static void unknown_without_control_tokens(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	for (size_t i = 0; i < v.n; i++)
		if (v.type[i] == TOK_CONTROL)
			v.type[i] = TOK_NORMAL;
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	EXPECT(&v, "<unk>", NO_BOS | SPECIAL, M, "<", "<0x75>", "<0x6E>", "<0x6B>", ">");
	done(&v);
}

static void types_absent(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, WITHOUT(HAS_TYPES));
	open_ok(&v);
	EXPECT(&v, "hi<|user|>", NO_BOS | SPECIAL, M "hi", "<", "<unk>", "<unk>", "s", "<unk>", "<unk>", "<unk>", ">");
	assert_false(tok_is_control(v.t, 1));
	done(&v);
}

/* A model without a tokeniser opens; what needs one says so. Other names are refused. */
static void no_tokeniser(void **state)
{
	static const struct {
		const char *name;
		enum cohort_status status;
	} models[] = {
		{"none", COHORT_OK}, {"no_vocab", COHORT_OK}, {NULL, COHORT_OK}, {"nonesuch", COHORT_E_UNSUPPORTED},
	};
	(void)state;

	for (size_t i = 0; i < N_OF(models); i++) {
		char path[TEMP_MAX];
		struct file w = {0};
		struct cohort_model_params mp;
		struct cohort_model_info info;
		struct cohort_model *m = NULL;
		struct cohort_err err;
		cohort_token ids[8];
		size_t n;
		int fd = mkstemp(temp_name(path, "vocab"));
		put_header(&w, 3, 0, 0);
		put_kv_str(&w, "general.architecture", "llama");
		if (models[i].name)
			kv_str(&w, "model", models[i].name);
		put_n_kv(&w);
		put_pad(&w, 32);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, w.d, w.n), (ssize_t)w.n);
		close(fd);
		file_release(&w);
		cohort_model_params_init(&mp);
		mp.vocab_only = true;
		assert_int_equal(cohort_model_open(path, &mp, &m, &err), models[i].status);
		unlink(path);
		if (models[i].status)
			continue;
		cohort_model_info_get(m, &info);
		assert_string_equal(info.tokenizer, "");
		assert_int_equal(cohort_tokenize(m, "a", 1, 0, ids, 8, &n, &err), COHORT_E_UNSUPPORTED);
		assert_non_null(strstr(err.text, "no tokeniser"));
		assert_int_equal(cohort_detokenize(m, ids, 0, false, NULL, 0, &n, &err), COHORT_E_UNSUPPORTED);
		cohort_model_free(m);
	}
}

/* What becomes of a vocabulary: why it is refused, or the tokens of a text. */
static uint64_t vocab_outcome(uint64_t h, const struct file *w)
{
	static const char text[] = "abc hi  <x> caf\xc3\xa9!\n<|user|>hello wor\xe4\xb8\xad ab12";
	struct cohort_err err = {0};
	struct tok *t = NULL;
	struct gguf g;
	cohort_token *ids;
	size_t n;
	enum cohort_status st = gguf_parse(&g, w->d, w->n, no_tensor, &err);

	if (st)
		return sum_lane(h, 1);
	st = tok_open(&t, &g, &err);
	if (!st && !(st = tok_encode(t, text, sizeof text - 1, SPECIAL, &ids, &n, &err))) {
		h = sum_bytes(h, ids, n * sizeof *ids);
		mem_free(ids);
	}
	if (st)
		h = sum_bytes(sum_lane(h, (uint64_t)st), err.text, strlen(err.text));
	tok_free(t);
	gguf_release(&g);
	return h;
}

/* Vocabularies of each kind, their bytes changed one by one, another bit each time: one sum of all outcomes, which says
 * that something has changed, not what. Seen red with a bound of each of the kinds one off. */
static void vocabularies_changed(void **state)
{
	uint64_t h = 0;
	(void)state;

	for (int kind = 0; kind < 5; kind++) {
		struct vocab v;
		switch (kind) {
		case 0: spm_vocab(&v, true); break;
		case 1: bpe_vocab(&v); break;
		case 2: wordpiece_vocab(&v); break;
		case 3: unigram_vocab(&v, true); break;
		default: chars_vocab(&v); break;
		}
		w_vocab(&v, HAS_ALL);
		put_n_kv(&v.w);
		h = vocab_outcome(h, &v.w);
		for (size_t i = 24; i < v.w.n; i++) {
			v.w.d[i] ^= (uint8_t)(1u << i % 8);
			h = vocab_outcome(h, &v.w);
			v.w.d[i] ^= (uint8_t)(1u << i % 8);
		}
		file_release(&v.w);
	}
	if (h != 0xf610f679eea0e98bu)
		fail_msg("the sum of all outcomes is 0x%llx", (unsigned long long)h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(special_parsing),
		cmocka_unit_test(bos_eos),
		cmocka_unit_test(end_tokens_of_a_vocabulary),
		cmocka_unit_test(ends_of_turns),
		cmocka_unit_test(white_space_of_specials),
		cmocka_unit_test(malformed_arrays),
		cmocka_unit_test(malformed_values),
		cmocka_unit_test(unknown_without_control_tokens),
		cmocka_unit_test(types_absent),
		cmocka_unit_test(no_tokeniser),
		cmocka_unit_test(vocabularies_changed),
	};

	return cmocka_run_group_tests_name("tok_vocab", tests, NULL, NULL);
}
