/* Filling struct cohort_err. Every function returns the status it was given, so that
 * `return err_set(...)` reads as one step, and accepts err == NULL. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "cohort.h"

enum cohort_status err_set(struct cohort_err *err, enum cohort_status status, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));

/* The same with a byte offset in a file. */
enum cohort_status err_at(struct cohort_err *err, enum cohort_status status, uint64_t offset,
		const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A broken batch or sequence rule, as data and as text. */
enum cohort_status err_rule(struct cohort_err *err, enum cohort_status status, const char *rule,
		int64_t row, int64_t seq, int64_t expected, int64_t got, const char *fmt, ...)
		__attribute__((format(printf, 8, 9)));

/* E_ARG for a number that is not in lo to hi: the rule is its name, expected the bound that it is beyond. */
enum cohort_status err_range(struct cohort_err *err, const char *name, int64_t v, int64_t lo, int64_t hi);
/* The same of numbers that are no integers, and cannot be expected and got, which are 0; NaN is in no range. */
enum cohort_status err_real(struct cohort_err *err, const char *name, double v, double lo, double hi);

/* Names from a file or a caller, for messages: escaped, so that the message stays one readable line, and cut when long.
 * Returns out. Two of them, a path and a sentence fit the text of struct cohort_err. */
#define ERR_SHOW_BYTES 80
const char *err_show(char out[ERR_SHOW_BYTES], const char *s, size_t n);

/* Puts "prefix: " in front of the text, keeping the rest. A prefix too long for both (a path, mostly) loses its
 * beginning. */
void err_prefix(struct cohort_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "path: " in front of an error that has just been set; returns its status. */
enum cohort_status err_in(struct cohort_err *err, const char *path, enum cohort_status status);

#endif
