/* Random batches, sound and damaged, against a checker written from the rules alone; and all their splits.
 *
 * Faults that were planted, each of which turned it red: in check.c sets that may grow, runs that forget their rows'
 * successors, coordinates not looked at, positions that do not go on after a run; in split.c a set that is not retired,
 * a row too many at the cap, tails not kept. */
#include "batch_model.h"

enum { N_BATCHES = 100000 };

static void count(struct seen *seen, const struct world *w, const char *rule)
{
	for (int k = 0; k < N_RULES; k++)
		seen->rule[k] += rule && !strcmp(rule, rules[k]);
	if (rule)
		return;
	bool coupled = false, shrunk = false;
	for (int32_t i = 0; i < w->n_rows; i++) {
		int32_t last = row_before(w, i, w->rows[i].ids[0]);
		coupled |= w->rows[i].n_ids > 1;
		shrunk |= last >= 0 && w->rows[last].n_ids > w->rows[i].n_ids;
	}
	seen->sound++;
	seen->coupled += coupled;
	seen->shrunk += shrunk;
	seen->vectors += w->vectors;
	seen->several_pos += w->lim.n_pos_row > 1;
	seen->no_pos += !w->has_pos;
	seen->no_seq += !w->has_seq;
	seen->no_output += !w->has_output;
	seen->output_all += w->lim.output_all;
	seen->no_memory += !w->has_memory;
}

static void check_seen(const struct seen *seen)
{
	for (int k = 0; k < N_RULES; k++)
		if (seen->rule[k] < 100)
			fail_msg("rule %s was broken %d times only", rules[k], seen->rule[k]);
	assert_true(seen->sound > N_BATCHES / 4);
	assert_true(seen->coupled > 1000 && seen->shrunk > 1000 && seen->vectors > 1000 && seen->several_pos > 1000);
	assert_true(seen->no_pos > 1000 && seen->no_seq > 1000 && seen->no_output > 1000 && seen->output_all > 1000);
	assert_true(seen->no_memory > 1000 && seen->several_sets > 1000 && seen->tail_mattered > 1000);
	assert_true(seen->many_ubatches > 1000);
}

static void checks_and_splits(void **state)
{
	static struct world w;
	struct batch_checked c;
	struct seen seen = {0};
	struct dice r;
	(void)state;

	warm_up(&c);
	dice_init(&r, 2, 0);
	mem_fail_all(true);
	for (int round = 0; round < N_BATCHES; round++) {
		make_world(&w, &r);
		for (uint32_t k = below(&r, 4); k > 1; k--)
			damage(&w, &r);
		count(&seen, &w, check_and_split(&c, &w, &r, &seen, round));
	}
	mem_fail_all(false);
	check_seen(&seen);
	batch_checked_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checks_and_splits),
	};

	return cmocka_run_group_tests_name("batch_random", tests, NULL, NULL);
}
