/* What the formats of -output have in common. */
#ifndef PROG_EXPORT_FORMAT_H
#define PROG_EXPORT_FORMAT_H

#include "batched.h"
#include "compare.h"
#include "sink.h"

/* Something to know about the run: how it was asked for, and how it went. */
enum fact_type { FACT_NONE, FACT_TEXT, FACT_LIST, FACT_REAL, FACT_INT, FACT_UINT, FACT_BOOL };
struct fact {
	const char *group; /* "model", "run", "sampling", "statistics": those of a group follow each other */
	const char *name;  /* as an option is written: "top-k" */
	enum fact_type type;
	union {
		const char *text;
		const struct opt_list *list;
		double real;
		int64_t i;
		uint64_t u;
		bool yes;
	} v;
};
enum { FACTS_MAX = SAMPLING_OPTIONS + 24 };

struct report {
	const struct job *j;
	const struct fact *facts; /* [n_facts] */
	size_t n_facts;
	/* With origins (else NULL): the facts of the prompt under way, and which are not the same in all runs; in facts
	 * these are FACT_NONE. */
	const struct fact *own; /* [n_facts] */
	const bool *differs;    /* [n_facts] */
	const bool *usual;      /* [n_facts]: as without any option, or of little use to a reader of the texts */
	bool interrupted;
	struct sink out;
};

/* A format: what comes first, what each prompt adds, what comes last. */
struct export_format {
	const char *suffix;
	void (*begin)(struct report *e);
	void (*prompt)(struct report *e, const struct compare *c);
	void (*end)(struct report *e);
};
extern const struct export_format export_csv, export_html, export_json, export_jsonl, export_md, export_txt;

/* "4 continuations of one prompt" */
void export_title(const struct report *e, char out[80]);
/* "eog", "stop", "length", "error", "interrupted" */
const char *export_finish(const struct gen_text *t);
/* The shortest decimal that reads back as the same number; "" if it is not finite. */
const char *export_real(char out[32], double x);
const char *export_float(char out[32], float x);
/* A fact's value as text; lists with spaces between. */
void export_fact(struct sink *out, const struct fact *f);
/* Numbers with spaces between. */
void export_tokens(struct sink *out, const cohort_token *tokens, size_t n);
void export_logprobs(struct sink *out, const struct gen_text *t);
/* A text for reading: U+FFFD for what is no UTF-8; control characters but tabs and line ends as pictures of them, as
 * are characters that turn the order of what stands beside them; each other one through put, as bytes. */
void export_readable(struct sink *out, const char *s, size_t n, void (*put)(struct sink *out, const char *c, size_t n));

#endif
