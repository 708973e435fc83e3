/* Searches against naive ones, which compute every prefix alone from scratch: bits of scores and sums, tokens,
 * order. Beams wide enough are compared with brute force over all sequences; narrow ones with a beam search that
 * looks at all candidates and never stops early; diverse ones, drawn texts, votes and trees with plain loops. With
 * and without end tokens, a grammar, length penalties; on models with random weights, and on one whose tokens are
 * pairs of twins, so that ties are everywhere. The same whatever n_batch, n_ubatch and threads are. Every allocation
 * fails once, and the cache is full: no id and no block is lost, and the branch is as it was.
 *
 * Seen red with: a penalty that groups do not get, that gets into sums, stays for the next step, or does not count
 * texts that end; ties the other way round, of beams, tokens and kept texts; a stop by the length so far, by the
 * last one only, one that never comes, one of each group for itself; candidates without room for end tokens or for
 * those with a penalty; a length without the end token; a grammar that is ignored, or by whose tokens probabilities
 * are shared out anew; a beam that nothing can follow, lost (or a drawn text, refused); branches that stay: of beams
 * that ended, of forks before a failure, as parents; forks of a branch that has gone on; streams that begin again
 * with each turn; the last of equals as the best; means for sums; votes without likelihood; a tree that grows behind
 * an end, with another minimum, a node too many, or with wrong children; `out` written by a call that failed. */
#include "branch_case.h"
#include "model_case.h"
#include "room_case.h"

#include "base/fmath.h"
#include "base/mem.h"
#include "cohort_search.h"
#include "context/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_VOCAB = 7, N_SEQS = 520, DEPTH_MAX = 6, PROMPT = 3, LIST_MAX = 40000 };

static const struct shape tiny = {N_VOCAB, 32, 1, 2, 1, 16, 16, 32, 16, 64, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
		true, NULL, NULL, NULL};

struct world {
	struct cohort_model *m;
	struct cohort_context *ctx, *alone;
	struct cohort_forest *f;
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *grammar;
	struct cohort_sampler_params sp;
	struct cohort_branch root;
	char *path;
};

static struct cohort_err err;
static struct rng r;
static int n_blocks = N_SEQS; /* of the contexts that are opened */

static void ok(enum cohort_status st)
{
	mem_fail_after(-1);
	if (st)
		fail_msg("%s", err.text);
}

static int below(int n)
{
	return (int)(rng_u32(&r) % (uint32_t)n);
}

static const float *root_logits; /* that were set in the place of the root's, or NULL */
static const cohort_token prompt[PROMPT] = {1, 4, 2};

/* ---- Worlds ---- */

struct shape_of_work {
	int32_t n_batch, n_ubatch, n_threads;
};

/* Changes the embedding, which is the output as well: logits that lie further apart, and with `twins` token 2i + 1 a
 * twin of token 2i. All tensors are whole multiples of 32 bytes, the embedding is the first. */
static void change_rows(const char *path, float scale, bool twins)
{
	const long rest = 32 + 32 + 32 * 32 + 2 * 32 * 16 + 32 * 32 + 32 + 3 * 32 * 32;
	FILE *f = fopen(path, "r+b");
	float rows[N_VOCAB][32];

	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	const long start = ftell(f) - 4 * rest - (long)sizeof rows;
	fseek(f, start, SEEK_SET);
	assert_int_equal(fread(rows, sizeof rows, 1, f), 1);
	for (int i = 0; i < N_VOCAB; i++)
		for (int k = 0; k < 32; k++)
			rows[i][k] = twins && i % 2 ? rows[i - 1][k] : scale * rows[i][k];
	fseek(f, start, SEEK_SET);
	assert_int_equal(fwrite(rows, sizeof rows, 1, f), 1);
	fclose(f);
}

static void plant(struct world *w, bool grammar)
{
	if (w->f)
		cohort_forest_free(w->f);
	ok(cohort_forest_open(w->ctx, NULL, &w->f, &err));
	w->sp.grammar = grammar ? w->grammar : NULL;
	ok(cohort_branch_create(w->f, &w->sp, &w->root, &err));
	ok(cohort_branch_prefill(w->f, w->root, prompt, PROMPT, &err));
}

static void open_world(struct world *w, uint64_t seed, bool twins, struct shape_of_work how, bool grammar)
{
	struct cohort_context_params cp;
	struct cohort_lexicon_token words[N_VOCAB];
	/* No token says z. */
	static const char letters[] = "abcdefg", rules[] = "root ::= ([a-b] [c-e] | \"f\" | \"d\" \"z\")+";

	root_logits = NULL;
	*w = (struct world){.path = synth_write(&tiny, seed)};
	change_rows(w->path, seed % 2 ? 16.0f : 1.0f, twins);
	ok(cohort_model_open(w->path, NULL, &w->m, &err));
	cohort_context_params_init(&cp);
	cp.n_ctx = 32 * n_blocks;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_batch = how.n_batch;
	cp.n_ubatch = how.n_ubatch;
	cp.n_threads = how.n_threads;
	cp.n_seq_max = N_SEQS;
	ok(cohort_context_open(w->m, &cp, &w->ctx, &err));
	cp.n_ctx = cp.n_batch = cp.n_ubatch = 64;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_seq_max = cp.n_threads = 1;
	ok(cohort_context_open(w->m, &cp, &w->alone, &err));
	for (int i = 0; i < N_VOCAB; i++)
		words[i] = (struct cohort_lexicon_token){&letters[i], 1, true, i == N_VOCAB - 1};
	ok(cohort_lexicon_open_list(words, N_VOCAB, &w->lexicon, &err));
	ok(cohort_grammar_open(w->lexicon, rules, sizeof rules - 1, NULL, &w->grammar, &err));
	cohort_sampler_params_init(&w->sp);
	w->sp.repeat_penalty = 1.2f;
	w->sp.temperature = 1.5f;
	plant(w, grammar);
}

/* Nothing is left of a search: the root alone has an id, and its blocks. */
static void look(const struct world *w)
{
	struct cohort_pressure p;
	struct cohort_branch_info info;

	cohort_forest_pressure_get(w->f, &p);
	assert_int_equal(p.n_leased, 1);
	assert_int_equal(p.n_blocks_used, 1);
	ok(cohort_branch_info_get(w->f, w->root, &info, &err));
	assert_int_equal(info.n_past, PROMPT);
	assert_int_equal(info.n_children, 0);
	assert_int_equal(info.n_accepted, 0);
	assert_int_equal(info.pending, -1);
	assert_true(memory_consistent(&w->ctx->memory));
}

static void close_world(struct world *w)
{
	struct cohort_usage u;

	look(w);
	cohort_forest_free(w->f);
	cohort_usage_get(w->ctx, &u);
	assert_int_equal(u.n_used, 0);
	cohort_context_free(w->ctx);
	cohort_context_free(w->alone);
	cohort_grammar_free(w->grammar);
	cohort_lexicon_free(w->lexicon);
	cohort_model_free(w->m);
	unlink(w->path);
	free(w->path);
}

/* ---- What follows a prefix, from nothing ---- */

struct row {
	float logits[N_VOCAB], lp[N_VOCAB];
	bool legal[N_VOCAB];
};

static void compute(const struct world *w, const cohort_token *tokens, int n, struct row *out)
{
	cohort_token all[PROMPT + DEPTH_MAX];
	struct cohort_sampler *s;

	memcpy(all, prompt, sizeof prompt);
	if (n > 0)
		memcpy(all + PROMPT, tokens, (size_t)n * sizeof *tokens);
	ok(cohort_seq_rm(w->alone, 0, 0, -1, &err));
	ok(cohort_decode_many(w->alone, all, PROMPT + n, 0, 0, &err));
	const float *logits = n == 0 && root_logits ? root_logits : cohort_logits_get(w->alone, -1, &err);
	memcpy(out->logits, logits, sizeof out->logits);
	ok(cohort_sampler_open(&w->sp, N_VOCAB, &s, &err));
	for (int i = 0; i < n; i++)
		ok(cohort_sampler_accept(s, tokens[i], &err));
	for (int t = 0; t < N_VOCAB; t++) {
		ok(cohort_logprobs_get(out->logits, N_VOCAB, t, &out->lp[t], NULL, 0, NULL, &err));
		out->legal[t] = cohort_sampler_permits(s, t, NULL) == COHORT_OK;
	}
	cohort_sampler_free(s);
}

struct text {
	cohort_token tokens[DEPTH_MAX];
	int n, group, found; /* found: in what order */
	double sum, score, key;
	bool finished;
	int from;            /* of a candidate: the beam */
	float logit;
};

static bool is_end(const struct cohort_beam_params *p, cohort_token t)
{
	for (int i = 0; i < p->n_ends; i++)
		if (p->ends[i] == t)
			return true;
	return false;
}

static double score_of(const struct cohort_beam_params *p, double sum, int n)
{
	return n > 1 ? sum / fm_pow(n, p->length_penalty) : sum;
}

static int by_score(const void *a, const void *b)
{
	const struct text *x = a, *y = b;
	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return x->group != y->group ? (x->group < y->group ? -1 : 1) : x->found < y->found ? -1 : 1;
}

static int by_key(const void *a, const void *b)
{
	const struct text *x = a, *y = b;
	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->tokens[x->n - 1] < y->tokens[y->n - 1] ? -1 : 1;
}

/* ---- Brute force ---- */

static struct text list[LIST_MAX];
static int n_list;

static void add(const struct cohort_beam_params *p, struct text t, bool finished)
{
	assert_true(n_list < LIST_MAX);
	t.finished = finished;
	t.score = score_of(p, t.sum, t.n);
	t.found = n_list;
	list[n_list++] = t;
}

static void brute(const struct world *w, const struct cohort_beam_params *p, const struct text *at)
{
	struct row row;
	bool any = false;

	compute(w, at->tokens, at->n, &row);
	for (int v = 0; v < N_VOCAB; v++) {
		struct text t = *at;
		if (!row.legal[v])
			continue;
		any = true;
		t.tokens[t.n++] = v;
		t.sum += (double)row.lp[v];
		if (is_end(p, v) || t.n == p->max_tokens)
			add(p, t, is_end(p, v));
		else
			brute(w, p, &t);
	}
	if (!any)
		add(p, *at, false);
}

/* ---- A naive beam search ---- */

/* The group's next beams, and what of its candidates is finished. `chosen` has the tokens of earlier groups. */
static int naive_step(const struct world *w, const struct cohort_beam_params *p, int group, int width,
		struct text *beams, int n_beams, struct text *kept, int *n_kept, int *chosen, bool last)
{
	static struct text all[64 * N_VOCAB];
	int n = 0, found = 0, mine[N_VOCAB] = {0};

	for (int i = 0; i < n_beams; i++) {
		struct row row;
		int n_before = n;
		compute(w, beams[i].tokens, beams[i].n, &row);
		for (int v = 0; v < N_VOCAB; v++) {
			if (!row.legal[v])
				continue;
			struct text t = beams[i];
			t.tokens[t.n++] = v;
			t.sum += (double)row.lp[v];
			t.key = t.sum - p->diversity * chosen[v];
			t.from = i;
			t.logit = row.logits[v];
			all[n++] = t;
		}
		if (n == n_before) {
			beams[i].score = score_of(p, beams[i].sum, beams[i].n);
			beams[i].finished = false;
			beams[i].found = *n_kept;
			kept[(*n_kept)++] = beams[i];
		}
	}
	qsort(all, (size_t)n, sizeof *all, by_key);
	for (int i = 0; i < n && found < width; i++) {
		struct text t = all[i];
		const cohort_token v = t.tokens[t.n - 1];
		mine[v]++;
		t.group = group;
		t.score = score_of(p, t.sum, t.n);
		t.finished = is_end(p, v);
		t.found = *n_kept;
		if (t.finished || last)
			kept[(*n_kept)++] = t;
		if (!t.finished)
			beams[found++] = t;
	}
	for (int v = 0; v < N_VOCAB; v++)
		chosen[v] += mine[v];
	return last ? 0 : found;
}

/* Into list. */
static void naive_beams(const struct world *w, const struct cohort_beam_params *p)
{
	static struct text beams[8][64], kept[8][1024];
	int n_beams[8], n_kept[8] = {0};
	const int width = p->width / p->n_groups;

	for (int g = 0; g < p->n_groups; g++) {
		beams[g][0] = (struct text){.group = g};
		n_beams[g] = 1;
	}
	for (int step = 1; step <= p->max_tokens; step++) {
		int chosen[N_VOCAB] = {0};
		for (int g = 0; g < p->n_groups; g++) {
			n_beams[g] = naive_step(w, p, g, width, beams[g], n_beams[g], kept[g], &n_kept[g], chosen,
					step == p->max_tokens);
			if (p->stop == COHORT_BEAM_STOP_FIRST && n_kept[g] >= width)
				n_beams[g] = 0;
		}
	}
	n_list = 0;
	for (int g = 0; g < p->n_groups; g++) {
		qsort(kept[g], (size_t)n_kept[g], sizeof **kept, by_score);
		for (int i = 0; i < n_kept[g] && i < width; i++)
			list[n_list++] = kept[g][i];
	}
}

/* What was found is what is at the head of list. */
static void compare(const struct cohort_beam_params *p, const struct cohort_beams *b)
{
	qsort(list, (size_t)n_list, sizeof *list, by_score);
	assert_int_equal(b->n_items, n_list < p->n_best ? n_list : p->n_best);
	for (int i = 0; i < b->n_items; i++) {
		assert_int_equal(b->items[i].n_tokens, list[i].n);
		assert_memory_equal(&b->items[i].score, &list[i].score, sizeof(double));
		assert_memory_equal(&b->items[i].logprob, &list[i].sum, sizeof(double));
		if (list[i].n > 0)
			assert_memory_equal(b->items[i].tokens, list[i].tokens,
					(size_t)list[i].n * sizeof(cohort_token));
		assert_int_equal(b->items[i].finished, list[i].finished);
		assert_int_equal(b->items[i].group, list[i].group);
	}
}

static const cohort_token ends[] = {6, 3};
static const double penalties[] = {0, 1, 0.6, -1, 2.5};

static void wide_beams(void **state)
{
	(void)state;
	rng_init(&r, 1, 0);
	for (int i = 0; i < 24; i++) {
		struct world w;
		struct cohort_beam_params p;
		struct cohort_beams b;
		open_world(&w, (uint64_t)i, false, (struct shape_of_work){64, 16, 1}, i % 3 == 2);
		cohort_beam_params_init(&p);
		p.max_tokens = 1 + i % 4;
		p.width = 3000;
		p.n_best = i % 2 ? 3000 : 5;
		p.ends = ends;
		p.n_ends = i / 2 % 3;
		p.length_penalty = penalties[i % 5];
		ok(cohort_beams_search(w.f, w.root, &p, &b, &err));
		n_list = 0;
		brute(&w, &p, &(struct text){.n = 0});
		assert_true(p.max_tokens < 4 || n_list > 20);
		compare(&p, &b);
		cohort_beams_release(&b);
		close_world(&w);
	}
}

static struct cohort_beam_params some_params(void)
{
	struct cohort_beam_params p;

	cohort_beam_params_init(&p);
	p.max_tokens = 1 + below(DEPTH_MAX);
	p.n_groups = below(2) ? 1 : 1 + below(3);
	p.width = p.n_groups * (1 + below(4));
	p.n_best = 1 + below(p.width);
	p.ends = ends;
	p.n_ends = below(3);
	p.stop = below(3) ? COHORT_BEAM_STOP_SURE : COHORT_BEAM_STOP_FIRST;
	p.diversity = below(3) * 0.4;
	p.length_penalty = penalties[below(5)];
	return p;
}

/* The same searches in contexts of several shapes, each the same as the naive one. */
static void narrow_beams(void **state)
{
	static const struct shape_of_work shapes[] = {{64, 16, 1}, {3, 2, 1}, {5, 5, 3}};
	int n_stopped = 0, n_many = 0;

	(void)state;
	rng_init(&r, 2, 0);
	for (int i = 0; i < 45; i++) {
		struct world w;
		open_world(&w, (uint64_t)i / 3, i / 6 % 2, shapes[i % 3], i / 3 % 3 == 0);
		for (int k = 0; k < 40; k++) {
			const struct cohort_beam_params p = some_params();
			struct cohort_beams b;
			ok(cohort_beams_search(w.f, w.root, &p, &b, &err));
			look(&w);
			naive_beams(&w, &p);
			compare(&p, &b);
			n_stopped += b.n_steps < p.max_tokens;
			n_many += b.n_items > 2;
			cohort_beams_release(&b);
		}
		close_world(&w);
	}
	print_message("# %d searches stopped early, %d had more than two results\n", n_stopped, n_many);
	assert_true(n_stopped > 80 && n_many > 300);
}

/* Short texts favoured by far: two are finished at once, and one of the next length is still better than the second,
 * though no longer one would be. */
static void next_length(void **state)
{
	static const float logits[N_VOCAB] = {0, -30, -31, -25, -32, -33, 0};
	struct world w;
	struct cohort_beam_params p;
	struct cohort_beams b;

	(void)state;
	open_world(&w, 2, false, (struct shape_of_work){64, 16, 1}, false);
	ok(cohort_branch_logits_set(w.f, w.root, logits, &err));
	root_logits = logits;
	cohort_beam_params_init(&p);
	p.width = p.n_best = 2;
	p.max_tokens = DEPTH_MAX;
	p.length_penalty = -3;
	p.ends = ends;
	p.n_ends = 2;
	ok(cohort_beams_search(w.f, w.root, &p, &b, &err));
	naive_beams(&w, &p);
	compare(&p, &b);
	assert_int_equal(b.items[1].n_tokens, 2);
	assert_true(b.n_steps < p.max_tokens);
	cohort_beams_release(&b);
	close_world(&w);
}

/* ---- Drawn texts, votes ---- */

/* What a text answers: its tokens' sum modulo 4, as a digit; texts of one token say nothing. */
static bool answer(void *user, int32_t index, const struct cohort_drawn *text, const char **bytes, size_t *n_bytes)
{
	static char digit[1];
	int sum = 0;

	(void)user, (void)index;
	for (int32_t i = 0; i < text->n_tokens; i++)
		sum += text->tokens[i];
	digit[0] = (char)('0' + sum % 4);
	*bytes = digit;
	*n_bytes = 1;
	return text->n_tokens > 1;
}

static void check_votes(const struct cohort_texts *t)
{
	struct cohort_votes v;
	int count[4] = {0}, best[4], n_silent = 0, winner = -1;

	ok(cohort_votes_count(t, answer, NULL, &v, &err));
	for (int i = 0; i < t->n_items; i++) {
		const char *bytes;
		size_t n;
		if (!answer(NULL, i, &t->items[i], &bytes, &n)) {
			n_silent++;
			assert_int_equal(v.vote_of[i], -1);
			continue;
		}
		const int a = bytes[0] - '0';
		if (count[a]++ == 0 || t->items[i].likelihood > t->items[best[a]].likelihood)
			best[a] = i;
		assert_true(v.vote_of[i] >= 0 && v.items[v.vote_of[i]].answer[0] == bytes[0]);
	}
	assert_int_equal(v.n_silent, n_silent);
	for (int a = 0; a < 4; a++)
		if (count[a] > 0 && (winner < 0 || count[a] > count[winner] || (count[a] == count[winner] &&
				t->items[best[a]].likelihood > t->items[best[winner]].likelihood)))
			winner = a;
	assert_int_equal(v.n_items > 0, winner >= 0);
	for (int i = 0; i < v.n_items; i++) {
		const int a = v.items[i].answer[0] - '0';
		assert_int_equal(v.items[i].n_bytes, 1);
		assert_int_equal(v.items[i].answer[1], 0);
		assert_int_equal(v.items[i].n_texts, count[a]);
		assert_int_equal(v.items[i].best, best[a]);
		if (i == 0)
			assert_int_equal(a, winner);
		else
			assert_true(v.items[i].n_texts <= v.items[i - 1].n_texts);
	}
	cohort_votes_release(&v);
}

/* Text i alone, from scratch. */
static struct text draw_alone(const struct world *w, const struct cohort_draw_params *p, int i)
{
	const struct cohort_beam_params e = {.ends = p->ends, .n_ends = p->n_ends};
	struct text t = {.n = 0};
	struct cohort_sampler *s;
	struct row row;
	cohort_token v;

	ok(cohort_sampler_open(&w->sp, N_VOCAB, &s, &err));
	ok(cohort_sampler_prompt(s, prompt, PROMPT, &err));
	cohort_sampler_reseed(s, p->seed, p->first_stream + (uint64_t)i);
	while (t.n < p->max_tokens && !t.finished) {
		compute(w, t.tokens, t.n, &row);
		bool any = false;
		for (v = 0; v < N_VOCAB; v++)
			any |= row.legal[v];
		if (!any)
			break;
		ok(cohort_sampler_sample(s, row.logits, &v, &err));
		t.tokens[t.n++] = v;
		t.sum += (double)row.lp[v];
		t.finished = is_end(&e, v);
	}
	cohort_sampler_free(s);
	return t;
}

static void best_of_texts_against_naive_search(void **state)
{
	(void)state;
	rng_init(&r, 3, 0);
	for (int i = 0; i < 24; i++) {
		struct world w;
		struct cohort_draw_params p;
		struct cohort_texts t;
		int best = 0;
		const struct shape_of_work how = {i % 2 ? 3 : 64, 2, 1 + i % 2};
		open_world(&w, (uint64_t)i, i % 4 == 3, how, i % 3 == 0);
		cohort_draw_params_init(&p);
		p.n = 1 + below(14);
		p.max_tokens = 1 + below(DEPTH_MAX);
		p.seed = (uint64_t)below(9);
		p.first_stream = (uint64_t)below(5);
		p.by_sum = i % 2;
		p.ends = ends;
		p.n_ends = 1 + below(2);
		/* With few ids they take turns. */
		if (i % 2) {
			const struct cohort_forest_params few = {sizeof few, 5, 4};
			cohort_forest_free(w.f);
			ok(cohort_forest_open(w.ctx, &few, &w.f, &err));
			ok(cohort_branch_create(w.f, &w.sp, &w.root, &err));
			ok(cohort_branch_prefill(w.f, w.root, prompt, PROMPT, &err));
		}
		ok(cohort_texts_draw(w.f, w.root, &p, &t, &err));
		look(&w);
		assert_int_equal(t.n_items, p.n);
		for (int k = 0; k < p.n; k++) {
			const struct text a = draw_alone(&w, &p, k);
			const double like = p.by_sum ? a.sum : a.sum / a.n;
			assert_int_equal(t.items[k].n_tokens, a.n);
			assert_memory_equal(t.items[k].tokens, a.tokens, (size_t)a.n * sizeof *a.tokens);
			assert_memory_equal(&t.items[k].logprob, &a.sum, sizeof a.sum);
			assert_memory_equal(&t.items[k].likelihood, &like, sizeof like);
			assert_int_equal(t.items[k].finished, a.finished);
			if (like > t.items[best].likelihood)
				best = k;
		}
		assert_int_equal(t.best, best);
		check_votes(&t);
		cohort_texts_release(&t);
		close_world(&w);
	}
}

/* All that the grammar permits behind a and b is excluded by biases: such texts end there, as they are, and others go
 * on. Seen red with an end only where the grammar permits nothing at all. */
static void texts_end_where_biases_exclude_all(void **state)
{
	const struct cohort_logit_bias no[] = {{2, -INFINITY}, {3, -INFINITY}, {4, -INFINITY}};
	const cohort_token end = N_VOCAB - 1; /* of the lexicon */
	struct cohort_draw_params p;
	struct cohort_texts t;
	struct world w;
	int n_stuck = 0;

	(void)state;
	open_world(&w, 2, false, (struct shape_of_work){64, 64, 1}, true);
	cohort_draw_params_init(&p);
	p.n = 32;
	p.max_tokens = DEPTH_MAX;
	p.ends = &end;
	p.n_ends = 1;
	ok(cohort_branch_bias_set(w.f, w.root, no, 3, &err));
	ok(cohort_texts_draw(w.f, w.root, &p, &t, &err));
	look(&w);
	for (int i = 0; i < t.n_items; i++) {
		const struct cohort_drawn *a = &t.items[i];
		assert_true(a->n_tokens > 0);
		const cohort_token last = a->tokens[a->n_tokens - 1];
		for (int k = 0; k + 1 < a->n_tokens; k++)
			assert_int_equal(a->tokens[k], 5); /* f: what else goes on */
		assert_true(last == 0 || last == 1 ? !a->finished : a->finished || a->n_tokens == p.max_tokens);
		n_stuck += last < 2 && a->n_tokens < p.max_tokens;
	}
	assert_true(n_stuck > 0 && n_stuck < t.n_items);
	cohort_texts_release(&t);
	/* Without a grammar that is an error, as it is of any draw. */
	struct cohort_logit_bias all[N_VOCAB];
	for (int i = 0; i < N_VOCAB; i++)
		all[i] = (struct cohort_logit_bias){i, -INFINITY};
	plant(&w, false);
	ok(cohort_branch_bias_set(w.f, w.root, all, N_VOCAB, &err));
	assert_int_equal(cohort_texts_draw(w.f, w.root, &p, &t, &err), COHORT_E_NUMERIC);
	close_world(&w);
}

/* ---- Trees ---- */

struct leaf {
	struct text t;
	int parent, depth;
	bool open; /* may have children */
	float lp;
};

static void trees_against_naive_search(void **state)
{
	static struct leaf want[4000];

	(void)state;
	rng_init(&r, 4, 0);
	for (int i = 0; i < 36; i++) {
		struct world w;
		struct cohort_tree_params p;
		struct cohort_tree t;
		int n = 0;
		bool cut = false;
		open_world(&w, (uint64_t)i, i % 4 == 3, (struct shape_of_work){i % 2 ? 3 : 64, 2, 1}, i % 3 == 0);
		cohort_tree_params_init(&p);
		p.depth = 1 + below(4);
		p.top_k = 1 + below(9);
		p.min_prob = below(2) ? 0 : 0.05 + 0.1 * below(3);
		p.n_max = below(2) ? 4000 : 1 + below(60);
		p.ends = ends;
		p.n_ends = below(3);
		const struct cohort_beam_params e = {.ends = p.ends, .n_ends = p.n_ends};
		ok(cohort_tree_grow(w.f, w.root, &p, &t, &err));
		look(&w);
		for (int at = -1; at < n && !cut; at++) {
			struct row row;
			const struct leaf *up = at < 0 ? NULL : &want[at];
			bool used[N_VOCAB] = {false};
			if (up && (up->depth == p.depth || !up->open))
				continue;
			compute(&w, up ? up->t.tokens : NULL, up ? up->t.n : 0, &row);
			for (int k = 0; k < p.top_k && k < N_VOCAB && !cut; k++) {
				int v = -1;
				for (int c = 0; c < N_VOCAB; c++)
					if (row.legal[c] && !used[c] && (v < 0 || row.logits[c] > row.logits[v]))
						v = c;
				if (v < 0 || fm_exp((double)row.lp[v]) < p.min_prob)
					break;
				used[v] = true;
				cut = n == p.n_max;
				if (cut)
					break;
				struct leaf *l = &want[n++];
				*l = (struct leaf){.parent = at, .depth = up ? up->depth + 1 : 1, .lp = row.lp[v]};
				l->open = !is_end(&e, v);
				l->t = up ? up->t : (struct text){.n = 0};
				l->t.tokens[l->t.n++] = v;
				l->t.sum += (double)row.lp[v];
			}
		}
		assert_int_equal(t.n_nodes, n);
		assert_int_equal(t.cut, cut);
		int n_roots = 0;
		for (int k = 0; k < n; k++) {
			const struct cohort_tree_node *a = &t.nodes[k];
			int n_children = 0, first = -1;
			for (int c = n - 1; c > k; c--)
				if (want[c].parent == k) {
					n_children++;
					first = c;
				}
			n_roots += want[k].parent < 0;
			assert_int_equal(a->token, want[k].t.tokens[want[k].t.n - 1]);
			assert_int_equal(a->parent, want[k].parent);
			assert_int_equal(a->depth, want[k].depth);
			assert_int_equal(a->is_end, !want[k].open);
			assert_int_equal(a->n_children, n_children);
			assert_int_equal(a->first_child, first);
			assert_memory_equal(&a->logprob, &want[k].lp, sizeof(float));
			assert_memory_equal(&a->sum, &want[k].t.sum, sizeof(double));
		}
		assert_int_equal(t.n_roots, n_roots);
		cohort_tree_release(&t);
		close_world(&w);
	}
}

/* ---- Failures ---- */

static enum cohort_status one_of(const struct world *w, int which, int width, const cohort_token *end_list)
{
	struct cohort_beam_params bp;
	struct cohort_draw_params dp;
	struct cohort_tree_params tp;
	struct cohort_beams b;
	struct cohort_texts t;
	struct cohort_votes v;
	struct cohort_tree tree;
	unsigned char before[sizeof b + sizeof t + sizeof v + sizeof tree];
	enum cohort_status st;

	memset(before, 0x5a, sizeof before);
	memset(&b, 0x5a, sizeof b);
	memset(&t, 0x5a, sizeof t);
	memset(&v, 0x5a, sizeof v);
	memset(&tree, 0x5a, sizeof tree);
	cohort_beam_params_init(&bp);
	cohort_draw_params_init(&dp);
	cohort_tree_params_init(&tp);
	bp.width = width;
	bp.n_groups = which == 1 ? 2 : 1;
	bp.n_best = bp.width;
	bp.max_tokens = dp.max_tokens = 4;
	dp.n = width;
	tp.top_k = width;
	bp.ends = dp.ends = tp.ends = end_list;
	bp.n_ends = dp.n_ends = tp.n_ends = 1;
	if (which < 2) {
		st = cohort_beams_search(w->f, w->root, &bp, &b, &err);
		if (!st)
			cohort_beams_release(&b);
		else
			assert_memory_equal(&b, before, sizeof b);
	} else if (which == 2) {
		st = cohort_texts_draw(w->f, w->root, &dp, &t, &err);
		if (st)
			assert_memory_equal(&t, before, sizeof t);
		else {
			st = cohort_votes_count(&t, answer, NULL, &v, &err);
			if (!st)
				cohort_votes_release(&v);
			else
				assert_memory_equal(&v, before, sizeof v);
			cohort_texts_release(&t);
		}
	} else {
		st = cohort_tree_grow(w->f, w->root, &tp, &tree, &err);
		if (!st)
			cohort_tree_release(&tree);
		else
			assert_memory_equal(&tree, before, sizeof tree);
	}
	mem_fail_after(-1);
	return st;
}

/* ---- Other memories ---- */

/* The sum of n tokens' log-probabilities behind a prompt, each computed alone from scratch. */
static double sum_alone(struct cohort_context *alone, int32_t n_vocab, const cohort_token *all, int n_prompt, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++) {
		float lp;
		ok(cohort_seq_rm(alone, 0, 0, -1, &err));
		ok(cohort_decode_many(alone, all, n_prompt + i, 0, 0, &err));
		ok(cohort_logprobs_get(cohort_logits_get(alone, -1, &err), n_vocab, all[n_prompt + i], &lp, NULL, 0,
				NULL, &err));
		sum += (double)lp;
	}
	return sum;
}

/* States that are carried on, windows that the prompt is longer than, several heads to a key: every text that a search
 * finds has the sums that it has alone. Seen red with a fork that writes into the recurrent state it shares, and with
 * blocks that are not copied before they are written. */
static void searches_of_every_architecture(void **state)
{
	enum { LONG = BRANCH_PROMPT, MORE = 6 };

	(void)state;
	for (size_t k = 0; k < N_BRANCH_ARCHS; k++) {
		struct branch_case c;
		struct cohort_beam_params bp;
		struct cohort_draw_params dp;
		struct cohort_tree_params tp;
		struct cohort_beams beams;
		struct cohort_texts drawn;
		struct cohort_tree tree;
		cohort_token all[LONG + MORE];

		branch_case_open(&c, k, 12, 5);
		memcpy(all, c.prompt, sizeof c.prompt);
		cohort_beam_params_init(&bp);
		bp.width = bp.n_best = 4;
		bp.max_tokens = MORE;
		ok(cohort_beams_search(c.f, c.root, &bp, &beams, &err));
		assert_int_equal(beams.n_items, 4);
		for (int i = 0; i < beams.n_items; i++) {
			const struct cohort_beam *b = &beams.items[i];
			memcpy(all + LONG, b->tokens, (size_t)b->n_tokens * sizeof *all);
			const double sum = sum_alone(c.alone, c.info.n_vocab, all, LONG, b->n_tokens);
			assert_memory_equal(&sum, &b->logprob, sizeof sum);
		}
		cohort_beams_release(&beams);

		cohort_draw_params_init(&dp);
		dp.n = 15; /* more than there are ids */
		dp.max_tokens = MORE;
		ok(cohort_texts_draw(c.f, c.root, &dp, &drawn, &err));
		for (int i = 0; i < drawn.n_items; i++) {
			const struct cohort_drawn *d = &drawn.items[i];
			memcpy(all + LONG, d->tokens, (size_t)d->n_tokens * sizeof *all);
			const double sum = sum_alone(c.alone, c.info.n_vocab, all, LONG, d->n_tokens);
			assert_memory_equal(&sum, &d->logprob, sizeof sum);
		}
		cohort_texts_release(&drawn);

		cohort_tree_params_init(&tp);
		ok(cohort_tree_grow(c.f, c.root, &tp, &tree, &err));
		assert_true(tree.n_nodes >= 3 + 9);
		for (int i = 0; i < tree.n_nodes; i++) {
			const struct cohort_tree_node *node = &tree.nodes[i];
			for (int at = i; at >= 0; at = tree.nodes[at].parent)
				all[LONG + tree.nodes[at].depth - 1] = tree.nodes[at].token;
			const double sum = sum_alone(c.alone, c.info.n_vocab, all, LONG, node->depth);
			assert_memory_equal(&sum, &node->sum, sizeof sum);
		}
		cohort_tree_release(&tree);

		branch_case_close(&c);
	}
}

static void searches_out_of_memory_at_every_point(void **state)
{
	(void)state;
	for (int which = 0; which < 4; which++) {
		struct world w;
		int n_failed = 0;
		open_world(&w, 5, false, (struct shape_of_work){4, 2, 1}, which % 2);
		const uint64_t from = mem_count();
		ok(one_of(&w, which, 4, ends));
		const int64_t n = (int64_t)(mem_count() - from);
		for (int64_t k = 0; k <= n; k++) {
			plant(&w, which % 2); /* a new forest: it has to allocate again */
			mem_fail_after(k);
			const enum cohort_status st = one_of(&w, which, 4, ends);
			assert_true(st == COHORT_OK || st == COHORT_E_MEMORY);
			n_failed += st != COHORT_OK;
			look(&w);
		}
		assert_true(n_failed > 20);
		close_world(&w);
	}
}

/* No ids, no room, bad parameters, bad branches: refused, and nothing changed. */
static void searches_refuse_and_change_nothing(void **state)
{
	struct world w;
	static const cohort_token far = N_VOCAB;
	struct cohort_branch other;

	(void)state;
	open_world(&w, 6, false, (struct shape_of_work){64, 16, 1}, false);
	for (int which = 0; which < 4; which++) {
		assert_int_equal(one_of(&w, which, 0, ends), COHORT_E_ARG);
		assert_string_equal(err.rule, "search-params");
		assert_int_equal(one_of(&w, which, 4, &far), COHORT_E_ARG);
		assert_string_equal(err.rule, "search-params");
		look(&w);
		/* An id for the root and two more: texts take turns, the others cannot. */
		const struct cohort_forest_params few = {sizeof few, 0, 3};
		cohort_forest_free(w.f);
		ok(cohort_forest_open(w.ctx, &few, &w.f, &err));
		ok(cohort_branch_create(w.f, &w.sp, &w.root, &err));
		assert_int_equal(one_of(&w, which, 4, ends), COHORT_E_ARG);
		assert_string_equal(err.rule, "branch-logits");
		ok(cohort_branch_prefill(w.f, w.root, prompt, PROMPT, &err));
		const enum cohort_status st = one_of(&w, which, 4, ends);
		assert_int_equal(st, which == 2 ? COHORT_OK : COHORT_NO_ROOM);
		if (st)
			assert_string_equal(err.rule, "seq-lease");
		look(&w);
		ok(cohort_branch_fork(w.f, w.root, NULL, &other, &err));
		ok(cohort_branch_prune(w.f, other, &err));
		struct world stale = w;
		stale.root = other;
		assert_int_equal(one_of(&stale, which, 4, ends), COHORT_E_ARG);
		assert_string_equal(err.rule, "branch-stale");
		plant(&w, false);
	}
	struct cohort_beam_params p;
	struct cohort_beams b;
	cohort_beam_params_init(&p);
	p.n_groups = 3;
	assert_int_equal(cohort_beams_search(w.f, w.root, &p, &b, &err), COHORT_E_ARG);
	p.n_groups = 1;
	p.length_penalty = NAN;
	assert_int_equal(cohort_beams_search(w.f, w.root, &p, &b, &err), COHORT_E_ARG);
	close_world(&w);
}

/* The cache is full in the middle of a search. */
static void searches_end_without_room(void **state)
{
	(void)state;
	for (int which = 0; which < 4; which++) {
		struct world w;
		n_blocks = 4;
		open_world(&w, 7, false, (struct shape_of_work){64, 16, 1}, false);
		n_blocks = N_SEQS;
		assert_int_equal(one_of(&w, which, 6, ends), COHORT_NO_ROOM);
		assert_string_equal(err.rule, "kv-room");
		close_world(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(wide_beams),
			cmocka_unit_test(narrow_beams),
			cmocka_unit_test(next_length),
			cmocka_unit_test(best_of_texts_against_naive_search),
			cmocka_unit_test(texts_end_where_biases_exclude_all),
			cmocka_unit_test(trees_against_naive_search),
			cmocka_unit_test(searches_of_every_architecture),
			cmocka_unit_test(searches_out_of_memory_at_every_point),
			cmocka_unit_test(searches_refuse_and_change_nothing),
			cmocka_unit_test(searches_end_without_room),
	};
	return cmocka_run_group_tests_name("search", tests, arch_make_models, arch_remove_models);
}
