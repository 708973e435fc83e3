// Embeddings.
import { assert, test, refused, OpenAI } from './lib.mjs';

export async function embeddings(ai) {
	const model = 'cohort-tiny';
	const ask = (more) => ai.embeddings.create({ model, input: 'a cat', ...more });
	const length = (v) => Math.sqrt(v.reduce((s, x) => s + x * x, 0));
	const dot = (a, b) => a.reduce((s, x, i) => s + x * b[i], 0);

	await test('embeddings: a list, in its order, of length 1', async () => {
		const input = ['a cat', 'a dog', 'The weather is nice today.'];
		const a = await ask({ input });
		assert.deepEqual(a.data.map((d) => d.index), [0, 1, 2]);
		for (const d of a.data) assert.ok(Math.abs(length(d.embedding) - 1) < 1e-5);
		assert.ok(dot(a.data[0].embedding, a.data[1].embedding) > dot(a.data[0].embedding, a.data[2].embedding));
		assert.ok(a.usage.prompt_tokens > 5 && a.usage.total_tokens === a.usage.prompt_tokens);
		const one = await ask({ input: input[1] });
		assert.deepEqual(one.data[0].embedding, a.data[1].embedding);
	});
	await test("embeddings: base64, the client's default, has the numbers of float", async () => {
		const coded = (await ask({})).data[0].embedding; /* the client asks for base64 and decodes it */
		const plain = (await ask({ encoding_format: 'float' })).data[0].embedding;
		assert.equal(coded.length, plain.length);
		for (const [i, x] of plain.entries()) assert.equal(Math.fround(x), coded[i]);
		const raw = (await ask({ encoding_format: 'base64' })).data[0].embedding;
		assert.equal(typeof raw, 'string');
		assert.equal(Buffer.from(raw, 'base64').length, 4 * plain.length);
	});
	await test('embeddings: of tokens', async () => {
		const url = new URL('/tokenize', ai.baseURL);
		const body = JSON.stringify({ content: 'a cat', add_special: true });
		const { tokens } = await (await fetch(url, { method: 'POST', body })).json();
		assert.deepEqual((await ask({ input: tokens })).data[0].embedding, (await ask({})).data[0].embedding);
	});
	await test('embeddings: other dimensions are refused', async () => {
		const n = (await ask({})).data[0].embedding.length;
		const e = await refused(OpenAI.BadRequestError, ask({ dimensions: 3 }));
		assert.equal(e.param, 'dimensions');
		assert.equal((await ask({ dimensions: n })).data[0].embedding.length, n);
	});
	await test('embeddings: longer than the context is refused', async () => {
		const e = await refused(OpenAI.BadRequestError, ask({ input: 'cat '.repeat(2000) }));
		assert.equal(e.code, 'context_length_exceeded');
		assert.match(e.param, /^input/);
	});
}
