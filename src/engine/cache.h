/* Cached prompts as bytes (cache.c), and errands: what other threads have done by the one that ticks (engine.c). */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include "engine/core.h"

/* The public calls, on the thread that ticks. Parts of the bytes: see cache_read. */
struct cache_part {
	const uint8_t *tokens; /* [n_tokens, 4] */
	int32_t n_tokens;
	const uint8_t *state;
	size_t n_state;
};
/* Looks at everything but the state. Any thread. */
enum cohort_status cache_read(const struct core *c, const void *bytes, size_t n_bytes, struct cache_part *part,
		struct cohort_err *err);
enum cohort_status cache_save(struct core *c, const struct cohort_cache_key *key, void **bytes, size_t *n_bytes,
		int32_t *n_saved, struct cohort_err *err);
/* key->tokens are those of the part. */
enum cohort_status cache_load(struct core *c, const struct cohort_cache_key *key, const struct cache_part *part,
		int32_t *n_tokens, struct cohort_err *err);
int32_t cache_drop(struct core *c, const struct cohort_cache_key *key);
/* A stream leaves its slot. */
void cache_keep_tokens(struct core *c, const struct stream *s);
enum cohort_status cache_slot(struct core *c, cohort_seq slot, cohort_token *tokens, size_t n_max,
		struct cohort_cache_key *key, struct cohort_err *err);

/* Has fn done by the thread that ticks, between two ticks, and waits for it. E_ARG: the caller is that thread. */
enum cohort_status engine_run(struct cohort_engine *e, void (*fn)(struct core *c, void *arg), void *arg,
		struct cohort_err *err);
const struct core *engine_core(const struct cohort_engine *e);

#endif
