/* What caps and distances do to a query's scores of one block, before they are compared: included by every level's
 * attention behind kern_v8.h; kern_ref.c has its own. Scores of cells the query does not see are bent, too; they are
 * selected away later. */

V8 static void bend(const struct kern_attn_step *s, const struct kern_attn_query *q, float p[KERN_KV_BLOCK])
{
	float far[KERN_KV_BLOCK];

	if (s->cap != 0.0f) {
		const v8 cap = v8_set(s->cap), inv = v8_set(1.0f / s->cap);
		for (int j = 0; j < KERN_KV_BLOCK; j += 8)
			v8_store(p + j, v8_mul(cap, v8_tanh(v8_mul(v8_load(p + j), inv))));
	}
	if (q->slope == 0.0f)
		return;
	/* Integers until they are positive: a float of either end would round where the distance does not. */
	for (int j = 0; j < KERN_KV_BLOCK; j++) {
		const int32_t d = q->ahead - j;
		far[j] = (float)(d < 0 ? -d : d);
	}
	for (int j = 0; j < KERN_KV_BLOCK; j += 8)
		v8_store(p + j, v8_fma(v8_set(-q->slope), v8_load(far + j), v8_load(p + j)));
}
