// The page in a real browser. Prints TAP; exits with 1 when a case failed.
//
//	npm ci && node page_test.mjs                            against the mock, which it starts
//	BASE_URL=http://127.0.0.1:8080 node page_test.mjs       against a server
//
// SCREENSHOTS: a folder for pictures of the views. CHROMIUM: the browser (default: chromium of the PATH's usual place).
// API_KEY: of a server that asks for one. What a server is seldom so kind to do (refuse, break off, say something
// hostile) is put in its mouth by the test, so the same cases run against both.
import {spawn} from 'node:child_process';
import {mkdir, readFile} from 'node:fs/promises';
import {fileURLToPath} from 'node:url';
import {chromium} from 'playwright-core';

const shots = process.env.SCREENSHOTS ?? '';
const apiKey = process.env.API_KEY ?? '';
let base = process.env.BASE_URL ?? '';
let mock = null,
	n_case = 0,
	n_bad = 0;

async function startMock() {
	mock = spawn(process.execPath, [fileURLToPath(new URL('mock.mjs', import.meta.url)), '0', '--slow', '25'], {
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	base = await new Promise((resolve, reject) => {
		mock.stdout.once('data', (text) => resolve(String(text).trim()));
		mock.once('exit', () => reject(new Error('the mock did not start')));
	});
}

if (base === '') await startMock();
base = base.replace(/\/$/, '');
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
	args: ['--no-sandbox', '--disable-gpu'],
});
if (shots) await mkdir(shots, {recursive: true});

// What no page may do, in any case: errors on the console, requests elsewhere.
async function open({
	width = 1280,
	height = 800,
	dark = false,
	settings = {max_tokens: '40'},
	hash = '',
	key = apiKey,
} = {}) {
	const context = await browser.newContext({
		viewport: {width, height},
		colorScheme: dark ? 'dark' : 'light',
		acceptDownloads: true,
	});
	const page = await context.newPage();
	page.setDefaultTimeout(20000);
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
			/^https?:/.test(r.url()) &&
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
		[settings, key],
	);
	await page.goto(base + '/' + hash);
	return page;
}

function must(ok, what) {
	if (!ok) throw new Error(what);
}
const same = (a, b, what) => must(a === b, `${what}: ${JSON.stringify(a)}, expected ${JSON.stringify(b)}`);

async function check(name, options, body) {
	let page = null,
		why = null;
	n_case++;
	try {
		page = await open(options);
		await body(page);
		must(page.wrong.length === 0, page.wrong.join('; '));
	} catch (e) {
		why = e;
		if (page && shots) await page.screenshot({path: `${shots}/failed-${n_case}.png`}).catch(() => {});
	}
	console.log(`${why ? 'not ok' : 'ok'} ${n_case} - web: ${name}`);
	if (why) {
		n_bad++;
		console.log(
			String(why.stack ?? why)
				.split('\n')
				.slice(0, 12)
				.map((l) => '# ' + l)
				.join('\n'),
		);
	}
	await page?.context().close();
}

const shot = (page, name) => (shots ? page.screenshot({path: `${shots}/${name}.png`}) : null);
const done = (page) => page.waitForSelector('#send:not([hidden])', {state: 'visible'});
async function say(page, text, n = 1) {
	await page.selectOption('#n', String(n));
	await page.fill('#input', text);
	await page.press('#input', 'Enter');
}
const ask = async (page, text, n) => {
	await say(page, text, n);
	await done(page);
};
const noScroll = (page) =>
	page.evaluate(
		() =>
			document.scrollingElement.scrollWidth <= innerWidth &&
			[...document.querySelectorAll('.scroll')].every(
				(e) => e.hidden || e.scrollWidth <= e.clientWidth,
			),
	);

// A stream put in the server's mouth.
const event = (value) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const tokenOf = (token, logprob) => ({token, logprob, bytes: [...Buffer.from(token)]});
const said = (index, t) => {
	const top_logprobs = [tokenOf(t, -0.5), tokenOf('<b>x</b>', -2)];
	const content = [{...tokenOf(t, -0.5 - index), top_logprobs}];
	return event({choices: [{index, delta: {content: t}, logprobs: {content}}]});
};
function answerWith(page, texts) {
	const streams = texts.map((text, index) => {
		const parts = text.match(/[^]{1,5}/gu).map((t) => said(index, t));
		return parts.join('') + event({choices: [{index, delta: {}, finish_reason: 'stop'}]});
	});
	const body = streams.join('') + event('[DONE]');
	return page.route('**/v1/chat/completions', (route) => route.fulfill({contentType: 'text/event-stream', body}));
}

// ---- Chat ----

await check('a message is sent, the answer is streamed, and both stay after a reload', {}, async (page) => {
	let body = null;
	page.on('request', (r) => r.url().endsWith('/chat/completions') && (body = r.postDataJSON()));
	await say(page, 'Tell me about the river');
	await page.waitForFunction(() => document.querySelector('.assistant .text')?.textContent.length > 0);
	await done(page);
	const text = await page.textContent('.assistant .text');
	must(text.length > 0, 'there is no answer');
	same(body.messages.at(-1).content, 'Tell me about the river', 'the message in the request');
	same(body.stream, true, 'stream');
	same(body.max_tokens, 40, 'max_tokens');
	must((await page.textContent('.assistant .numbers')).includes('perplexity'), 'no likelihood is shown');
	await page.reload();
	await page.waitForSelector('.assistant .text');
	same(await page.textContent('.assistant .text'), text, 'the answer after a reload');
	same(await page.textContent('.conv.current .conv-name'), 'Tell me about the river', 'its name in the list');
	same(await page.inputValue('#input'), '', 'the input');
});

await check(
	'Escape stops what is being written; what came is kept',
	{settings: {max_tokens: '100000'}},
	async (page) => {
		await say(page, 'mock:long and never stop', 2);
		await page.waitForFunction(() => document.querySelector('.answer .text')?.textContent.length > 0);
		await page.keyboard.press('Escape');
		await done(page);
		must((await page.textContent('.answer .text')).length > 0, 'the text is gone');
		if (mock)
			must(
				(await page.textContent('.badges')).includes('stopped'),
				'it does not say that it was stopped',
			);
		await page.waitForTimeout(300);
		const text = await page.textContent('.answer .text');
		await page.waitForTimeout(300);
		same(await page.textContent('.answer .text'), text, 'the text after it was stopped');
	},
);

await check('the stop button stops', {settings: {max_tokens: '100000'}}, async (page) => {
	await say(page, 'mock:long');
	await page.click('#stop');
	await done(page);
	same(await page.isVisible('#stop'), false, 'the button');
});

await check('regenerating keeps the answer before; arrows go through them', {}, async (page) => {
	await ask(page, 'Again and again');
	const first = await page.textContent('.assistant .text');
	await page.click('.assistant [aria-label=Regenerate]');
	await done(page);
	await page.click('.assistant [aria-label=Regenerate]');
	await done(page);
	same(await page.textContent('.assistant .steps span'), '3/3', 'the branch');
	await page.click('.assistant [aria-label="Previous branch"]');
	await page.click('.assistant [aria-label="Previous branch"]');
	same(await page.textContent('.assistant .steps span'), '1/3', 'the branch');
	same(await page.textContent('.assistant .text'), first, 'the first answer');
	same(await page.isDisabled('.assistant [aria-label="Previous branch"]'), true, 'nothing before the first');
});

await check('an earlier message is edited; both branches are kept whole', {}, async (page) => {
	let bodies = [];
	page.on('request', (r) => r.url().endsWith('/chat/completions') && bodies.push(r.postDataJSON()));
	await ask(page, 'First question');
	await ask(page, 'Second question');
	const answers = await page.locator('.assistant .text').allTextContents();
	await page.locator('.user').first().hover();
	await page.locator('.user [aria-label=Edit]').first().click();
	await page.fill('.edit-area', 'First question, asked better');
	await page.press('.edit-area', 'Enter');
	await done(page);
	same(await page.locator('.message').count(), 2, 'messages of the new branch');
	same(bodies.at(-1).messages.length, 1, 'messages that were sent for it');
	same(await page.textContent('.user .steps span'), '2/2', 'the branch');
	await page.click('.user [aria-label="Previous branch"]');
	same(
		JSON.stringify(await page.locator('.assistant .text').allTextContents()),
		JSON.stringify(answers),
		'answers of the first branch',
	);
	await page.locator('.assistant [aria-label=Edit]').last().click();
	await page.fill('.edit-area', 'An answer of my own');
	await page.click('text=Keep as a branch');
	same(await page.locator('.assistant .text').last().textContent(), 'An answer of my own', 'the edited answer');
	await ask(page, 'Third question');
	same(
		bodies
			.at(-1)
			.messages.map((m) => m.content)
			.includes('An answer of my own'),
		true,
		'it is part of what is sent',
	);
});

await check('the system prompt goes with the request', {}, async (page) => {
	let body = null;
	page.on('request', (r) => r.url().endsWith('/chat/completions') && (body = r.postDataJSON()));
	await page.click('#system-box summary');
	await page.fill('#system', 'Be brief.');
	await ask(page, 'Hello');
	same(body.messages[0].role + ': ' + body.messages[0].content, 'system: Be brief.', 'the first message');
});

await check('several conversations: new, rename, delete, undo, export and import', {}, async (page) => {
	await ask(page, 'One');
	await page.keyboard.press('Alt+n');
	await page.waitForSelector('.welcome');
	same(await page.evaluate(() => document.activeElement.id), 'input', 'the focus');
	await ask(page, 'Two');
	same(await page.locator('.conv').count(), 2, 'conversations');
	await page.hover('.conv.current');
	await page.click('.conv.current [aria-label=Rename]');
	await page.fill('.conv input', 'Renamed <b>two</b>');
	await page.keyboard.press('Enter');
	same(await page.textContent('.conv.current .conv-name'), 'Renamed <b>two</b>', 'the name');
	const [file] = await Promise.all([page.waitForEvent('download'), page.click('#export')]);
	const saved = JSON.parse(await readFile(await file.path(), 'utf8'));
	same(saved.conversations.length, 2, 'conversations in the file');
	const text = await page.textContent('.assistant .text');
	await page.hover('.conv.current');
	await page.click('.conv.current [aria-label=Delete]');
	same(await page.locator('.conv').count(), 1, 'after the deletion');
	await page.click('.toast >> text=Undo');
	same(await page.locator('.conv').count(), 2, 'after the undo');
	await page.setInputFiles('#import-file', {
		name: 'x.json',
		mimeType: 'application/json',
		buffer: Buffer.from(
			JSON.stringify({
				...saved,
				conversations: [saved.conversations[0], 7, {nodes: {}, kids: {root: ['x']}}],
			}),
		),
	});
	await page.waitForFunction(() => document.querySelectorAll('.conv').length === 4);
	same(await page.textContent('.assistant .text'), text, 'what was imported');
	await page.setInputFiles('#import-file', {
		name: 'x.json',
		mimeType: 'application/json',
		buffer: Buffer.from('{"no": 1}'),
	});
	await page.waitForSelector('.toast:has-text("no export")');
});

// ---- Many answers ----

await check(
	'four answers at once, with likelihood, differences, the likeliest marked, and one to go on with',
	{},
	async (page) => {
		let bodies = [];
		page.on('request', (r) => r.url().endsWith('/chat/completions') && bodies.push(r.postDataJSON()));
		await say(page, 'Tell me four stories', 4);
		await page.waitForFunction(
			() =>
				[...document.querySelectorAll('.answer .text')].filter((t) => t.textContent.length > 0)
					.length === 4,
		);
		await done(page);
		same(bodies[0].n, 4, 'n');
		same(bodies[0].logprobs, true, 'logprobs');
		same(await page.locator('.answer').count(), 4, 'columns');
		same(await page.locator('.badge.best').count(), 1, 'the likeliest');
		const perplexities = (await page.locator('.answer .numbers').allTextContents()).map((t) =>
			Number(/perplexity ([\d.]+)/.exec(t)[1]),
		);
		const best = await page
			.locator('.answer')
			.evaluateAll((all) => all.findIndex((a) => a.querySelector('.best')));
		same(perplexities[best], Math.min(...perplexities), 'the perplexity of the likeliest');
		const tops = await page
			.locator('.answer')
			.evaluateAll((all) => new Set(all.map((a) => a.getBoundingClientRect().left)).size);
		must(tops > 1, 'the answers are not side by side');
		const text = await page.locator('.answer .text').nth(2).textContent();
		await shot(page, 'compare');
		await page.locator('.answer .take').nth(2).click();
		same(await page.textContent('.assistant .text'), text, 'the one that was taken');
		same(await page.textContent('.assistant .steps span'), '3/4', 'the branch');
		await ask(page, 'Go on');
		same(bodies.at(-1).messages[1].content.trim(), text.trim(), 'what the next request goes on with');
		await page.locator('.assistant [aria-label="Compare the branches"]').first().click();
		same(await page.locator('.answer').count(), 4, 'the answers side by side again');
	},
);

await check('where answers differ is marked, piece by piece', {}, async (page) => {
	await answerWith(page, ['The cat sat down.', 'The cat sat up.', 'The dog ran.']);
	await ask(page, 'Differences', 3);
	same(
		JSON.stringify(await page.locator('.answer .shared-all').allTextContents()),
		JSON.stringify(['The ', 'The ', 'The ']),
		'what all share',
	);
	same(
		JSON.stringify(await page.locator('.answer .shared-some').allTextContents()),
		JSON.stringify(['cat sat ', 'cat sat ']),
		'what some share',
	);
	same(
		JSON.stringify(await page.locator('.answer .own').allTextContents()),
		JSON.stringify(['down.', 'up.', 'dog ran.']),
		'what is their own',
	);
	must((await page.textContent('.answer.is-best .answer-n')) === '1', 'the likeliest');
	must(
		(await page.locator('.answer .numbers').first().textContent()).includes(
			'mean log p −0.500perplexity 1.65',
		),
		'its numbers',
	);
});

await check('tokens by probability, with their alternatives, also by keyboard', {}, async (page) => {
	await ask(page, 'Colours', 2);
	await page.click('.segments >> text=Probabilities');
	must((await page.locator('.answer').first().locator('.tok').count()) > 2, 'there are no tokens');
	await page.locator('.tok').nth(1).click();
	await page.waitForSelector('#token-pop:not([hidden]) .alts li');
	must((await page.locator('.alts li').count()) >= 3, 'alternatives');
	await shot(page, 'tokens');
	await page.keyboard.press('Escape');
	same(await page.isVisible('#token-pop'), false, 'the popover');
	await page.locator('.answer .text').first().focus();
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('ArrowRight');
	same(await page.locator('.tok.on').getAttribute('data-i'), '1', 'the token');
});

// ---- Settings and completion ----

await check('settings reach the request; wrong ones are not sent; reset clears them', {settings: {}}, async (page) => {
	let body = null;
	page.on('request', (r) => r.url().endsWith('/chat/completions') && (body = r.postDataJSON()));
	await page.click('#settings-open');
	const values = {
		temperature: '0.3',
		top_k: '12',
		top_p: '0.8',
		min_p: '0.02',
		repeat_penalty: '1.1',
		presence_penalty: '0.5',
		frequency_penalty: '-0.5',
		seed: '42',
		max_tokens: '9',
		alternatives: '3',
	};
	for (const [name, value] of Object.entries(values)) await page.fill('#set-' + name, value);
	await page.fill('#set-stop', 'END\n\\n\\n');
	await page.fill('#set-json_schema', '{"type": "object"}');
	await ask(page, 'With settings');
	for (const [name, value] of Object.entries(values))
		same(body[name === 'alternatives' ? 'top_logprobs' : name], Number(value), name);
	same(JSON.stringify(body.stop), '["END","\\n\\n"]', 'stop');
	same(
		JSON.stringify(body.response_format),
		'{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}}',
		'the schema',
	);
	await page.fill('#set-temperature', '7');
	body = null;
	await ask(page, 'Too hot');
	must(body === null, 'it was sent');
	must((await page.textContent('.problem')).includes('Temperature'), 'the reason');
	await page.click('#settings-reset');
	await page.fill('#set-max_tokens', '5');
	await page.click('.problem button');
	await done(page);
	same(body.temperature, undefined, 'temperature after the reset');
	same(body.max_tokens, 5, 'max_tokens');
	await shot(page, 'settings');
});

await check(
	'plain completion: from the caret, side by side, into the text, and out again',
	{hash: '#complete'},
	async (page) => {
		let body = null;
		page.on('request', (r) => r.url().endsWith('/v1/completions') && (body = r.postDataJSON()));
		const finished = () => page.waitForSelector('#text-go:not([hidden])', {state: 'visible'});
		await page.fill('#text', 'It was a dark night. THE END');
		await page.evaluate(() => document.getElementById('text').setSelectionRange(20, 20));
		await page.selectOption('#text-n', '3');
		await page.click('#text-go');
		await page.waitForSelector('#text-stop:not([hidden])', {state: 'attached'});
		await finished();
		same(body.prompt, 'It was a dark night.', 'the prompt');
		same(body.n, 3, 'n');
		same(await page.locator('.answer').count(), 3, 'continuations');
		await shot(page, 'complete');
		const text = await page.evaluate(() => [...document.querySelectorAll('.answer .text')][1].textContent);
		await page.locator('.take').nth(1).click();
		same(await page.inputValue('#text'), 'It was a dark night.' + text + ' THE END', 'the text');
		await page.click('#text-undo');
		same(await page.inputValue('#text'), 'It was a dark night. THE END', 'the text after the undo');
		await page.selectOption('#text-n', '1');
		await page.fill('#text', 'Once');
		await page.press('#text', 'Control+Enter');
		await page.waitForFunction(() => document.getElementById('text').value.length > 4);
		await finished();
		must((await page.inputValue('#text')).startsWith('Once'), 'a single one goes in by itself');
	},
);

// ---- The live view ----

await check(
	'the live view shows ticks, slots, blocks and rates, and can be paused',
	{settings: {max_tokens: '300'}},
	async (page) => {
		await say(page, 'mock:long Watch me', 8);
		await page.click('.tabs >> text=Batch');
		await page.waitForFunction(() => document.getElementById('live-state').textContent === 'live');
		await page.waitForFunction(() => /\d/.test(document.querySelector('.tile strong').textContent));
		await page.waitForFunction(() => document.querySelectorAll('.slot').length > 0);
		await page.waitForFunction(() => {
			// something was painted
			const c = document.getElementById('ticks');
			const data = c.getContext('2d').getImageData(0, 20, c.width, c.height - 20).data;
			const colours = new Set();
			for (let i = 0; i < data.length; i += 4)
				if (data[i + 3] > 200)
					colours.add(`${data[i] >> 4},${data[i + 1] >> 4},${data[i + 2] >> 4}`);
			return colours.size >= 3;
		});
		await page.waitForTimeout(1500);
		const box = await page.locator('#ticks').boundingBox();
		await page.mouse.move(box.x + box.width - 12, box.y + 60);
		must(/^Tick \d+: /.test(await page.textContent('#tick-readout')), 'the tick under the pointer');
		must(/\d+ used/.test(await page.textContent('#blocks-text')), 'blocks');
		await shot(page, 'batch');
		await page.click('#live-pause');
		same(await page.textContent('#live-state'), 'paused', 'the state');
		const total = await page.locator('.tile strong').nth(2).textContent();
		await page.waitForTimeout(400);
		same(await page.locator('.tile strong').nth(2).textContent(), total, 'a number while it is paused');
		await page.click('#live-pause');
		same(await page.textContent('#live-state'), 'live', 'the state');
	},
);

// ---- Trouble ----

await check('401 asks for the key, keeps it for the tab, and sends it', {key: ''}, async (page) => {
	page.allowed = /401/;
	const keys = [];
	await page.route(/\/(v1|props|cohort)/, (route) => {
		const got = route.request().headers().authorization ?? '';
		keys.push(got);
		if (got !== 'Bearer secret')
			return route.fulfill({status: 401, json: {error: {message: 'A key is needed'}}});
		return route.continue({
			headers: {...route.request().headers(), ...(apiKey ? {authorization: 'Bearer ' + apiKey} : {})},
		});
	});
	await page.reload();
	await page.waitForSelector('#key-dialog[open]');
	await page.fill('#key', 'wrong');
	await page.keyboard.press('Enter');
	await page.waitForSelector('#key-dialog[open] #key-text:has-text("did not take")');
	await page.fill('#key', 'secret');
	await page.keyboard.press('Enter');
	await page.waitForSelector('#model b');
	await ask(page, 'With a key');
	must((await page.textContent('.assistant .text')).length > 0, 'the answer');
	same(keys.at(-1), 'Bearer secret', 'the key');
	same(
		await page.evaluate(
			() => sessionStorage.getItem('cohort.key') + JSON.stringify(localStorage).includes('secret'),
		),
		'secretfalse',
		'where the key is kept',
	);
	await page.reload();
	await page.waitForSelector('#model b');
	same(await page.isVisible('#key-dialog'), false, 'the dialog after a reload');
});

await check('errors are shown in place, with the reason, the time to wait and a retry that works', {}, async (page) => {
	page.allowed = /429|500|ERR_/;
	let how = 'busy';
	await page.route('**/v1/chat/completions', (route) => {
		if (how === 'busy')
			return route.fulfill({
				status: 429,
				headers: {'Retry-After': '2'},
				json: {error: {message: 'The queue is full'}},
			});
		if (how === 'down') return route.abort();
		if (how === 'cut')
			return route.fulfill({
				contentType: 'text/event-stream',
				body: event({choices: [{index: 0, delta: {content: 'Half of'}}]}),
			});
		if (how === 'broken')
			return route.fulfill({
				contentType: 'text/event-stream',
				body:
					event({error: {message: 'It stopped <i>inside</i>', code: 500}}) +
					event('[DONE]'),
			});
		return route.continue();
	});
	await ask(page, 'Trouble');
	must((await page.textContent('.problem')).includes('The queue is full'), 'the reason');
	must(/Try again \(\d s\)/.test(await page.textContent('.problem button')), 'the time to wait');
	await page.waitForFunction(() => document.querySelector('.problem button').textContent === 'Try again');
	how = 'down';
	await page.click('.problem button');
	await page.waitForSelector('.problem:has-text("cannot be reached")');
	how = 'broken';
	await page.click('.problem button');
	await page.waitForSelector('.problem:has-text("It stopped <i>inside</i>")');
	how = 'cut';
	await page.click('.problem button');
	await page.waitForSelector('.problem:has-text("ended before the answer")');
	same(await page.textContent('.assistant .text'), 'Half of', 'what came before');
	await shot(page, 'error');
	how = 'well';
	await page.click('.problem button');
	await page.waitForSelector('.problem', {state: 'detached'});
	await done(page);
	same(await page.locator('.problem').count(), 0, 'problems in the end');
	same(await page.textContent('.assistant .steps span'), '2/2', 'the half answer is kept');
});

// Turns red when markdown.js puts its text in by insertAdjacentHTML.
await check('what a model says cannot become markup', {}, async (page) => {
	const evil =
		'Hi <img src=x onerror="alert(1)"> </script><script>alert(2)</script> [click](javascript:alert(3)) ' +
		'<a href="javascript:alert(4)">x</a> **<b>bold</b>** `<i>code</i>`\n\n' +
		'```html\n<img src=x onerror=alert(5)>\n```\n\n- <svg onload=alert(6)>\n\n![x](http://example.com/x.png)\n\n' +
		'> <iframe src="javascript:alert(7)"></iframe>';
	await answerWith(page, [evil, evil + '!']);
	await ask(page, evil, 2);
	for (const mode of ['Differences', 'Probabilities', 'Formatted']) {
		await page.click(`.segments >> text=${mode}`);
		same(
			await page.evaluate(
				() =>
					document.querySelectorAll(
						'.thread :is(img, script, a, iframe, svg[onload], b, i:not([class], .meter-bar i))',
					).length,
			),
			0,
			'elements in ' + mode,
		);
	}
	await page.click('.segments >> text=Probabilities');
	await page.locator('.tok').first().click();
	same(await page.locator('#token-pop b').count(), 0, 'elements among the alternatives');
	await page.keyboard.press('Escape');
	await page.locator('.take').first().click();
	must(
		(await page.textContent('.assistant .text')).includes('<img src=x onerror="alert(1)">'),
		'it is shown as text',
	);
	same(
		await page.evaluate(() => document.querySelectorAll('.thread a, .thread img, #convs img').length),
		0,
		'links and pictures',
	);
	same(await page.locator('.assistant strong').textContent(), '<b>bold</b>', 'bold');
	same(await page.locator('.assistant pre code').textContent(), '<img src=x onerror=alert(5)>', 'code');
	await page.waitForTimeout(200);
});

await check('Markdown: paragraphs, lists in lists, code, bold and italics', {}, async (page) => {
	await answerWith(page, [
		'# Title\n\nOne **bold** and *slanted* and `a*b*c` and snake_case_name, 2 * 3 * 4.\n\n' +
			'1. first\n2. second\n   - inner\n\n```c\nint x = 1;\n\nint y;\n```\nlast',
	]);
	await ask(page, 'Format this');
	same(await page.locator('.assistant h3').textContent(), 'Title', 'the heading');
	same(await page.locator('.assistant strong').textContent(), 'bold', 'bold');
	same(JSON.stringify(await page.locator('.assistant em').allTextContents()), '["slanted"]', 'italics');
	same(await page.locator('.assistant p code').textContent(), 'a*b*c', 'inline code');
	same(await page.locator('.assistant ol > li').count(), 2, 'the list');
	same(await page.locator('.assistant ol ul li').textContent(), 'inner', 'the list in it');
	same(await page.locator('.assistant pre code').textContent(), 'int x = 1;\n\nint y;', 'the code');
	same(await page.locator('.assistant p').last().textContent(), 'last', 'what follows');
	await shot(page, 'markdown');
});

// ---- Looks ----

await check('keys: Shift+Enter makes a new line, the focus can be seen, every control has a name', {}, async (page) => {
	await page.fill('#input', 'one');
	await page.press('#input', 'Shift+Enter');
	await page.keyboard.type('two');
	same(await page.inputValue('#input'), 'one\ntwo', 'the input');
	await ask(page, 'Names', 2);
	await page.click('#settings-open');
	const nameless = await page.evaluate(() =>
		[...document.querySelectorAll('button, input, textarea, select, canvas[tabindex]')]
			.filter(
				(e) =>
					!e.getAttribute('aria-label') &&
					!e.textContent.trim() &&
					!(e.labels?.length > 0),
			)
			.map((e) => e.outerHTML.slice(0, 80)),
	);
	same(nameless.join(' '), '', 'controls without a name');
	await page.keyboard.press('Tab');
	same(
		await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle),
		'solid',
		'the outline of the focus',
	);
});

await check('the theme follows the system and the switch, and is remembered', {dark: true}, async (page) => {
	const dark = () =>
		page.evaluate(() => {
			const [r] = getComputedStyle(document.body)
				.backgroundColor.match(/[\d.]+/g)
				.map(Number);
			return r < 100;
		});
	same(await dark(), true, 'dark as the system');
	await page.click('#theme');
	same(await dark(), false, 'light by the switch');
	await page.reload();
	same(await dark(), false, 'light after a reload');
	await page.click('#theme');
	same(await dark(), true, 'dark by the switch');
});

for (const [width, height] of [
	[360, 740],
	[390, 844],
]) {
	for (const dark of [false, true]) {
		await check(
			`a phone of ${width} px, ${dark ? 'dark' : 'light'}: nothing scrolls sideways`,
			{width, height, dark},
			async (page) => {
				const name = `phone-${width}-${dark ? 'dark' : 'light'}`;
				await shot(page, name + '-welcome');
				must(await noScroll(page), 'at the start');
				await ask(page, 'A_very_long_word_'.repeat(12) + ' and more');
				await ask(page, 'And some more', 3);
				must(await noScroll(page), 'answers');
				await page.locator('.compare').scrollIntoViewIfNeeded();
				await shot(page, name + '-compare');
				await page.click('.segments >> text=Probabilities');
				await page.locator('.tok').nth(2).click();
				must(await noScroll(page), 'tokens');
				await page.keyboard.press('Escape');
				await page.click('#list-open');
				await page.waitForTimeout(250);
				await shot(page, name + '-list');
				must(await noScroll(page), 'the list');
				await page.keyboard.press('Escape');
				await page.click('#settings-open');
				await shot(page, name + '-settings');
				must(await noScroll(page), 'the settings');
				await page.keyboard.press('Escape');
				await page.click('.tabs >> text=Complete');
				await page.click('#text-go');
				await page.waitForSelector('#text-go:not([hidden])', {state: 'visible'});
				must(await noScroll(page), 'completion');
				await shot(page, name + '-complete');
				await page.click('.tabs >> text=Batch');
				await page.waitForSelector('.slot');
				await page.waitForTimeout(400);
				must(await noScroll(page), 'the live view');
				await shot(page, name + '-batch');
			},
		);
	}
}

if (shots) {
	for (const dark of [false, true]) {
		await check(
			`pictures, ${dark ? 'dark' : 'light'}`,
			{dark, settings: {max_tokens: '200'}},
			async (page) => {
				const name = `desk-${dark ? 'dark' : 'light'}`;
				await shot(page, name + '-welcome');
				await ask(page, 'Tell me about the river, and what one finds there in the morning.');
				await say(page, 'Now four ways to go on.', 4);
				await page.waitForTimeout(900);
				await shot(page, name + '-writing');
				await done(page);
				await shot(page, name + '-compare');
				await page.click('.segments >> text=Probabilities');
				await page.locator('.tok').nth(14).click();
				await shot(page, name + '-tokens');
				await page.keyboard.press('Escape');
				await page.locator('.take').first().click();
				await page.click('#settings-open');
				await shot(page, name + '-chat-settings');
				await page.click('#settings-close');
				await say(page, 'mock:long', 8);
				await page.click('.tabs >> text=Batch');
				await page.waitForTimeout(2500);
				await shot(page, name + '-batch');
				await page.click('.tabs >> text=Complete');
				await page.click('#text-go');
				await page.waitForSelector('#text-go:not([hidden])', {state: 'visible'});
				await shot(page, name + '-complete');
			},
		);
	}
}

console.log(`1..${n_case}`);
await browser.close();
mock?.kill();
process.exit(n_bad > 0 ? 1 : 0);
