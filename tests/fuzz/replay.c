/* A fuzz target as a test, without a fuzzer: every file of its corpus, nothing at all, and some variations of each file
 * that are the same in every run. One case; a target without a corpus fails it. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { VARIATIONS = 8,
	FILES_MAX = 1000 };

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* In memory of its own, so that a read past the end is seen. */
/* Targets keep what they made once. A leak is one of thousands of runs. */
int guard_left = 1000;

static void run(const uint8_t *data, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);

	if (!exact)
		abort();
	if (n)
		memcpy(exact, data, n);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
}

/* A bit turned, a byte put in another's place, a piece left out or said twice, or the end cut off. */
static size_t vary(struct rng *r, uint8_t *data, size_t n)
{
	const size_t a = rng_u32(r) % n, b = a + rng_u32(r) % (n - a) + 1;

	switch (rng_u32(r) % 5) {
	case 0: data[a] ^= (uint8_t)(1U << rng_u32(r) % 8); return n;
	case 1: data[a] = (uint8_t)rng_u32(r); return n;
	case 2: memmove(data + a, data + b, n - b); return n - (b - a);
	case 3: memmove(data + b, data + a, n - a); return n + (b - a);
	default: return a;
	}
}

static void run_file(const char *dir, const char *name, uint64_t number)
{
	char path[1000];
	struct rng r;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) != 0)
		abort();
	const size_t n = (size_t)ftell(f);
	uint8_t *data = malloc(n + 1), *other = malloc(8 * n + 1);
	rewind(f);
	if (!data || !other || fread(data, 1, n, f) != n)
		abort();
	fclose(f);
	printf("# %s\n", name);
	fflush(stdout);
	run(data, n);
	rng_init(&r, 1, number);
	for (int i = 0; i < VARIATIONS && n > 0; i++) {
		size_t k = n;
		memcpy(other, data, n);
		for (uint32_t times = 1 + rng_u32(&r) % 3; times > 0 && k > 0; times--)
			k = vary(&r, other, k);
		run(other, k);
	}
	free(data);
	free(other);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int argc, char **argv)
{
	static char *names[FILES_MAX];
	const struct dirent *e;
	size_t n = 0;

	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
	while (d && n < FILES_MAX && (e = readdir(d)))
		if (e->d_name[0] != '.' && !(names[n++] = strdup(e->d_name)))
			abort();
	if (d)
		closedir(d);
	printf("1..1\n");
	if (n > 0)
		qsort(names, n, sizeof *names, by_name);
	run((const uint8_t *)"", 0);
	for (size_t i = 0; i < n; i++) {
		run_file(argv[1], names[i], i);
		free(names[i]);
	}
	printf("%s 1 - %zu inputs\n", n > 0 ? "ok" : "not ok", n);
	return n > 0 ? 0 : 1;
}
