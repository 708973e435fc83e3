/* The GGUF reader: every refusal of a tensor, with its offset. */
#include "gguf_case.h"

/* Where not said otherwise there is one tensor, "t", whose entry is at 24 and n_dims at 33. */
#define DIMS_AT 33

static void one_tensor(struct file *f, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset,
		size_t n_data)
{
	*f = (struct file){0};
	put_header(f, 3, 1, 0);
	put_tensor(f, "t", n_dims, ne, type, offset);
	put_pad(f, 32);
	put_fill(f, n_data);
}

static void refuse_name_empty(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 1, 0);
	put_tensor(&f, "", 1, (uint64_t[]){1}, 0, 0);
	put_fill(&f, 64);
	refuse(&f, COHORT_E_FORMAT, 24, "tensor name is empty");
}

static void refuse_name_long(void **state)
{
	struct file f = {0};
	char name[66];

	(void)state;
	memset(name, 'n', 65);
	name[65] = '\0';
	put_header(&f, 3, 1, 0);
	put_tensor(&f, name, 1, (uint64_t[]){1}, 0, 0);
	put_fill(&f, 64);
	refuse(&f, COHORT_E_FORMAT, 24, "65 bytes long, the limit is 64");
}

static void refuse_name_twice(void **state)
{
	struct file f = {0};
	size_t at;

	(void)state;
	put_header(&f, 3, 2, 0);
	put_tensor(&f, "t", 1, (uint64_t[]){1}, 0, 0);
	at = f.n;
	put_tensor(&f, "t", 1, (uint64_t[]){1}, 0, 32);
	put_pad(&f, 32);
	put_fill(&f, 64);
	refuse(&f, COHORT_E_FORMAT, (int64_t)at, "tensor 't' is there twice");
}

static void refuse_dims(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 0, NULL, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT, "0 dimensions");
	one_tensor(&f, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT, "5 dimensions");
	one_tensor(&f, 1, (uint64_t[]){1}, 0, 0, 64);
	memset(f.d + DIMS_AT, 0xff, 4);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT, "4294967295 dimensions");
}

static void refuse_zero_dim(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 3, (uint64_t[]){4, 0, 4}, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 12, "dimension 1 is 0");
}

static void refuse_elements(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 2, (uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32}, 0, 0, 64); /* wraps to 0 */
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 12, "too many elements");
	one_tensor(&f, 1, (uint64_t[]){UINT64_C(1) << 63}, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 4, "too many elements");
	one_tensor(&f, 4, (uint64_t[]){1, 1, 1, UINT64_MAX}, 7, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 28, "too many elements");
}

static void refuse_bad_row(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 2, (uint64_t[]){33, 32}, 2, 0, 1000);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 20, "tensor 't': rows of 33");
}

static bool size_of_nothing(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
{
	(void)type, (void)ne0, (void)n_rows, (void)bad_row;
	*n_bytes = 0;
	return true;
}

/* A known type without a size is a mistake of the caller's function, not of the file. */
static void refuse_no_size(void **state)
{
	struct cohort_err err = {0};
	struct file f;
	struct gguf g;

	(void)state;
	one_tensor(&f, 1, (uint64_t[]){4}, 0, 0, 64);
	assert_int_equal(gguf_parse(&g, f.d, f.n, size_of_nothing, &err), COHORT_E_BUG);
	assert_int_equal(err.offset, DIMS_AT + 12);
	assert_zeroed(&g);
	file_release(&f);
}

static void refuse_misaligned(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 1, (uint64_t[]){1}, 0, 16, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 16, "16 is not a multiple of the alignment 32");
}

static void refuse_data_outside(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 1, (uint64_t[]){4}, 0, 0, 15); /* one byte is missing */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){4}, 0, 64, 64);
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){4}, 0, UINT64_MAX - 31, 64); /* the sum with the section's offset wraps */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){INT64_MAX}, 0, 0, 64); /* the size does not fit 64 bits */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){INT64_MAX}, 1, 64, 64); /* the size does, its end does not */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){4}, 99, 64, 64); /* of unknown size, at the end */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
}

/* No padding and no data behind the directory. */
static void refuse_data_absent(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 1, 0);
	put_tensor(&f, "t", 1, (uint64_t[]){1}, 0, 0);
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
}

static void two_tensors(uint32_t type_a, uint64_t offset_a, uint32_t type_b, uint64_t offset_b, const char *word)
{
	struct file f = {0};
	size_t at[2];
	const uint64_t ne[1] = {16};

	put_header(&f, 3, 2, 0);
	at[0] = f.n;
	put_tensor(&f, "a", 1, ne, type_a, offset_a);
	at[1] = f.n;
	put_tensor(&f, "b", 1, ne, type_b, offset_b);
	put_pad(&f, 32);
	put_fill(&f, 256);
	refuse(&f, COHORT_E_FORMAT, (int64_t)(offset_b < offset_a ? at[0] : at[1]), word);
}

static void refuse_overlap(void **state)
{
	(void)state;
	two_tensors(0, 0, 0, 0, "'a' and 'b' overlap");
	two_tensors(0, 0, 0, 32, "'a' and 'b' overlap"); /* 64 bytes each */
	two_tensors(0, 96, 0, 64, "'b' and 'a' overlap");
	two_tensors(0, 0, 99, 32, "overlap");            /* of unknown size, inside another */
	two_tensors(99, 32, 99, 32, "overlap");
}

/* Of several that overlap the first in the file's order of bytes is named. Seen red with a look that goes on. */
static void refuse_overlap_first(void **state)
{
	static const uint64_t ne[1] = {16}; /* 64 bytes */
	struct file f = {0};
	size_t at = 0;

	(void)state;
	put_header(&f, 3, 4, 0);
	put_tensor(&f, "a", 1, ne, 0, 256);
	put_tensor(&f, "b", 1, ne, 0, 0);
	at = f.n;
	put_tensor(&f, "c", 1, ne, 0, 32);
	put_tensor(&f, "d", 1, ne, 0, 224);
	put_pad(&f, 32);
	put_fill(&f, 320);
	refuse(&f, COHORT_E_FORMAT, (int64_t)at, "'b' and 'c' overlap");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuse_name_empty),
		cmocka_unit_test(refuse_name_long),
		cmocka_unit_test(refuse_name_twice),
		cmocka_unit_test(refuse_dims),
		cmocka_unit_test(refuse_zero_dim),
		cmocka_unit_test(refuse_elements),
		cmocka_unit_test(refuse_bad_row),
		cmocka_unit_test(refuse_no_size),
		cmocka_unit_test(refuse_misaligned),
		cmocka_unit_test(refuse_data_outside),
		cmocka_unit_test(refuse_data_absent),
		cmocka_unit_test(refuse_overlap),
		cmocka_unit_test(refuse_overlap_first),
	};

	return cmocka_run_group_tests_name("gguf_tensors", tests, NULL, NULL);
}
