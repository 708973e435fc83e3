/* Any bytes as operations on a context's memory with all its parts, one with a window and a recurrent one: rows that
 * are computed by a mock model see what lists say they see, decodes that fail at any place leave no trace, and a twin
 * that is spared them is the same after each operation.
 *
 * The first byte chooses whether there are recurrent states.
 *
 * Seen red with a window that releases one block too early, and with states that are not rolled back. */
#include "fuzz_asserts.h"

#include "memory_mock.h"

enum { OPS_MAX = 60 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct counts c = {0};
	struct dice d;

	dice_bytes(&d, data, n);
	const size_t n_states = below(&d, 2) ? STATES : 0;
	struct mock *a = mock_open(n_states), *twin = mock_open(n_states);
	for (int i = 0; i < OPS_MAX && !dice_over(&d); i++) {
		play_one(a, twin, &d, below(&d, 4) == 0, false, &c);
		assert_true(memory_consistent(&a->m) && memory_consistent(&twin->m));
	}
	memory_clear(&a->m);
	assert_true(memory_consistent(&a->m) && memory_n_live(&a->m) == 0);
	mock_free(a);
	mock_free(twin);
	return 0;
}
