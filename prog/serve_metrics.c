/* Counting, and the text that Prometheus reads: llama-server's names, histograms as vLLM has them, and what the engine
 * knows of itself.
 *
 * Invariants
 *  1. A histogram's buckets are cumulative when written, the last one is +Inf and equals its count.
 *  2. Time between tokens is taken from ticks: every slot that generates has a token in each, so that a tick counts
 * once for each of its decode rows, with the time since the tick before it ended.
 *  3. Lines of batches count wherever work is counted. In the times that clients wait they do not: they wait behind
 *     everybody, and nobody waits for them.
 * It does not know of connections or routes. */
#include "serve_metrics.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Seconds, as vLLM has them (and finer below, as small models are faster); tokens; rows of a tick. */
static const double bounds_first[] = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5,
		5, 7.5, 10, 20, 40, 80, 160};
static const double bounds_between[] = {
		0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5};
static const double bounds_whole[] = {
		0.005, 0.02, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480};
static const double bounds_tokens[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000};
static const double bounds_rows[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

void histogram_init(struct histogram *h, const double *bounds, size_t n)
{
	*h = (struct histogram){.bounds = bounds, .n = n};
}

void histogram_add(struct histogram *h, double x, uint64_t times)
{
	size_t i = 0;

	while (i < h->n && x > h->bounds[i])
		i++;
	h->counts[i] += times;
	h->sum += x * (double)times;
}

#define INIT(h, b) histogram_init(&(h), b, sizeof(b) / sizeof *(b))

bool metrics_init(struct metrics *m)
{
	*m = (struct metrics){0};
	m->has_lock = lock_init(&m->lock); /* not before the rest was emptied: that would empty it, too */
	INIT(m->first_token, bounds_first);
	INIT(m->between_tokens, bounds_between);
	INIT(m->queue, bounds_whole);
	INIT(m->whole, bounds_whole);
	INIT(m->prompt_tokens, bounds_tokens);
	INIT(m->generated_tokens, bounds_tokens);
	INIT(m->batch_whole, bounds_whole);
	INIT(m->decode_rows, bounds_rows);
	INIT(m->prefill_rows, bounds_rows);
	return m->has_lock;
}

void metrics_release(struct metrics *m)
{
	if (m->has_lock)
		lock_release(&m->lock);
	m->has_lock = false;
}

void metrics_tick(struct metrics *m, const struct cohort_tick *t)
{
	const double end = t->at_s + t->total_s;

	lock_take(&m->lock);
	histogram_add(&m->decode_rows, t->n_decode_rows, 1);
	histogram_add(&m->prefill_rows, t->n_prefill_rows, 1);
	if (t->n_decode_rows > 0)
		histogram_add(&m->between_tokens, m->last_generating > 0 ? end - m->last_end_s : t->total_s,
				(uint64_t)t->n_decode_rows);
	m->slot_ticks += t->n_prefilling + t->n_generating;
	m->last_end_s = end;
	m->last_generating = t->n_generating;
	lock_give(&m->lock);
}

void metrics_request(struct metrics *m, const struct cohort_request_stats *s, bool batch)
{
	/* When the prompt had been read: an embedding has no first token. */
	const double read_s = s->finish == COHORT_FINISH_EMBEDDED ? s->end_s : s->first_token_s;

	lock_take(&m->lock);
	m->n_finished[s->finish]++;
	m->n_batch[s->finish] += batch;
	if (s->queued_s >= 0 && !batch)
		histogram_add(&m->queue, s->queued_s, 1);
	if (read_s >= 0) {
		histogram_add(&m->prompt_tokens, s->n_prompt, 1);
		m->prefill_s += read_s - s->queued_s;
		m->n_prompt += (uint64_t)(s->n_prompt - s->n_cached);
	}
	if (s->first_token_s >= 0) {
		if (!batch)
			histogram_add(&m->first_token, s->first_token_s, 1);
		histogram_add(&m->generated_tokens, s->n_generated, 1);
		m->n_generated += (uint64_t)s->n_generated;
	}
	if (s->end_s >= 0) {
		histogram_add(batch ? &m->batch_whole : &m->whole, s->end_s, 1);
		m->decode_s += s->first_token_s >= 0 ? s->end_s - s->first_token_s : 0;
	}
	lock_give(&m->lock);
}

void metrics_http(struct metrics *m, unsigned status, double s)
{
	(void)s;
	lock_take(&m->lock);
	m->http[status < 600 ? status / 100 : 5]++;
	lock_give(&m->lock);
}

/* ---- The text ---- */

struct text {
	struct openai_buf *out;
	const char *model; /* as a label's value */
	bool ok;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	const int n = vsnprintf(line, sizeof line, fmt, args);
	va_end(args);
	t->ok = t->ok && n > 0 && (size_t)n < sizeof line && openai_buf_add(t->out, line, (size_t)n);
}

static void put_value(struct text *t, const char *name, const char *type, const char *help, double x)
{
	put(t, "# HELP %s %s\n# TYPE %s %s\n%s %.10g\n", name, help, name, type, name, x);
}

static void put_histogram(struct text *t, const char *name, const char *help, const struct histogram *h)
{
	uint64_t sum = 0;

	put(t, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
	for (size_t i = 0; i < h->n; i++) {
		sum += h->counts[i];
		put(t, "%s_bucket{model_name=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, t->model, h->bounds[i], sum);
	}
	sum += h->counts[h->n];
	put(t, "%s_bucket{model_name=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, t->model, sum);
	put(t, "%s_sum{model_name=\"%s\"} %.10g\n%s_count{model_name=\"%s\"} %" PRIu64 "\n", name, t->model, h->sum,
			name, t->model, sum);
}

/* llama-server's names. */
static void put_llama(struct text *t, const struct metrics *m, const struct cohort_engine_stats *s)
{
	const struct cohort_tick *k = &s->last;
	const double n_ticks = (double)s->n_ticks, used = k->n_blocks > 0 ? (double)k->n_blocks_used / k->n_blocks : 0;

	put_value(t, "llamacpp:prompt_tokens_total", "counter", "Prompt tokens computed, of requests that ended.",
			(double)m->n_prompt);
	put_value(t, "llamacpp:prompt_seconds_total", "counter",
			"Seconds from admission to the first token, or to the embedding.", m->prefill_s);
	put_value(t, "llamacpp:tokens_predicted_total", "counter", "Tokens generated, of requests that ended.",
			(double)m->n_generated);
	put_value(t, "llamacpp:tokens_predicted_seconds_total", "counter", "Seconds from the first token to the end.",
			m->decode_s);
	put_value(t, "llamacpp:n_decode_total", "counter", "Ticks of the engine.", n_ticks);
	put_value(t, "llamacpp:n_busy_slots_per_decode", "gauge", "Busy slots in a tick, on average.",
			n_ticks > 0 ? m->slot_ticks / n_ticks : 0);
	put_value(t, "llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens a second, on average.",
			m->prefill_s > 0 ? (double)m->n_prompt / m->prefill_s : 0);
	put_value(t, "llamacpp:predicted_tokens_seconds", "gauge", "Tokens a second of a request, on average.",
			m->decode_s > 0 ? (double)m->n_generated / m->decode_s : 0);
	put_value(t, "llamacpp:kv_cache_usage_ratio", "gauge", "Blocks of the cache that slots use, of all.", used);
	put_value(t, "llamacpp:requests_processing", "gauge", "Sequences in slots.",
			k->n_prefilling + k->n_generating + k->n_parked);
	put_value(t, "llamacpp:requests_deferred", "gauge", "Requests that wait for a slot.", k->n_queued);
}

static void put_engine(struct text *t, const struct metrics *m, const struct cohort_engine_stats *s, int n_connections)
{
	const struct cohort_tick *k = &s->last;

	put(t, "# HELP cohort:blocks Blocks of the cache, by what they are used for.\n# TYPE cohort:blocks gauge\n");
	put(t,
			"cohort:blocks{state=\"used\"} %d\ncohort:blocks{state=\"cached\"} %d\n"
			"cohort:blocks{state=\"free\"} %d\n",
			k->n_blocks_used, k->n_blocks_cached, k->n_blocks_free);
	put(t, "# HELP cohort:slots Slots, by state.\n# TYPE cohort:slots gauge\n");
	put(t, "cohort:slots{state=\"idle\"} %d\ncohort:slots{state=\"prefilling\"} %d\n", k->n_idle, k->n_prefilling);
	put(t, "cohort:slots{state=\"generating\"} %d\ncohort:slots{state=\"parked\"} %d\n", k->n_generating,
			k->n_parked);
	put_value(t, "cohort:queue_tokens", "gauge", "Prompt tokens that wait for a slot.", (double)k->n_queued_tokens);
	put(t, "# HELP cohort:rows_total Rows decoded, by kind.\n# TYPE cohort:rows_total counter\n");
	put(t, "cohort:rows_total{kind=\"decode\"} %" PRIu64 "\ncohort:rows_total{kind=\"prefill\"} %" PRIu64 "\n",
			s->n_decode_rows, s->n_prefill_rows);
	put_value(t, "cohort:requests_submitted_total", "counter", "Requests that were queued.",
			(double)s->n_submitted);
	put_value(t, "cohort:requests_refused_total", "counter", "Requests that the engine refused.",
			(double)s->n_refused);
	put(t,
			"# HELP cohort:requests_finished_total Requests that ended, by why.\n"
			"# TYPE cohort:requests_finished_total counter\n");
	for (int f = COHORT_FINISH_EOG; f <= COHORT_FINISH_SHUTDOWN; f++)
		put(t, "cohort:requests_finished_total{reason=\"%s\"} %" PRIu64 "\n",
				cohort_finish_name((enum cohort_finish)f), m->n_finished[f]);
	put(t,
			"# HELP cohort:batch_requests_finished_total Of those, lines of batches.\n"
			"# TYPE cohort:batch_requests_finished_total counter\n");
	for (int f = COHORT_FINISH_EOG; f <= COHORT_FINISH_SHUTDOWN; f++)
		put(t, "cohort:batch_requests_finished_total{reason=\"%s\"} %" PRIu64 "\n",
				cohort_finish_name((enum cohort_finish)f), m->n_batch[f]);
	put_value(t, "cohort:prompt_tokens_total", "counter", "Prompt tokens of admitted requests.",
			(double)s->n_prompt_tokens);
	put_value(t, "cohort:cached_tokens_total", "counter", "Of those, reused from the cache.",
			(double)s->n_cached_tokens);
	put_value(t, "cohort:prefix_lookups_total", "counter", "Prompts looked for in the cache.",
			(double)s->n_lookups);
	put_value(t, "cohort:prefix_hits_total", "counter", "Of those, with something found.", (double)s->n_hits);
	put_value(t, "cohort:evicted_blocks_total", "counter", "Cached blocks that made room.", (double)s->n_evicted);
	put_value(t, "cohort:parked_total", "counter", "Sequences that were parked.", (double)s->n_parked);
	put_value(t, "cohort:resumed_total", "counter", "Parked sequences that went on.", (double)s->n_resumed);
	put_value(t, "cohort:strategy_fallbacks_total", "counter", "Ticks whose plan was bad and replaced.",
			(double)s->n_fallbacks);
	put_value(t, "cohort:decode_retries_total", "counter", "Decodes that failed and were tried in parts.",
			(double)s->n_retries);
	put_value(t, "cohort:tick_seconds_total", "counter", "Seconds spent in ticks.", s->total_s);
	put_value(t, "cohort:decode_seconds_total", "counter", "Of those, decoding.", s->decode_s);
	put_value(t, "cohort:sample_seconds_total", "counter", "Of those, sampling.", s->sample_s);
	put_value(t, "cohort:connections", "gauge", "Connections open.", n_connections);
	put(t, "# HELP cohort:http_answers_total Answers, by status.\n# TYPE cohort:http_answers_total counter\n");
	for (int i = 1; i < 6; i++)
		put(t, "cohort:http_answers_total{status=\"%dxx\"} %" PRIu64 "\n", i, m->http[i]);
	put(t, "cohort:http_answers_total{status=\"none\"} %" PRIu64 "\n", m->http[0]);
	put_histogram(t, "cohort:batch_request_latency_seconds", "From a batch's line being queued to its end.",
			&m->batch_whole);
	put_histogram(t, "cohort:tick_decode_rows", "Rows of generating slots in a tick.", &m->decode_rows);
	put_histogram(t, "cohort:tick_prefill_rows", "Rows of prompts in a tick.", &m->prefill_rows);
}

/* vLLM's names. */
static void put_vllm(struct text *t, const struct metrics *m, const struct cohort_engine_stats *s)
{
	const struct cohort_tick *k = &s->last;

	put(t,
			"# HELP vllm:num_requests_running Sequences in slots.\n# TYPE vllm:num_requests_running gauge\n"
			"vllm:num_requests_running{model_name=\"%s\"} %d\n",
			t->model, k->n_prefilling + k->n_generating);
	put(t,
			"# HELP vllm:num_requests_waiting Requests that wait for a slot.\n"
			"# TYPE vllm:num_requests_waiting gauge\n"
			"vllm:num_requests_waiting{model_name=\"%s\"} %d\n",
			t->model, k->n_queued);
	put_histogram(t, "vllm:time_to_first_token_seconds", "From a request's coming to its first token.",
			&m->first_token);
	put_histogram(t, "vllm:time_per_output_token_seconds", "Between two tokens of a sequence.", &m->between_tokens);
	put_histogram(t, "vllm:request_queue_time_seconds", "Until a request was admitted.", &m->queue);
	put_histogram(t, "vllm:e2e_request_latency_seconds", "From a request's coming to its end.", &m->whole);
	put_histogram(t, "vllm:request_prompt_tokens", "Tokens of a prompt.", &m->prompt_tokens);
	put_histogram(t, "vllm:request_generation_tokens", "Tokens generated for a request.", &m->generated_tokens);
}

bool metrics_text(struct metrics *m, const struct cohort_engine_stats *stats, const char *model, int n_connections,
		struct openai_buf *out)
{
	json_t *name = openai_text(model, strlen(model)); /* Prometheus refuses all of a text that is not UTF-8 */
	char label[128];

	if (!name)
		return false;
	const size_t n_name = json_string_length(name), n_room = sizeof label - 1;
	const size_t n = utf8_valid_prefix(json_string_value(name), n_name < n_room ? n_name : n_room);
	for (size_t i = 0; i < n; i++) {
		const char c = json_string_value(name)[i];
		label[i] = c;
		if (c == '"' || c == '\\' || (unsigned char)c < ' ')
			label[i] = '_';
	}
	label[n] = 0;
	json_decref(name);
	struct text t = {out, label, true};
	lock_take(&m->lock);
	const struct metrics copy = *m;
	lock_give(&m->lock);
	put_llama(&t, &copy, stats);
	put_vllm(&t, &copy, stats);
	put_engine(&t, &copy, stats, n_connections);
	return t.ok;
}
