/* Arithmetic of embeddings: lengths, likeness, the best few. Sums are doubles in the order of elements, so that the
 * same vectors give the same numbers on every machine. */
#ifndef PROG_VECTORS_H
#define PROG_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum norm { NORM_NONE, NORM_1, NORM_2, NORM_MAX };
/* "none", "1", "2", "max"; false for another name. */
bool norm_find(const char *name, enum norm *out);
const char *norm_name(enum norm norm);
/* Divides v[0 .. n) by its sum of magnitudes, its Euclidean length or its largest magnitude. Zeros stay zeros. */
void vector_normalize(float *v, size_t n, enum norm norm);
/* Cosine of the angle between two; 0 when one of them is all zeros. */
double vector_cosine(const float *a, const float *b, size_t n);
double vector_dot(const float *a, const float *b, size_t n);

struct match {
	double score;
	uint64_t id;
};
/* Puts a match among the k best so far, which stand in order: falling scores, rising ids. Returns how many there are.
 */
size_t match_insert(struct match *best, size_t n, size_t k, struct match m);

#endif
