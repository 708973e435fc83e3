/* Pre-tokenisers of byte-level BPE: PCRE2 runs the patterns of a rule (pretok_table.c).
 *
 * Invariants
 *  1. The words of a text, joined, are the text: what no pattern matches is a word as well.
 *  2. PCRE2 sees valid UTF-8 only (the caller's part), so its own check is off.
 *  3. What PCRE2 allocates goes through mem_alloc, so it can be made to fail.
 *  4. No pattern needs more than a few steps per byte; the match limit grows with the text and is there for the day
 *     somebody adds one that does. Reaching it is a status.
 *
 * Refuses to know tokens and merges. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tok/tok_impl.h"

#include <pcre2.h>
#include <string.h>

static void *give(PCRE2_SIZE n, void *user)
{
	(void)user;
	return mem_alloc(n, 1);
}

static void take(void *p, void *user)
{
	(void)user;
	mem_free(p);
}

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "pre-tokeniser: out of memory");
}

static enum cohort_status compile(void **out, const char *pattern, pcre2_compile_context *context, bool *jit,
		struct cohort_err *err)
{
	int code;
	PCRE2_SIZE at;

	*out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &at, context);
	if (!*out) {
		char text[128] = "";
		if (code == PCRE2_ERROR_HEAP_FAILED)
			return no_memory(err);
		pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
		return err_set(err, COHORT_E_BUG, "pre-tokeniser: pattern refused at %zu: %s", (size_t)at, text);
	}
	/* Without a JIT (not built in, or no executable memory to be had) matching is slower but the same. */
	*jit &= pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE) == 0;
	return COHORT_OK;
}

enum cohort_status pretok_init(struct pretok *p, const struct pretok_rule *rule, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	pcre2_general_context *general = pcre2_general_context_create(give, take, NULL);
	pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;

	*p = (struct pretok){.rule = rule, .jit = true};
	if (!context)
		st = no_memory(err);
	while (!st && p->n_passes < PRETOK_PASSES && rule->pattern[p->n_passes]) {
		st = compile(&p->code[p->n_passes], rule->pattern[p->n_passes], context, &p->jit, err);
		p->n_passes++;
	}
	pcre2_compile_context_free(context);
	pcre2_general_context_free(general);
	return st;
}

void pretok_release(struct pretok *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_passes; i++)
		pcre2_code_free(p->code[i]);
	*p = (struct pretok){0};
}

enum cohort_status pretok_run_init(struct pretok_run *r, size_t n_bytes, struct cohort_err *err)
{
	pcre2_general_context *general = pcre2_general_context_create(give, take, NULL);
	pcre2_match_context *context = NULL;

	*r = (struct pretok_run){0};
	if (general) {
		/* One pair of offsets: no pattern captures. */
		r->match = pcre2_match_data_create(1, general);
		r->context = context = pcre2_match_context_create(general);
		pcre2_general_context_free(general);
	}
	if (!r->match || !context) {
		pretok_run_release(r);
		return no_memory(err);
	}
	/* PCRE2's own default of ten million, or what a run of spaces costs without the JIT, with a margin. */
	size_t limit = 10000000 + 16 * n_bytes;
	pcre2_set_match_limit(context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
	return COHORT_OK;
}

void pretok_run_release(struct pretok_run *r)
{
	if (!r)
		return;
	pcre2_match_data_free(r->match);
	pcre2_match_context_free(r->context);
	*r = (struct pretok_run){0};
}

static enum cohort_status match_failed(int code, struct cohort_err *err)
{
	char text[128] = "";

	if (code == PCRE2_ERROR_NOMEMORY)
		return no_memory(err);
	pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
	return err_set(err, COHORT_E_LIMIT, "pre-tokeniser: %s", text);
}

struct split {
	const struct pretok *p;
	struct pretok_run *r;
	pretok_word_fn *word;
	void *user;
};

static int match(const struct pretok *p, const struct pretok_run *r, size_t i_pass, const char *s, size_t n, size_t at)
{
	PCRE2_SPTR text = (PCRE2_SPTR)s;

	/* The same, without looking first whether there is machine code and whether the arguments make sense. */
	if (p->jit)
		return pcre2_jit_match(p->code[i_pass], text, n, at, PCRE2_NOTEMPTY, r->match, r->context);
	return pcre2_match(p->code[i_pass], text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, r->match, r->context);
}

static enum cohort_status pass(const struct split *x, size_t i_pass, const char *s, size_t n, struct cohort_err *err);

static bool begins_char(char c)
{
	return ((uint8_t)c & 0xc0) != 0x80;
}

/* Three characters each, and what is left over in front. */
static enum cohort_status in_threes(const struct split *x, size_t i_pass, const char *s, size_t n,
		struct cohort_err *err)
{
	size_t left = 0;
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < n; i++)
		left += begins_char(s[i]);
	for (size_t from = 0, to; from < n && !st; from = to) {
		size_t group = left % 3 ? left % 3 : 3;
		left -= group;
		for (to = from; to < n && (group || !begins_char(s[to])); to++)
			group -= begins_char(s[to]);
		st = pass(x, i_pass, s + from, to - from, err);
	}
	return st;
}

/* Each pass sees one piece as if it were a text of its own: a look-ahead ends where the piece does. */
static enum cohort_status pass(const struct split *x, size_t i_pass, const char *s, size_t n, struct cohort_err *err)
{
	const struct pretok *p = x->p;
	enum cohort_status st = COHORT_OK;
	size_t at = 0;

	if (i_pass == p->n_passes)
		return x->word(x->user, s, n, err);
	while (at < n && !st) {
		int got = match(p, x->r, i_pass, s, n, at);
		if (got == PCRE2_ERROR_NOMATCH)
			return pass(x, i_pass + 1, s + at, n - at, err);
		if (got < 0)
			return match_failed(got, err);
		const PCRE2_SIZE *o = pcre2_get_ovector_pointer(x->r->match);
		size_t from = o[0], to = o[1];
		if (from > at)
			st = pass(x, i_pass + 1, s + at, from - at, err);
		if (!st && p->rule->threes && i_pass == 0)
			st = in_threes(x, i_pass + 1, s + from, to - from, err);
		else if (!st)
			st = pass(x, i_pass + 1, s + from, to - from, err);
		at = to;
	}
	return st;
}

enum cohort_status pretok_split(const struct pretok *p, struct pretok_run *r, const char *s, size_t n,
		pretok_word_fn *word, void *user, struct cohort_err *err)
{
	struct split x = {p, r, word, user};
	return n ? pass(&x, 0, s, n, err) : COHORT_OK;
}
