// Trouble: keys, refusals, connections that break, and what a model says that looks like markup.
import {beside, columns} from './live.mjs';
import {answerWith, ask, begun, check, done, event, grows, idle, LONG, must, reads, same, say, shot} from './lib.mjs';

async function keys(t) {
	const skip = t.key ? '' : 'this server asks for no key';
	await check(t, '401 asks for the key, keeps it for the tab, and sends it', {skip, key: ''}, async (page) => {
		page.allowed = /401/;
		await page.waitForSelector('#key-dialog[open]');
		await page.fill('#key', 'wrong');
		await page.keyboard.press('Enter');
		await page.waitForSelector('#key-dialog[open] #key-text:has-text("did not take")');
		await page.fill('#key', t.key);
		await page.keyboard.press('Enter');
		await page.waitForSelector('#model b');
		await ask(page, 'With a key');
		must((await page.textContent('.assistant .text')).length > 0, 'the answer');
		const kept = await page.evaluate(
			() => sessionStorage.getItem('cohort.key') + ' ' + JSON.stringify(localStorage),
		);
		must(kept.startsWith(t.key + ' '), 'it is not kept for the tab');
		must(!kept.slice(t.key.length).includes(t.key), 'it is kept for longer');
		await page.reload();
		await page.waitForSelector('#model b');
		same(await page.isVisible('#key-dialog'), false, 'the dialog after a reload');
	});
}

async function errors(t) {
	await check(
		t,
		'errors are shown in place, with the reason, the time to wait and a retry that works',
		{own: true},
		async (page) => {
			page.allowed = /429|500|ERR_/;
			const stream = (route, body) => route.fulfill({contentType: 'text/event-stream', body});
			const how = {
				busy: (route) =>
					route.fulfill({
						status: 429,
						headers: {'Retry-After': '90'},
						json: {error: {message: 'The queue is full'}},
					}),
				down: (route) => route.abort(),
				cut: (route) =>
					stream(route, event({choices: [{index: 0, delta: {content: 'Half of'}}]})),
				broken: (route) =>
					stream(
						route,
						event({error: {message: 'It stopped <i>inside</i>', code: 500}}) +
							event('[DONE]'),
					),
				well: (route) => route.continue(),
			};
			let now = 'busy';
			await page.route('**/v1/chat/completions', (route) => how[now](route));
			await ask(page, 'Trouble');
			must((await page.textContent('.problem')).includes('The queue is full'), 'the reason');
			const [, wait] = await reads(page, '.problem button', /^Try again \((\d+) s\)$/);
			must(wait <= 90 && wait > 0, 'the time to wait');
			await reads(page, '.problem button', new RegExp(`^Try again \\((?!${wait} )\\d+ s\\)$`));
			now = 'down';
			await page.click('.problem button');
			await page.waitForSelector('.problem:has-text("cannot be reached")');
			now = 'broken';
			await page.click('.problem button');
			await page.waitForSelector('.problem:has-text("It stopped <i>inside</i>")');
			now = 'cut';
			await page.click('.problem button');
			await page.waitForSelector('.problem:has-text("ended before the answer")');
			same(await page.textContent('.assistant .text'), 'Half of', 'what came before');
			await shot(page, 'error');
			now = 'well';
			await page.click('.problem button');
			await page.waitForSelector('.problem', {state: 'detached'});
			await done(page);
			same(await page.locator('.problem').count(), 0, 'problems in the end');
			same(await page.textContent('.assistant .steps span'), '2/2', 'the half answer is kept');
		},
	);

	await check(
		t,
		'a refusal of the server has its words, and is mended',
		{settings: {max_tokens: '10', json_schema: '{"type": "banana"}'}},
		async (page) => {
			page.allowed = /400/;
			await ask(page, 'Too much');
			must(/Refused \(400\).*banana/.test(await page.textContent('.problem')), 'the reason');
			await page.click('#settings-open');
			await page.fill('#set-json_schema', '');
			await page.click('.problem button');
			await begun(page);
			await done(page);
			same(await page.locator('.problem').count(), 0, 'problems in the end');
		},
	);
}

// The server is killed and started again where it was. Seen red with a view that keeps the ticks of the
// server that was, and with one that takes those again which are repeated to it when it comes back.
async function gone(t) {
	const skip = t.slowServe ? '' : 'this server is not ours to kill';
	const options = {skip, slow: true, settings: {max_tokens: '4000'}};
	await check(t, 'a server that goes away and comes back', options, async (page) => {
		page.allowed = /ERR_/;
		await say(page, LONG);
		await begun(page);
		await page.click('.tabs >> text=Batch');
		await reads(page, '#slots-text', /^1 of/);
		await page.click('.tabs >> text=Chat');
		await grows(page);
		await t.servers[1].stop('SIGKILL');
		await page.waitForSelector('.problem');
		must((await page.textContent('.assistant .text')).length > 0, 'what came is gone');
		must(
			(await page.textContent('.assistant .numbers')).includes('interrupted'),
			'it does not say that it was interrupted',
		);
		await page.click('.problem button');
		await page.waitForSelector('.problem:has-text("cannot be reached")');
		await page.click('.tabs >> text=Batch');
		await reads(page, '#live-state', /connecting|lost/);
		t.servers[1] = await t.slowServe('-port', new URL(t.slow).port);
		await reads(page, '#live-state', /^live$/);
		// Each of its ticks is one column, though it tells them again when one comes back; no other is left.
		await beside(t, page, 'Hello', 10);
		await reads(page, '.tile:nth-child(3) strong', /^10$/);
		await page.click('.tabs >> text=Chat');
		await page.click('.tabs >> text=Batch');
		await beside(t, page, 'Hello', 5);
		await reads(page, '.tile:nth-child(3) strong', /^15$/);
		const n = (await columns(page)).length;
		must(n >= 12 && n < 30, `${n} ticks`);

		await page.click('.tabs >> text=Chat');
		await page.click('.problem button');
		await page.waitForSelector('.problem', {state: 'detached'});
		await begun(page);
		await grows(page);
		await page.click('.tabs >> text=Batch');
		await reads(page, '#slots-text', /^1 of/);
		await page.click('.tabs >> text=Chat');
		await page.click('#stop');
		await done(page);
		await idle(t, page);
	});
}

async function markup(t) {
	// Turns red when markdown.js puts its text in by insertAdjacentHTML.
	await check(t, 'what a model says cannot become markup', {own: true}, async (page) => {
		const evil =
			'Hi <img src=x onerror="alert(1)"> </script><script>alert(2)</script> [click](javascript:alert(3)) ' +
			'<a href="javascript:alert(4)">x</a> **<b>bold</b>** `<i>code</i>`\n\n' +
			'```html\n<img src=x onerror=alert(5)>\n```\n\n- <svg onload=alert(6)>\n\n![x](http://example.com/x.png)\n\n' +
			'> <iframe src="javascript:alert(7)"></iframe>';
		const count = (selector) => page.evaluate((s) => document.querySelectorAll(s).length, selector);
		await answerWith(page, [evil, evil + '!']);
		await ask(page, evil, 2);
		for (const mode of ['Differences', 'Probabilities', 'Formatted']) {
			await page.click(`.segments >> text=${mode}`);
			const n = await count(
				'.thread :is(img, script, a, iframe, svg[onload], b, i:not([class], .meter-bar i))',
			);
			same(n, 0, 'elements in ' + mode);
		}
		await page.click('.segments >> text=Probabilities');
		await page.locator('.tok').first().click();
		same(await page.locator('#token-pop b').count(), 0, 'elements among the alternatives');
		await page.keyboard.press('Escape');
		await page.locator('.take').first().click();
		const text = await page.textContent('.assistant .text');
		must(text.includes('<img src=x onerror="alert(1)">'), 'it is not shown as text');
		same(await count('.thread a, .thread img, #convs img'), 0, 'links and pictures');
		same(await page.locator('.assistant strong').textContent(), '<b>bold</b>', 'bold');
		same(await page.locator('.assistant pre code').textContent(), '<img src=x onerror=alert(5)>', 'code');
		await page.waitForTimeout(200);
	});

	await check(t, 'Markdown: paragraphs, lists in lists, code, bold and italics', {own: true}, async (page) => {
		await answerWith(page, [
			'# Title\n\nOne **bold** and *slanted* and `a*b*c` and snake_case_name, 2 * 3 * 4.\n\n' +
				'1. first\n2. second\n   - inner\n\n```c\nint x = 1;\n\nint y;\n```\nlast',
		]);
		await ask(page, 'Format this');
		const text = (selector) => page.locator('.assistant ' + selector).textContent();
		same(await text('h3'), 'Title', 'the heading');
		same(await text('strong'), 'bold', 'bold');
		same(await text('em'), 'slanted', 'italics');
		same(await text('p code'), 'a*b*c', 'inline code');
		same(await page.locator('.assistant ol > li').count(), 2, 'the list');
		same(await text('ol ul li'), 'inner', 'the list in it');
		same(await text('pre code'), 'int x = 1;\n\nint y;', 'the code');
		same(await page.locator('.assistant p').last().textContent(), 'last', 'what follows');
		await shot(page, 'markdown');
	});

	// Seen red with links to any address, and with a picture that becomes a link.
	await check(t, 'Markdown: tables, and links to http and https that open apart', {own: true}, async (page) => {
		await answerWith(page, [
			'| Name | Legs | Says |\n|:-----|-----:|:----:|\n| **cat** | 4 | a \\| b |\n| bird | 2 |\nplain | x | y | z\n\n' +
				'See [the *docs*](https://example.com/a_(b) "title"), <http://example.com/c>, https://example.com/d?e=f_g. ' +
				'Not [this](javascript:alert(1)), [that](//example.com), [it](data:text/html,x) or ![pic](http://example.com/p.png). ' +
				'[a https://example.com/inner](https://example.com/outer)\n\nno | table\nhere | at all',
		]);
		await ask(page, 'A table');
		const all = (selector) => page.locator('.assistant ' + selector).allTextContents();
		same((await all('th')).join(), 'Name,Legs,Says', 'the head');
		same((await all('tbody tr:nth-child(1) td')).join(), 'cat,4,a | b', 'the first row');
		same((await all('tbody tr:nth-child(2) td')).join(), 'bird,2,', 'a short row');
		same((await all('tbody tr:nth-child(3) td')).join(), 'plain,x,y', 'a long row');
		same((await all('td strong')).join(), 'cat', 'bold in a cell');
		same(await page.locator('.assistant tbody td.to-right').count(), 3, 'cells to the right');
		const links = await page
			.locator('.assistant a')
			.evaluateAll((as) => as.map((a) => a.getAttribute('href')));
		const want = ['a_(b)', 'c', 'd?e=f_g', 'outer'].map(
			(x) => (x === 'c' ? 'http' : 'https') + '://example.com/' + x,
		);
		same(JSON.stringify(links), JSON.stringify(want), 'where links go');
		const apart = await page
			.locator('.assistant a')
			.evaluateAll((as) =>
				as.every((a) => a.rel === 'noopener noreferrer' && a.target === '_blank' && a.title),
			);
		same(apart, true, 'rel, target and title of links');
		same((await all('a em')).join(), 'docs', 'italics in a link');
		const text = (await all('p')).join(' ');
		for (const part of ['[this](javascript:alert(1))', '![pic](http://example.com/p.png)', 'no | table'])
			must(text.includes(part), part + ' is not text');
		await shot(page, 'table');
	});

	// Seen red with the page before, which showed the tags, and with a page that folds again with each new token.
	await check(
		t,
		'what a model thinks is folded, and stays unfolded while it grows',
		{own: true},
		async (page) => {
			const drawn = await page.evaluate(async () => {
				const {markdown} = await import('/ui/markdown.js');
				const box = document.createElement('div');
				const look = (text) => {
					markdown(box, text);
					return [...box.children]
						.map((e) => `${e.localName}${e.open ? ' open' : ''} ${e.textContent}`)
						.join('; ');
				};
				const all = [
					look('<think>\nHm **x'),
					(box.firstChild.open = true),
					look('\n<think>\nHm **x** <b>y</b>'),
				];
				all.push(
					look('<think>\nHm **x** <b>y</b>\n</think>\n\nFour.'),
					look('Hm\n</think>\nFive'),
				);
				all.push(
					look('<think>\n\n</think>\n\nSix'),
					look('Use `</think>` at the end'),
					box.querySelectorAll('b').length,
				);
				return all;
			});
			const want = [
				'details Thinking …Hm **x',
				true,
				'details open Thinking …Hm x <b>y</b>',
				'details open ThoughtsHm x <b>y</b>; p Four.',
				'details open ThoughtsHm; p Five',
				'p Six',
				'p Use </think> at the end',
				0,
			];
			same(JSON.stringify(drawn), JSON.stringify(want), 'what is drawn');
			await answerWith(page, ['<think>\nTwo and two.\n</think>\n\nIt is **four**.']);
			await ask(page, 'Think');
			same(await page.isVisible('.think p'), false, 'the thoughts');
			await page.click('.think summary');
			same(await page.isVisible('.think p'), true, 'the thoughts, unfolded');
			await shot(page, 'think');
		},
	);

	// A page that cannot draw a conversation cannot leave it either: it is shown again after a reload. Seen red with
	// patterns that tried every way to cut a line: the first took 24 seconds of its 2 kB.
	await check(t, 'no line of an answer takes the page long to draw', {own: true}, async (page) => {
		const many = 100000;
		const lines = [
			'#' + ' '.repeat(2000) + 'a\u2028b',
			'# ' + '#'.repeat(many) + 'a',
			'# a' + ' '.repeat(many) + 'b',
			'- ' + ' '.repeat(many) + 'a\u2028',
			'```' + 'a'.repeat(many) + '`',
			'```' + ' '.repeat(many) + '`',
			'~'.repeat(many) + '`',
			'|'.repeat(many) + '\n' + '|-'.repeat(many),
			'|a\n|-\n' + '|b'.repeat(many),
			'a|\n' + '-'.repeat(many) + 'a',
			'[a](http://'.repeat(many / 10),
			'[' + 'a'.repeat(many),
			'[a](http://x' + '(a'.repeat(many / 2),
			'https://a' + ').'.repeat(many / 2),
			('https://a(' + ')'.repeat(1990) + ' ').repeat(50),
			'![a'.repeat(many / 3),
			'<http://'.repeat(many / 8),
			'<think>' + '</think'.repeat(many / 7),
			'\n </think> a'.repeat(many / 10),
		];
		for (const line of lines) {
			const ms = await page.evaluate(async (text) => {
				const {markdown} = await import('/ui/markdown.js');
				const from = performance.now();
				markdown(document.createElement('div'), text);
				return performance.now() - from;
			}, line);
			must(ms < 10000, `${ms} ms for ${JSON.stringify(line.slice(0, 8))} and so on`);
		}
		const drawn = await page.evaluate(async () => {
			const {markdown} = await import('/ui/markdown.js');
			const box = document.createElement('div');
			markdown(box, '##  C #\n# #\n# \n-   x\n-  \n\n~~~ c++ more\n```\n~~~\n``` sh\nls\n```');
			return [...box.children].map((e) => `${e.localName} ${e.textContent}`);
		});
		const want = ['h4 C', 'h3 #', 'p # ', 'ul x', 'div c++Copy```', 'div shCopyls'];
		same(JSON.stringify(drawn), JSON.stringify(want), 'what is drawn');
	});
}

export async function trouble(t) {
	await keys(t);
	await errors(t);
	await markup(t);
	await gone(t);
}
