/* docs/batching.md shows a traced decode: the text there is what the trace callback gives today. */
#include "cohort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
	char s[1 << 16];
	size_t n;
	bool on;
};

/* Lines as the page has them: four spaces in. */
static void collect(const char *lines, void *user)
{
	struct text *t = user;
	if (!t->on)
		return;
	for (const char *p = lines; *p;) {
		size_t n = strcspn(p, "\n") + 1;
		assert_true(t->n + n + 5 < sizeof t->s);
		t->n += (size_t)sprintf(t->s + t->n, "    %.*s", (int)n, p);
		p += n;
	}
}

static void read_page(struct text *t, const char *source)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/docs/batching.md", source);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	t->n = fread(t->s, 1, sizeof t->s - 1, f);
	t->s[t->n] = 0;
	fclose(f);
}

/* The batch of the page's drawing, cut in one of the two ways. */
static void trace(struct text *t, const struct cohort_model *m, enum cohort_split split)
{
	static const struct {
		cohort_token token;
		cohort_pos pos;
		cohort_seq seq[2];
		int32_t n_seq;
		bool output;
	} rows[] = {
		{911, 0, {5}, 1, false}, {630, 1, {5}, 1, false}, {264, 2, {5}, 1, true}, {493, 12, {0}, 1, true},
		{8142, 40, {2}, 1, true}, {371, 9, {3, 4}, 2, false}, {507, 10, {3, 4}, 2, false},
		{325, 11, {3}, 1, true}, {298, 11, {4}, 1, true},
	};
	struct cohort_context_params p;
	struct cohort_context *c = NULL;
	struct cohort_batch b;
	cohort_token past[40] = {0};

	cohort_context_params_init(&p);
	p.n_ubatch = 4;
	p.split = split;
	p.trace = collect;
	p.trace_user = t;
	t->n = 0;
	t->on = false;
	assert_int_equal(cohort_context_open(m, &p, &c, NULL), COHORT_OK);
	assert_int_equal(cohort_decode_many(c, past, 12, 0, 0, NULL), COHORT_OK);
	assert_int_equal(cohort_decode_many(c, past, 40, 0, 2, NULL), COHORT_OK);
	assert_int_equal(cohort_decode_many(c, past, 9, 0, 3, NULL), COHORT_OK);
	assert_int_equal(cohort_seq_cp(c, 3, 4, 0, -1, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_init(&b, 16, 0, 2, NULL), COHORT_OK);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(cohort_batch_add(&b, rows[i].token, rows[i].pos, rows[i].seq, rows[i].n_seq,
						 rows[i].output, NULL),
				COHORT_OK);
	t->on = true;
	assert_int_equal(cohort_decode(c, &b, NULL), COHORT_OK);
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static void page_is_true(void **state)
{
	static struct text page, made;
	const char *source = getenv("COHORT_SOURCE");
	struct cohort_model *m = NULL;
	char path[1024];
	(void)state;

	source = source ? source : ".";
	read_page(&page, source);
	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", source);
	assert_int_equal(cohort_model_open(path, NULL, &m, NULL), COHORT_OK);
	for (int split = COHORT_SPLIT_SIMPLE; split <= COHORT_SPLIT_EQUAL; split++) {
		trace(&made, m, (enum cohort_split)split);
		char *ubatches = strstr(made.s, "    ubatch:");
		assert_non_null(ubatches);
		if (!strstr(page.s, ubatches))
			fail_msg("docs/batching.md does not show this:\n%s", ubatches);
		*ubatches = 0;
		if (!strstr(page.s, made.s))
			fail_msg("docs/batching.md does not show this:\n%s", made.s);
	}
	cohort_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_is_true),
	};
	return cmocka_run_group_tests_name("batching_doc", tests, NULL, NULL);
}
