/* Arithmetic of embeddings. It knows no model and no file. */
#include "vectors.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {[NORM_NONE] = "none", [NORM_1] = "1", [NORM_2] = "2", [NORM_MAX] = "max"};

bool norm_find(const char *name, enum norm *out)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0) {
			*out = (enum norm)i;
			return true;
		}
	return false;
}

const char *norm_name(enum norm norm)
{
	return names[norm];
}

void vector_normalize(float *v, size_t n, enum norm norm)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		const double x = fabs((double)v[i]);
		if (norm == NORM_MAX)
			sum = x > sum ? x : sum;
		else
			sum += norm == NORM_2 ? x * x : x;
	}
	if (norm == NORM_2)
		sum = sqrt(sum);
	if (norm != NORM_NONE && sum > 0)
		for (size_t i = 0; i < n; i++)
			v[i] = (float)((double)v[i] / sum);
}

double vector_dot(const float *a, const float *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

double vector_cosine(const float *a, const float *b, size_t n)
{
	const double aa = vector_dot(a, a, n), bb = vector_dot(b, b, n);
	return aa > 0 && bb > 0 ? vector_dot(a, b, n) / (sqrt(aa) * sqrt(bb)) : 0;
}

size_t match_insert(struct match *best, size_t n, size_t k, struct match m)
{
	if (k == 0 || (n == k && !(m.score > best[n - 1].score)))
		return n;
	size_t i = n < k ? n++ : n - 1;
	for (; i > 0 && m.score > best[i - 1].score; i--)
		best[i] = best[i - 1];
	best[i] = m;
	return n;
}
