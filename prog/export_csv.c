/* CSV by RFC 4180: a line for each sequence. Of the run's settings there are the few that files are told apart by, and
 * those that differ between lines: JSON has them all.
 *
 * What holds:
 *  1. Lines end with CR LF; every text is in quotes, with quotes doubled; numbers are bare. There are as many fields on
 *     each line as in the first, which has their names.
 *  2. No field of text can become a formula: one that begins with = + - @, their full-width forms, a tab, a line end or
 *     an apostrophe has an apostrophe put in front. Taking one away from texts that begin with one gives the text back.
 *     Lists are in brackets, as in JSON, and thus begin with nothing that counts.
 *  3. Fields are UTF-8 without NUL; where bytes had to be replaced, a field of its own has them all as base64. */
#include "export_format.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

static const char first_names[] =
		"prompt_index,sequence,prompt,text,finish,cut,tokens,mean_logprob,perplexity,likeliest,"
		"words,words_together,together_with,similarity,token_ids,token_logprobs,prompt_token_ids,"
		"prompt_base64,text_base64,interrupted,version";

static bool is_clean(const char *s, size_t n)
{
	return utf8_valid_prefix(s, n) == n && (n == 0 || !memchr(s, '\0', n));
}

static bool is_dangerous(const char *s, size_t n)
{
	static const char *const wide[] = {"\uff1d", "\uff0b", "\uff0d", "\uff20"};

	if (n > 0 && s[0] && strchr("=+-@'\t\r\n", s[0]))
		return true;
	for (size_t i = 0; i < 4 && n >= 3; i++)
		if (memcmp(s, wide[i], 3) == 0)
			return true;
	return false;
}

static void put_text(struct sink *o, const char *s, size_t n)
{
	uint32_t cp;

	sink_text(o, is_dangerous(s, n) ? "\"'" : "\"");
	for (size_t at = 0, len; at < n; at += len ? len : 1) {
		len = utf8_decode(s + at, n - at, &cp);
		if (len == 0 || cp == 0)
			sink_text(o, "\xef\xbf\xbd");
		else if (cp == '"')
			sink_text(o, "\"\"");
		else
			sink_put(o, s + at, len);
	}
	sink_text(o, "\"");
}

static void put_base64(struct sink *o, const char *s, size_t n)
{
	if (!is_clean(s, n))
		sink_base64(o, s, n);
}

static bool is_column(const struct report *e, size_t i)
{
	static const char *const always[][2] = {{"model", "name"}, {"sampling", "temperature"}, {"sampling", "seed"}};

	for (size_t k = 0; k < sizeof always / sizeof *always; k++)
		if (strcmp(e->facts[i].group, always[k][0]) == 0 && strcmp(e->facts[i].name, always[k][1]) == 0)
			return true;
	return e->differs && e->differs[i];
}

static void begin(struct report *e)
{
	sink_text(&e->out, first_names);
	for (size_t i = 0; i < e->n_facts; i++) {
		if (!is_column(e, i))
			continue;
		sink_printf(&e->out, ",%s_", e->facts[i].group);
		for (const char *c = e->facts[i].name; *c; c++)
			sink_put(&e->out, *c == '-' ? "_" : c, 1);
	}
	sink_text(&e->out, "\r\n");
}

static void put_facts(struct report *e)
{
	for (size_t i = 0; i < e->n_facts; i++) {
		const struct fact *f = e->own ? &e->own[i] : &e->facts[i];
		struct sink text = {.bytes = NULL};
		if (!is_column(e, i))
			continue;
		sink_text(&e->out, ",");
		if (f->type != FACT_TEXT && f->type != FACT_LIST) {
			export_fact(&e->out, f);
			continue;
		}
		export_fact(&text, f);
		put_text(&e->out, text.bytes ? text.bytes : "", text.n);
		e->out.failed = e->out.failed || text.failed;
		sink_release(&text);
	}
}

static void put_similarity(struct sink *o, const struct compare *c, int32_t i)
{
	char number[32];

	for (int32_t k = 0; c->similarity && k < c->n; k++) {
		sink_text(o, k > 0 ? "," : "\"[");
		sink_text(o, export_real(number, c->similarity[(size_t)i * (size_t)c->n + (size_t)k]));
	}
	sink_text(o, c->similarity ? "]\"" : "");
}

static void put_tokens(struct sink *o, const cohort_token *tokens, size_t n)
{
	sink_text(o, "\"[");
	for (size_t i = 0; i < n; i++)
		sink_printf(o, i > 0 ? ",%d" : "%d", tokens[i]);
	sink_text(o, "]\"");
}

static void put_logprobs(struct sink *o, const struct gen_text *t)
{
	char number[32];

	sink_text(o, "\"[");
	for (size_t i = 0; t->logprobs && i < t->n_tokens; i++) {
		sink_text(o, i > 0 ? "," : "");
		sink_text(o, isfinite(t->logprobs[i]) ? export_float(number, t->logprobs[i]) : "null");
	}
	sink_text(o, "]\"");
}

static void put_sequence(struct report *e, const struct compare *c, int32_t i)
{
	const struct gen_prompt *p = c->p;
	const struct gen_text *t = &p->texts[i];
	const struct compare_text *w = &c->texts[i];
	const char *text = t->bytes ? t->bytes : "";
	struct sink *o = &e->out;
	char number[32];

	sink_printf(o, "%zu,%d,", p->index, i);
	put_text(o, p->text, p->n_bytes);
	sink_text(o, ",");
	put_text(o, text, t->n_bytes);
	sink_printf(o, ",%s,%s,%zu,", export_finish(t), t->cut ? "true" : "false", t->n_tokens);
	/* A text without tokens has no likelihood. */
	sink_text(o, t->n_tokens > 0 ? export_real(number, gen_mean_logprob(t)) : "");
	sink_text(o, ",");
	sink_text(o, t->n_tokens > 0 ? export_real(number, gen_perplexity(t)) : "");
	sink_printf(o, ",%s,%zu,%zu,", i == c->best ? "true" : "false", w->n_words, w->together);
	if (w->with >= 0)
		sink_printf(o, "%d", w->with);
	sink_text(o, ",");
	put_similarity(o, c, i);
	sink_text(o, ",");
	put_tokens(o, t->tokens, t->n_tokens);
	sink_text(o, ",");
	put_logprobs(o, t);
	sink_text(o, ",");
	put_tokens(o, p->tokens, p->n_tokens);
	sink_text(o, ",");
	put_base64(o, p->text, p->n_bytes);
	sink_text(o, ",");
	put_base64(o, text, t->n_bytes);
	sink_printf(o, ",%s,%s", e->interrupted ? "true" : "false", cohort_version());
	put_facts(e);
	sink_text(o, "\r\n");
}

static void prompt(struct report *e, const struct compare *c)
{
	for (int32_t i = 0; i < c->n; i++)
		put_sequence(e, c, i);
}

static void end(struct report *e)
{
	(void)e;
}

const struct export_format export_csv = {"csv", begin, prompt, end};
