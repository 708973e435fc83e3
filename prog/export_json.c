/* JSON, as one document or as lines.
 *
 * What holds:
 *  1. The document is valid JSON and UTF-8 whatever bytes prompts, texts, names and paths have. Where a byte had to be
 *     replaced by U+FFFD, a second field with _base64 behind its name has the true bytes.
 *  2. Numbers read back as the same numbers (seeds as whole numbers of 64 bits); one that is not finite is null.
 *  3. Lines have the same objects as the document: one of the type "run", then of each prompt one of the type "prompt"
 *     and its sequences. */
#include "export_format.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Values ---- */

static void put_string(struct sink *o, const char *s, size_t n)
{
	uint32_t cp;

	sink_text(o, "\"");
	for (size_t at = 0, len; at < n; at += len ? len : 1) {
		len = utf8_decode(s + at, n - at, &cp);
		if (len == 0)
			sink_text(o, "\xef\xbf\xbd");
		else if (cp == '"' || cp == '\\')
			sink_printf(o, "\\%c", (char)cp);
		else if (cp == '\n')
			sink_text(o, "\\n");
		/* The last two are line ends to those who paste JSON into a script. */
		else if (cp < 32 || cp == 127 || cp == 0x2028 || cp == 0x2029)
			sink_printf(o, "\\u%04x", (unsigned)cp);
		else
			sink_put(o, s + at, len);
	}
	sink_text(o, "\"");
}

/* A name as it is in options, with a _ for each dash. */
static void put_name(struct sink *o, const char *name)
{
	for (; *name; name++)
		sink_put(o, *name == '-' ? "_" : name, 1);
}

/* "key": "text", and the bytes if they cannot be in it. */
static void put_text(struct sink *o, const char *key, const char *s, size_t n)
{
	sink_text(o, "\"");
	put_name(o, key);
	sink_text(o, "\":");
	put_string(o, s, n);
	if (utf8_valid_prefix(s, n) == n)
		return;
	sink_text(o, ",\"");
	put_name(o, key);
	sink_text(o, "_base64\":\"");
	sink_base64(o, s, n);
	sink_text(o, "\"");
}

static void put_real(struct sink *o, double x)
{
	char number[32];

	sink_text(o, isfinite(x) ? export_real(number, x) : "null");
}

static void put_fact(struct sink *o, const struct fact *f)
{
	if (f->type == FACT_TEXT) {
		put_text(o, f->name, f->v.text, strlen(f->v.text));
		return;
	}
	sink_text(o, "\"");
	put_name(o, f->name);
	sink_text(o, "\":");
	switch (f->type) {
	case FACT_NONE: sink_text(o, "null"); break;
	case FACT_REAL: put_real(o, f->v.real); break;
	case FACT_LIST:
		sink_text(o, "[");
		for (size_t i = 0; i < f->v.list->n; i++) {
			sink_text(o, i > 0 ? "," : "");
			put_string(o, f->v.list->items[i], strlen(f->v.list->items[i]));
		}
		sink_text(o, "]");
		break;
	default: export_fact(o, f); break;
	}
}

static void put_tokens(struct sink *o, const cohort_token *tokens, size_t n)
{
	sink_text(o, "[");
	for (size_t i = 0; i < n; i++)
		sink_printf(o, i > 0 ? ",%d" : "%d", tokens[i]);
	sink_text(o, "]");
}

/* ---- Objects; their braces are the caller's ---- */

static void put_run(struct report *e)
{
	struct sink *o = &e->out;
	const char *group = "";

	sink_printf(o, "\"program\":\"%s\",\"version\":\"%s\",\"interrupted\":%s", e->j->gen.prog, cohort_version(),
			e->interrupted ? "true" : "false");
	for (size_t i = 0; i < e->n_facts; i++) {
		if (strcmp(group, e->facts[i].group) != 0) {
			group = e->facts[i].group;
			sink_printf(o, "%s,\n\"%s\":{", i > 0 ? "}" : "", group);
		} else {
			sink_text(o, ",");
		}
		put_fact(o, &e->facts[i]);
	}
	sink_text(o, "}");
}

static void put_forks(struct sink *o, const struct compare *c)
{
	sink_text(o, "\"forks\":[");
	for (size_t k = 0; k < c->n_forks; k++) {
		const struct compare_fork *f = &c->forks[k];
		sink_printf(o, "%s{\"words\":%zu,\"branches\":[", k > 0 ? "," : "", f->depth);
		for (int32_t i = f->first, n; i < f->first + f->n; i += n) {
			n = compare_branch(c, f, i);
			for (int32_t m = 0; m < n; m++)
				sink_printf(o, "%s%d", m > 0 ? "," : i > f->first ? "],[" : "[", c->order[i + m]);
		}
		sink_text(o, "]]}");
	}
	sink_text(o, "]");
}

/* What is not the same in all runs, of this prompt's. */
static void put_settings(struct report *e)
{
	struct sink *o = &e->out;
	size_t n = 0;

	sink_text(o, ",\n\"settings\":{");
	for (size_t i = 0; i < e->n_facts; i++)
		if (e->differs[i]) {
			sink_text(o, n++ > 0 ? "," : "");
			put_fact(o, &e->own[i]);
		}
	sink_text(o, "}");
}

static void put_prompt(struct report *e, const struct compare *c)
{
	const struct gen_prompt *p = c->p;
	const size_t n = (size_t)c->n;
	struct sink *o = &e->out;

	put_text(o, "text", p->text, p->n_bytes);
	if (e->own)
		put_settings(e);
	sink_text(o, ",\"tokens\":");
	put_tokens(o, p->tokens, p->n_tokens);
	sink_printf(o, ",\n\"shared_words\":%zu,", c->shared);
	put_text(o, "shared_text", c->shared_bytes > 0 ? p->texts[0].bytes : "", c->shared_bytes);
	sink_text(o, ",");
	put_forks(o, c);
	sink_text(o, ",\n\"similarity\":");
	for (size_t i = 0; c->similarity && i < n * n; i++) {
		sink_text(o, i == 0 ? "[[" : i % n == 0 ? "],[" : ",");
		put_real(o, c->similarity[i]);
	}
	sink_text(o, c->similarity ? "]],\"likeliest\":" : "null,\"likeliest\":");
	if (c->best >= 0)
		sink_printf(o, "%d", c->best);
	else
		sink_text(o, "null");
}

static void put_sequence(struct sink *o, const struct compare *c, int32_t i)
{
	const struct gen_text *t = &c->p->texts[i];
	const struct compare_text *w = &c->texts[i];
	char number[32];

	put_text(o, "text", t->bytes ? t->bytes : "", t->n_bytes);
	sink_printf(o, ",\"finish\":\"%s\",\"cut\":%s,", export_finish(t), t->cut ? "true" : "false");
	if (t->error) {
		put_text(o, "error", t->error, strlen(t->error));
		sink_text(o, ",");
	}
	sink_text(o, "\"mean_logprob\":");
	put_real(o, t->n_tokens > 0 ? gen_mean_logprob(t) : (double)NAN);
	sink_text(o, ",\"perplexity\":");
	put_real(o, t->n_tokens > 0 ? gen_perplexity(t) : (double)NAN);
	sink_printf(o, ",\"words\":%zu,\"words_together\":%zu,\"together_with\":", w->n_words, w->together);
	if (w->with >= 0)
		sink_printf(o, "%d", w->with);
	else
		sink_text(o, "null");
	sink_text(o, ",\n\"tokens\":");
	put_tokens(o, t->tokens, t->n_tokens);
	sink_text(o, ",\"logprobs\":[");
	for (size_t k = 0; t->logprobs && k < t->n_tokens; k++) {
		sink_text(o, k > 0 ? "," : "");
		sink_text(o, isfinite(t->logprobs[k]) ? export_float(number, t->logprobs[k]) : "null");
	}
	sink_text(o, "]");
}

/* ---- The document ---- */

static void begin(struct report *e)
{
	sink_text(&e->out, "{");
	put_run(e);
	sink_text(&e->out, ",\n\"prompts\":[");
}

static void prompt(struct report *e, const struct compare *c)
{
	sink_printf(&e->out, "%s\n{\"index\":%zu,", c->p->index > 0 ? "," : "", c->p->index);
	put_prompt(e, c);
	sink_text(&e->out, ",\n\"sequences\":[");
	for (int32_t i = 0; i < c->n; i++) {
		sink_printf(&e->out, "%s\n{\"index\":%d,", i > 0 ? "," : "", i);
		put_sequence(&e->out, c, i);
		sink_text(&e->out, "}");
	}
	sink_text(&e->out, "]}");
}

static void end(struct report *e)
{
	sink_text(&e->out, "]}\n");
}

const struct export_format export_json = {"json", begin, prompt, end};

/* ---- Lines ---- */

/* What was added from `from` on becomes one line: line ends are only ever between values here. */
static void end_line(struct sink *o, size_t from)
{
	size_t to = from;

	for (size_t i = from; i < o->n; i++)
		if (o->bytes[i] != '\n')
			o->bytes[to++] = o->bytes[i];
	o->n = to;
	sink_text(o, "\n");
}

static void begin_lines(struct report *e)
{
	sink_text(&e->out, "{\"type\":\"run\",");
	put_run(e);
	sink_text(&e->out, "}");
	end_line(&e->out, 0);
}

static void prompt_lines(struct report *e, const struct compare *c)
{
	struct sink *o = &e->out;
	size_t from = o->n;

	sink_printf(o, "{\"type\":\"prompt\",\"prompt\":%zu,", c->p->index);
	put_prompt(e, c);
	sink_text(o, "}");
	end_line(o, from);
	for (int32_t i = 0; i < c->n; i++) {
		from = o->n;
		sink_printf(o, "{\"type\":\"sequence\",\"prompt\":%zu,\"sequence\":%d,", c->p->index, i);
		put_sequence(o, c, i);
		sink_text(o, "}");
		end_line(o, from);
	}
}

static void end_lines(struct report *e)
{
	(void)e;
}

const struct export_format export_jsonl = {"jsonl", begin_lines, prompt_lines, end_lines};
