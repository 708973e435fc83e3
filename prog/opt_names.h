/* The long names of all options of all programs and commands. A program knows its own table only; with this list it
 * tells a line of the configuration file that is for others from one that is for nobody. tests/e2e/options.sh compares
 * it with the tables. */
#ifndef PROG_OPT_NAMES_H
#define PROG_OPT_NAMES_H

static const char *const opt_names[] = {
		"admin", "alias", "allow-requantize", "api-key", "api-key-file", "batch", "batch-parallel",
		"beam-groups", "beams", "best-of", "body-timeout", "bos", "budget", "chat-template", "chunk",
		"chunk-separator", "chunk-size", "clients", "compare", "context-shift", "cors", "cost", "ctx",
		"data", "decode-timeout", "depth", "dir", "diversity", "documents", "draft", "draft-greedy",
		"draft-max", "draft-min", "drain", "dry-allowed-length", "dry-base", "dry-multiplier",
		"dry-penalty-last-n", "dry-run", "dry-sequence-breaker", "dynatemp-exp", "dynatemp-range",
		"early-stop", "eos", "errors", "extra", "file", "file-layout", "format", "frequency-penalty",
		"generate", "grammar", "grammar-file", "host", "http-threads", "idle-timeout", "ignore-eos",
		"interactive", "isa", "json", "json-schema", "json-schema-file", "kv-type", "length-penalty", "levels",
		"lines", "load", "logit-bias", "logprobs", "lookup", "lora", "lora-scaled", "max-body",
		"max-choices", "max-connections", "max-file", "max-files", "max-grammar", "max-headers",
		"max-priority", "max-saved", "max-stops", "measure", "messages", "min-keep", "min-p", "min-prob",
		"mirostat", "mirostat-ent", "mirostat-lr", "mlock", "model", "n-parallel", "n-predict", "name",
		"ngram-max", "ngram-min", "no-bos", "no-generation-prompt", "no-history", "no-live", "no-mmap",
		"no-page", "no-reuse", "nodes", "normalize", "now", "npl", "npp", "ntg", "ordered", "output",
		"output-format", "output-tensor-type", "overlap", "per-window", "ping", "pooling", "port", "pps",
		"prefill-timeout", "presence-penalty", "prompt", "prompts", "pure", "queue", "queue-timeout",
		"queue-tokens", "rate", "repeat-last-n", "repeat-penalty", "requests", "reserve", "restart",
		"room", "rounds", "samplers", "save", "save-cost", "save-trace", "seed", "seq-max", "session",
		"shape", "share", "show-prompt", "similarity", "slot-save-path", "slots", "socket", "special",
		"stop", "strategy", "stream", "stride", "svg", "swap", "system", "system-file", "temperature",
		"template", "tensors", "tgs", "threads", "tls-cert", "tls-key", "token-embedding-type", "tokens",
		"tools", "top-k", "top-n-sigma", "top-p", "total-timeout", "trace", "truncate", "type", "typical",
		"ubatch", "verbose", "version", "vote", "wait-max", "width", "write-timeout", "xtc-probability",
		"xtc-threshold",
};

#endif
