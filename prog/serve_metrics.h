/* Counters and histograms of the server, in Prometheus' text format. docs/metrics.md lists every name. */
#ifndef PROG_SERVE_METRICS_H
#define PROG_SERVE_METRICS_H

#include "cohort_engine.h"
#include "openai.h"

#include "base/lock.h"

enum { METRICS_BOUNDS_MAX = 24 };

struct histogram {
	const double *bounds; /* [n] upper ones, rising; what is above the last counts in counts[n] */
	size_t n;
	uint64_t counts[METRICS_BOUNDS_MAX + 1];
	double sum;
};
void histogram_init(struct histogram *h, const double *bounds, size_t n);
void histogram_add(struct histogram *h, double x, uint64_t times);

struct metrics {
	struct lock lock;
	bool has_lock;
	struct histogram first_token, between_tokens, queue, whole, prompt_tokens, generated_tokens;
	struct histogram batch_whole; /* of lines of batches, which are in none of the times above */
	struct histogram decode_rows, prefill_rows; /* of a tick */
	uint64_t http[6]; /* answers by hundreds of their status; 0: closed without one */
	uint64_t n_finished[COHORT_FINISH_SHUTDOWN + 1], n_batch[COHORT_FINISH_SHUTDOWN + 1]; /* the latter: of those */
	double prefill_s, decode_s; /* of requests, summed up */
	uint64_t n_prompt, n_generated;
	double slot_ticks; /* busy slots, summed over ticks */
	double last_end_s; /* of the tick before; 0: none */
	int32_t last_generating;
};
bool metrics_init(struct metrics *m);
void metrics_release(struct metrics *m);
/* A tick is over: on the engine's thread. */
void metrics_tick(struct metrics *m, const struct cohort_tick *tick);
/* A request has ended: a client's, or a line of a batch. */
void metrics_request(struct metrics *m, const struct cohort_request_stats *stats, bool batch);
/* So has a call. */
void metrics_http(struct metrics *m, unsigned status, double s);
/* All of it; false when out of memory. model: the name that labels have. */
bool metrics_text(struct metrics *m, const struct cohort_engine_stats *stats, const char *model, int n_connections,
		struct openai_buf *out);

#endif
