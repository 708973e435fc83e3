// n answers to one prompt, streamed at the same time, with the log-probability of every token.
//
// An answer is any object {text, tokens, finish, timings}; tokens are [text, logprob, [[text, logprob], ...]], rounded
// to what one can see, because conversations are kept with them.
import {ApiError, stream} from './api.js';

const round = (x) => Math.round(x * 1e4) / 1e4;
const utf8 = new TextEncoder();

// Tokens can be parts of characters: their bytes go through one decoder per answer, and a character belongs to the
// token that completes it.
function bytesOf(token) {
	if (Array.isArray(token.bytes)) return Uint8Array.from(token.bytes);
	const text = String(token.token ?? '');
	if (/^bytes:(\\x[0-9a-f]{2})+$/i.test(text))
		return Uint8Array.from(text.slice(6).split('\\x').slice(1), (h) => parseInt(h, 16));
	return utf8.encode(text);
}

// What stands for a token among the alternatives: its text, or its bytes where they are no text.
function nameOf(token) {
	const bytes = bytesOf(token);
	try {
		return new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes);
	} catch {
		return Array.from(bytes, (b) => '\\x' + b.toString(16).padStart(2, '0')).join('');
	}
}

class Writer {
	#decoder = new TextDecoder('utf-8', {ignoreBOM: true});

	constructor(answer) {
		this.answer = answer;
		Object.assign(answer, {text: '', tokens: [], finish: ''});
	}

	token(token, top) {
		const logprob = Number(token.logprob);
		if (!Number.isFinite(logprob)) return;
		const alternatives = top
			.filter((t) => Number.isFinite(t.logprob))
			.map((t) => [nameOf(t), round(t.logprob)]);
		this.answer.tokens.push([
			this.#decoder.decode(bytesOf(token), {stream: true}),
			round(logprob),
			alternatives.sort((a, b) => b[1] - a[1]),
		]);
	}

	chat(choice) {
		this.answer.text += choice.delta?.content ?? '';
		for (const t of choice.logprobs?.content ?? []) this.token(t, t.top_logprobs ?? []);
	}

	legacy(choice) {
		const l = choice.logprobs;
		this.answer.text += choice.text ?? '';
		(l?.tokens ?? []).forEach((token, i) => {
			const top = Object.entries(l.top_logprobs?.[i] ?? {}).map(([text, logprob]) => ({
				token: text,
				logprob,
			}));
			this.token({token, logprob: l.token_logprobs?.[i] ?? NaN}, top);
		});
	}
}

// Fills the answers until all have ended; changed() after each chunk. Throws what ended it early.
export async function generate({path, body, alternatives, answers, signal, changed}) {
	const chat = path.endsWith('/chat/completions');
	const writers = answers.map((a) => new Writer(a));
	const full = {
		...body,
		n: answers.length,
		stream: true,
		stream_options: {include_usage: true},
		...(chat ? {logprobs: true, top_logprobs: alternatives} : {logprobs: alternatives}),
	};
	const from = performance.now();
	let timings = null,
		usage = null;

	await stream(path, full, signal, (chunk) => {
		for (const choice of chunk.choices ?? []) {
			const w = writers[choice.index ?? 0];
			if (!w) continue;
			if (chat) w.chat(choice);
			else w.legacy(choice);
			if (choice.finish_reason) w.answer.finish = choice.finish_reason;
		}
		timings = chunk.timings ?? timings;
		usage = chunk.usage ?? usage;
		changed();
	});
	if (answers.some((a) => a.finish === '')) throw new ApiError('The stream ended before all answers did', -1);
	// prompt_n of timings leaves out what came from the cache; what is shown is the whole prompt.
	const cached = timings?.cache_n ?? usage?.prompt_tokens_details?.cached_tokens ?? 0;
	const t = {
		prompt_n: usage?.prompt_tokens ?? (timings ? timings.prompt_n + cached : undefined),
		cache_n: cached,
		predicted_n: timings?.predicted_n ?? usage?.completion_tokens,
		predicted_ms: timings?.predicted_ms ?? performance.now() - from,
	};
	for (const a of answers)
		a.timings = Object.fromEntries(
			Object.entries(t)
				.filter(([, v]) => Number.isFinite(v))
				.map(([k, v]) => [k, round(v)]),
		);
}

// ---- What the numbers say ----

// The mean log-probability of a token, or null.
export function likelihood(answer) {
	const tokens = answer.tokens ?? [];
	if (tokens.length === 0) return null;
	return tokens.reduce((sum, t) => sum + t[1], 0) / tokens.length;
}

// The likeliest of those that ended, or null where there is nothing to choose.
export function likeliest(answers) {
	let best = null,
		at = -Infinity;
	for (const a of answers) {
		const x = likelihood(a);
		if (x !== null && x > at) {
			best = a;
			at = x;
		}
	}
	return answers.length > 1 ? best : null;
}

// What words are made of, in scripts that have blanks between them; in others every character may begin a word.
const IN_WORD =
	/^(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}])[\p{L}\p{M}\p{N}\p{Join_C}_'’]/u;

// Whether a word goes over place i of a text, or a character does.
function inWord(text, i) {
	if (/^[\udc00-\udfff]/.test(text.slice(i, i + 1))) return true;
	const before = text.slice(/[\udc00-\udfff]/.test(text[i - 1]) ? i - 2 : i - 1, i);
	return IN_WORD.test(before) && IN_WORD.test(text.slice(i, i + 2));
}

// How much of a is the beginning of b, in whole words. A text that is still being written (open) may end within one.
function sharedLength(a, b, open) {
	const n = Math.min(a.length, b.length);
	let i = 0;
	while (i < n && a.charCodeAt(i) === b.charCodeAt(i)) i++;
	if (i === n && (a.length === b.length || open)) return i;
	while (i > 0 && (inWord(a, i) || inWord(b, i))) i--;
	return i;
}

// The text of answer k in pieces [{text, n}]: n answers begin with everything up to the end of the piece.
export function forks(answers, k) {
	const text = answers[k].text;
	const open = (a) => !(text.length < a.text.length ? answers[k] : a).finish;
	const ends = answers.map((a, i) => (i === k ? text.length : sharedLength(text, a.text, open(a))));
	const cuts = [...new Set(ends)].sort((a, b) => a - b).filter((x) => x > 0);
	let from = 0;
	return cuts.map((to) => {
		const piece = {text: text.slice(from, to), n: ends.filter((e) => e >= to).length};
		from = to;
		return piece;
	});
}

export function timingText(timings, answer) {
	if (!timings) return '';
	const parts = [];
	const n = answer?.tokens?.length;
	if (n) parts.push(`${n} token${n === 1 ? '' : 's'}`);
	if (timings.predicted_n > 0 && timings.predicted_ms > 0)
		parts.push(`${((timings.predicted_n / timings.predicted_ms) * 1000).toFixed(1)} tokens/s`);
	if (timings.prompt_n !== undefined) {
		const cached = timings.cache_n > 0 ? `, ${timings.cache_n} cached` : '';
		parts.push(`prompt ${timings.prompt_n}${cached}`);
	}
	return parts.join(' · ');
}
