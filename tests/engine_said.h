/* For tests of the engine with threads: kinds of requests, what each of them says alone, and checks that any thread may
 * make. All of it is worked out before a thread is there, and nothing changes afterwards. */
#ifndef TESTS_ENGINE_SAID_H
#define TESTS_ENGINE_SAID_H

#include "engine_rig.h"

#include "base/pool.h"
#include "base/thread.h"

#include <stdatomic.h>

/* From a few tokens to some hundred; kinds 2i and 2i + 1 begin alike. */
enum { SAID_KINDS = 8, SAID_OUTPUTS = 2, SAID_SLOTS = 4 };

static struct job said_jobs[SAID_KINDS];
static struct alone said_alone[SAID_KINDS][SAID_OUTPUTS];

static inline int said_set_up(void **state)
{
	static const int32_t n_prompts[SAID_KINDS] = {3, 150, 40, 70, 96, 20, 1, 33};
	static const int32_t n_tokens[SAID_KINDS] = {60, 9, 25, 1, 12, 40, 30, 18};

	if (rig_set_up_random(state))
		return -1;
	for (int i = 0; i < SAID_KINDS; i++) {
		struct cohort_request_params *p = &said_jobs[i].p;
		rig_job(&said_jobs[i], (uint64_t)i / 2, n_prompts[i], n_tokens[i]);
		p->n_outputs = i % 4 == 2 ? SAID_OUTPUTS : 1;
		p->client = (uint64_t)i % 3;
		p->session = (uint64_t)i % 4;
		p->n_logprobs = i % 3 - 1;
		for (int32_t k = 0; k < p->n_outputs; k++)
			alone_run(rig_model, rig_alone, p, k, &said_alone[i][k]);
	}
	return 0;
}

/* cmocka's asserts belong to the thread that tests. */
static inline void expect(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "# %s\n", what);
		abort();
	}
}

/* Every output is what it is alone, or, where the request was ended with `cut`, the beginning of it. Returns how many
 * were cut. */
static inline int said_check(struct cohort_request *r, int kind, enum cohort_finish cut)
{
	int n_cut = 0;

	for (int32_t k = 0; k < said_jobs[kind].p.n_outputs; k++) {
		const struct alone *a = &said_alone[kind][k];
		struct cohort_output o;
		expect(!cohort_request_output_get(r, k, &o, NULL), "there is no output of what is done");
		const bool whole = o.finish == a->finish;
		expect(whole || (cut && o.finish == cut), "it ended in another way than alone");
		expect(whole ? o.n_tokens == a->n_tokens && o.n_bytes == a->n_bytes
			     : o.n_tokens < a->n_tokens && o.n_bytes <= a->n_bytes,
				"it said more or less than alone");
		expect(memcmp(o.tokens, a->tokens, (size_t)o.n_tokens * sizeof *o.tokens) == 0, "other tokens");
		expect(memcmp(o.text, a->text, o.n_bytes) == 0, "another text");
		expect(!o.logprobs || memcmp(o.logprobs, a->logprobs, (size_t)o.n_tokens * sizeof *o.logprobs) == 0,
				"other log-probabilities");
		n_cut += !whole;
	}
	return n_cut;
}

/* A small engine with a thread of its own. */
static inline void said_params(struct cohort_engine_params *p)
{
	rig_params(p);
	p->n_slots = SAID_SLOTS;
	p->manual = false;
}

static inline struct cohort_request *said_submit(struct cohort_engine *e, int kind)
{
	struct cohort_request *r = NULL;

	expect(cohort_engine_submit(e, &said_jobs[kind].p, &r, NULL) == COHORT_OK, "refused");
	return r;
}

/* Requests that have ended, in whatever way. */
static inline uint64_t said_n_ended(const struct cohort_engine_stats *s)
{
	uint64_t n = 0;

	for (int f = 0; f <= COHORT_FINISH_SHUTDOWN; f++)
		n += s->n_ended[f];
	return n;
}

#endif
