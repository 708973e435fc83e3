/* The tokeniser: round trips of any bytes, merging by its definition, worst cases, and allocations that fail. */
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
	struct vocab v[2];
	uint64_t seed = 1;
	char text[64];
	(void)state;

	spm_open(&v[0]);
	bpe_open(&v[1], "stablelm2");
	for (int i = 0; i < 20000; i++) {
		size_t n = rnd(&seed) % sizeof text;
		for (size_t k = 0; k < n; k++)
			text[k] = i & 1 ? (char)rnd(&seed) : alphabet[rnd(&seed) % (sizeof alphabet - 1)];
		/* The one text SPM cannot keep is U+2581; a space behind a special token is not one of the text's. */
		bool marked = false;
		for (size_t k = 0; k + 3 <= n; k++)
			marked |= !memcmp(text + k, M, 3) || !memcmp(text + k, "<x", 2);
		if (!marked)
			round_trip(v[0].t, text, n);
		round_trip(v[1].t, text, n);
	}
	done(&v[0]);
	done(&v[1]);
}

/* The definition, done slowly: the most urgent pair, the leftmost of equals, until there is none. */
static size_t slowly(const struct vocab *v, const char *text, size_t n, cohort_token *ids)
{
	char part[64][64];
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		snprintf(part[k++], 64, "%s", text[i] != ' ' ? (char[]){text[i], 0} : v->kind == TOK_SPM ? M : G);
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
	struct vocab v[2];
	uint64_t seed = 2;
	(void)state;

	spm_open(&v[0]);
	bpe_open(&v[1], "gpt-2");
	for (int i = 0; i < 4000; i++) {
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
	}
	done(&v[0]);
	done(&v[1]);
}

static void worst_cases(void **state)
{
	static const char *const fills[] = {"a", " ", "<", "<|us", "\xff", "\xe2\x96", "1", "\n", "ab ", "'", "<x>"};
	struct vocab v[4];
	char *text = mem_alloc(MB, 1);
	(void)state;

	assert_non_null(text);
	spm_open(&v[0]);
	bpe_open(&v[1], "llama-bpe");
	bpe_open(&v[2], "deepseek-coder");
	bpe_open(&v[3], "starcoder");
	for (size_t i = 0; i < N_OF(fills); i++) {
		size_t len = strlen(fills[i]);
		for (size_t k = 0; k < MB; k++)
			text[k] = fills[i][k % len];
		for (size_t k = 0; k < N_OF(v); k++) {
			cohort_token *ids;
			size_t n, n_back;
			assert_int_equal(tok_encode(v[k].t, text, MB, NO_BOS | SPECIAL, &ids, &n, NULL), COHORT_OK);
			char *back = decode(v[k].t, ids, n, true, true, &n_back);
			/* Behind a special token SPM puts a space that the text does not have. */
			if (fills[i][0] != '<' || k > 0) {
				assert_int_equal(n_back, MB);
				assert_memory_equal(back, text, MB);
			}
			mem_free(back);
			mem_free(ids);
		}
	}
	for (size_t k = 0; k < N_OF(v); k++)
		done(&v[k]);
	mem_free(text);
}

static void torture(void **state)
{
	static const char text[] = "abc hi <x>\n\xff hello  1234 <|user|>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	static const char *const pres[] = {NULL, "llama-bpe", "deepseek-coder"};
	(void)state;

	for (size_t k = 0; k < N_OF(pres); k++) {
		struct vocab v;
		if (k == 0)
			spm_open(&v);
		else
			bpe_open(&v, pres[k]);
		/* The JIT is allowed to fail for itself, so success does not end the loop; the count does. */
		uint64_t n = mem_count();
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
		for (int64_t i = 0;; i++) {
			cohort_token *ids = NULL;
			size_t n_ids = 77;
			mem_fail_after(i);
			enum cohort_status st = tok_encode(v.t, text, sizeof text - 1, SPECIAL, &ids, &n_ids, NULL);
			mem_fail_after(-1);
			if (!st) {
				assert_true(i > 2);
				mem_free(ids);
				break;
			}
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_null(ids);
			assert_int_equal(n_ids, 77);
		}
		done(&v);
	}
	tok_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_bytes_round_trip),
		cmocka_unit_test(merging_is_the_definition),
		cmocka_unit_test(worst_cases),
		cmocka_unit_test(torture),
	};

	return cmocka_run_group_tests_name("tok_laws", tests, NULL, NULL);
}
