/* cohort tree: what may follow a prompt, as a tree with probabilities. */
#include "branching.h"
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "sampling.h"
#include "term.h"
#include "tokens.h"
#include "tree_view.h"

#include "base/mem.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "cohort tree";

enum { TEXT_MAX = 1 << 28, NODES_MAX = 100000, CELLS_MAX = 1 << 24 };
enum format { TEXT, JSON, SVG };
static const char *const formats[] = {"text", "json", "svg"}, *const suffixes[] = {".txt", ".json", ".svg"};

struct job {
	const char *model, *isa, *prompt, *file, *output, *format_name;
	struct load_opts load;
	int64_t depth, top_k, nodes, threads;
	double min_prob;
	bool threads_given, min_prob_given, ignore_eos;
	struct sampling s; /* its grammar */
	const char *operand;

	enum format format;
	struct cohort_model *m;
	struct cohort_model_info info;
	char *bytes; /* of the file */
	const char *text;
	size_t n_text, n_tokens;
	cohort_token *tokens;
	struct branching b;
	struct cohort_tree tree;
	struct out out;
};

/* ---- What is asked for ---- */

static int choose_format(struct job *j)
{
	const size_t n = j->output ? strlen(j->output) : 0;
	bool known = !j->output || strcmp(j->output, "-") == 0;

	for (int i = 0; i < 3; i++) {
		const size_t k = strlen(suffixes[i]);
		if (j->format_name ? strcmp(j->format_name, formats[i]) == 0
				   : n > k && strcmp(j->output + n - k, suffixes[i]) == 0) {
			j->format = (enum format)i;
			known = true;
		} else if (j->format_name && i == 0) {
			known = false;
		}
	}
	if (!known && j->format_name)
		return bad_usage(prog, "-format is text, json or svg, not '%s'", j->format_name);
	if (!known)
		return bad_usage(prog, "'%s' does not end with .txt, .json or .svg: say which with -format", j->output);
	return 0;
}

static int read_prompt(struct job *j)
{
	struct cohort_err err;

	if ((j->prompt != NULL) + (j->file != NULL) + (j->operand != NULL) != 1)
		return bad_usage(prog, "give one prompt: as an argument, with -p, or with -f FILE (- is standard "
				       "input)");
	j->text = j->prompt ? j->prompt : j->operand;
	j->n_text = j->text ? strlen(j->text) : 0;
	if (j->file) {
		if (read_input(j->file, TEXT_MAX, &j->bytes, &j->n_text, &err)) {
			fail(prog, &err);
			return EXIT_FILE;
		}
		j->text = j->bytes;
	}
	return 0;
}

static int take_prompt(struct job *j)
{
	const int rc = text_tokens(prog, j->m, j->text, j->n_text, COHORT_TOKENIZE_SPECIAL, &j->tokens, &j->n_tokens);

	if (rc)
		return rc;
	if (j->n_tokens == 0)
		return bad_usage(prog, "the prompt is empty and the model has no begin token");
	if ((int64_t)j->n_tokens + j->depth > j->info.n_ctx_train) {
		fprintf(stderr,
				"%s: the prompt has %zu tokens, with %" PRId64
				" more to come; the model was trained for %d\n",
				prog, j->n_tokens, j->depth, j->info.n_ctx_train);
		return EXIT_USAGE;
	}
	return 0;
}

/* ---- Growing ---- */

static int grow(struct job *j)
{
	struct cohort_tree_params p;
	struct cohort_err err;
	int64_t n = 1;

	/* Branches: nodes of one level that may have children. */
	for (int64_t d = 1; d < j->depth && n < j->nodes; d++)
		n *= j->top_k;
	n = n < j->nodes ? n : j->nodes;
	const int64_t cells = branching_room((int64_t)j->n_tokens, j->depth, n, 0).n_ctx_needed;
	if (cells > CELLS_MAX) {
		fprintf(stderr,
				"%s: %" PRId64 " branches behind %zu tokens are too many; lower -nodes, -depth or "
				"-top-k\n",
				prog, n, j->n_tokens);
		return EXIT_USAGE;
	}
	cohort_tree_params_init(&p);
	p.depth = (int32_t)j->depth;
	p.top_k = (int32_t)j->top_k;
	/* What a grammar permits may be unlikely, and is wanted all the same. */
	if (!j->min_prob_given && (j->s.grammar || j->s.grammar_file || j->s.json_schema || j->s.json_schema_file))
		j->min_prob = 0;
	p.min_prob = j->min_prob;
	p.n_max = (int32_t)j->nodes;
	p.ends = j->ignore_eos ? branching_no_ends : NULL;
	j->b.prog = prog;
	j->b.model = j->m;
	int rc = branching_open(&j->b, n, cells, thread_count(j->threads_given, j->threads));
	if (!rc)
		rc = branching_start(&j->b, &j->s, j->tokens, j->n_tokens);
	if (!rc && cohort_tree_grow(j->b.forest, j->b.root, &p, &j->tree, &err))
		rc = branching_fail(&j->b, &err);
	if (!rc && j->tree.n_roots == 0 && j->min_prob > 0)
		fprintf(stderr, "%s: no token has a probability of %g or more; lower -min-prob\n", prog, j->min_prob);
	if (!rc && j->tree.cut)
		fprintf(stderr, "%s: there are more than %" PRId64 " nodes; raise -nodes to see them all\n", prog,
				j->nodes);
	return rc;
}

static bool is_utf8(void)
{
	setlocale(LC_CTYPE, "");
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int show(struct job *j)
{
	struct tree_view v = {.model = j->m, .tree = &j->tree, .prompt = j->text, .n_prompt = j->n_text, .o = &j->out};
	int rc = out_open(&j->out, prog, j->output);

	if (rc)
		return rc;
	v.utf8 = is_utf8();
	v.colors = j->out.f == stdout && term_colors(STDOUT_FILENO);
	if (j->format == TEXT)
		tree_view_text(&v);
	else if (j->format == JSON)
		tree_view_json(&v);
	else
		rc = tree_view_svg(&v);
	return out_close(&j->out, rc);
}

static int run(struct job *j)
{
	int rc = choose_format(j);

	if (!rc)
		rc = read_prompt(j);
	if (!rc)
		rc = load_text_model(prog, j->model, j->isa, &j->load, &j->m, &j->info);
	if (!rc)
		rc = sampling_open(&j->s, prog, j->m);
	if (!rc)
		rc = take_prompt(j);
	if (!rc)
		rc = grow(j);
	return rc ? rc : show(j);
}

static void cleanup(struct job *j)
{
	cohort_tree_release(&j->tree);
	branching_close(&j->b);
	sampling_release(&j->s);
	mem_free(j->tokens);
	mem_free(j->bytes);
	cohort_model_free(j->m);
}

int cmd_tree(int argc, char **argv)
{
	static struct job j;
	size_t n_operands = 0;
	j = (struct job){.depth = 3, .top_k = 3, .nodes = 1000, .min_prob = 0.01, .threads = threads_default()};
	sampling_init(&j.s, 0.95);
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &j.model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"prompt", "p", OPT_STR, &j.prompt, 0, 0, "TEXT", "the prompt", NULL},
			{"file", "f", OPT_STR, &j.file, 0, 0, "FILE",
					"the prompt from a file, every byte of it (- is standard input)", NULL},
			{"depth", "d", OPT_INT, &j.depth, 1, TREE_DEPTH_MAX, "N",
					"tokens from the prompt to a leaf (default: 3)", NULL},
			{"top-k", "k", OPT_INT, &j.top_k, 1, 1000, "N",
					"likeliest tokens behind each (default: 3)", NULL},
			{"min-prob", NULL, OPT_FLOAT, &j.min_prob, 0, 1, "X",
					"leave out tokens less likely than X after the one before (default: 0.01, "
					"with a grammar 0)",
					&j.min_prob_given},
			{"nodes", NULL, OPT_INT, &j.nodes, 1, NODES_MAX, "N",
					"tokens in all, at most (default: 1000)", NULL},
			{"format", NULL, OPT_STR, &j.format_name, 0, 0, "text|json|svg",
					"what is written (default: by the name of the file, else text)", NULL},
			{"output", "o", OPT_STR, &j.output, 0, 0, "FILE",
					"write to this file: .txt, .json or .svg", NULL},
			{"ignore-eos", NULL, OPT_FLAG, &j.ignore_eos, 0, 0, NULL,
					"go on after the model ends its text", NULL},
			{"grammar", NULL, OPT_STR, &j.s.grammar, 0, 0, "TEXT",
					"only what this grammar (GBNF) permits", NULL},
			{"grammar-file", NULL, OPT_STR, &j.s.grammar_file, 0, 0, "FILE", "the same from a file", NULL},
			{"json-schema", "j", OPT_STR, &j.s.json_schema, 0, 0, "TEXT",
					"only JSON documents that this schema describes", NULL},
			{"json-schema-file", "jf", OPT_STR, &j.s.json_schema_file, 0, 0, "FILE",
					"the same from a file", NULL},
			{"threads", "t", OPT_INT, &j.threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &j.threads_given},
			{"isa", NULL, OPT_STR, &j.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&j.load),
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] PROMPT [options]",
			"Shows what may follow a prompt, as a tree: at each place the likeliest tokens with their\n"
			"probability, and in brackets that of all from the prompt on.",
			"  cohort tree \"Once upon a\"\n"
			"  cohort tree -depth 5 -top-k 4 -min-prob 0.1 \"The cat\"\n"
			"  cohort tree -o tree.svg \"The cat\"\n"
			"  echo -n \"The dog\" | cohort tree -f - -format json\n"
			"  cohort tree -grammar 'root ::= \"yes\" | \"no\"' \"Is it so? \"\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, &j.operand, 1, &n_operands);
	if (rc)
		return rc - 1;
	catch_signals();
	rc = run(&j);
	cleanup(&j);
	return rc;
}
