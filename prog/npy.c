/* The .npy header: a magic, the version, the length of a Python dictionary and the dictionary, padded with spaces to a
 * multiple of 64 bytes with a newline at the end. Two numbers of 20 digits leave room in 128 bytes. */
#include "npy.h"

#include <stdio.h>
#include <string.h>

void npy_header(char out[NPY_HEADER_BYTES], size_t rows, size_t columns)
{
	enum { HEAD = 10, TEXT = NPY_HEADER_BYTES - HEAD };
	static const char head[HEAD] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, TEXT, 0};
	char text[TEXT + 1];
	const int n = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }",
			rows, columns);

	memset(out, ' ', NPY_HEADER_BYTES);
	memcpy(out, head, HEAD);
	memcpy(out + HEAD, text, (size_t)n);
	out[NPY_HEADER_BYTES - 1] = '\n';
}
