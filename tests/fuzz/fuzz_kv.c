/* Any bytes as operations on the KV cache's books: rows, commits and roll-backs, ranges removed, copied, moved and
 * kept, images saved and restored in the same or another cache. After each the books are sound and every sequence holds
 * the cells that lists say it holds.
 *
 * The first byte chooses the shape: blocks, their size, sequences, a window or none.
 *
 * Seen red with a block that is written while another sequence holds it, and with a copy of a range that forgets its
 * last cell. */
#include "fuzz_asserts.h"

#include "kv_play.h"

enum { OPS_MAX = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const struct {
		size_t n_blocks, size, n_seq, window;
	} shapes[] = {
			{12, 4, 8, 0},
			{9, 3, 5, 0},
			{12, 1, 3, 0},
			{5, 32, 8, 0},
			{12, 4, 8, 7},
			{16, 3, 5, 1},
			{10, 8, 6, 20},
			{12, 1, 4, 3},
	};
	struct world worlds[2], *w;
	struct counts c = {0};
	struct dice d;

	dice_bytes(&d, data, n);
	const size_t k = below(&d, sizeof shapes / sizeof *shapes);
	init_both(worlds, shapes[k].n_blocks, shapes[k].size, shapes[k].n_seq, shapes[k].window);
	for (int i = 0; i < OPS_MAX && !dice_over(&d); i++) {
		if (!play_one(worlds, &d, &c, &w))
			fail_msg("a sequence holds other cells than it should after operation %d", i);
		assert_true(kv_consistent(w->kv));
	}
	for (int i = 0; i < 2; i++) {
		world_clear(&worlds[i]);
		assert_true(kv_consistent(worlds[i].kv));
		assert_int_equal(world_used(&worlds[i]), 0);
	}
	release_both(worlds);
	return 0;
}
