/* The backends that there are, and what they share. */
#include "backend/cpu.h"

#define BACKENDS_MAX 8

static const struct be_ops *backends[BACKENDS_MAX] = {&be_cpu};
static size_t n_backends = 1;

size_t be_count(void)
{
	return n_backends;
}

const struct be_ops *be_get(size_t i)
{
	return i < n_backends ? backends[i] : NULL;
}

bool be_register(const struct be_ops *ops)
{
	if (n_backends == BACKENDS_MAX)
		return false;
	backends[n_backends++] = ops;
	return true;
}

struct be_range be_share(size_t n_rows, size_t rank, size_t of)
{
	const size_t unit = 32, n = (n_rows + unit - 1) / unit;

	if (of < 2)
		return (struct be_range){0, n_rows};
	const size_t from = n * rank / of * unit, to = n * (rank + 1) / of * unit;
	return (struct be_range){from < n_rows ? from : n_rows, to < n_rows ? to : n_rows};
}
