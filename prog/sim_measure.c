/* Measures what ubatches of a model cost on this machine.
 *
 * What holds:
 *  1. A point is one call of cohort_decode that is one ubatch, and the sampling of its outputs: p rows of one prompt
 *     (the last with logits), and one row each of d sequences that hold `depth` tokens of their own already.
 *  2. All sequences have random tokens of their own: nothing is shared, as attention over shared blocks would be
 *     cheaper than over different ones.
 *  3. Rounds go over all points, every second one backwards, and the median of a point's rounds counts: what else the
 *     machine does in between meets all points alike.
 *  4. After each point the sequences are as before it. A window lets go of a block with the row that no longer sees it,
 *     so that a sequence cannot always come back by that row: then all have a token less. */
#include "common.h"
#include "sim.h"

#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

struct meter {
	const struct sim_measure *m;
	struct sim_cost *c;
	struct cohort_model *model;
	struct cohort_model_info info;
	struct cohort_context *ctx;
	struct cohort_sampler *sampler;
	struct cohort_batch batch;
	cohort_token *tokens; /* [depth] */
	double *times; /* [n_points, rounds] */
	int32_t depth, n_points;
	struct rng rng;
	double started;
};

static cohort_token draw(struct meter *k)
{
	return (cohort_token)((uint64_t)rng_u32(&k->rng) * (uint64_t)k->info.n_vocab >> 32);
}

/* 0, 1, and three points up to the most. */
static int32_t axis(int32_t *out, int32_t most)
{
	const int32_t more[] = {most / 16, most / 4, most};
	int32_t n = 2;

	out[0] = 0;
	out[1] = 1;
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		if (more[i] > out[n - 1])
			out[n++] = more[i];
	return n;
}

static int open_all(struct meter *k)
{
	const int32_t p = k->c->prefill[k->c->n_prefill - 1], d = k->c->decode[k->c->n_decode - 1];
	struct cohort_context_params cp;
	struct cohort_sampler_params sp;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cohort_sampler_params_init(&sp);
	const int64_t n_ctx = ROOM(.n_seqs = d, .n_tokens = k->depth + 1, .n_more = p).n_ctx_needed;
	cp.n_ctx = (int32_t)(n_ctx < 1 << 30 ? n_ctx : 1 << 30);
	cp.n_batch = cp.n_ubatch = p + d;
	cp.n_seq_max = d + 1;
	cp.n_threads = k->m->n_threads;
	cp.abort = stop_asked;
	k->n_points = k->c->n_prefill * k->c->n_decode;
	k->tokens = mem_alloc((size_t)k->depth, sizeof *k->tokens);
	k->times = mem_zalloc((size_t)k->n_points * (size_t)k->m->rounds, sizeof *k->times);
	if (!k->tokens || !k->times)
		return out_of_memory(sim_prog);
	if (cohort_context_open(k->model, &cp, &k->ctx, &err) ||
			cohort_sampler_open(&sp, k->info.n_vocab, &k->sampler, &err) ||
			cohort_batch_init(&k->batch, p + d, 0, 1, &err))
		return fail(sim_prog, &err);
	return repack_all(k->ctx);
}

/* A sequence gets its tokens; a checkpoint lets a model with states come back to this. */
static enum cohort_status fill_one(struct meter *k, cohort_seq s, struct cohort_err *err)
{
	for (int32_t i = 0; i < k->depth; i++)
		k->tokens[i] = draw(k);
	enum cohort_status st = k->depth ? cohort_decode_many(k->ctx, k->tokens, k->depth, 0, s, err) : COHORT_OK;
	return st ? st : cohort_seq_checkpoint(k->ctx, s, err);
}

/* A depth from which sequences can come back to it. A model has a few windows at most, and each of them is in the way
 * of every block_size-th depth only. */
static enum cohort_status find_depth(struct meter *k, struct cohort_err *err)
{
	enum { TRIES = 8 };
	enum cohort_status st = COHORT_OK;

	for (int i = 0; i < TRIES; i++) {
		st = fill_one(k, 1, err);
		if (!st)
			st = cohort_decode_one(k->ctx, draw(k), k->depth, 1, true, err);
		if (st)
			return st;
		st = cohort_seq_rm(k->ctx, 1, k->depth, -1, err);
		cohort_seq_rm(k->ctx, 1, 0, -1, NULL);
		if (!st || k->depth == 0)
			return st;
		k->depth--;
	}
	return st;
}

/* Sequences 1 .. d. */
static int fill(struct meter *k)
{
	const int32_t d = k->c->decode[k->c->n_decode - 1];
	struct cohort_err err;
	enum cohort_status st = find_depth(k, &err);

	for (cohort_seq s = 1; s <= d && !st; s++) {
		progress_line(k->started, "measuring: sequence %d of %d", s, d);
		st = fill_one(k, s, &err);
	}
	return !st ? 0 : st == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(sim_prog, &err);
}

static enum cohort_status add_rows(struct meter *k, int32_t p, int32_t d, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	cohort_batch_reset(&k->batch);
	for (cohort_seq s = 1; s <= d && !st; s++)
		st = cohort_batch_add(&k->batch, draw(k), k->depth, &s, 1, true, err);
	for (int32_t i = 0; i < p && !st; i++)
		st = cohort_batch_add(&k->batch, draw(k), i, &(cohort_seq){0}, 1, i == p - 1, err);
	return st;
}

static enum cohort_status compute(struct meter *k, struct cohort_err *err)
{
	enum cohort_status st = cohort_decode(k->ctx, &k->batch, err);
	const int32_t n = st ? 0 : cohort_n_outputs(k->ctx);
	cohort_token token;

	for (int32_t i = 1; i <= n && !st; i++) {
		const float *logits = cohort_logits_get(k->ctx, -i, err);
		st = logits ? cohort_sampler_sample(k->sampler, logits, &token, err) : err->status;
	}
	return st;
}

static enum cohort_status undo(struct meter *k, int32_t d, struct cohort_err *err)
{
	enum cohort_status st = cohort_seq_rm(k->ctx, 0, 0, -1, err);

	for (cohort_seq s = 1; s <= d && !st; s++)
		st = cohort_seq_rm(k->ctx, s, k->depth, -1, err);
	return st;
}

/* Point 0 is that of no rows. */
static int measure_point(struct meter *k, int32_t point, double *seconds)
{
	const int32_t p = k->c->prefill[point / k->c->n_decode], d = k->c->decode[point % k->c->n_decode];
	struct cohort_err err;
	enum cohort_status st = add_rows(k, p, d, &err);
	const double began = clock_now();

	if (!st)
		st = compute(k, &err);
	*seconds = clock_now() - began;
	if (!st)
		st = undo(k, d, &err);
	if (st == COHORT_ABORTED || interrupted())
		return EXIT_INTERRUPTED;
	return st ? fail(sim_prog, &err) : 0;
}

static int measure_all(struct meter *k)
{
	double warm;
	int rc = fill(k);

	if (!rc)
		rc = measure_point(k, k->n_points - 1, &warm);
	for (int32_t r = 0; r < k->m->rounds && !rc; r++)
		for (int32_t i = 1; i < k->n_points && !rc; i++) {
			const int32_t point = r % 2 ? k->n_points - i : i;
			progress_line(k->started, "measuring: round %d of %d, point %d of %d", r + 1, k->m->rounds, i,
					k->n_points - 1);
			rc = measure_point(k, point, &k->times[point * k->m->rounds + r]);
		}
	progress_end();
	return rc;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void take_medians(struct meter *k)
{
	const int32_t n = k->m->rounds;

	for (int32_t i = 0; i < k->n_points; i++) {
		double *v = &k->times[i * n];
		qsort(v, (size_t)n, sizeof *v, by_value);
		k->c->s[i / k->c->n_decode][i % k->c->n_decode] = (v[(n - 1) / 2] + v[n / 2]) / 2;
	}
}

static int measure(struct meter *k)
{
	const int32_t most = k->info.n_ctx_train;
	char *name = NULL;

	if (k->info.encoder) {
		fprintf(stderr, "%s: the model is an encoder: it generates nothing\n", sim_prog);
		return EXIT_MODEL;
	}
	k->depth = k->m->depth < most ? k->m->depth : most - 1;
	k->c->n_prefill = axis(k->c->prefill, k->m->n_ubatch < most ? k->m->n_ubatch : most);
	k->c->n_decode = axis(k->c->decode, k->m->n_slots < k->m->n_ubatch ? k->m->n_slots : k->m->n_ubatch);
	int rc = open_all(k);
	if (!rc)
		rc = measure_all(k);
	if (rc)
		return rc;
	take_medians(k);
	name = printable(*k->info.name ? k->info.name : k->info.arch);
	if (!name)
		return out_of_memory(sim_prog);
	snprintf(k->c->about, sizeof k->c->about,
			"%.200s (%.1f M parameters), %d threads, %s; sequences of %d tokens; medians of %d rounds",
			name, (double)k->info.n_params * 1e-6, k->m->n_threads, k->info.isa, k->depth, k->m->rounds);
	mem_free(name);
	return 0;
}

int sim_cost_measure(const struct sim_measure *m, struct sim_cost *c)
{
	struct meter k = {.m = m, .c = c, .started = clock_now()};
	struct cohort_model_params mp;
	int rc;

	memset(c, 0, sizeof *c);
	rng_init(&k.rng, 0, 0);
	cohort_model_params_init(&mp);
	mp.n_threads = m->n_threads;
	mp.device = m->device;
	rc = load_model(sim_prog, m->model, &mp, &k.model);
	if (!rc) {
		cohort_model_info_get(k.model, &k.info);
		k.started = clock_now();
		rc = measure(&k);
	}
	progress_end();
	cohort_batch_release(&k.batch);
	cohort_sampler_free(k.sampler);
	cohort_context_free(k.ctx);
	cohort_model_free(k.model);
	mem_free(k.tokens);
	mem_free(k.times);
	return rc;
}
