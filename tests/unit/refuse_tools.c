/* Rows of the table of refusals: GGUF files that are read and written, random and quantised models, templates. */
#include "refuse_case.h"

#include <unistd.h>

/* ---- Reading files ---- */

void refuse_files(void **state)
{
	const char *source = getenv("COHORT_SOURCE");
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_part part;
	struct cohort_gguf_kv kv;
	struct cohort_gguf_tensor tensor;
	struct cohort_gguf_cursor c;
	struct cohort_gguf_value value;
	char path[1024], text[64];

	(void)state;
	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", source ? source : ".");
	GIVES(cohort_gguf_type_name, type, (COHORT_GGUF_F64) != NULL, true);
	GIVES(cohort_gguf_type_name, type, ((enum cohort_gguf_type)(COHORT_GGUF_F64 + 1)) != NULL, true);
	IS_NULL(cohort_gguf_open, (NULL, &g, err), "path is NULL");
	IS_NULL(cohort_gguf_open, (path, NULL, err), "out is NULL");
	PASSES_AND(cohort_gguf_open, _, (path, &g, err), cohort_gguf_free(g));
	assert_int_equal(cohort_gguf_open(path, &g, NULL), COHORT_OK);
	NOTHING(cohort_gguf_free, (NULL));
	GIVES(cohort_gguf_version, _, (NULL), 0);
	GIVES(cohort_gguf_alignment, _, (NULL), 0);
	GIVES(cohort_gguf_data_offset, _, (NULL), 0);
	GIVES(cohort_gguf_file_bytes, _, (NULL), 0);
	GIVES(cohort_gguf_n_parts, _, (NULL), 0);
	GIVES(cohort_gguf_n_kv, _, (NULL), 0);
	GIVES(cohort_gguf_n_tensors, _, (NULL), 0);
	const size_t n_kv = cohort_gguf_n_kv(g), n_tensors = cohort_gguf_n_tensors(g);
	GIVES(cohort_gguf_part_get, _, (NULL, 0, &part), false);
	GIVES(cohort_gguf_part_get, _, (g, 0, NULL), false);
	GIVES(cohort_gguf_part_get, i, (g, 0, &part), true);
	GIVES(cohort_gguf_part_get, i, (g, 1, &part), false);
	GIVES(cohort_gguf_kv_get, _, (NULL, 0, &kv), false);
	GIVES(cohort_gguf_kv_get, _, (g, 0, NULL), false);
	GIVES(cohort_gguf_kv_get, i, (g, n_kv - 1, &kv), true);
	GIVES(cohort_gguf_kv_get, i, (g, n_kv, &kv), false);
	GIVES(cohort_gguf_tensor_get, _, (NULL, 0, &tensor), false);
	GIVES(cohort_gguf_tensor_get, _, (g, 0, NULL), false);
	GIVES(cohort_gguf_tensor_get, i, (g, n_tensors - 1, &tensor), true);
	GIVES(cohort_gguf_tensor_get, i, (g, n_tensors, &tensor), false);
	GIVES(cohort_gguf_kv_find, _, (NULL, "tokenizer.ggml.tokens", &kv), false);
	GIVES(cohort_gguf_kv_find, _, (g, NULL, &kv), false);
	GIVES(cohort_gguf_kv_find, _, (g, "tokenizer.ggml.tokens", NULL), false);
	GIVES(cohort_gguf_kv_find, key, (g, "tokenizer.ggml.tokens", &kv), true);
	NOTHING(cohort_gguf_cursor_init, (NULL, &kv.value));
	NOTHING(cohort_gguf_cursor_init, (&c, NULL));
	GIVES(cohort_gguf_cursor_next, _, (&c, &value), false); /* of no array */
	cohort_gguf_cursor_init(&c, &kv.value);
	GIVES(cohort_gguf_cursor_next, _, (NULL, &value), false);
	GIVES(cohort_gguf_cursor_next, _, (&c, NULL), false);
	GIVES(cohort_gguf_cursor_seek, _, (NULL, 0), false);
	GIVES(cohort_gguf_cursor_seek, i, (&c, kv.value.n_elems - 1), true);
	GIVES(cohort_gguf_cursor_seek, i, (&c, kv.value.n_elems), false);
	GIVES(cohort_gguf_format, _, (NULL, 4, text, sizeof text), 0);
	GIVES(cohort_gguf_format, _, (&kv.value, 4, NULL, 0) > 0, true);
	cohort_gguf_free(g);
	refuse_end();
}

/* ---- Writing files ---- */

static void tensors(struct cohort_gguf_writer *f)
{
	static const uint64_t ne[] = {4, 1, 1, 1, 1}, no_rows[] = {4, 0};
	static const char longest[] = "tensor67890123456789012345678901234567890123456789012345678901234";
	static const float zeros[8];

	IS_NULL(cohort_gguf_writer_tensor, (NULL, "t", 0, 1, ne, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_tensor, (f, NULL, 0, 1, ne, err), "name is NULL");
	IS_NULL(cohort_gguf_writer_tensor, (f, "t", 0, 1, NULL, err), "ne is NULL");
	REFUSED(cohort_gguf_writer_tensor, n_dims, (f, "t", 0, 0, ne, err), COHORT_E_ARG, "n_dims", -1, -1, 1, 0);
	REFUSED(cohort_gguf_writer_tensor, n_dims, (f, "t", 0, 5, ne, err), COHORT_E_ARG, "n_dims", -1, -1, 4, 5);
	REFUSED(cohort_gguf_writer_tensor, ne, (f, "t", 0, 2, no_rows, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	REFUSED(cohort_gguf_writer_tensor, type, (f, "t", 999, 1, ne, err), COHORT_E_UNSUPPORTED, NULL, -1, -1, 0, 0);
	/* Names of up to 64 bytes. */
	assert_int_equal(strlen(longest), 65);
	REFUSED(cohort_gguf_writer_tensor, name, (f, longest, 0, 1, ne, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	assert_int_equal(cohort_gguf_writer_tensor(f, longest + 1, 0, 4, ne, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_tensor(f, "t", 0, 1, ne, NULL), COHORT_OK);
	IS_NULL(cohort_gguf_writer_begin, (NULL, err), "writer is NULL");
	REFUSED(cohort_gguf_writer_finish, w, (f, err), COHORT_E_ARG, NULL, -1, -1, 0, 0); /* too early */
	assert_int_equal(cohort_gguf_writer_begin(f, NULL), COHORT_OK);
	IS_NULL(cohort_gguf_writer_data, (NULL, 0, zeros, 16, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_data, (f, 0, NULL, 16, err), "bytes is NULL");
	REFUSED(cohort_gguf_writer_data, i_tensor, (f, 2, zeros, 16, err), COHORT_E_ARG, "i_tensor", -1, -1, 2, 2);
	REFUSED(cohort_gguf_writer_data, i_tensor, (f, 1, zeros, 16, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	REFUSED(cohort_gguf_writer_data, n_bytes, (f, 0, zeros, 17, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	assert_int_equal(cohort_gguf_writer_data(f, 0, zeros, 16, NULL), COHORT_OK);
	IS_NULL(cohort_gguf_writer_finish, (NULL, err), "writer is NULL");
}

void refuse_writers(void **state)
{
	static const float reals[] = {1};
	static const int32_t wholes[] = {1};
	static const char *const strings[] = {"s"};
	static const size_t lengths[] = {1};
	const char *path = refuse_path("file");
	struct cohort_gguf_kv kv = {"copy", 4, 0, {.type = COHORT_GGUF_U32, .u = 1}};
	struct cohort_gguf_writer *f = NULL;

	(void)state;
	IS_NULL(cohort_gguf_writer_open, (NULL, &f, err), "path is NULL");
	IS_NULL(cohort_gguf_writer_open, (path, NULL, err), "out is NULL");
	PASSES_AND(cohort_gguf_writer_open, _, (path, &f, err), cohort_gguf_writer_free(f));
	NOTHING(cohort_gguf_writer_free, (NULL));
	assert_int_equal(cohort_gguf_writer_open(path, &f, NULL), COHORT_OK);
	IS_NULL(cohort_gguf_writer_u32, (NULL, "k", 1, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_u32, (f, NULL, 1, err), "key is NULL");
	IS_NULL(cohort_gguf_writer_u64, (NULL, "k", 1, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_u64, (f, NULL, 1, err), "key is NULL");
	IS_NULL(cohort_gguf_writer_f32, (NULL, "k", 1, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_f32, (f, NULL, 1, err), "key is NULL");
	REFUSED(cohort_gguf_writer_f32, v, (f, "", NAN, err), COHORT_E_ARG, NULL, -1, -1, 0, 0); /* for the name */
	IS_NULL(cohort_gguf_writer_bool, (NULL, "k", true, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_bool, (f, NULL, true, err), "key is NULL");
	IS_NULL(cohort_gguf_writer_str, (NULL, "k", "s", err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_str, (f, NULL, "s", err), "key is NULL");
	IS_NULL(cohort_gguf_writer_str, (f, "k", NULL, err), "string is NULL");
	IS_NULL(cohort_gguf_writer_strs, (NULL, "k", strings, lengths, 1, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_strs, (f, NULL, strings, lengths, 1, err), "key is NULL");
	IS_NULL(cohort_gguf_writer_strs, (f, "k", NULL, lengths, 1, err), "array is NULL");
	REFUSED(cohort_gguf_writer_strs, _, (f, "", strings, NULL, 1, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	IS_NULL(cohort_gguf_writer_f32s, (NULL, "k", reals, 1, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_f32s, (f, NULL, reals, 1, err), "key is NULL");
	IS_NULL(cohort_gguf_writer_f32s, (f, "k", NULL, 1, err), "array is NULL");
	IS_NULL(cohort_gguf_writer_i32s, (NULL, "k", wholes, 1, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_i32s, (f, NULL, wholes, 1, err), "key is NULL");
	IS_NULL(cohort_gguf_writer_i32s, (f, "k", NULL, 1, err), "array is NULL");
	IS_NULL(cohort_gguf_writer_kv, (NULL, &kv, err), "writer is NULL");
	IS_NULL(cohort_gguf_writer_kv, (f, NULL, err), "key/value is NULL");
	/* None of these came into the file: the key is still free. */
	assert_int_equal(cohort_gguf_writer_u32(f, "k", 1, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_kv(f, &kv, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_strs(f, "strings", strings, NULL, 1, NULL), COHORT_OK);
	tensors(f);
	cohort_gguf_writer_free(f);
	refuse_end();
}

/* ---- Models that are written ---- */

static void random_models(void)
{
	char path[128];
	struct cohort_synth_params p;

	snprintf(path, sizeof path, "%s", refuse_path("none/synth"));
	NOTHING(cohort_synth_params_init, (NULL));
	GIVES(cohort_synth_shape_name, i, (0) != NULL, true);
	GIVES(cohort_synth_shape_name, i, (SIZE_MAX), NULL);
	cohort_synth_params_init(&p);
	GIVES(cohort_synth_shape, _, (NULL, "smol-135m"), false);
	GIVES(cohort_synth_shape, _, (&p, NULL), false);
	GIVES(cohort_synth_shape, name, (&p, "none"), false);
	IS_NULL(cohort_synth_write, (NULL, &p, err), "path is NULL");
	IS_NULL(cohort_synth_write, (path, NULL, err), "params is NULL");
	/* At an end of its range a field passes: then it is the format that is not known, which is looked at last. */
#define SHAPE(...) \
	do { \
		cohort_synth_params_init(&p); \
		p.n_vocab = 300; \
		p.n_embd = p.n_ff = 64; \
		p.n_layer = p.n_head = p.n_head_kv = 1; \
		p.head_size = 64; \
		p.type = "none"; \
		__VA_ARGS__; \
	} while (0)
#define GOOD(...) \
	do { \
		SHAPE(__VA_ARGS__); \
		REFUSED(cohort_synth_write, params, (path, &p, err), COHORT_E_ARG, NULL, -1, -1, 0, 0); \
	} while (0)
#define BAD(field, value, bound) \
	do { \
		SHAPE(p.field = (value)); \
		REFUSED(cohort_synth_write, params, (path, &p, err), COHORT_E_ARG, #field, -1, -1, bound, value); \
	} while (0)
#define ENDS(field, lo, hi) \
	do { \
		GOOD(p.field = (lo)); \
		BAD(field, (lo)-1, lo); \
		GOOD(p.field = (hi)); \
		BAD(field, (hi) + 1, hi); \
	} while (0)
	ENDS(n_vocab, 259, 1 << 24);
	ENDS(n_embd, 1, 1 << 20);
	ENDS(n_layer, 1, 4096);
	ENDS(n_head, 1, 4096);
	ENDS(n_head_kv, 1, 1);
	ENDS(n_ff, 1, 1 << 24);
	ENDS(n_ctx, 1, 1 << 30);
	GOOD(p.head_size = 0);
	GOOD(p.head_size = 4096);
	BAD(head_size, 4098, 4096);
	BAD(head_size, 5, 0); /* an odd number */
	ENDS(n_threads, 0, 1024);
	GOOD(p.rope_base = 1);
	GOOD(p.rope_base = 1e30f);
	static const float bases[] = {0.99999f, 1.0001e30f, NAN, -1};
	for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
		SHAPE(p.rope_base = bases[i]);
		REFUSED(cohort_synth_write, params, (path, &p, err), COHORT_E_ARG, "rope_base", -1, -1, 0, 0);
	}
	SHAPE(p.type = NULL);
	IS_NULL(cohort_synth_write, (path, &p, err), "type is NULL");
	SHAPE(p.name = NULL);
	IS_NULL(cohort_synth_write, (path, &p, err), "name is NULL");
}

void refuse_models_written(void **state)
{
	const char *source = getenv("COHORT_SOURCE");
	struct cohort_quantize_result result;
	struct cohort_quantize_params p;
	char in[1024];

	(void)state;
	GIVES(cohort_mix_name, i, (0) != NULL, true);
	GIVES(cohort_mix_name, i, (SIZE_MAX), NULL);
	random_models();
	snprintf(in, sizeof in, "%s/models/cohort-tiny.gguf", source ? source : ".");
	NOTHING(cohort_quantize_params_init, (NULL));
	cohort_quantize_params_init(&p);
	p.allow_requantize = true;
	IS_NULL(cohort_quantize_write, (NULL, "out", &p, &result, err), "in is NULL");
	IS_NULL(cohort_quantize_write, (in, NULL, &p, &result, err), "out is NULL");
	IS_NULL(cohort_quantize_write, (in, "out", NULL, &result, err), "params is NULL");
	p.dry_run = true;
	PASSES(cohort_quantize_write, _, (in, NULL, &p, &result, err));
	PASSES(cohort_quantize_write, _, (in, "out", &p, NULL, err));
	p.n_threads = -1;
	REFUSED(cohort_quantize_write, params, (in, "out", &p, &result, err), COHORT_E_ARG, "n_threads", -1, -1, 0, -1);
	p.n_threads = 1025;
	REFUSED(cohort_quantize_write, params, (in, "out", &p, &result, err), COHORT_E_ARG, "n_threads", -1, -1, 1024,
			1025);
	p.n_threads = 1024;
	PASSES(cohort_quantize_write, params, (in, "out", &p, &result, err));
	p.type = NULL;
	IS_NULL(cohort_quantize_write, (in, "out", &p, &result, err), "type is NULL");
	refuse_end();
}

/* ---- Templates ---- */

/* `head`, n times `before`, `middle`, n times `after` and `tail`; static. */
static const char *pile(const char *head, int n, const char *before, const char *middle, const char *after,
		const char *tail)
{
	static char text[4096];
	char *at = text + sprintf(text, "%s", head);

	for (int i = 0; i < n; i++)
		at += sprintf(at, "%s", before);
	at += sprintf(at, "%s", middle);
	for (int i = 0; i < n; i++)
		at += sprintf(at, "%s", after);
	sprintf(at, "%s", tail);
	return text;
}

/* Limits of a template's text, of docs/templates.md: as many as there may be, and one more. */
static void depths(void)
{
	static const struct {
		int n;
		const char *head, *before, *middle, *after, *tail;
	} most[] = {{59, "", "{% if 1 %}", "x", "{% endif %}", ""}, {38, "{{ ", "(", "1", ")", " }}"},
			{248, "{{ ", "1+", "1", "", " }}"}};
	struct cohort_template *t = NULL;

	for (size_t i = 0; i < sizeof most / sizeof *most; i++)
		for (int n = most[i].n; n <= most[i].n + 1; n++) {
			const char *s = pile(most[i].head, n, most[i].before, most[i].middle, most[i].after,
					most[i].tail);
			const size_t length = strlen(s);
			if (n == most[i].n)
				PASSES_AND(cohort_template_open, source, (s, length, &t, err), cohort_template_free(t));
			else
				REFUSED(cohort_template_open, source, (s, length, &t, err), COHORT_E_LIMIT, "template",
						1, -1, 0, 0);
		}
}

/* Digits of a number that a format writes. */
static void digits(void)
{
	static const char *const formats[] = {"{{ '%.300f' % 0.5 }}", "{{ '%.301f' % 0.5 }}"};
	struct cohort_template *t = NULL;
	char *text;
	size_t n;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(cohort_template_open(formats[i], strlen(formats[i]), &t, NULL), COHORT_OK);
		if (i == 0)
			PASSES_AND(cohort_template_render, t, (t, NULL, &text, &n, err),
					cohort_template_text_free(text));
		else
			REFUSED(cohort_template_render, t, (t, NULL, &text, &n, err), COHORT_E_LIMIT, "template", 1, -1,
					0, 0);
		cohort_template_free(t);
	}
}

void refuse_templates(void **state)
{
	const size_t most = 4 << 20;
	char *source = malloc(most + 1), *text = NULL;
	struct cohort_template_params p;
	struct cohort_template *t = NULL;
	size_t n = 5;

	(void)state;
	assert_non_null(source);
	memset(source, 'x', most + 1);
	IS_NULL(cohort_template_open, (NULL, 1, &t, err), "source is NULL");
	IS_NULL(cohort_template_open, (source, 1, NULL, err), "out is NULL");
	PASSES_AND(cohort_template_open, n_bytes, (source, most, &t, err), cohort_template_free(t));
	REFUSED(cohort_template_open, n_bytes, (source, most + 1, &t, err), COHORT_E_LIMIT, NULL, -1, -1, 0, 0);
	NOTHING(cohort_template_free, (NULL));
	depths();
	digits();
	NOTHING(cohort_template_params_init, (NULL));
	assert_int_equal(cohort_template_open("abc", 3, &t, NULL), COHORT_OK);
	cohort_template_params_init(&p);
	IS_NULL(cohort_template_render, (NULL, &p, &text, &n, err), "template is NULL");
	IS_NULL(cohort_template_render, (t, &p, NULL, &n, err), "out is NULL");
	IS_NULL(cohort_template_render, (t, &p, &text, NULL, err), "n_out is NULL");
	PASSES_AND(cohort_template_render, _, (t, NULL, &text, &n, err), cohort_template_text_free(text));
	/* Three bytes of text; the limits of steps, memory and depth are in test_template_limits.c. */
	p.n_out_max = 3;
	PASSES_AND(cohort_template_render, params, (t, &p, &text, &n, err), cohort_template_text_free(text));
	p.n_out_max = 2;
	text = NULL;
	n = 5;
	REFUSED(cohort_template_render, params, (t, &p, &text, &n, err), COHORT_E_LIMIT, "template", 1, -1, 0, 0);
	assert_true(!text && n == 5); /* as they were */
	NOTHING(cohort_template_text_free, (NULL));
	cohort_template_free(t);
	free(source);
	refuse_end();
}
