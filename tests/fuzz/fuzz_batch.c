/* Any bytes as the choices that make batches and damage them: the check says what a checker written from the rules
 * alone says, with the same row, and the splits of a sound batch keep their laws. No call allocates.
 *
 * Seen red with a row too many at the cap of a ubatch, and with positions that need not go on within a batch. */
#include "fuzz_asserts.h"

#include "batch_model.h"

enum { BATCHES_MAX = 8, DAMAGES_MAX = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct batch_checked c; /* one for all inputs: nothing of a batch may reach the next */
	static struct world w;
	static bool opened;
	struct seen seen = {0};
	struct dice d;

	if (!opened)
		warm_up(&c);
	opened = true;
	dice_bytes(&d, data, n);
	for (int i = 0; i < BATCHES_MAX && (i == 0 || !dice_over(&d)); i++) {
		make_world(&w, &d);
		for (uint32_t k = below(&d, DAMAGES_MAX); k > 0; k--)
			damage(&w, &d);
		mem_fail_all(true);
		check_and_split(&c, &w, &d, &seen, i);
		mem_fail_all(false);
	}
	return 0;
}
