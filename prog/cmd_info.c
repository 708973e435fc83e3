/* cohort info: what a GGUF file holds, for people or as JSON. Works for every well-formed file, runnable or not. */
#include "cmd.h"
#include "common.h"
#include "cohort_tools.h"
#include "opt.h"

#include "base/hwcap.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char prog[] = "cohort info";

struct type_sum {
	const char *name;
	uint64_t n_tensors, n_elems, n_bytes;
};

static uint64_t elems(const struct cohort_gguf_tensor *t)
{
	return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

/* Totals by format; returns the number of formats. */
static size_t sum_types(const struct cohort_gguf *g, struct type_sum sums[64])
{
	struct cohort_gguf_tensor t;
	size_t n = 0;
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++) {
		size_t j = 0;
		while (j < n && strcmp(sums[j].name, t.type_name) != 0)
			j++;
		if (j == n && n < 64)
			sums[n++] = (struct type_sum){.name = t.type_name};
		if (j < 64) {
			sums[j].n_tensors++;
			sums[j].n_elems += elems(&t);
			sums[j].n_bytes += t.n_bytes;
		}
	}
	return n;
}

/* ---- Text ---- */

static void print_name(const char *s, size_t n)
{
	char name[GGUF_NAME_BYTES];

	fputs(gguf_name(name, s, n), stdout);
}

/* What a sequence takes; the example has the library's defaults. */
static void print_cache(const struct cohort_model_info *info)
{
	struct cohort_context_params cp;

	cohort_context_params_init(&cp);
	const struct cohort_room_info room = ROOM(.n_ctx = cp.n_ctx, .n_seq_max = cp.n_seq_max);
	if (info->encoder)
		puts("cache       none: texts are encoded whole");
	else if (info->recurrent)
		puts("cache       a state for each sequence, whatever its length and -ctx");
	else
		printf("cache       blocks of %d tokens; -ctx %d with %d sequences has %d blocks\n",
				room.block_size, cp.n_ctx, cp.n_seq_max, room.n_blocks);
}

static void print_text(const struct cohort_gguf *g, const char *path, const char *obstacle,
		const struct cohort_model_info *info, bool tensors)
{
	struct cohort_gguf_kv kv;
	struct cohort_gguf_tensor t;
	struct cohort_gguf_part part;
	struct type_sum sums[64];
	size_t n_types = sum_types(g, sums);
	uint64_t n_params = 0, n_bytes = 0;

	for (size_t i = 0; i < n_types; i++) {
		n_params += sums[i].n_elems;
		n_bytes += sums[i].n_bytes;
	}
	printf("file        %s\nformat      GGUF v%u, %llu bytes, alignment %u\n", path, cohort_gguf_version(g),
			(unsigned long long)cohort_gguf_file_bytes(g), cohort_gguf_alignment(g));
	for (size_t i = 0; cohort_gguf_n_parts(g) > 1 && cohort_gguf_part_get(g, i, &part); i++)
		printf("%-12s%s, %llu bytes, %zu tensor%s\n", i ? "" : "parts", part.path,
				(unsigned long long)part.file_bytes, part.n_tensors, plural(part.n_tensors));
	printf("parameters  %.2f M in %zu tensors, %.1f MiB\n", (double)n_params * 1e-6, cohort_gguf_n_tensors(g),
			(double)n_bytes / 1048576.0);
	printf("runs here   %s%s\n", *obstacle ? "no: " : "yes", obstacle);
	if (!*obstacle)
		print_cache(info);
	printf("\nmetadata (%zu)\n", cohort_gguf_n_kv(g));
	for (size_t i = 0; cohort_gguf_kv_get(g, i, &kv); i++) {
		char value[120];
		fputs("  ", stdout);
		print_name(kv.key, kv.n_key);
		size_t full = cohort_gguf_format(&kv.value, 4, value, sizeof value);
		if (kv.value.type == COHORT_GGUF_ARRAY)
			printf(" [%llu %s]", (unsigned long long)kv.value.n_elems,
					cohort_gguf_type_name(kv.value.elem_type));
		printf(" = %s%s\n", value, full >= sizeof value ? "..." : "");
	}
	puts("\nformats");
	for (size_t i = 0; i < n_types; i++)
		printf("  %-8s %5llu tensors %12.2f M %10.1f MiB\n", sums[i].name,
				(unsigned long long)sums[i].n_tensors, (double)sums[i].n_elems * 1e-6,
				(double)sums[i].n_bytes / 1048576.0);
	if (tensors)
		puts("\ntensors");
	for (size_t i = 0; tensors && cohort_gguf_tensor_get(g, i, &t); i++) {
		fputs("  ", stdout);
		print_name(t.name, t.n_name);
		printf(" %s [", t.type_name);
		for (uint32_t d = 0; d < t.n_dims; d++)
			printf("%s%llu", d ? ", " : "", (unsigned long long)t.ne[d]);
		printf("] at %llu", (unsigned long long)t.offset);
		if (cohort_gguf_n_parts(g) > 1)
			printf(" of part %u", t.part + 1);
		putchar('\n');
	}
}

/* ---- JSON ---- */

/* Metadata strings may hold any bytes; JSON wants UTF-8, so each other byte becomes U+FFFD. */
static json_t *json_bytes(const char *s, size_t n)
{
	size_t n_out = 0;
	char *out = mem_alloc(n, 3);
	if (!out)
		return NULL;
	for (size_t i = 0; i < n;) {
		uint32_t cp;
		size_t len = utf8_decode(s + i, n - i, &cp);
		memcpy(out + n_out, len ? s + i : "\xef\xbf\xbd", len ? len : 3);
		n_out += len ? len : 3;
		i += len ? len : 1;
	}
	json_t *j = json_stringn(out, n_out);
	mem_free(out);
	return j;
}

static json_t *json_value(const struct cohort_gguf_value *v)
{
	struct cohort_gguf_cursor c;
	struct cohort_gguf_value e;

	switch (v->type) {
	case COHORT_GGUF_BOOL: return json_boolean(v->u);
	case COHORT_GGUF_STRING: return json_bytes(v->str, v->n_str);
	case COHORT_GGUF_F32:
	case COHORT_GGUF_F64: {
		json_t *f = json_real(v->f);
		return f ? f : json_null(); /* NaN and infinities have no JSON */
	}
	case COHORT_GGUF_I8:
	case COHORT_GGUF_I16:
	case COHORT_GGUF_I32:
	case COHORT_GGUF_I64: return json_integer(v->i);
	case COHORT_GGUF_ARRAY: {
		json_t *a = json_array();
		cohort_gguf_cursor_init(&c, v);
		while (a && cohort_gguf_cursor_next(&c, &e))
			if (json_array_append_new(a, json_value(&e))) {
				json_decref(a);
				return NULL;
			}
		return a;
	}
	default: return v->u <= INT64_MAX ? json_integer((json_int_t)v->u) : json_real((double)v->u);
	}
}

static bool put(json_t *o, const char *key, json_t *v)
{
	return json_object_set_new(o, key, v) == 0;
}

static json_t *json_tensor(const struct cohort_gguf_tensor *t)
{
	json_t *o = json_object(), *ne = json_array();
	bool ok = o && ne;
	for (uint32_t d = 0; ok && d < t->n_dims; d++)
		ok = json_array_append_new(ne, json_integer((json_int_t)t->ne[d])) == 0;
	ok = ok && put(o, "name", json_bytes(t->name, t->n_name)) && put(o, "type", json_string(t->type_name)) &&
			put(o, "type_number", json_integer(t->type)) && put(o, "shape", json_incref(ne)) &&
			put(o, "part", json_integer((json_int_t)t->part + 1)) &&
			put(o, "offset", json_integer((json_int_t)t->offset)) &&
			put(o, "bytes", json_integer((json_int_t)t->n_bytes));
	json_decref(ne);
	if (!ok) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static json_t *json_part(const struct cohort_gguf_part *p)
{
	json_t *o = json_object();
	const bool ok = o && put(o, "file", json_bytes(p->path, strlen(p->path))) &&
			put(o, "bytes", json_integer((json_int_t)p->file_bytes)) &&
			put(o, "tensors", json_integer((json_int_t)p->n_tensors));
	if (!ok) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static json_t *json_info(const struct cohort_gguf *g, const char *path, const char *obstacle)
{
	struct cohort_gguf_kv kv;
	struct cohort_gguf_tensor t;
	struct cohort_gguf_part part;
	json_t *o = json_object(), *meta = json_object(), *tensors = json_array(), *parts = json_array();
	bool ok = o && meta && tensors && parts;
	uint64_t n_params = 0;

	for (size_t i = 0; ok && cohort_gguf_kv_get(g, i, &kv); i++) {
		json_t *key = json_bytes(kv.key, kv.n_key);
		ok = key &&
				json_object_setn_new(meta, json_string_value(key), json_string_length(key),
						json_value(&kv.value)) == 0;
		json_decref(key);
	}
	for (size_t i = 0; ok && cohort_gguf_tensor_get(g, i, &t); i++) {
		n_params += elems(&t);
		ok = json_array_append_new(tensors, json_tensor(&t)) == 0;
	}
	for (size_t i = 0; ok && cohort_gguf_part_get(g, i, &part); i++)
		ok = json_array_append_new(parts, json_part(&part)) == 0;
	ok = ok && put(o, "file", json_bytes(path, strlen(path))) &&
			put(o, "version", json_integer(cohort_gguf_version(g))) &&
			put(o, "alignment", json_integer(cohort_gguf_alignment(g))) &&
			put(o, "bytes", json_integer((json_int_t)cohort_gguf_file_bytes(g))) &&
			put(o, "parts", json_incref(parts)) &&
			put(o, "parameters", json_integer((json_int_t)n_params)) &&
			put(o, "runs", json_boolean(!*obstacle)) &&
			(!*obstacle || put(o, "obstacle", json_bytes(obstacle, strlen(obstacle)))) &&
			put(o, "metadata", json_incref(meta)) && put(o, "tensors", json_incref(tensors));
	json_decref(meta);
	json_decref(tensors);
	json_decref(parts);
	if (!ok) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int print_json(const struct cohort_gguf *g, const char *path, const char *obstacle)
{
	json_t *o = json_info(g, path, obstacle);
	if (!o) {
		fprintf(stderr, "%s: out of memory\n", prog);
		return EXIT_RUN;
	}
	int bad = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	json_decref(o);
	putchar('\n');
	if (bad && !ferror(stdout)) {
		fprintf(stderr, "%s: out of memory\n", prog);
		return EXIT_RUN;
	}
	return 0;
}

/* ---- Levels ---- */

/* Which instruction-set levels this build has, and which of them run here. Tests ask this instead of guessing. */
static int print_levels(bool json)
{
	json_t *levels = json ? json_array() : NULL;
	size_t best = cohort_isa_count() - 1;
	bool ok = levels || !json;

	while (!cohort_isa_usable(best))
		best--;
	for (size_t i = 0; ok && i < cohort_isa_count(); i++) {
		const char *name = cohort_isa_name(i);
		const bool usable = cohort_isa_usable(i);
		if (!json) {
			const char *why = hwcap_hidden(name) ? "hidden by COHORT_HIDE_ISA" : "not usable on this CPU";
			printf("%-7s %s\n", name, !usable ? why : i == best ? "usable, the default" : "usable");
			continue;
		}
		json_t *o = json_object();
		ok = o && put(o, "name", json_string(name)) && put(o, "usable", json_boolean(usable)) &&
				put(o, "default", json_boolean(i == best));
		ok = json_array_append_new(levels, o) == 0 && ok;
	}
	ok = ok && (!json || (json_dumpf(levels, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF));
	json_decref(levels);
	return ok || ferror(stdout) ? close_stdout(prog) : out_of_memory(prog);
}

int cmd_info(int argc, char **argv)
{
	const char *model = NULL;
	bool json = false, tensors = false, levels = false;
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &model, 0, 0, "FILE.gguf", "GGUF file (default: the built-in model)",
					NULL},
			{"json", NULL, OPT_FLAG, &json, 0, 0, NULL, "everything, as one JSON object", NULL},
			{"tensors", NULL, OPT_FLAG, &tensors, 0, 0, NULL, "list every tensor, too", NULL},
			{"levels", NULL, OPT_FLAG, &levels, 0, 0, NULL,
					"only the levels of -isa, and which of them this CPU runs", NULL},
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] [options]",
			"Tells what a GGUF file holds and whether this version can run it. Any part of a split model\n"
			"stands for all.",
			"  cohort info\n  cohort info -m model.gguf --json\n  cohort info --levels\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	struct cohort_model_params mp;
	struct cohort_model *m = NULL;
	struct cohort_gguf *g = NULL;
	struct cohort_err err;

	if (levels)
		return print_levels(json);
	if (!model && !(model = builtin_model(prog)))
		return EXIT_MODEL;
	if (cohort_gguf_open(model, &g, &err))
		return model_refused(prog, model, &err);
	cohort_model_params_init(&mp);
	mp.file_layout = true;
	const char *obstacle = ""; /* why this version cannot run the file */
	if (cohort_model_open(model, &mp, &m, &err))
		obstacle = err.text;
	struct cohort_model_info info = {.struct_size = sizeof info};
	cohort_model_info_get(m, &info);
	cohort_model_free(m);
	if (json)
		rc = print_json(g, model, obstacle);
	else
		print_text(g, model, obstacle, &info, tensors);
	cohort_gguf_free(g);
	return rc ? rc : close_stdout(prog);
}
