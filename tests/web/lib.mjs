// What the cases share: TAP, the browser, pages of a server, and what one does on them.
//
// A case gets a page of its own, in a browser that can reach this machine only. Whatever the case, a page must not ask
// elsewhere (seen red with a style sheet from elsewhere), open a dialog, or have errors on the console. No case fails
// for want of less than many seconds: the machine may be busy.
import {mkdir} from 'node:fs/promises';
import {chromium} from 'playwright-core';

export const REBOUND = 'rebound.example'; // a name that resolves to this machine
const shots = process.env.SCREENSHOTS ?? '';
const WAIT_S = 40; // for anything to come
const CASE_S = 120; // for a whole case
let browser = null;
let n_case = 0,
	n_bad = 0;

export const seconds = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));
export const hasShots = shots !== '';

export function must(ok, what) {
	if (!ok) throw new Error(what);
}
export const same = (a, b, what) => must(a === b, `${what}: ${JSON.stringify(a)}, expected ${JSON.stringify(b)}`);

// Polls until a condition holds.
export async function until(what, condition) {
	const end = Date.now() + WAIT_S * 1000;
	while (!(await condition())) {
		must(Date.now() < end, `not within ${WAIT_S} s: ${what}`);
		await seconds(0.1);
	}
}

// ---- Pages ----

async function launched() {
	browser ??= await chromium.launch({
		executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
		args: [
			'--no-sandbox',
			'--disable-gpu',
			`--host-resolver-rules=MAP ${REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`,
		],
	});
	return browser;
}

// A page of any server of this machine, which may do and say what it likes.
export async function openPage(url) {
	const page = await (await launched()).newPage();
	await page.goto(url);
	return page;
}

async function open(
	t,
	{width = 1280, height = 800, dark = false, settings, hash = '', key = t.key, slow = false} = {},
) {
	const base = slow ? t.slow : t.url;
	const context = await (await launched()).newContext({
		viewport: {width, height},
		colorScheme: dark ? 'dark' : 'light',
		acceptDownloads: true,
		// A server with keys wants one for its page already, which a browser asks for as a password.
		...(t.key ? {httpCredentials: {username: 'page', password: t.key, origin: base}} : {}),
	});
	const page = await context.newPage();
	page.setDefaultTimeout(WAIT_S * 1000);
	page.base = base;
	page.shots = `${shots}/${t.name}`;
	page.wrong = [];
	page.allowed = /$^/; // what may be on the console
	page.on(
		'console',
		(m) => m.type() === 'error' && !page.allowed.test(m.text()) && page.wrong.push('console: ' + m.text()),
	);
	page.on('pageerror', (e) => page.wrong.push('error: ' + e.message));
	page.on('dialog', (d) => {
		page.wrong.push('dialog: ' + d.message());
		d.dismiss();
	});
	page.on(
		'request',
		(r) =>
			/^(https?|wss?):/.test(r.url()) &&
			!r.url().startsWith(base + '/') &&
			page.wrong.push('request to ' + r.url()),
	);
	await page.addInitScript(
		([s, k]) => {
			if (localStorage.length === 0) {
				localStorage.setItem('cohort.settings', JSON.stringify(s));
				if (k) sessionStorage.setItem('cohort.key', k);
			}
		},
		[settings ?? {max_tokens: '40'}, key],
	);
	await page.goto(base + '/' + hash);
	return page;
}

// ---- Cases ----

// A case on a page of target t. options: of the page; skip: the reason why it cannot run there, or ''; blank: no page;
// own: it is the page's own affair, whatever the server, so that the last target is enough.
export async function check(t, name, options, body) {
	const title = `web, ${t.name}: ${name}`;
	let page = null,
		why = null,
		timer = null;
	if (!title.includes(process.env.ONLY ?? '') || (options.own && !t.last)) return;
	n_case++;
	if (options.skip) {
		console.log(`ok ${n_case} - ${title} # SKIP ${options.skip}`);
		return;
	}
	const late = new Promise((_, no) => {
		timer = setTimeout(() => no(new Error(`${CASE_S} seconds are over`)), CASE_S * 1000);
	});
	const run = async () => {
		if (options.blank) return body();
		page = await open(t, options);
		await body(page);
		must(page.wrong.length === 0, page.wrong.join('; '));
	};
	try {
		await Promise.race([run(), late]);
	} catch (e) {
		why = e;
		if (page) await shot(page, `failed-${n_case}`).catch(() => {});
	}
	clearTimeout(timer);
	console.log(`${why ? 'not ok' : 'ok'} ${n_case} - ${title}`);
	if (why) {
		n_bad++;
		const lines = String(why.stack ?? why).split('\n');
		console.log(
			lines
				.slice(0, 12)
				.map((l) => '# ' + l)
				.join('\n'),
		);
	}
	await page?.context().close();
}

// Ends the browser and prints the plan; returns the exit code.
export async function finish() {
	await browser?.close();
	console.log(`1..${n_case}`);
	return n_bad > 0 ? 1 : 0;
}

// ---- On a page ----

export async function shot(page, name) {
	if (!hasShots) return;
	await mkdir(page.shots, {recursive: true});
	await page.screenshot({path: `${page.shots}/${name}.png`});
}

// A message that is answered at length, by the mock as well.
export const LONG = 'mock:long Go on and on';
export const done = (page) => page.waitForSelector('#send:not([hidden])', {state: 'visible'});
export async function say(page, text, n = 1) {
	await page.selectOption('#n', String(n));
	await page.fill('#input', text);
	await page.press('#input', 'Enter');
}
export async function ask(page, text, n) {
	await say(page, text, n);
	await done(page);
}
// All answers have begun.
export const begun = (page, n = 1) =>
	page.waitForFunction(
		(want) =>
			[...document.querySelectorAll('.thread :is(.answer, .assistant) .text')].filter(
				(t) => t.textContent.length > 0,
			).length >= want,
		n,
	);
// The text of the first answer grows by itself.
export async function grows(page) {
	const length = () => page.evaluate(() => document.querySelector('.assistant .text')?.textContent.length ?? 0);
	const before = await length();
	await until('the answer grows', async () => (await length()) > before);
}
// The bodies of what the page asks for, as they go out.
export function bodies(page, path) {
	const all = [];
	page.on('request', (r) => r.url().endsWith(path) && all.push(r.postDataJSON()));
	return all;
}
// Waits until the text of what a selector finds matches, and returns the match.
export async function reads(page, selector, pattern) {
	let found = null;
	await until(`${selector} reads ${pattern}`, async () => {
		found = pattern.exec((await page.locator(selector).first().textContent()) ?? '');
		return found;
	});
	return found;
}
export const noScroll = (page) =>
	page.evaluate(
		() =>
			document.scrollingElement.scrollWidth <= innerWidth &&
			[...document.querySelectorAll('.scroll')].every(
				(e) => e.hidden || e.scrollWidth <= e.clientWidth,
			),
	);

// ---- Beside the page ----

// The server itself.
export async function api(t, page, path, body) {
	const headers = t.key ? {Authorization: 'Bearer ' + t.key} : {};
	const options = body ? {method: 'POST', headers, body: JSON.stringify(body)} : {headers};
	const response = await fetch(page.base + path, {...options, signal: AbortSignal.timeout(WAIT_S * 1000)});
	must(response.ok, `${path}: ${response.status}`);
	return response.json();
}
// Nothing is being written any more: what was stopped on the page has ended on the server.
export const idle = (t, page) =>
	until('all slots are idle', async () => (await api(t, page, '/slots')).every((s) => !s.is_processing));

// A stream put in the server's mouth.
export const event = (value) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const tokenOf = (token, logprob) => ({token, logprob, bytes: [...Buffer.from(token)]});
const said = (index, t) => {
	const top_logprobs = [tokenOf(t, -0.5), tokenOf('<b>x</b>', -2)];
	const content = [{...tokenOf(t, -0.5 - index), top_logprobs}];
	return event({choices: [{index, delta: {content: t}, logprobs: {content}}]});
};
export function answerWith(page, texts) {
	const streams = texts.map((text, index) => {
		const parts = text.match(/[^]{1,5}/gu).map((t) => said(index, t));
		return parts.join('') + event({choices: [{index, delta: {}, finish_reason: 'stop'}]});
	});
	const body = streams.join('') + event('[DONE]');
	return page.route('**/v1/chat/completions', (route) => route.fulfill({contentType: 'text/event-stream', body}));
}
