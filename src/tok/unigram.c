/* Unigram: of all ways to cut a text into tokens the one with the highest sum of scores.
 *
 * Invariants
 *  1. Text is prepared as SentencePiece does it: the file's character map, then spaces (at the ends, in runs, in front)
 *     as the file wants them. Only U+0020 is a space by then; U+2581 in a text counts as one that is kept.
 *  2. A character that is no token by itself may be passed as unknown, for the lowest score less a penalty. Unknown
 *     characters in a row are their bytes' tokens if the vocabulary has all of them, and one unknown token otherwise.
 *  3. Of equal sums the one found first stays: the one whose last token begins further left.
 *  4. Unless some token has a space behind another character the text is cut at spaces. The work is the length of the
 *     text times that of the longest token, so a token longer than TOK_PIECE_MAX is refused.
 *  5. A byte that is not part of a valid character counts as U+FFFD.
 *  6. However the map lengthens a text, it does not get longer than the longest text that is taken.
 *
 * Refuses to know special and user-defined tokens, which are taken out before (special.c). */
#include "tok/tok_impl.h"

#include "base/utf8.h"

#include <float.h>
#include <string.h>

#define PENALTY 10.0 /* SentencePiece's, below the lowest score */
#define MARK "\xe2\x96\x81"
#define NO_CHARACTER "\xef\xbf\xbd"

struct unigram_best {
	double score;
	size_t from; /* where the last token of the best way begins */
	cohort_token id; /* -1: an unknown character */
};

/* What plain text may become. SentencePiece never gives out an unused token. */
static bool is_piece(unsigned type)
{
	return type == TOK_NORMAL || type == TOK_USER;
}

static enum cohort_status read_pieces(
		struct tok *t, const struct gguf_array *tokens, struct tok_text *keys, struct cohort_err *err)
{
	size_t n = 0, walk = 0;
	double lowest = DBL_MAX;

	for (int32_t i = 0; i < t->n_vocab; i++) {
		struct gguf_str text = gguf_array_next_str(tokens, &walk);
		size_t len = t->at[i + 1] - t->at[i];
		unsigned type = tok_type(t, i);
		enum cohort_status st = type == TOK_BYTE ? spm_add_byte(t, i, text.s, text.n, err) : COHORT_OK;
		if (st)
			return st;
		if (type == TOK_NORMAL && t->scores[i] < lowest)
			lowest = (double)t->scores[i];
		if (!is_piece(type) || !len || t->scores[i] != t->scores[i])
			continue;
		if (len > TOK_PIECE_MAX)
			return err_set(err, COHORT_E_LIMIT,
					"vocabulary: token %d has %zu bytes; Unigram takes at most %d", i, len,
					TOK_PIECE_MAX);
		keys[n++] = (struct tok_text){t->bytes + t->at[i], (uint32_t)len, i};
		t->inner_space |= spm_inner_space(t->bytes + t->at[i], len);
	}
	t->unk_score = (lowest == DBL_MAX ? 0.0 : lowest) - PENALTY;
	return trie_init(&t->trie, keys, n, err);
}

static enum cohort_status read_charsmap(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	static const char key[] = "tokenizer.ggml.precompiled_charsmap";
	const struct gguf_kv *kv = gguf_find(g, key);
	struct gguf_array a = {0};
	bool is_signed = kv && kv->type == GGUF_ARRAY && kv->arr.type == GGUF_I8;
	enum cohort_status st;

	if (!kv)
		return COHORT_OK;
	st = gguf_get_array(g, key, true, is_signed ? GGUF_I8 : GGUF_U8, &a, err);
	return st ? st : charsmap_init(&t->charsmap, &a, err);
}

enum cohort_status unigram_init(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	struct gguf_array tokens, scores;
	struct tok_text *keys;
	enum cohort_status st = gguf_get_array(g, "tokenizer.ggml.tokens", true, GGUF_STRING, &tokens, err);

	if (!st)
		st = gguf_get_array(g, "tokenizer.ggml.scores", true, GGUF_F32, &scores, err);
	if (!st)
		st = gguf_get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", false, &t->merge_spaces, err);
	if (!st)
		st = read_charsmap(t, g, err);
	if (st)
		return st;
	t->scores = mem_alloc((size_t)t->n_vocab, sizeof *t->scores);
	keys = mem_alloc((size_t)t->n_vocab, sizeof *keys);
	if (!t->scores || !keys) {
		mem_free(keys);
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	}
	for (int32_t i = 0; i < t->n_vocab; i++)
		t->scores[i] = gguf_array_f32(&scores, (uint64_t)i);
	st = read_pieces(t, &tokens, keys, err);
	mem_free(keys);
	return st;
}

/* ---- Preparing the text -------------------------------------------------------------- */

struct prepared {
	const struct tok *t;
	struct tok_out *o;
	size_t n; /* bytes in o->text */
	bool space_due; /* a space goes in front of what comes next */
};

static bool add(struct prepared *p, const char *s, size_t n)
{
	struct tok_out *o = p->o;

	/* A space that is due was a space, or is the one in front. */
	if (!mem_grow((void **)&o->text, &o->text_max, p->n + n + 1, 1))
		return false;
	for (size_t i = 0; i < n;) {
		if (s[i] == ' ' && p->t->merge_spaces) {
			/* Behind text it goes in front of more text; in front of all text it goes. */
			p->space_due |= p->n > 0;
			i++;
			continue;
		}
		if (p->space_due)
			o->text[p->n++] = ' ';
		p->space_due = false;
		if (n - i >= 3 && memcmp(s + i, MARK, 3) == 0) {
			o->text[p->n++] = ' ';
			i += 3;
		} else {
			o->text[p->n++] = s[i++];
		}
	}
	return true;
}

static enum cohort_status prepare(struct prepared *p, const char *s, size_t n, struct cohort_err *err)
{
	uint32_t cp;

	p->space_due = p->t->add_space;
	for (size_t i = 0, len; i < n; i += len) {
		const char *out;
		size_t n_out;
		len = charsmap_find(&p->t->charsmap, s + i, n - i, &out, &n_out);
		if (!len) {
			out = s + i;
			n_out = len = utf8_decode(s + i, n - i, &cp);
		}
		if (!len) {
			out = NO_CHARACTER;
			n_out = 3;
			len = 1;
		}
		if (p->n > TOK_TEXT_MAX)
			return err_set(err, COHORT_E_LIMIT, "tokenise: %zu bytes of text become more than %zu", n,
					TOK_TEXT_MAX);
		if (!add(p, out, n_out))
			return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
	}
	return COHORT_OK;
}

/* ---- The best way ---------------------------------------------------------------------- */

/* The best way's tokens hang together from the end, each at the place where it ends. Turned round, so that each is at
 * the place where it begins, they go out in order. */
static enum cohort_status emit_best(
		const struct tok *t, struct tok_out *o, const char *s, size_t n, struct cohort_err *err)
{
	struct unigram_best *b = o->best;
	enum cohort_status st = COHORT_OK;
	struct unigram_best last = b[n];
	size_t at, to;

	for (at = n; at > 0;) {
		size_t from = last.from;
		struct unigram_best before = b[from];
		b[from] = (struct unigram_best){0, at, last.id};
		at = from;
		last = before;
	}
	for (; at < n && !st; at = to) {
		to = b[at].from;
		if (b[at].id >= 0) {
			st = tok_emit(o, b[at].id, err);
			continue;
		}
		while (to < n && b[to].id < 0)
			to = b[to].from;
		st = spm_emit_bytes(t, o, s + at, to - at, err);
	}
	return st;
}

static void consider(struct unigram_best *b, double score, size_t from, cohort_token id)
{
	if (score > b->score)
		*b = (struct unigram_best){score, from, id};
}

static enum cohort_status part(const struct tok *t, struct tok_out *o, const char *s, size_t n, struct cohort_err *err)
{
	uint32_t cp;

	if (!mem_grow((void **)&o->best, &o->best_max, n + 1, sizeof *o->best))
		return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
	for (size_t i = 0; i <= n; i++)
		o->best[i] = (struct unigram_best){-DBL_MAX, 0, -1};
	o->best[0].score = 0;
	for (size_t i = 0, len; i < n; i += len) {
		double before = o->best[i].score;
		uint32_t node = 0;
		bool whole = false; /* the character is a token */
		len = utf8_decode(s + i, n - i, &cp);
		if (!len)
			len = 1;
		for (size_t k = i; k < n && (node = trie_next(&t->trie, node, (uint8_t)s[k])); k++) {
			cohort_token id = t->trie.nodes[node].id;
			if (id < 0)
				continue;
			whole |= k + 1 - i == len;
			consider(&o->best[k + 1], before + (tok_type(t, id) == TOK_USER ? 0.0 : (double)t->scores[id]),
					i, id);
		}
		if (!whole)
			consider(&o->best[i + len], before + t->unk_score, i, -1);
	}
	return emit_best(t, o, s, n, err);
}

enum cohort_status unigram_encode(
		const struct tok *t, struct tok_out *o, const char *s, size_t n, struct cohort_err *err)
{
	struct prepared p = {.t = t, .o = o};
	enum cohort_status st = prepare(&p, s, n, err);

	for (size_t from = 0, to; from < p.n && !st; from = to) {
		const char *text = o->text;
		to = p.n;
		if (!t->inner_space) {
			for (to = from; to < p.n && text[to] == ' ';)
				to++;
			while (to < p.n && text[to] != ' ')
				to++;
		}
		st = part(t, o, text + from, to - from, err);
	}
	return st;
}
