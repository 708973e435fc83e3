/* Texts to vectors.
 *
 * What holds:
 *  1. out[i] belongs to texts[i], whatever order the engine finishes them in, and has the bits it has alone.
 *  2. Requests free themselves when they are done; when a run ends early the engine is closed, which ends the others.
 *
 * It knows no format and no file. */
#include "embedder.h"

#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const poolings[] = {
		[COHORT_POOL_NONE] = "none",
		[COHORT_POOL_MEAN] = "mean",
		[COHORT_POOL_CLS] = "cls",
		[COHORT_POOL_LAST] = "last",
};

const char *pooling_name(enum cohort_pooling pooling)
{
	return poolings[pooling];
}

static int choose_pooling(struct embedder *e)
{
	e->pooling = e->info.pooling == COHORT_POOL_NONE ? COHORT_POOL_MEAN : e->info.pooling;
	if (!e->opts->pooling)
		return 0;
	for (int i = COHORT_POOL_MEAN; i <= COHORT_POOL_LAST; i++)
		if (strcmp(e->opts->pooling, poolings[i]) == 0) {
			e->pooling = (enum cohort_pooling)i;
			return 0;
		}
	return bad_usage(e->prog, "pooling '%s' is not known; known: mean, cls, last", e->opts->pooling);
}

int embedder_init(struct embedder *e, const char *prog, struct embed_opts *opts)
{
	*e = (struct embedder){.prog = prog, .opts = opts};
	int rc = choose_pooling(e); /* a bad name is said before a large model is loaded */
	if (!rc)
		rc = load_text_model(prog, opts->model, opts->isa, &opts->load, &e->m, &e->info);
	if (!rc)
		rc = added_tokens_get(prog, e->m, &e->added);
	return rc ? rc : choose_pooling(e);
}

int embedder_open(struct embedder *e, size_t n_longest)
{
	struct cohort_engine_params p;
	struct cohort_err err;
	/* All at once where they are short; long texts take turns. */
	const struct cohort_room_info room = ROOM(.n_seqs = e->opts->slots, .n_tokens = (int64_t)n_longest);
	const int64_t pool = room.n_needed * room.block_size, longest = pool / e->opts->slots;
	const int64_t most = longest > 8192 ? longest : 8192;
	int64_t batch = e->opts->batch;

	cohort_engine_free(e->engine);
	e->engine = NULL;
	cohort_engine_params_init(&p);
	p.n_slots = (int32_t)e->opts->slots;
	p.manual = true;
	p.no_reuse = true;
	p.queue_requests_max = 2 * p.n_slots;
	p.queue_tokens_max = INT64_MAX;
	p.context.n_threads = thread_count(e->opts->threads_given, e->opts->threads);
	p.context.outputs = COHORT_OUTPUT_EMBEDDINGS | (e->info.encoder ? 0 : COHORT_OUTPUT_LOGITS);
	if (e->info.encoder) { /* every row sees all of its text: the whole of it is computed together */
		batch = batch > (int64_t)n_longest ? batch : (int64_t)n_longest;
		p.context.n_ubatch = (int32_t)batch;
		p.chunk_size = (int32_t)batch;
	}
	p.context.n_batch = (int32_t)batch;
	p.context.n_ctx = (int32_t)(pool < most ? pool : most);
	if (cohort_engine_open(e->m, &p, &e->engine, &err))
		return fail(e->prog, &err);
	return 0;
}

void embedder_release(struct embedder *e)
{
	cohort_engine_free(e->engine);
	cohort_model_free(e->m);
	e->engine = NULL;
	e->m = NULL;
}

int embedder_tokens(struct embedder *e, const char *what, const char *text, size_t n_bytes, size_t n_max, bool truncate,
		struct embed_text *out, bool *cut)
{
	int rc = text_tokens(e->prog, e->m, text, n_bytes, e->opts->special ? COHORT_TOKENIZE_SPECIAL : 0, &out->tokens,
			&out->n);

	*cut = false;
	if (rc)
		return rc;
	if (out->n == 0)
		return bad_usage(e->prog, "%s is empty, and the model puts no token around a text", what);
	if (out->n <= n_max)
		return 0;
	if (!truncate)
		return bad_usage(e->prog, "%s has %zu tokens, more than the %zu that fit; -truncate cuts it", what,
				out->n, n_max);
	const size_t n_behind = e->added.n_behind < n_max ? e->added.n_behind : 0;
	memmove(out->tokens + n_max - n_behind, out->tokens + out->n - n_behind, n_behind * sizeof *out->tokens);
	out->n = n_max;
	*cut = true;
	return 0;
}

/* ---- Running ---- */

struct job;
struct item {
	struct job *job;
	size_t i;
};
struct job {
	struct embedder *e;
	const struct embed_text *texts;
	float *out; /* [n, n_embd] */
	size_t n_under_way; /* requests */
	uint64_t n_tokens; /* of texts that are done */
	size_t n_done;
	bool failed;
	struct cohort_err err;
};

static void on_event(struct cohort_request *request, const struct cohort_event *event, void *user)
{
	const struct item *it = user;
	struct job *j = it->job;

	if (event->kind == COHORT_EVENT_EMBEDDING) {
		memcpy(j->out + it->i * (size_t)event->n_embd, event->embedding,
				(size_t)event->n_embd * sizeof *j->out);
		j->n_done++;
		j->n_tokens += j->texts[it->i].n;
	} else if (event->kind == COHORT_EVENT_END && event->error && !j->failed) {
		j->failed = true;
		j->err = *event->error;
	} else if (event->kind == COHORT_EVENT_DONE) {
		j->n_under_way--;
		cohort_request_free(request);
	}
}

static int submit(struct job *j, struct item *item)
{
	struct cohort_request_params p;
	struct cohort_request *request;
	struct cohort_err err;

	cohort_request_params_init(&p);
	p.task = COHORT_TASK_EMBED;
	p.prompt = j->texts[item->i].tokens;
	p.n_prompt = (int32_t)j->texts[item->i].n;
	p.pooling = j->e->pooling;
	p.on_event = on_event;
	p.user = item;
	if (cohort_engine_submit(j->e->engine, &p, &request, &err))
		return fail(j->e->prog, &err);
	j->n_under_way++;
	return 0;
}

int embedder_run(struct embedder *e, const struct embed_text *texts, size_t n, float *out, const char *label)
{
	struct job j = {.e = e, .texts = texts, .out = out};
	struct item *items = mem_alloc(n, sizeof *items);
	const double started = clock_now();
	double shown = started;
	uint64_t n_all = 0;
	size_t next = 0;
	int rc = 0;

	if (!items)
		return out_of_memory(e->prog);
	for (size_t i = 0; i < n; i++) {
		items[i] = (struct item){&j, i};
		n_all += texts[i].n;
	}
	while (!rc && (next < n || j.n_under_way > 0)) {
		struct cohort_err err;
		bool idle;
		while (!rc && next < n && j.n_under_way < 2 * (size_t)e->opts->slots)
			rc = submit(&j, &items[next++]);
		if (!rc && cohort_engine_tick(e->engine, &idle, &err))
			rc = fail(e->prog, &err);
		if (!rc && j.failed)
			rc = fail(e->prog, &j.err);
		if (!rc && interrupted()) {
			progress_end();
			fprintf(stderr, "%s: interrupted: %zu of %zu text%s done\n", e->prog, j.n_done, n,
					n == 1 ? " was" : "s were");
			rc = EXIT_INTERRUPTED;
		}
		const double now = clock_now(), rate = (double)j.n_tokens / (now - started + 1e-9);
		if (now - shown > 0.1 && rate > 0) {
			shown = now;
			progress_line(started, "%s: %zu of %zu texts, %.0f tokens/s, %.0f s left", label, j.n_done, n,
					rate, (double)(n_all - j.n_tokens) / rate);
		}
	}
	progress_end();
	if (rc) { /* what is under way still points at the items */
		cohort_engine_free(e->engine);
		e->engine = NULL;
	}
	mem_free(items);
	return rc;
}
