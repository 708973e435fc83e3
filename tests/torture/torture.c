/* Torture: every call that asks the system for something fails, one after the other, in scenes that use all of the
 * library: memory (that of PCRE2 and jansson included), mapping, opening, looking at, reading, writing, syncing and
 * renaming files, starting threads (fault.h).
 *
 * For each scene, each kind of call and each k the k-th call fails
 *   once    and the scene gives up: whatever it opened is released
 *   again   and the scene makes the call that failed once more, on the objects that it left, and goes on
 *   on      and so do all that follow
 * Behind each of these
 *  - a call said why it failed, or none did and the results have the bits they always have. With `again` they always
 *    have: a failed call leaves its object as it was
 *  - there are as many blocks of memory, descriptors, threads and mapped files as before
 *  - a file is what it was or whole, and nothing lies beside it
 *  - now and then: the scene, left alone, gives the bits it always gives
 *  - it took no longer than a watchdog allows
 *
 * torture [short | full | SECONDS] [SCENE [KIND [MODE [K]]]]: a few k of each kind (the default), all of them, or
 * random ones for so long. One SCENE only; with K, where the call was made is written to standard error.
 *
 * Every function of the public headers that returns a status is in a scene. Those that return a pointer
 * (cohort_logits_get and its like) cannot fail for want of anything. Programs take jansson's memory over (base/json.h),
 * and so does this one.
 *
 * Seen red with: a thread's start that is not freed when there is no thread (engine-thread), a descriptor left open
 * when its file cannot be mapped (model), a file left mapped when its name cannot be kept (gguf-read), a template not
 * freed behind a syntax tree that was not made (template), a fork's sampler that is not freed (branches), a commit
 * where a decode rolls back (decode), cells of a restored prompt that stay (cache), a temporary file that is not
 * removed, a write that fails and is taken for done (gguf-write), a schema that is called malformed when there is no
 * memory for it (grammar),
 * a temporary file that stays when it cannot be looked at (state). */
#include "torture.h"
#include "temp.h"

#include "cohort_tools.h"

#include "base/pool.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include "gguf_writer.h"
#include "split_case.h"
#include "tok_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	POINTS = 30, /* of a kind and a mode in a short run */
	WATCHDOG_S = 60,
	CLEAN_EVERY = 5, /* failures between two clean runs */
	ONE_THREAD = 3, /* entries of a folder: this, the one above, the thread */
	NAMES_MAX = 64,
	SHOWN_MAX = 12, /* complaints of a scene */
};

enum mode { ONCE, AGAIN, ON, MODES };
static const char *const mode_names[MODES] = {"once", "again", "on"};

struct stage stage;

/* ---- Lives ---- */

void life_mix(struct life *l, const void *bytes, size_t n_bytes)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n_bytes; i++)
		l->hash = (l->hash ^ p[i]) * 0x100000001b3u;
}

void life_mix_number(struct life *l, int64_t v)
{
	life_mix(l, &v, sizeof v);
}

void life_complain(struct life *l, const char *what)
{
	if (!*l->complaint)
		snprintf(l->complaint, sizeof l->complaint, "%s", what);
}

bool life_failed(struct life *l, enum cohort_status st)
{
	if (st == COHORT_OK)
		return false;
	if (l->err.status != st || !*l->err.text || strchr(l->err.text, '\n'))
		life_complain(l, "an error without its text");
	if (st == COHORT_E_BUG)
		life_complain(l, l->err.text);
	l->status = st;
	l->n_failures++;
	snprintf(l->text, sizeof l->text, "%s", l->err.text);
	l->err = (struct cohort_err){0};
	return true;
}

/* ---- What a process holds ---- */

struct held {
	int64_t n_blocks;
	int n_fds, n_threads, n_maps;
};

static int n_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	if (!d)
		abort();
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Mappings of files. */
static int n_file_maps(void)
{
	static char text[1 << 17];
	const int fd = open("/proc/self/maps", O_RDONLY);
	size_t n = 0;
	ssize_t got;
	int n_maps = 0;

	while ((got = read(fd, text + n, sizeof text - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	text[n] = '\0';
	for (const char *p = text; (p = strstr(p, " /")); p++)
		n_maps++;
	return n_maps;
}

static struct held look(void)
{
	struct held h = {.n_fds = n_entries("/proc/self/fd"),
			.n_threads = n_entries("/proc/self/task"),
			.n_maps = n_file_maps()};
	h.n_blocks = atomic_load(&fault_box_get()->n_live);
	return h;
}

/* A thread that was joined is listed for a moment longer. */
static struct held look_settled(int n_threads)
{
	struct held h = look();

	for (int i = 0; i < 2000 && h.n_threads > n_threads; i++) {
		usleep(500);
		h = look();
	}
	return h;
}

static bool holds_more(const struct held *now, const struct held *before, char *what, size_t n_what)
{
	snprintf(what, n_what, "left: %lld blocks, %d descriptors, %d threads, %d mapped files",
			(long long)(now->n_blocks - before->n_blocks), now->n_fds - before->n_fds,
			now->n_threads - before->n_threads, now->n_maps - before->n_maps);
	return now->n_blocks > before->n_blocks || now->n_fds > before->n_fds || now->n_threads > before->n_threads ||
			now->n_maps > before->n_maps;
}

/* ---- The folder ---- */

static char names[NAMES_MAX][64]; /* of what belongs there */
static int n_names;
static const char old_bytes[] = "what was there before";

const char *stage_path(char out[128], const char *name)
{
	snprintf(out, 128, "%s/%s", stage.folder, name);
	return out;
}

static void list_names(void)
{
	DIR *d = opendir(stage.folder);
	const struct dirent *e;

	if (!d)
		abort();
	while ((e = readdir(d)) && n_names < NAMES_MAX)
		snprintf(names[n_names++], sizeof *names, "%.63s", e->d_name);
	closedir(d);
}

/* What lies in the folder and does not belong there; it is removed. */
static bool find_stray(const struct scene *s, char *stray, size_t n_stray)
{
	DIR *d = opendir(stage.folder);
	const struct dirent *e;
	bool found = false;

	while ((e = readdir(d))) {
		char path[400];
		bool known = false;
		for (int i = 0; i < n_names && !known; i++)
			known = strcmp(names[i], e->d_name) == 0;
		for (int i = 0; i < 3 && !known; i++)
			known = s->outputs[i] && strcmp(s->outputs[i], e->d_name) == 0;
		if (known)
			continue;
		found = true;
		snprintf(stray, n_stray, "left: file %.60s", e->d_name);
		snprintf(path, sizeof path, "%s/%s", stage.folder, e->d_name);
		unlink(path);
	}
	closedir(d);
	return found;
}

/* Of a file's bytes; 0: there is none. */
static uint64_t file_hash(const char *path)
{
	static uint8_t bytes[1 << 16];
	struct life l = {.hash = 7};
	const int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return 0;
	while ((n = read(fd, bytes, sizeof bytes)) > 0)
		life_mix(&l, bytes, (size_t)n);
	close(fd);
	return l.hash;
}

static void put_old(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, old_bytes, sizeof old_bytes) != (ssize_t)sizeof old_bytes || close(fd) != 0)
		abort();
}

static void remove_outputs(const struct scene *s)
{
	char path[128];

	for (int i = 0; i < 3 && s->outputs[i]; i++)
		unlink(stage_path(path, s->outputs[i]));
}

/* ---- A scene ---- */

struct torture {
	const struct scene *scene;
	uint64_t good; /* its hash */
	uint64_t good_files[3], old_file;
	uint64_t n_calls[FAULT_KINDS];
	uint64_t n_injected[FAULT_KINDS], n_points;
	uint64_t n_tolerated;
	int n_bad;
	struct held before;
};

static struct {
	const char *scene, *kind, *mode;
	uint64_t k;
} now; /* for the watchdog */

static void say_where(int signal)
{
	char text[300];
	const int n = snprintf(text, sizeof text, "# signal %d in %s, %s %s, k = %llu\n", signal, now.scene, now.kind,
			now.mode, (unsigned long long)now.k);

	fault_disarm();
	if (write(2, text, (size_t)n) != n || signal == SIGALRM)
		_exit(3);
	struct sigaction usual = {.sa_handler = SIG_DFL};
	sigaction(signal, &usual, NULL);
	raise(signal);
}

static void bad(struct torture *t, const char *what)
{
	if (t->n_bad++ < SHOWN_MAX)
		printf("# %s, %s %s, k = %llu: %s\n", now.scene, now.kind, now.mode, (unsigned long long)now.k, what);
	fflush(stdout);
}

/* Runs it once. What was there in the places of its files is `old`, or nothing. */
static struct life run(const struct torture *t, enum fault_kind kind, enum mode mode, uint64_t k)
{
	struct life l = {.again = mode == AGAIN, .hash = 0xcbf29ce484222325u};
	char path[128];

	for (int i = 0; i < 3 && t->scene->outputs[i]; i++) {
		stage_path(path, t->scene->outputs[i]);
		if (k % 2)
			put_old(path);
		else
			unlink(path);
	}
	now.scene = t->scene->name;
	now.kind = kind < FAULT_KINDS ? fault_kind_name(kind) : "none";
	now.mode = mode_names[mode];
	now.k = k;
	alarm(WATCHDOG_S);
	fault_arm(kind, k, mode == ON);
	t->scene->live(&l);
	fault_disarm();
	alarm(0);
	return l;
}

static void check_files(struct torture *t, const struct life *l, bool injected)
{
	char path[128], stray[160];

	for (int i = 0; i < 3 && t->scene->outputs[i]; i++) {
		const uint64_t h = file_hash(stage_path(path, t->scene->outputs[i]));
		const uint64_t before = now.k % 2 ? t->old_file : 0;
		if (h != t->good_files[i] && (h != before || !l->status))
			bad(t, "a file is neither what it was nor what it should be");
		if (h == t->good_files[i] && !injected && l->status)
			bad(t, "it failed without a failure");
	}
	if (find_stray(t->scene, stray, sizeof stray))
		bad(t, stray);
}

/* A run without failures, which every other one is compared with. */
static void clean(struct torture *t)
{
	const struct life l = run(t, FAULT_KINDS, ONCE, 0);

	if (l.status || *l.complaint)
		bad(t, *l.complaint ? l.complaint : cohort_status_name(l.status));
	else if (l.hash != t->good)
		bad(t, "left alone it has other results");
	check_files(t, &l, false);
}

/* Blocks that a library keeps for the next time are no leak: what is lost is lost every time. */
static void check_held(struct torture *t, enum fault_kind kind, enum mode mode, uint64_t k)
{
	char what[160] = "";
	struct held h = look_settled(t->before.n_threads);

	for (int i = 0; holds_more(&h, &t->before, what, sizeof what); i++) {
		t->before = h;
		if (i == 3) {
			bad(t, what);
			break;
		}
		run(t, kind, mode, k);
		h = look_settled(t->before.n_threads);
	}
	t->before = h;
}

/* Whom a failed call may blame: what was missing, and nothing that it was given. */
static bool blames_input(const struct scene *s, enum fault_kind kind, enum cohort_status st)
{
	const bool memory = kind == FAULT_ALLOC || kind == FAULT_MAP || kind == FAULT_THREAD;

	return st && st != COHORT_E_MEMORY && ((memory && !s->loads) || st != COHORT_E_IO);
}

static void inject(struct torture *t, enum fault_kind kind, enum mode mode, uint64_t k)
{
	const struct life l = run(t, kind, mode, k);
	const bool injected = atomic_load(&fault_box_get()->n_failed) > 0;

	t->n_points++;
	t->n_injected[kind] += injected;
	t->n_tolerated += injected && !l.status;
	if (*l.complaint)
		bad(t, l.complaint);
	if (l.status && !injected)
		bad(t, "it failed without a failure");
	if (blames_input(t->scene, kind, l.status)) {
		char what[160];
		snprintf(what, sizeof what, "%s: %s", cohort_status_name(l.status), l.text);
		bad(t, what);
	}
	if (l.status && mode == AGAIN)
		bad(t, "the call that failed does not work the second time");
	if (!l.status && l.hash != t->good)
		bad(t, "it did not fail, and has other results");
	check_files(t, &l, injected);
	check_held(t, kind, mode, k);
	if (t->n_points % CLEAN_EVERY == 0)
		clean(t);
}

/* What it is without failures, and how many calls of each kind it makes. */
static void begin(struct torture *t)
{
	char path[128];
	struct life l;

	put_old(stage_path(path, "old"));
	t->old_file = file_hash(path);
	unlink(path);
	for (int i = 0; i < 3; i++) {
		l = run(t, FAULT_KINDS, ONCE, 0);
		if (i > 0 && l.hash != t->good)
			bad(t, "its results differ from run to run");
		t->good = l.hash;
	}
	if (l.status)
		bad(t, cohort_status_name(l.status));
	for (int i = 0; i < FAULT_KINDS; i++)
		t->n_calls[i] = atomic_load(&fault_box_get()->n_calls[i]);
	for (int i = 0; i < 3 && t->scene->outputs[i]; i++)
		t->good_files[i] = file_hash(stage_path(path, t->scene->outputs[i]));
	t->before = look_settled(ONE_THREAD);
}

/* ---- All of them ---- */

struct plan {
	bool full;
	double seconds; /* > 0: random points for so long */
	const char *scene, *kind, *mode;
	uint64_t k; /* 0: all */
};

static bool wanted(const char *want, const char *name)
{
	return !want || strcmp(want, name) == 0;
}

static void all_points(const struct plan *p, struct torture *t, enum fault_kind kind, enum mode mode)
{
	const uint64_t n = t->n_calls[kind];
	const uint64_t stride = p->full || n <= POINTS ? 1 : n / POINTS;

	if (p->k) {
		fault_box_get()->show = 1;
		inject(t, kind, mode, p->k);
		fault_box_get()->show = 0;
		return;
	}
	/* The modes of a short run take turns, so that together they have three times as many points. */
	for (uint64_t k = 1 + (uint64_t)mode * (stride / MODES); k <= n; k += stride)
		inject(t, kind, mode, k);
}

static void report(const struct torture *t, uint64_t *n_all, int i_case)
{
	uint64_t n = 0;
	char text[400] = "";
	size_t at = 0;

	for (int i = 0; i < FAULT_KINDS; i++) {
		if (t->n_injected[i])
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %llu", at ? ", " : "",
					fault_kind_name(i), (unsigned long long)t->n_injected[i]);
		n += t->n_injected[i];
	}
	*n_all += n;
	printf("%sok %d - %s: %llu failures (%s), %llu of no consequence\n", t->n_bad ? "not " : "", i_case,
			t->scene->name, (unsigned long long)n, text, (unsigned long long)t->n_tolerated);
	fflush(stdout);
}

static void torture_scene(const struct plan *p, struct torture *t)
{
	begin(t);
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		for (int mode = 0; mode < MODES; mode++)
			if (wanted(p->kind, fault_kind_name(kind)) && wanted(p->mode, mode_names[mode]))
				all_points(p, t, kind, mode);
	clean(t);
	remove_outputs(t->scene);
}

static void random_points(const struct plan *p, struct torture *t, int n)
{
	const double until = clock_now() + p->seconds;
	struct rng r;

	rng_init(&r, (uint64_t)time(NULL), 1);
	printf("# seed %llu\n", (unsigned long long)time(NULL));
	for (int i = 0; i < n; i++) {
		begin(&t[i]);
		remove_outputs(t[i].scene);
	}
	while (clock_now() < until) {
		struct torture *one = &t[rng_u32(&r) % (unsigned)n];
		const enum fault_kind kind = rng_u32(&r) % FAULT_KINDS;
		if (!one->n_calls[kind])
			continue;
		one->before = look_settled(ONE_THREAD);
		inject(one, kind, rng_u32(&r) % MODES, 1 + rng_u32(&r) % one->n_calls[kind]);
		remove_outputs(one->scene);
	}
}

/* ---- Before and after ---- */

static void must(enum cohort_status st, const struct cohort_err *err)
{
	if (st) {
		fprintf(stderr, "torture: %s\n", err->text);
		exit(2);
	}
}

/* A vocabulary by itself, with the keys that every model has. */
static void write_vocab(struct vocab *v, const char *path)
{
	w_vocab(v, HAS_ALL);
	put_kv_str(&v->w, "general.architecture", "llama");
	put_kv_u32(&v->w, "llama.context_length", 64);
	put_kv_u32(&v->w, "llama.embedding_length", 32);
	put_kv_u32(&v->w, "llama.block_count", 1);
	put_kv_u32(&v->w, "llama.feed_forward_length", 32);
	put_kv_u32(&v->w, "llama.attention.head_count", 2);
	put_key(&v->w, "llama.attention.layer_norm_rms_epsilon", GGUF_F32);
	put_f32(&v->w, 1e-5f);
	if (v->kind == TOK_BPE)
		kv_str(&v->w, "pre", "llama-bpe");
	put_n_kv(&v->w);
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(v->w.d, 1, v->w.n, f) != v->w.n || fclose(f) != 0)
		exit(2);
	file_release(&v->w);
}

static void set_up(void)
{
	static struct vocab v;
	const char *source = getenv("COHORT_SOURCE"), *build = getenv("COHORT_BUILD");
	char command[900];
	struct cohort_err err;

	source = source ? source : ".";
	if (!mkdtemp(temp_name(stage.folder, "torture")))
		exit(2);
	snprintf(command, sizeof command,
			"python3 '%s/tests/golden/make_models.py' '%s' llama-base llama-lora bert mamba >/dev/null",
			source, stage.folder);
	if (system(command) != 0)
		exit(2);
	snprintf(stage.llama, sizeof stage.llama, "%s/tests/golden/data/llama.gguf", source);
	snprintf(stage.module, sizeof stage.module, "%s/strategy_shortest_first.so", build ? build : "build");
	stage_path(stage.base, "llama-base.gguf");
	stage_path(stage.lora, "llama-lora.gguf");
	stage_path(stage.bert, "bert.gguf");
	stage_path(stage.mamba, "mamba.gguf");
	must(split_file(stage.llama, stage_path(stage.split, "split"), 3, &err), &err);
	stage_path(stage.split, "split-00002-of-00003.gguf");
	spm_vocab(&v, true);
	write_vocab(&v, stage_path(stage.vocabs[0], "spm.gguf"));
	bpe_vocab(&v);
	write_vocab(&v, stage_path(stage.vocabs[1], "bpe.gguf"));
	wordpiece_vocab(&v);
	write_vocab(&v, stage_path(stage.vocabs[2], "wordpiece.gguf"));
	unigram_vocab(&v, true);
	write_vocab(&v, stage_path(stage.vocabs[3], "unigram.gguf"));
	for (int i = 0; i < 256; i++)
		stage.tokens[i] = 3 + (i * 37 + i * i % 11) % 250;
	must(cohort_model_open(stage.llama, NULL, &stage.model, &err), &err);
	must(cohort_model_open(stage.bert, NULL, &stage.bert_model, &err), &err);
	must(cohort_model_open(stage.mamba, NULL, &stage.mamba_model, &err), &err);
	must(cohort_model_open(stage.base, NULL, &stage.base_model, &err), &err);
	must(cohort_lexicon_open(stage.model, &stage.lexicon, &err), &err);
	list_names();
}

static void tear_down(void)
{
	char command[100];

	cohort_lexicon_free(stage.lexicon);
	cohort_model_free(stage.model);
	cohort_model_free(stage.bert_model);
	cohort_model_free(stage.mamba_model);
	cohort_model_free(stage.base_model);
	snprintf(command, sizeof command, "rm -rf '%s'", stage.folder);
	if (system(command) != 0)
		exit(2);
}

void stage_context_params(struct cohort_context_params *p)
{
	cohort_context_params_init(p);
	p->n_ctx = 256;
	p->n_batch = 24;
	p->n_ubatch = 7;
	p->n_seq_max = 8;
	p->n_threads = 2;
}

static void read_plan(struct plan *p, int n, char **args)
{
	if (n > 1 && strcmp(args[1], "full") == 0)
		p->full = true;
	else if (n > 1 && strcmp(args[1], "short") != 0)
		p->seconds = atof(args[1]);
	p->scene = n > 2 ? args[2] : NULL;
	p->kind = n > 3 ? args[3] : NULL;
	p->mode = n > 4 ? args[4] : NULL;
	p->k = n > 5 ? strtoull(args[5], NULL, 10) : 0;
}

int main(int n_args, char **args)
{
	static const struct scene *const rooms[] = {
			scenes_model, scenes_tools, scenes_decode, scenes_sample, scenes_engine};
	static struct torture all[64];
	const struct sigaction act = {.sa_handler = say_where};
	struct plan p = {0};
	uint64_t n_all = 0;
	int n = 0, n_bad = 0;

	read_plan(&p, n_args, args);
	sigaction(SIGALRM, &act, NULL);
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);
	sigaction(SIGABRT, &act, NULL);
	json_take_over(); /* as our programs do */
	set_up();
	const double began = clock_now();
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
		for (const struct scene *s = rooms[i]; s->name; s++)
			if (wanted(p.scene, s->name))
				all[n++].scene = s;
	printf("1..%d\n", n);
	if (p.seconds > 0)
		random_points(&p, all, n);
	for (int i = 0; i < n; i++) {
		if (p.seconds <= 0)
			torture_scene(&p, &all[i]);
		report(&all[i], &n_all, i + 1);
		n_bad += all[i].n_bad > 0;
	}
	printf("# %llu failures in %d scenes, %.1f s\n", (unsigned long long)n_all, n, clock_now() - began);
	tear_down();
	return n_bad || n == 0;
}
