/* A grammar as nodes: what the text of a GBNF file becomes, and what the machine in grammar.c walks.
 *
 * A rule is a graph of nodes from its start to its G_END. Characters are their UTF-8 bytes: a class of code points is a
 * small graph of byte ranges. */
#ifndef SAMPLE_PROGRAM_H
#define SAMPLE_PROGRAM_H

#include "base/strmap.h"
#include "cohort.h"

enum program_kind {
	G_JUMP, /* to out, with nothing read */
	G_SPLIT, /* to out or to arg, with nothing read */
	G_RANGE, /* a byte lo..hi, then out */
	G_TOKEN, /* token arg (or any other, when negated), then out */
	G_CALL, /* rule arg, then out */
	G_END, /* of rule arg */
	G_FAIL /* nothing matches */
};

struct program_node {
	uint8_t kind, lo, hi;
	bool negated;
	int32_t out, arg;
	int32_t like; /* a node from which texts of up to LEXICON_SHORT bytes go on in the same way; mostly itself */
};

struct program_rule {
	const char *name; /* in the text, or NULL: made for a repetition */
	size_t n_name, at; /* where it was first used or defined, in the text */
	int32_t start; /* -1: not defined yet */
	bool nests; /* it can call itself, or a rule that can */
};

struct program {
	struct program_node *nodes;
	struct program_rule *rules;
	size_t n_nodes, n_nodes_max, n_rules, n_rules_max;
	int32_t root;

	/* Where a node leads with nothing read, within its rule: nodes of the last five kinds. */
	int32_t *nexts; /* nexts[first[i] .. first[i + 1]) */
	uint32_t *first; /* [n_nodes + 1] */
	/* Bytes that no range tells apart are a class. */
	uint8_t class_of[256], byte_of[256];
	int32_t n_classes;
};

enum {
	PROGRAM_TEXT_MAX = 4 << 20,
	PROGRAM_NODES_MAX = 1 << 20,
	PROGRAM_RULES_MAX = 1 << 16,
	PROGRAM_NEXTS_MAX = 1 << 22,
	PROGRAM_NESTING_MAX = 256,
	PROGRAM_REPEAT_MAX = 100000,
};

/* text is looked at only during the call. token: finds the token with exactly these bytes, special ones included, or
 * -1 (-2: out of memory). Statuses: E_FORMAT with the offset, E_LIMIT, E_UNSUPPORTED (left recursion), E_MEMORY. */
enum cohort_status program_init(struct program *p, const char *text, size_t n_bytes, const char *root, int32_t n_vocab,
		cohort_token (*token)(void *arg, const char *bytes, size_t n), void *arg, struct cohort_err *err);
void program_release(struct program *p);

/* ---- For the parser ---- */

/* A piece of a rule: nodes [first, n_nodes at that time), entered at start, left through the G_JUMP `end`. */
struct piece {
	int32_t first, start, end;
};

int32_t program_node(struct program *p, struct program_node n); /* -1: no memory, or too many */
int32_t program_rule(struct program *p, const char *name, size_t n, size_t at); /* likewise */
/* Each makes a piece of the nodes from `first` on; false: as above. */
bool program_utf8(struct program *p, const uint32_t (*ranges)[2], size_t n, struct piece *out);
bool program_bytes(struct program *p, const char *bytes, size_t n, struct piece *out);
/* What was x, min to max times (max < 0: any number). */
bool program_repeat(struct program *p, struct piece *x, int64_t min, int64_t max);
/* After the last rule: closures, left recursion, classes. */
enum cohort_status program_finish(struct program *p, struct cohort_err *err);

#endif
