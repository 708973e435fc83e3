/* cohort devices: what -device can name. */
#include "cmd.h"
#include "common.h"
#include "opt.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char prog[] = "cohort devices";

static void print_bytes(uint64_t n)
{
	if (n)
		printf("%8.1f GiB", (double)n / 1073741824.0);
	else
		printf("%12s", "unknown");
}

static void print_table(void)
{
	struct cohort_device d;

	printf("%-8s %12s %12s  %s\n", "NAME", "MEMORY", "FREE", "DESCRIPTION");
	for (size_t i = 0; cohort_device_get(i, &d); i++) {
		printf("%-8s ", d.name);
		print_bytes(d.total_bytes);
		putchar(' ');
		print_bytes(d.free_bytes);
		printf("  %s\n", d.description);
	}
}

static int print_json(void)
{
	json_t *all = json_array();
	struct cohort_device d;
	bool ok = all != NULL;

	for (size_t i = 0; ok && cohort_device_get(i, &d); i++)
		ok = json_array_append_new(all, json_pack("{s:s, s:s%, s:I, s:I}", "name", d.name, "description",
								d.description, strlen(d.description), "total_bytes",
								(json_int_t)d.total_bytes, "free_bytes",
								(json_int_t)d.free_bytes)) == 0;
	ok = ok && json_dumpf(all, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
	json_decref(all);
	return ok || ferror(stdout) ? 0 : out_of_memory(prog);
}

int cmd_devices(int argc, char **argv)
{
	bool json = false;
	const struct opt opts[] = {
			{"json", NULL, OPT_FLAG, &json, 0, 0, NULL, "as a JSON array", NULL},
	};
	const struct opt_prog p = {
			prog,
			"[options]",
			"Lists the devices that models can run on, for -device NAME. A list\n"
			"NAME:LAYERS,...,NAME divides a model's layers; the text is the same however they are divided.",
			"  cohort devices\n  cohort devices --json\n  cohort run -device cpu \"The cat\"\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, NULL);

	if (rc)
		return rc - 1;
	if (json)
		rc = print_json();
	else
		print_table();
	return rc ? rc : close_stdout(prog);
}
