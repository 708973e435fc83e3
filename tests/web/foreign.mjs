// A page of another port, in the browser of somebody who has a server without API keys on this machine: whatever it
// sends, the server refuses. tests/e2e/serve_guard.py has more of it, without a browser.
//
// Seen red with a server that looks at neither Origin nor Sec-Fetch-Site (then all of it is done but the preflights), at
// Origin alone (then pictures, frames and links are answered), and with one that does not look at Host.
import {mkdtempSync} from 'node:fs';
import {createServer} from 'node:http';
import {serve} from './serve.mjs'; // of tests/npm
import {ask, check, done, must, openPage, REBOUND, same, until} from './lib.mjs';

// What the page sends to the server at `to`; gives what it could read of the answers.
async function attack(to) {
	const read = [];
	const send = async (path, options) => {
		try {
			const answer = await fetch(to + path, options);
			if (answer.type !== 'opaque') read.push(`${path}: ${answer.status}`);
		} catch {
			// refused, or not to be read
		}
	};
	const text = (path, body, headers = {'Content-Type': 'text/plain'}) =>
		send(path, {method: 'POST', mode: 'no-cors', headers, body});
	const upload = new FormData();
	upload.append('purpose', 'batch');
	upload.append('file', new Blob(['{}']), 'x.jsonl');
	const json = {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"prompt": "a"}'};
	await text('/cohort/strategy', '{"strategy": "balanced"}');
	await text('/v1/files', upload, {});
	await text('/v1/completions', '{"prompt": "a", "max_tokens": 2}');
	await text('/slots/0?action=erase', '');
	await send('/v1/completions', json); // asks first, by a preflight
	await send('/v1/files', {}); // which it would like to read
	await send('/v1/files', {mode: 'no-cors'});
	const gone = (element, key, path) =>
		new Promise((resolve) => {
			element.onload = element.onerror = resolve;
			element[key] = to + path;
			document.body.append(element);
		});
	await gone(new Image(), 'src', '/v1/models');
	await gone(document.createElement('script'), 'src', '/props');
	await gone(document.createElement('iframe'), 'src', '/');
	await gone(Object.assign(document.createElement('link'), {rel: 'stylesheet'}), 'href', '/slots');
	navigator.sendBeacon(to + '/v1/completions', '{"prompt": "a", "max_tokens": 2}');
	// Answers that come piece by piece.
	for (const make of [() => new EventSource(to + '/cohort/live'), () => new WebSocket(to.replace('http', 'ws') + '/metrics')])
		await new Promise((resolve) => {
			const source = make();
			source.onopen = () => read.push(source.url) && resolve();
			source.onmessage = (e) => read.push(e.data);
			source.onerror = () => (source.close(), resolve());
		});
	// Forms and links, which need no script; and a frame without an origin of its own.
	for (const [name, tag] of Object.entries({
		text: `<form method="post" enctype="text/plain" action="${to}/v1/completions">
			<input name='{"prompt": "a", "x": "' value='"}'></form>`,
		url: `<form method="post" action="${to}/v1/chat/completions"><input name="a" value="b"></form>`,
		parts: `<form method="post" enctype="multipart/form-data" action="${to}/v1/files">
			<input name="purpose" value="batch"></form>`,
		get: `<form action="${to}/v1/models"></form>`,
		link: `<a href="${to}/cohort/strategy">x</a>`,
	})) {
		document.body.insertAdjacentHTML('beforeend', `<iframe name="${name}"></iframe>${tag}`);
		const last = document.body.lastElementChild;
		last.target = name;
		if (last.submit) last.submit();
		else last.click();
	}
	const nowhere = document.createElement('iframe');
	nowhere.sandbox = 'allow-scripts';
	nowhere.srcdoc = `<script>fetch('${to}/v1/completions', {method: 'POST', body: '{"prompt": "a"}'})</script>`;
	document.body.append(nowhere);
	return read;
}
const N_SENT = 20;

// What a page can do whose name was made to resolve to this machine: for the browser the server is its own.
async function rebound() {
	const read = [];
	const post = {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"prompt": "a"}'};
	for (const [path, options] of [
		['/v1/files', {}],
		['/props', {}],
		['/v1/completions', post],
		['/cohort/strategy', {...post, body: '{"strategy": "balanced"}'}],
	])
		read.push((await fetch(path, options)).status);
	return read;
}


export async function foreign(t) {
	const skip = t.slowServe ? '' : 'there is no server of our own';
	await check(t, 'a page of another port is refused, the own one is not', {own: true, blank: true, skip}, async () => {
		const folder = mkdtempSync(`${process.env.COHORT_BUILD}/web-tests/foreign-`);
		const server = await serve('-admin', '-data', `${folder}/data`, '-slot-save-path', folder, '-verbose');
		const other = createServer((_, answer) => answer.end('<!doctype html><title>other</title><body>'));
		await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
		const requests = () => server.said.filter((l) => / (GET|POST|OPTIONS) .* bytes /.test(l));
		const page = await openPage(`http://127.0.0.1:${other.address().port}/`);
		const read = await page.evaluate(attack, server.url);
		same(read.join(), '', 'what the other page could read');
		await until('all of it has come', () => requests().length >= N_SENT);
		const taken = requests().filter((l) => !/ 403 \d+ bytes /.test(l));
		same(taken.join('; '), '', 'what was not refused');
		// A link that is followed leads to the page, and to nothing else.
		const follow = async (path) => {
			const come = page.waitForNavigation();
			await page.evaluate((url) => void setTimeout(() => (location.href = url)), server.url + path);
			return (await come).status();
		};
		same(await follow('/v1/models'), 403, 'a link to a route');
		await page.goto(`http://127.0.0.1:${other.address().port}/`);
		same(await follow('/'), 200, 'a link to the page');
		await page.close();
		const bound = await openPage(server.url.replace('127.0.0.1', REBOUND) + '/');
		same((await bound.evaluate(rebound)).join(), '403,403,403,403', 'what a name made for it could do');
		must(/Host is 'rebound\.example/.test(await bound.textContent('body')), 'why');
		await bound.close();
		const own = await openPage(server.url);
		await own.waitForSelector('#model b');
		await ask(own, 'Hello');
		await done(own);
		must((await own.textContent('.assistant .text')).length > 0, "no answer on the server's own page");
		await own.close();
		other.close();
		same(await server.stop(), 0, 'its exit code');
	});
}
