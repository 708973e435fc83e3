// models and completions.
import { assert, test, texts, collect, refused, OpenAI } from './lib.mjs';

export async function completions(ai) {
	const model = 'cohort-tiny';
	const ask = (more) => ai.completions.create({ model, prompt: 'Once upon a time', max_tokens: 12, seed: 1, ...more });

	await test('models.list, and each by its id', async () => {
		const list = await ai.models.list();
		assert.equal(list.data.length, 1);
		assert.equal(list.data[0].object, 'model');
		const one = await ai.models.retrieve(list.data[0].id);
		assert.equal(one.id, list.data[0].id);
		assert.equal(typeof one.created, 'number');
		const e = await refused(OpenAI.NotFoundError, ai.models.retrieve('no-such-model'));
		assert.equal(e.code, 'model_not_found');
	});
	await test('completion of a text', async () => {
		const a = await ask({});
		assert.equal(a.object, 'text_completion');
		assert.match(a.id, /^cmpl-/);
		assert.equal(a.model, model);
		assert.equal(a.choices.length, 1);
		assert.equal(a.choices[0].finish_reason, 'length');
		assert.ok(a.choices[0].text.length > 12);
		assert.equal(a.usage.completion_tokens, 12);
		assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + 12);
		assert.match(a._request_id, /^req-/);
	});
	await test('completion of a list of texts: each as if it came alone', async () => {
		const prompts = ['Once upon a time', 'The dog', 'Lily and Tom'];
		const a = await ask({ prompt: prompts });
		assert.deepEqual(a.choices.map((c) => c.index), [0, 1, 2]);
		for (const [i, prompt] of prompts.entries()) assert.equal(a.choices[i].text, (await ask({ prompt })).choices[0].text);
	});
	await test('completion of tokens: the same as of their text', async () => {
		const url = new URL('/tokenize', ai.baseURL);
		const body = JSON.stringify({ content: 'Once upon a time', add_special: true });
		const { tokens } = await (await fetch(url, { method: 'POST', body })).json();
		const a = await ask({ prompt: tokens });
		const b = await ask({ prompt: [tokens, tokens.slice(0, 3)] });
		assert.deepEqual(texts(a), texts(await ask({})));
		assert.equal(b.choices.length, 2);
		assert.equal(b.choices[0].text, a.choices[0].text);
	});
	await test('n: different texts of one prompt, the same ones every time', async () => {
		const a = await ask({ n: 4, temperature: 1.5, max_tokens: 20 });
		assert.equal(a.choices.length, 4);
		assert.equal(new Set(texts(a)).size, 4);
		assert.deepEqual(texts(await ask({ n: 4, temperature: 1.5, max_tokens: 20 })), texts(a));
		assert.equal(a.usage.completion_tokens, 80);
	});
	await test('best_of: the likeliest of the same texts', async () => {
		const all = await ask({ n: 4, temperature: 1.5, logprobs: 0 });
		const best = await ask({ n: 1, best_of: 4, temperature: 1.5 });
		const mean = (c) => c.logprobs.token_logprobs.reduce((s, x) => s + x, 0) / c.logprobs.token_logprobs.length;
		const sorted = [...all.choices].sort((x, y) => mean(y) - mean(x));
		assert.equal(best.choices.length, 1);
		assert.equal(best.choices[0].text, sorted[0].text);
		await refused(OpenAI.BadRequestError, ask({ n: 3, best_of: 2 }));
	});
	await test('echo, and logprobs of prompt and text', async () => {
		const a = await ask({ echo: true, logprobs: 2, max_tokens: 5 });
		const l = a.choices[0].logprobs;
		assert.ok(a.choices[0].text.startsWith('Once upon a time'));
		assert.equal(l.tokens.length, a.usage.prompt_tokens + 5);
		for (const k of ['token_logprobs', 'top_logprobs', 'text_offset']) assert.equal(l[k].length, l.tokens.length);
		assert.equal(l.token_logprobs[0], null);
		for (const x of l.token_logprobs.slice(1)) assert.ok(x <= 0);
		for (const [i, top] of l.top_logprobs.entries())
			if (i > 0) assert.ok(Object.keys(top).length >= 2 && l.tokens[i] in top);
		const at = l.text_offset.at(-1);
		assert.equal(a.choices[0].text.slice(at), l.tokens.at(-1));
	});
	await test('echo with max_tokens 0: the prompt and its likelihood, nothing else', async () => {
		const a = await ask({ echo: true, logprobs: 0, max_tokens: 0 });
		assert.equal(a.choices[0].text, 'Once upon a time');
		assert.equal(a.usage.completion_tokens, 0);
	});
	await test('stop: the text ends before it', async () => {
		const whole = texts(await ask({ max_tokens: 60 }))[0];
		const word = whole.trim().split(/\s+/)[5];
		for (const stop of [word, ['never ever', word]]) {
			const a = await ask({ max_tokens: 60, stop });
			assert.equal(a.choices[0].finish_reason, 'stop');
			assert.equal(a.choices[0].text, whole.slice(0, whole.indexOf(word)));
		}
	});
	await test('seed: the same text; another one, another text', async () => {
		const a = await ask({ seed: 7, max_tokens: 30, temperature: 1.2 });
		assert.deepEqual(texts(await ask({ seed: 7, max_tokens: 30, temperature: 1.2 })), texts(a));
		assert.notDeepEqual(texts(await ask({ seed: 8, max_tokens: 30, temperature: 1.2 })), texts(a));
	});
	await test('logit_bias and penalties', async () => {
		const a = await ask({ temperature: 0, logprobs: 1, max_tokens: 1 });
		const url = new URL('/tokenize', ai.baseURL);
		const content = `Once upon a time${a.choices[0].logprobs.tokens[0]}`;
		const { tokens } = await (await fetch(url, { method: 'POST', body: JSON.stringify({ content }) })).json();
		const b = await ask({ temperature: 0, max_tokens: 1, logit_bias: { [tokens.at(-1)]: -100 } });
		assert.notEqual(b.choices[0].text, a.choices[0].text);
		await ask({ presence_penalty: 2, frequency_penalty: -2 });
	});
	await test('stream: the same text, in pieces, then usage', async () => {
		const more = { n: 2, max_tokens: 20, echo: true };
		const whole = await ask(more);
		const s = await collect(await ask({ ...more, stream: true, stream_options: { include_usage: true } }));
		assert.deepEqual(s.texts, texts(whole));
		assert.deepEqual(s.finish, whole.choices.map((c) => c.finish_reason));
		assert.ok(s.chunks > 20);
		assert.equal(s.usage.total_tokens, whole.usage.total_tokens);
		assert.equal(s.timings.predicted_n, whole.timings.predicted_n);
		assert.equal((await collect(await ask({ ...more, stream: true }))).usage, null);
	});
	await test('suffix is refused by its name', async () => {
		const e = await refused(OpenAI.BadRequestError, ask({ suffix: 'The end' }));
		assert.equal(e.param, 'suffix');
	});
	await test('X-Prefix-Hash: the same for what begins alike, for streams as well', async () => {
		const long = 'Once upon a time there was a little girl who had a dog and a cat. '.repeat(6);
		const hash = async (prompt, more = {}) =>
			(await ask({ prompt, max_tokens: 1, ...more }).withResponse()).response.headers.get('x-prefix-hash');
		const h = await hash(`${long} Lily`);
		assert.match(h, /^[0-9a-f]{16}$/);
		assert.equal(await hash(`${long} Tom`), h);
		assert.equal(await hash(`${long} Tom`, { stream: true }), h);
		assert.notEqual(await hash(`The ${long}`), h);
	});
}
