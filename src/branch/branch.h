/* What the files of this room share: branches as nodes of a forest. */
#ifndef BRANCH_BRANCH_H
#define BRANCH_BRANCH_H

#include "cohort.h"

/* How far a node's text has come: what a fork begins with. */
struct node_text {
	cohort_pos n_past;
	cohort_token pending, drawn; /* -1: none */
	float drawn_logprob; /* of the token that was drawn */
	bool has_logits;
	int64_t n_accepted, n_drawn;
	double sum_logprob, sum_drawn;
};

/* Node i has sequence first_seq + i: a lease of one is a lease of the other. */
struct node {
	uint64_t generation; /* of the branch it is or was last; 0: never was one */
	bool live;
	int32_t parent, first_child, last_child, prev, next; /* -1: none; `next` of a vacant one: the next vacant one */
	int32_t n_children, depth;
	uint64_t named; /* the call that named it last */
	float weighed; /* how likely the token is that it was named with */

	struct node_text text;
	float *logits; /* [n_vocab]; kept by a node that is vacant */
	struct cohort_sampler *sampler;
	struct cohort_logit_bias *bias; /* [n_bias], NULL: none */
	int32_t n_bias;
};

struct cohort_forest {
	struct cohort_context *ctx;
	uint32_t serial; /* in its handles */
	int32_t n_vocab;
	cohort_seq first_seq;
	int32_t n_nodes, vacant; /* vacant: head of their list, -1: none */
	int32_t n_live;
	struct node *nodes; /* [n_nodes] */
	float *biased; /* [n_vocab]: logits with biases */
	uint8_t *legal; /* [n_vocab] */
	uint64_t call; /* counts calls on many branches */

	/* Of a call on many branches, grown as needed. */
	struct cohort_scratch scratch;
	struct cohort_scatter_item *items;
	struct node **of_item; /* whose the item is */
	float **fresh; /* [fresh_max]: logits that wait for the call's success; spare between calls */
	size_t items_max, of_item_max, fresh_max, n_fresh;
};

/* The node of a handle. NULL: *err says why. `what` is the handle's name in messages. */
struct node *branch_find(
		const struct cohort_forest *f, struct cohort_branch b, const char *what, struct cohort_err *err);
struct cohort_branch branch_handle(const struct cohort_forest *f, int32_t node);
cohort_seq branch_seq(const struct cohort_forest *f, const struct node *n);

/* The node's token, accepted: cannot fail once branch_weigh said yes. */
void branch_count(struct node *n, cohort_token token, float logprob);
/* Whether a token can be accepted, and how likely it is. If so the sampler keeps what accepting it takes; branch_count
 * or branch_let_go have to follow. */
enum cohort_status branch_weigh(
		struct node *n, int32_t n_vocab, cohort_token token, float *logprob, struct cohort_err *err);
void branch_let_go(struct node *n);

#endif
