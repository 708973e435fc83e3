/* cohort.h's models and tokens: opening in the order file, vocabulary, weights, and taking apart in reverse. */
#include "context/impl.h"

#include "base/fp.h"
#include "base/mem.h"
#include "base/params.h"
#include "quant/quant.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cohort_model_params_init(struct cohort_model_params *params)
{
	if (params)
		*params = (struct cohort_model_params){.struct_size = sizeof *params};
}

static char *copy_meta(const struct gguf *g, const char *key)
{
	const struct gguf_kv *kv = gguf_find(g, key);
	return kv && kv->type == GGUF_STRING ? mem_strndup(kv->str.s, kv->str.n) : mem_strndup("", 0);
}

/* Warnings stand one behind the other; the last is cut when there is no room. */
__attribute__((format(printf, 2, 3)))
static void add_note(struct cohort_model *m, const char *fmt, ...)
{
	size_t n = strlen(m->note);
	va_list ap;

	if (n)
		n += (size_t)snprintf(m->note + n, sizeof m->note - n, "; ");
	if (n >= sizeof m->note)
		return;
	va_start(ap, fmt);
	vsnprintf(m->note + n, sizeof m->note - n, fmt, ap);
	va_end(ap);
}

/* Loading in stages that take about as long: each has its share of the caller's 0..1. */
struct stages {
	bool (*progress)(float, void *);
	void *user;
	int n, i;
};

static bool stage_progress(float done, void *user)
{
	const struct stages *s = user;
	return s->progress(((float)s->i + done) / (float)s->n, s->user);
}

/* Weights that cannot be locked serve as well, a little slower when the system takes their pages away: a warning. */
static enum cohort_status lock_weights(struct cohort_model *m, bool (*progress)(float, void *), struct stages *s,
		struct cohort_err *err)
{
	const uint64_t limit = map_lock_limit();

	for (size_t i = 0; i < m->n_devices; i++) {
		struct be_lock lock;
		const enum cohort_status st = m->devices[i].ops->weights_lock(
				m->devices[i].weights, progress, s, &lock, err);
		if (st)
			return st;
		if (lock.error)
			add_note(m, "the weights (%.1f MiB) are not locked in memory: %s",
					(double)lock.n_bytes / 1048576.0, strerror(lock.error));
		if (lock.error && limit != UINT64_MAX)
			add_note(m, "the limit is %llu KiB (ulimit -l)", (unsigned long long)limit / 1024);
	}
	return COHORT_OK;
}

/* The pages of rows that a device has copied, or that were only read. */
static void give_back(void *user, const struct model_weight *w, size_t from, size_t to, bool again)
{
	const struct gguf *g = user;
	(again ? gguf_drop : gguf_forget)(g, w->tensor, w->offset + (uint64_t)from * w->row_bytes,
			(uint64_t)(to - from) * w->row_bytes);
}

static enum cohort_status open_weights(struct cohort_model *m, const struct cohort_model_params *p,
		enum be_repack repack, bool (*progress)(float, void *), struct stages *s, struct cohort_err *err)
{
	enum cohort_status st = context_divide(m, err);

	for (size_t i = 0; i < m->n_devices && !st; i++) {
		struct context_device *d = &m->devices[i];
		st = d->ops->weights_open(&d->weights,
				&(struct be_source){
					m->model.weights, m->model.n_weights, d->wanted, give_back, &m->gguf},
				&(struct be_weights_params){.device = d->device,
					.level = d->level,
					.repack = repack,
					.n_threads = (size_t)p->n_threads,
					.progress = progress,
					.progress_user = s},
				err);
	}
	return st;
}

static enum cohort_status open_parts(struct cohort_model *m, const char *path, const struct cohort_model_params *p,
		struct cohort_err *err)
{
	/* Reading a copy takes time; so does locking what is mapped, as it reads the file. */
	const bool lock = p->mlock && !p->vocab_only;
	struct stages s = {p->progress, p->progress_user, .n = 1 + (p->no_mmap && !p->vocab_only) + lock};
	/* A copy is repacked while loading, as its pages go with it; what is to be locked must be there. */
	const enum be_repack repack = p->file_layout         ? BE_REPACK_NEVER
			: p->no_mmap || lock ? BE_REPACK_NOW
						     : BE_REPACK_USED;
	bool (*progress)(float, void *) = p->progress ? stage_progress : NULL;
	enum cohort_status st = p->no_mmap ? gguf_open_copy(&m->gguf, path, &(struct gguf_copy){progress, &s},
							     quant_size, err)
					   : gguf_open(&m->gguf, path, quant_size, err);
	if (st)
		return st;
	s.i += p->no_mmap;
	m->arch = copy_meta(&m->gguf, "general.architecture");
	m->name = copy_meta(&m->gguf, "general.name");
	if (!m->arch || !m->name)
		return err_set(err, COHORT_E_MEMORY, "%s: out of memory", path);

	struct gguf_str tok = {"none", 4};
	st = gguf_get_str(&m->gguf, "tokenizer.ggml.model", false, &tok, err);
	if (!st && !(tok.n == 8 && memcmp(tok.s, "no_vocab", 8) == 0) && !(tok.n == 4 && memcmp(tok.s, "none", 4) == 0))
		st = tok_open(&m->tok, &m->gguf, err);
	if (!st && !p->vocab_only && m->gguf.n_tensors == 0)
		st = err_set(err, COHORT_E_UNSUPPORTED, "%s",
				m->tok ? "has no weights: it is a vocabulary, good for tokenising only"
				       : "has no weights");
	if (!st && !p->vocab_only)
		st = model_init(&m->model, &m->gguf, m->tok ? (uint32_t)tok_n_vocab(m->tok) : 0, err);
	if (!st && !p->vocab_only && !model_is_checked(&m->model))
		add_note(m, "architecture %s is unchecked: no independent implementation has confirmed its numbers",
				m->arch);
	if (!st && !p->vocab_only)
		st = open_weights(m, p, repack, progress, &s, err);
	if (!st)
		st = context_open_adapters(m, p, err);
	s.i++;
	if (!st && lock)
		st = lock_weights(m, progress, &s, err);
	if (!st && m->tok && *tok_note(m->tok))
		add_note(m, "%s", tok_note(m->tok));
	if (st)
		err_prefix(err, "%s", path);
	return st;
}

enum cohort_status cohort_model_open(const char *path, const struct cohort_model_params *params,
		struct cohort_model **out, struct cohort_err *err)
{
	struct cohort_model_params p;
	enum cohort_status st;
	struct fp_mode fp;

	cohort_model_params_init(&p);
	if (!path || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", path ? "out" : "path");
	if (params && !params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG, "model parameters were not initialised by cohort_model_params_init");
	if (err_range(err, "n_threads", p.n_threads, 0, 1024))
		return COHORT_E_ARG;
	struct cohort_model *m = mem_zalloc(1, sizeof *m);
	if (!m)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	st = context_find_devices(m, p.device, p.isa, err);
	if (st) {
		mem_free(m);
		return st;
	}
	for (size_t d = 0; d < m->n_devices; d++) {
		const struct be_ops *ops = m->devices[d].ops;
		for (size_t i = m->devices[d].level + 1; !p.isa && i < ops->level_count(); i++)
			if (ops->level_failed(i))
				add_note(m, "instruction set level %s failed its self-test (%s); %s is used instead",
						ops->level_name(i), ops->level_failed(i),
						ops->level_name(m->devices[d].level));
	}
	m->vocab_only = p.vocab_only;
	fp_enter(&fp);
	st = open_parts(m, path, &p, err);
	fp_leave(&fp);
	if (st) {
		cohort_model_free(m);
		return st;
	}
	*out = m;
	return COHORT_OK;
}

void cohort_model_free(struct cohort_model *m)
{
	if (m) {
		context_free_adapters(m);
		for (size_t i = 0; i < m->n_devices; i++) {
			if (m->devices[i].weights)
				m->devices[i].ops->weights_free(m->devices[i].weights);
			mem_free(m->devices[i].wanted);
		}
		model_release(&m->model);
		tok_free(m->tok);
		mem_free(m->arch);
		mem_free(m->name);
		gguf_release(&m->gguf);
		mem_free(m);
	}
}

/* Layers that see all positions have window 0. */
static int32_t narrowest_window(const struct model *m)
{
	size_t least = 0;
	for (uint32_t l = 0; m->layers && l < m->hp.n_layer; l++)
		if (m->layers[l].window && (!least || m->layers[l].window < least))
			least = m->layers[l].window;
	return least < INT32_MAX ? (int32_t)least : INT32_MAX;
}

static uint64_t packed_bytes(const struct cohort_model *m)
{
	uint64_t n = 0;

	for (size_t i = 0; i < m->n_devices; i++)
		n += m->devices[i].weights ? m->devices[i].weights->packed_bytes : 0;
	return n;
}

void cohort_model_info_get(const struct cohort_model *m, struct cohort_model_info *info)
{
	if (!info)
		return;
	if (!m) {
		*info = (struct cohort_model_info){.struct_size = sizeof *info, .arch = "", .name = "", .isa = "",
				.device = "", .tokenizer = "", .pretokenizer = "", .note = ""};
		return;
	}
	const struct model_hparams *h = &m->model.hp;

	*info = (struct cohort_model_info){
		.struct_size = sizeof *info,
		.arch = m->arch,
		.name = m->name,
		.isa = m->devices[0].ops->level_name(m->devices[0].level),
		.tokenizer = !m->tok ? "" : tok_kind_name(tok_get_kind(m->tok)),
		.pretokenizer = m->tok ? tok_pre(m->tok) : "",
		.note = m->note,
		.n_vocab = m->tok ? tok_n_vocab(m->tok) : (int32_t)h->n_vocab,
		.n_embd = (int32_t)h->n_embd,
		.n_layer = (int32_t)h->n_layer,
		.n_head = (int32_t)h->n_head,
		.n_head_kv = (int32_t)h->n_head_kv,
		.n_ff = (int32_t)h->n_ff,
		.head_k = (int32_t)h->head_k,
		.head_v = (int32_t)h->head_v,
		.n_ctx_train = (int32_t)h->n_ctx_train,
		.n_params = m->model.n_params,
		.weight_bytes = m->model.weight_bytes,
		.packed_bytes = packed_bytes(m),
		.encoder = h->encoder,
		.recurrent = model_is_recurrent(&m->model),
		.pooling = h->pooling,
		.n_window = narrowest_window(&m->model),
		.device = m->device_names,
	};
}

/* ---- Tokens ---- */

enum cohort_status cohort_tokenize(const struct cohort_model *m, const char *text, size_t n_bytes, unsigned flags,
		cohort_token *out, size_t n_max, size_t *n_out, struct cohort_err *err)
{
	cohort_token *ids = NULL;
	size_t n = 0;

	if (!m || !n_out || (n_bytes && !text) || (n_max && !out))
		return err_set(err, COHORT_E_ARG, "%s is NULL",
				!m                                 ? "model"
						: !n_out           ? "n_out"
						: n_bytes && !text ? "text"
								   : "out");
	if (!m->tok)
		return err_set(err, COHORT_E_UNSUPPORTED, "the model has no tokeniser");
	/* Straight there, where it must fit: a long text takes half the memory. */
	if (n_max >= cohort_tokenize_bound(n_bytes) && tok_get_kind(m->tok) != TOK_UNIGRAM)
		return tok_encode_into(m->tok, text, n_bytes, flags, out, n_max, n_out, err);
	enum cohort_status st = tok_encode(m->tok, text, n_bytes, flags, &ids, &n, err);
	if (st)
		return st;
	*n_out = n;
	if (n > n_max)
		st = err_set(err, COHORT_E_LIMIT, "%zu tokens, but room for %zu", n, n_max);
	else if (n)
		memcpy(out, ids, n * sizeof *ids);
	mem_free(ids);
	return st;
}

/* A byte gives at most one token. SPM adds a space in front of the text and between a special token and the text behind
 * it, so at most one per two bytes; BOS and EOS are the rest. */
size_t cohort_tokenize_bound(size_t n_bytes)
{
	size_t n;
	/* SPM puts a space in front of each text between special tokens; form C has up to three times the bytes. */
	return size_mul(n_bytes, 3, &n) && size_add(n, 8, &n) ? n : SIZE_MAX;
}

size_t cohort_tokenize_least(const struct cohort_model *m, size_t n_bytes)
{
	return m && m->tok ? tok_least(m->tok, n_bytes) : 0;
}

const char *cohort_token_bytes(const struct cohort_model *m, cohort_token token, bool special, size_t *n_bytes)
{
	return m && m->tok && n_bytes ? tok_bytes(m->tok, token, special, n_bytes) : NULL;
}

enum cohort_status cohort_token_piece(const struct cohort_model *m, cohort_token token, bool leading_space,
		bool special, char *out, size_t n_max, size_t *n_out, struct cohort_err *err)
{
	if (!m || !n_out || (n_max && !out))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !m ? "model" : !n_out ? "n_out" : "out");
	if (!m->tok)
		return err_set(err, COHORT_E_UNSUPPORTED, "the model has no tokeniser");
	size_t n;
	const char *s = tok_bytes(m->tok, token, special, &n);
	if (!s)
		return err_rule(err, COHORT_E_ARG, "token", -1, -1, tok_n_vocab(m->tok), token,
				"token %d is not in the vocabulary of %d", token, tok_n_vocab(m->tok));
	if (!leading_space && n && s[0] == ' ') {
		s++;
		n--;
	}
	*n_out = n;
	if (n > n_max)
		return err_set(err, COHORT_E_LIMIT, "token %d has %zu bytes, the buffer %zu", token, n, n_max);
	if (n)
		memcpy(out, s, n);
	return COHORT_OK;
}

enum cohort_status cohort_detokenize(const struct cohort_model *m, const cohort_token *tokens, size_t n_tokens,
		bool special, char *out, size_t n_max, size_t *n_out, struct cohort_err *err)
{
	if (!m || !n_out || (n_tokens && !tokens) || (n_max && !out))
		return err_set(err, COHORT_E_ARG, "%s is NULL",
				!m                                    ? "model"
						: !n_out              ? "n_out"
						: n_tokens && !tokens ? "tokens"
								      : "out");
	if (!m->tok)
		return err_set(err, COHORT_E_UNSUPPORTED, "the model has no tokeniser");
	return tok_detokenize(m->tok, tokens, n_tokens, special, out, n_max, n_out, err);
}

bool cohort_token_is_eog(const struct cohort_model *m, cohort_token token)
{
	return m && m->tok && tok_is_eog(m->tok, token);
}
bool cohort_token_is_control(const struct cohort_model *m, cohort_token token)
{
	return m && m->tok && tok_is_control(m->tok, token);
}
cohort_token cohort_token_bos(const struct cohort_model *m)
{
	return m && m->tok ? tok_bos(m->tok) : -1;
}
cohort_token cohort_token_eos(const struct cohort_model *m)
{
	return m && m->tok ? tok_eos(m->tok) : -1;
}

void cohort_detok_init(struct cohort_detok *d, const struct cohort_model *m, bool special, bool at_start)
{
	if (d)
		*d = (struct cohort_detok){.model = m, .special = special, .at_start = at_start};
}

enum cohort_status cohort_detok_push(struct cohort_detok *d, cohort_token token, char *out, size_t n_max, size_t *n_out,
		struct cohort_err *err)
{
	if (!d || !d->model || !n_out || (n_max && !out))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !d || !d->model ? "decoder" : !n_out ? "n_out" : "out");
	if (!d->model->tok)
		return err_set(err, COHORT_E_UNSUPPORTED, "the model has no tokeniser");
	return tok_detok_push(d->model->tok, d, token, out, n_max, n_out, err);
}

size_t cohort_detok_flush(struct cohort_detok *d, char out[4])
{
	return d && out ? tok_detok_flush(d, out) : 0;
}
