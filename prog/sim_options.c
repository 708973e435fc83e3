/* cohort simulate's command line: the options, their defaults, and which of them go together. */
#include "common.h"
#include "sim.h"

#include <string.h>

const char sim_prog[] = "cohort simulate";

static int choose_kind(struct sim_options *c)
{
	const char *name;

	for (int i = 0; (name = sim_kind_name((enum sim_kind)i)); i++)
		if (strcmp(name, c->kind) == 0) {
			c->recipe.kind = (enum sim_kind)i;
			return 0;
		}
	return bad_usage(sim_prog, "-generate expects poisson, bursts or heavy-tail, got '%s'", c->kind);
}

static int check(struct sim_options *c)
{
	if (c->trace && (c->recipe_given || c->kind))
		return bad_usage(sim_prog, "-trace has its requests: options of generated ones go without it");
	if (c->cost && (c->measure || c->model || c->measure_given || c->device || c->save_cost))
		return bad_usage(sim_prog, "-cost has its costs: options of measuring go without it");
	if (!c->trace && c->recipe.share >= c->recipe.prompt)
		return bad_usage(sim_prog, "-share %lld must be less than the mean prompt of %lld tokens",
				(long long)c->recipe.share, (long long)c->recipe.prompt);
	if (c->budget > c->batch)
		return bad_usage(sim_prog, "-budget %lld is more than the %lld rows of -batch", (long long)c->budget,
				(long long)c->batch);
	if (strcmp(c->room, "reserve") != 0 && strcmp(c->room, "overcommit") != 0)
		return bad_usage(sim_prog, "-room expects reserve or overcommit, got '%s'", c->room);
	return c->kind ? choose_kind(c) : 0;
}

static int parse(struct sim_options *c, int argc, char **argv)
{
	bool *made = &c->recipe_given, *measured = &c->measure_given;
	const struct opt opts[] = {
			{"trace", NULL, OPT_STR, &c->trace, 0, 0, "FILE", "requests from a CSV file (see above)", NULL},
			{"generate", NULL, OPT_STR, &c->kind, 0, 0, "poisson|bursts|heavy-tail",
					"requests made up (default: poisson)", NULL},
			{"rate", NULL, OPT_FLOAT, &c->recipe.rate, 1e-6, 1e6, "R", "requests per second (default: 8)",
					made},
			{"requests", "n", OPT_INT, &c->recipe.n, 1, SIM_REQUESTS_MAX, "N", "how many (default: 1000)",
					made},
			{"prompt", NULL, OPT_INT, &c->recipe.prompt, 1, 1 << 24, "N",
					"mean tokens of prompts (default: 128)", made},
			{"output", NULL, OPT_INT, &c->recipe.output, 1, 1 << 24, "N",
					"mean tokens of outputs (default: 64)", made},
			{"clients", NULL, OPT_INT, &c->recipe.clients, 1, 1 << 20, "N",
					"who sends them: client k in proportion to 1/k (default: 4)", made},
			{"share", NULL, OPT_INT, &c->recipe.share, 0, (1 << 24) - 1, "N",
					"tokens that all prompts of a client begin with (default: 0)", made},
			{"seed", "s", OPT_UINT64, &c->recipe.seed, 0, 0, "N", "of the made-up requests (default: 0)",
					made},
			{"save-trace", NULL, OPT_STR, &c->save_trace, 0, 0, "FILE", "write the requests as CSV", NULL},
			{"strategy", NULL, OPT_LIST, &c->strategies, 0, 0,
					"decode-maximal|prefill-priority|balanced|FILE.so[:NAME]",
					"a strategy; may be given again (default: all built in)",
					NULL},
			{"slots", NULL, OPT_INT, &c->slots, 1, 1 << 16, "N", "sequences at once (default: 16)", NULL},
			{"ctx", "c|ctx-size", OPT_INT, &c->ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds (default: 1024 per slot)", &c->ctx_given},
			{"seq-max", NULL, OPT_INT, &c->seq_max, 1, 1 << 30, "N",
					"tokens of one sequence at most (default: as -ctx)", NULL},
			{"batch", "b|batch-size", OPT_INT, &c->batch, 1, 1 << 20, "N",
					"rows of a tick at most (default: 512)",
					NULL},
			{"ubatch", "ub|ubatch-size", OPT_INT, &c->ubatch, 1, 1 << 20, "N",
					"rows computed together (default: 128)",
					NULL},
			{"budget", NULL, OPT_INT, &c->budget, 1, 1 << 20, "N",
					"rows a strategy may plan (default: as -batch)", NULL},
			{"chunk", NULL, OPT_INT, &c->chunk, 1, 1 << 20, "N",
					"rows of one prompt in a tick (default: 512)", NULL},
			{"room", NULL, OPT_STR, &c->room, 0, 0, "reserve|overcommit",
					"cache room: all at once (default), or too little, and park", NULL},
			{"no-reuse", "no-cache-prompt", OPT_FLAG, &c->no_reuse, 0, 0, NULL,
					"no prompt's tokens are kept for others",
					NULL},
			{"queue", NULL, OPT_INT, &c->queue, 0, 1 << 30, "N", "requests that may wait (default: 1024)",
					NULL},
			{"queue-tokens", NULL, OPT_INT, &c->queue_tokens, 0, 1e15, "N",
					"tokens of their prompts together (default: 1048576)", NULL},
			{"wait-max", NULL, OPT_FLOAT, &c->wait_max, 0, 1e9, "S",
					"who has waited so long goes first (default: 30)", NULL},
			{"cost", NULL, OPT_STR, &c->cost, 0, 0, "FILE", "costs from a file that -save-cost wrote",
					NULL},
			{"measure", NULL, OPT_FLAG, &c->measure, 0, 0, NULL,
					"measure the costs of a model here (default)", NULL},
			{"model", "m", OPT_STR, &c->model, 0, 0, "FILE.gguf",
					"the model to measure (default: the built-in one)", NULL},
			{OPT_DEVICE(c)},
			{"threads", "t", OPT_INT, &c->threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &c->threads_given},
			{"rounds", "r", OPT_INT, &c->rounds, 1, 1000, "N", "measure each point N times (default: 5)",
					measured},
			{"depth", NULL, OPT_INT, &c->depth, 0, 1 << 20, "N",
					"tokens that generating sequences hold meanwhile (default: 64)", measured},
			{"save-cost", NULL, OPT_STR, &c->save_cost, 0, 0, "FILE", "write the measured costs as JSON",
					NULL},
			{"json", NULL, OPT_STR, &c->json, 0, 0, "FILE", "write the results as JSON", NULL},
			{"svg", NULL, OPT_STR, &c->svg, 0, 0, "FILE", "write the results as a picture", NULL},
	};
	const struct opt_prog p = {
			sim_prog,
			"[--trace FILE.csv | --generate KIND] [--strategy NAME]... [--cost FILE | -m MODEL] [options]",
			"Sends requests through the engine's queue, strategies and cache books under a simulated\n"
			"clock, and compares strategies. A tick takes as long as was measured for its rows, so the\n"
			"answer is for the machine and model of the measurement; nothing else is run.\n"
			"\n"
			"A trace is CSV with a header: arrival_s, prompt_tokens, output_tokens and, if wanted,\n"
			"client, priority, group, shared_tokens (that all of a group begin with); lines with # are\n"
			"comments.\n"
			"\n"
			"Columns: output tokens and requests per second; seconds to the first token (TTFT: p50, p90,\n"
			"p99); ms between tokens (gap: p50, p90, p99, max); seconds in the queue (wait p99) and until\n"
			"the end (end: p50, p99); fairness between clients (Jain: 1 is best); requests refused,\n"
			"parkings, prompt tokens that were reused.",
			"  cohort simulate --generate bursts --rate 20 --slots 32 --budget 16 --svg compare.svg\n"
			"  cohort simulate --trace day.csv --strategy balanced --strategy ./mine.so\n"
			"  cohort simulate -m model.gguf --save-cost cost.json --requests 100\n"
			"  cohort simulate --cost cost.json --generate bursts --prompt 600 --share 400\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	return opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
}

int sim_options_get(int argc, char **argv, struct sim_options *c)
{
	*c = (struct sim_options){
			.recipe = {.rate = 8, .n = 1000, .prompt = 128, .output = 64, .clients = 4},
			.slots = 16,
			.batch = 512,
			.ubatch = 128,
			.chunk = 512,
			.queue = 1024,
			.queue_tokens = 1 << 20,
			.wait_max = 30,
			.threads = threads_default(),
			.rounds = 5,
			.depth = 64,
			.room = "reserve",
	};
	int rc = parse(c, argc, argv);
	if (rc)
		return rc;
	rc = check(c);
	return rc ? rc + 1 : 0;
}
