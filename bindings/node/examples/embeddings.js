// Texts to vectors, and how alike they are: cosines of all pairs, as `cohort embed -similarity TEXT ...` prints them.
//
// usage: node embeddings.js MODEL.gguf [TEXT...]
'use strict';

const { Engine, Model, constants } = require('..');

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const cosine = (a, b) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));

async function main(path, ...texts) {
	if (texts.length === 0) texts = ['a cat sat down', 'a kitten sat', 'stock prices fell'];
	const model = await Model.open(path);
	const outputs = constants.COHORT_OUTPUT_LOGITS | constants.COHORT_OUTPUT_EMBEDDINGS;
	const engine = new Engine(model, { n_slots: 4, n_ctx: 1024, outputs });
	const vectors = await Promise.all(texts.map((t) => engine.embed(t)));
	for (const a of vectors) console.log(vectors.map((b) => cosine(a, b).toFixed(4).padStart(7)).join(' '));
	await engine.close();
	model.close();
}

main(...process.argv.slice(2));
