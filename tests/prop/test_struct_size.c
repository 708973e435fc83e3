/* struct_size is honoured: a program that was built with an older header, whose structs are shorter, gets what one of
 * today gets that leaves the later fields at their defaults; nothing behind its struct is read or written.
 *
 * Every struct that says its size is cut at every word, and put before a page that cannot be touched.
 * Seen red with: `p = *params` before the size is looked at (a fault in the page behind, with all kinds); a copy of
 * sizeof bytes in params_take; struct_size compared for equality; order_parse and synth_shape without their checks;
 * an _init that writes a word more. */
#include "cohort_engine.h"
#include "cohort_search.h"
#include "cohort_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct cohort_model *model;
static struct cohort_context *context;
static struct cohort_forest *forest;
static struct cohort_branch branch; /* has no logits: a search says so once it has looked at its params */
static struct cohort_engine *engine;
static unsigned char *guard; /* the page that cannot be touched; what is before it can be */
enum { GUARD_ROOM = 4096 };

struct result {
	enum cohort_status status;
	char text[256];
};

/* What becomes of params; what it makes is ended again. */
typedef void use_fn(void *params, struct result *r);

static void note(struct result *r, enum cohort_status status, const struct cohort_err *err)
{
	r->status = status;
	snprintf(r->text, sizeof r->text, "%s", status ? err->text : "");
}

static void use_model(void *params, struct result *r)
{
	struct cohort_model *m = NULL;
	struct cohort_err err;
	note(r, cohort_model_open("no-such-file.gguf", params, &m, &err), &err);
	assert_null(m);
}

static void use_context(void *params, struct result *r)
{
	struct cohort_context *c = NULL;
	struct cohort_err err;
	note(r, cohort_context_open(model, params, &c, &err), &err);
	cohort_context_free(c);
}

static void use_sampler(void *params, struct result *r)
{
	struct cohort_sampler *s = NULL;
	struct cohort_err err;
	note(r, cohort_sampler_open(params, 100, &s, &err), &err);
	cohort_sampler_free(s);
}

static void use_branch(void *params, struct result *r)
{
	struct cohort_branch b;
	struct cohort_err err;
	note(r, cohort_branch_create(forest, params, &b, &err), &err);
	if (!r->status)
		assert_int_equal(cohort_branch_prune(forest, b, NULL), COHORT_OK);
}

static void use_forest(void *params, struct result *r)
{
	struct cohort_forest *f = NULL;
	struct cohort_context *c = NULL;
	struct cohort_context_params p;
	struct cohort_err err;
	cohort_context_params_init(&p);
	p.n_ctx = 32;
	p.n_threads = 1;
	assert_int_equal(cohort_context_open(model, &p, &c, NULL), COHORT_OK);
	note(r, cohort_forest_open(c, params, &f, &err), &err);
	cohort_forest_free(f);
	cohort_context_free(c);
}

static void use_engine(void *params, struct result *r)
{
	struct cohort_engine *e = NULL;
	struct cohort_err err;
	note(r, cohort_engine_open(model, params, &e, &err), &err);
	cohort_engine_free(e);
}

static void use_request(void *params, struct result *r)
{
	struct cohort_request *q = NULL;
	struct cohort_err err;
	note(r, cohort_engine_submit(engine, params, &q, &err), &err);
	cohort_request_free(q);
}

static double second(void *user, int32_t n_prefill_rows, int32_t n_decode_rows)
{
	(void)user;
	return n_prefill_rows + n_decode_rows;
}

static void use_sim(void *params, struct result *r)
{
	static struct cohort_sim_totals totals;
	const struct cohort_sim_request request = {.n_prompt = 4, .n_output = 2};
	struct cohort_sim_outcome outcome;
	struct cohort_err err;
	note(r, cohort_simulate(params, &request, 1, &outcome, &totals, &err), &err);
}

static void use_beam(void *params, struct result *r)
{
	struct cohort_beams out;
	struct cohort_err err;
	note(r, cohort_beams_search(forest, branch, params, &out, &err), &err);
	assert_int_not_equal(r->status, COHORT_OK);
}

static void use_draw(void *params, struct result *r)
{
	struct cohort_texts out;
	struct cohort_err err;
	note(r, cohort_texts_draw(forest, branch, params, &out, &err), &err);
	assert_int_not_equal(r->status, COHORT_OK);
}

static void use_tree(void *params, struct result *r)
{
	struct cohort_tree out;
	struct cohort_err err;
	note(r, cohort_tree_grow(forest, branch, params, &out, &err), &err);
	assert_int_not_equal(r->status, COHORT_OK);
}

static void use_synth(void *params, struct result *r)
{
	struct cohort_err err;
	note(r, cohort_synth_write("no-such-directory/x.gguf", params, &err), &err);
}

static void use_quantize(void *params, struct result *r)
{
	struct cohort_err err;
	note(r, cohort_quantize_write("no-such-file.gguf", "no-such-directory/x.gguf", params, NULL, &err), &err);
}

static void use_template(void *params, struct result *r)
{
	struct cohort_template *t = NULL;
	struct cohort_err err;
	char *text = NULL;
	size_t n;
	assert_int_equal(cohort_template_open("a{{ add_generation_prompt }}", 28, &t, NULL), COHORT_OK);
	note(r, cohort_template_render(t, params, &text, &n, &err), &err);
	if (!r->status)
		snprintf(r->text, sizeof r->text, "%s", text);
	cohort_template_text_free(text);
	cohort_template_free(t);
}

/* ---- Structs with values that are not the defaults ---- */

static const cohort_token prompt[] = {1, 2, 3};
static const cohort_token end_token = 2;

static void set_context(void *params)
{
	struct cohort_context_params *p = params;
	p->n_ctx = 64;
	p->n_threads = 1;
	p->n_checkpoints = -1; /* E_ARG, when it is looked at */
}

static void set_model(void *params)
{
	struct cohort_model_params *p = params;
	p->n_adapters = 1; /* E_ARG: they are NULL */
}

static void set_sampler(void *params)
{
	struct cohort_sampler_params *p = params;
	p->temperature = 0.5f;
	p->mirostat_eta = -1; /* E_ARG */
}

static void set_forest(void *params)
{
	struct cohort_forest_params *p = params;
	p->n_seqs = -1; /* E_ARG */
}

static void set_engine(void *params)
{
	struct cohort_engine_params *p = params;
	p->manual = true;
	p->n_slots = 2;
	p->context.n_ctx = 64;
	p->context.n_threads = 1;
	p->wait_max_s = -1; /* E_ARG */
}

static void set_request(void *params)
{
	struct cohort_request_params *p = params;
	p->prompt = prompt;
	p->n_prompt = 3;
	p->max_tokens = 1;
	p->sampler.top_k = 1;
	p->total_limit_s = -1; /* E_ARG */
}

static bool at_once(void *user)
{
	(void)user;
	return true;
}

static void set_sim(void *params)
{
	struct cohort_sim_params *p = params;
	p->cost_s = second;
	p->n_slots = 2;
	p->abort = at_once; /* ABORTED */
}

static void set_beam(void *params)
{
	struct cohort_beam_params *p = params;
	p->width = 3;
	p->ends = &end_token;
	p->n_ends = -1; /* E_ARG */
}

static void set_draw(void *params)
{
	struct cohort_draw_params *p = params;
	p->n = 3;
	p->ends = &end_token;
	p->n_ends = -1;
}

static void set_tree(void *params)
{
	struct cohort_tree_params *p = params;
	p->depth = 2;
	p->ends = &end_token;
	p->n_ends = -1;
}

static void set_synth(void *params)
{
	struct cohort_synth_params *p = params;
	p->n_vocab = 300;
	p->n_threads = -1; /* E_ARG */
}

static void set_quantize(void *params)
{
	struct cohort_quantize_params *p = params;
	p->n_threads = -1; /* E_ARG */
}

static void set_template(void *params)
{
	struct cohort_template_params *p = params;
	p->add_generation_prompt = false;
	p->depth_max = 0; /* E_LIMIT */
}

/* ---- All of them ---- */

static const struct kind {
	const char *name;
	size_t size;
	void (*set)(void *);
	use_fn *use;
} kinds[] = {
		{"model", sizeof(struct cohort_model_params), set_model, use_model},
		{"context", sizeof(struct cohort_context_params), set_context, use_context},
		{"sampler", sizeof(struct cohort_sampler_params), set_sampler, use_sampler},
		{"branch", sizeof(struct cohort_sampler_params), set_sampler, use_branch},
		{"forest", sizeof(struct cohort_forest_params), set_forest, use_forest},
		{"engine", sizeof(struct cohort_engine_params), set_engine, use_engine},
		{"request", sizeof(struct cohort_request_params), set_request, use_request},
		{"simulation", sizeof(struct cohort_sim_params), set_sim, use_sim},
		{"beam", sizeof(struct cohort_beam_params), set_beam, use_beam},
		{"draw", sizeof(struct cohort_draw_params), set_draw, use_draw},
		{"tree", sizeof(struct cohort_tree_params), set_tree, use_tree},
		{"synth", sizeof(struct cohort_synth_params), set_synth, use_synth},
		{"quantize", sizeof(struct cohort_quantize_params), set_quantize, use_quantize},
		{"template", sizeof(struct cohort_template_params), set_template, use_template},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* A call of one type for each, as their arguments differ. */
static void init_of(size_t i, void *p)
{
	switch (i) {
	case 0: cohort_model_params_init(p); break;
	case 1: cohort_context_params_init(p); break;
	case 2:
	case 3: cohort_sampler_params_init(p); break;
	case 4: cohort_forest_params_init(p); break;
	case 5: cohort_engine_params_init(p); break;
	case 6: cohort_request_params_init(p); break;
	case 7: cohort_sim_params_init(p); break;
	case 8: cohort_beam_params_init(p); break;
	case 9: cohort_draw_params_init(p); break;
	case 10: cohort_tree_params_init(p); break;
	case 11: cohort_synth_params_init(p); break;
	case 12: cohort_quantize_params_init(p); break;
	default: cohort_template_params_init(p); break;
	}
}

/* The struct's last n bytes that can be touched. */
static void *at_guard(size_t n)
{
	return guard - n;
}

static void put_size(void *params, size_t n)
{
	memcpy(params, &n, sizeof n);
}

static void shorter_structs(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_KINDS; i++) {
		const struct kind *k = &kinds[i];
		unsigned char set[1024], want[1024];
		size_t n_other = 0;
		assert_true(k->size <= sizeof set && k->size % sizeof(size_t) == 0);
		init_of(i, set);
		k->set(set);
		for (size_t n = 2 * sizeof(size_t); n <= k->size; n += sizeof(size_t)) {
			struct result whole, cut;
			unsigned char *at = at_guard(n);
			init_of(i, want);
			memcpy(want, set, n);
			put_size(want, k->size);
			memcpy(at, set, n);
			put_size(at, n);
			k->use(want, &whole);
			k->use(at, &cut);
			if (whole.status != cut.status || strcmp(whole.text, cut.text) != 0)
				fail_msg("%s of %zu bytes of %zu: %d (%s), expected %d (%s)", k->name, n, k->size,
						cut.status, cut.text, whole.status, whole.text);
			assert_null(strstr(cut.text, "initialised"));
			n_other += n < k->size && whole.status != COHORT_E_ARG;
		}
		/* The bad value did not count where it was cut off, and did where it was not. */
		struct result whole;
		k->use(set, &whole);
		if (!strcmp(k->name, "beam") || !strcmp(k->name, "draw") || !strcmp(k->name, "tree"))
			continue;
		assert_int_not_equal(whole.status, COHORT_OK);
		if (n_other == 0 && k->size > 2 * sizeof(size_t))
			fail_msg("%s: no shorter struct came through", k->name);
	}
}

static void impossible_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_KINDS; i++) {
		const struct kind *k = &kinds[i];
		const size_t sizes[] = {0, 1, sizeof(size_t), 2 * sizeof(size_t) + 1, k->size - 1,
				k->size + sizeof(size_t), SIZE_MAX, SIZE_MAX / 8 * 8};
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
			struct result r;
			unsigned char *at = at_guard(k->size);
			init_of(i, at);
			put_size(at, sizes[s]);
			k->use(at, &r);
			if (r.status != COHORT_E_ARG || (!strstr(r.text, "init") && !strstr(r.text, "_init")))
				fail_msg("%s with struct_size %zu: %d (%s)", k->name, sizes[s], r.status, r.text);
		}
		/* As little as the size itself. */
		struct result r;
		put_size(at_guard(sizeof(size_t)), sizeof(size_t));
		k->use(at_guard(sizeof(size_t)), &r);
		assert_int_equal(r.status, COHORT_E_ARG);
	}
}

/* Those that fill a struct fill what there is of it in this version, and say how much that is. */
static void what_is_written(void **state)
{
	struct cohort_model_info *info = at_guard(sizeof *info);
	(void)state;

	for (size_t i = 0; i < N_KINDS; i++) {
		unsigned char *at = at_guard(kinds[i].size);
		size_t n;
		memset(at - 64, 0x5a, 64 + kinds[i].size);
		init_of(i, at);
		memcpy(&n, at, sizeof n);
		assert_int_equal(n, kinds[i].size);
		for (size_t b = 1; b <= 64; b++)
			assert_int_equal(at[-(ptrdiff_t)b], 0x5a);
	}
	cohort_model_info_get(model, info);
	assert_int_equal(info->struct_size, sizeof *info);
	cohort_model_info_get(NULL, info);
	assert_int_equal(info->struct_size, sizeof *info);
}

/* Functions that write to params of the caller look whether there is room. */
static void shape_of_short_params(void **state)
{
	const size_t n_min = offsetof(struct cohort_synth_params, seed);
	(void)state;

	for (size_t n = sizeof(size_t); n <= n_min; n += sizeof(size_t)) {
		unsigned char *at = at_guard(n), before[GUARD_ROOM];
		memset(at, 0, n);
		put_size(at, n);
		memcpy(before, at, n);
		assert_int_equal(cohort_synth_shape((struct cohort_synth_params *)at, "smol-135m"), n == n_min);
		if (n < n_min)
			assert_memory_equal(before, at, n);
	}
}

static void order_of_short_params(void **state)
{
	struct cohort_err err;
	(void)state;

	for (size_t n = sizeof(size_t); n < offsetof(struct cohort_sampler_params, bias); n += sizeof(size_t)) {
		unsigned char *at = at_guard(n), before[GUARD_ROOM];
		memset(at, 0, n);
		put_size(at, n);
		memcpy(before, at, n);
		assert_int_equal(cohort_sampler_order_parse((struct cohort_sampler_params *)at, "top_k", &err),
				COHORT_E_ARG);
		assert_memory_equal(before, at, n);
	}
	struct cohort_sampler_params *p = at_guard(offsetof(struct cohort_sampler_params, bias));
	memset(p, 0, offsetof(struct cohort_sampler_params, bias));
	p->struct_size = offsetof(struct cohort_sampler_params, bias);
	assert_int_equal(cohort_sampler_order_parse(p, "top_k", &err), COHORT_OK);
	assert_int_equal(p->n_order, 1);
}

static enum cohort_status build_nothing(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	(void)self;
	(void)state;
	(void)plan;
	return COHORT_OK;
}

/* Strategies are the caller's, and may be of a later header as well: what is appended is not looked at. */
static void strategies_of_later_headers_are_taken(void **state)
{
	struct {
		struct cohort_strategy s;
		void *later[4];
	} s = {.s = {.struct_size = sizeof s, .name = "x", .build_batch = build_nothing}};
	(void)state;

	assert_int_equal(cohort_engine_strategy_set(engine, &s.s, NULL), COHORT_OK);
	s.s.struct_size = sizeof s.s;
	assert_int_equal(cohort_engine_strategy_set(engine, &s.s, NULL), COHORT_OK);
	s.s.struct_size = sizeof s.s - sizeof(size_t);
	assert_int_equal(cohort_engine_strategy_set(engine, &s.s, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_engine_strategy_set(engine, NULL, NULL), COHORT_OK);
}

static int open_all(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct cohort_context_params cp;
	struct cohort_engine_params ep;
	(void)state;

	unsigned char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED || page < GUARD_ROOM || mprotect(room + page, page, PROT_NONE))
		return -1;
	guard = room + page;
	cohort_context_params_init(&cp);
	cp.n_ctx = 64;
	cp.n_threads = 1;
	cohort_engine_params_init(&ep);
	ep.context = cp;
	ep.n_slots = 2;
	ep.manual = true;
	return cohort_model_open("tests/golden/data/llama.gguf", NULL, &model, NULL) ||
					cohort_context_open(model, &cp, &context, NULL) ||
					cohort_forest_open(context, NULL, &forest, NULL) ||
					cohort_branch_create(forest, NULL, &branch, NULL) ||
					cohort_engine_open(model, &ep, &engine, NULL)
			? -1
			: 0;
}

static int free_all(void **state)
{
	(void)state;
	cohort_engine_free(engine);
	cohort_forest_free(forest);
	cohort_context_free(context);
	cohort_model_free(model);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(shorter_structs),
			cmocka_unit_test(impossible_sizes),
			cmocka_unit_test(what_is_written),
			cmocka_unit_test(shape_of_short_params),
			cmocka_unit_test(order_of_short_params),
			cmocka_unit_test(strategies_of_later_headers_are_taken),
	};
	return cmocka_run_group_tests_name("struct_size", tests, open_all, free_all);
}
