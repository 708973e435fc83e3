/* A tree of continuations as text, JSON and a picture. */
#ifndef PROG_TREE_VIEW_H
#define PROG_TREE_VIEW_H

#include "cohort_search.h"
#include "out.h"

enum { TREE_DEPTH_MAX = 64 };

struct tree_view {
	const struct cohort_model *model;
	const struct cohort_tree *tree;
	const char *prompt; /* [n_prompt] */
	size_t n_prompt;
	bool utf8, colors;  /* of the text */
	struct out *o;
};

void tree_view_text(const struct tree_view *v);
void tree_view_json(const struct tree_view *v);
/* 0, or an exit code after saying why. */
int tree_view_svg(const struct tree_view *v);

#endif
