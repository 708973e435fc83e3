/* Byte-level BPE: the bytes of each word merge by the rank of the pair. Some vocabularies (pretok_rule.chars) merge
 * characters instead and fall back to bytes for those they do not have.
 *
 * Invariants
 *  1. Bytes are bytes here: GPT-2's printable stand-ins for them are undone once, when the vocabulary is read.
 *  2. The merge table's sides and results are tokens; a merge with one that is not is left out.
 *  3. Equal pairs keep their first rank, equal texts their first token; properly written tokens come before those whose
 *     text is not made of stand-ins.
 *  4. A byte that is not part of a valid character becomes its own token and merges with nothing.
 *  5. Where characters merge, U+2581 and the space are one, in vocabulary, merges and text, as in SentencePiece.
 *
 * Refuses to know what a word is (pretok.c) and what a special token is (special.c). */
#include "tok/tok_impl.h"

#include "base/utf8.h"

#include <string.h>

/* GPT-2 writes the printable bytes of Latin-1 as themselves and the others, in order, as U+0100 and up. */
static bool printable(unsigned b)
{
	return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

/* The byte a stand-in means, or -1. The 68 bytes that are not printable: 0x00-0x20, 0x7f-0xa0, 0xad. */
static int stand_in(uint32_t cp)
{
	if (cp < 0x100)
		return printable(cp) ? (int)cp : -1;
	cp -= 0x100;
	if (cp <= 0x20)
		return (int)cp;
	cp -= 0x21;
	if (cp <= 0x21)
		return (int)cp + 0x7f;
	return cp == 0x22 ? 0xad : -1;
}

/* False when the text is not made of stand-ins; *n_out is then untouched. */
static bool unmap(const char *s, size_t n, char *out, size_t *n_out)
{
	size_t o = 0;
	uint32_t cp;

	for (size_t i = 0; i < n;) {
		size_t len = utf8_decode(s + i, n - i, &cp);
		int b = len ? stand_in(cp) : -1;
		if (b < 0)
			return false;
		out[o++] = (char)b;
		i += len;
	}
	*n_out = o;
	return true;
}

size_t bpe_text_bytes(unsigned type, const char *s, size_t n, char *out, bool *mapped)
{
	size_t len;

	*mapped = (type == TOK_NORMAL || type == TOK_UNUSED || type == TOK_BYTE) && unmap(s, n, out, &len);
	if (*mapped)
		return len;
	if (n)
		memcpy(out, s, n);
	return n;
}

/* ---- The merge table -------------------------------------------------------- */

static size_t slot_of(const struct tok *t, uint64_t key)
{
	uint64_t h = (key ^ t->ids.seed) * 0x9e3779b97f4a7c15u;
	h ^= h >> 32;
	h *= 0xd1342543de82ef95u;
	size_t mask = t->n_pair_slots - 1, i = (size_t)(h >> 32) & mask;

	while (t->pairs[i].id >= 0 && t->pairs[i].pair != key)
		i = (i + 1) & mask;
	return i;
}

static uint64_t pair_key(cohort_token l, cohort_token r)
{
	return (uint64_t)(uint32_t)l << 32 | (uint32_t)r;
}

static bool pair(const struct tok *t, const char *text, const struct tok_sym *l, const struct tok_sym *r,
		uint32_t *priority, cohort_token *id)
{
	(void)text;
	if (l->id < 0 || r->id < 0)
		return false;
	const struct tok_pair *p = &t->pairs[slot_of(t, pair_key(l->id, r->id))];
	if (p->id < 0)
		return false;
	*priority = p->rank;
	*id = p->id;
	return true;
}

/* A side of a merge as bytes; false when it cannot be that of any token. */
static bool side(const struct tok *t, const char *s, size_t n, char *out, size_t *n_out)
{
	if (!t->pretok.rule->chars)
		return unmap(s, n, out, n_out);
	*n_out = spm_unmark(s, n, out);
	return true;
}

/* One merge, "left right"; buf has room for the text. */
static void add_merge(struct tok *t, struct gguf_str text, const char *space, uint32_t rank, char *buf)
{
	size_t n_left = (size_t)(space - text.s), n_l, n_r;

	if (!side(t, text.s, n_left, buf, &n_l) || !side(t, space + 1, text.n - n_left - 1, buf + n_l, &n_r))
		return;
	cohort_token l = strmap_find(&t->ids, buf, n_l, -1);
	cohort_token r = strmap_find(&t->ids, buf + n_l, n_r, -1);
	cohort_token id = strmap_find(&t->ids, buf, n_l + n_r, -1);
	if (l < 0 || r < 0 || id < 0)
		return;
	struct tok_pair *p = &t->pairs[slot_of(t, pair_key(l, r))];
	if (p->id < 0)
		*p = (struct tok_pair){pair_key(l, r), rank, id};
}

static enum cohort_status read_merges(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	struct gguf_array merges;
	char *buf = NULL;
	size_t walk = 0, buf_max = 0, n_slots = 16;
	enum cohort_status st = gguf_get_array(g, "tokenizer.ggml.merges", true, GGUF_STRING, &merges, err);

	if (st)
		return st;
	/* Every merge takes 8 bytes and more of the file, so doubling cannot overflow; the rank has 32 bits. */
	if (merges.n >= UINT32_MAX)
		return err_set(err, COHORT_E_LIMIT, "tokenizer.ggml.merges: %llu merges", (unsigned long long)merges.n);
	while (n_slots < merges.n + merges.n / 2 + 1)
		n_slots *= 2;
	t->pairs = mem_alloc(n_slots, sizeof *t->pairs);
	if (!t->pairs)
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	t->n_pair_slots = n_slots;
	for (size_t i = 0; i < n_slots; i++)
		t->pairs[i].id = -1;
	for (uint64_t i = 0; i < merges.n; i++) {
		struct gguf_str text = gguf_array_next_str(&merges, &walk);
		const char *space = text.n > 1 ? memchr(text.s + 1, ' ', text.n - 1) : NULL;
		if (!space || space + 1 == text.s + text.n) {
			st = err_set(err, COHORT_E_FORMAT,
					"tokenizer.ggml.merges: merge %llu is not of the form \"left right\"",
					(unsigned long long)i);
			break;
		}
		if (!mem_grow((void **)&buf, &buf_max, text.n, 1)) {
			st = err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
			break;
		}
		add_merge(t, text, space, (uint32_t)i, buf);
	}
	mem_free(buf);
	return st;
}

/* Where characters merge a token is its text, but for bytes. */
static enum cohort_status read_char_ids(struct tok *t, const struct gguf_array *tokens, struct cohort_err *err)
{
	size_t walk = 0;

	for (int32_t i = 0; i < t->n_vocab; i++) {
		struct gguf_str text = gguf_array_next_str(tokens, &walk);
		size_t n = t->at[i + 1] - t->at[i];
		unsigned type = tok_type(t, i);
		int b = spm_byte_of(text.s, text.n);
		/* Some files have them as plain tokens. */
		if (b >= 0 && (type == TOK_BYTE || type == TOK_NORMAL || type == TOK_USER)) {
			if (t->byte_id[b] < 0 || type == TOK_BYTE)
				t->byte_id[b] = i;
			continue;
		}
		if (n == 0 || type == TOK_CONTROL || type == TOK_UNKNOWN || type == TOK_BYTE)
			continue;
		if (!tok_add_id(t, i))
			return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	}
	return COHORT_OK;
}

/* Two rounds, for invariant 3. Control and unknown tokens never come out of plain text. */
static enum cohort_status read_ids(struct tok *t, const struct gguf_array *tokens, char *buf, struct cohort_err *err)
{
	for (int round = 0; round < 2; round++) {
		size_t walk = 0;
		for (int32_t i = 0; i < t->n_vocab; i++) {
			struct gguf_str text = gguf_array_next_str(tokens, &walk);
			size_t n = t->at[i + 1] - t->at[i];
			unsigned type = tok_type(t, i);
			bool mapped;
			if (n == 0 || type == TOK_CONTROL || type == TOK_UNKNOWN)
				continue;
			bpe_text_bytes(type, text.s, text.n, buf, &mapped);
			if (mapped == (round != 0))
				continue;
			if (!tok_add_id(t, i))
				return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
		}
	}
	return COHORT_OK;
}

enum cohort_status bpe_init(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	struct gguf_array tokens;
	char *buf;
	size_t longest = 0, walk = 0;
	enum cohort_status st = gguf_get_array(g, "tokenizer.ggml.tokens", true, GGUF_STRING, &tokens, err);

	if (st)
		return st;
	if (t->pretok.rule->chars) {
		st = read_char_ids(t, &tokens, err);
		return st ? st : read_merges(t, g, err);
	}
	for (int32_t i = 0; i < t->n_vocab; i++) {
		struct gguf_str text = gguf_array_next_str(&tokens, &walk);
		if (text.n > longest)
			longest = text.n;
	}
	buf = mem_alloc(longest, 1);
	if (!buf)
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	st = read_ids(t, &tokens, buf, err);
	mem_free(buf);
	if (st)
		return st;
	for (unsigned b = 0; b < 256; b++) {
		char c = (char)b;
		t->byte_id[b] = strmap_find(&t->ids, &c, 1, -1);
	}
	return read_merges(t, g, err);
}

/* ---- Encoding ------------------------------------------------------------------ */

struct words {
	const struct tok *t;
	struct tok_out *o;
	bool stays; /* the words lie in a text that stays long enough to remember them */
};

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
}

/* The whole word, when the rule takes one that is a token as it is; -1 otherwise. */
static cohort_token whole(const struct tok *t, const char *s, size_t n)
{
	/* A vocabulary of characters has its runs of line ends as tokens that no merge leads to. */
	if (n > t->n_longest || !(t->pretok.rule->ignore_merges || (t->pretok.rule->chars && s[0] == '\n')))
		return -1;
	return strmap_find(&t->ids, s, n, -1);
}

static enum cohort_status merge_word(const struct tok *t, struct tok_out *o, const char *s, size_t n,
		struct cohort_err *err)
{
	const bool chars = t->pretok.rule->chars;
	struct merge *m = &o->merge;
	enum cohort_status st = COHORT_OK;
	uint32_t cp;

	for (size_t from = 0, end, window = merge_window; from < n && !st; from = end) {
		m->n_syms = 0;
		for (size_t i = from, len; i < n && i - from < window; i += len) {
			len = chars ? utf8_decode(s + i, n - i, &cp) : 1;
			cohort_token id = chars ? strmap_find(&t->ids, s + i, len, -1) : t->byte_id[(uint8_t)s[i]];
			if (!merge_add(m, i, len, id))
				return no_memory(err);
		}
		if (!merge_run(m, t, s, n, pair, &end))
			return no_memory(err);
		if (end == from)
			window *= 2;
		for (int32_t i = 0; i >= 0 && m->syms[i].at < end && !st; i = m->syms[i].next) {
			const struct tok_sym *y = &m->syms[i];
			st = y->id >= 0 ? tok_emit(o, y->id, err) : spm_emit_bytes(t, o, s + y->at, y->n, err);
		}
	}
	return st;
}

static enum cohort_status word(void *user, const char *s, size_t n, struct cohort_err *err)
{
	const struct words *w = user;
	struct tok_out *o = w->o;
	struct cache_word *seen = NULL;
	bool found = false;
	enum cohort_status st;
	cohort_token id;

	if (w->stays)
		seen = cache_find(&o->cache, s, n, &found);
	if (found) {
		if (!mem_grow((void **)&o->ids, &o->n_max, o->n + seen->n_ids, sizeof *o->ids))
			return no_memory(err);
		memcpy(o->ids + o->n, o->ids + seen->at, seen->n_ids * sizeof *o->ids);
		o->n += seen->n_ids;
		return COHORT_OK;
	}
	size_t at = o->n;
	id = whole(w->t, s, n);
	st = id >= 0 ? tok_emit(o, id, err) : merge_word(w->t, o, s, n, err);
	if (!st && seen) {
		seen->s = s;
		seen->at = at;
		seen->n_ids = (uint32_t)(o->n - at);
	}
	return st;
}

/* A stretch of valid characters. */
static enum cohort_status stretch(struct words *w, const char *s, size_t n, struct cohort_err *err)
{
	const struct pretok_rule *rule = w->t->pretok.rule;
	struct tok_out *o = w->o;
	const char *text = s;
	enum cohort_status st = COHORT_OK;

	w->stays = true;
	if (rule->nfc) {
		bool may = cache_borrow(&o->cache, n);
		st = norm_nfc(&o->norm, s, n, &text, &n, err);
		w->stays = text == s || may;
	} else if (rule->chars) {
		/* Its words are lines, which hardly come twice. */
		w->stays = false;
		if (!mem_grow((void **)&o->text, &o->text_max, n, 1))
			return no_memory(err);
		n = spm_unmark(s, n, o->text);
		text = o->text;
	}
	return st ? st : pretok_split(&w->t->pretok, &o->run, text, n, word, w, err);
}

enum cohort_status bpe_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n, struct cohort_err *err)
{
	struct words w = {.t = t, .o = o};
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < n && !st;) {
		size_t len = utf8_valid_prefix(s + i, n - i);
		if (len) {
			st = stretch(&w, s + i, len, err);
			i += len;
		} else {
			st = tok_emit_byte(t, o, (uint8_t)s[i++], err);
		}
	}
	return st;
}
