/* cohort tokenize: the ids of a text on one line. */
#include "cmd.h"
#include "common.h"
#include "opt.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static int run(const struct cohort_model *m, const char *file, const char *text, unsigned flags)
{
	const char *prog = "cohort tokenize";
	struct cohort_err err;
	char *bytes = NULL;
	size_t n_bytes = 0, n = 0;
	cohort_token *ids = NULL;
	int rc = 0;

	if (text) {
		n_bytes = strlen(text);
	} else if (file_read(file, (size_t)1 << 29, &bytes, &n_bytes, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	size_t room = cohort_tokenize_bound(n_bytes);
	ids = mem_alloc(room, sizeof *ids);
	if (!ids) {
		fprintf(stderr, "%s: out of memory for %zu bytes of text\n", prog, n_bytes);
		rc = EXIT_RUN;
	} else if (cohort_tokenize(m, text ? text : bytes, n_bytes, flags, ids, room, &n, &err)) {
		rc = fail(prog, &err);
	} else {
		for (size_t i = 0; i < n; i++)
			printf("%s%d", i ? " " : "", ids[i]);
		putchar('\n');
		rc = close_stdout(prog);
	}
	mem_free(ids);
	mem_free(bytes);
	return rc;
}

int cmd_tokenize(int argc, char **argv)
{
	const char *model = NULL, *file = NULL, *text[1] = {NULL};
	bool special = false, bos = false, no_bos = false;
	size_t n_text = 0;
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &model, 0, 0, "FILE",
					"GGUF model or vocabulary (default: the built-in model)", NULL},
			{"file", "f", OPT_STR, &file, 0, 0, "FILE",
					"text to read, every byte of it; - is standard input", NULL},
			{"special", NULL, OPT_FLAG, &special, 0, 0, NULL, "texts of special tokens become those tokens",
					NULL},
			{"bos", NULL, OPT_FLAG, &bos, 0, 0, NULL,
					"put the begin-of-text token in front, whatever the model says", NULL},
			{"no-bos", NULL, OPT_FLAG, &no_bos, 0, 0, NULL,
					"add neither begin nor end token (default: the model's rule)", NULL},
	};
	const struct opt_prog p = {
			"cohort tokenize",
			"[-m FILE] (--file FILE | TEXT) [options]",
			"Prints the token ids of a text on one line.",
			"  cohort tokenize \"Hello my name is\"\n"
			"  cohort tokenize -m model.gguf --file story.txt --no-bos\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, text, 1, &n_text);
	if (rc)
		return rc - 1;
	if (!file == !text[0] || (bos && no_bos)) {
		fprintf(stderr, "%s: %s\nTry '%s --help'.\n", p.name,
				bos && no_bos ? "--bos and --no-bos contradict each other"
					      : "give either --file FILE or one TEXT",
				p.name);
		return EXIT_USAGE;
	}
	struct cohort_model_params mp;
	struct cohort_model *m = NULL;
	cohort_model_params_init(&mp);
	mp.vocab_only = true;
	rc = load_model(p.name, model, &mp, &m);
	if (!rc)
		rc = run(m, file, text[0], (special ? COHORT_TOKENIZE_SPECIAL : 0u) | (bos ? COHORT_TOKENIZE_BOS : 0u) |
				(no_bos ? COHORT_TOKENIZE_NO_BOS : 0u));
	cohort_model_free(m);
	return rc;
}
