/* JSON that a schema describes, whatever the model would rather say.
 *
 * The schema becomes a grammar over the model's tokens; the sampler draws only from tokens that the grammar permits, so
 * the text is valid at every seed. The text ends when the grammar has nothing more to permit but the end.
 *
 * usage: grammar_json MODEL.gguf */
#include <cohort.h>

#include <stdio.h>

enum { N_PETS = 3, N_TOKENS = 200, PROMPT_MAX = 64 };

static const char schema[] = "{\"type\": \"object\", \"additionalProperties\": false,"
			     " \"required\": [\"name\", \"kind\", \"age\"],"
			     " \"properties\": {"
			     "  \"name\": {\"type\": \"string\", \"minLength\": 2, \"maxLength\": 12},"
			     "  \"kind\": {\"enum\": [\"cat\", \"dog\", \"bird\"]},"
			     "  \"age\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 20}}}";

/* One document, from an empty sequence. */
static enum cohort_status write_one(const struct cohort_model *model, struct cohort_context *ctx,
		struct cohort_sampler *sampler, struct cohort_err *err)
{
	static const char prompt[] = "Tell me about a pet.";
	cohort_token tokens[PROMPT_MAX], token;
	size_t n, n_bytes;
	enum cohort_status st = cohort_tokenize(model, prompt, sizeof prompt - 1, 0, tokens, PROMPT_MAX, &n, err);

	cohort_seq_clear(ctx);
	if (!st)
		st = cohort_decode_many(ctx, tokens, (int32_t)n, 0, 0, err);
	for (int i = 0; i < N_TOKENS && !st; i++) {
		st = cohort_sampler_sample(sampler, cohort_logits_get(ctx, -1, err), &token, err);
		if (st || cohort_token_is_eog(model, token))
			break;
		const char *bytes = cohort_token_bytes(model, token, false, &n_bytes);
		fwrite(bytes, 1, n_bytes, stdout);
		st = cohort_decode_one(ctx, token, (cohort_pos)n + i, 0, true, err);
	}
	printf("\n");
	if (!st && !cohort_sampler_is_complete(sampler))
		fprintf(stderr, "grammar_json: cut after %d tokens\n", N_TOKENS);
	return st;
}

static enum cohort_status write_all(const struct cohort_model *model, struct cohort_context *ctx,
		struct cohort_grammar *grammar, struct cohort_err *err)
{
	struct cohort_sampler_params params;
	struct cohort_model_info info;
	enum cohort_status st = COHORT_OK;

	cohort_model_info_get(model, &info);
	for (int i = 0; i < N_PETS && !st; i++) {
		struct cohort_sampler *sampler = NULL;
		cohort_sampler_params_init(&params);
		params.grammar = grammar;
		params.seed = (uint64_t)i;
		st = cohort_sampler_open(&params, info.n_vocab, &sampler, err);
		if (!st)
			st = write_one(model, ctx, sampler, err);
		cohort_sampler_free(sampler);
	}
	return st;
}

int main(int argc, char **argv)
{
	struct cohort_lexicon *lexicon = NULL;
	struct cohort_grammar *grammar = NULL;
	struct cohort_context *ctx = NULL;
	struct cohort_model *model = NULL;
	struct cohort_err err;
	enum cohort_status st;

	if (argc != 2) {
		fprintf(stderr, "usage: grammar_json MODEL.gguf\n");
		return 2;
	}
	st = cohort_model_open(argv[1], NULL, &model, &err);
	if (!st)
		st = cohort_context_open(model, NULL, &ctx, &err);
	if (!st)
		st = cohort_lexicon_open(model, &lexicon, &err);
	if (!st)
		st = cohort_grammar_open_schema(lexicon, schema, sizeof schema - 1, &grammar, &err);
	if (!st)
		st = write_all(model, ctx, grammar, &err);
	if (st)
		fprintf(stderr, "grammar_json: %s\n", err.text);
	cohort_grammar_free(grammar);
	cohort_lexicon_free(lexicon);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return st ? 1 : 0;
}
