// A server that only looks like one: it serves prog/web as `cohort serve` does and answers the API with random words,
// so that the page can be worked on and tested without a model.
// usage: node tests/web/mock.mjs [PORT] [--key KEY] [--slow MS]
// A message can ask for trouble: "mock:429", "mock:500", "mock:cut" (the connection breaks off), "mock:error" (an error
// in the stream), "mock:say TEXT" (the answer is TEXT), "mock:long" (3000 tokens).
import {createServer} from 'node:http';
import {readFile} from 'node:fs/promises';
import {fileURLToPath} from 'node:url';

const args = process.argv.slice(2);
const option = (name, otherwise) => (args.includes(name) ? args[args.indexOf(name) + 1] : otherwise);
const key = option('--key', '');
const slow = Number(option('--slow', '25'));
// Its tests run in a copy in the build directory.
const web = process.env.COHORT_SOURCE
	? process.env.COHORT_SOURCE + '/prog/web/'
	: fileURLToPath(new URL('../../prog/web/', import.meta.url));
const N_SLOTS = 8,
	N_CTX = 4096;
const types = {
	html: 'text/html; charset=utf-8',
	css: 'text/css; charset=utf-8',
	js: 'text/javascript; charset=utf-8',
	svg: 'image/svg+xml',
};
const words = (
	'the a small old river boat went down slowly and found its way between stones where light fell in green pieces over ' +
	'water nobody had named yet so she waited until morning came with wind rain birds and a letter from home'
).split(' ');
// As in prog/serve_web.h.
const policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const start = Date.now();
const now = () => (Date.now() - start) / 1000;

// ---- The engine that is none ----

const slots = Array.from({length: N_SLOTS}, (_, id) => ({
	id,
	state: 'idle',
	request: 0,
	output: 0,
	n_prompt: 0,
	n_prefilled: 0,
	n_generated: 0,
	n_blocks: 0,
	from: 0,
}));
const totals = {ticks: 0, sampled: 0, prompt_tokens: 0, cached_tokens: 0, parked: 0, refused: 0};
let ticks = []; // of the last seconds
let n_requests = 0,
	n_waiting = 0, // they are answered all the same
	n_cached = 10;

setInterval(() => {
	const reading = slots.filter((s) => s.state === 'prefilling'),
		writing = slots.filter((s) => s.state === 'generating');
	if (reading.length + writing.length === 0) return;
	let prefill = 0;
	for (const s of reading) {
		const rows = Math.min(32, s.n_prompt - s.n_prefilled);
		s.n_prefilled += rows;
		prefill += rows;
		if (s.n_prefilled === s.n_prompt) s.state = 'generating';
	}
	totals.ticks++;
	totals.sampled += writing.length;
	totals.prompt_tokens += prefill;
	const decode_ms = 1 + writing.length * 0.2 + prefill * 0.05 + Math.random();
	ticks.push({
		n: totals.ticks,
		at_s: now(),
		decode: writing.length,
		prefill,
		sampled: writing.length,
		total_ms: decode_ms + 0.3,
		decode_ms,
	});
	ticks = ticks.slice(-400);
}, slow).unref();

function live(request, response) {
	let seen = 0; // it begins with what was before
	response.writeHead(200, {'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store'});
	const timer = setInterval(() => {
		const used = Math.min(
			96 - n_cached,
			slots.reduce((n, s) => n + s.n_blocks, 0),
		);
		const list = slots.map(({from, ...s}) => ({
			...s,
			age_s: s.state === 'idle' ? 0 : now() - from,
			priority: 0,
		}));
		response.write(
			`data: ${JSON.stringify({
				now_s: now(),
				ticks: ticks.filter((t) => t.n > seen),
				slots: list,
				queue: {requests: n_waiting, tokens: n_waiting * 20, requests_max: 256},
				blocks: {total: 96, used, cached: n_cached, free: 96 - used - n_cached},
				totals,
				strategy: 'decode-maximal',
			})}\n\n`,
		);
		seen = totals.ticks;
	}, 100);
	response.on('close', () => clearInterval(timer));
}

// ---- Answers ----

function refuse(response, status, message, headers = {}, code = null) {
	response.writeHead(status, {'Content-Type': 'application/json', ...headers});
	response.end(JSON.stringify({error: {message, type: 'invalid_request_error', param: null, code}}));
}

const bytes = (text) => [...Buffer.from(text)];
const entry = (token, logprob) => ({token, logprob, bytes: bytes(token)});

// The token first, then others that are less likely.
function ranking(token, k, top) {
	const p = 0.03 + 0.97 * Math.random() ** 0.5;
	const others = Array.from({length: Math.max(0, top - 1)}, (_, a) => {
		return [' ' + words[(k * 3 + a * 5) % words.length], Math.log((1 - p + 1e-6) / (a + 2))];
	});
	return [[token, Math.log(p)], ...others];
}

function chatLogprobs(token, k, top) {
	const ranks = ranking(token, k, top);
	return {content: [{...entry(...ranks[0]), top_logprobs: ranks.slice(0, top).map((r) => entry(...r))}]};
}

function legacyLogprobs(token, k, top) {
	const ranks = ranking(token, k, top);
	const top_logprobs = [Object.fromEntries(ranks)];
	return {tokens: [token], token_logprobs: [ranks[0][1]], top_logprobs, text_offset: [0]};
}

// The k-th token of answer i: the first ones are the same for all answers, as they are in life.
function pieces(asked, i, n) {
	const say = /mock:say ([\s\S]*)/.exec(asked);
	if (say) return say[1].match(/[\s\S]{1,4}/gu) ?? [];
	const seed = [...asked].reduce((h, c) => (h * 31 + c.codePointAt(0)) >>> 0, 7);
	return Array.from({length: asked.includes('mock:long') ? 3000 : 28 + ((seed + i * 5) % 14)}, (_, k) => {
		const branch = k < 5 ? 0 : k < 9 ? i >> 1 : i + 1;
		const word =
			words[
				(seed + k * k * 7 + branch * 13 + (k > 9 ? Math.floor(Math.random() * 9) : 0)) %
					words.length
			];
		return k === 0 ? word[0].toUpperCase() + word.slice(1) : k % 11 === 10 ? ` ${word}.` : ' ' + word;
	});
}

async function answer(request, response, body, chat) {
	const asked = chat ? body.messages.at(-1).content : String(body.prompt);
	const n = body.n ?? 1;
	if (asked.includes('mock:429'))
		return refuse(response, 429, 'The queue is full (1024 requests); try again later.', {
			'Retry-After': '3',
		});
	if (asked.includes('mock:500')) return refuse(response, 500, 'Something broke, and this says what.');
	if (body.temperature > 2)
		return refuse(response, 400, `temperature is ${body.temperature}, expected a number from 0 to 2`);
	const type = body.response_format?.json_schema?.schema?.type ?? 'object';
	if (type === 'banana') return refuse(response, 400, `the schema's type is "${type}"`);
	const n_prompt = Math.ceil(JSON.stringify(body.messages ?? body.prompt).length / 4);
	if (n_prompt >= N_CTX)
		return refuse(
			response,
			400,
			`a prompt of ${n_prompt} tokens and 1 to generate; there is room for ${N_CTX}`,
			{},
			'context_length_exceeded',
		);
	const n_max = Math.min(body.max_tokens ?? 1e9, N_CTX - n_prompt);
	const id = ++n_requests,
		from = now();
	const mine = Array.from({length: n}, (_, output) =>
		slots.find(
			(s) =>
				s.state === 'idle' &&
				Object.assign(s, {
					state: 'prefilling',
					request: id,
					output,
					n_prompt,
					n_prefilled: 0,
					n_generated: 0,
					n_blocks: 1,
					from,
				}),
		),
	).filter(Boolean);
	const texts = Array.from({length: n}, (_, i) => pieces(asked, i, n).slice(0, n_max));
	const top = (chat ? body.top_logprobs : body.logprobs) ?? 0;
	let gone = false;
	const waits = mine.length === 0;
	if (waits) n_waiting++;
	response.on('close', () => {
		gone = true;
		if (waits) n_waiting--;
		mine.forEach((s) => Object.assign(s, {state: 'idle', n_blocks: 0}));
	});
	response.writeHead(200, {'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store'});
	const head = {
		id: 'mock-' + id,
		object: chat ? 'chat.completion.chunk' : 'text_completion',
		created: Math.floor(Date.now() / 1000),
		model: 'mock-7b',
	};
	const put = (more) => response.write(`data: ${JSON.stringify({...head, ...more})}\n\n`);
	response.write(': waiting\n\n');
	await sleep(slow * 4);
	for (let k = 0; !gone && texts.some((t) => k <= t.length); k++) {
		for (let i = 0; i < n; i++) {
			if (k > texts[i].length) continue;
			if (k === texts[i].length) {
				const reason = n_max <= k ? 'length' : 'stop';
				put({
					choices: [
						chat
							? {index: i, delta: {}, finish_reason: reason}
							: {index: i, text: '', finish_reason: reason},
					],
				});
				continue;
			}
			const logprobs = (chat ? chatLogprobs : legacyLogprobs)(texts[i][k], k + i, top);
			const said = chat ? {delta: {content: texts[i][k]}} : {text: texts[i][k]};
			put({choices: [{index: i, finish_reason: null, logprobs, ...said}]});
			if (mine[i]) Object.assign(mine[i], {n_generated: k + 1, n_blocks: 1 + (k >> 6)});
		}
		if (k === 6 && asked.includes('mock:cut')) return response.destroy();
		if (k === 6 && asked.includes('mock:error')) {
			put({error: {message: 'The engine stopped in the middle.', type: 'server_error', code: 500}});
			response.end('data: [DONE]\n\n');
			return;
		}
		await sleep(slow);
	}
	const predicted_n = texts.reduce((sum, t) => sum + t.length, 0);
	n_cached = Math.min(40, n_cached + 2);
	totals.cached_tokens += n_prompt >> 1;
	put({
		choices: [],
		usage: {prompt_tokens: n_prompt, completion_tokens: predicted_n, total_tokens: n_prompt + predicted_n},
		timings: {
			prompt_n: n_prompt - (n_prompt >> 1),
			cache_n: n_prompt >> 1,
			prompt_ms: 12.5,
			predicted_n,
			predicted_ms: (now() - from) * 1000,
		},
	});
	response.end('data: [DONE]\n\n');
}

// ---- Routes ----

async function serve(request, response) {
	const {pathname} = new URL(request.url, 'http://localhost');
	const name = pathname === '/' ? 'index.html' : /^\/ui\/([a-z]+\.[a-z]+)$/.exec(pathname)?.[1];
	if (name) {
		const data = await readFile(web + name).catch(() => null);
		if (!data) return refuse(response, 404, 'There is no such file');
		response.writeHead(200, {
			'Content-Type': types[name.split('.')[1]],
			'Content-Security-Policy': policy,
			'X-Content-Type-Options': 'nosniff',
		});
		return response.end(data);
	}
	if (key && request.headers.authorization !== 'Bearer ' + key)
		return refuse(response, 401, 'This server needs an API key: Authorization: Bearer KEY');
	const json = (value) => {
		response.writeHead(200, {'Content-Type': 'application/json'});
		response.end(JSON.stringify(value));
	};
	if (pathname === '/v1/models')
		return json({object: 'list', data: [{id: 'mock-7b', object: 'model', created: 0, owned_by: 'cohort'}]});
	if (pathname === '/props')
		return json({
			default_generation_settings: {
				n_ctx: N_CTX,
				params: {
					temperature: 0.8,
					top_k: 40,
					top_p: 0.95,
					min_p: 0.05,
					typical_p: 1,
					repeat_penalty: 1,
					repeat_last_n: 64,
					presence_penalty: 0,
					frequency_penalty: 0,
					seed: 0,
					max_tokens: -1,
				},
			},
			total_slots: N_SLOTS,
			chat_template: '{{ messages }}',
			has_chat: true,
			model_path: 'mock.gguf',
			n_ctx: N_CTX,
		});
	if (pathname === '/slots') return json(slots.map((s) => ({id: s.id, is_processing: s.state !== 'idle'})));
	if (pathname === '/cohort/live') return live(request, response);
	const chat = pathname === '/v1/chat/completions';
	if (request.method === 'POST' && (chat || pathname === '/v1/completions')) {
		let text = '';
		for await (const part of request) text += part;
		return answer(request, response, JSON.parse(text), chat);
	}
	refuse(response, 404, 'There is no such route');
}

const server = createServer((request, response) =>
	serve(request, response).catch((e) => {
		process.stderr.write(`mock: ${e.stack}\n`);
		response.destroy();
	}),
);
server.listen(Number(args.find((a) => /^\d+$/.test(a)) ?? 8089), '127.0.0.1', () =>
	process.stdout.write(`http://127.0.0.1:${server.address().port}\n`),
);
