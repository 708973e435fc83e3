/* Files that are no GGUF files, by their first bytes. */
#ifndef GGUF_FOREIGN_H
#define GGUF_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file is and what to do about it ("a safetensors file: ..."), static; NULL when it begins like a GGUF file or
 * like nothing known here. *old: a format that GGUF replaced. */
const char *gguf_foreign(const uint8_t *data, size_t n_bytes, bool *old);

#endif
