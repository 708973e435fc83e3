/* Open addressing, linear probing, at most two thirds full. */
#include "base/strmap.h"

#include "base/mem.h"

#include <string.h>
#include <time.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 u128;
	u128 p = (u128)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint32_t hash(const struct strmap *m, const char *key, size_t n)
{
	uint64_t h = m->seed ^ n, w;
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		memcpy(&w, key + i, 8);
		h = mix(h ^ w, 0x9e3779b97f4a7c15u ^ (m->seed << 1 | 1));
	}
	w = 0;
	if (n - i)
		memcpy(&w, key + i, n - i);
	h = mix(h ^ w, 0xd1342543de82ef95u);
	return (uint32_t)(h ^ h >> 32);
}

static size_t probe(const struct strmap *m, uint32_t h, const char *key, size_t n)
{
	size_t mask = m->n_slots - 1, i = h & mask;

	while (m->slots[i].key) {
		const struct strmap_slot *s = &m->slots[i];
		if (s->hash == h && s->n == n && (n == 0 || memcmp(s->key, key, n) == 0))
			break;
		i = (i + 1) & mask;
	}
	return i;
}

static bool resize(struct strmap *m, size_t n_slots)
{
	struct strmap old = *m;

	struct strmap_slot *slots = mem_zalloc(n_slots, sizeof *slots);
	if (!slots)
		return false;
	m->slots = slots;
	m->n_slots = n_slots;
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slots[i].key)
			m->slots[probe(m, old.slots[i].hash, old.slots[i].key, old.slots[i].n)] = old.slots[i];
	mem_free(old.slots);
	return true;
}

bool strmap_init(struct strmap *m, size_t n_keys)
{
	size_t n_slots = 16, want;
	struct timespec now;

	*m = (struct strmap){0};
	clock_gettime(CLOCK_MONOTONIC, &now);
	m->seed = mix((uint64_t)now.tv_nsec ^ (uintptr_t)m, 0x2545f4914f6cdd1du);
	if (!size_mul(n_keys, 3, &want))
		return false;
	while (n_slots < want / 2 + 1)
		n_slots *= 2;
	return resize(m, n_slots);
}

void strmap_release(struct strmap *m)
{
	if (m) {
		mem_free(m->slots);
		*m = (struct strmap){0};
	}
}

int32_t strmap_find(const struct strmap *m, const char *key, size_t n, int32_t fallback)
{
	if (!m->n_slots || n > UINT32_MAX)
		return fallback;
	const struct strmap_slot *s = &m->slots[probe(m, hash(m, key, n), key, n)];
	return s->key ? s->value : fallback;
}

bool strmap_add(struct strmap *m, const char *key, size_t n, int32_t value, bool *was_there)
{
	if (n > UINT32_MAX || !m->n_slots)
		return false;
	if ((m->n_used + 1) * 3 > m->n_slots * 2 && !resize(m, m->n_slots * 2))
		return false;
	uint32_t h = hash(m, key, n);
	struct strmap_slot *s = &m->slots[probe(m, h, key, n)];
	if (was_there)
		*was_there = s->key != NULL;
	if (!s->key) {
		*s = (struct strmap_slot){key, (uint32_t)n, h, value};
		m->n_used++;
	}
	return true;
}
