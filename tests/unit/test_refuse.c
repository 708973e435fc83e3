/* The table of refusals: every public function with NULL for each pointer in turn and, for each number that has a
 * range, with one below it and one above it, all other arguments valid: status, rule, row, seq, expected and got. A
 * NULL that is allowed, and the numbers at the ends of a range, pass. The rows are in refuse_*.c, by subject.
 *
 * The last case reads the headers: every function has rows, one for each pointer, and one for each signed number or
 * enum (that it is refused, or that any value passes). A new function, or a new parameter, without a row fails.
 *
 * Shown red by: a forest of the default ids that does not look for cells; a branch's index n_nodes; a NULL context of
 * a forest that is COHORT_OK; a forest over a context with output_all; n_bias -1 taken; err_range with its bounds
 * swapped; a warm-up that refuses n_ubatch rows; rows of the table left out; a function added to a header.
 *
 * Limits that the headers and docs name, at N and at N + 1:
 *   here         n_batch, n_ubatch, n_seq_max, n_outputs, positions of a model, 64 sequences of a warm-up; room of
 *                every buffer (n_max); text and bytes of grammars, schemas, templates, tokens of lexicons; repetitions,
 *                parentheses and rules of grammars; depths of schemas and templates; every field of a params struct
 *   elsewhere    a queue and its shares: test_engine_api; steps, memory and depth of a rendering: test_template_limits
 *   N + 1 only   2^31 - 1 tokens of a buffer (refuse_batch), 512 MiB to tokenise (test_tok_vocab): N takes gigabytes
 *   not exactly  2^20 nodes and sets of 16,384 members of a grammar, 2,000 rules deep (test_grammar): how many a text
 *                becomes is the library's own */
#include "refuse_case.h"
#include "room_case.h"
#include "temp.h"

#include <ctype.h>
#include <unistd.h>

struct refuse_world w;

/* ---- Rows ---- */

enum { ROWS_MAX = 3000, NAMES_MAX = 400, PARAMS_MAX = 12 };
static struct row {
	const char *file, *name, *arguments, *param;
	int line;
} rows[ROWS_MAX];
static size_t n_rows;
static int n_calls, n_bad;
static struct cohort_err filled;

struct cohort_err *refuse_begin(const char *file, int line, const char *name, const char *arguments, const char *param)
{
	if (n_rows == ROWS_MAX)
		fail_msg("more than %d rows", ROWS_MAX);
	rows[n_rows++] = (struct row){file, name, arguments, param, line};
	n_calls = 0;
	memset(&filled, 0x5a, sizeof filled);
	return &filled;
}

bool refuse_on(void)
{
	return n_calls < 2;
}

/* A row without an err is called once. */
struct cohort_err *refuse_next(void)
{
	n_calls += strstr(rows[n_rows - 1].arguments, "err)") ? 1 : 2;
	return NULL;
}

static void bad(const char *what)
{
	const struct row *r = &rows[n_rows - 1];

	n_bad++;
	printf("# %s:%d: %s%s: %s\n", r->file, r->line, r->name, r->arguments, what);
}

void refuse_true(bool ok, const char *what)
{
	if (!ok)
		bad(what);
}

int refuse_same(int status)
{
	return status;
}

/* NULL of a function that returns a pointer and fills err. */
int refuse_pointer(const float *p)
{
	return p ? COHORT_OK : n_calls == 0 ? (int)filled.status : COHORT_E_ARG;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

void refuse_check(int status, struct refusal want)
{
	const struct cohort_err *e = &filled;
	char text[1200];

	if (status != (int)want.status) {
		snprintf(text, sizeof text, "%s (%s), expected %s", cohort_status_name((enum cohort_status)status),
				status && n_calls == 0 ? e->text : "", cohort_status_name(want.status));
		bad(text);
	} else if (status != COHORT_OK && n_calls == 0 &&
			(e->status != want.status || !same_text(e->rule, want.rule) || e->row != want.row ||
					e->seq != want.seq || e->expected != want.expected || e->got != want.got ||
					(want.says && strcmp(e->text, want.says) != 0))) {
		snprintf(text, sizeof text,
				"rule %s, row %lld, seq %lld, expected %lld, got %lld (%s); wanted %s, %lld, %lld, "
				"%lld, %lld (%s)",
				e->rule ? e->rule : "none", (long long)e->row, (long long)e->seq,
				(long long)e->expected, (long long)e->got, e->text, want.rule ? want.rule : "none",
				(long long)want.row, (long long)want.seq, (long long)want.expected, (long long)want.got,
				want.says ? want.says : "any text");
		bad(text);
	}
}

void refuse_end(void)
{
	const int n = n_bad;

	n_bad = 0;
	if (n)
		fail_msg("%d calls of this case came to something else", n);
}

/* ---- Declarations ---- */

struct param {
	char name[40];
	bool pointer, number, err;
};
static struct declaration {
	char name[64];
	struct param params[PARAMS_MAX];
	int n_params;
} declarations[NAMES_MAX];
static size_t n_declarations;

/* Splits what stands in a pair of brackets at its commas; texts and inner brackets stay whole. Returns the number of
 * parts. */
static int split(const char *s, const char *end, const char *from[], const char *to[])
{
	int n = 0, depth = 0;
	bool quoted = false;

	while (s < end && isspace((unsigned char)*s))
		s++;
	for (const char *first = s; s <= end; s++) {
		quoted ^= s < end && *s == '"' && s[-1] != '\\';
		depth += !quoted && s < end && strchr("([{", *s) ? 1 : 0;
		depth -= !quoted && s < end && strchr(")]}", *s) ? 1 : 0;
		if (s != end && (quoted || depth > 0 || *s != ','))
			continue;
		from[n] = first;
		to[n] = s;
		while (from[n] < to[n] && isspace((unsigned char)*from[n]))
			from[n]++;
		while (from[n] < to[n] && isspace((unsigned char)to[n][-1]))
			to[n]--;
		if (++n == PARAMS_MAX)
			break;
		first = s + 1;
	}
	return n == 1 && from[0] == to[0] ? 0 : n;
}

static bool has(const char *s, const char *end, const char *word)
{
	const char *at = strstr(s, word);

	return at && at < end;
}

static void declare(const char *text)
{
	static const char *const numbers[] = {
			"int32_t", "int64_t", "cohort_token", "cohort_pos", "cohort_seq", "float ", "double ", "enum "};
	const char *from[PARAMS_MAX], *to[PARAMS_MAX], *open = strchr(text, '('), *name = open;
	struct declaration *d = &declarations[n_declarations++];

	assert_non_null(open);
	assert_true(n_declarations < NAMES_MAX);
	while (isalnum((unsigned char)name[-1]) || name[-1] == '_')
		name--;
	snprintf(d->name, sizeof d->name, "%.*s", (int)(open - name), name);
	d->n_params = split(open + 1, strrchr(text, ')'), from, to);
	if (d->n_params == 1 && has(from[0], to[0], "void") && to[0] - from[0] == 4)
		d->n_params = 0;
	assert_true(d->n_params < PARAMS_MAX);
	for (int i = 0; i < d->n_params; i++) {
		struct param *p = &d->params[i];
		const char *end = strchr(from[i], '[') && strchr(from[i], '[') < to[i] ? strchr(from[i], '[') : to[i];
		const char *word = end;
		while (isalnum((unsigned char)word[-1]) || word[-1] == '_')
			word--;
		snprintf(p->name, sizeof p->name, "%.*s", (int)(end - word), word);
		p->pointer = has(from[i], to[i], "*") || end != to[i] || has(from[i], to[i], "cohort_answer_fn");
		p->err = has(from[i], to[i], "struct cohort_err *");
		for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
			p->number |= !p->pointer && to[i] - from[i] > (ptrdiff_t)strlen(numbers[k]) &&
					memcmp(from[i], numbers[k], strlen(numbers[k])) == 0;
	}
}

static void read_header(const char *name)
{
	char path[1024], *text = NULL;
	const char *source = getenv("COHORT_SOURCE");
	size_t n = 0;

	snprintf(path, sizeof path, "%s/include/%s", source ? source : ".", name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	for (ssize_t length; (length = getdelim(&text, &n, ';', f)) > 0;) {
		char *at = strstr(text, "\nCOHORT_API ");
		if (at)
			declare(at);
	}
	free(text);
	fclose(f);
}

/* ---- Every function and every parameter has a row ---- */

static bool row_is_about(const struct row *r, const struct declaration *d, int i)
{
	const char *from[PARAMS_MAX], *to[PARAMS_MAX], *end = r->arguments;
	int n_null = 0, at = -1, depth = 0;

	if (!d->params[i].pointer)
		return strcmp(r->param, d->params[i].name) == 0;
	do /* the row may go on behind the arguments */
		depth += *end == '(' ? 1 : *end == ')' ? -1 : 0;
	while (*end++ && depth > 0);
	const int n = split(r->arguments + 1, end - 1, from, to);
	assert_int_equal(n, d->n_params);
	for (int k = 0; k < n; k++) {
		const size_t length = (size_t)(to[k] - from[k]);
		if (length == 4 && memcmp(from[k], "NULL", 4) == 0) {
			n_null++;
			at = k;
		}
		if (k == i && d->params[i].err && length == 3 && memcmp(from[k], "err", 3) == 0)
			return true;
	}
	return n_null == 1 && at == i;
}

static void complete(void **state)
{
	int n_missing = 0;

	(void)state;
	read_header("cohort.h");
	read_header("cohort_engine.h");
	read_header("cohort_search.h");
	read_header("cohort_tools.h");
	for (size_t k = 0; k < n_declarations; k++) {
		const struct declaration *d = &declarations[k];
		uint32_t seen = 0;
		bool any = false;
		for (size_t r = 0; r < n_rows; r++) {
			if (strcmp(rows[r].name, d->name) != 0)
				continue;
			any = true;
			bool named = strcmp(rows[r].param, "_") == 0;
			for (int i = 0; i < d->n_params; i++) {
				seen |= row_is_about(&rows[r], d, i) ? 1u << i : 0;
				named |= strcmp(rows[r].param, d->params[i].name) == 0;
			}
			if (!named)
				fail_msg("%s:%d: %s has no parameter %s", rows[r].file, rows[r].line, d->name,
						rows[r].param);
		}
		for (int i = 0; i < d->n_params; i++)
			if ((d->params[i].pointer || d->params[i].number) && !(seen & 1u << i)) {
				printf("# no row for %s of %s\n", d->params[i].name, d->name);
				n_missing++;
			}
		if (!any && d->n_params == 0) {
			printf("# no row for %s\n", d->name);
			n_missing++;
		}
	}
	assert_int_equal(n_missing, 0);
	assert_in_range(n_declarations, 220, NAMES_MAX - 1);
}

/* ---- The world ---- */

const char *refuse_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", w.dir, name);
	return path;
}

static enum cohort_status open_contexts(struct cohort_err *err)
{
	struct cohort_context_params p;

	cohort_context_params_init(&p);
	p.n_ctx = REFUSE_CTX;
	p.n_blocks = pool_blocks(REFUSE_CTX, 0);
	p.n_batch = REFUSE_BATCH;
	p.n_ubatch = REFUSE_UBATCH;
	p.n_seq_max = REFUSE_SEQS;
	p.n_threads = 1;
	enum cohort_status st = cohort_context_open(w.model, &p, &w.ctx, err);
	p.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
	p.pooling = COHORT_POOL_MEAN;
	return st ? st : cohort_context_open(w.model, &p, &w.pooled, err);
}

static int open_world(void **state)
{
	static const char text[] = "root ::= \"a\" \"b\"?";
	const char *source = getenv("COHORT_SOURCE");
	struct cohort_err err;
	char path[1024];

	(void)state;
	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", source ? source : ".");
	if (!mkdtemp(temp_name(w.dir, "refuse")) || cohort_model_open(path, NULL, &w.model, &err) ||
			open_contexts(&err) || cohort_lexicon_open(w.model, &w.lexicon, &err) ||
			cohort_grammar_open(w.lexicon, text, sizeof text - 1, NULL, &w.grammar, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	cohort_model_info_get(w.model, &w.info);
	for (size_t i = 0; i < sizeof w.tokens / sizeof *w.tokens; i++)
		w.tokens[i] = (cohort_token)i + 1;
	w.logits = calloc((size_t)w.info.n_vocab, sizeof *w.logits);
	return !w.logits || cohort_sampler_open(NULL, w.info.n_vocab, &w.sampler, &err) ? -1 : 0;
}

static int close_world(void **state)
{
	(void)state;
	free(w.logits);
	cohort_sampler_free(w.sampler);
	cohort_grammar_free(w.grammar);
	cohort_lexicon_free(w.lexicon);
	cohort_context_free(w.pooled);
	cohort_context_free(w.ctx);
	cohort_model_free(w.model);
	return rmdir(w.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(refuse_batch),
			cmocka_unit_test(refuse_tokens),
			cmocka_unit_test(refuse_texts),
			cmocka_unit_test(refuse_context),
			cmocka_unit_test(refuse_decode),
			cmocka_unit_test(refuse_outputs),
			cmocka_unit_test(refuse_seqs),
			cmocka_unit_test(refuse_states),
			cmocka_unit_test(refuse_adapters),
			cmocka_unit_test(refuse_grammars),
			cmocka_unit_test(refuse_samplers),
			cmocka_unit_test(refuse_logprobs),
			cmocka_unit_test(refuse_forests),
			cmocka_unit_test(refuse_branches),
			cmocka_unit_test(refuse_searches),
			cmocka_unit_test(refuse_strategies),
			cmocka_unit_test(refuse_engines),
			cmocka_unit_test(refuse_requests),
			cmocka_unit_test(refuse_caches),
			cmocka_unit_test(refuse_simulations),
			cmocka_unit_test(refuse_files),
			cmocka_unit_test(refuse_writers),
			cmocka_unit_test(refuse_models_written),
			cmocka_unit_test(refuse_templates),
			cmocka_unit_test(complete),
	};
	return cmocka_run_group_tests_name("refuse", tests, open_world, close_world);
}
