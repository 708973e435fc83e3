/* The long names of all options of all programs and commands, under the headings of help. A program knows its own table
 * only; with this list it tells a line of the configuration file for another program from a misspelt one.
 * tests/e2e/options.sh compares it with the tables. */
#ifndef PROG_OPT_NAMES_H
#define PROG_OPT_NAMES_H

/* A heading ends in a colon. */
static const char *const opt_names[] = {
		"Model:",
		"model",
		"lora",
		"lora-scaled",
		"chat-template",
		"device",
		"draft",
		"file-layout",
		"isa",
		"kv-type",
		"mlock",
		"no-mmap",
		"threads",
		"allow-requantize",
		"name",
		"output-tensor-type",
		"pure",
		"shape",
		"token-embedding-type",
		"type",

		"Input:", "prompt", "prompts", "file", "lines", "system", "system-file", "session", "interactive",
		"bos", "no-bos", "eos", "special", "tokens", "messages", "tools", "documents", "extra", "now",
		"no-generation-prompt", "dir", "load", "chunk-size", "chunk-separator", "overlap", "trace",
		"generate", "rate", "requests", "clients", "share", "npp", "ntg", "npl", "pps", "tgs", "no-history",

		"Generation:", "n-predict", "n-parallel", "ctx", "batch", "ubatch", "ignore-eos", "stop",
		"context-shift", "pooling", "normalize", "truncate", "beams", "beam-groups", "diversity",
		"length-penalty", "early-stop", "best-of", "vote", "lookup", "ngram-max", "ngram-min", "draft-greedy",
		"draft-max", "draft-min", "depth", "min-prob", "nodes", "stride", "ordered", "restart",

		"Sampling:", "temperature", "top-k", "top-p", "min-p", "seed", "typical", "top-n-sigma",
		"xtc-probability", "xtc-threshold", "dynatemp-range", "dynatemp-exp", "repeat-last-n",
		"repeat-penalty", "presence-penalty", "frequency-penalty", "dry-multiplier", "dry-base",
		"dry-allowed-length", "dry-penalty-last-n", "dry-sequence-breaker", "mirostat", "mirostat-ent",
		"mirostat-lr", "min-keep", "logit-bias", "samplers", "grammar", "grammar-file", "json-schema",
		"json-schema-file",

		"Server:", "host", "port", "socket", "alias", "api-key", "api-key-file", "admin", "allow-host",
		"trusted-proxy", "cors", "tls-cert", "tls-key", "no-page", "slot-save-path", "data", "batch-parallel",
		"http-threads", "drain", "ping",

		"Scheduling:", "strategy", "reserve", "swap", "no-reuse", "slots", "seq-max", "budget", "chunk",
		"room", "wait-max", "cost", "measure", "rounds",

		"Limits:", "queue", "queue-tokens", "max-body", "max-choices", "max-client-connections",
		"max-connections", "max-file", "max-files", "max-grammar", "max-headers", "max-priority", "max-saved",
		"max-stops", "body-timeout", "decode-timeout", "idle-timeout", "prefill-timeout", "queue-timeout",
		"total-timeout", "write-timeout",

		"Output:", "output", "output-format", "format", "stream", "no-live", "compare", "width",
		"show-prompt", "logprobs", "per-window", "similarity", "json", "svg", "save", "save-cost",
		"save-trace", "tensors", "levels", "errors", "dry-run", "verbose", "version",
};

#endif
