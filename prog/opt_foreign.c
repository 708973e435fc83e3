/* llama.cpp's options without a counterpart. Accepted is what changes no answer; what would change one, or protects
 * somebody, is refused: a server that starts and answers otherwise than its command line says is worse than one that
 * does not start. */
#include "opt_foreign.h"

#include <string.h>

/* Whether a value follows. */
enum takes { NOTHING,
	VALUE,
	SWITCH /* on, off or auto, which may be left out */ };

struct opt_foreign {
	const char *names; /* separated by blanks */
	enum takes takes;
	const char *only; /* the one value that is accepted; NULL: any */
	const char *note; /* why it has no effect; NULL: it is refused, */
	const char *refusal; /* for this reason */
};

static const char no_gpu[] = "cohort computes on the CPU";
static const char attention[] = "attention is always computed in blocks, without a score matrix";
static const char always[] = "this is always so here";
static const char no_download[] =
		"cohort does not download models; download a GGUF file by other means, or take one of llama.cpp's, "
		"and give it with -model FILE";
static const char one_model[] = "a server has one model here; start one server for each";
static const char reasoning[] = "thinking is not told apart from the answer yet; leave the option out, or set "
				"enable_thinking in a request's chat_template_kwargs";
static const char rope[] = "positions are rotated as the model file says; leave the option out";
static const char no_draft[] = "the server has no draft models yet; 'cohort speculate' has them";
static const char no_images[] = "images and sound are not supported";
static const char stderr_log[] = "the log goes to standard error; redirect it with 2>FILE";
static const char cache[] = "the prompt cache is kept in the KV cache, by content";

static const struct opt_foreign options[] = {
		/* Accepted. */
		{"ngl gpu-layers n-gpu-layers mg main-gpu sm split-mode ts tensor-split ot override-tensor "
		 "ncmoe n-cpu-moe fit-target fitt fit-ctx fitc",
				VALUE, NULL, no_gpu, NULL},
		{"nkvo no-kv-offload kvo kv-offload no-op-offload op-offload no-host cmoe cpu-moe bs backend-sampling",
				NOTHING, NULL, no_gpu, NULL},
		{"fit", SWITCH, NULL, no_gpu, NULL},
		{"fa flash-attn", SWITCH, NULL, attention, NULL},
		{"cb cont-batching kvu kv-unified jinja metrics slots embedding embeddings mmap repack swa-full "
		 "offline cache-prompt warmup no-display-prompt webui ui no-context-shift no-perf",
				NOTHING, NULL, always, NULL},
		{"no-kvu no-kv-unified", NOTHING, NULL, "all sequences share one KV cache here", NULL},
		{"nocb no-cont-batching", NOTHING, NULL, "answers do not depend on what else is in a batch here", NULL},
		{"b batch-size ub ubatch-size", VALUE, NULL,
				"this program chooses its batches; no result depends on them", NULL},
		{"dio direct-io ndio no-direct-io", NOTHING, NULL, "files are mapped, or read with -no-mmap", NULL},
		{"check-tensors no-check-tensors", NOTHING, NULL,
				"a number that is not finite ends what depends on it", NULL},
		{"co color", SWITCH, NULL, "colors follow the terminal and NO_COLOR", NULL},
		{"no-color simple-io perf verbose-prompt log-verbose no-mmproj", NOTHING, NULL,
				"output goes by the terminal, and -verbose adds to it", NULL},
		{"ptc print-token-count", VALUE, NULL, "the speed is printed at the end", NULL},
		{"ui-config webui-config ui-config-file webui-config-file", VALUE, NULL,
				"the page keeps its settings in the browser", NULL},
		{"no-warmup", NOTHING, NULL, "there is no warm-up run", NULL},
		{"numa", VALUE, NULL, "threads are not bound to nodes; use numactl", NULL},
		{"tb threads-batch", VALUE, NULL, "the threads of -threads do all the work", NULL},
		{"prio prio-batch poll poll-batch C cpu-mask Cr cpu-range cpu-strict Cb cpu-mask-batch Crb "
		 "cpu-range-batch cpu-strict-batch",
				VALUE, NULL, "use nice and taskset", NULL},
		{"dt defrag-thold", VALUE, NULL, "the KV cache is paged and needs no defragmentation", NULL},
		{"sps slot-prompt-similarity cache-reuse cram cache-ram ctxcp ctx-checkpoints swa-checkpoints", VALUE,
				NULL, cache, NULL},
		{"ctk cache-type-k ctv cache-type-v", VALUE, "f16", "this is the type of the cache",
				"the cache is of type f16 here; leave the option out"},
		{"log-disable log-prefix no-log-prefix log-timestamps no-log-timestamps", NOTHING, NULL,
				"the log has one form", NULL},
		{"log-colors", SWITCH, NULL, "the log has one form", NULL},
		{"lv verbosity log-verbosity", VALUE, NULL, "the log has one form; -verbose adds to it", NULL},
		/* Refused. */
		{"hf hfr hf-repo hff hf-file hft hf-token mu model-url dr docker-repo hfv hfrv hf-repo-v hffv "
		 "hf-file-v hfd hfrd hf-repo-draft",
				VALUE, NULL, NULL, no_download},
		{"cache-list embd-gemma-default fim-qwen-1.5b-default fim-qwen-3b-default fim-qwen-7b-default "
		 "fim-qwen-7b-spec fim-qwen-14b-spec fim-qwen-30b-default gpt-oss-20b-default gpt-oss-120b-default "
		 "vision-gemma-4b-default vision-gemma-12b-default",
				NOTHING, NULL, NULL, no_download},
		{"mm mmproj mmu mmproj-url image audio image-min-tokens image-max-tokens mv model-vocoder", VALUE, NULL,
				NULL, no_images},
		{"mmproj-auto mmproj-offload no-mmproj-auto no-mmproj-offload tts-use-guide-tokens", NOTHING, NULL,
				NULL, no_images},
		{"rpc", VALUE, NULL, NULL, "a model is computed on one machine here"},
		{"list-devices", NOTHING, NULL, NULL, "'cohort devices' lists them"},
		{"attention", VALUE, NULL, NULL, "the model file says which attention it has; leave the option out"},
		{"prompt-cache", VALUE, NULL, NULL,
				"prompts are not saved to files here; the server saves slots (-slot-save-path)"},
		{"prompt-cache-all prompt-cache-ro", NOTHING, NULL, NULL,
				"prompts are not saved to files here; the server saves slots (-slot-save-path)"},
		{"in-prefix in-suffix", VALUE, NULL, NULL, "the chat template says what stands around a message"},
		{"in-prefix-bos", NOTHING, NULL, NULL, "the chat template says what stands around a message"},
		{"if interactive-first mli multiline-input", NOTHING, NULL, NULL, "use 'cohort chat'"},
		{"st single-turn", NOTHING, NULL, NULL, "use 'cohort run', or write a line to 'cohort chat' by a pipe"},
		{"bf binary-file", VALUE, NULL, NULL, "use -file, which takes every byte of a file"},
		{"embd-normalize embd-output-format embd-separator cls-separator", VALUE, NULL, NULL,
				"'cohort embed' has -normalize, -format and -lines"},
		{"sleep-idle-seconds", VALUE, NULL, NULL, "the model stays in memory here; leave the option out"},
		{"tools", VALUE, NULL, NULL, "the server runs no tools; clients send theirs with a request"},
		{"adaptive-target adaptive-decay", VALUE, NULL, NULL, "this stage of sampling is not there"},
		{"models-dir models-preset models-max", VALUE, NULL, NULL, one_model},
		{"models-autoload no-models-autoload", NOTHING, NULL, NULL, one_model},
		{"pooling", VALUE, NULL, NULL,
				"embeddings are made as the model file says, else by the mean; 'cohort embed' and "
				"'cohort jobs' have -pooling"},
		{"rerank reranking", NOTHING, NULL, NULL, "there is no reranking yet"},
		{"reasoning-format reasoning-budget reasoning-budget-message rea reasoning", VALUE, NULL, NULL,
				reasoning},
		{"chat-template-kwargs", VALUE, NULL, NULL, "give chat_template_kwargs in the requests"},
		{"no-jinja", NOTHING, NULL, NULL, "chat templates are always rendered as Jinja; leave the option out"},
		{"skip-chat-parsing no-skip-chat-parsing prefill-assistant no-prefill-assistant", NOTHING, NULL, NULL,
				"answers are not parsed that way here; leave the option out"},
		{"context-shift", NOTHING, NULL, NULL,
				"an answer ends when the context is full; only 'cohort chat' hides old messages"},
		{"keep", VALUE, NULL, NULL, "nothing is discarded from a full context; leave the option out"},
		{"no-slots no-metrics", NOTHING, NULL, NULL,
				"the routes cannot be turned off; use -api-key, and keep them from others in a proxy"},
		{"props", NOTHING, NULL, NULL, "defaults cannot be changed by a request; give them as options"},
		{"log-file", VALUE, NULL, NULL, stderr_log},
		{"api-prefix", VALUE, NULL, NULL, "routes have no prefix here; a proxy can add one (docs/server.md)"},
		{"path media-path", VALUE, NULL, NULL, "the server has no files to give out but its own page"},
		{"rope-scaling rope-scale rope-freq-base rope-freq-scale yarn-orig-ctx yarn-ext-factor "
		 "yarn-attn-factor yarn-beta-slow yarn-beta-fast grp-attn-n gan grp-attn-w gaw",
				VALUE, NULL, NULL, rope},
		{"override-kv", VALUE, NULL, NULL, "the model file's own values are used; leave the option out"},
		{"control-vector control-vector-scaled control-vector-layer-range", VALUE, NULL, NULL,
				"control vectors are not supported"},
		{"lora-init-without-apply", NOTHING, NULL, NULL,
				"adapters hold for all requests here; leave the option out"},
		{"md model-draft draft draft-n draft-max draft-min draft-n-min draft-p-min devd device-draft ngld "
		 "gpu-layers-draft n-gpu-layers-draft cd ctx-size-draft ctkd cache-type-k-draft ctvd "
		 "cache-type-v-draft td threads-draft tbd threads-batch-draft draft-p-split spec-type spec-replace "
		 "ncmoed n-cpu-moe-draft lcs lookup-cache-static lcd lookup-cache-dynamic",
				VALUE, NULL, NULL, no_draft},
		{"sampling-seq sampler-seq", VALUE, NULL, NULL, "give the stages by name with -samplers"},
		{"sp special spm-infill", NOTHING, NULL, NULL, "special tokens are not part of answers here"},
		{"e escape", NOTHING, NULL, NULL,
				"backslashes are not special here; let the shell make the line end: $'one\\ntwo'"},
		{"no-escape", NOTHING, NULL, always, NULL},
		{"cnv conversation", NOTHING, NULL, NULL, "use 'cohort chat'"},
		{"no-cnv no-conversation", NOTHING, NULL, always, NULL},
};

const struct opt_foreign *opt_foreign(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		for (const char *s = options[i].names; *s; s += strcspn(s, " "), s += *s == ' ')
			if (strcspn(s, " ") == n && memcmp(s, name, n) == 0)
				return &options[i];
	return NULL;
}

bool opt_foreign_takes(const struct opt_foreign *f, const char *next)
{
	static const char *const words[] = {"on", "off", "auto", "0", "1", "true", "false", "enabled", "disabled"};

	if (f->takes != SWITCH)
		return f->takes == VALUE;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(next, words[i]) == 0)
			return true;
	return false;
}

const char *opt_foreign_refusal(const struct opt_foreign *f, const char *text)
{
	if (f->only)
		return text && strcmp(text, f->only) == 0 ? NULL : f->refusal;
	return f->refusal;
}

const char *opt_foreign_note(const struct opt_foreign *f)
{
	return f->note;
}
