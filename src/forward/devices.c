/* What is done on every device of a context: cells and states lie where their layers do. */
#include "forward/forward.h"

enum cohort_status forward_wait(struct forward *f, int64_t *bad, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	*bad = -1;
	for (size_t i = 0; i < f->n_parts; i++) {
		int64_t found;
		const enum cohort_status s = f->parts[i].ops->wait(f->parts[i].be, &found, st ? NULL : err);
		st = st ? st : s;
		*bad = *bad < 0 ? found : *bad;
	}
	return st;
}

bool forward_lora_reserve(struct forward *f, const struct model_loras *loras)
{
	for (size_t i = 0; i < f->n_parts; i++)
		if (f->parts[i].ops->lora_reserve && !f->parts[i].ops->lora_reserve(f->parts[i].be, loras))
			return false;
	return true;
}

void forward_touch(struct forward *f)
{
	for (size_t i = 0; i < f->n_parts; i++)
		if (f->parts[i].ops->touch)
			f->parts[i].ops->touch(f->parts[i].be);
}

double forward_repack(struct forward *f, double seconds)
{
	double least = 1;

	for (size_t i = 0; i < f->n_parts; i++) {
		const struct forward_part *p = &f->parts[i];
		const double done = p->ops->repack ? p->ops->repack(p->be, seconds / (double)f->n_parts) : 1;
		least = done < least ? done : least;
	}
	return least;
}

uint64_t forward_weight_sum(struct forward *f, const struct model_weight *w)
{
	const struct forward_part *p = f->parts;

	while (p->wanted && !p->wanted[w->index])
		p++;
	return p->ops->weight_sum(p->be, w);
}

size_t forward_block_bytes(const struct forward *f, size_t group)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_parts; i++)
		n += f->parts[i].be->block_bytes[group];
	return n;
}

void forward_cells_move(struct forward *f, size_t group, const struct be_move *moves, size_t n)
{
	for (size_t i = 0; n && i < f->n_parts; i++)
		f->parts[i].ops->cells_move(f->parts[i].be, group, moves, n);
}

size_t forward_cell_bytes(const struct forward *f, size_t group)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_parts; i++)
		n += f->parts[i].be->cell_bytes[group];
	return n;
}

/* Parts follow each other in the order of the layers, so that a cell has the same bytes however layers are divided. */
void forward_cells_pass(struct forward *f, size_t group, const struct be_span *spans, size_t n, void *bytes, bool store)
{
	const size_t step = forward_cell_bytes(f, group);
	uint8_t *at = bytes;

	for (size_t i = 0; n && i < f->n_parts; i++) {
		const struct forward_part *p = &f->parts[i];
		p->ops->cells_pass(p->be, group, spans, n, at, step, store);
		at += p->be->cell_bytes[group];
	}
}
