/* SentencePiece BPE: characters merge into the token with the highest score, what is no token falls to bytes.
 *
 * Invariants
 *  1. Texts and tokens are compared with plain spaces: a token's U+2581 is a space since tok_open, and U+2581 in a
 *     text is one as well (SentencePiece cannot tell them apart either). A token with a space of its own, which no text
 *     could reach in SentencePiece, is not in ids.
 *  2. Only normal, user-defined and unused tokens come out of plain text: never a control token, whatever it spells.
 *  3. A byte that is not part of a valid character is a symbol of its own.
 *  4. Unless some token has a space behind another character, no merge crosses into a following space, so the text is
 *     cut there; each part costs O(n log n) of its own length, times that of the longest token: two neighbours are
 *     looked up by all their bytes. So a token longer than TOK_PIECE_MAX is refused.
 *
 * Refuses to know special tokens and the beginning of the text: the caller says whether to put a space in front. */
#include "tok/tok_impl.h"

#include "base/utf8.h"

#include <string.h>

#define MARK "\xe2\x96\x81" /* U+2581 */

int spm_byte_of(const char *s, size_t n)
{
	if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>' || hex_digit(s[3]) < 0 || hex_digit(s[4]) < 0)
		return -1;
	return hex_digit(s[3]) * 16 + hex_digit(s[4]);
}

enum cohort_status spm_add_byte(struct tok *t, cohort_token id, const char *s, size_t n, struct cohort_err *err)
{
	const int b = spm_byte_of(s, n);

	if (b < 0)
		return err_set(err, COHORT_E_FORMAT,
				"tokenizer.ggml.tokens: token %d has type byte but not the form <0xNN>", (int)id);
	if (t->byte_id[b] < 0)
		t->byte_id[b] = id;
	return COHORT_OK;
}

size_t spm_unmark(const char *s, size_t n, char *out)
{
	size_t o = 0;

	for (size_t i = 0; i < n;) {
		if (n - i >= 3 && memcmp(s + i, MARK, 3) == 0) {
			out[o++] = ' ';
			i += 3;
		} else {
			out[o++] = s[i++];
		}
	}
	return o;
}

size_t spm_text_bytes(unsigned type, const char *s, size_t n, char *out)
{
	if (type == TOK_BYTE && spm_byte_of(s, n) >= 0) {
		out[0] = (char)spm_byte_of(s, n);
		return 1;
	}
	if (type == TOK_NORMAL || type == TOK_USER || type == TOK_UNUSED)
		return spm_unmark(s, n, out);
	if (n)
		memcpy(out, s, n);
	return n;
}

bool spm_inner_space(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && s[i] == ' ')
		i++;
	return i < n && memchr(s + i, ' ', n - i);
}

enum cohort_status spm_init(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	struct gguf_array tokens, scores;
	size_t walk = 0;
	enum cohort_status st = gguf_get_array(g, "tokenizer.ggml.tokens", true, GGUF_STRING, &tokens, err);

	if (!st)
		st = gguf_get_array(g, "tokenizer.ggml.scores", true, GGUF_F32, &scores, err);
	if (st)
		return st;
	t->scores = mem_alloc((size_t)t->n_vocab, sizeof *t->scores);
	if (!t->scores)
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	for (int32_t i = 0; i < t->n_vocab; i++) {
		struct gguf_str text = gguf_array_next_str(&tokens, &walk);
		const char *s = t->bytes + t->at[i];
		size_t n = t->at[i + 1] - t->at[i];
		unsigned type = tok_type(t, i);

		t->scores[i] = gguf_array_f32(&scores, (uint64_t)i);
		if (type == TOK_BYTE && (st = spm_add_byte(t, i, text.s, text.n, err)))
			return st;
		if (type != TOK_NORMAL && type != TOK_USER && type != TOK_UNUSED)
			continue;
		if (n == 0 || memchr(text.s, ' ', text.n))
			continue;
		if (n > TOK_PIECE_MAX)
			return err_set(err, COHORT_E_LIMIT,
					"vocabulary: token %d has %zu bytes; SentencePiece takes at most %d", (int)i, n,
					TOK_PIECE_MAX);
		if (!tok_add_id(t, i))
			return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
		t->inner_space |= spm_inner_space(s, n);
	}
	return COHORT_OK;
}

/* Orders floats as integers, the highest first; what is not a number comes last. */
static uint32_t urgency(float score)
{
	uint32_t u;

	if (score != score)
		return UINT32_MAX;
	score += 0.0f; /* -0 is 0 */
	memcpy(&u, &score, sizeof u);
	return u >> 31 ? u : 0x7fffffff - u;
}

static bool pair(const struct tok *t, const char *text, const struct tok_sym *l, const struct tok_sym *r,
		uint32_t *priority, cohort_token *id)
{
	size_t n = (size_t)l->n + r->n;

	if (n > t->n_longest)
		return false;
	*id = strmap_find(&t->ids, text + l->at, n, -1);
	if (*id < 0)
		return false;
	*priority = urgency(t->scores[*id]);
	return true;
}

enum cohort_status spm_emit_bytes(const struct tok *t, struct tok_out *o, const char *s, size_t n,
		struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	bool all = true;

	for (size_t i = 0; i < n; i++)
		all &= t->byte_id[(uint8_t)s[i]] >= 0;
	/* Half a character in bytes would read as something else: then the whole of it is unknown. */
	if (!all && t->unk >= 0)
		return tok_emit(o, t->unk, err);
	for (size_t i = 0; i < n && !st; i++)
		st = tok_emit_byte(t, o, (uint8_t)s[i], err);
	return st;
}

/* What is still to come of a part. A text that is not as merging needs it (there is a space in front that it does not
 * have, or a mark in it) is copied piece by piece to o->text, so that a long one needs no second copy. */
struct source {
	const char *s; /* [n] */
	size_t n;
	bool prefix, copied;
	size_t n_copied; /* in o->text: the beginning of what is to come, in front of s */
};

/* The bytes of a space at the beginning of s, 0 if there is none. */
static size_t space_at(const char *s, size_t n)
{
	return *s == ' ' ? 1 : n >= 3 && memcmp(s, MARK, 3) == 0 ? 3
								 : 0;
}

static bool has_mark(const char *s, size_t n)
{
	for (const char *p = s; n - (size_t)(p - s) >= 3 && (p = memchr(p, MARK[0], n - (size_t)(p - s) - 2)); p++)
		if (memcmp(p, MARK, 3) == 0)
			return true;
	return false;
}

/* Copies until there are at least n bytes in o->text, or all that there is. */
static bool copy_more(struct tok_out *o, struct source *in, size_t n)
{
	const size_t all = in->n_copied + in->prefix + in->n;

	if (!mem_grow((void **)&o->text, &o->text_max, all < n + 2 ? all : n + 2, 1))
		return false;
	if (in->prefix)
		o->text[in->n_copied++] = ' ';
	in->prefix = false;
	while (in->n_copied < n && in->n > 0) {
		size_t take = n - in->n_copied < in->n ? n - in->n_copied : in->n;
		for (int i = 0; i < 2 && take < in->n && ((uint8_t)in->s[take] & 0xc0) == 0x80; i++)
			take++; /* no mark is cut */
		in->n_copied += spm_unmark(in->s, take, o->text + in->n_copied);
		in->s += take;
		in->n -= take;
	}
	return true;
}

static enum cohort_status part(const struct tok *t, struct tok_out *o, const char *s, size_t n, bool prefix,
		struct cohort_err *err)
{
	struct source in = {.s = s, .n = n, .prefix = prefix, .copied = prefix || has_mark(s, n)};
	struct merge *m = &o->merge;
	enum cohort_status st = COHORT_OK;
	size_t window = merge_window, end;
	uint32_t cp;

	while ((in.n > 0 || in.n_copied > 0) && !st) {
		/* Behind the window merging looks as far as a token goes, and a character may begin in it. */
		if (in.copied && !copy_more(o, &in, window + t->n_longest + 4))
			return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
		const char *text = in.copied ? o->text : in.s;
		const size_t n_text = in.copied ? in.n_copied : in.n;
		m->n_syms = 0;
		for (size_t i = 0, len; i < n_text && i < window; i += len) {
			len = utf8_decode(text + i, n_text - i, &cp);
			if (!len)
				len = 1;
			if (!merge_add(m, i, len, -1))
				return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
		}
		if (!merge_run(m, t, text, n_text, pair, &end))
			return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
		if (end == 0)
			window *= 2;
		for (int32_t i = 0; i >= 0 && m->syms[i].at < end && !st; i = m->syms[i].next) {
			const struct tok_sym *y = &m->syms[i];
			cohort_token id = y->id >= 0 ? y->id : strmap_find(&t->ids, text + y->at, y->n, -1);
			st = id >= 0 ? tok_emit(o, id, err) : spm_emit_bytes(t, o, text + y->at, y->n, err);
		}
		if (in.copied) {
			in.n_copied -= end;
			memmove(o->text, o->text + end, in.n_copied);
		} else {
			in.s += end;
			in.n -= end;
		}
	}
	return st;
}

enum cohort_status spm_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n, bool prefix,
		struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	for (size_t from = 0, to, len; from < n && !st; from = to) {
		to = n;
		if (!t->inner_space) {
			for (to = from; to < n && (len = space_at(s + to, n - to)) > 0;)
				to += len;
			while (to < n && space_at(s + to, n - to) == 0)
				to++;
		}
		st = part(t, o, s + from, to - from, prefix && from == 0, err);
	}
	return st;
}
