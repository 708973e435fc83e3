/* Formats of conversations under the names that llama.cpp has for them, for models that do not say how they were
 * trained. None writes a begin token: the model's own rule puts it in front. */
#include "template_named.h"

#include "common.h"

#include "base/map.h"
#include "base/mem.h"

#include "cohort_tools.h"

#include <stdio.h>
#include <string.h>

enum { TEMPLATE_BYTES_MAX = 4 << 20 };

/* What a system message says is kept in s.system and written by the next user message. */
#define KEEP_SYSTEM \
	"{% set s = namespace(system='') %}{% for m in messages %}" \
	"{% if m['role'] == 'system' %}{% set s.system = m['content'] %}{% continue %}{% endif %}"

static const char chatml[] =
		"{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char gemma[] = KEEP_SYSTEM
		"<start_of_turn>{{ 'model' if m['role'] == 'assistant' else 'user' }}\n"
		"{% if s.system and m['role'] == 'user' %}{{ s.system | trim }}\n\n{% set s.system = '' %}{% endif %}"
		"{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
		"{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";
static const char llama2[] = KEEP_SYSTEM
		"{% if m['role'] == 'assistant' %} {{ m['content'] | trim }} {{ eos_token }}{% else %}"
		"{% if not loop.first and messages[loop.index0 - 1]['role'] != 'system' %}{{ bos_token }}{% endif %}"
		"[INST] {% if s.system %}<<SYS>>\n{{ s.system }}\n<</SYS>>\n\n{% set s.system = '' %}{% endif %}"
		"{{ m['content'] | trim }} [/INST]{% endif %}{% endfor %}";
static const char llama3[] =
		"{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
		"{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
		"{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}";
static const char phi3[] =
		"{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
		"{% if add_generation_prompt %}<|assistant|>\n{% endif %}";
static const char plain[] =
		"{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] }}\n\n"
		"{% elif m['role'] == 'user' %}User: {{ m['content'] }}\n"
		"{% else %}Assistant: {{ m['content'] }}\n{% endif %}{% endfor %}"
		"{% if add_generation_prompt %}Assistant:{% endif %}";
static const char vicuna[] =
		"{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] }}\n\n"
		"{% elif m['role'] == 'user' %}USER: {{ m['content'] }}\n"
		"{% else %}ASSISTANT: {{ m['content'] }}{{ eos_token }}\n{% endif %}{% endfor %}"
		"{% if add_generation_prompt %}ASSISTANT:{% endif %}";
static const char zephyr[] =
		"{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}{{ eos_token }}\n{% endfor %}"
		"{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

static const struct {
	const char *name, *source;
} known[] = {{"chatml", chatml}, {"gemma", gemma}, {"llama2", llama2}, {"llama3", llama3}, {"phi3", phi3},
		{"plain", plain}, {"vicuna", vicuna}, {"zephyr", zephyr}};

const char *template_named(const char *name)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i].name) == 0)
			return known[i].source;
	return NULL;
}

static int take(const char *prog, const char *bytes, size_t n_bytes, char **text, size_t *n)
{
	*text = mem_strndup(bytes, n_bytes);
	*n = n_bytes;
	return *text ? 0 : out_of_memory(prog);
}

/* The text of a key of the model's file; *text stays NULL if there is none. */
static int from_model(const char *prog, const char *model, const char *name, char **text, size_t *n)
{
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_kv kv;
	struct cohort_err err;
	char key[256] = "tokenizer.chat_template";
	int rc = 0;

	if (!model && !(model = builtin_model(prog)))
		return EXIT_MODEL;
	if (cohort_gguf_open(model, &g, &err)) {
		fprintf(stderr, "%s: cannot use the model %s\n", prog, err.text);
		return EXIT_MODEL;
	}
	if (name)
		snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
	if (cohort_gguf_kv_find(g, key, &kv) && kv.value.type == COHORT_GGUF_STRING)
		rc = take(prog, kv.value.str, kv.value.n_str, text, n);
	cohort_gguf_free(g);
	return rc;
}

int template_find(const char *prog, const char *model, const char *choice, char **text, size_t *n)
{
	const char *source = choice ? template_named(choice) : NULL;
	struct cohort_err err;

	*text = NULL;
	*n = 0;
	if (source)
		return take(prog, source, strlen(source), text, n);
	const int rc = from_model(prog, model, choice, text, n);
	if (rc || *text || !choice)
		return rc;
	if (!file_read(choice, TEMPLATE_BYTES_MAX, text, n, &err))
		return 0;
	fail(prog, &err);
	fprintf(stderr, "%s: -chat-template is a file, one of %s, or one of the model's named templates\n", prog,
			TEMPLATE_NAMES);
	return err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
}
