/* For targets that share their model with a unit test, whose asserts are cmocka's: one that fails ends the program, so
 * that the fuzzer keeps the input and shows where it was. */
#ifndef TESTS_FUZZ_ASSERTS_H
#define TESTS_FUZZ_ASSERTS_H

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

#endif
