/* The live view.
 *
 * 1. A frame is never higher than the screen and no line of it wider: what does not fit is left out, and says so.
 * 2. Between frames the cursor stands at the start of the view's last line, and nobody else writes: every line can be
 *    reached by moving up from there. After a resize, or after the program was stopped, that is not so any more, and
 * the view begins anew.
 * 3. Only lines that changed are written, all of them by one write.
 * 4. Memory grows with the screen and the texts on it, not with the number of sequences.
 *
 * It reads texts where gen_run keeps them and knows nothing of models and requests. */
#include "live.h"

#include "common.h"
#include "term.h"
#include "width.h"
#include "wrap.h"

#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { FD = STDOUT_FILENO, TEXT_CELLS_MIN = 4 };
static const double frame_s = 0.05;
static const char ellipsis[] = "\xe2\x80\xa6";
/* A few that can be told apart on dark and on light screens. */
static const char *const colors[] = {"36", "35", "33", "32", "34"};

/* One sequence on the screen. */
struct slot {
	size_t prompt;
	int32_t i;
	struct wrap wrap;
	size_t rows; /* it gets in this frame */
};

struct line {
	size_t at, n; /* of the frame's bytes */
	size_t cells;
};

struct frame {
	struct wrap_out out;
	struct line *lines; /* [n_lines] */
	size_t n_lines, lines_max;
};

struct live {
	const struct gen *g;
	const struct gen_prompt *prompts;
	size_t n_prompts, n_all, n_ended;
	int32_t base; /* number of a prompt's first text */
	struct gen_watch watch;
	bool colored, open, broken;
	double started, drawn;
	double first; /* when the first tokens were seen; 0: none yet */
	uint64_t n_first;
	size_t rows, cols; /* of the screen */
	size_t gutter; /* cells in front of the texts */
	struct slot *slots; /* [n_slots] in use, [slots_max] with memory */
	size_t n_slots, slots_max;
	size_t next_prompt; /* the first sequence that was not shown yet */
	int32_t next_i;
	size_t height; /* lines on the screen; 0: the view is to begin where the cursor is */
	struct frame now, shown;
	struct wrap_out send;
};

/* ---- Which sequences ---- */

static const struct gen_text *text_of(const struct live *l, size_t prompt, int32_t i)
{
	return &l->prompts[prompt].texts[i];
}

static bool running(const struct gen_text *t)
{
	return t->finish == COHORT_FINISH_NONE && t->n_tokens > 0;
}

static void step(const struct live *l, size_t *prompt, int32_t *i)
{
	if (++*i >= l->prompts[*prompt].n_texts) {
		*i = 0;
		++*prompt;
	}
}

static struct wrap_text slot_text(const struct live *l, const struct slot *s)
{
	const struct gen_prompt *p = &l->prompts[s->prompt];
	const struct gen_text *t = &p->texts[s->i];

	return (struct wrap_text){.head = p->text, .n_head = p->n_bytes, .tail = t->bytes, .n_tail = t->n_bytes};
}

static size_t text_width(const struct live *l)
{
	return l->cols - l->gutter;
}

static bool slot_set(struct live *l, struct slot *s, size_t prompt, int32_t i)
{
	s->prompt = prompt;
	s->i = i;
	return wrap_reset(&s->wrap, text_width(l));
}

/* "[2]", or "[prompt.sequence]" when there are several prompts. */
static size_t label(size_t n_prompts, size_t prompt, int32_t i, char out[48])
{
	if (n_prompts > 1)
		return (size_t)snprintf(out, 48, "[%zu.%d]", prompt, i);
	return (size_t)snprintf(out, 48, "[%d]", i);
}

/* As wide as the last label. */
size_t live_gutter(const struct gen_prompt *prompts, size_t n_prompts, int32_t first, size_t cols)
{
	char name[48];
	const size_t n = label(n_prompts, n_prompts - 1, first + prompts[n_prompts - 1].n_texts - 1, name) + 1;

	return cols >= n + TEXT_CELLS_MIN ? n : cols > TEXT_CELLS_MIN ? 1 : 0;
}

static size_t slots_wanted(const struct live *l)
{
	const size_t body = l->rows - 1;

	if (l->n_all <= body)
		return l->n_all;
	return body > 1 ? body - 1 : body; /* a line says how many more there are */
}

/* Fills the screen: those under way first, in their order. */
static bool choose(struct live *l)
{
	const size_t want = slots_wanted(l);
	void *at = l->slots;
	size_t n_running = 0;

	l->gutter = 0;
	for (size_t p = 0; p < l->n_prompts; p++)
		for (int32_t i = 0; i < l->prompts[p].n_texts; i++)
			n_running += running(text_of(l, p, i));
	if (l->n_all > 0)
		l->gutter = live_gutter(l->prompts, l->n_prompts, l->base, l->cols);

	const size_t had = l->slots_max;
	if (!mem_grow(&at, &l->slots_max, want, sizeof *l->slots))
		return false;
	l->slots = at;
	if (l->slots_max > had)
		memset(l->slots + had, 0, (l->slots_max - had) * sizeof *l->slots);
	l->n_slots = l->next_prompt = 0;
	l->next_i = 0;
	size_t others = want > n_running ? want - n_running : 0, p = 0;
	for (int32_t i = 0; p < l->n_prompts && l->n_slots < want; step(l, &p, &i)) {
		const bool runs = running(text_of(l, p, i));
		if (!runs && others == 0)
			continue;
		others -= !runs;
		if (!slot_set(l, &l->slots[l->n_slots++], p, i))
			return false;
		l->next_prompt = p;
		l->next_i = i;
	}
	if (l->n_slots > 0)
		step(l, &l->next_prompt, &l->next_i);
	return true;
}

/* Where there are more than fit, one that ended makes room for one that has begun. */
static bool replace_ended(struct live *l)
{
	for (size_t k = 0; k < l->n_slots && l->n_slots < l->n_all; k++) {
		struct slot *s = &l->slots[k];
		if (text_of(l, s->prompt, s->i)->finish == COHORT_FINISH_NONE)
			continue;
		while (l->next_prompt < l->n_prompts &&
				text_of(l, l->next_prompt, l->next_i)->finish != COHORT_FINISH_NONE)
			step(l, &l->next_prompt, &l->next_i);
		if (l->next_prompt >= l->n_prompts || !running(text_of(l, l->next_prompt, l->next_i)))
			break;
		if (!slot_set(l, s, l->next_prompt, l->next_i))
			return false;
		step(l, &l->next_prompt, &l->next_i);
	}
	return true;
}

/* Rows go round until everybody has enough or there are none left. */
static void share_rows(struct live *l)
{
	size_t left = l->rows - 1 - (l->n_slots < l->n_all && l->rows > 2);

	for (size_t k = 0; k < l->n_slots; k++, left--)
		l->slots[k].rows = 1;
	for (bool more = true; more && left > 0;) {
		more = false;
		for (size_t k = 0; k < l->n_slots && left > 0; k++) {
			struct slot *s = &l->slots[k];
			if (s->rows < s->wrap.n_lines) {
				s->rows++;
				left--;
				more = true;
			}
		}
	}
}

/* ---- A frame ---- */

static void line_begin(struct frame *f)
{
	void *at = f->lines;

	if (!mem_grow(&at, &f->lines_max, f->n_lines + 1, sizeof *f->lines)) {
		f->out.failed = true;
		return;
	}
	f->lines = at;
	f->lines[f->n_lines++] = (struct line){.at = f->out.n_bytes};
}

static void line_end(struct frame *f, size_t cells)
{
	if (f->out.failed)
		return;
	struct line *line = &f->lines[f->n_lines - 1];
	line->n = f->out.n_bytes - line->at;
	line->cells = cells;
}

/* The label on the first row; a mark where the text's beginning is missing. */
static void put_gutter(struct live *l, const struct slot *s, bool first, bool cut)
{
	struct wrap_out *o = &l->now.out;
	char name[48];
	size_t n = 0;

	if (l->gutter > 1 && first) {
		n = label(l->n_prompts, s->prompt, l->base + s->i, name);
		if (l->colored) {
			const bool ended = text_of(l, s->prompt, s->i)->finish != COHORT_FINISH_NONE;
			const size_t color = (s->prompt * (size_t)l->prompts[s->prompt].n_texts + (size_t)s->i) %
					(sizeof colors / sizeof *colors);
			wrap_puts(o, ended ? "\033[2;" : "\033[1;");
			wrap_puts(o, colors[color]);
			wrap_puts(o, "m");
		}
		wrap_put(o, name, n);
		if (l->colored)
			wrap_puts(o, "\033[0m");
	}
	for (; n + 1 < l->gutter; n++)
		wrap_puts(o, " ");
	if (n < l->gutter)
		wrap_puts(o, cut ? ellipsis : " ");
}

static void put_slot(struct live *l, struct slot *s)
{
	const struct wrap_text t = slot_text(l, s);
	struct frame *f = &l->now;

	if (s->rows == 1 && s->wrap.n_lines > 1) {
		/* The end of the text as far as a line holds it, rather than its last line. */
		struct wrap_out end = {.bytes = NULL};
		bool cut = false;
		const size_t cells = wrap_tail(text_width(l), &t, l->colored, &end, &cut);
		line_begin(f);
		put_gutter(l, s, true, cut);
		wrap_put(&f->out, end.bytes, end.n_bytes);
		f->out.failed |= end.failed;
		mem_free(end.bytes);
		line_end(f, l->gutter + cells);
		return;
	}
	const size_t from = s->wrap.n_lines - s->rows;
	for (size_t i = from; i < s->wrap.n_lines; i++) {
		line_begin(f);
		put_gutter(l, s, i == from, i == from && from > 0);
		line_end(f, l->gutter + wrap_line(&s->wrap, &t, i, l->colored, &f->out));
	}
}

/* A line of our own, dimmed, cut to the screen. */
static void put_note(struct live *l, const char *s)
{
	struct frame *f = &l->now;
	size_t cells;
	const size_t n = text_fit(s, strlen(s), l->cols, &cells);

	line_begin(f);
	if (l->colored && n > 0)
		wrap_puts(&f->out, "\033[2m");
	wrap_put(&f->out, s, n);
	if (l->colored && n > 0)
		wrap_puts(&f->out, "\033[0m");
	line_end(f, cells);
}

static void put_status(struct live *l, double now)
{
	const uint64_t n = l->g->n_generated;
	const double most = (double)l->g->n_predict * (double)l->n_all, elapsed = now - l->started;
	char full[192], half[160], brief[128];

	if (!l->first && n > 0) {
		l->first = now;
		l->n_first = n;
	}
	const double since = l->first ? now - l->first : 0;
	const double rate = since > 0.2 ? (double)(n - l->n_first) / since : 0;
	snprintf(full, sizeof full,
			"%" PRIu64
			" of at most %.0f tokens \xc2\xb7 %.0f tokens/s \xc2\xb7 %.1f s \xc2\xb7 %zu of %zu ended",
			n, most, rate, elapsed, l->n_ended, l->n_all);
	snprintf(half, sizeof half,
			"%" PRIu64 " tokens \xc2\xb7 %.0f tokens/s \xc2\xb7 %.1f s \xc2\xb7 %zu of %zu ended", n, rate,
			elapsed, l->n_ended, l->n_all);
	snprintf(brief, sizeof brief, "%" PRIu64 " tok %.0f/s %.0fs %zu/%zu", n, rate, elapsed, l->n_ended, l->n_all);
	if (text_cells(full, strlen(full)) <= l->cols)
		put_note(l, full);
	else
		put_note(l, text_cells(half, strlen(half)) <= l->cols ? half : brief);
}

static bool compose(struct live *l, double now)
{
	struct frame *f = &l->now;

	if (!replace_ended(l))
		return false;
	for (size_t k = 0; k < l->n_slots; k++) {
		const struct wrap_text t = slot_text(l, &l->slots[k]);
		if (!wrap_more(&l->slots[k].wrap, &t))
			return false;
	}
	share_rows(l);
	f->n_lines = f->out.n_bytes = 0;
	for (size_t k = 0; k < l->n_slots; k++)
		put_slot(l, &l->slots[k]);
	if (l->n_slots < l->n_all && l->rows > 2) {
		char more[64];
		snprintf(more, sizeof more, "%s and %zu more", ellipsis, l->n_all - l->n_slots);
		put_note(l, more);
	}
	/* The view never gets lower, as what is below it would stay. */
	while (!f->out.failed && f->n_lines + 1 < l->height)
		put_note(l, "");
	put_status(l, now);
	return !f->out.failed;
}

/* ---- Drawing ---- */

static void move(struct wrap_out *o, size_t from, size_t to)
{
	char seq[32];

	if (from == to)
		return;
	snprintf(seq, sizeof seq, "\033[%zu%c", from > to ? from - to : to - from, from > to ? 'A' : 'B');
	wrap_puts(o, seq);
}

static bool unchanged(const struct live *l, size_t i)
{
	if (i >= l->shown.n_lines)
		return false;
	const struct line *a = &l->now.lines[i], *b = &l->shown.lines[i];
	return a->n == b->n && memcmp(l->now.out.bytes + a->at, l->shown.out.bytes + b->at, a->n) == 0;
}

static bool draw(struct live *l)
{
	struct wrap_out *o = &l->send;
	const size_t n = l->now.n_lines;
	size_t at = n - 1;

	if (l->height == 0) {
		l->shown.n_lines = 0;
		wrap_puts(o, "\r\033[J");
		l->height = 1;
	}
	for (; l->height < n; l->height++)
		wrap_puts(o, "\r\n");
	for (size_t i = 0; i < n; i++) {
		const struct line *line = &l->now.lines[i];
		if (unchanged(l, i))
			continue;
		move(o, at, i);
		at = i;
		wrap_puts(o, "\r");
		wrap_put(o, l->now.out.bytes + line->at, line->n);
		/* At the edge the cursor stands on the last cell, which must stay. */
		if (line->cells < l->cols)
			wrap_puts(o, "\033[K");
	}
	if (o->n_bytes > 0) {
		move(o, at, n - 1);
		wrap_puts(o, "\r");
	}
	const struct frame done = l->now;
	l->now = l->shown;
	l->shown = done;
	return !o->failed && term_write(FD, o->bytes, o->n_bytes);
}

/* Back to the first line, and nothing below. Terminals break lines that have become too long for them into several;
 * those that do not lose as many lines above the view. */
static void erase(struct live *l)
{
	struct wrap_out *o = &l->send;
	size_t rows, cols, up = 0;

	if (l->height == 0)
		return;
	term_size(FD, &rows, &cols);
	for (size_t i = 0; i + 1 < l->shown.n_lines; i++) {
		const size_t cells = l->shown.lines[i].cells;
		up += cells > cols ? (cells + cols - 1) / cols : 1;
	}
	move(o, up, 0);
	wrap_puts(o, "\r\033[J");
	l->height = 0;
}

static void frame(struct live *l)
{
	const double now = clock_now();
	size_t rows, cols;

	l->drawn = now;
	l->send.n_bytes = 0;
	if (!term_foreground(FD))
		return;
	if (term_continued()) {
		l->height = 0;
		term_hold_again();
	}
	term_size(FD, &rows, &cols);
	if (term_resized() || rows != l->rows || cols != l->cols) {
		erase(l);
		l->rows = rows;
		l->cols = cols;
		l->broken = !choose(l);
	}
	l->broken = l->broken || !compose(l, now) || !draw(l);
}

static void on_tick(void *user)
{
	struct live *l = user;
	if (l->open && !l->broken && clock_now() - l->drawn >= frame_s)
		frame(l);
}

static void on_text_end(void *user, const struct gen_prompt *p, int32_t i)
{
	struct live *l = user;
	(void)p;
	(void)i;
	l->n_ended++;
}

static void close_view(void *user)
{
	struct live *l = user;

	if (!l->open)
		return;
	l->open = false;
	progress_owner(NULL, NULL);
	l->send.n_bytes = 0;
	if (term_foreground(FD) && !term_continued())
		erase(l);
	if (!l->send.failed)
		term_write(FD, l->send.bytes, l->send.n_bytes);
	term_release();
}

struct live *live_open(const struct gen *g, const struct gen_prompt *prompts, size_t n_prompts, int32_t first)
{
	struct live *l = mem_zalloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->g = g;
	l->prompts = prompts;
	l->n_prompts = n_prompts;
	l->base = first;
	for (size_t p = 0; p < n_prompts; p++)
		l->n_all += (size_t)prompts[p].n_texts;
	l->watch = (struct gen_watch){.tick = on_tick, .end = on_text_end, .user = l};
	l->colored = term_colors(FD);
	l->started = clock_now();
	l->open = true;
	fflush(stdout);
	fflush(stderr);
	term_hold(FD);
	progress_owner(close_view, l);
	frame(l);
	return l;
}

const struct gen_watch *live_watch(const struct live *l)
{
	return &l->watch;
}

void live_free(struct live *l)
{
	if (!l)
		return;
	close_view(l);
	for (size_t k = 0; k < l->slots_max; k++)
		wrap_release(&l->slots[k].wrap);
	mem_free(l->slots);
	mem_free(l->now.lines);
	mem_free(l->now.out.bytes);
	mem_free(l->shown.lines);
	mem_free(l->shown.out.bytes);
	mem_free(l->send.bytes);
	mem_free(l);
}
