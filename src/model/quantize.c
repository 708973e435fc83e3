/* A GGUF file in another format: every key is copied, every tensor is converted or copied, piece by piece.
 *
 * Invariants
 *  1. The plan comes first: what each tensor becomes is settled, and everything that can be refused without reading
 *     weights is refused, before a file is made.
 *  2. Chunks have a fixed number of elements, a multiple of every block, and a block depends on its own floats alone:
 *     threads change nothing in the bytes. Sums of errors are taken chunk by chunk in order, so those are the same too.
 *  3. What is not finite is never written: every tensor is looked at, copied ones included.
 *  4. Memory does not depend on the size of the model, but for its keys and its list of tensors: pages of the input are
 *     let go when they are done.
 *  5. The input is only read, and is never the file that is written.
 *
 * Refuses to know bit patterns (quant), how the file is written (gguf_write.c), and which role gets which format
 * (mix.c): here names become roles. */
#include "cohort_tools.h"

#include "base/err.h"
#include "base/file.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/params.h"
#include "base/pool.h"
#include "gguf/gguf.h"
#include "gguf/gguf_write.h"
#include "model/mix.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHUNK ((size_t)8192)        /* elements one thread converts at a time; whole blocks of every format */
#define PIECE_CHUNKS ((size_t)128)  /* converted together, then written: 4 MiB at most */
#define NAME_BYTES 128              /* more than a tensor's name may have */
#define BY_MIX UINT32_MAX

typedef unsigned long long ull; /* for %llu, whatever uint64_t is */

struct part {
	const struct gguf_tensor *t;
	char name[NAME_BYTES];  /* cut, for looking at; t has the whole one */
	int64_t layer;          /* -1: of no layer */
	enum mix_role role;
	bool stays;
	uint32_t wanted, type;  /* type: wanted, or what its rows allow */
	uint64_t n_elems, n_bytes;
};

struct job {
	const char *in, *out;
	struct cohort_quantize_params p;
	const struct mix *mix;
	struct mix_model mm;
	uint32_t embd_type, output_type; /* as asked for, or BY_MIX */
	struct gguf g;
	struct part *parts; /* [g.n_tensors], in file order */
	struct gguf_writer *w;
	struct cohort_quantize_result r;
	uint64_t n_done; /* elements */
};

void cohort_quantize_params_init(struct cohort_quantize_params *p)
{
	if (p)
		*p = (struct cohort_quantize_params){.struct_size = sizeof *p, .type = "Q4_K_M"};
}

static enum cohort_status no_memory(const struct job *j, struct cohort_err *err)
{
	return err_in(err, j->in, err_set(err, COHORT_E_MEMORY, "out of memory or threads"));
}

/* ---- Arguments ---- */

/* A format by its name, upper or lower case. NULL means that the mix decides. */
static enum cohort_status parse_format(const char *what, const char *name, uint32_t *out, struct cohort_err *err)
{
	char known[256] = "";
	size_t n = 0;

	*out = BY_MIX;
	if (!name)
		return COHORT_OK;
	for (uint32_t i = 0; i < QUANT_N_TYPES; i++) {
		const struct quant_format *f = quant_format_get(i);
		if (!f)
			continue;
		if (strcasecmp(f->name, name) == 0) {
			*out = i;
			return COHORT_OK;
		}
		if (n < sizeof known)
			n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", f->name);
	}
	return err_set(err, COHORT_E_ARG, "%s: format '%.40s' is not known; known: %s", what, name, known);
}

/* `in` is what is read, or a part of it. */
static enum cohort_status check_out(const struct job *j, const char *in, struct cohort_err *err)
{
	if (!j->out || !file_same(in, j->out))
		return COHORT_OK;
	return err_in(err, j->out, err_set(err, COHORT_E_ARG, "is the input itself; write to another file"));
}

static enum cohort_status check(struct job *j, const struct cohort_quantize_params *params, struct cohort_err *err)
{
	enum cohort_status st;

	if (!j->in || !params)
		return err_set(err, COHORT_E_ARG, "%s is NULL", j->in ? "params" : "in");
	cohort_quantize_params_init(&j->p);
	if (!params_take(&j->p, sizeof j->p, params))
		return err_set(err, COHORT_E_ARG, "parameters were not initialised by cohort_quantize_params_init");
	if (!j->p.type || (!j->out && !j->p.dry_run))
		return err_set(err, COHORT_E_ARG, "%s is NULL", j->p.type ? "out" : "type");
	if (err_range(err, "n_threads", j->p.n_threads, 0, 1024))
		return COHORT_E_ARG;
	if ((st = mix_parse(j->p.type, &j->mix, err)) ||
			(st = parse_format("token embedding", j->p.token_embedding_type, &j->embd_type, err)) ||
			(st = parse_format("output matrix", j->p.output_tensor_type, &j->output_type, err)))
		return st;
	return check_out(j, j->in, err);
}

/* ---- Names ---- */

/* Found anywhere in a name, the first that is found. A fused query, key and value matrix has the values in it. */
static const struct {
	const char *text;
	enum mix_role role;
} roles[] = {
	{"attn_qkv.weight", MIX_V}, {"attn_kv_b.weight", MIX_V}, {"attn_v.weight", MIX_V}, {"attn_k.weight", MIX_K},
	{"attn_q.weight", MIX_Q}, {"attn_output.weight", MIX_O},
	{"ffn_up", MIX_UP}, {"ffn_gate", MIX_GATE}, {"ffn_down", MIX_DOWN}, /* with or without _exps and the like */
};

/* Weights that stay as they are although they have two dimensions: small or delicate, or looked up by position. */
static const char *const staying[] = {
	"_norm.weight",
	/* choice of experts */
	"ffn_gate_inp.weight", "ffn_gate_tid2eid.weight",
	/* positions and kinds of tokens */
	"position_embd", "token_types.weight", "attn_rel_b.weight", ".rel_pos", "sam.pos_embd",
	/* convolutions and recurrent parts */
	"ssm_conv1d", "shortconv.conv.weight", "time_mix_first.weight", "time_mix_lerp_fused.weight",
	"time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight",
	"time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight",
	"time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
	/* small helpers of some architectures */
	"altup", "laurel", "per_layer_model_proj", "indexer.k_proj.weight", "indexer.q_proj.weight",
	/* pictures and sound */
	"sam.neck.", "sam.net_", ".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd",
};

static bool is(const struct part *a, const char *name)
{
	return strcmp(a->name, name) == 0;
}

static enum mix_role role_of(const struct part *a)
{
	if (is(a, "output.weight"))
		return MIX_OUTPUT;
	if (is(a, "token_embd.weight") || is(a, "per_layer_token_embd.weight"))
		return MIX_EMBD;
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (strstr(a->name, roles[i].text))
			return roles[i].role;
	return MIX_OTHER;
}

/* Only matrices and stacks of them are converted; a dimension of 1 at the end is none. */
static bool stays(const struct part *a)
{
	const size_t n = strlen(a->name);
	const uint64_t *ne = a->t->ne;

	if ((ne[1] == 1 && ne[2] == 1 && ne[3] == 1) || ne[3] > 1)
		return true;
	if (n < 6 || strcmp(a->name + n - 6, "weight") != 0)
		return true;
	for (size_t i = 0; i < sizeof staying / sizeof *staying; i++)
		if (strstr(a->name, staying[i]))
			return true;
	return false;
}

static int64_t layer_of(const char *name)
{
	char *end;

	if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
		return -1;
	const unsigned long v = strtoul(name + 4, &end, 10);
	return *end == '.' && v <= INT32_MAX ? (int64_t)v : -1;
}

/* ---- The plan ---- */

/* A number of the model's; of a list, which has one for each layer, the first. `none` when it is not there. */
static uint32_t number(const struct gguf *g, const char *suffix, uint32_t none)
{
	struct gguf_str arch = {0};
	struct gguf_kv first;
	char key[128];
	size_t at = 0;

	if (gguf_get_str(g, "general.architecture", false, &arch, NULL) || arch.n > 64)
		return none;
	snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, arch.s ? arch.s : "", suffix);
	const struct gguf_kv *kv = gguf_find(g, key);
	if (kv && kv->type == GGUF_ARRAY && kv->arr.n > 0) {
		gguf_array_next(&kv->arr, &at, &first);
		kv = &first;
	}
	if (!kv)
		return none;
	switch (kv->type) {
	case GGUF_U8: case GGUF_U16: case GGUF_U32: case GGUF_U64:
		return kv->u <= UINT32_MAX ? (uint32_t)kv->u : none;
	case GGUF_I8: case GGUF_I16: case GGUF_I32: case GGUF_I64:
		return kv->i >= 0 && kv->i <= UINT32_MAX ? (uint32_t)kv->i : none;
	default:
		return none;
	}
}

static void learn(struct job *j)
{
	struct mix_model *m = &j->mm;
	uint32_t n_layer = 0;

	m->tied = true;
	m->pure = j->p.pure;
	for (size_t i = 0; i < j->g.n_tensors; i++) {
		const struct part *a = &j->parts[i];
		m->tied = m->tied && a->role != MIX_OUTPUT;
		m->n_v += a->role == MIX_V;
		if (a->layer >= n_layer)
			n_layer = (uint32_t)a->layer + 1;
	}
	m->n_layer = number(&j->g, "block_count", n_layer);
	m->n_head = number(&j->g, "attention.head_count", 0);
	m->n_head_kv = number(&j->g, "attention.head_count_kv", m->n_head);
	m->n_expert = number(&j->g, "expert_count", 0);
}

/* By layer and then by name, which is the order the rules count in. */
static int by_layer(const void *x, const void *y)
{
	const struct part *a = *(struct part *const *)x, *b = *(struct part *const *)y;

	if (a->layer != b->layer)
		return a->layer < b->layer ? -1 : 1;
	return strcmp(a->name, b->name);
}

static enum cohort_status bad_tensor(const struct job *j, const struct part *a, struct cohort_err *err,
		enum cohort_status st)
{
	char text[ERR_SHOW_BYTES];

	err_prefix(err, "tensor '%s'", err_show(text, a->t->name.s, a->t->name.n));
	return err_in(err, j->g.parts[a->t->part].path, st);
}

/* What the caller asked for, or else the mix. i: as mix_type counts. */
static enum cohort_status choose(const struct job *j, struct part *a, uint32_t i, struct cohort_err *err)
{
	const bool is_output = a->role == MIX_OUTPUT || (a->role == MIX_EMBD && j->mm.tied);
	uint32_t asked = BY_MIX;

	a->wanted = a->type = a->t->type;
	if (a->stays)
		return COHORT_OK;
	if (a->role == MIX_EMBD)
		asked = j->embd_type;
	if (asked == BY_MIX && is_output)
		asked = j->output_type;
	if (asked != BY_MIX) {
		const struct quant_format *f = quant_format_get(asked);
		a->wanted = a->type = asked;
		if (a->t->ne[0] % f->block == 0)
			return COHORT_OK;
		err_set(err, COHORT_E_ARG, "rows of %llu are no whole blocks of %s, which was asked for",
				(ull)a->t->ne[0], f->name);
		return bad_tensor(j, a, err, COHORT_E_ARG);
	}
	a->wanted = mix_wanted(j->mix, &j->mm, a->role, i, a->t->ne[0]);
	a->type = mix_fit(a->wanted, a->t->ne[0]);
	return COHORT_OK;
}

static enum cohort_status settle(struct job *j, struct part *a, uint32_t i, struct cohort_err *err)
{
	const struct gguf_tensor *t = a->t;
	const struct quant_format *from = quant_format_get(t->type);
	bool bad_row = false;

	if (!from) {
		err_set(err, COHORT_E_UNSUPPORTED, "format number %u is not known to this version", t->type);
		return bad_tensor(j, a, err, COHORT_E_UNSUPPORTED);
	}
	enum cohort_status st = choose(j, a, i, err);
	if (st)
		return st;
	if (a->type != t->type && from->block > 1 && !j->p.allow_requantize) {
		err_set(err, COHORT_E_ARG, "is %s already; making %s of it adds a second error to the first: "
				"allow requantising to do so", from->name, quant_format_get(a->type)->name);
		return bad_tensor(j, a, err, COHORT_E_ARG);
	}
	/* No product overflows: the reader found all elements in the file, and no format has fewer than 2 bits. */
	a->n_elems = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
	quant_size(a->type, t->ne[0], a->n_elems / t->ne[0], &a->n_bytes, &bad_row);
	j->r.n_tensors++;
	j->r.n_converted += a->type != t->type;
	j->r.n_fallback += a->type != a->wanted;
	j->r.n_weights += a->n_elems;
	j->r.bytes_before += t->n_bytes;
	j->r.bytes_after += a->n_bytes;
	return COHORT_OK;
}

static enum cohort_status plan(struct job *j, struct cohort_err *err)
{
	const size_t n = j->g.n_tensors;
	struct part **order = mem_alloc(n, sizeof *order);
	uint32_t n_v = 0, n_down = 0;
	enum cohort_status st = COHORT_OK;

	j->parts = mem_zalloc(n, sizeof *j->parts);
	if (!order || !j->parts) {
		st = no_memory(j, err);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		struct part *a = &j->parts[i];
		const struct gguf_str name = j->g.tensors[i].name;
		a->t = &j->g.tensors[i];
		memcpy(a->name, name.s, name.n < NAME_BYTES ? name.n : NAME_BYTES - 1);
		a->layer = layer_of(a->name);
		a->role = role_of(a);
		a->stays = stays(a);
		order[i] = a;
	}
	learn(j);
	qsort(order, n, sizeof *order, by_layer);
	for (size_t i = 0; !st && i < n; i++) {
		struct part *a = order[i];
		uint32_t at = a->layer < 0 ? 0 : (uint32_t)a->layer;
		/* With experts a layer may have several such matrices; without, not every layer need have one. */
		if (a->role == MIX_DOWN && !a->stays && j->mm.n_expert < 2)
			at = n_down++;
		if (a->role == MIX_V && !a->stays)
			at = n_v++;
		st = settle(j, a, at, err);
	}
out:
	mem_free(order);
	return st;
}

/* ---- Keys and the directory ---- */

static enum cohort_status put_u32(const struct job *j, const char *key, uint32_t v, struct cohort_err *err)
{
	const struct gguf_kv kv = {.key = {key, strlen(key)}, .type = GGUF_U32, .u = v};

	return gguf_writer_kv(j->w, &kv, err);
}

/* The two keys that say how the file is quantised stand behind the copied ones, as in published files. */
static enum cohort_status put_head(struct job *j, struct cohort_err *err)
{
	static const char version[] = "general.quantization_version", type[] = "general.file_type";
	/* What is set anew, and what would make the new file a part of a split model. */
	const struct gguf_kv *old[] = {gguf_find(&j->g, version), gguf_find(&j->g, type), gguf_find(&j->g, "split.no"),
			gguf_find(&j->g, "split.count"), gguf_find(&j->g, "split.tensors.count")};
	enum cohort_status st;

	for (size_t i = 0; i < j->g.n_kv; i++) {
		bool copy = true;
		for (size_t k = 0; k < sizeof old / sizeof *old; k++)
			copy = copy && &j->g.kv[i] != old[k];
		if (copy && (st = gguf_writer_kv(j->w, &j->g.kv[i], err)))
			return st;
	}
	/* 2: there has been no other version of the block formats since 2023. */
	if ((st = put_u32(j, version, 2, err)) || (st = put_u32(j, type, j->mix->file_type, err)))
		return st;
	for (size_t i = 0; i < j->g.n_tensors; i++) {
		const struct gguf_tensor *t = j->parts[i].t;
		if ((st = gguf_writer_tensor(j->w, t->name, j->parts[i].type, t->n_dims, t->ne, err)))
			return st;
	}
	return gguf_writer_begin(j->w, err);
}

/* ---- Data ---- */

/* Of one chunk, or of several added up in order. */
struct tally {
	double power, diff, max; /* sums of squares of the weights and of the differences; the largest difference */
	size_t n_good;           /* elements before the first that is not finite */
};

struct work {
	const struct quant_format *from, *to;
	bool measure;
	const uint8_t *src;
	uint8_t *dst;
	size_t n_elems;
	float *floats;         /* [threads, 2, CHUNK] */
	struct tally *tallies; /* [PIECE_CHUNKS] */
};

static size_t bytes_of(const struct quant_format *f, size_t n_elems)
{
	return n_elems / f->block * f->block_bytes;
}

static void compare(const float *x, const float *y, size_t n, struct tally *t)
{
	for (size_t i = 0; i < n; i++) {
		const double d = fabs((double)x[i] - (double)y[i]);
		t->power += (double)x[i] * (double)x[i];
		t->diff += d * d;
		t->max = d > t->max ? d : t->max;
	}
}

static void convert(void *arg, size_t from, size_t to, size_t thread)
{
	const struct work *k = arg;
	float *x = k->floats + thread * 2 * CHUNK, *y = x + CHUNK; /* [CHUNK] each: before and after */

	for (size_t i = from; i < to; i++) {
		const size_t left = k->n_elems - i * CHUNK, n = left < CHUNK ? left : CHUNK;
		const uint8_t *src = k->src + bytes_of(k->from, i * CHUNK);
		uint8_t *dst = k->dst + bytes_of(k->to, i * CHUNK);
		struct tally *t = &k->tallies[i];
		*t = (struct tally){.n_good = n};
		k->from->to_f32(src, x, n);
		if (!quant_finite(x, n)) {
			t->n_good = 0;
			while (quant_finite(x + t->n_good, 1))
				t->n_good++;
			continue;
		}
		if (k->from == k->to) {
			memcpy(dst, src, bytes_of(k->from, n));
			continue;
		}
		k->to->from_f32(x, dst, n);
		if (k->measure) {
			k->to->to_f32(dst, y, n);
			compare(x, y, n, t);
		}
	}
}

static enum cohort_status not_finite(const struct job *j, const struct part *a, uint64_t i, struct cohort_err *err)
{
	const struct quant_format *f = quant_format_get(a->t->type);
	const uint64_t ne0 = a->t->ne[0], block = i / f->block;
	float x[256];

	f->to_f32(a->t->data + block * f->block_bytes, x, f->block);
	err_at(err, COHORT_E_FORMAT, a->t->offset + block * f->block_bytes,
			"element %llu (row %llu, column %llu) is %s", (ull)i, (ull)(i / ne0), (ull)(i % ne0),
			isnan(x[i % f->block]) ? "no number" : "infinite");
	return bad_tensor(j, a, err, COHORT_E_FORMAT);
}

static enum cohort_status put_tensor(struct job *j, size_t i_part, struct pool *pool, struct work *k, struct tally *sum,
		struct cohort_err *err)
{
	const struct part *a = &j->parts[i_part];
	enum cohort_status st;

	k->from = quant_format_get(a->t->type);
	k->to = quant_format_get(a->type);
	k->src = a->t->data;
	*sum = (struct tally){0};
	for (uint64_t done = 0; done < a->n_elems;) {
		const uint64_t left = a->n_elems - done;
		k->n_elems = left < PIECE_CHUNKS * CHUNK ? (size_t)left : PIECE_CHUNKS * CHUNK;
		const size_t n_chunks = (k->n_elems + CHUNK - 1) / CHUNK, n_src = bytes_of(k->from, k->n_elems);
		pool_run(pool, n_chunks, 1, convert, k);
		for (size_t i = 0; i < n_chunks; i++) {
			const struct tally *t = &k->tallies[i];
			if (i * CHUNK + t->n_good < k->n_elems && t->n_good < CHUNK)
				return not_finite(j, a, done + i * CHUNK + t->n_good, err);
			sum->power += t->power;
			sum->diff += t->diff;
			sum->max = t->max > sum->max ? t->max : sum->max;
		}
		if ((st = gguf_writer_data(j->w, i_part, k->dst, bytes_of(k->to, k->n_elems), err)))
			return st;
		gguf_drop(&j->g, a->t, (uint64_t)(k->src - a->t->data), n_src);
		k->src += n_src;
		done += k->n_elems;
		j->n_done += k->n_elems;
		if (j->p.progress && !j->p.progress((float)((double)j->n_done / (double)j->r.n_weights),
				j->p.progress_user))
			return err_set(err, COHORT_ABORTED, "aborted");
	}
	return COHORT_OK;
}

static void report(const struct job *j, const struct part *a, const struct tally *t)
{
	struct cohort_quantize_tensor out = {
		.name = a->t->name.s, .n_name = a->t->name.n, .n_dims = a->t->n_dims,
		.from = quant_format_get(a->t->type)->name, .to = quant_format_get(a->type)->name,
		.instead_of = a->type != a->wanted ? quant_format_get(a->wanted)->name : NULL,
		.bytes_before = a->t->n_bytes, .bytes_after = a->n_bytes,
		.rms_error = t->power > 0 ? sqrt(t->diff / t->power) : 0, .max_error = t->max,
	};

	memcpy(out.ne, a->t->ne, sizeof out.ne);
	j->p.report(&out, j->p.report_user);
}

static enum cohort_status put_data(struct job *j, struct cohort_err *err)
{
	const size_t n_threads = j->p.n_threads ? (size_t)j->p.n_threads : pool_cpu_count();
	struct pool *pool = pool_open(n_threads);
	struct work k = {
		.measure = j->p.report != NULL,
		.dst = mem_alloc(PIECE_CHUNKS * CHUNK, sizeof(float)),
		.floats = mem_alloc(n_threads * 2 * CHUNK, sizeof(float)),
		.tallies = mem_alloc(PIECE_CHUNKS, sizeof *k.tallies),
	};
	struct tally sum;
	enum cohort_status st = pool && k.dst && k.floats && k.tallies ? COHORT_OK : no_memory(j, err);

	for (size_t i = 0; !st && i < j->g.n_tensors; i++)
		if (!(st = put_tensor(j, i, pool, &k, &sum, err)) && j->p.report)
			report(j, &j->parts[i], &sum);
	mem_free(k.dst);
	mem_free(k.floats);
	mem_free(k.tallies);
	pool_free(pool);
	return st;
}

enum cohort_status cohort_quantize_write(const char *in, const char *out, const struct cohort_quantize_params *params,
		struct cohort_quantize_result *result, struct cohort_err *err)
{
	struct job j = {.in = in, .out = out};
	struct fp_mode fp;
	enum cohort_status st = check(&j, params, err);

	if (st || (st = gguf_open(&j.g, in, quant_size, err)))
		return st;
	fp_enter(&fp);
	for (size_t i = 0; i < j.g.n_parts && !st; i++)
		st = check_out(&j, j.g.parts[i].path, err);
	if (st || (st = plan(&j, err)))
		goto out;
	if (j.p.dry_run) {
		for (size_t i = 0; j.p.report && i < j.g.n_tensors; i++)
			report(&j, &j.parts[i], &(struct tally){0});
	} else if (!(st = gguf_writer_open(out, quant_size, &j.w, err)) && !(st = put_head(&j, err)) &&
			!(st = put_data(&j, err))) {
		st = gguf_writer_finish(j.w, err);
	}
	if (!st && result)
		*result = j.r;
out:
	fp_leave(&fp);
	gguf_writer_free(j.w);
	mem_free(j.parts);
	gguf_release(&j.g);
	return st;
}
