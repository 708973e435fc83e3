/* What a sampler remembers of its text, and the penalties on saying it again.
 *
 * Invariants
 *  1. The last n tokens lie end to end, whatever came before them.
 *  2. A breaker is found when its last byte arrives, however its bytes are spread over tokens. Tokens that are not text
 *     (control tokens) have no bytes and leave what was found before them as it was. */
#include "base/mem.h"
#include "sample/lexicon.h"
#include "sample/sample.h"

#include <math.h>
#include <string.h>

/* ---- Tokens ---- */

bool history_init(struct history *h, size_t n_max)
{
	*h = (struct history){.n_max = n_max};
	h->tokens = mem_zalloc(2 * n_max, sizeof *h->tokens);
	h->broken = mem_zalloc(2 * n_max, sizeof *h->broken);
	return h->tokens && h->broken;
}

void history_release(struct history *h)
{
	mem_free(h->tokens);
	mem_free(h->broken);
	*h = (struct history){0};
}

void history_add(struct history *h, cohort_token token, bool broken)
{
	if (h->n_max == 0)
		return;
	if (h->n == 2 * h->n_max) {
		memcpy(h->tokens, h->tokens + h->n_max, h->n_max * sizeof *h->tokens);
		memcpy(h->broken, h->broken + h->n_max, h->n_max * sizeof *h->broken);
		h->n = h->n_max;
	}
	h->tokens[h->n] = token;
	h->broken[h->n] = broken;
	h->n++;
}

const cohort_token *history_last(const struct history *h, size_t n, size_t *got)
{
	n = n < h->n_max ? n : h->n_max;
	n = n < h->n ? n : h->n;
	*got = n;
	return h->tokens + (h->n - n);
}

size_t stage_window(const struct cohort_sampler_params *p, int32_t last_n)
{
	return last_n < 0 ? (size_t)p->history_max : (size_t)last_n;
}

/* ---- Breakers ---- */

enum { BREAKER_BYTES_MAX = 256 };

enum cohort_status breakers_init(struct breakers *b, const struct cohort_sampler_params *p, struct cohort_err *err)
{
	size_t bytes = 0;

	*b = (struct breakers){.lexicon = p->lexicon};
	if (p->n_dry_breakers == 0)
		return COHORT_OK;
	if (!p->dry_breakers)
		return err_set(err, COHORT_E_ARG, "dry_breakers is NULL");
	if (!p->lexicon)
		return err_set(err, COHORT_E_ARG, "dry_breakers need a lexicon: they are found in the text of tokens");
	for (int32_t i = 0; i < p->n_dry_breakers; i++) {
		const size_t n = p->dry_breakers[i] ? strlen(p->dry_breakers[i]) : 0;
		if (n == 0 || n > BREAKER_BYTES_MAX)
			return err_rule(err, COHORT_E_ARG, "dry_breakers", i, -1, n == 0 ? 1 : BREAKER_BYTES_MAX,
					(int64_t)n, "DRY's sequence breaker %d has %zu bytes, expected 1 to %d", i, n,
					BREAKER_BYTES_MAX);
		bytes += n;
		b->longest = n > b->longest ? n : b->longest;
	}
	b->n = (size_t)p->n_dry_breakers;
	b->text = mem_alloc(bytes, 1);
	b->ends = mem_alloc(b->n, sizeof *b->ends);
	b->tail = mem_alloc(b->longest, 1);
	if (!b->text || !b->ends || !b->tail) {
		breakers_release(b);
		return err_set(err, COHORT_E_MEMORY, "out of memory for %d sequence breakers", p->n_dry_breakers);
	}
	uint32_t at = 0;
	for (size_t i = 0; i < b->n; i++) {
		const size_t n = strlen(p->dry_breakers[i]);
		memcpy(b->text + at, p->dry_breakers[i], n);
		b->ends[i] = at += (uint32_t)n;
	}
	return COHORT_OK;
}

bool breakers_copy(struct breakers *to, const struct breakers *from)
{
	*to = *from;
	if (from->n == 0)
		return true;
	to->text = mem_dup(from->text, from->ends[from->n - 1]);
	to->ends = mem_dup(from->ends, from->n * sizeof *from->ends);
	to->tail = mem_dup(from->tail, from->longest);
	return to->text && to->ends && to->tail;
}

void breakers_release(struct breakers *b)
{
	mem_free(b->text);
	mem_free(b->ends);
	mem_free(b->tail);
	*b = (struct breakers){0};
}

void breakers_reset(struct breakers *b)
{
	b->n_tail = 0;
}

/* The tail ends with breaker i. */
static bool ends_with(const struct breakers *b, size_t i)
{
	const size_t from = i ? b->ends[i - 1] : 0, n = b->ends[i] - from;
	return b->n_tail >= n && memcmp(b->tail + b->n_tail - n, b->text + from, n) == 0;
}

bool breakers_push(struct breakers *b, cohort_token token)
{
	size_t n;
	bool found = false;

	if (b->n == 0)
		return false;
	const uint8_t *bytes = lexicon_bytes(b->lexicon, token, &n);
	for (size_t i = 0; i < n; i++) {
		if (b->n_tail == b->longest)
			memmove(b->tail, b->tail + 1, --b->n_tail);
		b->tail[b->n_tail++] = (char)bytes[i];
		for (size_t k = 0; k < b->n && !found; k++)
			found = ends_with(b, k);
	}
	return found;
}

/* ---- Penalties ---- */

static enum cohort_status penalties_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	enum cohort_status st = err_range(err, "penalty_last_n", p->penalty_last_n, -1, COHORT_HISTORY_MAX);
	if (!st)
		st = stage_expect(p->repeat_penalty > 0.0f && p->repeat_penalty < INFINITY, "repeat_penalty",
				(double)p->repeat_penalty, "a number above 0", err);
	if (!st)
		st = stage_expect(isfinite(p->frequency_penalty), "frequency_penalty", (double)p->frequency_penalty,
				"a finite number", err);
	if (!st)
		st = stage_expect(isfinite(p->presence_penalty), "presence_penalty", (double)p->presence_penalty,
				"a finite number", err);
	return st;
}

static bool penalties_is_on(const struct cohort_sampler_params *p)
{
	return p->penalty_last_n != 0 &&
			(p->repeat_penalty != 1.0f || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f);
}

static double penalise(const void *arg, size_t i, double logit)
{
	const struct cohort_sampler *s = arg;
	const double repeat = (double)s->p.repeat_penalty;

	if (!(logit > -INFINITY))
		return logit;
	logit = logit > 0 ? logit / repeat : logit * repeat;
	return stage_finite(logit - (s->counts[i] * (double)s->p.frequency_penalty + (double)s->p.presence_penalty));
}

static void penalties_apply(struct cohort_sampler *s, struct cands *c)
{
	size_t n;
	const cohort_token *t = history_last(&s->history, stage_window(&s->p, s->p.penalty_last_n), &n);

	idset_clear(&s->tally);
	for (size_t i = 0; i < n; i++) {
		const size_t before = s->tally.n, at = idset_add(&s->tally, t[i]);
		s->counts[at] = at == before ? 1 : s->counts[at] + 1;
	}
	cands_map(c, &s->tally, penalise, s);
}

const struct stage_ops stage_penalties = {"penalties", penalties_check, penalties_is_on, true, penalties_apply};
