/* Scenes: token texts, grammars, samplers, branches, searches. */
#include "torture.h"

#include "cohort_search.h"

#include <math.h>
#include <string.h>

enum { N_VOCAB = 512 };

static const float *made_up_logits(int salt)
{
	static float logits[N_VOCAB];

	for (int i = 0; i < N_VOCAB; i++)
		logits[i] = (float)((i * 7919 + salt * 31) % 997) / 100.0f;
	return logits;
}

/* ---- Grammars ---- */

static const char rules[] =
		"root ::= word (\" \" word){0,40} \".\"?\nword ::= [a-z]+ | [0-9]{1,3} | \"\\\"\" [^\"]* \"\\\"\"";
static const char schema[] = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1},"
			     "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},"
			     "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",3,null]}},"
			     "\"when\":{\"type\":\"string\",\"pattern\":\"^[0-9]{4}-[0-9]{2}$\"},"
			     "\"or\":{\"anyOf\":[{\"type\":\"boolean\"},{\"$ref\":\"#/$defs/p\"}]}},"
			     "\"required\":[\"name\",\"age\"],\"$defs\":{\"p\":{\"type\":\"object\",\"properties\":"
			     "{\"x\":{\"type\":\"number\"}},\"additionalProperties\":false}}}";

static void grammar(struct life *l)
{
	struct cohort_lexicon *lexicon = NULL, *listed = NULL;
	struct cohort_grammar *g = NULL, *s = NULL;
	const struct cohort_lexicon_token words[] = {
			{"ab", 2, true, false}, {"1", 1, true, false}, {" ", 1, true, false}, {"</s>", 4, false, true}};
	static char gbnf[20000];
	size_t n = 0;
	bool complete = false;

	TRY(cohort_lexicon_open(stage.model, &lexicon, &l->err));
	TRY(cohort_lexicon_open_list(words, 4, &listed, &l->err));
	TRY(cohort_grammar_open(listed, rules, sizeof rules - 1, NULL, &g, &l->err));
	TRY(cohort_grammar_match(g, "tom \"x y\" 12.", 13, &n, &complete, &l->err));
	life_mix_number(l, (int64_t)n + 100 * complete);
	TRY(cohort_schema_to_gbnf(schema, sizeof schema - 1, gbnf, sizeof gbnf, &n, &l->err));
	life_mix(l, gbnf, n);
	TRY(cohort_grammar_open_schema(lexicon, schema, sizeof schema - 1, &s, &l->err));
	TRY(cohort_grammar_match(s, "{\"name\":\"T\",\"age\":1", 19, &n, &complete, &l->err));
	life_mix_number(l, (int64_t)n + 100 * complete);
	LIVED();
out:
	cohort_grammar_free(g);
	cohort_grammar_free(s);
	cohort_lexicon_free(lexicon);
	cohort_lexicon_free(listed);
}

/* ---- Samplers ---- */

static void sampler(struct life *l)
{
	static const struct cohort_logit_bias bias[] = {{20, 3.0f}, {21, -INFINITY}};
	static const char *const breakers[] = {".", "\n", "Tom"};
	struct cohort_sampler_params sp;
	struct cohort_sampler *s = NULL, *twin = NULL, *miro = NULL;
	struct cohort_grammar *g = NULL;
	struct cohort_sampler_rng rng;
	struct cohort_logprob top[3];
	uint8_t legal[N_VOCAB];
	cohort_token t;
	float lp;

	cohort_sampler_params_init(&sp);
	TRY(cohort_grammar_open(stage.lexicon, rules, sizeof rules - 1, "root", &g, &l->err));
	TRY(cohort_sampler_order_parse(
			&sp, "bias;grammar;penalties;dry;top_k;typical;top_p;min_p;xtc;temperature", &l->err));
	sp.bias = bias;
	sp.n_bias = 2;
	sp.grammar = g;
	sp.lexicon = stage.lexicon;
	sp.repeat_penalty = 1.1f;
	sp.dry_multiplier = 0.8f;
	sp.dry_breakers = breakers;
	sp.n_dry_breakers = 3;
	sp.xtc_probability = 0.5f;
	sp.typical_p = 0.9f;
	TRY(cohort_sampler_open(&sp, N_VOCAB, &s, &l->err));
	TRY(cohort_sampler_prompt(s, stage.tokens, 100, &l->err));
	for (int i = 0; i < 4; i++) {
		TRY(cohort_sampler_sample(s, made_up_logits(i), &t, &l->err));
		life_mix_number(l, t);
	}
	TRY(cohort_sampler_logprobs_get(s, t, &lp, top, 3, NULL, &l->err));
	life_mix(l, &lp, sizeof lp);
	TRY(cohort_sampler_legal_get(s, legal, &l->err));
	life_mix(l, legal, sizeof legal);
	TRY(cohort_sampler_clone(s, &twin, &l->err));
	TRY(cohort_sampler_draw(twin, made_up_logits(9), &t, &l->err));
	TRY(cohort_sampler_permits(twin, t, &l->err));
	TRY(cohort_sampler_accept(twin, t, &l->err));
	cohort_sampler_rng_get(twin, &rng);
	TRY(cohort_sampler_rng_set(s, &rng, &l->err));
	TRY(cohort_sampler_sample(s, made_up_logits(5), &t, &l->err));
	life_mix_number(l, t);
	TRY(cohort_logprobs_get(made_up_logits(5), N_VOCAB, t, &lp, top, 3, NULL, &l->err));
	life_mix(l, top, sizeof top);
	cohort_sampler_params_init(&sp);
	sp.mirostat = 2;
	TRY(cohort_sampler_open(&sp, N_VOCAB, &miro, &l->err));
	TRY(cohort_sampler_sample(miro, made_up_logits(6), &t, &l->err));
	life_mix_number(l, t);
	LIVED();
out:
	cohort_sampler_free(s);
	cohort_sampler_free(twin);
	cohort_sampler_free(miro);
	cohort_grammar_free(g);
}

/* ---- Branches ---- */

struct grove {
	struct cohort_context *c;
	struct cohort_forest *f;
	struct cohort_grammar *g;
	struct cohort_branch root;
};

static void grove_open(struct life *l, struct grove *v, bool with_grammar)
{
	struct cohort_sampler_params sp;
	struct cohort_context_params cp;

	stage_context_params(&cp);
	cohort_sampler_params_init(&sp);
	if (with_grammar)
		TRY(cohort_grammar_open(stage.lexicon, rules, sizeof rules - 1, NULL, &v->g, &l->err));
	sp.grammar = v->g;
	TRY(cohort_context_open(stage.model, &cp, &v->c, &l->err));
	TRY(cohort_forest_open(v->c, NULL, &v->f, &l->err));
	TRY(cohort_branch_create(v->f, &sp, &v->root, &l->err));
	TRY(cohort_branch_prefill(v->f, v->root, stage.tokens, 40, &l->err));
	LIVED();
out:
	return;
}

static void grove_free(struct grove *v)
{
	cohort_forest_free(v->f);
	cohort_context_free(v->c);
	cohort_grammar_free(v->g);
}

static void mix_branch(struct life *l, const struct grove *v, struct cohort_branch b)
{
	const float *logits = cohort_branch_logits_get(v->f, b, &l->err);
	struct cohort_branch_info info;
	struct cohort_pressure p;

	if (cohort_branch_info_get(v->f, b, &info, &l->err) || !logits) {
		life_complain(l, "a branch without logits");
		return;
	}
	life_mix(l, logits, N_VOCAB * sizeof *logits);
	life_mix(l, &info.logprob, sizeof info.logprob);
	life_mix_number(l, info.n_past);
	cohort_forest_pressure_get(v->f, &p);
	life_mix_number(l, p.n_leased);
	life_mix_number(l, p.n_blocks_used);
}

static void branches(struct life *l)
{
	static const struct cohort_logit_bias bias[] = {{20, 3.0f}};
	const struct cohort_reseed seed = {7, 1};
	struct cohort_branch kids[3], leaves[8];
	struct cohort_branch_token items[3];
	struct cohort_branch_span spans[2];
	struct grove v = {0};
	cohort_token t, legal[N_VOCAB];
	int32_t n = 0;
	double x;

	grove_open(l, &v, true);
	if (l->status)
		goto out;
	for (int i = 0; i < 3; i++)
		TRY(cohort_branch_fork(v.f, v.root, i ? &seed : NULL, &kids[i], &l->err));
	TRY(cohort_branch_bias_set(v.f, kids[1], bias, 1, &l->err));
	TRY(cohort_branch_fork(v.f, kids[1], NULL, &leaves[0], &l->err));
	TRY(cohort_branch_prune(v.f, leaves[0], &l->err));
	for (int i = 0; i < 3; i++) {
		TRY(cohort_branch_sample(v.f, kids[i], &t, &l->err));
		TRY(cohort_branch_accept(v.f, kids[i], t, &l->err));
		life_mix_number(l, t);
	}
	TRY(cohort_branch_step(v.f, kids, 3, &l->err));
	for (int i = 0; i < 3; i++) {
		mix_branch(l, &v, kids[i]);
		TRY(cohort_branch_legal_get(v.f, kids[i], legal, N_VOCAB, &n, &l->err));
		life_mix_number(l, n);
		items[i] = (struct cohort_branch_token){kids[i], n ? legal[i % n] : 5};
	}
	TRY(cohort_branch_decode_each(v.f, items, 3, &l->err));
	TRY(cohort_branch_logits_merge(v.f, kids[0], kids[1], 0.5f, &l->err));
	TRY(cohort_branch_logits_set(v.f, kids[2], made_up_logits(3), &l->err));
	for (int i = 0; i < 2; i++)
		spans[i] = (struct cohort_branch_span){kids[i], stage.tokens + i, 15};
	TRY(cohort_branch_decode_scatter(v.f, spans, 2, &l->err));
	for (int i = 0; i < 3; i++)
		mix_branch(l, &v, kids[i]);
	TRY(cohort_branch_entropy_get(v.f, kids[0], &x, &l->err));
	life_mix(l, &x, sizeof x);
	TRY(cohort_branch_surprisal_get(v.f, kids[0], 9, &x, &l->err));
	life_mix(l, &x, sizeof x);
	TRY(cohort_branch_leaves_get(v.f, v.root, leaves, 8, &n, &l->err));
	life_mix_number(l, n);
	TRY(cohort_branch_detach(v.f, kids[2], &l->err));
	TRY(cohort_branch_prune(v.f, kids[0], &l->err));
	TRY(cohort_branch_prune_subtree(v.f, v.root, &l->err));
	TRY(cohort_branch_retain_only(v.f, kids[2], &l->err));
	mix_branch(l, &v, kids[2]);
	LIVED();
out:
	grove_free(&v);
}

/* ---- Searches ---- */

static bool answer(void *user, int32_t i, const struct cohort_drawn *text, const char **bytes, size_t *n_bytes)
{
	static const char *const answers[] = {"yes", "no"};

	(void)user;
	(void)i;
	*bytes = answers[text->n_tokens > 0 && text->tokens[0] % 2];
	*n_bytes = strlen(*bytes);
	return true;
}

static void search(struct life *l)
{
	struct cohort_beam_params bp;
	struct cohort_draw_params dp;
	struct cohort_tree_params tp;
	struct cohort_beams beams = {0};
	struct cohort_texts texts = {0};
	struct cohort_votes votes = {0};
	struct cohort_tree tree = {0};
	struct grove v = {0};

	grove_open(l, &v, false);
	if (l->status)
		goto out;
	cohort_beam_params_init(&bp);
	bp.n_best = 3;
	bp.max_tokens = 5;
	bp.n_groups = 2;
	TRY(cohort_beams_search(v.f, v.root, &bp, &beams, &l->err));
	for (int32_t i = 0; i < beams.n_items; i++) {
		life_mix(l, beams.items[i].tokens, (size_t)beams.items[i].n_tokens * sizeof(cohort_token));
		life_mix(l, &beams.items[i].score, sizeof(double));
	}
	cohort_draw_params_init(&dp);
	dp.n = 5;
	dp.max_tokens = 4;
	TRY(cohort_texts_draw(v.f, v.root, &dp, &texts, &l->err));
	for (int32_t i = 0; i < texts.n_items; i++)
		life_mix(l, texts.items[i].tokens, (size_t)texts.items[i].n_tokens * sizeof(cohort_token));
	TRY(cohort_votes_count(&texts, answer, NULL, &votes, &l->err));
	life_mix_number(l, votes.n_items);
	life_mix_number(l, votes.n_items ? votes.items[0].n_texts : 0);
	cohort_tree_params_init(&tp);
	tp.depth = 2;
	TRY(cohort_tree_grow(v.f, v.root, &tp, &tree, &l->err));
	for (int32_t i = 0; i < tree.n_nodes; i++)
		life_mix_number(l, tree.nodes[i].token);
	mix_branch(l, &v, v.root);
	LIVED();
out:
	cohort_beams_release(&beams);
	cohort_texts_release(&texts);
	cohort_votes_release(&votes);
	cohort_tree_release(&tree);
	grove_free(&v);
}

const struct scene scenes_sample[] = {
		{.name = "grammar", .live = grammar},
		{.name = "sampler", .live = sampler},
		{.name = "branches", .live = branches},
		{.name = "search", .live = search},
		{.name = NULL},
};
