/* Beam search, best of n and votes for cohort run, one prompt after the other.
 *
 * A pattern's bytes and a text's are matched as UTF-8 where they are; bytes that are none match nothing. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "run_search.h"

#include "common.h"

#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

void run_search_init(struct run_search *s)
{
	*s = (struct run_search){.groups = 1, .length_penalty = 1, .diversity = 0.5};
}

void run_search_options(struct run_search *s, struct opt *out)
{
	const struct opt opts[RUN_SEARCH_OPTIONS] = {
			{"beams", NULL, OPT_INT, &s->beams, 1, 4096, "N",
					"beam search with N beams; -np says how many of the best are printed",
					&s->beams_given},
			{"length-penalty", NULL, OPT_FLOAT, &s->length_penalty, -16, 16, "X",
					"beams are compared by log-probability / length^X (default: 1)",
					&s->penalty_given},
			{"early-stop", NULL, OPT_FLAG, &s->early_stop, 0, 0, NULL,
					"end the beam search when as many texts are finished as there are beams", NULL},
			{"beam-groups", NULL, OPT_INT, &s->groups, 1, 4096, "N",
					"diverse beams: N groups that avoid each other's tokens (default: 1)",
					&s->groups_given},
			{"diversity", NULL, OPT_FLOAT, &s->diversity, 0, 1e6, "X",
					"what a token costs for each beam of an earlier group that chose it (default: "
					"0.5)",
					&s->diversity_given},
			{"best-of", NULL, OPT_INT, &s->best_of, 1, 65536, "N",
					"draw N texts and print the likeliest, by its mean log-probability",
					&s->best_of_given},
			{"vote", NULL, OPT_STR, &s->vote, 0, 0, "PATTERN",
					"print what most of the -best-of texts answer: what the pattern's first group "
					"matches",
					NULL},
	};
	memcpy(out, opts, sizeof opts);
}

bool run_search_on(const struct run_search *s)
{
	return s->beams_given || s->best_of_given;
}

/* ---- What makes sense ---- */

static int compile(struct run_search *s, const char *prog)
{
	char text[128] = "";
	int code;
	PCRE2_SIZE at;

	s->pattern = pcre2_compile((PCRE2_SPTR)s->vote, PCRE2_ZERO_TERMINATED,
			PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &at, NULL);
	if (!s->pattern) {
		pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
		return bad_usage(prog, "-vote: the pattern is wrong at byte %zu: %s", (size_t)at, text);
	}
	s->match = pcre2_match_data_create_from_pattern(s->pattern, NULL);
	return s->match ? 0 : out_of_memory(prog);
}

int run_search_check(struct run_search *s, const char *prog, int64_t n_parallel, bool stops, bool logprobs)
{
	const char *lonely = NULL;

	if (s->penalty_given || s->early_stop)
		lonely = s->penalty_given ? "-length-penalty" : "-early-stop";
	else if (s->groups_given || s->diversity_given)
		lonely = s->groups_given ? "-beam-groups" : "-diversity";
	s->b.prog = prog;
	if (s->beams_given && (s->best_of_given || s->vote))
		return bad_usage(prog, "-beams finds the best texts by itself: leave out %s",
				s->best_of_given ? "-best-of" : "-vote");
	if (lonely && !s->beams_given)
		return bad_usage(prog, "%s is about beams: say how many with -beams N", lonely);
	if (s->vote && !s->best_of_given)
		return bad_usage(prog, "-vote counts the answers of several texts: say how many with -best-of N");
	if (!run_search_on(s))
		return 0;
	if (s->beams_given && s->beams % s->groups != 0)
		return bad_usage(prog, "%" PRId64 " beams cannot be shared out to %" PRId64 " groups", s->beams,
				s->groups);
	if (s->diversity_given && s->groups < 2)
		return bad_usage(prog, "-diversity is between groups: say how many with -beam-groups N");
	if (s->beams_given && n_parallel > s->beams)
		return bad_usage(prog, "-np %" PRId64 " of the best texts, but only %" PRId64 " beams", n_parallel,
				s->beams);
	if (s->best_of_given && n_parallel > 1)
		return bad_usage(prog, "-best-of prints one text; leave out -np");
	if (stops || logprobs)
		return bad_usage(prog, "%s does not go together with %s", stops ? "-stop" : "-logprobs",
				s->beams_given ? "-beams" : "-best-of");
	if (s->n_predict < 1)
		return bad_usage(prog, "%s needs texts of at least one token: raise -n-predict",
				s->beams_given ? "-beams" : "-best-of");
	return s->vote ? compile(s, prog) : 0;
}

/* ---- Texts ---- */

/* Text i of a prompt, from tokens. */
static int put_text(struct run_search *s, const struct sampling *sampling, struct gen_prompt *p, int32_t i,
		const cohort_token *tokens, int32_t n_tokens, bool finished)
{
	struct gen_text *t = &p->texts[i];
	bool complete = true;
	const int rc = branching_text(&s->b, tokens, n_tokens, finished, &t->bytes, &t->n_bytes);

	if (rc)
		return rc;
	if (!finished && sampling->g)
		cohort_grammar_match(sampling->g, t->bytes, t->n_bytes, NULL, &complete, NULL);
	t->cut = !complete;
	t->finish = finished ? COHORT_FINISH_EOG : COHORT_FINISH_LENGTH;
	return 0;
}

static int search_beams(struct run_search *s, const struct sampling *sampling, struct gen_prompt *p)
{
	struct cohort_beam_params bp;
	struct cohort_beams found = {.items = NULL};
	struct cohort_err err;
	int rc = 0;

	cohort_beam_params_init(&bp);
	bp.width = (int32_t)s->beams;
	bp.n_best = p->n_texts;
	bp.max_tokens = (int32_t)s->n_predict;
	bp.length_penalty = s->length_penalty;
	bp.stop = s->early_stop ? COHORT_BEAM_STOP_FIRST : COHORT_BEAM_STOP_SURE;
	bp.n_groups = (int32_t)s->groups;
	bp.diversity = s->diversity;
	bp.ends = s->ignore_eos ? branching_no_ends : NULL;
	if (cohort_beams_search(s->b.forest, s->b.root, &bp, &found, &err))
		return branching_fail(&s->b, &err);
	p->n_texts = found.n_items;
	for (int32_t i = 0; i < found.n_items && !rc; i++) {
		const struct cohort_beam *b = &found.items[i];
		rc = put_text(s, sampling, p, i, b->tokens, b->n_tokens, b->finished);
		if (s->verbose)
			fprintf(stderr, "%s: prompt %zu, text %d: score %.4f, log-probability %.4f, %d token%s, %s\n",
					s->b.prog, p->index, i, b->score, b->logprob, b->n_tokens,
					plural((uint64_t)b->n_tokens),
					b->finished ? "finished" : "cut");
	}
	cohort_beams_release(&found);
	return rc;
}

/* ---- Votes ---- */

struct asked {
	struct run_search *s;
	char **texts;
	size_t *n_bytes;
	int failed; /* the matcher's code; 0: none */
};

static bool answer_of(void *user, int32_t index, const struct cohort_drawn *text, const char **bytes, size_t *n_bytes)
{
	struct asked *a = user;
	uint32_t n_groups = 0;

	(void)text;
	const int n = pcre2_match(
			a->s->pattern, (PCRE2_SPTR)a->texts[index], a->n_bytes[index], 0, 0, a->s->match, NULL);
	if (n < 0 && n != PCRE2_ERROR_NOMATCH)
		a->failed = n;
	if (n < 0)
		return false;
	pcre2_pattern_info(a->s->pattern, PCRE2_INFO_CAPTURECOUNT, &n_groups);
	const PCRE2_SIZE *at = pcre2_get_ovector_pointer(a->s->match) + (n_groups > 0 ? 2 : 0);
	if (n_groups > 0 && (n < 2 || at[0] == PCRE2_UNSET))
		return false;
	*bytes = a->texts[index] + at[0];
	*n_bytes = at[1] > at[0] ? at[1] - at[0] : 0;
	return true;
}

static void report_vote(const struct run_search *s, const struct gen_prompt *p, const struct cohort_vote *v, int32_t n)
{
	char show[ERR_SHOW_BYTES];

	fprintf(stderr, "%s: prompt %zu: %d of %d texts answer '%s'", s->b.prog, p->index, v->n_texts, n,
			err_show(show, v->answer, v->n_bytes));
	if (s->verbose)
		fprintf(stderr, " (%.4f)", v->likelihood);
}

/* What was elected and by how many texts; with -verbose all answers. */
static int report_votes(const struct run_search *s, struct gen_prompt *p, const struct cohort_votes *v, int32_t n)
{
	char show[ERR_SHOW_BYTES];

	for (int32_t i = 0; i < (s->verbose || v->n_items == 0 ? v->n_items : 1); i++) {
		report_vote(s, p, &v->items[i], n);
		if (i == 0 && v->n_items > 1 && v->items[1].n_texts == v->items[0].n_texts)
			fprintf(stderr, ", as many as '%s'; the likeliest text decides",
					err_show(show, v->items[1].answer, v->items[1].n_bytes));
		else if (i == 0 && 2 * v->items[0].n_texts <= n)
			fputs(", which is no majority", stderr);
		fputc('\n', stderr);
	}
	if (v->n_items == 0) {
		fprintf(stderr, "%s: prompt %zu: the pattern of -vote matches none of %d texts\n", s->b.prog, p->index,
				n);
		return EXIT_RUN;
	}
	if (v->n_silent > 0)
		fprintf(stderr, "%s: prompt %zu: %d of %d texts have no answer\n", s->b.prog, p->index, v->n_silent, n);
	p->texts[0].bytes = mem_strndup(v->items[0].answer, v->items[0].n_bytes);
	p->texts[0].n_bytes = v->items[0].n_bytes;
	return p->texts[0].bytes ? 0 : out_of_memory(s->b.prog);
}

static int vote(struct run_search *s, struct gen_prompt *p, const struct cohort_texts *drawn)
{
	const size_t n = (size_t)drawn->n_items;
	struct asked a = {.s = s, .texts = mem_zalloc(n, sizeof *a.texts), .n_bytes = mem_zalloc(n, sizeof *a.n_bytes)};
	struct cohort_votes v = {.items = NULL};
	struct cohort_err err;
	char text[128] = "";
	int rc = a.texts && a.n_bytes ? 0 : out_of_memory(s->b.prog);

	for (size_t i = 0; i < n && !rc; i++) {
		const struct cohort_drawn *t = &drawn->items[i];
		rc = branching_text(&s->b, t->tokens, t->n_tokens, t->finished, &a.texts[i], &a.n_bytes[i]);
	}
	if (!rc && cohort_votes_count(drawn, answer_of, &a, &v, &err))
		rc = fail(s->b.prog, &err);
	if (!rc && a.failed) {
		pcre2_get_error_message(a.failed, (PCRE2_UCHAR *)text, sizeof text);
		fprintf(stderr, "%s: -vote: the pattern cannot be matched: %s\n", s->b.prog, text);
		rc = EXIT_RUN;
	}
	if (!rc)
		rc = report_votes(s, p, &v, drawn->n_items);
	cohort_votes_release(&v);
	for (size_t i = 0; i < n && a.texts; i++)
		mem_free(a.texts[i]);
	mem_free(a.texts);
	mem_free(a.n_bytes);
	return rc;
}

static int draw_texts(struct run_search *s, const struct sampling *sampling, struct gen_prompt *p)
{
	struct cohort_draw_params dp;
	struct cohort_texts drawn = {.items = NULL};
	struct cohort_err err;
	int rc;

	cohort_draw_params_init(&dp);
	dp.n = (int32_t)s->best_of;
	dp.max_tokens = (int32_t)s->n_predict;
	dp.seed = sampling->p.seed;
	dp.first_stream = p->stream;
	dp.ends = s->ignore_eos ? branching_no_ends : NULL;
	if (cohort_texts_draw(s->b.forest, s->b.root, &dp, &drawn, &err))
		return branching_fail(&s->b, &err);
	if (s->vote) {
		rc = vote(s, p, &drawn);
	} else {
		const struct cohort_drawn *t = &drawn.items[drawn.best];
		rc = put_text(s, sampling, p, 0, t->tokens, t->n_tokens, t->finished);
		for (int32_t i = 0; i < drawn.n_items && s->verbose; i++)
			fprintf(stderr, "%s: prompt %zu, text %d: mean log-probability %.4f, %d token%s, %s%s\n",
					s->b.prog, p->index, i, drawn.items[i].likelihood, drawn.items[i].n_tokens,
					plural((uint64_t)drawn.items[i].n_tokens),
					drawn.items[i].finished ? "finished" : "cut",
					i == drawn.best ? ", the best" : "");
	}
	cohort_texts_release(&drawn);
	return rc;
}

/* ---- Prompts ---- */

int run_search(struct run_search *s, const struct sampling *sampling, const struct cohort_model *model,
		struct gen_prompt *prompts, size_t n_prompts)
{
	int64_t n = s->beams_given ? s->beams : s->best_of, cells = s->n_ctx;
	size_t longest = 0;
	int rc = 0;

	s->b.model = model;
	for (size_t i = 0; i < n_prompts; i++) {
		prompts[i].index = i;
		longest = prompts[i].n_tokens > longest ? prompts[i].n_tokens : longest;
	}
	const struct cohort_room_info room = branching_room((int64_t)longest, s->n_predict, n, s->n_ctx);
	const int64_t want = room.n_ctx_needed;
	if (!s->ctx_given && want > cells && want <= 1 << 24)
		cells = want;
	if (want > cells && s->beams_given) {
		fprintf(stderr,
				"%s: %" PRId64 " beams of %" PRId64 " tokens need -ctx %" PRId64 ", it is %" PRId64
				"; raise it, or lower -beams or -n-predict\n",
				s->b.prog, s->beams, s->n_predict, want, cells);
		return EXIT_USAGE;
	}
	/* Texts that are drawn can take turns. */
	if (want > cells)
		n = room.n_fit > 0 ? room.n_fit : 1;
	const int64_t least = branching_room((int64_t)longest, s->n_predict, 1, 0).n_ctx_needed;
	rc = branching_open(&s->b, n, cells > least ? cells : least, s->n_threads);
	for (size_t i = 0; i < n_prompts && !rc; i++) {
		rc = branching_start(&s->b, sampling, prompts[i].tokens, prompts[i].n_tokens);
		if (!rc)
			rc = s->beams_given ? search_beams(s, sampling, &prompts[i])
					    : draw_texts(s, sampling, &prompts[i]);
	}
	return rc;
}

void run_search_release(struct run_search *s)
{
	branching_close(&s->b);
	pcre2_code_free(s->pattern);
	pcre2_match_data_free(s->match);
	s->pattern = s->match = NULL;
}
