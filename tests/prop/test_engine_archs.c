/* The engine with a small random model of every architecture: what a request says is what it says alone, bit for bit,
 * and beginnings are reused whatever a layer remembers: all positions, a window of them, or a state.
 *
 * Each decoder gets the same 24 requests in two waves: prompts of 1 to 150 tokens of which many begin alike, sessions
 * that go on in the second wave, some with several outputs. They go through the engine with room for all, with so
 * little that slots are parked and computed again, and the same with their cells swapped. Encoders embed many texts of
 * mixed lengths at once; some decoders embed beside generating. The engine ticks by hand, so that every run is the
 * same, and how much is reused is a number that can be compared.
 *
 * Shown red by planted faults: pieces that go on past a window, or one row too far (every model with a window), a block
 * that somebody else computed ending the chain (side_by_side), no states where prompts part or at their last block
 * (states_where_prompts_part, mamba), pinned states that make no room (states_of_a_long_prompt), no admission but with
 * room for all outputs (to_the_last_cell, starcoder), a state longer than what is the same (mamba), a session's tail
 * taken without comparing (llama-base), a restored slot with a row less (gemma3), a mean of reused rows
 * (embeddings_beside), a first row that is the last, a mean that begins with something (encoders). */
#include "effort.h"
#include "arch_case.h"
#include "engine_case.h"
#include "room_case.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_WAVE = 12, N_JOBS = 2 * N_WAVE, N_SESSIONS = 6, N_BASES = 3, N_OUTPUTS = 3, PROMPT_MAX = 150, NEW_MAX = 40 };

struct subject {
	struct cohort_model *m;
	struct cohort_model_info info;
	struct job jobs[N_JOBS];
	struct alone alone[N_JOBS][N_OUTPUTS];
};

/* Tokens that a plain llama reused of the same requests: what the others are measured by. */
static uint64_t llama_cached;

/* ---- Requests ---- */

/* Lengths shrink with the model's context, so that every request fits. */
static int32_t fitting(const struct subject *s, int32_t n)
{
	const int32_t most = s->info.n_ctx_train < 256 ? s->info.n_ctx_train : 256;
	const int32_t m = n * most / 256;
	return m > 0 ? m : 1;
}

static void job_begin(const struct subject *s, struct job *j, struct rng *g)
{
	struct cohort_request_params *p = &j->p;

	cohort_request_params_init(p);
	p->prompt = j->prompt;
	p->max_tokens = fitting(s, pick(g, 1, NEW_MAX));
	p->n_outputs = pick(g, 0, 3) ? 1 : pick(g, 2, N_OUTPUTS);
	p->sampler.seed = rng_u32(g);
	p->sampler.temperature = pick(g, 0, 2) ? 0.9f : 0;
	p->ignore_eos = true; /* how long an output gets does not depend on the model */
	p->n_logprobs = 0;
}

static void add_tokens(const struct subject *s, struct job *j, struct rng *g, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		j->prompt[j->p.n_prompt++] = pick(g, 3, s->info.n_vocab - 1);
}

/* A prompt that begins as some others do, most of the time. */
static void job_new(const struct subject *s, struct job *j, struct rng *g)
{
	struct rng base;

	job_begin(s, j, g);
	const int32_t n = fitting(s, pick(g, 0, 3) ? pick(g, 70, PROMPT_MAX) : pick(g, 1, 40));
	const int32_t n_alike = pick(g, 0, 5) ? pick(g, n / 2, n) : 0;
	rng_init(&base, (uint64_t)pick(g, 1, N_BASES), 77);
	add_tokens(s, j, &base, n_alike);
	add_tokens(s, j, g, n - n_alike);
}

/* What a session said and was answered, and something new; half of them take back the end of the answer. */
static void job_next(const struct subject *s, struct job *j, struct rng *g, int32_t before)
{
	const struct job *b = &s->jobs[before];
	const struct alone *a = &s->alone[before][0];

	const int32_t n = before % 2 ? a->n_tokens : a->n_tokens - a->n_tokens / 4;

	job_begin(s, j, g);
	memcpy(j->prompt, b->prompt, (size_t)b->p.n_prompt * sizeof *j->prompt);
	memcpy(j->prompt + b->p.n_prompt, a->tokens, (size_t)n * sizeof *j->prompt);
	j->p.n_prompt = b->p.n_prompt + n;
	add_tokens(s, j, g, fitting(s, pick(g, 1, 20)));
	j->p.session = b->p.session;
}

static void subject_open(struct subject *s, const char *name)
{
	struct cohort_context_params cp;
	struct cohort_context *ctx;
	struct cohort_err err;
	char path[200];
	struct rng g;

	memset(s, 0, sizeof *s);
	s->info.struct_size = sizeof s->info;
	if (cohort_model_open(arch_path(path, sizeof path, name, "gguf"), NULL, &s->m, &err))
		fail_msg("%s", err.text);
	cohort_model_info_get(s->m, &s->info);
	cohort_context_params_init(&cp);
	cp.n_seq_max = 1;
	cp.n_ctx = 512;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_threads = 1;
	if (cohort_context_open(s->m, &cp, &ctx, &err))
		fail_msg("%s", err.text);
	rng_init(&g, 5, 5);
	for (int32_t i = 0; i < N_JOBS; i++) {
		struct job *j = &s->jobs[i];
		if (i >= N_WAVE && i < N_WAVE + N_SESSIONS)
			job_next(s, j, &g, i - N_WAVE);
		else
			job_new(s, j, &g);
		if (i < N_SESSIONS) {
			j->p.session = (uint64_t)i + 1;
			j->p.n_outputs = 1;
		}
		for (int32_t k = 0; k < j->p.n_outputs; k++)
			alone_run(s->m, ctx, &j->p, k, &s->alone[i][k]);
	}
	cohort_context_free(ctx);
}

/* ---- Through the engine ---- */

static void params_make(struct cohort_engine_params *p)
{
	cohort_engine_params_init(p);
	p->n_slots = 6;
	p->context.n_ctx = 2048;
	p->context.n_blocks = pool_blocks(p->context.n_ctx, 0);
	p->context.n_batch = 48;
	p->context.n_ubatch = 32;
	p->context.n_threads = 1;
	p->chunk_size = 24;
	p->wait_max_s = 1e9;
	p->manual = true;
}

static struct cohort_engine *engine_open(const struct cohort_model *m, const struct cohort_engine_params *p)
{
	struct cohort_engine *e = NULL;
	struct cohort_err err;
	if (cohort_engine_open(m, p, &e, &err))
		fail_msg("%s", err.text);
	return e;
}

static void tick_until_idle(struct cohort_engine *e)
{
	bool idle = false;
	for (int32_t n = 0; !idle && n < 10000; n++)
		assert_int_equal(cohort_engine_tick(e, &idle, NULL), COHORT_OK);
	assert_true(idle);
}

static struct cohort_request *submit(struct cohort_engine *e, const struct cohort_request_params *p)
{
	struct cohort_request *r = NULL;
	struct cohort_err err;
	if (cohort_engine_submit(e, p, &r, &err))
		fail_msg("%s", err.text);
	return r;
}

static void check_job(const struct subject *s, int32_t i, struct cohort_request *r)
{
	for (int32_t k = 0; k < s->jobs[i].p.n_outputs; k++) {
		const struct alone *a = &s->alone[i][k];
		struct cohort_output o;
		assert_int_equal(cohort_request_output_get(r, k, &o, NULL), COHORT_OK);
		if (o.finish != a->finish || o.n_tokens != a->n_tokens)
			fail_msg("request %d, output %d: %s after %d tokens: %s", i, k, cohort_finish_name(o.finish),
					o.n_tokens, o.error ? o.error->text : "");
		if (memcmp(o.tokens, a->tokens, (size_t)a->n_tokens * sizeof *a->tokens) != 0)
			fail_msg("request %d, output %d: other tokens", i, k);
		if (memcmp(o.logprobs, a->logprobs, (size_t)a->n_tokens * sizeof *a->logprobs) != 0)
			fail_msg("request %d, output %d: other log-probabilities", i, k);
	}
}

static void run_all(const struct subject *s, const struct cohort_engine_params *p, struct cohort_engine_stats *stats)
{
	struct cohort_engine *e = engine_open(s->m, p);
	struct cohort_request *open[N_WAVE];

	for (int32_t first = 0; first < N_JOBS; first += N_WAVE) {
		for (int32_t i = 0; i < N_WAVE; i++)
			open[i] = submit(e, &s->jobs[first + i].p);
		tick_until_idle(e);
		for (int32_t i = 0; i < N_WAVE; i++) {
			check_job(s, first + i, open[i]);
			cohort_request_free(open[i]);
		}
	}
	cohort_engine_stats_get(e, stats);
	cohort_engine_free(e);
	assert_int_equal(stats->n_ended[COHORT_FINISH_ERROR], 0);
	assert_int_equal(stats->n_retries, 0);
	assert_int_equal(stats->last.n_idle, p->n_slots);
	assert_int_equal(stats->last.n_blocks_used, 0);
}

/* How much of the prompts was reused beside what a plain llama reuses of the same. Cells of a window are kept before it
 * lets go of them, so that nothing is lost. A state is kept where a chunk ends with a block, where a prompt's last
 * whole block ends and where another was seen to go its own way; there are four for each slot, and none can be cut
 * where an answer's end is taken back. 80 % were seen: of 976 tokens 29 are lost for the last reason, 160 because older
 * states had to go. */
static void check_reuse(const struct subject *s, uint64_t n_cached)
{
	if (!llama_cached)
		llama_cached = n_cached;
	assert_true(n_cached > 0);
	if (s->info.recurrent)
		assert_true(100 * n_cached >= 75 * llama_cached);
	else if (s->info.n_ctx_train >= 256)
		assert_int_equal(n_cached, llama_cached);
}

static void engine_runs_decoder(void **state)
{
	struct subject *s = malloc(sizeof *s);
	struct cohort_engine_params p;
	struct cohort_engine_stats stats;

	assert_non_null(s);
	subject_open(s, *state);
	params_make(&p);
	run_all(s, &p, &stats);
	check_reuse(s, stats.n_cached_tokens);
	assert_int_equal(stats.n_parked, 0);
	p.room = COHORT_ROOM_OVERCOMMIT;
	p.context.n_ctx = s->info.n_ctx_train < 256 ? 96 : 256;
	p.context.n_blocks = pool_blocks(p.context.n_ctx, 0);
	run_all(s, &p, &stats);
	assert_true(s->info.recurrent || (stats.n_parked > 2 && stats.n_resumed == stats.n_parked));
	p.swap_bytes = 1 << 20;
	run_all(s, &p, &stats);
	assert_true(s->info.recurrent || stats.n_swapped > 2);
	cohort_model_free(s->m);
	free(s);
}

/* ---- Prompts one by one ---- */

static struct cohort_model *model_open(const char *name)
{
	struct cohort_model *m = NULL;
	struct cohort_err err;
	char path[200];
	if (cohort_model_open(arch_path(path, sizeof path, name, "gguf"), NULL, &m, &err))
		fail_msg("%s", err.text);
	return m;
}

/* Prompts of n tokens: the first n_alike are the same for all, then each goes its own way. */
static void prompt_make(cohort_token *out, int32_t n, int32_t n_alike, int32_t who)
{
	for (int32_t i = 0; i < n; i++)
		out[i] = 3 + (i * i + 7 * i + (i < n_alike ? 0 : 31 * (who + 1))) % 280;
}

/* Submits the prompts at once and says how many tokens of each were reused. */
static void ask(struct cohort_engine *e, const cohort_token *const *prompts, const int32_t *n, size_t n_prompts,
		int32_t *n_cached)
{
	struct cohort_request_params p;
	struct cohort_request *r[4];

	cohort_request_params_init(&p);
	p.max_tokens = 1;
	p.ignore_eos = true;
	for (size_t i = 0; i < n_prompts; i++) {
		p.prompt = prompts[i];
		p.n_prompt = n[i];
		r[i] = submit(e, &p);
	}
	tick_until_idle(e);
	for (size_t i = 0; i < n_prompts; i++) {
		struct cohort_request_stats stats;
		cohort_request_stats_get(r[i], &stats);
		assert_int_equal(stats.finish, COHORT_FINISH_LENGTH);
		n_cached[i] = stats.n_cached;
		cohort_request_free(r[i]);
	}
}

/* Two prompts with a common beginning at once: the second waits until the first has computed it; chunks end with
 * blocks. What each of them has of its own is kept, too: the same prompts again are there but for the block of the last
 * token. */
static void side_by_side(void **state)
{
	enum { N = 128, N_ALIKE = 64 };
	static const char *const names[] = {"llama-base", "gemma3", "gpt-oss", "olmo2-window"};
	cohort_token a[N], b[N];
	const cohort_token *const both[] = {a, b};
	const int32_t n[] = {N, N};
	(void)state;

	prompt_make(a, N, N_ALIKE, 0);
	prompt_make(b, N, N_ALIKE, 1);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct cohort_model *m = model_open(names[i]);
		struct cohort_engine_params p;
		int32_t n_cached[2];
		params_make(&p);
		p.context.n_batch = p.context.n_ubatch = 64;
		p.chunk_size = 32;
		struct cohort_engine *e = engine_open(m, &p);
		ask(e, both, n, 2, n_cached);
		assert_true(n_cached[0] == 0 && n_cached[1] == N_ALIKE);
		ask(e, both, n, 2, n_cached);
		assert_true(n_cached[0] == N - 32 && n_cached[1] == N - 32);
		cohort_engine_free(e);
		cohort_model_free(m);
	}
}

/* With states: the second prompt that begins alike computes the common part again, and keeps a state where the two
 * part; the third begins there. The same prompt again begins at its last whole block. */
static void states_where_prompts_part(void **state)
{
	enum { N = 150, N_ALIKE = 100 };
	cohort_token text[3][N];
	struct cohort_model *m = model_open("mamba");
	struct cohort_engine_params p;
	int32_t n_cached;
	(void)state;

	params_make(&p);
	p.context.n_batch = p.context.n_ubatch = p.chunk_size = 256;
	struct cohort_engine *e = engine_open(m, &p);
	static const int32_t want[] = {0, 0, 96, 128};
	for (int32_t i = 0; i < 4; i++) {
		const int32_t k = i % 3;
		prompt_make(text[k], N, N_ALIKE, k);
		ask(e, &(const cohort_token *){text[k]}, &(int32_t){N}, 1, &n_cached);
		assert_int_equal(n_cached, want[i]);
	}
	cohort_engine_free(e);
	cohort_model_free(m);
}

/* States and encoders take no blocks, and n_ctx bounds nothing. Seen red with either counted as the others. */
static void room_without_blocks(void **state)
{
	static const char *const names[] = {"mamba", "bert"};
	(void)state;

	for (int i = 0; i < 2; i++) {
		struct cohort_room_params p = {.n_ctx = 1, .n_seqs = 9, .n_tokens = 200};
		struct cohort_model_info info;
		p.model = model_open(names[i]);
		cohort_model_info_get(p.model, &info);
		const struct cohort_room_info room = case_room(p);
		assert_true(room.n_blocks == 0 && room.n_needed == 0 && room.n_free == 0 && room.n_ctx_needed == 1);
		assert_true(room.block_size > 0 && room.n_pos_max == info.n_ctx_train && room.n_fit == INT32_MAX);
		p.n_seq_max = 7;
		assert_int_equal(case_room(p).n_fit, 7);
		cohort_model_free((struct cohort_model *)p.model);
	}
}

/* A prompt with more states on its way than there are ids: the last one is there nevertheless, and of the others what
 * was first. */
static void states_of_a_long_prompt(void **state)
{
	enum { N = 250 };
	cohort_token text[N];
	const cohort_token *const prompt = text;
	struct cohort_model *m = model_open("mamba");
	struct cohort_engine_params p;
	int32_t n_cached;
	(void)state;

	params_make(&p);
	p.n_slots = 1; /* 4 ids */
	p.chunk_size = 32;
	prompt_make(text, N, N, 0);
	struct cohort_engine *e = engine_open(m, &p);
	for (int32_t i = 0; i < 2; i++) {
		ask(e, &prompt, &(int32_t){N}, 1, &n_cached);
		assert_int_equal(n_cached, i ? 224 : 0);
	}
	ask(e, &prompt, &(int32_t){80}, 1, &n_cached);
	assert_int_equal(n_cached, 64);
	cohort_engine_free(e);
	cohort_model_free(m);
}

/* Requests that the cache can just hold, and several outputs of which it can hold but one at a time. */
static void to_the_last_cell(void **state)
{
	static const struct {
		int32_t n_prompt, max_tokens, n_outputs;
	} cases[] = {{96, 0, 1}, {95, 1, 1}, {90, 6, 1}, {70, 10, 3}, {64, 30, 2}, {33, 20, 4}};
	struct cohort_model *m = model_open("llama-base");
	cohort_token text[96];
	struct cohort_request *r[2];
	(void)state;

	prompt_make(text, 96, 96, 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cohort_engine_params ep;
		struct cohort_request_params p;
		params_make(&ep);
		ep.context.n_ctx = 96;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		ep.room = COHORT_ROOM_OVERCOMMIT;
		struct cohort_engine *e = engine_open(m, &ep);
		cohort_request_params_init(&p);
		p.prompt = text;
		p.n_prompt = cases[i].n_prompt;
		p.max_tokens = cases[i].max_tokens;
		p.n_outputs = cases[i].n_outputs;
		p.ignore_eos = true;
		for (int32_t k = 0; k < 2; k++)
			r[k] = submit(e, &p);
		tick_until_idle(e);
		for (int32_t k = 0; k < 2; k++) {
			struct cohort_request_stats stats;
			cohort_request_stats_get(r[k], &stats);
			assert_int_equal(stats.finish, COHORT_FINISH_LENGTH);
			assert_int_equal(stats.n_generated, p.max_tokens * p.n_outputs);
			cohort_request_free(r[k]);
		}
		cohort_engine_free(e);
	}
	cohort_model_free(m);
}

/* ---- Embeddings ---- */

enum { N_TEXTS = 40, TEXT_MAX = 60 };

struct texts {
	struct cohort_request_params p[N_TEXTS];
	cohort_token tokens[N_TEXTS][TEXT_MAX];
	float *want; /* [N_TEXTS, n_embd] */
	size_t n_embd;
};

/* Texts of 1 to TEXT_MAX tokens, pooled in three ways, alone. */
static void texts_make(struct texts *t, const struct cohort_model *m)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context *c[COHORT_POOL_LAST + 1] = {NULL};
	struct cohort_context_params cp;
	struct rng g;

	cohort_model_info_get(m, &info);
	t->n_embd = (size_t)info.n_embd;
	t->want = malloc(N_TEXTS * t->n_embd * sizeof *t->want);
	assert_non_null(t->want);
	cohort_context_params_init(&cp);
	cp.outputs = COHORT_OUTPUT_EMBEDDINGS;
	cp.n_seq_max = cp.n_threads = 1;
	cp.n_ctx = 256;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	for (cp.pooling = COHORT_POOL_MEAN; cp.pooling <= COHORT_POOL_LAST; cp.pooling++)
		assert_int_equal(cohort_context_open(m, &cp, &c[cp.pooling], NULL), COHORT_OK);
	rng_init(&g, 21, 21);
	for (int32_t i = 0; i < N_TEXTS; i++) {
		struct cohort_request_params *p = &t->p[i];
		struct cohort_batch b;
		cohort_request_params_init(p);
		p->task = COHORT_TASK_EMBED;
		p->pooling = (enum cohort_pooling)(COHORT_POOL_MEAN + i % 3);
		p->prompt = t->tokens[i];
		p->n_prompt = i < 3 ? (i == 2 ? TEXT_MAX : 1) : pick(&g, 1, TEXT_MAX);
		/* The later ones begin as prompts do. */
		struct rng base;
		rng_init(&base, (uint64_t)(1 + i % N_BASES), 77);
		for (int32_t k = 0; k < p->n_prompt; k++)
			t->tokens[i][k] = pick(i > N_WAVE && k < 40 ? &base : &g, 3, info.n_vocab - 1);
		assert_int_equal(cohort_batch_view(&b, p->prompt, p->n_prompt, NULL), COHORT_OK);
		assert_int_equal(info.encoder ? cohort_encode(c[p->pooling], &b, NULL)
					      : cohort_decode(c[p->pooling], &b, NULL),
				COHORT_OK);
		memcpy(t->want + (size_t)i * t->n_embd, cohort_embeddings_seq_get(c[p->pooling], 0, NULL),
				t->n_embd * sizeof *t->want);
		cohort_seq_clear(c[p->pooling]);
	}
	for (int k = COHORT_POOL_MEAN; k <= COHORT_POOL_LAST; k++)
		cohort_context_free(c[k]);
}

static void check_text(const struct texts *t, int32_t i, struct cohort_request *r)
{
	struct cohort_event ev;
	bool there = false;

	for (assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_OK); ev.kind != COHORT_EVENT_DONE;
			assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_OK)) {
		if (ev.kind == COHORT_EVENT_EMBEDDING) {
			there = (size_t)ev.n_embd == t->n_embd;
			if (memcmp(ev.embedding, t->want + (size_t)i * t->n_embd, t->n_embd * sizeof(float)) != 0)
				fail_msg("text %d: another embedding", i);
		} else {
			assert_int_equal(ev.kind, COHORT_EVENT_END);
			assert_int_equal(ev.finish, COHORT_FINISH_EMBEDDED);
		}
	}
	assert_true(there);
}

static void engine_runs_encoder(void **state)
{
	struct cohort_model *m = model_open(*state);
	struct cohort_request *r[N_TEXTS];
	struct texts *t = calloc(1, sizeof *t);
	struct cohort_engine_params p;

	assert_non_null(t);
	texts_make(t, m);
	params_make(&p);
	p.context.outputs = COHORT_OUTPUT_EMBEDDINGS;
	p.context.n_batch = 96;
	p.context.n_ubatch = 64;
	struct cohort_engine *e = engine_open(m, &p);
	for (int32_t i = 0; i < N_TEXTS; i++)
		r[i] = submit(e, &t->p[i]);
	tick_until_idle(e);
	for (int32_t i = 0; i < N_TEXTS; i++) {
		check_text(t, i, r[i]);
		cohort_request_free(r[i]);
	}
	cohort_engine_free(e);
	free(t->want);
	free(t);
	cohort_model_free(m);
}

/* Texts are embedded while others are generated, with room for all and with parking. */
static void embed_beside(struct subject *s, const struct texts *t, const struct cohort_engine_params *p)
{
	struct cohort_engine *e = engine_open(s->m, p);
	struct cohort_request *r[N_TEXTS], *beside[N_WAVE];
	struct cohort_engine_stats stats;

	for (int32_t i = 0; i < N_TEXTS; i++) {
		r[i] = submit(e, &t->p[i]);
		if (i < N_WAVE)
			beside[i] = submit(e, &s->jobs[i].p);
	}
	tick_until_idle(e);
	for (int32_t i = 0; i < N_TEXTS; i++) {
		check_text(t, i, r[i]);
		cohort_request_free(r[i]);
	}
	for (int32_t i = 0; i < N_WAVE; i++) {
		check_job(s, i, beside[i]);
		cohort_request_free(beside[i]);
	}
	cohort_engine_stats_get(e, &stats);
	assert_int_equal(stats.n_parked > 0, p->room == COHORT_ROOM_OVERCOMMIT && !s->info.recurrent);
	assert_int_equal(stats.n_ended[COHORT_FINISH_EMBEDDED], N_TEXTS);
	cohort_engine_free(e);
}

static void embeddings_beside(void **state)
{
	static const char *const names[] = {"llama-base", "gemma3", "gpt-oss", "mamba"};
	(void)state;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct subject *s = malloc(sizeof *s);
		struct texts *t = calloc(1, sizeof *t);
		struct cohort_engine_params p;
		assert_true(s && t);
		subject_open(s, names[i]);
		texts_make(t, s->m);
		params_make(&p);
		p.context.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
		embed_beside(s, t, &p);
		p.context.n_ctx = 256;
		p.context.n_blocks = pool_blocks(p.context.n_ctx, 0);
		p.room = COHORT_ROOM_OVERCOMMIT;
		embed_beside(s, t, &p);
		p.swap_bytes = 1 << 20;
		embed_beside(s, t, &p);
		free(t->want);
		free(t);
		cohort_model_free(s->m);
		free(s);
	}
}

int main(int argc, char **argv)
{
	/* The first is the one that others are measured by. */
	static const char *const names[] = {"llama-base", "baichuan-13b", "baichuan-7b", "bloom", "cohere2",
			"cohere2-period2", "command-r", "command-r-qknorm", "exaone", "falcon", "falcon-norms", "gemma",
			"gemma2", "gemma3", "glm4", "gpt-oss", "gpt-oss-f32", "gpt2", "gptneox", "gptneox-serial",
			"granite", "granitemoe", "granitemoe-shared", "internlm2", "llama-bias", "llama-linear",
			"llama-tied", "llama-yarn", "mamba", "minicpm", "mistral3", "mixtral", "mpt", "olmo2",
			"olmo2-window", "olmoe", "phi2", "phi2-separate", "phi3-long", "phi3-short", "phi3-window",
			"qwen2", "qwen2moe", "qwen3-yarn", "qwen3moe", "smollm3", "stablelm", "stablelm-bias",
			"stablelm-parallel", "stablelm-qknorm", "starcoder", "starcoder2", "starcoder2-tied"};
	static const char *const encoders[] = {
			"bert", "nomic-bert", "jina-bert-v2", "jina-bert-v2-code", "jina-bert-v3"};
	static const struct CMUnitTest others[] = {
			cmocka_unit_test(side_by_side),
			cmocka_unit_test(states_where_prompts_part),
			cmocka_unit_test(states_of_a_long_prompt),
			cmocka_unit_test(room_without_blocks),
			cmocka_unit_test(to_the_last_cell),
			cmocka_unit_test(embeddings_beside),
	};
	enum { N = sizeof names / sizeof *names, N_ENCODERS = sizeof encoders / sizeof *encoders };
	enum { N_OTHERS = sizeof others / sizeof *others };
	static struct CMUnitTest tests[N + N_ENCODERS + N_OTHERS];
	size_t n = 0;

	for (size_t i = 0; i < N; i += effort_is("short") ? 4 : 1)
		if (argc < 2 || i == 0 || strcmp(argv[1], names[i]) == 0)
			tests[n++] = (struct CMUnitTest){names[i], engine_runs_decoder, NULL, NULL, (void *)names[i]};
	for (size_t i = 0; i < N_ENCODERS; i++)
		if (argc < 2 || strcmp(argv[1], encoders[i]) == 0)
			tests[n++] = (struct CMUnitTest){
					encoders[i], engine_runs_encoder, NULL, NULL, (void *)encoders[i]};
	for (size_t i = 0; i < N_OTHERS; i++)
		if (argc < 2 || strcmp(argv[1], others[i].name) == 0)
			tests[n++] = others[i];
	return _cmocka_run_group_tests("engine_archs", tests, n, arch_make_models, arch_remove_models);
}
