/* Saving a state to a file, killed at any moment: the file is the old state or the new one, whole, and can be restored;
 * what was being written goes with the next save.
 *
 *	test_state_kill [COUNT]		kills; 40 if nothing is said
 *
 * Seen red with a file that is written in place, and with leftovers that the next save does not remove. */
#include "state_rig.h"
#include "temp.h"

#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long n_kills = 40;
#define BEGIN_S 1e-3 /* that a process may take to begin */

static size_t n_files(const char *dir)
{
	size_t n = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (const struct dirent *e = readdir(d); e; e = readdir(d))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static bool holds(const char *path, const struct bytes *b)
{
	uint8_t *got = NULL;
	size_t n = 0;
	const bool same = !file_load(path, SIZE_MAX, &got, &n, NULL) && n == b->n && memcmp(got, b->p, n) == 0;

	mem_free(got);
	return same;
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void state_file_whole_after_kill(void **state)
{
	static const cohort_seq seqs[] = {0, 4};
	struct rig r;
	struct cohort_err err;
	char dir[TEMP_MAX], path[TEMP_MAX + 8];
	struct bytes want[2];
	size_t now = 0, n_before = 0, n_during = 0, n_after = 0;
	uint64_t rng = 7;

	(void)state;
	assert_non_null(mkdtemp(temp_name(dir, "kill")));
	snprintf(path, sizeof path, "%s/state", dir);
	rig_open(&r, COHORT_KV_F32, 0);
	prepare(r.c);
	for (size_t i = 0; i < 2; i++)
		want[i] = save(r.c, seqs[i]);
	/* The fastest of some: what others do on this machine is no part of its life. */
	double save_s = 1;
	for (int i = 0; i < 8; i++) {
		const double began = now_s();
		ok(cohort_state_save_file(r.c, seqs[0], path, &err), &err);
		save_s = now_s() - began < save_s ? now_s() - began : save_s;
	}

	/* A save is whole most of the time: as many as it takes to meet one that is not. */
	for (long k = 0; k < n_kills || (n_kills >= 20 && n_during == 0 && k < 50 * n_kills); k++) {
		const size_t next = 1 - now;
		int status;
		const pid_t pid = fork();
		assert_true(pid >= 0);
		while (pid == 0) /* again and again: in memory a save is shorter than a process takes to begin */
			cohort_state_save_file(r.c, seqs[next], path, NULL);
		rng = rng * 6364136223846793005u + 1442695040888963407u;
		const double wait_s = (BEGIN_S + 1.5 * save_s) * (double)(rng >> 40) / (double)(1 << 24);
		nanosleep(&(struct timespec){(time_t)wait_s, (long)(1e9 * (wait_s - (double)(time_t)wait_s))}, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		const bool is_new = holds(path, &want[next]);
		const size_t n_left = n_files(dir) - 1;
		assert_true(is_new || holds(path, &want[now]));
		assert_true(n_left <= 1);
		ok(cohort_state_restore_file(r.c, SPARE, path, &err), &err);
		n_after += is_new;
		n_during += n_left;
		n_before += !is_new && !n_left;
		now = is_new ? next : now;
	}
	ok(cohort_state_save_file(r.c, seqs[0], path, &err), &err);
	assert_true(holds(path, &want[0]));
	assert_int_equal(n_files(dir), 1);
	printf("# state: %ld kills, %zu before, %zu during, %zu after; a save takes %.1f ms\n", n_kills, n_before,
			n_during, n_after, 1e3 * save_s);
	assert_true(n_kills < 20 || n_during > 0);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
	for (size_t i = 0; i < 2; i++)
		free(want[i].p);
	rig_close(&r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(state_file_whole_after_kill)};

	if (argc > 1)
		n_kills = atol(argv[1]);
	return cmocka_run_group_tests_name("state_kill", tests, NULL, NULL);
}
