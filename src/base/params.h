/* Structs that a caller filled, with a header that may be older than this library: shorter ones than ours.
 *
 *  1. Nothing behind the caller's struct_size is read.
 *  2. What an older struct does not have keeps the value that `to` had: its default.
 */
#ifndef BASE_PARAMS_H
#define BASE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether n can be the size of an earlier version of a struct that has n_max bytes now and begins with its size: they
 * are made of words, and have more than the size. */
static inline bool params_size_fits(size_t n, size_t n_max)
{
	return n >= 2 * sizeof n && n <= n_max && n % sizeof n == 0;
}

/* Copies the caller's struct over the defaults in to[0 .. n_max); its struct_size is then n_max. False, and nothing is
 * copied, for one of which the size cannot be: newer than this library, or never initialised. */
static inline bool params_take(void *to, size_t n_max, const void *from)
{
	size_t n;

	memcpy(&n, from, sizeof n);
	if (!params_size_fits(n, n_max))
		return false;
	memcpy(to, from, n);
	memcpy(to, &n_max, sizeof n_max);
	return true;
}
#endif
