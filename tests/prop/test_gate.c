/* The invariance gate: random comparisons of rows of logits by memcmp, as many as are asked for.
 *
 * A subject is a model with a type of cache, and texts that share beginnings of several lengths. Each text's rows are
 * computed once in the plainest way: alone, one row at a time, one thread, the reference level. A trial opens a context
 * with a random level, layout of weights, number of threads, n_batch (1 to 64), n_ubatch and split, and lets up to 64
 * sequences come and go in it: rows of several in one batch in random order and chunks; forks, some of which go on with
 * another text (a reused prefix); tails removed and computed again; states saved and restored under another id. Every
 * row of logits that comes out is one comparison with the row of its text.
 *
 * What a trial does depends on the seed, the subject and the trial's number, and not on the machine: the sum that is
 * printed at the end is over all rows in their order, and is the same on every machine.
 *
 * Usage: test_gate [-n COMPARISONS] [-seed N] [-plain]   -plain: without models that need python3 to be made
 *
 * Shown red by planted faults: a fork's block that is written without being copied (15 of 20 subjects), rows of a chunk
 * that see one position more (11). Lanes that a level adds in another order do not get this far: the level's own proof
 * refuses it when the library starts (kern_proof.c), and the last line shows that it is missing. */
#include "arch_case.h"
#include "effort.h"
#include "model_case.h"

#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

enum { N_TEXTS = 6, LENGTH = 96, SEQ_MAX = 64, BATCH_MAX = 64, LEVELS_MAX = 8, TRIAL_ROWS = 400 };

/* What a comparison was made under. */
enum dimension {
	D_ALL,
	D_ROWS,
	D_CUT,
	D_THREADS,
	D_LEVEL,
	D_LAYOUT,
	D_CHUNK,
	D_FORK,
	D_REUSE,
	D_TAIL,
	D_STATE,
	N_DIMENSIONS
};
static const char *const dimension_names[] = {
		"in all",
		"other rows in the batch",
		"cut into ubatches",
		"more than one thread",
		"a level above the reference",
		"weights laid out anew",
		"in a chunk",
		"behind a fork",
		"behind a reused prefix",
		"behind a removed tail",
		"behind a restored state",
};

struct subject {
	char name[64], path[1024];
	bool remove; /* the file, in the end */
	enum cohort_kv_type kv;
	struct cohort_model *models[LEVELS_MAX][2]; /* by level and layout; opened when first asked for */
	int32_t n_vocab;
	cohort_token text[N_TEXTS][LENGTH];
	int32_t shared[N_TEXTS]; /* text t > 0 begins as text 0 does, that far */
	float *want[N_TEXTS]; /* [LENGTH, n_vocab] */
};

struct seq {
	int text; /* -1: there is none */
	int32_t n; /* tokens in the cache */
	unsigned marks; /* dimensions that its rows have */
};

struct trial {
	struct subject *s;
	uint64_t number;
	size_t level;
	bool file_layout;
	struct cohort_context_params cp;
	struct cohort_context *ctx;
	struct cohort_batch batch;
	struct seq seqs[SEQ_MAX];
	struct row {
		int text;
		int32_t pos;
		unsigned marks;
	} rows[BATCH_MAX];
	int32_t n_rows;
	struct rng r;
};

static uint64_t n_of[N_DIMENSIONS], n_bad, sum = 0xcbf29ce484222325u, seed = 1;
static struct cohort_err err;

static void die(const char *fmt, ...)
{
	va_list ap;

	printf("Bail out! ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	exit(1);
}

static void must(enum cohort_status st, const char *what)
{
	if (st)
		die("%s: %s", what, err.text);
}

static uint32_t below(struct rng *r, uint32_t n)
{
	return (uint32_t)((uint64_t)rng_u32(r) * n >> 32);
}

/* ---- Subjects ---- */

static struct cohort_model *model_of(struct subject *s, size_t level, bool file_layout)
{
	struct cohort_model **m = &s->models[level][file_layout];
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	mp.isa = cohort_isa_name(level);
	mp.file_layout = file_layout;
	if (!*m)
		must(cohort_model_open(s->path, &mp, m, &err), s->path);
	return *m;
}

static size_t level_of(const char *name)
{
	for (size_t i = 0; i < cohort_isa_count(); i++)
		if (strcmp(cohort_isa_name(i), name) == 0)
			return i;
	die("there is no level %s", name);
	return 0;
}

/* Every text's rows, in the plainest way. */
static void subject_open(struct subject *s, uint64_t number)
{
	struct cohort_model *m = model_of(s, level_of("ref"), true);
	struct cohort_model_info info;
	struct cohort_context_params cp;
	struct cohort_context *ctx;
	struct rng r;

	rng_init(&r, seed, number);
	cohort_model_info_get(m, &info);
	s->n_vocab = info.n_vocab;
	cohort_context_params_init(&cp);
	cp.n_ctx = 2 * LENGTH;
	cp.n_seq_max = cp.n_batch = cp.n_ubatch = cp.n_threads = 1;
	cp.kv_type = s->kv;
	must(cohort_context_open(m, &cp, &ctx, &err), s->name);
	for (int t = 0; t < N_TEXTS; t++) {
		s->want[t] = malloc((size_t)LENGTH * (size_t)s->n_vocab * sizeof(float));
		if (!s->want[t])
			die("out of memory");
		s->shared[t] = t ? (int32_t)below(&r, LENGTH) : LENGTH;
		cohort_seq_clear(ctx);
		for (int32_t i = 0; i < LENGTH; i++) {
			const cohort_token other = (cohort_token)below(&r, (uint32_t)s->n_vocab);
			s->text[t][i] = t && i < s->shared[t] ? s->text[0][i] : other;
			must(cohort_decode_many(ctx, &s->text[t][i], 1, i, 0, &err), s->name);
			memcpy(s->want[t] + (size_t)i * (size_t)s->n_vocab, cohort_logits_get(ctx, -1, &err),
					(size_t)s->n_vocab * sizeof(float));
		}
	}
	cohort_context_free(ctx);
}

static void subject_close(struct subject *s)
{
	for (int t = 0; t < N_TEXTS; t++)
		free(s->want[t]);
	for (size_t i = 0; i < LEVELS_MAX; i++)
		for (int k = 0; k < 2; k++)
			cohort_model_free(s->models[i][k]);
	if (s->remove)
		unlink(s->path);
}

/* ---- Trials ---- */

static void compare(struct trial *t, int32_t i)
{
	const struct subject *s = t->s;
	const struct row *row = &t->rows[i];
	const float *got = cohort_logits_get(t->ctx, i, &err);
	const float *want = s->want[row->text] + (size_t)row->pos * (size_t)s->n_vocab;
	const size_t n_bytes = (size_t)s->n_vocab * sizeof *got;

	if (!got)
		die("%s: no logits of row %d: %s", s->name, i, err.text);
	for (int d = 0; d < N_DIMENSIONS; d++)
		n_of[d] += row->marks >> d & 1;
	for (int32_t k = 0; k < s->n_vocab; k++) {
		uint32_t bits;
		memcpy(&bits, &got[k], sizeof bits);
		sum = (sum ^ bits) * 0x100000001b3u;
	}
	if (memcmp(got, want, n_bytes) == 0)
		return;
	int32_t at = 0;
	uint32_t a, b;
	while (memcmp(&got[at], &want[at], sizeof *got) == 0)
		at++;
	memcpy(&a, &got[at], sizeof a);
	memcpy(&b, &want[at], sizeof b);
	if (++n_bad > 20) /* enough to see what they have in common */
		return;
	printf("# %s, seed %" PRIu64 ", trial %" PRIu64 ": row %d of %d, text %d at %d, logit %d: %08" PRIx32
	       " instead of %08" PRIx32 "; level %s%s, %d threads, n_batch %d, n_ubatch %d, split %d;",
			s->name, seed, t->number, i, t->n_rows, row->text, row->pos, at, a, b,
			cohort_isa_name(t->level), t->file_layout ? ", file layout" : "", t->cp.n_threads,
			t->cp.n_batch, t->cp.n_ubatch, (int)t->cp.split);
	for (int d = 1; d < N_DIMENSIONS; d++)
		if (row->marks >> d & 1)
			printf(" %s,", dimension_names[d]);
	printf("\n");
}

/* Rows of some sequences, in random order and chunks, and what came out of them. */
static void step(struct trial *t)
{
	const uint32_t first = below(&t->r, SEQ_MAX), stride = 2 * below(&t->r, SEQ_MAX / 2) + 1;
	const int32_t most = 1 + (int32_t)below(&t->r, (uint32_t)t->cp.n_batch);
	const uint32_t long_ones = below(&t->r, 4);
	unsigned marks = 1u << D_ALL;
	bool output[BATCH_MAX];

	cohort_batch_reset(&t->batch);
	t->n_rows = 0;
	for (uint32_t j = 0; j < SEQ_MAX && t->n_rows < most; j++) {
		const cohort_seq id = (cohort_seq)((first + j * stride) % SEQ_MAX); /* every id, in an odd order */
		struct seq *q = &t->seqs[id];
		if (q->text < 0 || q->n == LENGTH || below(&t->r, 4) == 0)
			continue;
		int32_t len = below(&t->r, 4) < long_ones ? 1 + (int32_t)below(&t->r, 40) : 1;
		len = len < LENGTH - q->n ? len : LENGTH - q->n;
		len = len < most - t->n_rows ? len : most - t->n_rows;
		for (int32_t i = 0; i < len; i++, t->n_rows++) {
			output[t->n_rows] = below(&t->r, 8) != 0;
			t->rows[t->n_rows] = (struct row){q->text, q->n, q->marks | (len > 1 ? 1u << D_CHUNK : 0)};
			must(cohort_batch_add(&t->batch, t->s->text[q->text][q->n], q->n, &id, 1, output[t->n_rows],
					     &err),
					t->s->name);
			q->n++;
		}
	}
	if (t->n_rows == 0)
		return;
	must(cohort_decode(t->ctx, &t->batch, &err), t->s->name);
	marks |= t->n_rows > 1 ? 1u << D_ROWS : 0;
	marks |= t->n_rows > t->cp.n_ubatch ? 1u << D_CUT : 0;
	marks |= t->cp.n_threads > 1 ? 1u << D_THREADS : 0;
	marks |= t->level != level_of("ref") ? 1u << D_LEVEL : 0;
	marks |= t->file_layout ? 0 : 1u << D_LAYOUT;
	for (int32_t i = 0; i < t->n_rows; i++) {
		t->rows[i].marks |= marks;
		if (output[i])
			compare(t, i);
	}
}

static cohort_seq some_seq(struct trial *t, bool vacant)
{
	const uint32_t first = below(&t->r, SEQ_MAX);

	for (uint32_t j = 0; j < SEQ_MAX; j++) {
		const uint32_t i = (first + j) % SEQ_MAX;
		if ((t->seqs[i].text < 0) == vacant)
			return (cohort_seq)i;
	}
	return -1;
}

/* A fork, which may go on with another text that begins the same. */
static void fork_one(struct trial *t)
{
	const cohort_seq src = some_seq(t, false), dst = some_seq(t, true);
	const int text = (int)below(&t->r, N_TEXTS);

	if (src < 0 || dst < 0)
		return;
	const struct seq *from = &t->seqs[src];
	must(cohort_seq_cp(t->ctx, src, dst, 0, -1, &err), "fork");
	t->seqs[dst] = *from;
	t->seqs[dst].marks |= 1u << D_FORK;
	const int32_t a = t->s->shared[from->text], b = t->s->shared[text];
	if (text != from->text && from->n <= (a < b ? a : b)) {
		t->seqs[dst].text = text;
		t->seqs[dst].marks |= 1u << D_REUSE;
	}
}

/* A tail removed. Models with states, and windows that have moved on, refuse it and stay as they are. */
static void cut_one(struct trial *t)
{
	const cohort_seq id = some_seq(t, false);
	const uint32_t where = rng_u32(&t->r);

	if (id < 0 || t->seqs[id].n < 2)
		return;
	struct seq *q = &t->seqs[id];
	const int32_t n = 1 + (int32_t)((uint64_t)where * (uint32_t)(q->n - 1) >> 32);
	if (cohort_seq_rm(t->ctx, id, n, -1, &err))
		return;
	q->n = n;
	q->marks |= 1u << D_TAIL;
	for (int k = 1; k < N_TEXTS; k++)
		if (q->text == 0 && n <= t->s->shared[k] && n % N_TEXTS == k) {
			q->text = k;
			q->marks |= 1u << D_REUSE;
		}
}

/* Saved, removed, and restored under another id. */
static void move_one(struct trial *t)
{
	const cohort_seq src = some_seq(t, false), dst = some_seq(t, true);

	if (src < 0 || dst < 0 || t->seqs[src].n == 0)
		return;
	size_t n = cohort_state_size(t->ctx, src);
	void *bytes = malloc(n + !n);
	if (!bytes)
		die("out of memory");
	must(cohort_state_save(t->ctx, src, bytes, n, &n, &err), "save");
	must(cohort_seq_rm(t->ctx, src, 0, -1, &err), "remove");
	must(cohort_state_restore(t->ctx, dst, bytes, n, &err), "restore");
	free(bytes);
	t->seqs[dst] = t->seqs[src];
	t->seqs[dst].marks |= 1u << D_STATE;
	t->seqs[src].text = -1;
}

static void come_or_go(struct trial *t)
{
	const bool come = below(&t->r, 3) > 0;
	const cohort_seq id = some_seq(t, come);

	if (id < 0)
		return;
	if (!come)
		must(cohort_seq_rm(t->ctx, id, 0, -1, &err), "remove");
	t->seqs[id] = (struct seq){.text = come ? (int)below(&t->r, N_TEXTS) : -1};
}

static void trial(struct subject *s, uint64_t number, uint64_t n_wanted)
{
	static const uint32_t most[] = {2, 8, 32, SEQ_MAX}; /* sequences at the start */
	struct trial t = {.s = s, .number = number};
	const uint64_t before = n_of[D_ALL];
	size_t usable[LEVELS_MAX], n_usable = 0;

	for (size_t i = 0; i < cohort_isa_count() && n_usable < LEVELS_MAX; i++)
		if (cohort_isa_usable(i))
			usable[n_usable++] = i;
	rng_init(&t.r, seed, number + 1000);
	t.level = usable[below(&t.r, (uint32_t)n_usable)];
	t.file_layout = below(&t.r, 4) == 0;
	cohort_context_params_init(&t.cp);
	t.cp.n_ctx = SEQ_MAX * (LENGTH + 32);
	t.cp.n_seq_max = SEQ_MAX;
	t.cp.n_batch = 1 + (int32_t)below(&t.r, BATCH_MAX);
	t.cp.n_ubatch = 1 + (int32_t)below(&t.r, (uint32_t)t.cp.n_batch);
	t.cp.n_threads = 1 + (int32_t)below(&t.r, 4);
	t.cp.split = (enum cohort_split)below(&t.r, 3);
	t.cp.kv_type = s->kv;
	must(cohort_context_open(model_of(s, t.level, t.file_layout), &t.cp, &t.ctx, &err), s->name);
	must(cohort_batch_init(&t.batch, t.cp.n_batch, 0, 1, &err), s->name);
	const uint32_t n_first = 1 + below(&t.r, most[below(&t.r, 4)]);
	for (uint32_t i = 0; i < SEQ_MAX; i++)
		t.seqs[i].text = i < n_first ? (int)below(&t.r, N_TEXTS) : -1;
	while (n_of[D_ALL] - before < n_wanted && n_bad < 1000)
		switch (below(&t.r, 16)) {
		case 0: come_or_go(&t); break;
		case 1:
		case 2: fork_one(&t); break;
		case 3: cut_one(&t); break;
		case 4: move_one(&t); break;
		default: step(&t); break;
		}
	cohort_batch_release(&t.batch);
	cohort_context_free(t.ctx);
}

/* ---- All subjects ---- */

enum { SUBJECTS_MAX = 64 };
static struct subject subjects[SUBJECTS_MAX];
static size_t n_subjects;

static struct subject *add(const char *name, enum cohort_kv_type kv)
{
	static const char *const types[] = {"f16", "f32", "q8_0"};
	struct subject *s = &subjects[n_subjects++];

	if (n_subjects > SUBJECTS_MAX)
		die("too many subjects");
	s->kv = kv;
	snprintf(s->name, sizeof s->name, "%s, cache of %s", name, types[kv]);
	return s;
}

/* Models of the repository, then random ones of awkward shapes with every format of weights. */
static void add_plain(void)
{
	static const char *const files[] = {"llama", "llama3", "quant-q4_0", "quant-q4_k", "quant-q6_k", "quant-q8_0"};
	static const struct shape shapes[] = {
			{101, 96, 1, 3, 1, 20, 12, 160, 20, 128, QUANT_Q8_0, QUANT_Q4_0, QUANT_F16, QUANT_BF16, false,
					NULL, NULL, NULL},
			{301, 256, 2, 5, 5, 26, 33, 256, 10, 128, QUANT_Q4_K, QUANT_Q6_K, QUANT_F32, QUANT_Q6_K, true,
					NULL, NULL, NULL},
			{133, 72, 2, 7, 7, 9, 5, 100, 8, 128, QUANT_F16, QUANT_BF16, QUANT_F32, QUANT_F32, true, NULL,
					NULL, NULL},
			{117, 256, 1, 9, 3, 32, 32, 512, 32, 128, QUANT_Q5_K, QUANT_Q3_K, QUANT_Q5_1, QUANT_Q4_1, false,
					NULL, NULL, NULL},
			{117, 256, 1, 8, 2, 32, 32, 256, 32, 128, QUANT_IQ4_XS, QUANT_Q2_K, QUANT_IQ4_NL, QUANT_Q5_0,
					false, NULL, NULL, NULL},
			{117, 256, 1, 8, 8, 32, 32, 256, 32, 128, QUANT_TQ2_0, QUANT_MXFP4, QUANT_Q5_0, QUANT_TQ2_0,
					false, NULL, NULL, NULL},
			{103, 60, 2, 3, 1, 20, 40, 60, 10, 128, QUANT_F16, QUANT_F32, QUANT_F32, QUANT_BF16, true, NULL,
					NULL, NULL},
	};
	enum { N_FILES = sizeof files / sizeof *files, N_SHAPES = sizeof shapes / sizeof *shapes };

	for (size_t i = 0; i < N_FILES; i++) {
		struct subject *s = add(files[i], (enum cohort_kv_type)(i % 3));
		snprintf(s->path, sizeof s->path, "%s/tests/golden/data/%s.gguf", env_or("COHORT_SOURCE", "."),
				files[i]);
	}
	for (size_t i = 0; i < N_SHAPES; i++) {
		char name[32];
		snprintf(name, sizeof name, "shape %zu", i);
		struct subject *s = add(name, (enum cohort_kv_type)((i + 1) % 3));
		char *path = synth_write(&shapes[i], i + 1);
		snprintf(s->path, sizeof s->path, "%s", path);
		s->remove = true;
		free(path);
	}
}

/* Other ways to remember: windows, states, positions by slopes, experts. */
static void add_archs(void)
{
	static const char *const names[] = {"gemma2", "gemma3", "mamba", "qwen2", "phi2", "olmo2-window", "granite"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct subject *s = add(names[i], (enum cohort_kv_type)(i % 3));
		arch_path(s->path, sizeof s->path, names[i], "gguf");
	}
}

static uint64_t number(const char *text)
{
	char *end;
	const uint64_t v = strtoull(text ? text : "", &end, 10);

	if (!text || *text < '0' || *text > '9' || *end)
		die("usage: test_gate [-n COMPARISONS] [-seed N] [-plain]");
	return v;
}

int main(int argc, char **argv)
{
	uint64_t n_wanted = (uint64_t)effort(6000);
	bool plain = false;
	struct timespec began, now;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "-plain") == 0)
			plain = true;
		else if (strcmp(argv[i], "-n") == 0)
			n_wanted = number(argv[++i]);
		else if (strcmp(argv[i], "-seed") == 0)
			seed = number(argv[++i]);
		else
			number(NULL);
	if (!plain && arch_make_models(NULL))
		die("cannot make models");
	add_plain();
	if (!plain)
		add_archs();
	clock_gettime(CLOCK_MONOTONIC, &began);
	printf("1..%zu\n", n_subjects);
	for (size_t i = 0; i < n_subjects; i++) {
		struct subject *s = &subjects[i];
		const uint64_t bad = n_bad, until = n_wanted * (i + 1) / n_subjects;
		const uint64_t rows = n_wanted / n_subjects / 8 + 1;
		subject_open(s, i);
		for (uint64_t k = 0; n_of[D_ALL] < until && n_bad < 1000; k++)
			trial(s, i * 100000 + k, rows < TRIAL_ROWS ? rows : TRIAL_ROWS);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (isatty(2))
			fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 ", %.0f s  ", n_of[D_ALL], n_wanted,
					(double)(now.tv_sec - began.tv_sec));
		printf("%sok %zu - gate: %s\n", n_bad > bad ? "not " : "", i + 1, s->name);
		fflush(stdout);
		subject_close(s);
	}
	if (isatty(2))
		fputc('\n', stderr);
	for (int d = 0; d < N_DIMENSIONS; d++)
		printf("# %8" PRIu64 " comparisons %s\n", n_of[d], dimension_names[d]);
	printf("# levels:");
	for (size_t i = 0; i < cohort_isa_count(); i++)
		if (cohort_isa_usable(i))
			printf(" %s", cohort_isa_name(i));
	printf("; seed %" PRIu64 "; %" PRIu64 " differ; sum %016" PRIx64 "\n", seed, n_bad, sum);
	if (!plain)
		arch_remove_models(NULL);
	return n_bad > 0;
}
