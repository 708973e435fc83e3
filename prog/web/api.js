// The server: requests with the key, errors with a reason, and streams of server-sent events.
import {$} from './dom.js';

// status 0: no answer came; -1: it broke off. retryAfter: seconds, or null. code: the server's name for the error.
export class ApiError extends Error {
	constructor(message, status = 0, retryAfter = null, code = '') {
		super(message);
		this.status = status;
		this.retryAfter = retryAfter;
		this.code = code;
	}
}

export const isAbort = (e) => e?.name === 'AbortError';

let asking = null; // one dialog for all requests that were refused
let key = null;

function storedKey() {
	try {
		return sessionStorage.getItem('cohort.key') ?? '';
	} catch {
		return '';
	}
}

function askKey(refused) {
	asking ??= new Promise((resolve) => {
		const dialog = $('key-dialog');
		$('key-text').textContent = refused
			? 'The server did not take this key. Try another one; it is kept until this tab is closed.'
			: 'This server asks for a key. It is kept until this tab is closed.';
		$('key').value = '';
		let given = false;
		$('key-form').onsubmit = () => {
			key = $('key').value.trim();
			try {
				sessionStorage.setItem('cohort.key', key);
			} catch {
				/* it is kept in memory then */
			}
			given = key !== '';
		};
		$('key-cancel').onclick = () => dialog.close();
		dialog.onclose = () => {
			asking = null;
			resolve(given);
		};
		dialog.showModal();
	});
	return asking;
}

function retryAfter(response) {
	const value = response.headers.get('Retry-After');
	const seconds = Number(value);
	return value !== null && seconds >= 0 ? Math.min(Math.ceil(seconds), 3600) : null;
}

async function errorOf(response) {
	let message = `The server answered ${response.status} ${response.statusText}`.trim(),
		code = '';
	try {
		const body = JSON.parse(await response.text());
		const said = body?.error?.message ?? body?.error ?? body?.message;
		code = body?.error?.code ?? '';
		if (typeof said === 'string' && said !== '') message = said;
	} catch {
		/* no JSON: the status has to do */
	}
	return new ApiError(message, response.status, retryAfter(response), code);
}

// A response that is ok, or an ApiError; an abort stays an AbortError. A refusal for want of a key asks for one.
export async function request(path, {body, signal} = {}) {
	for (;;) {
		key ??= storedKey();
		const used = key;
		const headers = used ? {Authorization: 'Bearer ' + used} : {};
		if (body !== undefined) headers['Content-Type'] = 'application/json';
		let response;
		try {
			response = await fetch(path, {
				method: body === undefined ? 'GET' : 'POST',
				headers,
				signal,
				cache: 'no-store',
				body: body === undefined ? undefined : JSON.stringify(body),
			});
		} catch (e) {
			if (isAbort(e)) throw e;
			if (/ISO-8859-1|header/i.test(e.message ?? '') && used) {
				// no key can be sent that has such characters
				key = '';
				continue;
			}
			throw new ApiError('The server cannot be reached. Is it running, and is the network up?');
		}
		if (response.ok) return response;
		const error = await errorOf(response);
		if (response.status !== 401) throw error;
		if (key === used && !(await askKey(used !== '')))
			// another request may have got a new one meanwhile
			throw error;
		signal?.throwIfAborted();
	}
}

export async function getJSON(path, options) {
	const response = await request(path, options);
	try {
		return await response.json();
	} catch (e) {
		if (isAbort(e)) throw e;
		throw new ApiError(`The answer to ${path} is no JSON`);
	}
}

// The data of each event. Lines may be split anywhere, also inside a character.
export async function* events(response) {
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = '',
		data = [];
	try {
		for (;;) {
			const {value, done} = await reader.read();
			if (done) return;
			const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
			rest = lines.pop();
			for (const line of lines) {
				if (line.startsWith('data:')) {
					data.push(line.slice(line[5] === ' ' ? 6 : 5));
				} else if (line === '' && data.length > 0) {
					yield data.join('\n');
					data = [];
				}
			}
		}
	} catch (e) {
		if (isAbort(e)) throw e;
		throw new ApiError('The connection was lost', -1);
	} finally {
		reader.cancel().catch(() => {});
	}
}

// POSTs and hands over each chunk of the stream. A stream without its end is an error.
export async function stream(path, body, signal, onChunk) {
	const response = await request(path, {body, signal});
	for await (const data of events(response)) {
		if (data === '[DONE]') return;
		let chunk;
		try {
			chunk = JSON.parse(data);
		} catch {
			throw new ApiError('The server sent something that is no JSON');
		}
		if (chunk?.error)
			throw new ApiError(String(chunk.error.message ?? chunk.error), Number(chunk.error.code) || 500);
		onChunk(chunk);
	}
	throw new ApiError('The connection ended before the answer did', -1);
}
