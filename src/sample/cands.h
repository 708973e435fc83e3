/* The candidates for the next token: a row of logits seen through changes, then a list that stages cut down. */
#ifndef SAMPLE_CANDS_H
#define SAMPLE_CANDS_H

#include "cohort.h"

/* ---- A set of token ids, each with its number ---- */

struct idset {
	cohort_token *ids; /* [n] in order of arrival */
	uint32_t *slots; /* [mask + 1]: number + 1, or 0 */
	size_t n, n_max, mask;
};

bool idset_init(struct idset *s, size_t n_max); /* false: no memory */
void idset_release(struct idset *s);
void idset_clear(struct idset *s);
/* The number of id; a new one gets the next. At most n_max. */
size_t idset_add(struct idset *s, cohort_token id);
/* The number of id, or SIZE_MAX. */
size_t idset_find(const struct idset *s, cohort_token id);

/* ---- Candidates ---- */

struct cand {
	double logit;
	double weight; /* exp(logit - the best), when weighed */
	cohort_token id;
};

/* The vocabulary is looked at in chunks of this many: most of them hold nothing of interest. */
enum { CANDS_CHUNK = 64 };

/* The largest of a row, and in *fine (which stays false) whether all are below +Inf; NaN is not. */
float row_top(const float *x, size_t n, bool *fine);

/* Either a view of the vocabulary (listed is false): logits, the changes in `edits` and what `mask` lets through; or
 * list[0..n), of which the first n_sorted are the best, in order, and no other is better than the last of them. */
struct cands {
	size_t n_vocab, n_chunks;
	const float *logits;
	double *tops; /* [n_chunks]: the best of each, as the logits have it */
	struct idset edits;
	double *edited; /* [edits.n] */
	int32_t *heads; /* [n_chunks]: first edit in the chunk, or -1 */
	int32_t *nexts; /* [edits.n]: the next one, or -1 */
	const uint64_t *mask; /* [n_chunks], a bit for each token, or NULL: all */

	bool listed, weighed;
	struct cand *list; /* [n_vocab], taken from the system as it is used */
	size_t n, n_sorted;
	double total; /* of the weights */
};

/* n_edits: distinct tokens that will be changed at most, while the vocabulary is not a list yet. */
bool cands_init(struct cands *c, size_t n_vocab, size_t n_edits);
void cands_release(struct cands *c);

/* Starts with a row. Returns n_vocab, or the first id whose logit is NaN or +Inf: then there are no candidates. */
size_t cands_begin(struct cands *c, const float *logits);
/* logit = f(arg, number in set, logit) for those of the set that are candidates. */
void cands_map(struct cands *c, const struct idset *set, double (*f)(const void *arg, size_t i, double logit),
		const void *arg);
/* Only tokens whose bits are set stay; mask is borrowed until cands_begin. A second mask makes a list first. */
void cands_mask(struct cands *c, const uint64_t *mask);

/* Makes a list of what is left. False when nothing is. */
bool cands_list(struct cands *c);
/* The best k as a list, in order. */
void cands_top(struct cands *c, size_t k);
/* A list of those not below the best + down (down <= 0), at least `keep` of them. */
void cands_above(struct cands *c, double down, size_t keep);
/* The best one, without making a list: SIZE_MAX when nothing is left. */
size_t cands_best(const struct cands *c);

/* A list of this one alone. */
void cands_only(struct cands *c, cohort_token id);
/* Standard deviation of the logits; 0 without candidates. */
double cands_deviation(const struct cands *c);

/* Of lists only: */
void cands_order(struct cands *c, size_t k); /* the first k are the best, in order */
void cands_weigh(struct cands *c); /* weights and their sum */
double cands_entropy(struct cands *c); /* in nats; weighs */
void cands_cut(struct cands *c, size_t n); /* the first n stay */
void cands_changed(struct cands *c, bool order_kept); /* logits were written */

#endif
