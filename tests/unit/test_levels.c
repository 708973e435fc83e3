/* Which levels there are is asked once. A level that the system refuses at that moment, because a thread's signal stack
 * has no room for the tile registers, is not there later either, when nobody fills in its table any more.
 *
 * Its own program, as it has to be the first to ask. Seen red with kern_usable asking again: the level without a table
 * was the best. */
#include "cohort.h"
#include "kern/kern.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t level_named(const char *name)
{
	size_t i = 0;
	while (i < kern_count() && strcmp(kern_name(i), name) != 0)
		i++;
	return i;
}

static void test_small_signal_stack(void **state)
{
	static char stack[4096]; /* enough for AVX-512's registers, not for 8 KiB of tiles */
	const size_t amx = level_named("amx");
	(void)state;

	if (sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) != 0)
		skip();
	assert_false(kern_usable(amx));
	assert_int_equal(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL), 0);
	assert_false(kern_usable(amx));
	assert_null(kern_get(amx));
	assert_non_null(kern_get(kern_best()));
	assert_non_null(kern_get(kern_best())->rms_norm);
	for (size_t i = 0; i < kern_count(); i++)
		assert_true(!kern_get(i) || strcmp(kern_get(i)->name, kern_name(i)) == 0);
}

static void test_past_the_end(void **state)
{
	(void)state;
	assert_null(kern_name(kern_count()));
	assert_false(kern_usable(kern_count()));
	assert_null(kern_get(kern_count()));
	assert_false(cohort_isa_usable(cohort_isa_count()));
	assert_true(cohort_isa_usable(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_signal_stack),
		cmocka_unit_test(test_past_the_end),
	};
	return cmocka_run_group_tests_name("levels", tests, NULL, NULL);
}
