/* Favourites: copies of sequences, each with the run that it is of.
 *
 * What holds:
 *  1. A favourite owns its bytes, tokens and log-probabilities; a run its prompt. A run is there as long as one of its
 *     sequences is.
 *  2. Strings that a run's settings point to are the program's and outlive the list (settings.c, argv).
 *
 * It does not know how files are written (export.c) or what commands there are (interactive.c). */
#include "favourites.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

struct kept_run {
	struct job ran; /* its settings and numbers; handles in it are not used */
	uint64_t id;
	struct gen_prompt prompt; /* text and tokens are owned, texts are not used */
	char *text;
	size_t n_kept;
	bool cut; /* it was interrupted */
};

struct kept {
	struct kept_run *run;
	struct gen_text text;
	int32_t sequence;
};

static void run_free(struct kept_run *r)
{
	if (!r)
		return;
	mem_free(r->text);
	mem_free(r->prompt.tokens);
	mem_free(r);
}

static void text_release(struct gen_text *t)
{
	mem_free(t->bytes);
	mem_free(t->tokens);
	mem_free(t->logprobs);
	mem_free(t->error);
}

/* A copy of what files are made of. False: out of memory, and there is nothing to release. */
static bool text_copy(const struct gen_text *from, struct gen_text *to)
{
	*to = (struct gen_text){
			.n_bytes = from->n_bytes, .n_tokens = from->n_tokens, .finish = from->finish, .cut = from->cut};
	if (from->bytes)
		to->bytes = mem_strndup(from->bytes, from->n_bytes);
	if (from->n_tokens > 0)
		to->tokens = mem_dup(from->tokens, from->n_tokens * sizeof *to->tokens);
	if (from->n_tokens > 0 && from->logprobs)
		to->logprobs = mem_dup(from->logprobs, from->n_tokens * sizeof *to->logprobs);
	if (from->error)
		to->error = mem_strndup(from->error, strlen(from->error));
	if ((!from->bytes || to->bytes) && (from->n_tokens == 0 || to->tokens) &&
			(from->n_tokens == 0 || !from->logprobs || to->logprobs) && (!from->error || to->error))
		return true;
	text_release(to);
	return false;
}

/* The run of that number, made if it is not there yet; NULL when out of memory. */
static struct kept_run *run_get(
		struct favourites *f, const struct job *ran, uint64_t id, const struct gen_prompt *p, bool cut)
{
	void *runs = f->runs;

	for (size_t i = 0; i < f->n_runs; i++)
		if (f->runs[i]->id == id)
			return f->runs[i];
	if (!mem_grow(&runs, &f->runs_max, f->n_runs + 1, sizeof *f->runs))
		return NULL;
	f->runs = runs;
	struct kept_run *r = mem_zalloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->ran = *ran;
	r->ran.prompts = NULL;
	r->ran.n_prompts = 0;
	r->id = id;
	r->cut = cut;
	r->text = mem_strndup(p->text, p->n_bytes);
	r->prompt = (struct gen_prompt){.text = r->text, .n_bytes = p->n_bytes, .n_tokens = p->n_tokens};
	r->prompt.tokens = mem_dup(p->tokens, p->n_tokens * sizeof *p->tokens);
	if (!r->text || !r->prompt.tokens) {
		run_free(r);
		return NULL;
	}
	f->runs[f->n_runs++] = r;
	return r;
}

/* Takes a run without favourites away. */
static void run_drop(struct favourites *f, struct kept_run *r)
{
	size_t i = 0;

	if (!r || r->n_kept > 0)
		return;
	while (f->runs[i] != r)
		i++;
	f->n_runs--;
	memmove(f->runs + i, f->runs + i + 1, (f->n_runs - i) * sizeof *f->runs);
	run_free(r);
}

bool favourites_keep(struct favourites *f, const struct job *ran, uint64_t run, const struct gen_prompt *p, int32_t i,
		bool cut)
{
	void *list = f->kept;

	if (!mem_grow(&list, &f->n_max, f->n + 1, sizeof *f->kept))
		return false;
	f->kept = list;
	struct kept_run *r = run_get(f, ran, run, p, cut);
	struct kept *k = &f->kept[f->n];
	if (!r || !text_copy(&p->texts[i], &k->text)) {
		run_drop(f, r);
		return false;
	}
	k->run = r;
	k->sequence = i;
	r->n_kept++;
	f->n++;
	return true;
}

void favourites_drop(struct favourites *f, size_t i)
{
	struct kept_run *r = f->kept[i].run;

	text_release(&f->kept[i].text);
	f->n--;
	memmove(f->kept + i, f->kept + i + 1, (f->n - i) * sizeof *f->kept);
	r->n_kept--;
	run_drop(f, r);
}

void favourites_release(struct favourites *f)
{
	while (f->n > 0)
		favourites_drop(f, f->n - 1);
	mem_free(f->kept);
	mem_free(f->runs);
	*f = (struct favourites){.kept = NULL};
}

void favourites_print(const struct favourites *f, struct sink *out, bool number)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct kept *k = &f->kept[i];
		const uint64_t seed = k->run->ran.s.seed;
		if (number)
			sink_printf(out, "Kept %zu (sequence %d of seed %" PRIu64 "):\n\n", i, k->sequence, seed);
		else
			sink_printf(out, "Sequence %d of seed %" PRIu64 ":\n\n", k->sequence, seed);
		sink_put(out, k->run->prompt.text, k->run->prompt.n_bytes);
		sink_put(out, k->text.bytes ? k->text.bytes : "", k->text.n_bytes);
		sink_text(out, "\n\n");
	}
}

/* ---- Files ---- */

/* The texts of a run as those of one prompt, borrowed, and their numbers. False: out of memory. */
static bool gather(const struct favourites *f, const struct kept_run *r, struct gen_prompt *p, struct sink *numbers)
{
	*p = r->prompt;
	p->texts = mem_zalloc(r->n_kept, sizeof *p->texts);
	for (size_t i = 0; p->texts && i < f->n; i++) {
		if (f->kept[i].run != r)
			continue;
		sink_printf(numbers, p->n_texts > 0 ? " %d" : "%d", f->kept[i].sequence);
		p->texts[p->n_texts++] = f->kept[i].text;
	}
	sink_put(numbers, "", 1);
	return p->texts && !numbers->failed;
}

int favourites_write(const struct favourites *f, const char *path)
{
	const size_t n = f->n_runs;
	struct job all = f->runs[0]->ran;
	struct gen_prompt *prompts = mem_zalloc(n, sizeof *prompts);
	struct sink *numbers = mem_zalloc(n, sizeof *numbers);
	struct export_origin *origins = mem_zalloc(n, sizeof *origins);
	bool ok = prompts && numbers && origins, cut = false;

	all.prompts = prompts;
	all.n_prompts = n;
	all.gen.prefill_s = all.gen.generate_s = 0;
	all.gen.n_generated = 0;
	all.c.output = (struct export_opts){.files = {.items = {path}, .n = 1}};
	for (size_t k = 0; k < n && ok; k++) {
		const struct kept_run *r = f->runs[k];
		ok = gather(f, r, &prompts[k], &numbers[k]);
		prompts[k].index = k;
		origins[k] = (struct export_origin){&r->ran, numbers[k].bytes};
		all.gen.prefill_s += r->ran.gen.prefill_s;
		all.gen.generate_s += r->ran.gen.generate_s;
		all.gen.n_generated += r->ran.gen.n_generated;
		cut = cut || r->cut;
	}
	int rc = ok ? export_check(&all) : out_of_memory(all.gen.prog);
	if (!rc)
		rc = export_write_origins(&all, cut, origins);
	for (size_t k = 0; k < n; k++) {
		if (prompts)
			mem_free(prompts[k].texts);
		if (numbers)
			sink_release(&numbers[k]);
	}
	mem_free(prompts);
	mem_free(numbers);
	mem_free(origins);
	return rc;
}
