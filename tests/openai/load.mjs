// The same seed gives the same answer: streamed or not, alone or among many.
import { assert, test, collect, texts, idle } from './lib.mjs';

const words = 'Tom Lily dog cat tree big little happy was and the a ball house'.split(' ');

function requests(n) {
	let x = 12345;
	const next = (max) => { x = (x * 1103515245 + 12345) % 2147483648; return Math.floor(x / 65536) % max; };
	return Array.from({ length: n }, (_, i) => ({
		chat: i % 3 === 0,
		body: {
			model: 'cohort-tiny',
			seed: i,
			temperature: [0, 0.8, 1.5][i % 3],
			n: 1 + next(2),
			max_tokens: 8 + next(40),
			...(i % 3 === 0 ? { messages: [{ role: 'user', content: `Tell me about ${words[next(14)]} and ${words[next(14)]}.` }] }
				: { prompt: `Once ${Array.from({ length: 1 + next(60) }, () => words[next(14)]).join(' ')}` }),
		},
	}));
}

export async function load(server, ai) {
	const all = requests(24);
	const route = (r) => (r.chat ? ai.chat.completions : ai.completions);
	const whole = async (r) => texts(await route(r).create(r.body));
	const streamed = async (r) => (await collect(await route(r).create({ ...r.body, stream: true }))).texts;

	await test('same seed: alone, streamed alone, and both with all others under way', async () => {
		const alone = [];
		for (const r of all) alone.push(await whole(r));
		for (const [i, r] of all.entries()) assert.deepEqual(await streamed(r), alone[i], `streamed, request ${i}`);
		const crowd = await Promise.all(all.flatMap((r) => [whole(r), streamed(r)]));
		for (const [i, got] of crowd.entries()) assert.deepEqual(got, alone[i >> 1], `in the crowd, request ${i >> 1}`);
	});
	await test('same seed: with every fourth client going away', async () => {
		const alone = await Promise.all(all.map(whole));
		await Promise.all(all.map(async (r, i) => {
			if (i % 4 === 3) {
				const s = await route(r).create({ ...r.body, stream: true });
				for await (const _ of s) break;
			} else {
				assert.deepEqual(await streamed(r), alone[i], `request ${i}`);
			}
		}));
		await idle(server);
	});
}
