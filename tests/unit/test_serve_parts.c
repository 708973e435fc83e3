/* Parts of the server that need no connection: histograms and the text of metrics, API keys, routes, shares of batches.
 *
 * Faults planted, each seen to turn this red: in serve_metrics.c a value on a bound counted above it, buckets that are
 * not cumulative, a label that is not cleaned, batches timed as clients' requests are, prompts of embeddings left out;
 * in serve_keys.c a key found by its beginning, the length not compared, the word admin taken for a name; in
 * serve_http.c a hash without the kind, or of one word of the secret, in siphash.c another constant, a round less; in
 * serve_route.c a star that matches nothing or a slash, HEAD without GET; in serve_batch_share.c who was served least
 * coming first whatever is under way, nothing kept free for who waits, or for ever, a new batch that starts at 0 (these
 * batch_shares), a batch that makes room before it has a result, or when no lines are run (batch_slices). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "serve.h"
#include "serve_batches.h"

/* ---- Metrics ---- */

static void histogram_counts_by_bounds(void **state)
{
	static const double bounds[] = {0, 1, 2, 4};
	struct histogram h;

	(void)state;
	histogram_init(&h, bounds, 4);
	histogram_add(&h, 0, 1);
	histogram_add(&h, 1, 2);
	histogram_add(&h, 1.5, 3);
	histogram_add(&h, 4, 1);
	histogram_add(&h, 4.5, 5);
	const uint64_t want[] = {1, 2, 3, 1, 5};
	assert_memory_equal(h.counts, want, sizeof want);
	assert_true(h.sum == 0 + 2 * 1 + 3 * 1.5 + 4 + 5 * 4.5);
}

/* Every line is a comment or a sample; buckets rise; the last one is the count. */
static void check_text(const char *text, const char *label)
{
	char *copy = mem_strndup(text, strlen(text)), *save = NULL;
	double last = -1;
	int n_infs = 0, n_types = 0;

	assert_non_null(copy);
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (*line == '#') {
			n_types += strncmp(line, "# TYPE ", 7) == 0;
			last = -1;
			continue;
		}
		const char *space = strrchr(line, ' ');
		assert_non_null(space);
		char *end;
		const double x = strtod(space + 1, &end);
		assert_int_equal(*end, 0);
		if (strstr(line, "_bucket{")) {
			assert_non_null(strstr(line, label));
			assert_true(x >= last);
			last = x;
			n_infs += strstr(line, "le=\"+Inf\"") != NULL;
		} else if (strstr(line, "_count{")) {
			assert_true(x == last);
		}
	}
	assert_in_range(n_infs, 9, 9);
	assert_in_range(n_types, 30, 60);
	mem_free(copy);
}

static void metrics_add_up(void **state)
{
	struct metrics m;
	struct cohort_engine_stats es = {.n_ticks = 3};
	struct openai_buf b = {0};
	struct rng r;

	(void)state;
	assert_true(metrics_init(&m));
	rng_init(&r, 1, 1);
	for (int i = 0; i < 1000; i++) {
		const struct cohort_tick t = {.at_s = i,
				.total_s = rng_u32(&r) % 1000 / 100.0,
				.n_decode_rows = (int32_t)(rng_u32(&r) % 100),
				.n_prefill_rows = (int32_t)(rng_u32(&r) % 3000),
				.n_generating = 1};
		metrics_tick(&m, &t);
		const struct cohort_request_stats s = {.queued_s = rng_u32(&r) % 10,
				.first_token_s = 20,
				.end_s = 30 + rng_u32(&r) % 100,
				.n_prompt = (int32_t)(rng_u32(&r) % 100000),
				.n_generated = 7,
				.finish = COHORT_FINISH_LENGTH};
		metrics_request(&m, &s, false);
		metrics_http(&m, 200 + rng_u32(&r) % 300, 0.1);
	}
	/* One that was refused in the queue has no times. */
	metrics_request(&m, &(struct cohort_request_stats){.queued_s = -1, .first_token_s = -1, .end_s = 1}, false);
	assert_true(metrics_text(&m, &es, "a \"model\"\n\\x", 5, &b) && openai_buf_add(&b, "", 1));
	check_text(b.p, "model_name=\"a _model___x\"");
	assert_non_null(strstr(b.p, "\nllamacpp:tokens_predicted_total 7000\n"));
	assert_non_null(strstr(b.p, "\ncohort:requests_finished_total{reason=\"length\"} 1000\n"));
	assert_non_null(strstr(b.p, "\nvllm:time_to_first_token_seconds_count{model_name=\"a _model___x\"} 1000\n"));
	openai_buf_release(&b);

	/* Lines of batches are work as any other, but nobody waits for them. */
	const struct cohort_request_stats line = {.queued_s = 1,
			.first_token_s = 2,
			.end_s = 3,
			.n_prompt = 10,
			.n_cached = 4,
			.n_generated = 5,
			.finish = COHORT_FINISH_STOP};
	const uint64_t n_prompt = m.n_prompt;
	metrics_request(&m, &line, true);
	assert_true(m.n_prompt == n_prompt + 6);
	assert_true(metrics_text(&m, &es, "m", 5, &b) && openai_buf_add(&b, "", 1));
	assert_non_null(strstr(b.p, "\nllamacpp:tokens_predicted_total 7005\n"));
	assert_non_null(strstr(b.p, "\ncohort:requests_finished_total{reason=\"stop\"} 1\n"));
	assert_non_null(strstr(b.p, "\ncohort:batch_requests_finished_total{reason=\"stop\"} 1\n"));
	assert_non_null(strstr(b.p, "\ncohort:batch_requests_finished_total{reason=\"length\"} 0\n"));
	assert_non_null(strstr(b.p, "\ncohort:batch_request_latency_seconds_count{model_name=\"m\"} 1\n"));
	assert_non_null(strstr(b.p, "\nvllm:request_generation_tokens_count{model_name=\"m\"} 1001\n"));
	assert_non_null(strstr(b.p, "\nvllm:time_to_first_token_seconds_count{model_name=\"m\"} 1000\n"));
	assert_non_null(strstr(b.p, "\nvllm:request_queue_time_seconds_count{model_name=\"m\"} 1000\n"));
	assert_non_null(strstr(b.p, "\nvllm:e2e_request_latency_seconds_count{model_name=\"m\"} 1001\n"));
	openai_buf_release(&b);

	/* An embedding reads its prompt, and has no token. */
	const struct cohort_request_stats embedding = {.queued_s = 1,
			.first_token_s = -1,
			.end_s = 3,
			.n_prompt = 10,
			.finish = COHORT_FINISH_EMBEDDED};
	const double prefill_s = m.prefill_s;
	metrics_request(&m, &embedding, false);
	assert_true(m.n_prompt == n_prompt + 16 && m.prefill_s == prefill_s + 2);
	assert_true(metrics_text(&m, &es, "m", 5, &b) && openai_buf_add(&b, "", 1));
	assert_non_null(strstr(b.p, "\nvllm:request_prompt_tokens_count{model_name=\"m\"} 1002\n"));
	assert_non_null(strstr(b.p, "\nvllm:request_generation_tokens_count{model_name=\"m\"} 1001\n"));
	assert_non_null(strstr(b.p, "\nvllm:time_to_first_token_seconds_count{model_name=\"m\"} 1000\n"));
	openai_buf_release(&b);

	/* No room: said so, and nothing is lost. */
	mem_fail_all(true);
	assert_false(metrics_text(&m, &es, "m", 0, &b));
	mem_fail_all(false);
	openai_buf_release(&b);
	metrics_release(&m);
}

/* ---- Keys ---- */

static const struct serve_key *find(const struct serve_keys *k, const char *text)
{
	return keys_find(k, text, strlen(text));
}

static void api_keys_added_and_found(void **state)
{
	struct serve_keys k = {0};
	char long_key[600];

	(void)state;
	assert_true(keys_add(&k, "abc", 3));
	assert_true(keys_add(&k, "  abcabc \t Ann  admin \r", 22));
	assert_true(keys_add(&k, "x admin Bob", 11));
	assert_false(keys_add(&k, "   ", 3));
	memset(long_key, 'y', sizeof long_key);
	assert_false(keys_add(&k, long_key, sizeof long_key));
	assert_int_equal(k.n, 3);

	assert_ptr_equal(find(&k, "abc"), &k.keys[0]);
	assert_ptr_equal(find(&k, "abcabc"), &k.keys[1]);
	assert_string_equal(k.keys[1].name, "Ann");
	assert_true(k.keys[1].admin);
	assert_string_equal(k.keys[2].name, "Bob");
	assert_true(k.keys[2].admin);
	assert_false(k.keys[0].admin);
	static const char *const wrong[] = {"", "a", "ab", "abd", "abcabcabc", "abcab", "Abc", "xx", "admin", "Ann"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_null(find(&k, wrong[i]));
	keys_release(&k);
	assert_null(find(&k, "abc"));
}

static void key_files(void **state)
{
	struct serve_keys k = {0};
	char path[] = "test_serve_keys.XXXXXX";
	const int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	static const char text[] = "# keys\n\n one Ann\r\ntwo\n";
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	assert_int_equal(keys_read(&k, "test", path), 0);
	assert_int_equal(k.n, 2);
	assert_non_null(find(&k, "one"));
	assert_string_equal(find(&k, "one")->name, "Ann");
	keys_release(&k);
	assert_int_equal(ftruncate(fd, 7), 0);
	assert_int_not_equal(keys_read(&k, "test", path), 0); /* nothing in it */
	keys_release(&k);
	close(fd);
	unlink(path);
	assert_int_not_equal(keys_read(&k, "test", path), 0); /* not there */
	keys_release(&k);
}

/* ---- Hashes ---- */

static void siphash_of_known_texts(void **state)
{
	/* The reference implementation's, for the key 00 01 .. 0f and messages 00 01 .. */
	static const struct {
		size_t n;
		uint64_t want;
	} vectors[] = {{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {2, 0x0d6c8009d9a94f5a},
			{7, 0xab0200f58b01d137}, {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5},
			{63, 0x958a324ceb064572}};
	const uint64_t key[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
	unsigned char bytes[63];
	char a[64], b[64];

	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)i;
	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
		assert_int_equal(siphash(key, bytes, vectors[i].n), vectors[i].want);

	/* Both words of the secret count, the kind, and all bytes. */
	struct server *s = mem_zalloc(3, sizeof *s);
	assert_non_null(s);
	s[1].secret[0] = s[2].secret[1] = 1;
	const uint64_t some[] = {serve_hash(s, 1, "ab", 2), serve_hash(s + 1, 1, "ab", 2),
			serve_hash(s + 2, 1, "ab", 2), serve_hash(s, 2, "ab", 2), serve_hash(s, 1, "aa", 2),
			serve_hash(s, 1, "bb", 2), serve_hash(s, 1, "a", 1)};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(some[i] != some[k]);
	serve_id(s, "x-", a, sizeof a);
	serve_id(s + 1, "x-", b, sizeof b);
	assert_int_equal(strlen(a), 2 + 16 + 8);
	assert_string_equal(a + 18, "00000000");
	assert_memory_not_equal(a + 2, b + 2, 16);
	mem_free(s);

	uint64_t drawn[4] = {0};
	assert_true(random_draw(drawn, sizeof drawn) && drawn[0] != drawn[1] && drawn[2] != drawn[3]);
}

/* ---- Routes ---- */

static void server_routes_found(void **state)
{
	char arg[32], allow[64];

	(void)state;
#define FIND(method, path) route_find(method, path, arg, sizeof arg, allow, sizeof allow)
	assert_ptr_equal(FIND("GET", "/health")->run, run_health);
	assert_ptr_equal(FIND("HEAD", "/health")->run, run_health);
	assert_ptr_equal(FIND("POST", "/v1/chat/completions")->run, run_chat);
	assert_ptr_equal(FIND("GET", "/v1/models/a-b.c")->run, run_model);
	assert_string_equal(arg, "a-b.c");
	assert_ptr_equal(FIND("GET", "/v1/models/a/b")->run, run_model);
	assert_string_equal(arg, "a/b");
	static const char *const none[] = {"", "/", "/v1/models/", "/v1/files/a/b", "/health/", "/healthx", "/healt",
			"/v1/models/0123456789012345678901234567890123456789", "//health", "*"};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		const struct route *r = FIND("GET", none[i]);
		assert_true(!r || strcmp(none[i], "/") == 0); /* the page */
		if (!r)
			assert_string_equal(allow, "");
	}
	assert_null(FIND("GET", "/v1/chat/completions"));
	assert_string_equal(allow, "POST");
	assert_null(FIND("PATCH", "/cohort/strategy"));
	assert_string_equal(allow, "GET, POST");
}

/* ---- Shares of batches ---- */

static void batch_shares(void **state)
{
	static struct batches all = {.n_parallel = 4};
	struct batch_runner *a = &all.runners[0], *b = &all.runners[1], *c = &all.runners[2];

	(void)state;
	assert_true(lock_init(&all.store.lock) && cond_init(&all.room));
	for (size_t i = 0; i < BATCH_RUNNERS; i++)
		all.runners[i].all = &all;
	share_begin(a);
	for (int i = 0; i < 4; i++)
		assert_true(share_take(a, 1));
	assert_false(share_take(a, 1));
	share_count(a, 1000);
	/* Who comes gets what is given back until both have the same. */
	share_begin(b);
	assert_int_equal(b->served, 1000);
	assert_false(share_take(b, 1));
	share_give(a, 1);
	assert_false(share_take(a, 1));
	assert_true(share_take(b, 1));
	assert_false(share_take(b, 1));
	share_give(a, 1);
	assert_false(share_take(a, 1));
	assert_true(share_take(b, 1));
	/* Then who was served less. */
	share_count(b, 10);
	share_give(a, 1);
	share_give(b, 1);
	a->wants = b->wants = 0;
	assert_true(share_take(a, 1) && share_take(b, 1));
	assert_false(share_take(a, 1));
	share_give(b, 1);
	share_give(a, 1);
	assert_true(share_take(a, 1)); /* one is free beside what b would want */
	assert_false(share_take(a, 1) && share_take(a, 1));
	/* What is large has room kept for it, as long as it asks. */
	while (a->n_outputs)
		share_give(a, 1);
	share_give(b, 1);
	a->wants = 0;
	assert_true(share_take(b, 1));
	assert_false(share_take(a, 8));
	assert_false(share_take(b, 1));
	share_give(b, 1);
	b->wants = 0;
	b->served = 5000;
	assert_false(share_take(b, 1));
	assert_true(share_take(a, 8));
	share_give(a, 8);
	b->wants = 0;
	assert_true(share_take(b, 1));
	assert_false(share_take(a, 8));
	a->asked -= 10;
	assert_true(share_take(b, 1));
	share_give(b, 2);
	share_end(a);
	/* Who begins is served as little as the others were, and no less. */
	share_begin(c);
	assert_int_equal(c->served, 5000);
	share_end(c);
	share_end(b);
	cond_release(&all.room);
	lock_release(&all.store.lock);
}

/* With more owners than runners, the one that has run for longest makes room. */
static void batch_slices(void **state)
{
	static struct batches all = {.n_parallel = 4};
	static struct store_batch batches[BATCH_RUNNERS + 1];
	static struct store_batch *list[BATCH_RUNNERS + 1];

	(void)state;
	assert_true(lock_init(&all.store.lock) && cond_init(&all.room));
	all.store.batches = list;
	all.store.n_batches = BATCH_RUNNERS;
	for (size_t i = 0; i <= BATCH_RUNNERS; i++) {
		list[i] = &batches[i];
		batches[i].status = BATCH_IN_PROGRESS;
		batches[i].owner[0] = (char)('a' + i);
	}
	for (size_t i = 0; i < BATCH_RUNNERS; i++) {
		struct batch_runner *r = &all.runners[i];
		r->all = &all;
		r->busy = true;
		memcpy(r->owner, batches[i].owner, sizeof r->owner);
		share_begin(r);
		r->since = 1 + (double)i;
		r->n_results = i != 0;
		r->look_at = 0;
	}
	struct batch_runner *first = &all.runners[0], *second = &all.runners[1];
	assert_false(share_yields(first)); /* nobody waits */
	all.store.n_batches++;
	first->look_at = second->look_at = 0;
	assert_false(share_yields(first)); /* it has no result */
	first->n_results = 1;
	assert_false(share_yields(second)); /* it did not run for longest */
	all.runners[3].busy = false; /* a runner is free */
	first->look_at = 0;
	assert_false(share_yields(first));
	all.runners[3].busy = true;
	assert_false(share_yields(first)); /* it has just looked */
	first->look_at = 0;
	assert_true(share_yields(first) && share_yields(first));
	second->look_at = 0;
	assert_false(share_yields(second)); /* one is enough */
	first->yields = false;
	share_end(first);
	first->look_at = 0;
	assert_false(share_yields(first)); /* it looks at another batch's input by now */
	cond_release(&all.room);
	lock_release(&all.store.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(histogram_counts_by_bounds),
			cmocka_unit_test(metrics_add_up),
			cmocka_unit_test(api_keys_added_and_found),
			cmocka_unit_test(key_files),
			cmocka_unit_test(siphash_of_known_texts),
			cmocka_unit_test(server_routes_found),
			cmocka_unit_test(batch_shares),
			cmocka_unit_test(batch_slices),
	};
	return cmocka_run_group_tests_name("serve_parts", tests, NULL, NULL);
}
