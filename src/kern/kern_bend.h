/* What caps and distances do to a query's scores of one block, before they are compared: included by every level's
 * attention, which defines BEND, its function attributes. Scores of cells the query does not see are bent, too; they
 * are selected away later. */

BEND static void bend(const struct kern_attn_step *s, const struct kern_attn_query *q, float p[KERN_KV_BLOCK])
{
	if (s->cap != 0.0f) {
		const float inv = 1.0f / s->cap;
		for (int j = 0; j < KERN_KV_BLOCK; j++)
			p[j] = s->cap * kern_tanh(p[j] * inv);
	}
	if (q->slope != 0.0f)
		for (int j = 0; j < KERN_KV_BLOCK; j++) {
			const int32_t d = q->ahead - j;
			p[j] = fmaf(-q->slope, (float)(d < 0 ? -d : d), p[j]);
		}
}
