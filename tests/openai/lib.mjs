// What the cases share: TAP, the client.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { serve } from './serve.mjs'; // of tests/npm

export { assert, OpenAI, serve };

let n = 0;
let bad = 0;
let skipped = 0;

/** Runs one case. It fails by throwing, and skips by throwing what skip() returns. A case has 60 seconds. */
export async function test(name, run) {
	n++;
	let timer;
	const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error('60 seconds are over')), 60_000); });
	try {
		await Promise.race([run(), late]);
		console.log(`ok ${n} - ${name}`);
	} catch (e) {
		if (e?.skip) {
			skipped++;
			console.log(`ok ${n} - ${name} # SKIP ${e.skip}`);
		} else {
			bad++;
			console.log(`not ok ${n} - ${name}`);
			console.log(String(e?.stack ?? e).split('\n').slice(0, 12).map((l) => `# ${l}`).join('\n'));
		}
	} finally {
		clearTimeout(timer);
	}
}
export const skip = (why) => ({ skip: why });
export function plan() {
	console.log(`1..${n}`);
	return bad === 0 ? 0 : 1;
}

/** A client of a server, which never tries again by itself. */
export const client = (server, more = {}) =>
	new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 50_000, ...more });

/** The error that a promise ends with; it must be of this class. */
export async function refused(kind, promise) {
	try {
		await promise;
	} catch (e) {
		assert.ok(e instanceof kind, `expected ${kind.name}, got ${e?.constructor?.name}: ${e?.message}`);
		return e;
	}
	assert.fail(`expected ${kind.name}, but it was answered`);
}

/** The choices of a stream, put together: texts by index, finish reasons, log-probabilities, number of chunks. */
export async function collect(stream) {
	const all = { texts: [], finish: [], logprobs: [], chunks: 0, usage: null, roles: [] };
	for await (const c of stream) {
		all.chunks++;
		if (c.usage) all.usage = c.usage;
		if (c.timings) all.timings = c.timings;
		for (const x of c.choices) {
			const text = x.text ?? x.delta.content ?? '';
			all.texts[x.index] = (all.texts[x.index] ?? '') + text;
			if (x.delta?.role) all.roles[x.index] = x.delta.role;
			if (x.finish_reason) all.finish[x.index] = x.finish_reason;
			if (x.logprobs?.content) (all.logprobs[x.index] ??= []).push(...x.logprobs.content);
		}
	}
	return all;
}
export const texts = (answer) => answer.choices.map((c) => c.text ?? c.message.content);

/** Polls until a condition holds. */
export async function until(what, condition, seconds = 20) {
	const end = Date.now() + seconds * 1000;
	while (!(await condition())) {
		if (Date.now() > end) assert.fail(`not within ${seconds} s: ${what}`);
		await new Promise((yes) => setTimeout(yes, 30));
	}
}
/** A number of /metrics, by its name and labels as written there. */
export async function metric(server, name, headers = {}) {
	const text = await (await fetch(`${server.url}/metrics`, { headers })).text();
	const line = text.split('\n').find((l) => l.startsWith(`${name} `));
	assert.ok(line, `no ${name} in /metrics`);
	return Number(line.slice(name.length + 1));
}
/** Busy slots come to none: what was cancelled is gone. */
export const idle = (server, headers = {}) =>
	until('all slots idle', async () => {
		const slots = await (await fetch(`${server.url}/slots`, { headers })).json();
		return slots.every((s) => !s.is_processing);
	});
