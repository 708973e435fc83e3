/* The areas of a cache block as bytes: their sizes, and one position's cell moved from place to place.
 *
 * Invariants
 *  1. Bytes move as they are: a cell that is read here and written there is the same numbers to every kernel.
 *  2. Padding (of a row of V to 8 elements, of an area to 64 bytes) is neither read nor written.
 *
 * Refuses to know what the bytes mean. */
#include "kern/kern.h"
#include "kern/kern_math.h"

#include <string.h>

enum { B = KERN_KV_BLOCK, SCALE_BYTES = sizeof(uint16_t) };

static size_t elem_bytes(enum kern_kv t)
{
	return t == KERN_KV_F32 ? 4 : t == KERN_KV_F16 ? 2 : 1;
}

static size_t n_scales(enum kern_kv t, size_t n)
{
	return t == KERN_KV_Q8_0 ? kern_kv_groups(n) : 0;
}

static size_t pad64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

size_t kern_k_area_bytes(enum kern_kv t, size_t n)
{
	return pad64(B * kern_cell_bytes(t, n));
}

size_t kern_v_area_bytes(enum kern_kv t, size_t n)
{
	return pad64(B * (kern_pad8(n) * elem_bytes(t) + n_scales(t, n) * SCALE_BYTES));
}

size_t kern_cell_bytes(enum kern_kv t, size_t n)
{
	return n * elem_bytes(t) + n_scales(t, n) * SCALE_BYTES;
}

/* n numbers of n_bytes, B of them apart in the area and side by side in the cell. */
static void gather(const uint8_t *from, size_t n, size_t n_bytes, uint8_t *cell)
{
	for (size_t i = 0; i < n; i++)
		memcpy(cell + i * n_bytes, from + i * B * n_bytes, n_bytes);
}

static void scatter(uint8_t *to, size_t n, size_t n_bytes, const uint8_t *cell)
{
	for (size_t i = 0; i < n; i++)
		memcpy(to + i * B * n_bytes, cell + i * n_bytes, n_bytes);
}

void kern_k_cell_read(enum kern_kv t, size_t n, const void *area, size_t slot, void *cell)
{
	size_t e = elem_bytes(t);
	const uint8_t *elems = area, *scales = elems + B * n * e;

	gather(elems + slot * e, n, e, cell);
	gather(scales + slot * SCALE_BYTES, n_scales(t, n), SCALE_BYTES, (uint8_t *)cell + n * e);
}

void kern_k_cell_write(enum kern_kv t, size_t n, void *area, size_t slot, const void *cell)
{
	size_t e = elem_bytes(t);
	uint8_t *elems = area, *scales = elems + B * n * e;

	scatter(elems + slot * e, n, e, cell);
	scatter(scales + slot * SCALE_BYTES, n_scales(t, n), SCALE_BYTES, (const uint8_t *)cell + n * e);
}

void kern_v_cell_read(enum kern_kv t, size_t n, const void *area, size_t slot, void *cell)
{
	size_t e = elem_bytes(t), row = kern_pad8(n) * e, scale_row = n_scales(t, n) * SCALE_BYTES;
	const uint8_t *elems = area, *scales = elems + B * row;

	memcpy(cell, elems + slot * row, n * e);
	memcpy((uint8_t *)cell + n * e, scales + slot * scale_row, scale_row);
}

void kern_v_cell_write(enum kern_kv t, size_t n, void *area, size_t slot, const void *cell)
{
	size_t e = elem_bytes(t), row = kern_pad8(n) * e, scale_row = n_scales(t, n) * SCALE_BYTES;
	uint8_t *elems = area, *scales = elems + B * row;

	memcpy(elems + slot * row, cell, n * e);
	memcpy(scales + slot * scale_row, (const uint8_t *)cell + n * e, scale_row);
}
