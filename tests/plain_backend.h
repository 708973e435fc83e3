/* A backend in plain C, written against src/backend/backend.h alone: see plain_backend.c. */
#ifndef TESTS_PLAIN_BACKEND_H
#define TESTS_PLAIN_BACKEND_H

#include "backend/backend.h"

extern const struct be_ops be_plain;

/* Devices "plain0" and "plain1" are known from now on. Calls after the first do nothing. */
void plain_register(void);
/* The n-th operation to be queued from now on (1: the next; transfers to the host count, too, over all instances) fails
 * with the status, once; 0: none does. Whether the failure is still to come. */
void plain_fail_at(size_t n, enum cohort_status status);
bool plain_fail_is_due(void);
/* All devices are lost, or found again. */
void plain_lose(bool lost);

#endif
