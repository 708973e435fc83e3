/* The golden files of the block formats: the same model in each of them, and as floats. */
#ifndef TESTS_QUANT_CASE_H
#define TESTS_QUANT_CASE_H

#include "gguf/gguf.h"
#include "quant/quant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared_file.h"

static inline void path_of(const char *file, char *path, size_t n_bytes)
{
	const char *shared = getenv("COHORT_SHARED");
	int n = snprintf(path, n_bytes, "%s/golden/quant-%s.gguf", shared && *shared ? shared : "../shared", file);

	assert_true(n > 0 && (size_t)n < n_bytes);
}

static inline void open_golden(struct gguf *g, const char *file)
{
	char path[4096];
	struct cohort_err err;

	path_of(file, path, sizeof path);
	if (gguf_open(g, path, quant_size, &err) != COHORT_OK)
		fail_msg("%s: %s", path, err.text);
}

static inline const struct gguf_tensor *same_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
	char name[128];

	assert_true(t->name.n < sizeof name);
	memcpy(name, t->name.s, t->name.n);
	name[t->name.n] = '\0';
	return gguf_find_tensor(g, name);
}

#endif
