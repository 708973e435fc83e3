/* Any bytes as the head of a model file: a status, or a model that decodes a few tokens. The bytes are followed by
 * pseudo-random floats, so that seeds need no weights; they are the heads of tests/golden/make_models.py's models,
 * without their vocabularies. */
#include "cohort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TAIL = 1 << 20, MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void decode(struct cohort_model *m)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context_params cp;
	struct cohort_context *c;
	struct cohort_batch b;

	cohort_model_info_get(m, &info);
	cohort_context_params_init(&cp);
	cp.n_ctx = 64;
	cp.n_batch = cp.n_ubatch = 8;
	cp.n_seq_max = 2;
	cp.n_threads = 1;
	cp.outputs = info.encoder ? COHORT_OUTPUT_EMBEDDINGS : COHORT_OUTPUT_LOGITS;
	if (cohort_context_open(m, &cp, &c, NULL))
		return;
	if (!cohort_batch_init(&b, 8, 0, 1, NULL)) {
		for (int32_t i = 0; i < 8; i++) {
			const cohort_seq seq = i & 1;
			cohort_batch_add(&b, i % info.n_vocab, i / 2, &seq, 1, true, NULL);
		}
		if (info.encoder)
			cohort_encode(c, &b, NULL);
		else if (!cohort_decode(c, &b, NULL)) {
			cohort_seq_cp(c, 0, 1, 0, -1, NULL);
			cohort_seq_add(c, 0, 0, -1, 3, NULL);
			cohort_seq_rm(c, 0, 4, -1, NULL);
		}
		cohort_batch_release(&b);
	}
	cohort_context_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	static float tail[TAIL / sizeof(float)];
	struct cohort_model_params mp;
	struct cohort_model *m;
	char path[64];
	uint32_t x = 1;

	for (size_t i = 0; tail[1] == 0.0f && i < TAIL / sizeof *tail; i++) {
		x = x * 1664525u + 1013904223u;
		tail[i] = ((float)(x >> 8) / 16777216.0f - 0.5f) * 0.5f;
	}
	int fd = n_bytes <= MOST ? memfd_create("model", 0) : -1;
	if (fd < 0)
		return 0;
	if (write(fd, data, n_bytes) == (ssize_t)n_bytes && write(fd, tail, TAIL) == TAIL) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		cohort_model_params_init(&mp);
		mp.n_threads = 1;
		mp.file_layout = n_bytes & 1;
		if (!cohort_model_open(path, &mp, &m, NULL)) {
			decode(m);
			cohort_model_free(m);
		}
	}
	close(fd);
	return 0;
}
