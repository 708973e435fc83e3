// Chat completions.
import { assert, test, texts, collect, refused, OpenAI } from './lib.mjs';

const messages = [
	{ role: 'system', content: 'You tell stories.' },
	{ role: 'user', content: 'Tell me a story about a cat.' },
];
const person = {
	type: 'object',
	properties: {
		name: { type: 'string', minLength: 1, maxLength: 12 },
		age: { type: 'integer', minimum: 1, maximum: 99 },
		pet: { enum: ['cat', 'dog', 'none'] },
		tags: { type: 'array', items: { type: 'string', maxLength: 8 }, maxItems: 2 },
	},
	required: ['name', 'age', 'pet', 'tags'],
	additionalProperties: false,
};
function checkPerson(text) {
	const p = JSON.parse(text);
	assert.deepEqual(Object.keys(p).sort(), ['age', 'name', 'pet', 'tags']);
	assert.ok(typeof p.name === 'string' && [...p.name].length >= 1 && [...p.name].length <= 12);
	assert.ok(Number.isInteger(p.age) && p.age >= 1 && p.age <= 99);
	assert.ok(person.properties.pet.enum.includes(p.pet));
	assert.ok(Array.isArray(p.tags) && p.tags.length <= 2);
	for (const t of p.tags) assert.ok(typeof t === 'string' && [...t].length <= 8);
}

export async function chat(ai) {
	const model = 'cohort-tiny';
	const ask = (more) => ai.chat.completions.create({ model, messages, max_completion_tokens: 24, seed: 3, ...more });

	await test('chat: a message', async () => {
		const a = await ask({});
		assert.equal(a.object, 'chat.completion');
		assert.match(a.id, /^chatcmpl-/);
		assert.equal(a.choices[0].message.role, 'assistant');
		assert.ok(a.choices[0].message.content.length > 20);
		assert.equal(a.choices[0].message.refusal, null);
		assert.equal(a.usage.completion_tokens, 24);
	});
	await test('chat: parts of text are a text', async () => {
		const parts = messages.map((m) => ({ ...m, content: [{ type: 'text', text: m.content }] }));
		assert.deepEqual(texts(await ask({ messages: parts })), texts(await ask({})));
		const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }];
		const e = await refused(OpenAI.BadRequestError, ask({ messages: image }));
		assert.equal(e.param, 'messages[0].content[0]');
	});
	await test('chat: a conversation goes on', async () => {
		const first = await ask({});
		const more = [...messages, first.choices[0].message, { role: 'user', content: 'And then?' }];
		const a = await ask({ messages: more });
		assert.ok(a.usage.prompt_tokens > first.usage.prompt_tokens + 24);
	});
	await test('chat: stream is the whole in pieces', async () => {
		const whole = await ask({ n: 3 });
		const s = await collect(await ask({ n: 3, stream: true, stream_options: { include_usage: true } }));
		assert.deepEqual(s.texts, texts(whole));
		assert.deepEqual(s.roles, ['assistant', 'assistant', 'assistant']);
		assert.deepEqual(s.finish, whole.choices.map((c) => c.finish_reason));
		assert.equal(s.usage.completion_tokens, whole.usage.completion_tokens);
		assert.ok(s.chunks >= 3 * 24);
	});
	await test("chat: the client's own helper for streams agrees", async () => {
		const runner = ai.chat.completions.stream({ model, messages, max_completion_tokens: 24, seed: 3 });
		let joined = '';
		runner.on('content', (d) => { joined += d; });
		const final = await runner.finalChatCompletion();
		assert.equal(joined, final.choices[0].message.content);
		assert.deepEqual(texts(final), texts(await ask({})));
	});
	await test('chat: logprobs and top_logprobs, streamed alike', async () => {
		const a = await ask({ logprobs: true, top_logprobs: 3 });
		const l = a.choices[0].logprobs.content;
		assert.equal(l.length, 24);
		const bytes = Buffer.from(l.flatMap((t) => t.bytes)).toString();
		assert.equal(bytes.trim(), a.choices[0].message.content.trim());
		for (const t of l) {
			assert.equal(t.top_logprobs.length, 3);
			assert.ok(t.top_logprobs[0].logprob >= t.top_logprobs[1].logprob);
			assert.ok(t.logprob <= t.top_logprobs[0].logprob);
		}
		const s = await collect(await ask({ logprobs: true, top_logprobs: 3, stream: true }));
		assert.deepEqual(s.logprobs[0], l);
		const e = await refused(OpenAI.BadRequestError, ask({ top_logprobs: 3 }));
		assert.equal(e.param, 'top_logprobs');
	});
	await test('chat: response_format json_object', async () => {
		const some = [{ role: 'user', content: 'Give me a short object as JSON, with nothing in it.' }];
		const a = await ask({
			messages: some, n: 8, temperature: 1.5, top_k: 0, top_p: 1, min_p: 0, max_completion_tokens: 200,
			response_format: { type: 'json_object' },
		});
		const ended = a.choices.filter((c) => c.finish_reason === 'stop'); /* a small model loves long keys */
		assert.ok(ended.length > 2, `${ended.length} came to their end`);
		for (const c of ended) {
			const v = JSON.parse(c.message.content);
			assert.ok(v && typeof v === 'object' && !Array.isArray(v));
		}
		for (const c of a.choices) assert.match(c.message.content, /^\{/);
	});
	await test('chat: response_format json_schema, kept by every answer', async () => {
		const response_format = { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: person } };
		for (const temperature of [0, 0.8, 2]) {
			const a = await ask({ response_format, n: 4, temperature, max_completion_tokens: 300 });
			for (const c of a.choices) {
				assert.equal(c.finish_reason, 'stop');
				checkPerson(c.message.content);
			}
		}
		const s = await collect(await ask({ response_format, stream: true, max_completion_tokens: 300 }));
		checkPerson(s.texts[0]);
	});
	await test('chat: a schema that is none is refused', async () => {
		const json_schema = { name: 'x', schema: { type: 'nothing' } };
		const e = await refused(OpenAI.BadRequestError, ask({ response_format: { type: 'json_schema', json_schema } }));
		assert.match(e.param, /^response_format/);
	});
	await test('chat: max_completion_tokens wins over max_tokens', async () => {
		const a = await ask({ max_tokens: 40, max_completion_tokens: 5 });
		assert.equal(a.usage.completion_tokens, 5);
		assert.equal(a.choices[0].finish_reason, 'length');
	});
	await test('chat: what is unknown is ignored, what asks for nothing is taken', async () => {
		const a = await ask({ user: 'me', metadata: { a: 'b' }, store: false, service_tier: 'auto', tools: [], tool_choice: 'none' });
		assert.deepEqual(texts(a), texts(await ask({})));
	});
	await test('chat: our own fields and timings', async () => {
		const a = await ask({ priority: 5, deadline_s: 30, session: 'a', cache_salt: 'b' });
		assert.deepEqual(texts(a), texts(await ask({})));
		assert.equal(a.timings.predicted_n, 24);
		assert.ok(a.timings.prompt_ms >= 0 && a.timings.queue_ms >= 0);
		for (const field of ['priority', 'deadline_s', 'session', 'cache_salt'])
			assert.equal((await refused(OpenAI.BadRequestError, ask({ [field]: {} }))).param, field);
	});
	await test('chat: a prompt that was seen is cached, unless the salt is another one', async () => {
		const content = 'Tell me about the dog, the cat, the tree and the house. '.repeat(12);
		const long = (cache_salt) => ask({ messages: [{ role: 'user', content }], cache_salt, max_completion_tokens: 1 });
		assert.equal((await long('x')).usage.prompt_tokens_details.cached_tokens, 0);
		assert.ok((await long('x')).usage.prompt_tokens_details.cached_tokens > 0);
		assert.equal((await long('y')).usage.prompt_tokens_details.cached_tokens, 0);
	});
}
