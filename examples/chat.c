/* A conversation: each line of standard input is a message, answered by the model's own chat template.
 *
 * A turn renders the whole conversation as text and tokens. What the cache holds of them already is kept: only what
 * comes behind the tokens they have in common is computed. The last line says how much that was.
 *
 * usage: chat MODEL.gguf < MESSAGES */
#include <cohort_tools.h>

#include <stdio.h>
#include <string.h>

enum { MESSAGES_MAX = 64 << 10, ANSWER_MAX = 4 << 10, LINE_MAX_BYTES = 1024, N_ANSWER = 60, N_CTX = 1024 };

struct chat {
	struct cohort_template *template;
	const struct cohort_model *model;
	struct cohort_context *ctx;
	struct cohort_sampler *sampler;
	char messages[MESSAGES_MAX]; /* the conversation: a JSON array without its end */
	size_t n_messages;
	cohort_token held[N_CTX]; /* tokens that the cache holds */
	int32_t n_held;
	int32_t n_reused, n_computed; /* tokens of all prompts */
};

/* Adds a message. Text within JSON: quotes, backslashes and control characters are escaped. */
static bool say(struct chat *c, const char *role, const char *text)
{
	const size_t n_most = strlen(text) * 6 + 64;
	char *p = c->messages + c->n_messages;

	if (n_most > MESSAGES_MAX - c->n_messages)
		return false;
	p += sprintf(p, "%s{\"role\": \"%s\", \"content\": \"", c->n_messages > 1 ? ", " : "", role);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			p += sprintf(p, "\\%c", *text);
		else if ((unsigned char)*text < 32)
			p += sprintf(p, "\\u%04x", (unsigned)*text);
		else
			*p++ = *text;
	}
	p += sprintf(p, "\"}");
	c->n_messages = (size_t)(p - c->messages);
	return true;
}

/* The conversation as tokens, with the opening of an answer behind it. */
static enum cohort_status render(struct chat *c, cohort_token *tokens, int32_t *n_tokens, struct cohort_err *err)
{
	char json[MESSAGES_MAX + 2], *text;
	struct cohort_template_params p;
	size_t n_text, n;
	enum cohort_status st;

	snprintf(json, sizeof json, "%s]", c->messages);
	cohort_template_params_init(&p);
	p.messages = json;
	/* The tokeniser puts the begin token in front; a template that writes it gets an empty text. */
	p.bos_token = p.eos_token = "";
	st = cohort_template_render(c->template, &p, &text, &n_text, err);
	if (st)
		return st;
	st = cohort_tokenize(c->model, text, n_text, COHORT_TOKENIZE_SPECIAL, tokens, N_CTX - N_ANSWER, &n, err);
	cohort_template_text_free(text);
	*n_tokens = st ? 0 : (int32_t)n;
	return st;
}

/* Makes the cache hold exactly these tokens; computes those it has not. */
static enum cohort_status prefill(struct chat *c, const cohort_token *tokens, int32_t n, struct cohort_err *err)
{
	enum cohort_status st;
	int32_t n_same = 0;

	/* The last one is computed in any case: its logits are wanted. */
	while (n_same < n - 1 && n_same < c->n_held && tokens[n_same] == c->held[n_same])
		n_same++;
	st = cohort_seq_rm(c->ctx, 0, n_same, -1, err);
	if (!st)
		st = cohort_decode_many(c->ctx, tokens + n_same, n - n_same, n_same, 0, err);
	if (st)
		return st;
	memcpy(c->held, tokens, (size_t)n * sizeof *tokens);
	c->n_held = n;
	c->n_reused += n_same;
	c->n_computed += n - n_same;
	return COHORT_OK;
}

static enum cohort_status answer(struct chat *c, struct cohort_err *err)
{
	cohort_token tokens[N_CTX], token;
	char text[ANSWER_MAX];
	size_t n_text = 0, n_bytes;
	int32_t n;
	enum cohort_status st = render(c, tokens, &n, err);

	if (!st)
		st = prefill(c, tokens, n, err);
	for (int i = 0; i < N_ANSWER && !st; i++) {
		st = cohort_sampler_sample(c->sampler, cohort_logits_get(c->ctx, -1, err), &token, err);
		if (st || cohort_token_is_eog(c->model, token))
			break;
		const char *bytes = cohort_token_bytes(c->model, token, false, &n_bytes);
		if (n_bytes >= sizeof text - n_text)
			break;
		memcpy(text + n_text, bytes, n_bytes);
		n_text += n_bytes;
		st = cohort_decode_one(c->ctx, token, c->n_held, 0, true, err);
		if (!st)
			c->held[c->n_held++] = token;
	}
	text[n_text] = 0;
	printf("%s\n", text);
	if (!st && !say(c, "assistant", text))
		fprintf(stderr, "chat: the conversation is too long\n");
	return st;
}

static enum cohort_status open_all(
		struct chat *c, const char *path, struct cohort_model **model, struct cohort_err *err)
{
	struct cohort_context_params cp;
	struct cohort_sampler_params sp;
	struct cohort_model_info info;
	struct cohort_gguf *file = NULL;
	struct cohort_gguf_kv kv;
	enum cohort_status st = cohort_model_open(path, NULL, model, err);

	if (!st)
		st = cohort_gguf_open(path, &file, err);
	if (st)
		return st;
	if (cohort_gguf_kv_find(file, "tokenizer.chat_template", &kv)) {
		st = cohort_template_open(kv.value.str, kv.value.n_str, &c->template, err);
	} else {
		st = COHORT_E_UNSUPPORTED;
		snprintf(err->text, sizeof err->text, "%s has no chat template", path);
	}
	cohort_gguf_free(file);
	c->model = *model;
	cohort_model_info_get(*model, &info);
	cohort_context_params_init(&cp);
	cp.n_ctx = N_CTX;
	cohort_sampler_params_init(&sp);
	if (!st)
		st = cohort_context_open(*model, &cp, &c->ctx, err);
	if (!st)
		st = cohort_sampler_open(&sp, info.n_vocab, &c->sampler, err);
	return st;
}

int main(int argc, char **argv)
{
	static struct chat c = {.messages = "[", .n_messages = 1};
	struct cohort_model *model = NULL;
	struct cohort_err err;
	char line[LINE_MAX_BYTES];
	enum cohort_status st;

	if (argc != 2) {
		fprintf(stderr, "usage: chat MODEL.gguf < MESSAGES\n");
		return 2;
	}
	st = open_all(&c, argv[1], &model, &err);
	while (!st && fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!say(&c, "user", line))
			break;
		st = answer(&c, &err);
	}
	if (st)
		fprintf(stderr, "chat: %s\n", err.text);
	else
		printf("%d tokens of prompts, %d of them computed\n", (int)(c.n_reused + c.n_computed),
				(int)c.n_computed);
	cohort_sampler_free(c.sampler);
	cohort_context_free(c.ctx);
	cohort_template_free(c.template);
	cohort_model_free(model);
	return st ? 1 : 0;
}
