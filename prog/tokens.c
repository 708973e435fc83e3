/* Texts and tokens of commands.
 *
 * What holds:
 *  1. Any bytes are a text. A list of ids is checked to its last byte before anybody uses it, and what is wrong is said
 *     with its place.
 *  2. Nothing is changed when a call fails.
 *
 * It knows no file: callers read them. */
#include "tokens.h"

#include "common.h"

#include "base/err.h"
#include "base/mem.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

int text_tokens(const char *prog, const struct cohort_model *m, const char *text, size_t n_bytes, unsigned flags,
		cohort_token **out, size_t *n_out)
{
	size_t room = cohort_tokenize_bound(n_bytes), n = 0;
	cohort_token *ids = mem_alloc(room, sizeof *ids);
	struct cohort_err err;
	enum cohort_status st = COHORT_OK;

	if (ids)
		st = cohort_tokenize(m, text, n_bytes, flags, ids, room, &n, &err);
	if (ids && st == COHORT_E_LIMIT && n > room) { /* a character map that makes texts longer */
		mem_free(ids);
		room = n;
		ids = mem_alloc(room, sizeof *ids);
		if (ids)
			st = cohort_tokenize(m, text, n_bytes, flags, ids, room, &n, &err);
	}
	if (!ids) {
		fprintf(stderr, "%s: out of memory for %zu bytes of text\n", prog, n_bytes);
		return EXIT_RUN;
	}
	if (st) {
		mem_free(ids);
		return fail(prog, &err);
	}
	*out = ids;
	*n_out = n;
	return 0;
}

int added_tokens_get(const char *prog, const struct cohort_model *m, struct added_tokens *added)
{
	cohort_token *ids = NULL;
	size_t n = 0;
	const int rc = text_tokens(prog, m, "", 0, 0, &ids, &n);

	if (rc)
		return rc;
	added->front = n > 0 && ids[0] == cohort_token_bos(m) ? ids[0] : -1;
	added->n_behind = n - (added->front >= 0);
	mem_free(ids);
	return 0;
}

static bool separates(char c)
{
	return c != '\0' && strchr(" \t\r\n\v\f,[]", c);
}

int parse_ids(const char *prog, int32_t n_vocab, const char *where, const char *text, size_t n, size_t offset,
		struct id_list *list)
{
	size_t count = list->n;

	for (size_t i = 0; i < n;) {
		if (separates(text[i])) {
			i++;
			continue;
		}
		const size_t from = i;
		int64_t v = 0;
		bool good = true;
		for (; i < n && !separates(text[i]); i++) {
			good = good && text[i] >= '0' && text[i] <= '9';
			if (good && v <= INT32_MAX)
				v = 10 * v + (text[i] - '0');
		}
		if (!good || v >= n_vocab) {
			char show[ERR_SHOW_BYTES];
			fprintf(stderr, "%s: %s, byte %zu: '%s' is no token id; ids are 0 to %d\n", prog, where,
					offset + from, err_show(show, text + from, i - from), n_vocab - 1);
			return EXIT_FILE;
		}
		if (!mem_grow((void **)&list->ids, &list->n_max, count + 1, sizeof *list->ids))
			return out_of_memory(prog);
		list->ids[count++] = (cohort_token)v;
	}
	list->n = count;
	return 0;
}
