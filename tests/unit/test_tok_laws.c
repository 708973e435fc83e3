/* The tokeniser: round trips of any bytes, merging and the best way by their definitions, worst cases, words that come
 * again, and allocations that fail.
 *
 * Seen red with: a sum of scores that leaves out a token (best_way_is_the_definition), a cached word's tokens taken
 * from the word before it, words of one place taken for equal (words_again); a mark cut in two, and no room behind the
 * window (pieces_are_the_whole); a bound without the factor for marks or for form C (least_tokens). */
#include "charsmap_case.h"
#include "effort.h"
#include "tok_case.h"

#define MB ((size_t)1 << 20)

static uint32_t rnd(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

static void any_bytes_round_trip(void **state)
{
	static const char alphabet[] = "aabbcch i<x>\n1\xc3\xa9\xe2\x80\xff";
	struct vocab v[4];
	uint64_t seed = 1;
	char text[64];
	(void)state;

	spm_open(&v[0]);
	bpe_open(&v[1], "stablelm2");
	chars_open(&v[2]);
	unigram_vocab(&v[3], true);
	w_vocab(&v[3], HAS_ALL);
	kv_bool(&v[3].w, "add_space_prefix", true);
	open_ok(&v[3]);
	for (int i = 0; i < effort(20000); i++) {
		size_t n = rnd(&seed) % sizeof text;
		for (size_t k = 0; k < n; k++)
			text[k] = i & 1 ? (char)rnd(&seed) : alphabet[rnd(&seed) % (sizeof alphabet - 1)];
		/* The one text SPM cannot keep is U+2581; a space behind a special token is not one of the text's. */
		bool marked = false;
		for (size_t k = 0; k + 3 <= n; k++)
			marked |= !memcmp(text + k, M, 3) || !memcmp(text + k, "<x", 2);
		if (!marked) {
			round_trip(v[0].t, text, n);
			round_trip(v[2].t, text, n);
		}
		round_trip(v[1].t, text, n);
		/* For Unigram a byte that is no character is U+FFFD. */
		if (!marked && utf8_valid_prefix(text, n) == n)
			round_trip(v[3].t, text, n);
	}
	for (size_t i = 0; i < N_OF(v); i++)
		done(&v[i]);
}

/* The definition, done slowly: the most urgent pair, the leftmost of equals, until there is none. */
static size_t slowly(const struct vocab *v, const char *text, size_t n, cohort_token *ids)
{
	char part[64][64];
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		snprintf(part[k++], 64, "%s", text[i] != ' ' ? (char[]){text[i], 0} : v->kind == TOK_SPM ? M
													 : G);
	for (;;) {
		size_t best = k;
		double urgent = 1e30;
		for (size_t i = 0; i + 1 < k; i++) {
			char both[160];
			if (v->kind == TOK_SPM) {
				snprintf(both, sizeof both, "%s%s", part[i], part[i + 1]);
				for (size_t j = 0; j < v->n; j++) {
					if (strcmp(v->text[j], both) != 0)
						continue;
					if (-v->score[j] < urgent) {
						urgent = -v->score[j];
						best = i;
					}
					break;
				}
			} else {
				snprintf(both, sizeof both, "%s %s", part[i], part[i + 1]);
				for (size_t j = 0; j < v->n_merges; j++)
					if (strcmp(v->merges[j], both) == 0 && (double)j < urgent) {
						urgent = (double)j;
						best = i;
					}
			}
		}
		if (best == k)
			break;
		memcpy(part[best] + strlen(part[best]), part[best + 1], strlen(part[best + 1]) + 1);
		memmove(part[best + 1], part[best + 2], (k - best - 2) * sizeof *part);
		k--;
	}
	for (size_t i = 0; i < k; i++)
		ids[i] = id_of(v, part[i]);
	return k;
}

static void merging_is_the_definition(void **state)
{
	static const char letters[] = "aaabbcchi";
	const size_t before = merge_window;
	struct vocab v[2];
	uint64_t seed = 2;
	(void)state;

	spm_open(&v[0]);
	bpe_open(&v[1], "gpt-2");
	for (int i = 0; i < effort(4000); i++) {
		char text[41] = " ";
		cohort_token want[64], *got;
		size_t n = 1 + rnd(&seed) % 40, n_got;
		for (size_t k = 1; k < n; k++)
			text[k] = letters[rnd(&seed) % (sizeof letters - 1)];
		if (i & 2) /* SPM has no words; a second space is as good as a letter there */
			text[n / 2] = ' ';
		for (int k = 0; k < ((i & 2) ? 1 : 2); k++) {
			/* SPM puts the first space itself. */
			size_t skip = k == 0;
			size_t n_want = slowly(&v[k], text, n, want);
			if (n == skip)
				n_want = 0;
			assert_int_equal(tok_encode(v[k].t, text + skip, n - skip, NO_BOS, &got, &n_got, NULL), 0);
			assert_int_equal(n_got, n_want);
			assert_memory_equal(got, want, n_want * sizeof *want);
			mem_free(got);
		}
		merge_window = i & 1 ? 1 + rnd(&seed) % 12 : before;
	}
	merge_window = before;
	done(&v[0]);
	done(&v[1]);
}

/* Letters, and tokens of them that are put together from two others, urgent in any order. pair: room for the merges. */
static void random_vocab(struct vocab *v, bool spm, uint64_t *seed, char pair[][2 * TEXT_MAX], const char **merges)
{
	const size_t n_more = 4 + rnd(seed) % 20, base = spm ? 259 : 0;
	const char *parts[32] = {"a", "b", "c", spm ? M : "d"};
	size_t n_parts = 4, n = 0;

	if (spm)
		spm_vocab(v, true);
	else
		bpe_vocab(v);
	if (spm)
		v->n = base;
	for (size_t i = 0; spm && i < n_parts; i++)
		piece(v, parts[i], TOK_NORMAL, -1000);
	while (n < n_more) {
		const char *l = parts[rnd(seed) % n_parts], *r = parts[rnd(seed) % n_parts];
		if (strlen(l) + strlen(r) > 12)
			break;
		snprintf(pair[n], 2 * TEXT_MAX, "%s%s", l, r);
		piece(v, pair[n], TOK_NORMAL, -(float)(rnd(seed) % 16));
		snprintf(pair[n], 2 * TEXT_MAX, "%s %s", l, r);
		merges[n] = pair[n];
		n++;
		if (n_parts < N_OF(parts))
			parts[n_parts++] = v->text[v->n - 1];
	}
	for (size_t i = n; i > 1; i--) {
		size_t k = rnd(seed) % i;
		const char *m = merges[i - 1];
		merges[i - 1] = merges[k];
		merges[k] = m;
	}
	v->merges = merges;
	v->n_merges = n;
}

/* A long word that goes through in pieces becomes the same tokens as in one, whatever the order of merges is. */
static void pieces_are_the_whole(void **state)
{
	const size_t before = merge_window;
	uint64_t seed = 5;
	(void)state;

	for (int i = 0; i < effort(400); i++) {
		static char pair[32][2 * TEXT_MAX];
		static const char *merges[32];
		struct vocab v;
		random_vocab(&v, i & 1, &seed, pair, merges);
		w_vocab(&v, HAS_ALL);
		open_ok(&v);
		for (int k = 0; k < 8; k++) {
			char text[400], marked[1201];
			const size_t n_letters = 1 + rnd(&seed) % 4, n_run = 1 + rnd(&seed) % 12;
			cohort_token *want, *got;
			size_t n_want, n_got;
			for (size_t at = 0; at < sizeof text; at++)
				text[at] = at % n_run ? text[at - 1]
						      : (i & 1 ? "abc " : "abcd")[rnd(&seed) % n_letters];
			merge_window = before;
			assert_int_equal(tok_encode(v.t, text, sizeof text, NO_BOS, &want, &n_want, NULL), COHORT_OK);
			for (merge_window = 1; merge_window < 100; merge_window += 1 + merge_window / 2) {
				assert_int_equal(tok_encode(v.t, text, sizeof text, NO_BOS, &got, &n_got, NULL), 0);
				assert_int_equal(n_got, n_want);
				assert_memory_equal(got, want, n_want * sizeof *want);
				mem_free(got);
				/* U+2581 for some of SPM's spaces changes nothing, wherever a piece ends. */
				size_t n_marked = 0;
				for (size_t at = 0; at < sizeof text; at++)
					n_marked += (size_t)sprintf(marked + n_marked, "%s",
							text[at] == ' ' && rnd(&seed) % 2 ? M : (char[]){text[at], 0});
				assert_int_equal(tok_encode(v.t, marked, n_marked, NO_BOS, &got, &n_got, NULL), 0);
				assert_int_equal(n_got, n_want);
				assert_memory_equal(got, want, n_want * sizeof *want);
				mem_free(got);
			}
			mem_free(want);
		}
		done(&v);
	}
	merge_window = before;
}

/* A text has never less tokens than its length says: not one of the longest tokens, nor one that becomes shorter. */
static void least_tokens(void **state)
{
	static const char *const odd[] = {
			M, "\xe1\xbe\xbe\xcc\x88\xcc\x81", "\xe2\x84\xaa", "\xf0\x9f\x98\x80", "\xff", " "};
	struct vocab v[6];
	(void)state;

	spm_open(&v[0]);
	bpe_open(&v[1], "gpt-2");
	bpe_open(&v[2], "qwen2");
	chars_open(&v[3]);
	wordpiece_open(&v[4]);
	unigram_vocab(&v[5], true);
	w_vocab(&v[5], HAS_ALL);
	open_ok(&v[5]);
	for (size_t k = 0; k < 4; k++) {
		size_t n_max = 0;
		for (cohort_token id = -(cohort_token)N_OF(odd); id < tok_n_vocab(v[k].t); id++) {
			char text[4096];
			cohort_token *ids;
			size_t n, n_ids, at = 0;
			const char *s = id < 0 ? odd[-id - 1] : tok_bytes(v[k].t, id, true, &n);
			n = id < 0 ? strlen(s) : n;
			n_max = n > n_max ? n : n_max;
			for (; at + n < 400; at += n ? n : 400)
				memcpy(text + at, s, n);
			at = n ? at : 0;
			assert_int_equal(tok_encode(v[k].t, text, at, NO_BOS | SPECIAL, &ids, &n_ids, NULL), COHORT_OK);
			assert_true(n_ids >= tok_least(v[k].t, at));
			mem_free(ids);
		}
		assert_true(tok_least(v[k].t, 1000 * n_max) >= 1000 / 4);
		assert_int_equal(tok_least(v[k].t, 0), 0);
		assert_int_equal(tok_least(v[k].t, 1), 1);
		/* Any number of spaces may belong to such a token. */
		v[k].t->attr[v[k].t->specials[0].id] |= TOK_RSTRIP;
		assert_int_equal(tok_least(v[k].t, MB), 0);
	}
	assert_int_equal(tok_least(v[4].t, MB), 0);
	assert_int_equal(tok_least(v[5].t, MB), 0);
	for (size_t i = 0; i < N_OF(v); i++)
		done(&v[i]);
}

/* The highest sum of any way to cut the text, found by trying all. Texts have no character that is not a token. */
static double try_all(const struct vocab *v, const char *text)
{
	double best = -1e30;

	if (!*text)
		return 0;
	for (size_t i = 0; i < v->n; i++) {
		size_t n = strlen(v->text[i]);
		if (v->type[i] != TOK_NORMAL || strncmp(v->text[i], text, n) != 0)
			continue;
		double rest = v->score[i] + try_all(v, text + n);
		if (rest > best)
			best = rest;
	}
	return best;
}

static void best_way_is_the_definition(void **state)
{
	struct vocab v;
	uint64_t seed = 3;
	(void)state;

	unigram_vocab(&v, false);
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	for (int i = 0; i < effort(2000); i++) {
		char text[12] = "";
		cohort_token *ids;
		size_t n = rnd(&seed) % 11, n_ids;
		double sum = 0;
		for (size_t k = 0; k < n; k++)
			text[k] = "aaabbcfih"[rnd(&seed) % 9];
		assert_int_equal(tok_encode(v.t, text, n, NO_BOS, &ids, &n_ids, NULL), COHORT_OK);
		for (size_t k = 0; k < n_ids; k++)
			sum += (double)v.score[ids[k]];
		/* Scores are quarters: sums are exact. */
		assert_true(sum == try_all(&v, text));
		mem_free(ids);
	}
	done(&v);
}

/* A long text, in which words are remembered, gives what its words give one by one. */
static void words_again(void **state)
{
	static const char *const words[] = {"ab", " hello", "\n", " aaaa", "bca", "1", " \xc3\xa9", "hel", "cab", "  "};
	static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2"};
	const size_t n_words = 60000;
	char *text = mem_alloc(n_words, 16);
	(void)state;

	assert_non_null(text);
	for (size_t k = 0; k < N_OF(pres); k++) {
		struct vocab v;
		uint64_t seed = 4 + k;
		size_t n = 0, n_all, n_want = 0, from = 0;
		cohort_token *all;
		bpe_open(&v, pres[k]);
		for (size_t i = 0; i < n_words; i++) {
			/* Some of their own, so that places are taken from one another. */
			const char *w = words[rnd(&seed) % N_OF(words)];
			if (rnd(&seed) % 4)
				n += (size_t)sprintf(text + n, "%s", w);
			else
				n += (size_t)sprintf(text + n, " x%x", rnd(&seed) % 65536);
		}
		assert_int_equal(tok_encode(v.t, text, n, NO_BOS, &all, &n_all, NULL), COHORT_OK);
		/* Piece by piece, below the size from which words are remembered, cut where words never join: behind a
		 * line end and before a letter. */
		for (size_t i = 1; i <= n; i++) {
			bool cut = i == n || (text[i - 1] == '\n' && text[i] >= 'a' && text[i] <= 'z');
			cohort_token *part;
			size_t n_part;
			if (!cut)
				continue;
			assert_true(i - from < 4096);
			assert_int_equal(tok_encode(v.t, text + from, i - from, NO_BOS, &part, &n_part, NULL), 0);
			assert_true(n_want + n_part <= n_all);
			assert_memory_equal(all + n_want, part, n_part * sizeof *part);
			n_want += n_part;
			from = i;
			mem_free(part);
		}
		assert_int_equal(n_want, n_all);
		mem_free(all);
		done(&v);
	}
	mem_free(text);
}

static void worst_cases(void **state)
{
	static const char *const fills[] = {"a", " ", "<", "<|us", "\xff", "\xe2\x96", "1", "\n", "ab ", "'", "<x>"};
	struct vocab v[7];
	const size_t n_text = effort_is("short") ? MB / 8 : MB;
	char *text = mem_alloc(n_text, 1);
	(void)state;

	assert_non_null(text);
	spm_open(&v[0]);
	bpe_open(&v[1], "llama-bpe");
	bpe_open(&v[2], "deepseek-coder");
	bpe_open(&v[3], "starcoder");
	chars_open(&v[4]);
	wordpiece_open(&v[5]);
	unigram_vocab(&v[6], true);
	w_vocab(&v[6], HAS_ALL);
	open_ok(&v[6]);
	for (size_t i = 0; i < N_OF(fills); i++) {
		size_t len = strlen(fills[i]);
		for (size_t k = 0; k < n_text; k++)
			text[k] = fills[i][k % len];
		for (size_t k = 0; k < N_OF(v); k++) {
			cohort_token *ids;
			size_t n, n_back;
			assert_int_equal(tok_encode(v[k].t, text, n_text, NO_BOS | SPECIAL, &ids, &n, NULL), COHORT_OK);
			char *back = decode(v[k].t, ids, n, true, true, &n_back);
			/* Behind a special token SPM puts a space that the text does not have; the last two here keep
			 * no text. */
			if (k < 5 && (fills[i][0] != '<' || k > 0)) {
				assert_int_equal(n_back, n_text);
				assert_memory_equal(back, text, n_text);
			}
			mem_free(back);
			mem_free(ids);
		}
	}
	for (size_t k = 0; k < N_OF(v); k++)
		done(&v[k]);
	mem_free(text);
}

static void torture_open(struct vocab *v, size_t k)
{
	static const struct charsmap_pair pairs[] = {{"q", "abc"}, {"\xef\xac\x81", "fi"}};
	static const char *const pres[] = {"llama-bpe", "deepseek-coder", "qwen2"};
	static struct charsmap_build b;

	if (k < 3) {
		bpe_open(v, pres[k]);
	} else if (k == 3) {
		spm_open(v);
	} else if (k == 4) {
		chars_open(v);
	} else if (k == 5) {
		wordpiece_open(v);
	} else {
		charsmap_build(&b, pairs, N_OF(pairs));
		unigram_vocab(v, true);
		w_vocab(v, HAS_ALL);
		kv_array(&v->w, "precompiled_charsmap", GGUF_U8, b.n_bytes);
		put(&v->w, b.bytes, b.n_bytes);
		open_ok(v);
	}
}

/* Some parts do without memory (the JIT, words that are remembered), so success does not end a loop; the count does. */
static void tokenizers_out_of_memory_at_every_point(void **state)
{
	static const char part[] = "abc hi <x>\n\xff hello  1234 <|user|>a\xcc\xa7\xcc\x81\xcc\xa7"
				   " aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	const size_t len = sizeof part - 1, n_text = 60 * len;
	char *text = mem_alloc(n_text, 1);
	(void)state;

	assert_non_null(text);
	for (size_t i = 0; i < n_text; i++)
		text[i] = part[i % len];
	for (size_t k = 0; k < 7; k++) {
		struct vocab v;
		torture_open(&v, k);
		uint64_t n = mem_count(), n_failed = 0;
		struct tok *t;
		assert_int_equal(tok_open(&t, &v.g, NULL), COHORT_OK);
		tok_free(t);
		n = mem_count() - n;
		assert_true(n > 5);
		for (uint64_t i = 0; i < n + 2; i++) {
			struct cohort_err err = {0};
			t = NULL;
			mem_fail_after((int64_t)i);
			enum cohort_status st = tok_open(&t, &v.g, &err);
			mem_fail_after(-1);
			if (st) {
				assert_int_equal(st, COHORT_E_MEMORY);
				assert_int_equal(err.status, COHORT_E_MEMORY);
				assert_null(t);
			}
			tok_free(t);
		}
		cohort_token *want, *ids;
		size_t n_want, n_ids;
		n = mem_count();
		assert_int_equal(tok_encode(v.t, text, n_text, SPECIAL, &want, &n_want, NULL), COHORT_OK);
		n = mem_count() - n;
		for (uint64_t i = 0; i < n + 2; i++) {
			ids = NULL;
			n_ids = 77;
			mem_fail_after((int64_t)i);
			enum cohort_status st = tok_encode(v.t, text, n_text, SPECIAL, &ids, &n_ids, NULL);
			mem_fail_after(-1);
			if (!st) {
				assert_int_equal(n_ids, n_want);
				assert_memory_equal(ids, want, n_want * sizeof *want);
				mem_free(ids);
				continue;
			}
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_null(ids);
			assert_int_equal(n_ids, 77);
			n_failed++;
		}
		assert_true(n_failed >= 2);
		mem_free(want);
		done(&v);
	}
	mem_free(text);
	tok_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(any_bytes_round_trip),
			cmocka_unit_test(merging_is_the_definition),
			cmocka_unit_test(pieces_are_the_whole),
			cmocka_unit_test(least_tokens),
			cmocka_unit_test(best_way_is_the_definition),
			cmocka_unit_test(words_again),
			cmocka_unit_test(worst_cases),
			cmocka_unit_test(tokenizers_out_of_memory_at_every_point),
	};

	return cmocka_run_group_tests_name("tok_laws", tests, NULL, NULL);
}
