/* A model's way to write conversations.
 *
 * 1. A prompt is the rendered text and nothing else: tokens of it that are known (of the model's own answers, mostly)
 *    stay, the rest is tokenised.
 * 2. There is one begin token in front, whether the template writes it or the tokeniser adds it.
 *
 * 3. A template gets what the server gives it: the variables of every chat, and no system prompt if it takes none.
 *
 * What ends an answer is found by looking at what the template writes behind one; it does not know template names. */
#include "chat_format.h"

#include "common.h"
#include "template_named.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- What ends an answer ---- */

static bool space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct chat_piece trim_end(const char *text)
{
	struct chat_piece p = {text, strlen(text)};
	while (p.n_bytes > 0 && space(p.text[p.n_bytes - 1]))
		p.n_bytes--;
	return p;
}

int32_t chat_format_stops(const char *after, const char *between, struct chat_piece *stops)
{
	int32_t n = 0;
	const size_t n_after = strlen(after);

	stops[n] = trim_end(after);
	if (stops[n].n_bytes > 0) {
		n++;
		if (strncmp(between, after, n_after) == 0)
			between += n_after;
	}
	stops[n] = trim_end(between);
	if (stops[n].n_bytes > 0 &&
			(n == 0 || stops[0].n_bytes != stops[n].n_bytes ||
					memcmp(stops[0].text, stops[n].text, stops[n].n_bytes) != 0))
		n++;
	return n;
}

static enum cohort_status render(const struct chat_format *f, const char *messages, bool prompt, char **text, size_t *n,
		struct cohort_err *err)
{
	struct cohort_template_params p;

	cohort_template_params_init(&p);
	p.messages = messages;
	p.bos_token = f->bos;
	p.eos_token = f->eos;
	p.extra = f->variables;
	p.now = *f->now ? f->now : NULL;
	p.add_generation_prompt = prompt;
	return cohort_template_render(f->template, &p, text, n, err);
}

/* Says what the stop means to the engine: a text, and if it begins with a control token, which texts do not show, that
 * token. Tokens that end texts anyway need not be named. */
static bool add_stop(struct chat_format *f, struct chat_piece piece)
{
	cohort_token tokens[COHORT_STOP_BYTES_MAX + 8];
	size_t n = 0, n_shown = 0;
	char *text = mem_strndup(piece.text, piece.n_bytes);

	if (!text)
		return false;
	f->stops[f->n_stops++] = text;
	if (!cohort_tokenize(f->model, text, piece.n_bytes, COHORT_TOKENIZE_SPECIAL | COHORT_TOKENIZE_NO_BOS, tokens,
			    sizeof tokens / sizeof *tokens, &n, NULL) &&
			n > 0 && cohort_token_bytes(f->model, tokens[0], false, &n_shown) && n_shown == 0 &&
			!cohort_token_is_eog(f->model, tokens[0]))
		f->stop_tokens[f->n_stop_tokens++] = tokens[0];
	return true;
}

#define ANSWER "cohortanswer"
#define NEXT "cohortnext"

static int find_stops(struct chat_format *f)
{
	static const char talk[] = "[{\"role\":\"user\",\"content\":\"Hello\"},"
				   "{\"role\":\"assistant\",\"content\":\"" ANSWER "\"}]";
	static const char more[] = "[{\"role\":\"user\",\"content\":\"Hello\"},"
				   "{\"role\":\"assistant\",\"content\":\"" ANSWER "\"},"
				   "{\"role\":\"user\",\"content\":\"" NEXT "\"}]";
	struct chat_piece stops[CHAT_STOPS_MAX];
	char *one = NULL, *two = NULL, *end = NULL, *next = NULL;
	size_t n;
	int rc = 0;

	/* A template that does not like these conversations says nothing about ends. */
	if (!render(f, talk, false, &one, &n, NULL) && !render(f, more, false, &two, &n, NULL) &&
			(end = strstr(one, ANSWER)) && (next = strstr(two, ANSWER))) {
		char *after = next + strlen(ANSWER), *to = strstr(after, NEXT);
		if (to)
			*to = '\0';
		const int32_t n_stops = chat_format_stops(end + strlen(ANSWER), after, stops);
		for (int32_t i = 0; i < n_stops && !rc; i++)
			if (stops[i].n_bytes <= COHORT_STOP_BYTES_MAX && !add_stop(f, stops[i]))
				rc = out_of_memory(f->prog);
	}
	cohort_template_text_free(one);
	cohort_template_text_free(two);
	return rc;
}

/* ---- */

static bool token_text(const struct cohort_model *model, cohort_token t, char **out)
{
	size_t n = 0;
	const char *bytes = t >= 0 ? cohort_token_bytes(model, t, true, &n) : NULL;

	if (bytes)
		*out = mem_strndup(bytes, n);
	return !bytes || *out;
}

/* A value as a text, freed with mem_free; the value is given away. NULL: out of memory. */
static char *text_of(json_t *v)
{
	const size_t n = v ? json_dumpb(v, NULL, 0, JSON_COMPACT) : 0;
	char *out = n > 0 ? mem_alloc(n + 1, 1) : NULL;

	if (out && json_dumpb(v, out, n, JSON_COMPACT) != n) { /* jansson needs memory for it, both times */
		mem_free(out);
		out = NULL;
	}
	if (out)
		out[n] = '\0';
	json_decref(v);
	return out;
}

/* Finds out what the template takes, and what it gets. False: out of memory. */
static bool prepare(struct chat_format *f)
{
	bool ok = true;

	f->no_system = !template_takes_system(f->template, f->bos, f->eos, &ok);
	f->variables = text_of(template_variables(NULL, f->now));
	return ok && f->variables;
}

int chat_format_open(struct chat_format *f, const char *prog, const struct cohort_model *model, const char *path,
		const char *choice)
{
	struct cohort_err err;
	cohort_token first[16];
	char *text = NULL;
	size_t n = 0;

	*f = (struct chat_format){.prog = prog, .model = model};
	int rc = template_find(prog, path, choice, &text, &n);
	if (!rc && !text) {
		fprintf(stderr,
				"%s: the model has no chat template, so it does not say how conversations are written; "
				"give one with -chat-template FILE or -chat-template NAME (" TEMPLATE_NAMES
				"), or continue texts with 'cohort run'\n",
				prog);
		rc = EXIT_MODEL;
	}
	if (!rc &&
			(!token_text(model, cohort_token_bos(model), &f->bos) ||
					!token_text(model, cohort_token_eos(model), &f->eos)))
		rc = out_of_memory(prog);
	if (!rc && cohort_template_open(text, n, &f->template, &err)) {
		err_prefix(&err, "the chat template");
		fail(prog, &err);
		rc = err.status == COHORT_E_MEMORY ? EXIT_RUN : choice ? EXIT_FILE
								       : EXIT_MODEL;
	}
	mem_free(text);
	if (rc)
		return rc;
	if (!prepare(f))
		return out_of_memory(prog);
	f->adds_bos = !cohort_tokenize(model, "a", 1, 0, first, sizeof first / sizeof *first, &n, NULL) && n > 0 &&
			first[0] == cohort_token_bos(model);
	return find_stops(f);
}

void chat_format_release(struct chat_format *f)
{
	for (int32_t i = 0; i < f->n_stops; i++)
		mem_free(f->stops[i]);
	cohort_template_free(f->template);
	mem_free(f->bos);
	mem_free(f->eos);
	mem_free(f->variables);
	f->template = NULL;
	f->bos = f->eos = f->variables = NULL;
	f->n_stops = 0;
}

/* Whether a text can be tokenised apart from what stands before it: a control token begins it, and parts texts anyway.
 */
static bool parts(const struct chat_format *f, const char *text, size_t n_text, cohort_token first)
{
	size_t n_shown = 0, n = 0;
	const char *own = cohort_token_bytes(f->model, first, true, &n);

	return own && n > 0 && n <= n_text && memcmp(own, text, n) == 0 &&
			cohort_token_bytes(f->model, first, false, &n_shown) && n_shown == 0;
}

static enum cohort_status tokens_of(const struct chat_format *f, const char *text, size_t n_text, cohort_token **out,
		size_t *n_out, struct cohort_err *err)
{
	const size_t n_bos = f->bos ? strlen(f->bos) : 0, room = cohort_tokenize_bound(n_text) + 1;
	const bool written = n_bos > 0 && n_text >= n_bos && memcmp(text, f->bos, n_bos) == 0;
	const size_t add = f->adds_bos && !written;

	*out = mem_alloc(room, sizeof **out);
	if (!*out)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	const enum cohort_status st = cohort_tokenize(f->model, text, n_text,
			COHORT_TOKENIZE_SPECIAL | COHORT_TOKENIZE_NO_BOS, *out + add, room - add, n_out, err);
	if (add)
		(*out)[0] = cohort_token_bos(f->model);
	*n_out += add;
	return st;
}

/* The same by what is known of its beginning. *n_out is 0 if it is of no use. */
static enum cohort_status tokens_behind(const struct chat_format *f, const struct chat_memory *memory, const char *text,
		size_t n_text, cohort_token **out, size_t *n_out, struct cohort_err *err)
{
	const struct chat_mark known = chat_memory_find(memory, text, n_text);
	const char *rest = text + known.n_text;
	const size_t n_rest = n_text - known.n_text, room = cohort_tokenize_bound(n_rest);
	size_t n = 0;

	if (known.n_tokens == 0)
		return COHORT_OK;
	*out = mem_alloc(known.n_tokens + room, sizeof **out);
	if (!*out)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	memcpy(*out, memory->tokens, known.n_tokens * sizeof **out);
	if (n_rest > 0) {
		const enum cohort_status st = cohort_tokenize(f->model, rest, n_rest,
				COHORT_TOKENIZE_SPECIAL | COHORT_TOKENIZE_NO_BOS, *out + known.n_tokens, room, &n, err);
		if (st)
			return st;
		if (n == 0 || !parts(f, rest, n_rest, (*out)[known.n_tokens])) {
			mem_free(*out);
			*out = NULL;
			return COHORT_OK;
		}
	}
	*n_out = known.n_tokens + n;
	return COHORT_OK;
}

/* Messages with the system prompt in the first one of the user. NULL: out of memory. */
static char *merged(const char *messages)
{
	bool no_memory;
	json_error_t e;
	json_t *v = json_parse(messages, strlen(messages), 0, &e, &no_memory);

	if (v && !template_merge_system(v)) {
		json_decref(v);
		v = NULL;
	}
	return text_of(v);
}

int chat_format_tokens(const struct chat_format *f, const char *messages, const struct chat_memory *memory,
		struct chat_prompt *out)
{
	struct cohort_err err;
	char *text = NULL, *without = f->no_system ? merged(messages) : NULL;
	size_t n = 0;
	int rc = 0;

	*out = (struct chat_prompt){.text = NULL};
	if (f->no_system && !without)
		return out_of_memory(f->prog);
	enum cohort_status st = render(f, without ? without : messages, true, &text, &n, &err);
	mem_free(without);
	if (st) {
		err_prefix(&err, "the chat template refuses this conversation");
		fail(f->prog, &err);
		return EXIT_RUN;
	}
	st = tokens_behind(f, memory, text, n, &out->tokens, &out->n_tokens, &err);
	if (!st && out->n_tokens == 0)
		st = tokens_of(f, text, n, &out->tokens, &out->n_tokens, &err);
	out->text = mem_strndup(text, n);
	out->n_text = n;
	cohort_template_text_free(text);
	if (st)
		rc = fail(f->prog, &err);
	else if (!out->text)
		rc = out_of_memory(f->prog);
	else if (out->n_tokens == 0) {
		fprintf(stderr, "%s: the chat template makes no text of this conversation\n", f->prog);
		rc = EXIT_RUN;
	}
	if (rc)
		chat_prompt_release(out);
	return rc;
}

void chat_prompt_release(struct chat_prompt *p)
{
	mem_free(p->text);
	mem_free(p->tokens);
	*p = (struct chat_prompt){.text = NULL};
}
