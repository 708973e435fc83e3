/* What the library is built with, said here for every compiler and -O level: names of the system, no asserts (they stay
 * with -DCOHORT_DEBUG), and one arithmetic: what is not written as one operation is not fused into one. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
		defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "cohort's results are exact: build it without -ffast-math, -Ofast and their parts"
#endif
#if !defined(__FLT_EVAL_METHOD__) || __FLT_EVAL_METHOD__ != 0
#error "cohort needs float operations that are rounded to float (__FLT_EVAL_METHOD__ of 0)"
#endif
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* as in the library: err_set() never returns OK */
#pragma GCC diagnostic ignored "-Wformat-truncation"   /* error texts are cut on purpose */
#else
#error "cohort is built with gcc or clang"
#endif
#pragma GCC diagnostic ignored "-Wunused-function" /* parts of it that are for its own tests, or other machines */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if !defined(COHORT_DEBUG) && !defined(NDEBUG)
#define NDEBUG
#endif
/* Dot products of 64-bit ARM by target attribute: clang before 16 offers them to whole files only. */
#if defined(__aarch64__) && (!defined(__clang__) || __clang_major__ >= 16)
#define KERN_NEON
#endif

#include "cohort.h"

