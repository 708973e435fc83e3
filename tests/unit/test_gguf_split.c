/* Models in several GGUF files: any part opens all, and parts that do not make up one model are refused, whatever is
 * wrong with them, with the file's name and nothing left open.
 *
 * Shown red by tensors that do not note their part (opens_by_any_part, odd_parts_are_accepted,
 * parts_fail_at_every_call), by leaving out the look at names that are there already (unsound_parts_are_refused), at
 * keys that differ (unsound_parts_are_refused, compares_values), at the part's number (unsound_parts_are_refused,
 * joining_parts_says_what_is_wrong), at the number of tensors (unsound_parts_are_refused, file_of_one_part_alone), at
 * their sum (joining_parts_says_what_is_wrong), by a part that is not released after a refusal
 * (unsound_parts_are_refused, refuses_types, parts_fail_at_every_call), and by progress that begins anew with every
 * part, or ends with the first (copies_with_progress). */
#include "gguf_case.h"
#include "temp.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <unistd.h>

enum { N_PARTS = 3, PATH_MAX_ = 128 };

/* What a case changes about a part. */
struct part {
	const char *tensors;   /* one letter each, 4 floats whose bytes are that letter */
	int64_t no, count, total; /* -1: no such key */
	uint32_t alignment;    /* 0: not said */
	const char *arch;      /* general.architecture, or NULL */
	const char *more;      /* a key with its own name as value, or NULL */
	const char *bytes;     /* instead of all that */
};

struct model {
	struct part parts[N_PARTS];
};

static const struct model good = {{
	{.tensors = "ab", .no = 0, .count = 3, .total = 4, .arch = "test"},
	{.tensors = "c", .no = 1, .count = 3, .total = 4},
	{.tensors = "d", .no = 2, .count = 3, .total = 4},
}};

static void put_number(struct file *f, const char *key, int64_t v)
{
	if (v >= 0 && v <= UINT16_MAX) {
		put_key(f, key, GGUF_U16); /* as other writers do */
		put_u16(f, (uint16_t)v);
	} else if (v >= 0) {
		put_kv_u32(f, key, (uint32_t)v);
	}
}

static void put_part(struct file *f, const struct part *p)
{
	const uint64_t ne[] = {4};
	const size_t n = p->tensors ? strlen(p->tensors) : 0, step = p->alignment ? p->alignment : 32;

	if (p->bytes) {
		put(f, p->bytes, strlen(p->bytes));
		return;
	}
	put_header(f, 3, n, 0);
	if (p->arch)
		put_kv_str(f, "general.architecture", p->arch);
	if (p->alignment)
		put_kv_u32(f, "general.alignment", p->alignment);
	put_number(f, "split.no", p->no);
	put_number(f, "split.count", p->count);
	if (p->total >= 0) {
		put_key(f, "split.tensors.count", GGUF_I32);
		put_u32(f, (uint32_t)p->total);
	}
	if (p->more)
		put_kv_str(f, p->more, p->more);
	put_n_kv(f);
	for (size_t i = 0; i < n; i++)
		put_tensor(f, (char[]){p->tensors[i], '\0'}, 1, ne, 0, i * step);
	put_pad(f, step);
	for (size_t i = 0; i < n; i++) {
		for (int k = 0; k < 16; k++)
			put_u8(f, (uint8_t)p->tensors[i]);
		if (i + 1 < n)
			put_pad(f, step);
	}
}

/* ---- A directory with the parts ---- */

static char dir[TEMP_MAX];

static const char *path_of(size_t i, size_t count)
{
	static char paths[4][PATH_MAX_];
	static size_t turn;
	char *path = paths[turn++ % 4];

	snprintf(path, PATH_MAX_, "%s/m-%05zu-of-%05zu.gguf", dir, i + 1, count);
	return path;
}

static void write_file(const char *path, const struct file *f)
{
	if (file_write_atomic(path, f->d, f->n, NULL))
		fail_msg("cannot write %s", path);
}

static void write_model(const struct model *m)
{
	for (size_t i = 0; i < N_PARTS; i++) {
		struct file f = {0};
		put_part(&f, &m->parts[i]);
		write_file(path_of(i, N_PARTS), &f);
		file_release(&f);
	}
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(temp_name(dir, "split")) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[PATH_MAX_];

	(void)state;
	mem_fail_after(-1);
	file_fail_after(-1, 0);
	for (size_t i = 0; i < N_PARTS; i++)
		unlink(path_of(i, N_PARTS));
	snprintf(path, sizeof path, "%s/one.gguf", dir);
	unlink(path);
	return rmdir(dir);
}

/* Mappings of files in the directory. */
static size_t n_mapped(void)
{
	char line[512];
	size_t n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		n += strstr(line, dir) != NULL;
	fclose(f);
	return n;
}

static enum cohort_status open_as(struct gguf *g, const char *path, bool copy, struct cohort_err *err)
{
	return copy ? gguf_open_copy(g, path, &(struct gguf_copy){0}, test_size, err)
		    : gguf_open(g, path, test_size, err);
}

static void open_good(struct gguf *g, const char *path, bool copy)
{
	struct cohort_err err = {0};

	if (open_as(g, path, copy, &err))
		fail_msg("%s", err.text);
}

static void check_tensors(const struct gguf *g, const char *names, const char *parts)
{
	assert_int_equal(g->n_tensors, strlen(names));
	for (size_t i = 0; names[i]; i++) {
		const struct gguf_tensor *t = gguf_find_tensor(g, (char[]){names[i], '\0'});
		assert_ptr_equal(t, &g->tensors[i]);
		assert_int_equal(t->part, parts[i] - '0');
		assert_int_equal(t->n_bytes, 16);
		assert_ptr_equal(t->data, g->parts[t->part].map.data + t->offset);
		for (int k = 0; k < 16; k++)
			assert_int_equal(t->data[k], names[i]);
	}
}

/* ---- Cases ---- */

static void opens_by_any_part(void **state)
{
	struct gguf_str arch;
	struct gguf g;

	(void)state;
	write_model(&good);
	for (size_t i = 0; i < 2 * N_PARTS; i++) {
		const bool copy = i >= N_PARTS;
		open_good(&g, path_of(i % N_PARTS, N_PARTS), copy);
		assert_int_equal(n_mapped(), copy ? 0 : N_PARTS);
		assert_int_equal(g.n_parts, N_PARTS);
		for (size_t k = 0; k < N_PARTS; k++) {
			assert_string_equal(g.parts[k].path, path_of(k, N_PARTS));
			assert_int_equal(g.parts[k].n_tensors, k ? 1 : 2);
			assert_int_equal(g.parts[k].map.copied, copy);
		}
		assert_int_equal(g.n_kv, 4);
		assert_int_equal(gguf_get_str(&g, "general.architecture", true, &arch, NULL), COHORT_OK);
		check_tensors(&g, "abcd", "0012");
		for (size_t k = 0; k < g.n_tensors; k++)
			gguf_drop(&g, &g.tensors[k], 0, 16);
		check_tensors(&g, "abcd", "0012");
		gguf_release(&g);
		assert_zeroed(&g);
		assert_int_equal(n_mapped(), 0);
	}
}

/* Metadata alone in the first part, other alignments, repeated keys and further ones, no total: all as it should be. */
static void odd_parts_are_accepted(void **state)
{
	struct model m = good;
	struct gguf g;

	(void)state;
	m.parts[0].tensors = "";
	m.parts[1].tensors = "abc";
	m.parts[1].alignment = 64;
	m.parts[1].arch = "test";
	m.parts[2].more = "of.its.own";
	m.parts[2].total = -1;
	write_model(&m);
	open_good(&g, path_of(0, N_PARTS), false);
	check_tensors(&g, "abcd", "1112");
	assert_int_equal(g.alignment, 32);
	assert_int_equal(g.parts[1].alignment, 64);
	assert_null(gguf_find(&g, "of.its.own"));
	gguf_release(&g);
	for (size_t i = 0; i < N_PARTS; i++)
		m.parts[i].total = -1;
	write_model(&m);
	open_good(&g, path_of(2, N_PARTS), false);
	check_tensors(&g, "abcd", "1112");
	gguf_release(&g);
	/* Each part has its own alignment, a key as long as one of splitting is none, and the first says no total. */
	for (size_t i = 0; i < N_PARTS; i++) {
		m.parts[i].alignment = i == 1 ? 64 : 16;
		m.parts[i].more = "splits.none";
		m.parts[i].total = i ? 4 : -1;
	}
	write_model(&m);
	open_good(&g, path_of(1, N_PARTS), false);
	check_tensors(&g, "abcd", "1112");
	assert_int_equal(g.alignment, 16);
	assert_int_equal(g.parts[1].alignment, 64);
	gguf_release(&g);
}

/* A file of one part, and one that was put together again, under any name. */
static void file_of_one_part_alone(void **state)
{
	static const struct part ones[] = {
		{.tensors = "ab", .no = 0, .count = 1, .total = 2},
		{.tensors = "ab", .no = -1, .count = 1, .total = -1},
		{.tensors = "ab", .no = 0, .count = 0, .total = 2},
		{.tensors = "ab", .no = 2, .count = 0, .total = 7},
		{.tensors = "ab", .no = -1, .count = -1, .total = -1},
	};
	struct cohort_err err;
	char path[PATH_MAX_];
	struct gguf g;

	(void)state;
	snprintf(path, sizeof path, "%s/one.gguf", dir);
	for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
		struct file f = {0};
		put_part(&f, &ones[i]);
		write_file(path, &f);
		file_release(&f);
		open_good(&g, path, false);
		assert_int_equal(g.n_parts, 1);
		check_tensors(&g, "ab", "00");
		gguf_release(&g);
	}
	struct file f = {0};
	put_part(&f, &(struct part){.tensors = "ab", .no = 0, .count = 1, .total = 3});
	write_file(path, &f);
	file_release(&f);
	assert_int_equal(gguf_open(&g, path, test_size, &err), COHORT_E_FORMAT);
	assert_non_null(strstr(err.text, "one.gguf: 2 tensors in all parts, but split.tensors.count is 3"));
	assert_zeroed(&g);
}

/* Names that say nothing of other parts, or nonsense: a part needs a name that does. */
static void odd_names(void **state)
{
	const struct part one = {.tensors = "ab", .no = -1, .count = -1, .total = -1};
	const struct part first = good.parts[0];
	char back[4096], nought[PATH_MAX_];
	struct cohort_err err;
	struct file f = {0};
	struct gguf g;

	(void)state;
	assert_non_null(getcwd(back, sizeof back));
	snprintf(nought, sizeof nought, "%s/m-00001-of-00000.gguf", dir);
	put_part(&f, &one);
	assert_int_equal(chdir(dir), 0);
	write_file("one.gguf", &f);
	write_file(nought, &f);
	for (int copy = 0; copy < 2; copy++) {
		char whole[PATH_MAX_];
		snprintf(whole, sizeof whole, "%s/one.gguf", dir);
		const char *paths[] = {"one.gguf", whole, nought};
		for (size_t i = 0; i < 3; i++) {
			open_good(&g, paths[i], copy);
			check_tensors(&g, "ab", "00");
			gguf_release(&g);
		}
	}
	unlink(nought);
	f.n = 0;
	put_part(&f, &first);
	write_file("one.gguf", &f);
	for (int copy = 0; copy < 2; copy++) {
		assert_int_equal(open_as(&g, "one.gguf", copy, &err), COHORT_E_FORMAT);
		assert_non_null(strstr(err.text, "one.gguf: part 1 of 3 of a split model, whose name must end in"));
		assert_zeroed(&g);
	}
	assert_int_equal(chdir(back), 0);
	file_release(&f);
}

struct seen {
	size_t n, n_max;
	float first, last;
};

static bool note(float done, void *user)
{
	struct seen *seen = user;

	assert_true(done >= seen->last && done <= 1);
	if (seen->n == 0)
		seen->first = done;
	seen->last = done;
	return seen->n++ < seen->n_max;
}

/* Progress goes from 0 to 1 once over all parts, and whoever says no is obeyed at once. */
static void copies_with_progress(void **state)
{
	struct seen seen = {.n_max = SIZE_MAX};
	struct cohort_err err;
	struct gguf g;

	(void)state;
	write_model(&good);
	assert_int_equal(gguf_open_copy(&g, path_of(0, N_PARTS), &(struct gguf_copy){note, &seen}, test_size, &err),
			COHORT_OK);
	check_tensors(&g, "abcd", "0012");
	gguf_release(&g);
	assert_true(seen.n >= N_PARTS);
	assert_true(seen.first < 0.5f && seen.last == 1);
	for (size_t i = 0; i < seen.n; i++) {
		struct seen some = {.n_max = i};
		assert_int_equal(gguf_open_copy(&g, path_of(0, N_PARTS), &(struct gguf_copy){note, &some}, test_size,
				&err), COHORT_ABORTED);
		assert_int_equal(some.n, i + 1);
		assert_zeroed(&g);
	}
}

/* Opens by each of the parts given; the message has the name of part `named`, and the words. */
static void refuse_parts(const struct model *m, const char *openers, enum cohort_status status, size_t named,
		const char *words)
{

	write_model(m);
	for (size_t i = 0; i < 2 * strlen(openers); i++) {
		struct cohort_err err = {0};
		struct gguf g;
		memset(&g, 0x5a, sizeof g);
		const char *path = path_of((size_t)(openers[i / 2] - '0'), N_PARTS);
		const enum cohort_status st = open_as(&g, path, i % 2, &err);
		const char *name = path_of(named, N_PARTS);
		if (st != status || !strstr(err.text, words) || !strstr(err.text, name))
			fail_msg("opened by %c: status %d: %s (wanted %d, '%s', '%s')", openers[i / 2], (int)st,
					err.text, (int)status, name, words);
		assert_zeroed(&g);
		assert_int_equal(n_mapped(), 0);
		assert_int_equal(open_as(&g, path, i % 2, NULL), status);
	}
}

static void unsound_parts_are_refused(void **state)
{
	struct model m;
	(void)state;

#define CASE(openers, status, named, words, ...) \
	do { \
		m = good; \
		__VA_ARGS__; \
		refuse_parts(&m, openers, status, named, words); \
	} while (0)
	CASE("02", COHORT_E_FORMAT, 1, "part 2 of 3: ", m.parts[1].bytes = "nothing that anyone knows");
	CASE("01", COHORT_E_FORMAT, 1, "a web page (HTML)", m.parts[1].bytes = "<!DOCTYPE html><html>");
	CASE("02", COHORT_E_FORMAT, 2, "empty file", m.parts[2].bytes = "");
	CASE("02", COHORT_E_FORMAT, 1, "tensor 'a' is in an earlier part, too", m.parts[1].tensors = "a");
	CASE("02", COHORT_E_FORMAT, 1, "tensor 'b' is in an earlier part, too", m.parts[1].tensors = "cb");
	CASE("0", COHORT_E_FORMAT, 1, "split.no is 2, but part 1", m.parts[1].no = 2);
	CASE("0", COHORT_E_FORMAT, 1, "split.no is 3, but there are 3", m.parts[1].no = 3);
	CASE("1", COHORT_E_FORMAT, 1, "split.no is 3, but there are 3", m.parts[1].no = 3);
	CASE("2", COHORT_E_FORMAT, 0, "split.no is 1 in the first part", m.parts[0].no = 1, m.parts[1].no = 0);
	CASE("0", COHORT_E_FORMAT, 0, "must end in -00002-of-00003.gguf", m.parts[0].no = 1);
	CASE("2", COHORT_E_FORMAT, 0, "'split.no' is missing", m.parts[0].no = -1);
	CASE("2", COHORT_E_FORMAT, 1, "split.count is 3, but 2 in the first part", m.parts[0].count = 2);
	CASE("2", COHORT_E_FORMAT, 1, "split.count is 3, but 1 in the first part", m.parts[0].count = -1);
	CASE("0", COHORT_E_FORMAT, 1, "split.count is 4, but 3 in the first part", m.parts[1].count = 4);
	CASE("02", COHORT_E_FORMAT, 1, "'split.count' is missing", m.parts[1].count = -1);
	CASE("02", COHORT_E_FORMAT, 1, "split.count is 1, but 3", m.parts[1].count = 1, m.parts[1].no = 0);
	CASE("02", COHORT_E_FORMAT, 1, "'split.no' is missing", m.parts[1].no = -1);
	CASE("0", COHORT_E_FORMAT, 0, "'split.no' is missing", m.parts[0].no = -1);
	CASE("0", COHORT_E_FORMAT, 0, "more than 99999", m.parts[0].count = 100000);
	CASE("012", COHORT_E_FORMAT, 2, "split.tensors.count is 5, but 4 in the first part", m.parts[2].total = 5);
	CASE("012", COHORT_E_FORMAT, 0, "3 tensors in all parts, but split.tensors.count is 4",
			m.parts[2].tensors = "");
	CASE("012", COHORT_E_FORMAT, 0, "5 tensors in all parts, but split.tensors.count is 4",
			m.parts[2].tensors = "de");
	CASE("012", COHORT_E_FORMAT, 2, "key 'general.architecture' differs from that of the first part",
			m.parts[2].arch = "tent");
	/* A part of a model of two files is beside the right name of three. */
	CASE("1", COHORT_E_FORMAT, 1, "part 2 of 2 of a split model, whose name must end in -00002-of-00002.gguf",
			m.parts[1].count = 2);
#undef CASE
	write_model(&good);
	for (size_t i = 0; i < N_PARTS; i++) {
		struct cohort_err err;
		struct gguf g;
		char want[2 * PATH_MAX_];
		write_model(&good);
		unlink(path_of(i, N_PARTS));
		snprintf(want, sizeof want, "part %zu of 3: %s: No such file or directory", i + 1, path_of(i, N_PARTS));
		assert_int_equal(gguf_open(&g, path_of(i ? 0 : 1, N_PARTS), test_size, &err), COHORT_E_IO);
		assert_string_equal(err.text, want);
		assert_zeroed(&g);
		assert_int_equal(n_mapped(), 0);
	}
}

/* Keys of any other type than an integer, and any value, as the first part and as another one. */
static void refuses_types(void **state)
{
	static const char *const keys[] = {"split.no", "split.count", "split.tensors.count"};
	(void)state;

	for (size_t i = 0; i < 3; i++)
		for (size_t part = 0; part < 2; part++) {
			struct model m = good;
			struct part *p = &m.parts[part];
			*(i == 0 ? &p->no : i == 1 ? &p->count : &p->total) = -1;
			p->more = keys[i]; /* a string */
			refuse_parts(&m, part ? "02" : "0", COHORT_E_FORMAT, part, "is of type string, not an integer");
		}
}

/* Values that agree only at first sight. */
static void compares_values(void **state)
{
	static const struct {
		bool same;
		uint32_t type;
		const char *a, *b; /* two values, in the file's bytes after their number */
		size_t n;
		uint32_t type_b; /* 0, 0: as the first */
		size_t n_b;
	} values[] = {
		{true, GGUF_U8, "\1", "\1", 1, 0, 0},
		{false, GGUF_U8, "\1", "\2", 1, 0, 0},
		{true, GGUF_F32, "\0\0\xc0\x7f", "\0\0\xc0\x7f", 4, 0, 0}, /* no number equals itself */
		{false, GGUF_F32, "\0\0\0\0", "\0\0\0\x80", 4, 0, 0},
		{true, GGUF_STRING, "\2\0\0\0\0\0\0\0ab", "\2\0\0\0\0\0\0\0ab", 10, 0, 0},
		{false, GGUF_STRING, "\2\0\0\0\0\0\0\0ab", "\2\0\0\0\0\0\0\0ac", 10, 0, 0},
		{true, GGUF_ARRAY, "\0\0\0\0\2\0\0\0\0\0\0\0xy", "\0\0\0\0\2\0\0\0\0\0\0\0xy", 14, 0, 0},
		{false, GGUF_ARRAY, "\0\0\0\0\2\0\0\0\0\0\0\0xy", "\0\0\0\0\2\0\0\0\0\0\0\0xz", 14, 0, 0},
		{false, GGUF_ARRAY, "\0\0\0\0\2\0\0\0\0\0\0\0xy", "\1\0\0\0\2\0\0\0\0\0\0\0xy", 14, 0, 0},
		{true, GGUF_ARRAY, "\0\0\0\0\0\0\0\0\0\0\0\0", "\0\0\0\0\0\0\0\0\0\0\0\0", 12, 0, 0},
		{false, GGUF_U8, "\1", "\1", 1, GGUF_I8, 1},
		{false, GGUF_STRING, "\2\0\0\0\0\0\0\0ab", "\1\0\0\0\0\0\0\0a", 10, GGUF_STRING, 9},
		{false, GGUF_ARRAY, "\0\0\0\0\2\0\0\0\0\0\0\0xy", "\0\0\0\0\1\0\0\0\0\0\0\0x", 14, GGUF_ARRAY, 13},
	};
	(void)state;

	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		struct file f[2] = {{0}, {0}};
		struct gguf g[2];
		struct cohort_err err = {0};
		for (uint32_t k = 0; k < 2; k++) {
			put_header(&f[k], 3, 0, 0);
			put_kv_u32(&f[k], "split.no", k);
			put_kv_u32(&f[k], "split.count", 2);
			put_key(&f[k], "v", k && values[i].n_b ? values[i].type_b : values[i].type);
			put(&f[k], k ? values[i].b : values[i].a, k && values[i].n_b ? values[i].n_b : values[i].n);
			put_n_kv(&f[k]);
			assert_int_equal(gguf_parse(&g[k], f[k].d, f[k].n, test_size, &err), COHORT_OK);
		}
		assert_int_equal(gguf_check_whole(&g[0], &err), COHORT_E_FORMAT);
		assert_non_null(strstr(err.text, "1 parts instead of 2"));
		assert_int_equal(gguf_check_whole(&g[1], &err), COHORT_E_FORMAT);
		assert_string_equal(err.text, "split.no is 1 in the first part (at byte 24)");
		const enum cohort_status st = gguf_join(&g[0], &g[1], &err);
		if (st != (values[i].same ? COHORT_OK : COHORT_E_FORMAT))
			fail_msg("value %zu: %d %s", i, (int)st, err.text);
		if (!st) {
			assert_zeroed(&g[1]);
			assert_int_equal(gguf_check_whole(&g[0], &err), COHORT_OK);
			assert_int_equal(g[0].n_parts, 2);
		}
		for (int k = 0; k < 2; k++) {
			gguf_release(&g[k]);
			file_release(&f[k]);
		}
	}
}

/* Parts in memory that cannot be one model: joining says so, whoever of them is wrong. */
static void joining_parts_says_what_is_wrong(void **state)
{
	static const struct {
		struct part first, next;
		const char *words;
	} cases[] = {
		{{.no = 3, .count = 2, .total = -1}, {.no = 1, .count = 2, .total = -1},
				"split.no is 3, but there are 2"},
		{{.no = -1, .count = 1, .total = -1}, {.no = -1, .count = 1, .total = -1}, "split.no is 0, but part 1"},
	};
	struct file f[2] = {{0}, {0}};
	struct cohort_err err;
	struct gguf g[2];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (int k = 0; k < 2; k++) {
			f[k].n = 0;
			put_part(&f[k], k ? &cases[i].next : &cases[i].first);
			assert_int_equal(gguf_parse(&g[k], f[k].d, f[k].n, test_size, &err), COHORT_OK);
		}
		assert_int_equal(gguf_join(&g[0], &g[1], &err), COHORT_E_FORMAT);
		assert_non_null(strstr(err.text, cases[i].words));
		if (i == 0) {
			assert_int_equal(gguf_check_whole(&g[0], &err), COHORT_E_FORMAT);
			assert_non_null(strstr(err.text, cases[i].words));
		}
		gguf_release(&g[0]);
		gguf_release(&g[1]);
	}
	/* As many tensors as there may be, and one more. */
	for (int k = 0; k < 2; k++) {
		f[k].n = 0;
		put_part(&f[k], &(struct part){.tensors = "a", .no = k, .count = 2, .total = -1});
		assert_int_equal(gguf_parse(&g[k], f[k].d, f[k].n, test_size, &err), COHORT_OK);
	}
	g[0].n_tensors = INT32_MAX;
	assert_int_equal(gguf_join(&g[0], &g[1], &err), COHORT_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, "too many tensors"));
	assert_int_equal(g[0].n_parts, 1);
	g[0].n_tensors = 1;
	for (int k = 0; k < 2; k++) {
		gguf_release(&g[k]);
		file_release(&f[k]);
	}
}

/* Every allocation, and every system call of the way without mapping, fails once. There are tensors enough for the
 * index to grow. */
static void parts_fail_at_every_call(void **state)
{
	struct cohort_err err;
	struct model m = good;
	struct gguf g;
	(void)state;

	m.parts[1].tensors = "cdefghijklm";
	m.parts[2].tensors = "n";
	for (size_t i = 0; i < N_PARTS; i++)
		m.parts[i].total = 14;
	write_model(&m);
	for (size_t i = 0; i < 2 * N_PARTS; i++) {
		const char *path = path_of(i % N_PARTS, N_PARTS);
		int64_t n = 0;
		for (;; n++) {
			mem_fail_after(n);
			const enum cohort_status st = open_as(&g, path, i >= N_PARTS, &err);
			mem_fail_after(-1);
			if (!st)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_non_null(strstr(err.text, dir));
			assert_zeroed(&g);
			assert_int_equal(n_mapped(), 0);
		}
		assert_true(n >= 20);
		check_tensors(&g, "abcdefghijklmn", "00111111111112");
		gguf_release(&g);
	}
	/* Open, fstat and read of each part. */
	for (int64_t n = 0; n < 3 * N_PARTS; n++) {
		file_fail_after(n, EIO);
		assert_int_equal(open_as(&g, path_of(0, N_PARTS), true, &err), COHORT_E_IO);
		assert_non_null(strstr(err.text, path_of((size_t)n / 3, N_PARTS)));
		assert_non_null(strstr(err.text, strerror(EIO)));
		assert_zeroed(&g);
	}
	file_fail_after(-1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(opens_by_any_part, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(odd_parts_are_accepted, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(file_of_one_part_alone, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(odd_names, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(copies_with_progress, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(unsound_parts_are_refused, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(refuses_types, make_dir, remove_dir),
		cmocka_unit_test(compares_values),
		cmocka_unit_test(joining_parts_says_what_is_wrong),
		cmocka_unit_test_setup_teardown(parts_fail_at_every_call, make_dir, remove_dir),
	};

	return cmocka_run_group_tests_name("gguf_split", tests, NULL, NULL);
}
