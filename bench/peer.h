/* The parts of bench_peer: other programs as children, what a model costs, and the report.
 *
 * Results live in one JSON document, which is also the file that is written: {"kind", "runs", "models", "cells"}. A
 * cell names its run by index and has its raw rounds, medians, ratios and limits; bench/README.md lists the keys. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Children (peer_child.c) ---- */

struct child {
	int error;        /* errno when it could not be started, else 0 */
	int status;       /* as wait gives it */
	char *out, *err;  /* what it wrote, NUL-terminated: all of standard output, the end of standard error */
	size_t n_out, n_out_max, n_err;
	double others;    /* CPUs that everything but the child kept busy meanwhile, on average */
};

/* Runs argv (NULL-terminated, argv[0] is a path, or a name to look for in PATH) with nothing on standard input, and
 * waits. When this program is interrupted, so is the child. False when out of memory. Released by child_release. */
bool child_run(const char *const *argv, struct child *c);
void child_release(struct child *c);
bool child_ok(const struct child *c);
/* "exit code 3", "killed by signal 11 (Segmentation fault)", "Exec format error", and the last line of its standard
 * error. */
void child_say(const struct child *c, char *text, size_t n_max);

/* ---- What a model costs (peer_cost.c) ---- */

enum { COST_PARTS_MAX = 16 };

struct cost {
	/* Multiplications for one row by weight format: in the layers, and in the output matrix. */
	struct cost_part {
		uint32_t type;
		const char *name;
		double macs, out_macs;
	} parts[COST_PARTS_MAX];
	size_t n_parts;
	double macs, out_macs;   /* sums */
	double bytes, out_bytes; /* read for a product of any number of columns: layers, output matrix */
	uint64_t file_bytes;
	bool known;              /* every format has a limit here */
};

/* False, with a sentence, when the file cannot be read. */
bool cost_read(const char *path, struct cost *out, char *error, size_t n_max);

struct machine_limits {
	double fma_gmacs, read_gb_s; /* all threads together */
	double l3_bytes;             /* weights that fit are not bound by memory */
	int32_t n_ubatch;
};

/* Seconds that n_seqs prompts of n_tokens (one when shared), and n_steps steps of n_seqs rows, take at least. */
struct bound {
	double work, read;
};
struct bound cost_prompts(const struct cost *c, const struct machine_limits *m, int32_t n_seqs, int32_t n_tokens);
struct bound cost_steps(const struct cost *c, const struct machine_limits *m, int32_t n_seqs, int32_t n_steps);

/* ---- The machine and the programs (peer_facts.c) ---- */

/* json_string for bytes from anywhere; NULL when out of memory. */
json_t *text_json(const char *s);
double facts_load(void);
/* Warns on standard error of a machine that is not quiet. Fills limits but for n_ubatch; without probes they are 0. */
json_t *facts_machine(size_t n_threads, bool probes, struct machine_limits *limits);
/* dir: within the tree whose commit is asked for. */
json_t *facts_ours(const char *cohort, const char *dir);
/* label: instead of what it prints, or NULL. */
json_t *facts_peer(const char *path, const char *label);

/* ---- The report (peer_report.c, peer_svg.c) ---- */

/* Of n values, unsorted, unchanged; 0 when there are none. */
double peer_median(const double *v, size_t n);

/* Of a list that an object holds; NULL and 0 where there is none. */
static inline size_t n_items(const json_t *o, const char *key)
{
	return json_array_size(json_object_get(o, key));
}
static inline json_t *item(const json_t *o, const char *key, size_t i)
{
	return json_array_get(json_object_get(o, key), i);
}

/* Raw rounds -> "median" and "ratio" of a cell. */
int cell_summarise(json_t *cell);
/* Numbers at a path of keys ("ratio", "tg", "median"); 0 where there is none. */
double cell_number(const json_t *cell, const char *a, const char *b, const char *c);
double field(const json_t *o, const char *key);
const char *cell_text(const json_t *cell, const char *key); /* "" where there is none */

/* A set of cells shown together: the same job, threads and sizes. */
struct view {
	const char *job, *shape; /* shape: NULL for any */
	int64_t threads, prompt, gen;
};
/* The distinct views of all cells, by_shape or not, in order of appearance; returns how many. Texts are the document's.
 */
size_t view_list(const json_t *doc, bool by_shape, struct view *out, size_t n_max);
bool view_has(const struct view *v, const json_t *cell);

/* The new cell takes the place of one of the same key, or goes to the end. Steals the reference. */
int doc_put(json_t *doc, const char *list, json_t *item);

void report_print(const json_t *doc);
/* The picture, freed with free(); NULL when out of memory. */
char *svg_make(const json_t *doc, size_t *n_bytes);

#endif
