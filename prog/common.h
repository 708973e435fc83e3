/* What the programs share: exit codes, the built-in model, loading with progress, interruption. */
#ifndef PROG_COMMON_H
#define PROG_COMMON_H

#include "cohort.h"
#include "opt.h"

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_OK = 0, EXIT_RUN = 1, EXIT_USAGE = 2, EXIT_MODEL = 3, EXIT_FILE = 4, EXIT_INTERRUPTED = 130 };

/* The values of -isa: the levels that can be built for this machine. */
#if defined(__x86_64__)
#define ISA_ARG "ref|avx2|avx512|amx"
#elif defined(__aarch64__)
#define ISA_ARG "ref|neon"
#else
#define ISA_ARG "ref|"
#endif
#define ISA_HELP "instruction set level (default: the best of this CPU)"

/* The end of a noun that n counts: "s", or nothing for one. */
static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* How a model is brought into memory: the options, and what they say. */
struct load_opts {
	const char *device;
	bool file_layout, no_mmap, mlock;
	struct opt_list lora, lora_scaled;        /* FILE, FILE:SCALE */
	const char *adapters[2 * OPT_LIST_MAX];   /* the same, taken apart */
	float adapter_scales[2 * OPT_LIST_MAX];
};
/* Lines of a table of options. */
#define OPT_DEVICE(l) \
	"device", "dev", OPT_STR, &(l)->device, 0, 0, "NAME", \
			"device to run on, or NAME:LAYERS,...,NAME (see 'cohort devices'; default: the first)", NULL
#define OPT_FILE_LAYOUT(l) \
	"file-layout", "nr|no-repack", OPT_FLAG, &(l)->file_layout, 0, 0, NULL, \
			"keep the weights in the file's layout (starts at once, runs slower)", NULL
#define OPT_NO_MMAP(l) \
	"no-mmap", NULL, OPT_FLAG, &(l)->no_mmap, 0, 0, NULL, "read the file into memory instead of mapping it", NULL
#define OPT_MLOCK(l) \
	"mlock", NULL, OPT_FLAG, &(l)->mlock, 0, 0, NULL, "keep the weights in memory, never on swap", NULL
#define OPT_LORA(l) \
	"lora", NULL, OPT_LIST, &(l)->lora, 0, 0, "FILE", "a LoRA adapter (GGUF); may be given again", NULL
#define OPT_LORA_SCALED(l) \
	"lora-scaled", NULL, OPT_LIST, &(l)->lora_scaled, 0, 0, "FILE:X", "the same, with scale X", NULL
/* All of them. */
#define OPTS_LOAD(l) \
	{OPT_DEVICE(l)}, {OPT_FILE_LAYOUT(l)}, {OPT_NO_MMAP(l)}, {OPT_MLOCK(l)}, {OPT_LORA(l)}, { OPT_LORA_SCALED(l) }
/* Returns 0, or EXIT_USAGE after saying why. l must outlive params. */
int load_opts_apply(const char *prog, struct load_opts *l, struct cohort_model_params *params);

/* Path of the built-in model: beside the build tree, or installed. NULL, with the places that were tried on stderr, if
 * it is not there. Static storage. */
const char *builtin_model(const char *prog);

/* Opens path, or the built-in model when path is NULL; says on stderr what went wrong. Returns 0 or an exit code.
 * Progress is shown on a terminal when loading takes longer than two seconds. */
int load_model(const char *prog, const char *path, const struct cohort_model_params *params, struct cohort_model **out);

/* Repacks what is left of the weights, so that what is measured afterwards does not change on the way. Returns 0 or
 * EXIT_INTERRUPTED; progress as above. */
int repack_all(struct cohort_context *ctx);

/* "prog: text" on stderr; returns the exit code that fits the status. */
int fail(const char *prog, const struct cohort_err *err);

/* "prog: text", and where help is, on stderr; returns EXIT_USAGE. */
int bad_usage(const char *prog, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Likewise when memory is out; returns EXIT_RUN. */
int out_of_memory(const char *prog);

/* At the start of main. A closed pipe and a file size limit are write errors, not deaths; Ctrl-C ends with
 * EXIT_INTERRUPTED, here and everywhere. */
void start_signals(void);
/* Hides the instruction-set levels that COHORT_HIDE_ISA names: a test's way to run as on a CPU without them. False: it
 * cannot be read, which was reported. */
bool hide_levels(const char *prog);
/* Before anything is written that must not be half done. Ctrl-C and SIGTERM: the first sets the flag, the second ends
 * at once. */
void catch_signals(void);
/* As file_read (base/map.h). Standard input may be a person or a pipe that has nothing yet: while it is waited for, the
 * first signal ends the program with EXIT_INTERRUPTED, so nothing may be half written then. */
enum cohort_status read_input(const char *path, size_t n_max, char **out, size_t *n_bytes, struct cohort_err *err);
bool interrupted(void);
/* For programs that go on after it: which signal it was, 0 if none; the next one is a first one again. */
int interrupt_take(void);
/* A pipe's end, or -1: signals write a byte to it, so that who waits for input hears of them whatever thread they come
 * to. interrupt_wake does the same, for handlers of other signals. */
void interrupt_wake_set(int fd);
void interrupt_wake(void);
bool stop_asked(void *user); /* the same, as a context's abort */

/* The bytes of a token to stdout by term_print, whole characters at a time (a token may be longer than any buffer one
 * would guess), and what was held back. */
void print_token(struct cohort_detok *d, cohort_token t);
void print_rest(struct cohort_detok *d);

/* Flushes stdout; a failure (full disk, closed pipe) is said on stderr and gives EXIT_FILE. */
int close_stdout(const char *prog);

/* A line on the terminal that is overwritten; shown only on a terminal and only after two seconds. */
void progress_line(double started, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_end(void);
/* The same as a bar behind `what`: how much of `total` is done, how much of it a second (unless unit is NULL), and how
 * long the rest will take. */
void progress_bar(double started, const char *what, double done, double total, const char *unit);
/* Who shows progress in another way is told to take it away when progress_end is called, and so before errors are
 * said. NULL: nobody. */
void progress_owner(void (*end)(void *user), void *user);

/* What cohort_room_needed says of ROOM(.n_ctx = 512, .n_seqs = 8); beyond the range of numbers: no room. */
struct cohort_room_info room_of(struct cohort_room_params p);
#define ROOM(...) room_of((struct cohort_room_params){__VA_ARGS__})

/* The default number of threads: the CPUs that the process may use, by affinity and by its control group's quota. */
int64_t threads_default(void);
/* Threads to use: as given, or the default, but not more than those CPUs. */
int32_t thread_count(bool given, int64_t n);

/* The next line of text[*at .. n), without its newline (and a carriage return before it); false at the end. A newline
 * at the very end begins no line. */
struct text_line {
	const char *text;
	size_t n_bytes;
};
bool next_line(const char *text, size_t n, size_t *at, struct text_line *line);

/* A model without a tokeniser cannot be given text: says so and returns EXIT_MODEL. */
int need_tokenizer(const char *prog, const struct cohort_model *m);
/* All of that: the options applied, the model loaded and known to take text. Returns 0 or an exit code, having said
 * why; *out is the caller's to free even then, unless it is NULL. */
int load_text_model(const char *prog, const char *path, const char *isa, struct load_opts *load,
		struct cohort_model **out, struct cohort_model_info *info);

/* Says that a model file cannot be used, and of a directory which models it holds; returns EXIT_MODEL. */
int model_refused(const char *prog, const char *path, const struct cohort_err *err);

/* A key or a tensor's name from a file, for a line of text: escaped as cohort_gguf_format does, cut if it is long. */
#define GGUF_NAME_BYTES 264
const char *gguf_name(char out[GGUF_NAME_BYTES], const char *s, size_t n);

/* Both are freed with mem_free, and NULL when out of memory.
 * s for a table or for JSON: each byte that belongs in neither, or turns the direction of writing, becomes a question
 * mark. */
char *printable(const char *s);
/* A command as one line that a shell reads back to the same words. */
char *command_line(int argc, const char *const *argv);

#endif
