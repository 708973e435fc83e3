/* What the server can be looked at by: health, models, metrics, slots, and a stream of what each tick carried. */
#include "serve.h"
#include "serve_web.h"

#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LIVE_MS = 100 };
#define PAUSE_S 0.02 /* between two looks at the slots, at most */

bool live_init(struct live *l, int32_t n_slots)
{
	l->has_lock = lock_init(&l->lock);
	l->slots = mem_zalloc((size_t)n_slots, sizeof *l->slots);
	for (int32_t i = 0; l->slots && i < n_slots; i++)
		l->slots[i].id = i;
	return l->has_lock && l->slots;
}

void live_release(struct live *l)
{
	if (l->has_lock)
		lock_release(&l->lock);
	l->has_lock = false;
	mem_free(l->slots);
	l->slots = NULL;
}

void live_add(struct live *l, const struct cohort_tick *tick)
{
	lock_take(&l->lock);
	l->ticks[l->n++ % LIVE_TICKS] = *tick;
	lock_give(&l->lock);
}

/* ---- Health and models ---- */

bool refuse_draining(const struct server *srv, struct openai_error *e)
{
	if (!atomic_load(&srv->draining))
		return false;
	openai_refuse(e, NULL, "draining", "the server is ending: it takes no more requests");
	e->status = 503;
	e->type = "server_error";
	return true;
}

enum step run_health(struct call *c)
{
	struct openai_error e = {0};

	if (refuse_draining(c->srv, &e))
		return answer_error(c, &e);
	return answer_json(c, 200, json_pack("{s:s}", "status", "ok"));
}

static json_t *model_json(const struct server *srv)
{
	const struct cohort_model_info *i = &srv->host.info;

	return json_pack("{s:o, s:s, s:I, s:s, s:{s:i, s:i, s:i, s:I, s:I}}", "id",
			openai_text(srv->host.name, strlen(srv->host.name)), "object", "model", "created",
			(json_int_t)srv->started, "owned_by", "cohort", "meta", "n_vocab", (int)i->n_vocab,
			"n_ctx_train", (int)i->n_ctx_train, "n_embd", (int)i->n_embd, "n_params",
			(json_int_t)i->n_params, "size", (json_int_t)i->weight_bytes);
}

enum step run_models(struct call *c)
{
	return answer_json(c, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(c->srv)));
}

enum step run_model(struct call *c)
{
	if (strcmp(c->arg, c->srv->host.name) == 0)
		return answer_json(c, 200, model_json(c->srv));
	struct openai_error e = {0};
	openai_refuse(&e, "model", "model_not_found", "there is no model '%.100s' here, only '%.100s'", c->arg,
			c->srv->host.name);
	e.status = 404;
	return answer_error(c, &e);
}

enum step run_metrics(struct call *c)
{
	struct cohort_engine_stats stats;
	struct openai_buf b = {0};

	cohort_engine_stats_get(c->srv->engine, &stats);
	if (metrics_text(&c->srv->metrics, &stats, c->srv->host.name, watch_count(&c->srv->watch), &b))
		return answer_bytes(c, 200, "text/plain; version=0.0.4", &b);
	openai_buf_release(&b);
	return STEP_CLOSE;
}

/* ---- The page ---- */

enum step run_page(struct call *c)
{
	const struct web_file *f = c->srv->no_page ? NULL : web_file_find(c->path);

	if (f)
		return answer_static(c, 200, f->type, f->bytes, f->size, f->etag, WEB_SECURITY_POLICY);
	struct openai_error e = {0};
	openai_refuse(&e, NULL, "not_found", "%s",
			c->srv->no_page ? "this server was started with -no-page" : "the page has no such file");
	e.status = 404;
	return answer_error(c, &e);
}

/* ---- Slots ---- */

static const char *state_name(enum cohort_slot_state s)
{
	static const char *const names[] = {"idle", "prefilling", "generating", "parked"};
	return names[s];
}

/* The slots, in an array that the caller frees; NULL: out of memory. The engine looks at them between two ticks, and an
 * HTTP thread waits for that: one at a time, and with a pause behind it if it took any time, so that no number of
 * viewers keeps threads from other connections. Who comes meanwhile gets what was seen last. */
static struct cohort_slot_info *read_slots(struct server *srv, size_t *n)
{
	struct live *l = &srv->live;
	const size_t n_slots = (size_t)srv->engine_params.n_slots, n_bytes = n_slots * sizeof *l->slots;
	struct cohort_slot_info *slots = mem_alloc(n_slots, sizeof *slots);

	*n = slots ? n_slots : 0;
	if (!slots)
		return NULL;
	lock_take(&l->lock);
	const double began = clock_now();
	const bool looks = !l->looking && began >= l->look_at;
	l->looking |= looks;
	memcpy(slots, l->slots, n_bytes);
	lock_give(&l->lock);
	if (!looks)
		return slots;
	cohort_engine_slots_get(srv->engine, slots, n_slots);
	lock_take(&l->lock);
	memcpy(l->slots, slots, n_bytes);
	const double now = clock_now();
	l->look_at = now + fmin(now - began, PAUSE_S);
	l->looking = false;
	lock_give(&l->lock);
	return slots;
}

enum step run_slots(struct call *c)
{
	size_t n;
	struct cohort_slot_info *slots = read_slots(c->srv, &n);
	json_t *list = slots ? json_array() : NULL;

	for (size_t i = 0; i < n && list; i++) {
		const struct cohort_slot_info *s = &slots[i];
		const bool busy = s->state != COHORT_SLOT_IDLE;
		json_t *v = json_pack("{s:i, s:b, s:s, s:i, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:f}", "id", (int)s->id,
				"is_processing", busy, "state", state_name(s->state), "n_ctx",
				(int)c->srv->engine_params.context.n_ctx, "id_task", (json_int_t)s->request, "output",
				(int)s->output, "n_prompt_tokens", (int)s->n_prompt, "n_prompt_tokens_processed",
				(int)s->n_cached, "n_decoded", (int)s->n_generated, "n_blocks", (int)s->n_blocks,
				"priority", (int)s->priority, "age_s", s->age_s);
		if (json_array_append_new(list, v)) {
			json_decref(list);
			list = NULL;
		}
	}
	mem_free(slots);
	return answer_json(c, 200, list);
}

/* ---- The live view ---- */

struct view {
	uint64_t seen; /* ticks */
	double told;
};

static void drop_view(struct call *c)
{
	mem_free(c->work);
}

static bool add(struct openai_buf *b, const char *text, int n)
{
	return n > 0 && openai_buf_add(b, text, (size_t)n);
}

#define ADD(b, room, ...) add(b, room, snprintf(room, sizeof(room), __VA_ARGS__))

static bool add_ticks(struct server *srv, struct view *v, struct openai_buf *b)
{
	struct live *l = &srv->live;
	struct cohort_tick ticks[64];
	char room[256];
	bool ok = true, first = true;
	size_t n;

	do {
		lock_take(&l->lock);
		if (l->n - v->seen > LIVE_TICKS)
			v->seen = l->n - LIVE_TICKS;
		for (n = 0; n < 64 && v->seen < l->n; n++)
			ticks[n] = l->ticks[v->seen++ % LIVE_TICKS];
		lock_give(&l->lock);
		for (size_t i = 0; i < n && ok; i++) {
			const struct cohort_tick *t = &ticks[i];
			ok = ADD(b, room,
					"%s{\"n\":%" PRIu64
					",\"at_s\":%.4f,\"decode\":%d,\"prefill\":%d,\"sampled\":%d,"
					"\"total_ms\":%.3f,\"decode_ms\":%.3f}",
					first ? "" : ",", t->tick, t->at_s, t->n_decode_rows, t->n_prefill_rows,
					t->n_sampled, 1000 * t->total_s, 1000 * t->decode_s);
			first = false;
		}
	} while (n == 64 && ok);
	return ok;
}

static bool add_slots(struct server *srv, struct openai_buf *b)
{
	char room[320];
	size_t n;
	struct cohort_slot_info *slots = read_slots(srv, &n);
	bool ok = slots != NULL;

	for (size_t i = 0; i < n && ok; i++) {
		const struct cohort_slot_info *s = &slots[i];
		ok = ADD(b, room,
				"%s{\"id\":%d,\"state\":\"%s\",\"request\":%" PRIu64 ",\"output\":%d,\"n_prompt\":%d,"
				"\"n_prefilled\":%d,\"n_generated\":%d,\"n_blocks\":%d,\"age_s\":%.2f,\"priority\":%d}",
				i ? "," : "", (int)s->id, state_name(s->state), s->request, s->output, s->n_prompt,
				s->n_cached < s->n_prompt ? s->n_cached : s->n_prompt, s->n_generated, s->n_blocks,
				s->age_s, s->priority);
	}
	mem_free(slots);
	return ok;
}

static bool add_view(struct server *srv, struct view *v, struct openai_buf *b)
{
	struct cohort_engine_stats st;
	char room[640];

	cohort_engine_stats_get(srv->engine, &st);
	const struct cohort_tick *k = &st.last;
	return ADD(b, room, "data: {\"now_s\":%.3f,\"ticks\":[", clock_now() - srv->opened) && add_ticks(srv, v, b) &&
			ADD(b, room, "],\"slots\":[") && add_slots(srv, b) &&
			ADD(b, room,
					"],\"queue\":{\"requests\":%d,\"tokens\":%" PRId64 ",\"requests_max\":%d},"
					"\"blocks\":{\"total\":%d,\"used\":%d,\"cached\":%d,\"free\":%d},"
					"\"totals\":{\"ticks\":%" PRIu64 ",\"sampled\":%" PRIu64
					",\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64
					",\"parked\":%" PRIu64 ",\"refused\":%" PRIu64 "},\"strategy\":\"%.60s\"}\n\n",
					k->n_queued, k->n_queued_tokens, srv->engine_params.queue_requests_max,
					k->n_blocks, k->n_blocks_used, k->n_blocks_cached, k->n_blocks_free, st.n_ticks,
					st.n_sampled, st.n_prompt_tokens, st.n_cached_tokens, st.n_parked, st.n_refused,
					st.strategy);
}

static bool more(struct call *c, struct openai_buf *out, double *wake_at)
{
	struct view *v = c->work;
	const double now = clock_now();

	if (atomic_load(&c->srv->draining))
		return false;
	if (now - v->told >= LIVE_MS / 1000.0) {
		v->told = now;
		if (!add_view(c->srv, v, out))
			return false;
	}
	*wake_at = v->told + LIVE_MS / 1000.0;
	return true;
}

enum step run_live(struct call *c)
{
	c->work = mem_zalloc(1, sizeof(struct view));
	c->drop = drop_view;
	return c->work ? answer_stream(c, "text/event-stream", more) : STEP_CLOSE;
}
