// A page of another port, in the browser of somebody who has a server without API keys on this machine: whatever it
// sends, the server refuses. tests/e2e/serve_guard.py has more of it, without a browser.
//
// Seen red with a server that looks at neither Origin nor Sec-Fetch-Site: then all of it is done (200) but the preflights.
import {mkdtempSync} from 'node:fs';
import {createServer} from 'node:http';
import {serve} from './serve.mjs'; // of tests/npm
import {ask, check, done, must, openPage, same, until} from './lib.mjs';

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
	// A form, which needs no script; and a frame without an origin of its own.
	const frame = document.createElement('iframe');
	frame.name = 'answer';
	document.body.append(frame);
	document.body.insertAdjacentHTML(
		'beforeend',
		`<form method="post" enctype="text/plain" target="answer" action="${to}/v1/completions">
		<input name='{"prompt": "a", "x": "' value='"}'></form>`,
	);
	document.forms[0].submit();
	const nowhere = document.createElement('iframe');
	nowhere.sandbox = 'allow-scripts';
	nowhere.srcdoc = `<script>fetch('${to}/v1/completions', {method: 'POST', body: '{"prompt": "a"}'})</script>`;
	document.body.append(nowhere);
	return read;
}
const N_SENT = 12;

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
		await page.close();
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
