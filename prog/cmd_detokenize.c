/* cohort detokenize: the bytes of tokens, the way back from `cohort tokenize`.
 *
 * What holds: standard output gets the bytes of the text and nothing else (a newline only after each text of -lines,
 * and on a terminal). */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "out.h"
#include "tokens.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "cohort detokenize";

enum { OPERANDS_MAX = 65536 };

static int print_text(struct out *o, const struct cohort_model *m, const struct id_list *list, bool special)
{
	static const cohort_token none[1];
	const cohort_token *ids = list->ids ? list->ids : none;
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0;
	enum cohort_status st = cohort_detokenize(m, ids, list->n, special, NULL, 0, &n, &err);

	if (st == COHORT_E_LIMIT) {
		text = mem_alloc(n, 1);
		if (!text)
			return out_of_memory(prog);
		st = cohort_detokenize(m, ids, list->n, special, text, n, &n, &err);
	}
	if (!st && text)
		out_bytes(o, text, n);
	mem_free(text);
	return st ? fail(prog, &err) : 0;
}

static int from_file(struct out *o, const struct cohort_model *m, int32_t n_vocab, const char *file, bool lines,
		bool special, struct id_list *list)
{
	const char *where = strcmp(file, "-") == 0 ? "standard input" : file;
	struct cohort_err err;
	struct text_line line;
	char *text = NULL;
	size_t n = 0, at = 0;
	int rc = 0;

	if (file_read(file, (size_t)1 << 30, &text, &n, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	if (!lines) {
		rc = parse_ids(prog, n_vocab, where, text, n, 0, list);
		if (!rc)
			rc = print_text(o, m, list, special);
	}
	while (!rc && !o->rc && lines && next_line(text, n, &at, &line)) {
		list->n = 0;
		rc = parse_ids(prog, n_vocab, where, line.text, line.n_bytes, (size_t)(line.text - text), list);
		if (!rc)
			rc = print_text(o, m, list, special);
		out_bytes(o, "\n", 1);
	}
	mem_free(text);
	return rc;
}

static int run(const struct cohort_model *m, const char **ids, size_t n_ids, const char *file, bool lines, bool special)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct id_list list = {0};
	static struct out o;
	int rc = need_tokenizer(prog, m);

	cohort_model_info_get(m, &info);
	if (!rc)
		rc = out_open(&o, prog, NULL);
	if (rc)
		return rc;
	if (n_ids == 0)
		rc = from_file(&o, m, info.n_vocab, file ? file : "-", lines, special, &list);
	for (size_t i = 0; i < n_ids && !rc; i++) {
		char where[32];
		snprintf(where, sizeof where, "argument %zu", i + 1);
		if (lines)
			list.n = 0;
		rc = parse_ids(prog, info.n_vocab, where, ids[i], strlen(ids[i]), 0, &list);
		rc = rc == EXIT_FILE ? EXIT_USAGE : rc;
		if (!rc && (lines || i == n_ids - 1))
			rc = print_text(&o, m, &list, special);
		if (!rc && lines)
			out_bytes(&o, "\n", 1);
	}
	if (!rc && !lines && isatty(STDOUT_FILENO))
		out_bytes(&o, "\n", 1);
	mem_free(list.ids);
	return out_close(&o, rc);
}

int cmd_detokenize(int argc, char **argv)
{
	static const char *ids[OPERANDS_MAX];
	const char *model = NULL, *file = NULL;
	bool special = false, lines = false;
	size_t n_ids = 0;
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &model, 0, 0, "FILE.gguf",
					"GGUF model or vocabulary (default: the built-in model)", NULL},
			{"file", "f", OPT_STR, &file, 0, 0, "FILE",
					"ids to read; - is standard input (the default without operands)", NULL},
			{"lines", NULL, OPT_FLAG, &lines, 0, 0, NULL,
					"each line (or argument) is a text of its own, printed with a newline", NULL},
			{"special", NULL, OPT_FLAG, &special, 0, 0, NULL,
					"control tokens as their text (default: as nothing)", NULL},
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] [ID ... | -f FILE] [options]",
			"Prints the text of token ids, byte for byte. Ids are separated by white space, commas or\n"
			"brackets, so that what 'cohort tokenize' prints is read, also with -json.",
			"  cohort detokenize 1 911 630 264 493\n"
			"  cohort tokenize \"Once upon a time\" | cohort detokenize\n"
			"  cohort tokenize -json \"Once upon a time\" | cohort detokenize -special\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, ids, OPERANDS_MAX, &n_ids);
	if (rc)
		return rc - 1;
	if (n_ids > 0 && file)
		return bad_usage(prog, "give ids or -f FILE, not both");
	struct cohort_model_params mp;
	struct cohort_model *m = NULL;
	cohort_model_params_init(&mp);
	mp.vocab_only = true;
	rc = load_model(prog, model, &mp, &m);
	if (!rc)
		rc = run(m, ids, n_ids, file, lines, special);
	cohort_model_free(m);
	return rc;
}
