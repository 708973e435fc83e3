/* Scenes: GGUF files read and written, random models, quantising, chat templates. */
#include "torture.h"

#include "cohort_tools.h"

#include <stdio.h>
#include <string.h>

static void gguf_read(struct life *l)
{
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_kv kv;
	struct cohort_gguf_tensor t;
	char text[200];

	TRY(cohort_gguf_open(stage.split, &g, &l->err));
	for (size_t i = 0; cohort_gguf_kv_get(g, i, &kv); i++) {
		cohort_gguf_format(&kv.value, 3, text, sizeof text);
		life_mix(l, text, strlen(text));
	}
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++)
		life_mix(l, t.name, t.n_name);
	LIVED();
out:
	cohort_gguf_free(g);
}

/* A writer that the system failed is good for nothing but _free: then all is done anew. */
static void write_once(struct life *l, const char *path)
{
	static const float numbers[64] = {1, 2, 3};
	static const char *const words[] = {"one", "two"};
	static const int32_t ints[] = {5, 6};
	const uint64_t ne[2] = {32, 2};
	const struct cohort_gguf_kv kv = {.key = "t.kv", .n_key = 4, .value = {.type = COHORT_GGUF_U16, .u = 9}};
	struct cohort_gguf_writer *w = NULL;

	TRY(cohort_gguf_writer_open(path, &w, &l->err));
	TRY(cohort_gguf_writer_u32(w, "t.u32", 1, &l->err));
	TRY(cohort_gguf_writer_u64(w, "t.u64", 2, &l->err));
	TRY(cohort_gguf_writer_f32(w, "t.f32", 3, &l->err));
	TRY(cohort_gguf_writer_bool(w, "t.bool", true, &l->err));
	TRY(cohort_gguf_writer_str(w, "t.str", "text", &l->err));
	TRY(cohort_gguf_writer_strs(w, "t.strs", words, NULL, 2, &l->err));
	TRY(cohort_gguf_writer_f32s(w, "t.f32s", numbers, 3, &l->err));
	TRY(cohort_gguf_writer_i32s(w, "t.i32s", ints, 2, &l->err));
	TRY(cohort_gguf_writer_kv(w, &kv, &l->err));
	for (int i = 0; i < 20; i++) {
		char name[16];
		snprintf(name, sizeof name, "tensor.%d", i);
		TRY(cohort_gguf_writer_tensor(w, name, 0, 2, ne, &l->err));
	}
	l->again = false;
	TRY(cohort_gguf_writer_begin(w, &l->err));
	for (size_t i = 0; i < 20; i++) {
		TRY(cohort_gguf_writer_data(w, i, numbers, 100, &l->err));
		TRY(cohort_gguf_writer_data(w, i, numbers + 25, 156, &l->err));
	}
	TRY(cohort_gguf_writer_finish(w, &l->err));
	LIVED();
out:
	cohort_gguf_writer_free(w);
}

static void gguf_write(struct life *l)
{
	const bool again = l->again;
	char path[128];

	stage_path(path, "written.gguf");
	write_once(l, path);
	if (l->status && again)
		write_once(l, path);
	life_mix_number(l, l->status);
}

static void synth(struct life *l)
{
	struct cohort_synth_params sp;
	char path[128];

	cohort_synth_params_init(&sp);
	sp.n_vocab = 300;
	sp.n_embd = 64;
	sp.n_layer = 1;
	sp.n_head = 4;
	sp.n_head_kv = 2;
	sp.n_ff = 64;
	sp.n_ctx = 64;
	sp.type = "q8_0";
	sp.n_threads = 2;
	TRY(cohort_synth_write(stage_path(path, "synth.gguf"), &sp, &l->err));
	LIVED();
out:
	return;
}

static void quantize(struct life *l)
{
	struct cohort_quantize_params qp;
	struct cohort_quantize_result r;
	char path[128];

	cohort_quantize_params_init(&qp);
	qp.type = "Q4_0";
	qp.n_threads = 2;
	qp.allow_requantize = true;
	qp.dry_run = true;
	TRY(cohort_quantize_write(stage.split, NULL, &qp, &r, &l->err));
	life_mix_number(l, (int64_t)r.bytes_after);
	qp.dry_run = false;
	TRY(cohort_quantize_write(stage.split, stage_path(path, "quantized.gguf"), &qp, &r, &l->err));
	life_mix_number(l, (int64_t)r.bytes_after);
	LIVED();
out:
	return;
}

static void template(struct life *l)
{
	static const char source[] =
			"{%- macro role(m) -%}<|{{ m.role | upper }}|>{%- endmacro -%}"
			"{%- set ns = namespace(n=0) -%}"
			"{%- for m in messages if m.content is defined -%}"
			"{{ role(m) }}{{ m.content | trim | replace('a', 'b') }}{%- set ns.n = ns.n + 1 -%}"
			"{%- for c in m.get('calls', []) | sort(attribute='name') -%}{{ c | tojson(indent=2) }}"
			"{{ c.name.split('_') | join(', ') ~ ['x', 'y'] | map('upper') | list }}{%- endfor -%}"
			"{%- endfor -%}{{ ns.n }} {{ '%s-%05d' | format('a', 3) }} {{ tools | length }}"
			"{{ {'a': [1, 2.5, none], 'b': {'c': 'd'}} | items | list | string }}"
			"{{ strftime_now('%Y-%m-%d') }}{{ documents | selectattr('x', 'equalto', 2) | list | length }}";
	struct cohort_template_params tp;
	struct cohort_template *t = NULL;
	char *text = NULL;
	size_t n = 0;

	cohort_template_params_init(&tp);
	tp.messages = "[{\"role\":\"user\",\"content\":\" a cat \"},{\"role\":\"assistant\",\"content\":\"b\\u00e9\","
		      "\"calls\":[{\"name\":\"z_y\",\"n\":1.5},{\"name\":\"a_b\",\"n\":[1,2,{\"q\":null}]}]}]";
	tp.tools = "[{\"type\":\"function\"}]";
	tp.documents = "[{\"x\":1},{\"x\":2}]";
	tp.extra = "{\"k\":[true,false]}";
	tp.bos_token = "<s>";
	tp.now = "2025-01-02T03:04:05";
	TRY(cohort_template_open(source, sizeof source - 1, &t, &l->err));
	TRY(cohort_template_render(t, &tp, &text, &n, &l->err));
	life_mix(l, text, n);
	LIVED();
out:
	cohort_template_text_free(text);
	cohort_template_free(t);
}

const struct scene scenes_tools[] = {
		{.name = "gguf-read", .live = gguf_read},
		{.name = "gguf-write", .live = gguf_write, .outputs = {"written.gguf"}},
		{.name = "synth", .live = synth, .outputs = {"synth.gguf"}},
		{.name = "quantize", .live = quantize, .outputs = {"quantized.gguf"}},
		{.name = "template", .live = template},
		{.name = NULL},
};
