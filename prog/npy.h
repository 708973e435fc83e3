/* The header of a .npy file: a matrix of little-endian float32 in C order, format version 1.0. */
#ifndef PROG_NPY_H
#define PROG_NPY_H

#include <stddef.h>

enum { NPY_HEADER_BYTES = 128 };
/* Fills the header of a [rows, columns] matrix, whose bytes follow it. */
void npy_header(char out[NPY_HEADER_BYTES], size_t rows, size_t columns);

#endif
