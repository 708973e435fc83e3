/* cohort.h's devices and levels, and how a model's layers are divided over devices. */
#include "context/impl.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- Devices and levels ---- */

/* Device i of all backends. */
static const struct be_ops *device_at(size_t i, size_t *device)
{
	size_t n = 0;

	for (size_t b = 0; b < be_count(); b++)
		for (*device = 0; be_get(b)->device_name(*device); ++*device)
			if (n++ == i)
				return be_get(b);
	return NULL;
}

size_t cohort_device_count(void)
{
	size_t n = 0, device;

	while (device_at(n, &device))
		n++;
	return n;
}

bool cohort_device_get(size_t i, struct cohort_device *out)
{
	struct be_device d;
	size_t device;
	const struct be_ops *ops = device_at(i, &device);

	if (!ops || !out)
		return false;
	ops->device_get(device, &d);
	*out = (struct cohort_device){.total_bytes = d.total_bytes, .free_bytes = d.free_bytes};
	snprintf(out->name, sizeof out->name, "%s", ops->device_name(device));
	snprintf(out->description, sizeof out->description, "%s", d.description);
	return true;
}

/* Levels are those of the first backend, the CPU's. */
size_t cohort_isa_count(void)
{
	return be_get(0)->level_count();
}
const char *cohort_isa_name(size_t i)
{
	return be_get(0)->level_name(i);
}
bool cohort_isa_usable(size_t i)
{
	return be_get(0)->level_usable(i);
}

static enum cohort_status find_level(const struct be_ops *ops, const char *isa, size_t *level, struct cohort_err *err)
{
	char known[120] = "";

	*level = ops->level_best();
	if (!isa)
		return COHORT_OK;
	for (size_t i = 0; i < ops->level_count(); i++) {
		if (strcmp(ops->level_name(i), isa) == 0) {
			*level = i;
			if (ops->level_failed(i))
				return err_set(err, COHORT_E_UNSUPPORTED,
						"instruction set level '%s' failed its self-test here (%s)", isa,
						ops->level_failed(i));
			return ops->level_usable(i) ? COHORT_OK
						    : err_set(err, COHORT_E_UNSUPPORTED,
								      "this CPU cannot run instruction set level '%s'",
								      isa);
		}
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
				ops->level_name(i));
	}
	return err_set(err, COHORT_E_ARG, "instruction set level '%.40s' is not known; known: %s", isa, known);
}

/* ---- A list of devices: NAME[:LAYERS],... ---- */

static enum cohort_status find_device(
		const char *name, size_t n_name, struct context_device *out, struct cohort_err *err)
{
	char known[200] = "";

	for (size_t i = 0; (out->ops = device_at(i, &out->device)); i++) {
		const char *is = out->ops->device_name(out->device);
		if (strlen(is) == n_name && memcmp(is, name, n_name) == 0)
			return COHORT_OK;
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", is);
	}
	return err_set(err, COHORT_E_ARG, "device '%.*s' is not known; known: %s", n_name < 40 ? (int)n_name : 40, name,
			known);
}

/* The next entry of the list; n_layers -1: it does not say. */
static enum cohort_status next_entry(const char **list, struct context_device *d, struct cohort_err *err)
{
	const char *at = *list, *end = at + strcspn(at, ","), *colon = memchr(at, ':', (size_t)(end - at));
	const char *digit = colon ? colon + 1 : end;

	d->n_layers = -1;
	for (; digit < end && *digit >= '0' && *digit <= '9' && d->n_layers <= 1 << 20; digit++)
		d->n_layers = (d->n_layers < 0 ? 0 : d->n_layers * 10) + (*digit - '0');
	if (digit < end || (colon && d->n_layers < 0))
		return err_set(err, COHORT_E_ARG,
				"device list '%.80s': a number of layers was expected after ':', as in cpu:8", at);
	*list = *end ? end + 1 : end;
	return find_device(at, (size_t)((colon ? colon : end) - at), d, err);
}

enum cohort_status context_find_devices(
		struct cohort_model *m, const char *device, const char *isa, struct cohort_err *err)
{
	const char *list = device ? device : be_get(0)->device_name(0);

	snprintf(m->device_names, sizeof m->device_names, "%s", list);
	do {
		struct context_device *d = &m->devices[m->n_devices];
		if (m->n_devices == FORWARD_DEVICES_MAX)
			return err_set(err, COHORT_E_LIMIT, "device list: more than %d devices", FORWARD_DEVICES_MAX);
		enum cohort_status st = next_entry(&list, d, err);
		if (!st)
			st = find_level(d->ops, isa, &d->level, err);
		if (st)
			return st;
		m->n_devices++;
	} while (*list);
	return COHORT_OK;
}

/* Weights of its layers; the first device has what comes before the layers, the last one what comes after. A matrix
 * that is both is on both. */
static bool wants(const struct model *m, const struct model_weight *w, uint32_t first, uint32_t end)
{
	if (w->layer >= 0)
		return (uint32_t)w->layer >= first && (uint32_t)w->layer < end;
	const bool output = w == m->output || w == m->output_b || w == m->output_norm.w || w == m->output_norm.b;
	return (output && end == m->hp.n_layer) || ((!output || w == m->token_embd) && first == 0);
}

enum cohort_status context_divide(struct cohort_model *m, struct cohort_err *err)
{
	const struct model *mm = &m->model;
	uint32_t first = 0;

	for (size_t i = 0; i < m->n_devices; i++) {
		struct context_device *d = &m->devices[i];
		const uint32_t left = mm->hp.n_layer - first;
		const bool last = i + 1 == m->n_devices;
		const char *wrong = NULL;
		if (d->n_layers > left || (last && d->n_layers >= 0 && d->n_layers != left))
			wrong = "the list does not divide them; leave out the last number";
		else if (d->n_layers < 0 && !last)
			wrong = "all but the last device need a number of layers, as in cpu:8,cpu";
		else if (d->n_layers == 0 || left == 0)
			wrong = "one device has none";
		if (wrong)
			return err_set(err, COHORT_E_ARG, "device list '%s': the model has %u layers, and %s",
					m->device_names, mm->hp.n_layer, wrong);
		d->n_layers = last ? left : d->n_layers;
		d->wanted = m->n_devices > 1 ? mem_zalloc(mm->n_weights, sizeof *d->wanted) : NULL;
		if (m->n_devices > 1 && !d->wanted)
			return err_set(err, COHORT_E_MEMORY, "out of memory");
		for (size_t k = 0; d->wanted && k < mm->n_weights; k++)
			d->wanted[k] = wants(mm, &mm->weights[k], first, first + (uint32_t)d->n_layers);
		first += (uint32_t)d->n_layers;
	}
	return COHORT_OK;
}
