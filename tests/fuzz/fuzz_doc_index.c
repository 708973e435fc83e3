/* Any bytes as a saved index of documents: refused with a reason, or read so that it encodes to the same bytes again.
 *
 * Sizes and checksums that no mutation would get right are made right first, unless the first byte of the input is odd.
 */
#include "../../prog/doc_index.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_doc_index: %s\n", what);
		abort();
	}
}

static void put64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void look_at(const struct doc_index *ix)
{
	for (size_t i = 0; i < ix->n_chunks; i++) {
		const struct doc_chunk *c = &ix->chunks[i];
		check(c->file < ix->n_files && c->n_bytes <= ix->n_texts && c->text <= ix->n_texts - c->n_bytes,
				"a chunk outside the texts");
	}
	for (size_t i = 0; i < ix->n_files; i++)
		check(ix->files[i].path <= ix->n_paths && ix->files[i].n_path <= ix->n_paths - ix->files[i].path,
				"a path outside the paths");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cohort_err err = {0};
	struct doc_index ix;
	uint8_t *again;
	size_t n_again;

	if (n == 0)
		return 0;
	uint8_t *bytes = malloc(n); /* exact, so that a read past the end is seen */
	check(bytes, "memory");
	const size_t size = n - 1;
	memcpy(bytes, data + 1, size);
	if (!(data[0] & 1) && size >= DOC_INDEX_HEAD) {
		put64(bytes + 16, size);
		put64(bytes + 24, doc_index_hash(bytes + 32, size - 32));
	}
	if (doc_index_decode(&ix, bytes, size, &err)) {
		check(err.text[0] != 0, "a refusal without a reason");
	} else {
		look_at(&ix);
		check(doc_index_encode(&ix, &again, &n_again, NULL) == COHORT_OK, "not encoded again");
		check(n_again == size && memcmp(again, bytes, size) == 0, "other bytes than were read");
		mem_free(again);
	}
	doc_index_release(&ix);
	free(bytes);
	return 0;
}
