/* cohort tokenize: the ids of a text, or of each of its lines.
 *
 * What holds: the bytes of the text are all tokenised, and `cohort detokenize` gives them back. */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "out.h"
#include "tokens.h"

#include "base/map.h"
#include "base/mem.h"

#include <string.h>

static const char prog[] = "cohort tokenize";

enum format { F_IDS, F_JSON, F_PIECES, F_COUNT };
static const char *const formats[] = {"ids", "json", "pieces", "count"};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static void print_ids(struct out *o, const struct cohort_model *m, enum format f, const cohort_token *ids, size_t n)
{
	if (f == F_COUNT) {
		out_fmt(o, "%zu\n", n);
		return;
	}
	if (f == F_JSON)
		out_bytes(o, "[", 1);
	for (size_t i = 0; i < n; i++) {
		size_t n_piece = 0;
		const char *piece = f == F_PIECES ? cohort_token_bytes(m, ids[i], true, &n_piece) : NULL;
		if (f == F_PIECES) {
			out_fmt(o, "%d\t", ids[i]);
			out_json(o, piece ? piece : "", n_piece);
			out_bytes(o, "\n", 1);
		} else {
			out_fmt(o, "%s%s%d", i && f == F_JSON ? "," : "", i ? " " : "", ids[i]);
		}
	}
	if (f != F_PIECES)
		out_fmt(o, "%s\n", f == F_JSON ? "]" : "");
}

static int one(struct out *o, const struct cohort_model *m, enum format f, const char *text, size_t n_bytes,
		unsigned flags)
{
	cohort_token *ids = NULL;
	size_t n = 0;
	const int rc = text_tokens(prog, m, text, n_bytes, flags, &ids, &n);

	if (!rc)
		print_ids(o, m, f, ids, n);
	mem_free(ids);
	return rc;
}

static int run(const struct cohort_model *m, const char *file, const char *text, bool lines, enum format f,
		unsigned flags)
{
	struct cohort_err err;
	struct text_line line;
	struct out o;
	char *bytes = NULL;
	size_t n_bytes = 0, at = 0;

	if (text) {
		n_bytes = strlen(text);
	} else if (file_read(file, (size_t)1 << 29, &bytes, &n_bytes, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	const char *all = text ? text : bytes;
	int rc = out_open(&o, prog, NULL);
	if (!rc && !lines)
		rc = one(&o, m, f, all, n_bytes, flags);
	while (!rc && !o.rc && lines && next_line(all, n_bytes, &at, &line)) {
		rc = one(&o, m, f, line.text, line.n_bytes, flags);
		if (f == F_PIECES)
			out_bytes(&o, "\n", 1); /* an empty line parts the lists */
	}
	rc = out_close(&o, rc);
	mem_free(bytes);
	return rc;
}

int cmd_tokenize(int argc, char **argv)
{
	const char *model = NULL, *file = NULL, *format = NULL, *text[1] = {NULL};
	bool special = false, bos = false, no_bos = false, lines = false, json = false;
	size_t n_text = 0;
	int f = F_IDS;
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &model, 0, 0, "FILE.gguf",
					"GGUF model or vocabulary (default: the built-in model)", NULL},
			{"file", "f", OPT_STR, &file, 0, 0, "FILE",
					"text to read, every byte of it; - is standard input", NULL},
			{"lines", NULL, OPT_FLAG, &lines, 0, 0, NULL, "each line of the text on its own", NULL},
			{"special", NULL, OPT_FLAG, &special, 0, 0, NULL, "texts of special tokens become those tokens",
					NULL},
			{"bos", NULL, OPT_FLAG, &bos, 0, 0, NULL,
					"put the begin-of-text token in front, whatever the model says", NULL},
			{"no-bos", NULL, OPT_FLAG, &no_bos, 0, 0, NULL,
					"add neither begin nor end token (default: the model's rule)", NULL},
			{"format", NULL, OPT_STR, &format, 0, 0, "ids|json|pieces|count",
					"ids on a line (default), a list, each with its text, how many", NULL},
			{"json", NULL, OPT_FLAG, &json, 0, 0, NULL, "the same as -format json", NULL},
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] (--file FILE | TEXT) [options]",
			"Prints the token ids of a text on one line.",
			"  cohort tokenize \"Hello my name is\"\n"
			"  cohort tokenize -format pieces \"Once upon a time\"\n"
			"  printf 'one\\ntwo\\n' | cohort tokenize -f - -lines -no-bos\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, text, 1, &n_text);
	if (rc)
		return rc - 1;
	if (!file == !text[0])
		return bad_usage(prog, "give either --file FILE or one TEXT");
	if (bos && no_bos)
		return bad_usage(prog, "--bos and --no-bos contradict each other");
	if (json && format && strcmp(format, "json") != 0)
		return bad_usage(prog, "-json and -format %s contradict each other", format);
	for (f = 0; format && f < N_FORMATS && strcmp(format, formats[f]) != 0; f++)
		;
	if (f == N_FORMATS)
		return bad_usage(prog, "format '%s' is not known; known: ids, json, pieces, count", format);
	struct cohort_model_params mp;
	struct cohort_model *m = NULL;
	cohort_model_params_init(&mp);
	mp.vocab_only = true;
	rc = load_model(prog, model, &mp, &m);
	if (!rc)
		rc = run(m, file, text[0], lines, json ? F_JSON : (enum format)f,
				(special ? COHORT_TOKENIZE_SPECIAL : 0u) | (bos ? COHORT_TOKENIZE_BOS : 0u) |
						(no_bos ? COHORT_TOKENIZE_NO_BOS : 0u));
	cohort_model_free(m);
	return rc;
}
