// Errors become the client's classes; streams that are left and requests that are given up free their slots.
import { assert, test, refused, client, collect, until, metric, idle, OpenAI } from './lib.mjs';

const model = 'cohort-tiny';
const prompt = 'Once upon a time';

export async function errors(server, ai) {
	const ask = (more) => ai.completions.create({ model, prompt, max_tokens: 5, ...more });

	await test('errors: wrong types and ranges name the field', async () => {
		const cases = {
			temperature: [3, -1, 'hot', [], true], top_p: [2, '1'], n: [0, 1.5, 'two', 1000], max_tokens: [-5, 'many', 1.5],
			seed: ['x', 1.5], stop: [5, [''], [1]], echo: ['yes', 1], stream: ['yes'], logprobs: [100, 'x'],
			presence_penalty: [9], frequency_penalty: ['x'], logit_bias: [[1], 'x', { a: 1 }, { 5: 500 }],
			stream_options: [5], prompt: [5, {}, [], [-1], [[1e9]], [1.5]], best_of: [0],
		};
		for (const [field, values] of Object.entries(cases))
			for (const value of values) {
				const e = await refused(OpenAI.BadRequestError, ask({ [field]: value }));
				assert.equal(e.status, 400);
				assert.equal(e.type, 'invalid_request_error');
				assert.ok(e.param === field || e.param?.startsWith(`${field}[`), `${field}: param is ${e.param}`);
				assert.ok(e.message.length > 10);
				assert.ok(e.requestID);
			}
	});
	await test('errors: a prompt longer than the context', async () => {
		const e = await refused(OpenAI.BadRequestError, ask({ prompt: 'cat '.repeat(3000) }));
		assert.equal(e.code, 'context_length_exceeded');
		assert.equal(e.param, 'prompt');
	});
	await test('errors: what is missing is named', async () => {
		const e = await refused(OpenAI.BadRequestError, ai.chat.completions.create({ model }));
		assert.equal(e.param, 'messages');
		assert.equal(e.code, 'missing_required_parameter');
	});
	await test('errors: refusals of a stream come before it begins', async () => {
		const e = await refused(OpenAI.BadRequestError, ask({ stream: true, temperature: 9 }));
		assert.equal(e.param, 'temperature');
	});
	await test('errors: a route that is not there is NotFoundError', async () => {
		await refused(OpenAI.NotFoundError, ai.get('/no/such/route'));
		await refused(OpenAI.NotFoundError, ai.responses.create({ model, input: 'x' }));
	});
	await test('errors: a method that a route has not', async () => {
		const e = await refused(OpenAI.APIError, ai.get('/completions'));
		assert.equal(e.status, 405);
	});
	await test('errors: a deadline that passed is a 503', async () => {
		const e = await refused(OpenAI.InternalServerError, ask({ deadline_s: 0.002, max_tokens: 900, ignore_eos: true }));
		assert.equal(e.status, 503);
	});
	await test('errors: a deadline that passes within a stream ends it with an error', async () => {
		const s = await ask({ stream: true, deadline_s: 0.05, max_tokens: 900, ignore_eos: true, n: 4 });
		await refused(OpenAI.APIError, collect(s));
	});
	await test("ids: the client's X-Request-Id comes back", async () => {
		const { response } = await ai.models.list({ headers: { 'X-Request-Id': 'my-own-7' } }).withResponse();
		assert.equal(response.headers.get('x-request-id'), 'my-own-7');
	});
	const rows = () => metric(server, 'cohort:rows_total{kind="decode"}');
	await test('abort: a stream that is left frees its slot', async () => {
		const computed = await rows();
		const before = await metric(server, 'cohort:requests_finished_total{reason="cancelled"}');
		const s = await ask({ stream: true, max_tokens: 1000, ignore_eos: true });
		let n = 0;
		for await (const _ of s) if (++n === 5) break; /* the client closes the connection */
		await idle(server);
		await until('counted as cancelled', async () =>
			(await metric(server, 'cohort:requests_finished_total{reason="cancelled"}')) === before + 1);
		assert.ok((await rows()) - computed < 700, 'it was computed to its end');
	});
	await test('abort: an answer that nobody waits for any more', async () => {
		const computed = await rows();
		const c = new AbortController();
		const p = ai.completions.create({ model, prompt, max_tokens: 1000, n: 8, ignore_eos: true }, { signal: c.signal });
		setTimeout(() => c.abort(), 100);
		await refused(OpenAI.APIUserAbortError, p);
		await idle(server);
		assert.ok((await rows()) - computed < 6000, 'it was computed to its end');
	});
	await test("timeout: the client's own", async () => {
		const computed = await rows();
		const p = ai.completions.create({ model, prompt, max_tokens: 1000, n: 8, ignore_eos: true }, { timeout: 60 });
		await refused(OpenAI.APIConnectionTimeoutError, p);
		await idle(server);
		assert.ok((await rows()) - computed < 6000, 'it was computed to its end');
	});
}

// A server with keys, one slot and room for one in the queue.
export async function keys(server) {
	const good = client(server, { apiKey: 'key-of-bob' });
	const auth = { Authorization: 'Bearer key-of-bob' };

	await test('keys: none and a wrong one are AuthenticationError', async () => {
		for (const apiKey of ['wrong', 'key-of-bo', 'key-of-bobb']) {
			const e = await refused(OpenAI.AuthenticationError, client(server, { apiKey }).models.list());
			assert.equal(e.code, 'invalid_api_key');
		}
		assert.equal((await fetch(`${server.url}/v1/models`)).status, 401);
		assert.equal((await fetch(`${server.url}/health`)).status, 200);
		assert.equal((await good.models.list()).data.length, 1);
	});
	await test('keys: an admin route is for the admin', async () => {
		const body = { strategy: 'balanced' };
		const path = `${server.url}/cohort/strategy`;
		await refused(OpenAI.PermissionDeniedError, good.post(path, { body }));
		const admin = client(server, { apiKey: 'key-of-ann' });
		assert.equal((await admin.post(path, { body })).strategy, 'balanced');
		await until('it is in use', async () => (await good.get(path)).strategy === 'balanced', 5);
		assert.equal((await refused(OpenAI.BadRequestError, admin.post(path, { body: { strategy: 'x' } }))).param, 'strategy');
	});
	await test('full: more than may wait is RateLimitError with Retry-After, and the others go on', async () => {
		const long = { model, prompt, max_tokens: 900, ignore_eos: true, seed: 1 };
		const first = await good.completions.create({ ...long, stream: true });
		await until('the first runs', async () => (await metric(server, 'llamacpp:requests_processing', auth)) === 1);
		const second = good.completions.create({ ...long, max_tokens: 3 });
		second.catch(() => {});
		await until('one waits', async () => (await metric(server, 'llamacpp:requests_deferred', auth)) === 1);
		const e = await refused(OpenAI.RateLimitError, good.completions.create({ ...long, max_tokens: 3 }));
		assert.equal(e.status, 429);
		assert.equal(e.headers.get('retry-after'), '1');
		first.controller.abort();
		assert.equal((await second).usage.completion_tokens, 3);
		await idle(server, auth);
	});
	await test("full: the client's own retries come through", async () => {
		const patient = client(server, { apiKey: 'key-of-bob', maxRetries: 8 });
		const all = await Promise.all([...Array(5).keys()].map((seed) =>
			patient.completions.create({ model, prompt, max_tokens: 60, seed })));
		for (const a of all) assert.equal(a.choices.length, 1);
	});
}
