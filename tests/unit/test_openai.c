/* Bodies of requests: every parameter arrives where the engine wants it, every refusal is a 400 that names its field,
 * and when memory runs out at any allocation that is said and nothing leaks (AddressSanitizer looks).
 *
 * Shown red by: top_p with the place of min_p; an upper bound that is not looked at; a name left out in
 * refuse_unsupported; read_list that takes mixed items; a grammar that is not put back; tokens of logit_bias read by
 * sscanf, which takes blanks and signs; bounds moved by one, and < in the place of <=
 * (fields_take_the_ends_of_their_ranges, lists_take_as_many_as_documented). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "openai_case.h"

#include "base/mem.h"

#define M "'messages':[{'role':'user','content':'Hi'}]"

/* Both routes that generate take these. */
static void number(const char *field, double value, size_t at, char kind)
{
	for (int route = OPENAI_CHAT; route <= OPENAI_COMPLETIONS; route++) {
		struct openai_request r;
		struct openai_error e;
		char body[200];
		snprintf(body, sizeof body, "{" M ",'prompt':'x','%s':%.17g}", field, value);
		if (!oa_parse((enum openai_route)route, body, &r, &e))
			fail_msg("%s: %s", body, e.message);
		const void *p = (const char *)&r + at;
		const double got = kind == 'f' ? (double)*(const float *)p
				: kind == 'i'  ? (double)*(const int32_t *)p
					       : (double)*(const int64_t *)p;
		if (got != (kind == 'f' ? (double)(float)value : value))
			fail_msg("%s is %g, not %g", field, got, value);
		openai_request_release(&oa_host, &r);
	}
}

static void number_fields_arrive(void **state)
{
#define S(f) offsetof(struct openai_request, params.sampler.f)
#define R(f) offsetof(struct openai_request, f)
	(void)state;
	number("temperature", 1.25, S(temperature), 'f');
	number("top_p", 0.5, S(top_p), 'f');
	number("top_k", 7, S(top_k), 'i');
	number("top_k", -1, S(top_k), 'i');
	number("min_p", 0.25, S(min_p), 'f');
	number("typical_p", 0.75, S(typical_p), 'f');
	number("top_n_sigma", 1.5, S(top_n_sigma), 'f');
	number("min_keep", 3, S(min_keep), 'i');
	number("presence_penalty", -1.5, S(presence_penalty), 'f');
	number("frequency_penalty", 1.5, S(frequency_penalty), 'f');
	number("repeat_penalty", 1.125, S(repeat_penalty), 'f');
	number("repeat_last_n", 99, S(penalty_last_n), 'i');
	number("xtc_probability", 0.5, S(xtc_probability), 'f');
	number("xtc_threshold", 0.2, S(xtc_threshold), 'f');
	number("dynatemp_range", 0.3, S(dynatemp_range), 'f');
	number("dynatemp_exponent", 2, S(dynatemp_exponent), 'f');
	number("dry_multiplier", 0.8, S(dry_multiplier), 'f');
	number("dry_base", 2, S(dry_base), 'f');
	number("dry_allowed_length", 4, S(dry_allowed_length), 'i');
	number("dry_penalty_last_n", -1, S(dry_penalty_last_n), 'i');
	number("mirostat", 2, S(mirostat), 'i');
	number("mirostat_tau", 3, S(mirostat_tau), 'f');
	number("mirostat_eta", 0.2, S(mirostat_eta), 'f');
	number("seed", 123456789, S(seed), 'l');
	number("seed", -5, S(seed), 'l');
	number("n", 4, R(params.n_outputs), 'i');
	number("max_tokens", 9, R(params.max_tokens), 'i');
	number("max_tokens", 0, R(params.max_tokens), 'i');
	number("n_predict", -1, R(params.max_tokens), 'i');
	number("max_tokens", -1, R(params.max_tokens), 'i');
	number("max_completion_tokens", -1, R(params.max_tokens), 'i');
	number("max_tokens", 9.0, R(params.max_tokens), 'i');
}

static struct openai_request good(enum openai_route route, const char *text)
{
	struct openai_request r;
	struct openai_error e;
	if (!oa_parse(route, text, &r, &e))
		fail_msg("%s: %s (%s)", text, e.message, e.param);
	return r;
}

/* What parsing leaves of a request; checked, then released. */
#define WITH(route, text, condition) \
	do { \
		struct openai_request r = good(route, text); \
		if (!(condition)) \
			fail_msg("%s: %s", text, #condition); \
		openai_request_release(&oa_host, &r); \
	} while (0)

static void fields_arrive(void **state)
{
	(void)state;
	WITH(OPENAI_CHAT, "{" M "}", r.params.max_tokens == -1 && r.n_prompts == 1 && r.n_logprobs == -1);
	WITH(OPENAI_CHAT, "{" M ",'max_tokens':5,'max_completion_tokens':6,'n_predict':7}", r.params.max_tokens == 6);
	WITH(OPENAI_CHAT, "{" M ",'max_tokens':2147483648}", r.params.max_tokens == INT32_MAX);
	WITH(OPENAI_CHAT, "{" M ",'max_completion_tokens':9007199254740991}", r.params.max_tokens == INT32_MAX);
	WITH(OPENAI_CHAT, "{" M ",'n_predict':9223372036854775807}", r.params.max_tokens == INT32_MAX);
	WITH(OPENAI_CHAT, "{" M ",'temperature':null,'tools':null,'stop':null,'n':null}",
			r.params.sampler.temperature == 0.8f && r.n == 1);
	WITH(OPENAI_CHAT, "{" M ",'logprobs':true}", r.n_logprobs == 0 && r.params.n_logprobs == 0);
	WITH(OPENAI_CHAT, "{" M ",'logprobs':true,'top_logprobs':5}", r.n_logprobs == 5);
	WITH(OPENAI_CHAT, "{" M ",'logprobs':false,'top_logprobs':0}", r.n_logprobs == -1);
	WITH(OPENAI_CHAT, "{" M ",'tools':[],'tool_choice':'none','modalities':['text'],'unknown':[{}],'user':'me'}",
			true);
	WITH(OPENAI_CHAT, "{" M ",'stream':true,'stream_options':{'include_usage':true},'model':'gpt-4'}",
			r.stream && r.include_usage && strcmp(r.model, "gpt-4") == 0);
	WITH(OPENAI_CHAT, "{" M ",'stop':'x'}", r.params.n_stops == 1 && strcmp(r.params.stops[0], "x") == 0);
	WITH(OPENAI_CHAT, "{" M ",'stop':['x','yz']}", r.params.n_stops == 2 && strcmp(r.params.stops[1], "yz") == 0);
	WITH(OPENAI_CHAT, "{" M ",'stop':[]}", r.params.n_stops == 0);
	WITH(OPENAI_CHAT, "{" M ",'ignore_eos':true,'cache_prompt':false}", r.params.ignore_eos && r.params.no_reuse);
	WITH(OPENAI_CHAT, "{" M ",'cache_prompt':true}", !r.params.no_reuse);
	WITH(OPENAI_CHAT, "{" M ",'logit_bias':{'5':-100,'7':2.5}}",
			r.params.sampler.n_bias == 2 && r.params.sampler.bias[0].token == 5 &&
					r.params.sampler.bias[1].bias == 2.5f);
	WITH(OPENAI_CHAT, "{" M ",'logit_bias':[[5,1],[6,false]]}",
			r.params.sampler.n_bias == 2 && r.params.sampler.bias[1].bias == -INFINITY);
	/* Biases and grammars are never left out. */
	WITH(OPENAI_CHAT, "{" M ",'samplers':['top_k','typ_p'],'grammar':'root ::= [a]'}",
			r.params.sampler.n_order == 4 && r.params.sampler.order[0] == COHORT_STAGE_BIAS &&
					r.params.sampler.order[1] == COHORT_STAGE_GRAMMAR &&
					r.params.sampler.order[2] == COHORT_STAGE_TOP_K &&
					r.params.sampler.order[3] == COHORT_STAGE_TYPICAL);
	WITH(OPENAI_CHAT, "{" M ",'samplers':'top_p;temperature'}",
			r.params.sampler.n_order == 4 && r.params.sampler.order[2] == COHORT_STAGE_TOP_P);
	WITH(OPENAI_CHAT, "{" M ",'samplers':['grammar','bias','min_p']}", r.params.sampler.n_order == 3);
	WITH(OPENAI_CHAT, "{" M ",'dry_sequence_breakers':['x'],'min_keep':0}",
			r.params.sampler.n_dry_breakers == 1 && r.params.sampler.min_keep == 1);
	WITH(OPENAI_CHAT, "{" M ",'response_format':{'type':'text'}}", !r.params.sampler.grammar);
	WITH(OPENAI_CHAT, "{" M ",'response_format':{'type':'json_object'}}", r.params.sampler.grammar);
	WITH(OPENAI_CHAT, "{" M ",'response_format':{'type':'json_object','schema':{'type':'integer'}}}",
			r.params.sampler.grammar);
	WITH(OPENAI_CHAT,
			"{" M ",'response_format':{'type':'json_schema','json_schema':{'name':'a',"
			"'strict':true,'schema':{}}}}",
			r.params.sampler.grammar);
	WITH(OPENAI_CHAT, "{" M ",'json_schema':{'type':'integer'}}", r.params.sampler.grammar);
	WITH(OPENAI_CHAT, "{" M ",'grammar':'root ::= [a-z]+'}", r.params.sampler.grammar);
	WITH(OPENAI_CHAT, "{" M ",'grammar':''}", !r.params.sampler.grammar);
	WITH(OPENAI_COMPLETIONS, "{'prompt':'x'}", r.params.max_tokens == 16 && r.prompts[0].n_text == 1);
	WITH(OPENAI_COMPLETIONS, "{'prompt':'x','logprobs':3,'echo':true}",
			r.n_logprobs == 3 && r.params.prompt_logprobs);
	WITH(OPENAI_COMPLETIONS, "{'prompt':'x','echo':true}", r.echo && !r.params.prompt_logprobs);
	WITH(OPENAI_COMPLETIONS, "{'prompt':'x','n':2,'best_of':4}",
			r.n == 2 && r.params.n_outputs == 4 && r.params.n_logprobs == 0);
	WITH(OPENAI_COMPLETIONS, "{'prompt':'x','suffix':''}", true);
	WITH(OPENAI_EMBEDDINGS, "{'input':'x','temperature':'hot'}", r.params.task == COHORT_TASK_EMBED && !r.base64);
	WITH(OPENAI_EMBEDDINGS, "{'input':'x','encoding_format':'base64','dimensions':512}", r.base64);
}

static void prompts_become_tokens(void **state)
{
	(void)state;
	WITH(OPENAI_COMPLETIONS, "{'prompt':''}", r.prompts[0].n == 1); /* the token that begins a text */
	WITH(OPENAI_COMPLETIONS, "{'prompt':['Tom','Lily','x']}",
			r.n_prompts == 3 && r.prompts[2].first > r.prompts[1].first);
	WITH(OPENAI_COMPLETIONS, "{'prompt':[5,6,7]}", r.n_prompts == 1 && r.prompts[0].n == 3 && r.tokens[2] == 7);
	WITH(OPENAI_COMPLETIONS, "{'prompt':[[5],[6,7]]}",
			r.n_prompts == 2 && r.prompts[1].n == 2 && !r.prompts[1].text);
	WITH(OPENAI_COMPLETIONS, "{'prompt':'a\\u0000b'}", r.prompts[0].n_text == 3);
	WITH(OPENAI_EMBEDDINGS, "{'input':[[5],[6,7]]}", r.n_prompts == 2);
	/* Special tokens are named in prompts, and are only text where a text is embedded. */
	WITH(OPENAI_COMPLETIONS, "{'prompt':'</s>'}", r.tokens[r.n_tokens - 1] == 2);
	WITH(OPENAI_EMBEDDINGS, "{'input':'</s>'}", r.tokens[r.n_tokens - 1] != 2);

	struct openai_request a = good(OPENAI_CHAT,
			"{'messages':[{'role':'system','content':'a\\nb'},"
			"{'role':'user','content':'x'}]}");
	struct openai_request b = good(OPENAI_CHAT,
			"{'messages':[{'role':'developer','content':[{'type':'text','text':'a'},"
			"{'type':'text','text':'b'}]},"
			"{'role':'user','content':'x'}]}");
	assert_int_equal(a.n_tokens, b.n_tokens);
	assert_memory_equal(a.tokens, b.tokens, a.n_tokens * sizeof *a.tokens);
	/* The first token once, whether or not the template writes it. */
	assert_int_equal(a.tokens[0], 1);
	assert_int_not_equal(a.tokens[1], 1);
	openai_request_release(&oa_host, &a);
	openai_request_release(&oa_host, &b);
}

static void refused(enum openai_route route, const char *text, const char *param)
{
	struct openai_request r;
	struct openai_error e;

	if (oa_parse(route, text, &r, &e)) {
		openai_request_release(&oa_host, &r);
		fail_msg("taken: %s", text);
	}
	if (e.status != 400 || strcmp(e.param, param) != 0 || strlen(e.message) < 10 ||
			strcmp(e.type, "invalid_request_error") != 0)
		fail_msg("%s: %d, '%s': %s", text, e.status, e.param, e.message);
	json_t *j = openai_error_json(&e);
	const json_t *in = json_object_get(j, "error");
	assert_true(json_is_string(json_object_get(in, "message")));
	assert_true(*param ? json_is_string(json_object_get(in, "param")) : json_is_null(json_object_get(in, "param")));
	assert_non_null(json_object_get(in, "code"));
	json_decref(j);
}

static void fields_beyond_their_ranges_are_refused(void **state)
{
	static const struct {
		const char *name, *below, *above;
		bool legacy_only;
	} t[] = {{"temperature", "-0.1", "2.1", false}, {"top_p", "-0.1", "1.1", false},
			{"presence_penalty", "-2.1", "2.1", false}, {"frequency_penalty", "-2.1", "2.1", false},
			{"n", "0", "129", false}, {"max_tokens", "-2", "1e300", false},
			{"n_predict", "-2", "1e300", false}, {"top_k", "-2", "3000000000", false},
			{"min_p", "-1", "1.5", false}, {"typical_p", "-1", "1.5", false},
			{"top_n_sigma", "-2", "1e9", false}, {"min_keep", "-1", "3000000000", false},
			{"repeat_penalty", "0", "1001", false}, {"repeat_last_n", "-2", "2000000", false},
			{"xtc_probability", "-1", "2", false}, {"xtc_threshold", "-1", "2", false},
			{"dynatemp_range", "-1", "101", false}, {"dynatemp_exponent", "-1", "101", false},
			{"dry_multiplier", "-1", "1001", false}, {"dry_base", "-1", "1001", false},
			{"dry_allowed_length", "-1", "2000000", false}, {"dry_penalty_last_n", "-2", "2000000", false},
			{"mirostat", "-1", "3", false}, {"mirostat_tau", "-1", "1001", false},
			{"mirostat_eta", "-1", "1001", false}, {"best_of", "0", "129", true},
			{"logprobs", "-1", "21", true}, {"max_completion_tokens", "-2", "1e300", false},
			{"seed", "1e300", "1.5", false}};
	static const char *const wrong[] = {"'x'", "true", "[]", "{}", "[1]"};
	char body[200];
	(void)state;

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		const enum openai_route route = t[i].legacy_only ? OPENAI_COMPLETIONS : OPENAI_CHAT;
		const char *bad[7] = {t[i].below, t[i].above};
		for (size_t k = 0; k < 5; k++)
			bad[2 + k] = wrong[k];
		for (size_t k = 0; k < 7; k++) {
			snprintf(body, sizeof body, "{" M ",'prompt':'x','%s':%s}", t[i].name, bad[k]);
			refused(route, body, t[i].name);
		}
	}
	refused(OPENAI_CHAT, "{" M ",'top_k':1.5}", "top_k");
	refused(OPENAI_CHAT, "{" M ",'logprobs':true,'top_logprobs':21}", "top_logprobs");
	refused(OPENAI_CHAT, "{" M ",'top_logprobs':2}", "top_logprobs");
	refused(OPENAI_CHAT, "{" M ",'logprobs':5}", "logprobs");
	static const char *const flags[] = {"stream", "ignore_eos", "cache_prompt"};
	for (size_t i = 0; i < 3; i++) {
		snprintf(body, sizeof body, "{" M ",'%s':1}", flags[i]);
		refused(OPENAI_CHAT, body, flags[i]);
	}
	refused(OPENAI_COMPLETIONS, "{'prompt':'x','echo':'yes'}", "echo");
	refused(OPENAI_COMPLETIONS, "{'prompt':'x','n':3,'best_of':2}", "best_of");
}

static bool takes(enum openai_route route, const char *body, struct openai_error *e)
{
	struct openai_request r;
	const bool ok = oa_parse(route, body, &r, e);

	if (ok)
		openai_request_release(&oa_host, &r);
	return ok;
}

/* Ranges that docs/programs.md and docs/server.md have, and those that the refusals of the others tell. */
static void fields_take_the_ends_of_their_ranges(void **state)
{
	static const struct {
		const char *name;
		bool whole;
		double min, max; /* both 0: as the refusal says */
	} t[] = {{"temperature", false, 0, 2}, {"top_p", false, 0, 1}, {"presence_penalty", false, -2, 2},
			{"frequency_penalty", false, -2, 2}, {"n", true, 1, 128}, {"best_of", true, 1, 128},
			{"logprobs", true, 0, 20}, {"top_k", true, -1, INT32_MAX}, {"min_p", false, 0, 0},
			{"typical_p", false, 0, 0}, {"top_n_sigma", false, 0, 0}, {"min_keep", true, 0, 0},
			{"repeat_penalty", false, 0, 0}, {"repeat_last_n", true, 0, 0},
			{"xtc_probability", false, 0, 0}, {"xtc_threshold", false, 0, 0},
			{"dynatemp_range", false, 0, 0}, {"dynatemp_exponent", false, 0, 0},
			{"dry_multiplier", false, 0, 0}, {"dry_base", false, 0, 0}, {"dry_allowed_length", true, 0, 0},
			{"dry_penalty_last_n", true, 0, 0}, {"mirostat", true, 0, 0}, {"mirostat_tau", false, 0, 0},
			{"mirostat_eta", false, 0, 0}};
	static const char form[] = "{'prompt':'x','%s':%.17g%s}";
	struct openai_error e;
	char body[200];

	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		double ends[2];
		snprintf(body, sizeof body, form, t[i].name, -1e15, "");
		assert_false(takes(OPENAI_COMPLETIONS, body, &e));
		const char *range = strstr(e.message, "number from ");
		assert_non_null(range);
		assert_int_equal(sscanf(range, "number from %lf to %lf", &ends[0], &ends[1]), 2);
		if (t[i].min != t[i].max && (ends[0] != t[i].min || ends[1] != t[i].max))
			fail_msg("%s: %s", t[i].name, e.message);
		for (int k = 0; k < 2; k++) {
			const double step = k ? 1 : -1;
			const double beyond = t[i].whole ? ends[k] + step : nextafter(ends[k], step * INFINITY);
			/* As many choices as are chosen from. */
			const char *more = strcmp(t[i].name, "n") == 0 ? ",'best_of':128" : "";
			snprintf(body, sizeof body, form, t[i].name, ends[k], more);
			if (!takes(OPENAI_COMPLETIONS, body, &e))
				fail_msg("%s: %s", body, e.message);
			snprintf(body, sizeof body, form, t[i].name, beyond, more);
			refused(OPENAI_COMPLETIONS, body, t[i].name);
		}
	}
	assert_true(takes(OPENAI_CHAT, "{" M ",'logprobs':true,'top_logprobs':20}", &e));
	assert_true(takes(OPENAI_CHAT, "{" M ",'logit_bias':{'5':-100,'6':100}}", &e));
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'5':-100.00000000000001}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'5':100.00000000000001}}", "logit_bias");
}

/* {head item, item, ... tail} with n items. Freed with free. */
static char *body_of(const char *head, const char *item, size_t n, const char *tail)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fputs(head, f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s%s", i ? "," : "", item);
	fputs(tail, f);
	assert_int_equal(fclose(f), 0);
	return text;
}

static void lists_take_as_many_as_documented(void **state)
{
	static const struct {
		enum openai_route route;
		const char *head, *item, *tail, *param;
		size_t n;
	} t[] = {{OPENAI_CHAT, "{" M ",'stop':[", "'x'", "]}", "stop", 64},
			{OPENAI_COMPLETIONS, "{'prompt':[", "'x'", "]}", "prompt", 2048},
			{OPENAI_COMPLETIONS, "{'prompt':[", "[5]", "]}", "prompt", 2048},
			{OPENAI_EMBEDDINGS, "{'input':[", "'x'", "]}", "input", 2048},
			{OPENAI_EMBEDDINGS, "{'input':[", "[5]", "]}", "input", 2048},
			{OPENAI_CHAT, "{" M ",'dry_sequence_breakers':[", "'x'", "]}", "dry_sequence_breakers", 256},
			{OPENAI_CHAT, "{" M ",'logit_bias':[", "[5,1]", "]}", "logit_bias", OPENAI_BIASES_MAX}};
	struct openai_error e;

	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *most = body_of(t[i].head, t[i].item, t[i].n, t[i].tail);
		char *more = body_of(t[i].head, t[i].item, t[i].n + 1, t[i].tail);
		if (!takes(t[i].route, most, &e))
			fail_msg("%s, %zu: %s", t[i].param, t[i].n, e.message);
		refused(t[i].route, more, t[i].param);
		free(most);
		free(more);
	}
}

static void bodies_refused_by_field(void **state)
{
	(void)state;
	refused(OPENAI_CHAT, "[]", "");
	refused(OPENAI_CHAT, "'x'", "");
	refused(OPENAI_CHAT, "null", "");
	refused(OPENAI_CHAT, "{" M ",'model':5}", "model");
	refused(OPENAI_CHAT, "{" M ",'tools':[{'type':'function'}]}", "tools[0].function");
	refused(OPENAI_CHAT, "{" M ",'tools':[{'type':'function','function':{'name':'f'}}]}", "tools");
	refused(OPENAI_CHAT, "{" M ",'functions':[{}]}", "functions");
	refused(OPENAI_CHAT, "{" M ",'tool_choice':'required'}", "tool_choice");
	refused(OPENAI_CHAT, "{" M ",'function_call':{'name':'f'}}", "function_call");
	refused(OPENAI_CHAT, "{" M ",'audio':'auto'}", "audio");
	refused(OPENAI_CHAT, "{" M ",'web_search_options':{'a':1}}", "web_search_options");
	refused(OPENAI_CHAT, "{" M ",'modalities':['text','audio']}", "modalities");
	refused(OPENAI_CHAT, "{" M ",'modalities':'text'}", "modalities");
	refused(OPENAI_COMPLETIONS, "{'prompt':'x','suffix':'y'}", "suffix");
	refused(OPENAI_CHAT, "{" M ",'stop':5}", "stop");
	refused(OPENAI_CHAT, "{" M ",'stop':['a',5]}", "stop[1]");
	refused(OPENAI_CHAT, "{" M ",'stop':''}", "stop");
	refused(OPENAI_CHAT, "{" M ",'stop':'a\\u0000'}", "stop");
	refused(OPENAI_CHAT, "{" M ",'dry_sequence_breakers':[1]}", "dry_sequence_breakers[0]");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':5}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'x':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'8192':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'-1':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{' 5':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'+5':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'5x':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'18446744073709551621':1}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'5':101}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':{'5':'x'}}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':[[5]]}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'logit_bias':[['5',1]]}", "logit_bias");
	refused(OPENAI_CHAT, "{" M ",'samplers':['nothing']}", "samplers");
	refused(OPENAI_CHAT, "{" M ",'samplers':[5]}", "samplers");
	refused(OPENAI_CHAT, "{" M ",'samplers':5}", "samplers");
	refused(OPENAI_CHAT, "{" M ",'stream_options':5}", "stream_options");
	refused(OPENAI_CHAT, "{" M ",'stream_options':{'include_usage':5}}", "stream_options.include_usage");
	refused(OPENAI_CHAT, "{" M ",'response_format':5}", "response_format");
	refused(OPENAI_CHAT, "{" M ",'response_format':{'type':'xml'}}", "response_format.type");
	refused(OPENAI_CHAT, "{" M ",'response_format':{'type':'json_schema'}}", "response_format.json_schema.schema");
	refused(OPENAI_CHAT,
			"{" M ",'response_format':{'type':'json_schema','json_schema':{'schema':{'type':'what'}}}}",
			"response_format.json_schema.schema");
	refused(OPENAI_CHAT, "{" M ",'response_format':{'type':'json_object','schema':5}}", "response_format.schema");
	refused(OPENAI_CHAT, "{" M ",'grammar':'root ::= ('}", "grammar");
	refused(OPENAI_CHAT, "{" M ",'grammar':5}", "grammar");
	refused(OPENAI_CHAT, "{" M ",'grammar':'root ::= [a]','json_schema':{}}", "grammar");
	refused(OPENAI_CHAT, "{" M ",'grammar':'root ::= [a]','response_format':{'type':'json_object'}}", "grammar");
	refused(OPENAI_CHAT, "{" M ",'json_schema':{'type':'what'}}", "json_schema");
	refused(OPENAI_CHAT, "{}", "messages");
	refused(OPENAI_CHAT, "{'messages':[]}", "messages");
	refused(OPENAI_CHAT, "{'messages':'Hi'}", "messages");
	refused(OPENAI_CHAT, "{'messages':[5]}", "messages[0]");
	refused(OPENAI_CHAT, "{'messages':[{'role':'user'}]}", "messages[0].content");
	refused(OPENAI_CHAT, "{'messages':[{'role':'king','content':'x'}]}", "messages[0].role");
	refused(OPENAI_CHAT, "{'messages':[{'content':'x'}]}", "messages[0].role");
	refused(OPENAI_CHAT, "{'messages':[{'role':'user','content':5}]}", "messages[0].content");
	refused(OPENAI_CHAT, "{'messages':[{'role':'user','content':[{'type':'image_url'}]}]}",
			"messages[0].content[0]");
	refused(OPENAI_CHAT, "{'messages':[{'role':'user','content':[{'type':'text','text':5}]}]}",
			"messages[0].content[0]");
	refused(OPENAI_CHAT, "{'messages':[{'role':'user','content':['x']}]}", "messages[0].content[0]");
	refused(OPENAI_CHAT, "{" M ",'chat_template_kwargs':5}", "chat_template_kwargs");
	refused(OPENAI_COMPLETIONS, "{}", "prompt");
	refused(OPENAI_COMPLETIONS, "{'prompt':5}", "prompt");
	refused(OPENAI_COMPLETIONS, "{'prompt':{}}", "prompt");
	refused(OPENAI_COMPLETIONS, "{'prompt':[]}", "prompt");
	refused(OPENAI_COMPLETIONS, "{'prompt':['x',5]}", "prompt[1]");
	refused(OPENAI_COMPLETIONS, "{'prompt':[5,'x']}", "prompt[1]");
	refused(OPENAI_COMPLETIONS, "{'prompt':[[5],[]]}", "prompt[1]");
	refused(OPENAI_COMPLETIONS, "{'prompt':[[5],['x']]}", "prompt[1][0]");
	refused(OPENAI_COMPLETIONS, "{'prompt':[[5],'x']}", "prompt[1]");
	refused(OPENAI_COMPLETIONS, "{'prompt':['x',[5]]}", "prompt[1]");
	refused(OPENAI_COMPLETIONS, "{'prompt':[8192]}", "prompt[0]");
	refused(OPENAI_COMPLETIONS, "{'prompt':[-1]}", "prompt[0]");
	refused(OPENAI_COMPLETIONS, "{'prompt':[{}]}", "prompt[0]");
	refused(OPENAI_EMBEDDINGS, "{}", "input");
	refused(OPENAI_EMBEDDINGS, "{'input':''}", "input");
	refused(OPENAI_EMBEDDINGS, "{'input':['x','']}", "input[1]");
	refused(OPENAI_EMBEDDINGS, "{'input':'x','encoding_format':'hex'}", "encoding_format");
	refused(OPENAI_EMBEDDINGS, "{'input':'x','encoding_format':5}", "encoding_format");
	refused(OPENAI_EMBEDDINGS, "{'input':'x','dimensions':256}", "dimensions");
}

/* Lists that are too long. */
static void long_lists_are_refused(void **state)
{
	char *body = malloc(1 << 20), *p = body;
	(void)state;

	p += sprintf(p, "{'prompt':['x'");
	for (int i = 0; i < OPENAI_PROMPTS_MAX; i++)
		p += sprintf(p, ",'x'");
	sprintf(p, "]}");
	refused(OPENAI_COMPLETIONS, body, "prompt");
	p = body + sprintf(body, "{'prompt':'x','stop':['x'");
	for (int i = 0; i < COHORT_STOPS_MAX; i++)
		p += sprintf(p, ",'x'");
	sprintf(p, "]}");
	refused(OPENAI_COMPLETIONS, body, "stop");
	p = body + sprintf(body, "{'prompt':'x','stop':'");
	for (int i = 0; i <= COHORT_STOP_BYTES_MAX; i++)
		*p++ = 'x';
	sprintf(p, "'}");
	refused(OPENAI_COMPLETIONS, body, "stop");
	p = body + sprintf(body, "{'prompt':'x','logit_bias':[[1,1]");
	for (int i = 0; i < OPENAI_BIASES_MAX; i++)
		p += sprintf(p, ",[1,1]");
	sprintf(p, "]}");
	refused(OPENAI_COMPLETIONS, body, "logit_bias");
	free(body);
}

/* Any bytes are a JSON string. */
static void openai_text_takes_any_bytes(void **state)
{
	static const struct {
		const char *bytes, *text;
	} t[] = {{"", ""}, {"a\xc3\xa9", "a\xc3\xa9"},
			{"a\xff"
			 "b",
					"a\xef\xbf\xbd"
					"b"},
			{"\xe2\x82", "\xef\xbf\xbd"}, {"\x80\x80x", "\xef\xbf\xbdx"}};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		json_t *s = openai_text(t[i].bytes, strlen(t[i].bytes));
		assert_string_equal(json_string_value(s), t[i].text);
		json_decref(s);
	}
}

/* jansson's allocations fail as ours do. No schema is among the bodies: the library has one status for a grammar that
 * is too large and for memory that is out. */
static void *json_alloc(size_t n)
{
	return mem_alloc(n, 1);
}

static void request_parse_out_of_memory_at_every_point(void **state)
{
	static const struct {
		enum openai_route route;
		const char *text;
	} t[] = {{OPENAI_CHAT, "{" M ",'stop':['a','b'],'logit_bias':{'5':1}}"},
			{OPENAI_CHAT,
					"{'messages':[{'role':'developer','content':[{'type':'text','text':'a'}]}],"
					"'chat_template_kwargs':{'a':1},'dry_sequence_breakers':['x']}"},
			{OPENAI_COMPLETIONS, "{'prompt':['x','yy'],'grammar':'root ::= [ab]'}"},
			{OPENAI_COMPLETIONS, "{'prompt':[[1,2],[3]]}"}, {OPENAI_EMBEDDINGS, "{'input':['x','y']}"}};
	(void)state;

	json_set_alloc_funcs(json_alloc, mem_free);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		json_t *body = oa_json(t[i].text);
		bool ok = false;
		for (int64_t n = 0; !ok; n++) {
			struct openai_request r;
			struct openai_error e;
			/* What the cache keeps would spare the later rounds their allocations. */
			for (size_t k = 0; k < OPENAI_GRAMMARS; k++) {
				assert_int_equal(oa_host.grammars[k].n_users, 0);
				cohort_grammar_free(oa_host.grammars[k].g);
				mem_free(oa_host.grammars[k].text);
				oa_host.grammars[k] = (struct openai_grammar){0};
			}
			mem_fail_after(n);
			ok = openai_request_parse(&oa_host, t[i].route, body, &r, &e);
			mem_fail_after(-1);
			if (ok)
				openai_request_release(&oa_host, &r);
			else if (e.status != 500 || strcmp(e.code, OPENAI_NO_MEMORY) != 0)
				fail_msg("%s: allocation %d: %d %s", t[i].text, (int)n, e.status, e.message);
			assert_true(n < 5000);
		}
		json_decref(body);
	}
}

/* Lists of tokens become texts in place, where no reader could take them for something else, and mean the same. Seen
 * red with lists of lists that are packed up to the first that is none, and with names that come twice. */
static void token_lists(void **state)
{
	static const struct {
		const char *from, *to; /* NULL: as it was */
	} t[] = {{"{'prompt':[1,2]}", "{'prompt':'1,2'}"}, {" { 'x' : [1] , 'input' : [ 1 ,\n2\t] } ", NULL},
			{"{'input':[[1],[2,3]],'n':1}", "{'input':['1','2,3'],'n':1}"}, {"{'prompt':[1,'x']}", NULL},
			{"{'input':[[1],'x']}", NULL}, {"{'input':[[1],[]]}", NULL}, {"{'prompt':[]}", NULL},
			{"{'prompt':[01]}", NULL}, {"{'prompt':[1.5]}", NULL}, {"{'prompt':[1e2]}", NULL},
			{"{'prompt':[1,]}", NULL}, {"{'prompt':[1111111111]}", NULL},
			{"{'prompt':[-1]}", "{'prompt':'-1'}"},
			{"{'prompt':[1],'prompt':'1'}", NULL}, {"{'prompt':[1],'pr\\u006fmpt':'1'}", NULL},
			{"{'x':{'prompt':[1]}}", NULL}, {"{'x':'\\'','prompt':[1]}", "{'x':'\\'','prompt':'1'}"},
			{"{'prompt':[1]", NULL}, {"{'prompt':[1", NULL}, {"[1]", NULL}, {"{'x':'", NULL}, {"", NULL}};
	static const char spaces[] = " { 'x' : [1] , 'input' : ' 1 , 2 ' } ";
	(void)state;

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char text[100] = "", want[100] = "";
		snprintf(text, sizeof text, "%s", t[i].from);
		snprintf(want, sizeof want, "%s", t[i].to ? t[i].to : i == 1 ? spaces : t[i].from);
		for (size_t k = 0; k < sizeof text; k++) {
			text[k] = text[k] == '\'' ? '"' : text[k];
			want[k] = want[k] == '\'' ? '"' : want[k];
		}
		const unsigned packed = openai_ids_pack(text, strlen(text));
		assert_string_equal(text, want);
		assert_int_equal(packed != 0, t[i].to || i == 1);
	}
	for (int bad = 0; bad < 3; bad++) {
		char text[] = "{'input':[[1,20, 300],[7],[8191,0]]}";
		struct openai_request r;
		struct openai_error e;
		for (char *p = text; *p; p++)
			*p = *p == '\'' ? '"' : *p;
		if (bad)
			memcpy(strchr(text, '8'), bad == 1 ? "8192" : "  -1", 4);
		const unsigned packed = openai_ids_pack(text, strlen(text));
		json_t *body = json_loads(text, 0, NULL);
		assert_true(body && openai_ids_mark(body, packed) && openai_ids_packed(body, "input"));
		assert_false(openai_ids_packed(body, "prompt"));
		const bool ok = openai_request_parse(&oa_host, OPENAI_EMBEDDINGS, body, &r, &e);
		json_decref(body);
		assert_int_equal(ok, !bad);
		if (bad) {
			assert_string_equal(e.param, "input[2][0]");
			continue;
		}
		assert_int_equal(r.n_prompts, 3);
		assert_memory_equal(r.tokens, ((cohort_token[]){1, 20, 300, 7, 8191, 0}), 6 * sizeof *r.tokens);
		assert_int_equal(r.prompts[2].n, 2);
		openai_request_release(&oa_host, &r);
	}
}

/* One grammar for all requests that have the same; more than there are places for are no failure. */
static void equal_grammars_are_shared(void **state)
{
	struct openai_request r[OPENAI_GRAMMARS + 4];
	struct openai_error e;
	char body[100];
	(void)state;

	for (int i = 0; i < OPENAI_GRAMMARS + 4; i++) {
		snprintf(body, sizeof body, "{'prompt':'x','grammar':'root ::= [a]{%d}'}", i + 1);
		assert_true(oa_parse(OPENAI_COMPLETIONS, body, &r[i], &e));
	}
	struct openai_request again = good(OPENAI_COMPLETIONS, "{'prompt':'x','grammar':'root ::= [a]{1}'}");
	assert_ptr_equal(again.grammar.g, r[0].grammar.g);
	openai_request_release(&oa_host, &again);
	for (int i = 0; i < OPENAI_GRAMMARS + 4; i++)
		openai_request_release(&oa_host, &r[i]);
	for (size_t k = 0; k < OPENAI_GRAMMARS; k++)
		assert_int_equal(oa_host.grammars[k].n_users, 0);
}

static void openai_routes_found(void **state)
{
	enum openai_route route;
	(void)state;
	assert_true(openai_route_find("/v1/embeddings", &route) && route == OPENAI_EMBEDDINGS);
	assert_false(openai_route_find("/v1/chat", &route));
	assert_false(openai_route_find("", &route));
}

int main(void)
{
	const struct CMUnitTest cases[] = {
			cmocka_unit_test(number_fields_arrive),
			cmocka_unit_test(fields_arrive),
			cmocka_unit_test(prompts_become_tokens),
			cmocka_unit_test(fields_beyond_their_ranges_are_refused),
			cmocka_unit_test(fields_take_the_ends_of_their_ranges),
			cmocka_unit_test(lists_take_as_many_as_documented),
			cmocka_unit_test(bodies_refused_by_field),
			cmocka_unit_test(long_lists_are_refused),
			cmocka_unit_test(openai_text_takes_any_bytes),
			cmocka_unit_test(token_lists),
			cmocka_unit_test(equal_grammars_are_shared),
			cmocka_unit_test(openai_routes_found),
			cmocka_unit_test(request_parse_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("openai", cases, oa_open, oa_close);
}
