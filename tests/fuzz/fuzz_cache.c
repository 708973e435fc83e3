/* Any bytes as a saved prompt with right sums, loaded into an engine: refused without a trace, or taken, so that a
 * request that begins with its tokens reuses them and ends, and nothing is left when the cache is emptied.
 *
 * The first byte of the input chooses between two ways: the rest is a saved prompt, whose header is made right as far
 * as it must be to get to the state; or it is a list of changes (2 bytes offset, 4 bytes value) to one that was saved.
 *
 * Shown red by not comparing tokens with the vocabulary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_case.h"
#include "model_case.h"

#include "cohort_engine.h"
#include "context/impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { BYTES_MAX = 1 << 16, SESSION = 3, N_SLOTS = 2, N_TOKENS_MAX = 250 };

struct saved_bytes {
	uint8_t p[BYTES_MAX];
	size_t n;
};

static struct cohort_model *model;
static struct cohort_engine *engine;
static struct saved_bytes bases[2];

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_cache: %s\n", what);
		abort();
	}
}

/* Runs a request to its end; returns how many of its tokens were reused. */
static int32_t run(const cohort_token *tokens, int32_t n)
{
	struct cohort_request_params p;
	struct cohort_request_stats rs;
	struct cohort_request *r = NULL;
	bool idle = false;

	cohort_request_params_init(&p);
	p.prompt = tokens;
	p.n_prompt = n;
	p.max_tokens = 2;
	p.session = SESSION;
	p.ignore_eos = true;
	check(cohort_engine_submit(engine, &p, &r, NULL) == COHORT_OK, "submit");
	for (int i = 0; !idle; i++) {
		check(i < 1000, "a request that never ends");
		check(cohort_engine_tick(engine, &idle, NULL) == COHORT_OK, "tick");
	}
	cohort_request_stats_get(r, &rs);
	check(rs.finish == COHORT_FINISH_LENGTH || rs.finish == COHORT_FINISH_ERROR, "another end");
	cohort_request_free(r);
	return rs.n_cached;
}

static void empty_cache(void)
{
	struct cohort_engine_stats s;

	cohort_engine_cache_clear(engine);
	check(cohort_engine_tick(engine, NULL, NULL) == COHORT_OK, "tick");
	cohort_engine_stats_get(engine, &s);
	check(s.last.n_blocks_free == s.last.n_blocks, "blocks that nobody has");
}

/* Two groups of layers, the first with a window. */
static void open_all(void)
{
	const struct shape shape = {16, 32, 2, 2, 1, 8, 8, 32, 8, 256, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32, true,
			NULL, NULL, NULL};
	struct cohort_engine_params ep;
	char *path = synth_write(&shape, 1);

	check(cohort_model_open(path, NULL, &model, NULL) == COHORT_OK, "model");
	unlink(path);
	free(path);
	model->model.layers[0].window = 8;
	cohort_engine_params_init(&ep);
	ep.n_slots = N_SLOTS;
	ep.manual = true;
	ep.context.n_ctx = 8 * 32;
	ep.context.n_batch = ep.context.n_ubatch = 32;
	ep.context.n_threads = 1;
	check(cohort_engine_open(model, &ep, &engine, NULL) == COHORT_OK, "engine");
	for (int i = 0; i < 2; i++) {
		cohort_token tokens[70];
		struct cohort_cache_key key = {.tokens = tokens, .n_tokens = i ? 70 : 33, .session = SESSION};
		int32_t n;
		void *p;
		for (int k = 0; k < 70; k++)
			tokens[k] = (k * 7 + i) % 16;
		run(tokens, key.n_tokens);
		check(cohort_engine_cache_save(engine, &key, &p, &bases[i].n, &n, NULL) == COHORT_OK, "save");
		check(n == key.n_tokens && bases[i].n <= BYTES_MAX, "saved");
		memcpy(bases[i].p, p, bases[i].n);
		cohort_cache_free(p);
		empty_cache();
	}
}

/* The numbers that must be right for anything else to be looked at. */
static void mend(struct saved_bytes *b)
{
	const uint32_t n_tokens = b->n < CACHE_HEAD ? 0 : (uint32_t)state_get(b->p + CACHE_AT_TOKENS, 4) & 0x7f;
	const size_t n_front = cache_front(n_tokens);

	if (b->n < n_front + STATE_AT_GROUPS + 2 * STATE_GROUP + STATE_SUM)
		return;
	uint8_t *state = b->p + n_front;
	const uint8_t *good = bases[0].p + cache_front(33);
	memcpy(state, good, STATE_AT_FLAGS);
	state_put(state + STATE_AT_SIZE, 8, b->n - n_front);
	memcpy(state + STATE_AT_MODEL, good + STATE_AT_MODEL, STATE_AT_N_SEQS - STATE_AT_MODEL);
	for (size_t at = STATE_AT_GROUPS; at < STATE_AT_GROUPS + 2 * STATE_GROUP; at += STATE_GROUP) {
		memcpy(state + at, good + at, 4);
		memcpy(state + at + 8, good + at + 8, 8);
	}
	state_seal(state, b->n - n_front);
	cache_wrap(b->p, b->n, n_tokens);
}

static void fill(struct saved_bytes *b, unsigned way, const uint8_t *data, size_t n)
{
	if (way & 1) {
		b->n = n < BYTES_MAX ? n : BYTES_MAX;
		memcpy(b->p, data, b->n);
		mend(b);
		return;
	}
	*b = bases[way >> 1 & 1];
	const uint32_t n_tokens = (uint32_t)state_get(b->p + CACHE_AT_TOKENS, 4);
	for (size_t i = 0; i + 6 <= n; i += 6) {
		const size_t at = state_get(data + i, 2) % (b->n - 4);
		memcpy(b->p + at, data + i + 2, 4);
	}
	/* With the sums of what it says it is, or, when its tokens would not fit, as it is. */
	const size_t n_front = cache_front(n_tokens);
	state_seal(b->p + n_front, b->n - n_front);
	memcpy(b->p + CACHE_AT_STATE_SUM, b->p + b->n - STATE_SUM, STATE_SUM);
	if (state_get(b->p + CACHE_AT_TOKENS, 4) == n_tokens)
		cache_seal(b->p);
}

static void look_at_taken(const struct saved_bytes *b, int32_t n_taken)
{
	const int32_t n = (int32_t)state_get(b->p + CACHE_AT_TOKENS, 4);
	cohort_token tokens[N_TOKENS_MAX + 1];

	check(n_taken == n, "a session that has less than was loaded");
	if (n > N_TOKENS_MAX)
		return;
	for (int32_t i = 0; i < n; i++)
		tokens[i] = (cohort_token)state_get(b->p + CACHE_HEAD + 4 * (size_t)i, 4);
	tokens[n] = 5;
	check(run(tokens, n + 1) == n, "what was loaded is not reused");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct saved_bytes b;
	const struct cohort_cache_key key = {.session = SESSION};
	struct cohort_engine_stats s;
	struct cohort_err err;
	int32_t n_tokens = -1;

	if (!engine)
		open_all();
	if (n == 0)
		return 0;
	fill(&b, data[0], data + 1, n - 1);
	uint8_t *exact = malloc(b.n ? b.n : 1); /* so that a read past the end is seen */
	check(exact, "memory");
	memcpy(exact, b.p, b.n);
	const enum cohort_status st = cohort_engine_cache_load(engine, &key, exact, b.n, &n_tokens, &err);
	free(exact);
	if (st) {
		cohort_engine_stats_get(engine, &s);
		check(s.last.n_blocks_free == s.last.n_blocks, "what was refused left something");
		check(err.status == st && memchr(err.text, '\0', sizeof err.text), "an error without a text");
		check(st != COHORT_E_BUG && st != COHORT_E_MEMORY && st != COHORT_E_ARG, "an error that cannot be");
	} else {
		look_at_taken(&b, n_tokens);
		empty_cache();
	}
	return 0;
}
