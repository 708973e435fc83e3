// Chatting: sending, streaming, stopping, regenerating, editing, conversations.
import {readFile} from 'node:fs/promises';
import {api, ask, begun, bodies, check, done, grows, idle, LONG, must, same, say, seconds, until} from './lib.mjs';

const CHAT = '/chat/completions';
const MANY = {max_tokens: '4000'};

async function sending(t) {
	await check(t, 'a message is sent, the answer is streamed, and both stay after a reload', {}, async (page) => {
		const sent = bodies(page, CHAT);
		await say(page, 'Tell me about the river');
		await begun(page);
		await done(page);
		const text = await page.textContent('.assistant .text');
		must(text.length > 0, 'there is no answer');
		same(sent[0].messages.at(-1).content, 'Tell me about the river', 'the message in the request');
		same(sent[0].stream, true, 'stream');
		same(sent[0].max_tokens, 40, 'max_tokens');
		must((await page.textContent('.assistant .numbers')).includes('perplexity'), 'no likelihood is shown');
		await page.reload();
		await page.waitForSelector('.assistant .text');
		same(await page.textContent('.assistant .text'), text, 'the answer after a reload');
		same(
			await page.textContent('.conv.current .conv-name'),
			'Tell me about the river',
			'its name in the list',
		);
		same(await page.inputValue('#input'), '', 'the input');
	});

	await check(t, 'the system prompt goes with the request', {}, async (page) => {
		const sent = bodies(page, CHAT);
		await page.click('#system-box summary');
		await page.fill('#system', 'Be brief.');
		await ask(page, 'Hello');
		const {role, content} = sent[0].messages[0];
		same(role + ': ' + content, 'system: Be brief.', 'the first message');
	});
}

// Stopping ends the request on the server, too: its slots are free again. Seen red against the server with a chatStop
// that does nothing, and with one that ends it on the page only.
async function stopping(t) {
	await check(
		t,
		'Escape stops what is being written; what came is kept',
		{slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG, 2);
			await begun(page, 2);
			await page.keyboard.press('Escape');
			await done(page);
			must((await page.textContent('.answer .text')).length > 0, 'the text is gone');
			must(
				(await page.textContent('.answer .numbers')).includes('stopped'),
				'it does not say that it was stopped',
			);
			await idle(t, page);
			const text = await page.textContent('.answer .text');
			await seconds(0.5);
			same(await page.textContent('.answer .text'), text, 'the text after it was stopped');
		},
	);

	await check(t, 'the stop button stops an answer that grows', {slow: true, settings: MANY}, async (page) => {
		await say(page, LONG);
		await begun(page);
		await grows(page);
		await grows(page);
		same(await page.isVisible('#send'), false, 'the button to send, meanwhile');
		await page.click('#stop');
		await done(page);
		same(await page.isVisible('#stop'), false, 'the button');
		must(
			(await page.textContent('.assistant .numbers')).includes('stopped'),
			'it does not say that it was stopped',
		);
		await idle(t, page);
	});

	await check(
		t,
		'leaving the page stops the server and keeps what came',
		{slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG);
			await begun(page);
			await grows(page);
			await page.reload();
			await page.waitForSelector('.assistant .text');
			must((await page.textContent('.assistant .text')).length > 0, 'the text is gone');
			await idle(t, page);
		},
	);

	await check(
		t,
		'two conversations are answered at the same time',
		{slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG + ' in one');
			await begun(page);
			await page.keyboard.press('Alt+n');
			await page.waitForSelector('.welcome');
			await say(page, LONG + ' in another');
			await begun(page);
			await until('both are at work', async () => {
				const slots = await api(t, page, '/slots');
				return slots.filter((s) => s.is_processing).length === 2;
			});
			await page.click('.conv-name:has-text("in one")');
			await page.waitForSelector('.user:has-text("in one")');
			await grows(page);
			await page.click('#stop');
			await done(page);
			await page.click('.conv-name:has-text("in another")');
			await page.waitForSelector('.user:has-text("in another")');
			await grows(page);
			await page.keyboard.press('Escape');
			await done(page);
			await idle(t, page);
		},
	);
}

async function deleting(t) {
	// Seen red with a page that stops only what is shown: the server went on for nobody.
	await check(
		t,
		'deleting a conversation that is not shown stops its answer',
		{slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG);
			await begun(page);
			await page.keyboard.press('Alt+n');
			await page.waitForSelector('.welcome');
			await page.hover('.conv');
			await page.click('.conv [aria-label=Delete]');
			await page.click('.toast >> text=Undo');
			await page.click('.conv-name');
			await done(page);
			must((await page.textContent('.assistant .text')).length > 0, 'the text is gone');
			must(
				(await page.textContent('.assistant .numbers')).includes('stopped'),
				'it does not say that it was stopped',
			);
			await idle(t, page);
		},
	);
}

async function branches(t) {
	await check(t, 'regenerating keeps the answer before; arrows go through them', {}, async (page) => {
		const sent = bodies(page, CHAT);
		await ask(page, 'Again and again');
		const first = await page.textContent('.assistant .text');
		await page.click('.assistant [aria-label=Regenerate]');
		await done(page);
		const second = await page.textContent('.assistant .text');
		await page.click('.assistant [aria-label=Regenerate]');
		await done(page);
		// A server gives the same answer to the same request. Seen red with a page that sends no seed.
		must(second !== first, 'it is the same answer again');
		same(new Set(sent.map((b) => b.seed)).size, 3, 'seeds');
		same(await page.textContent('.assistant .steps span'), '3/3', 'the branch');
		await page.click('.assistant [aria-label="Previous branch"]');
		same(await page.textContent('.assistant .text'), second, 'the second answer');
		await page.click('.assistant [aria-label="Previous branch"]');
		same(await page.textContent('.assistant .steps span'), '1/3', 'the branch');
		same(await page.textContent('.assistant .text'), first, 'the first answer');
		same(
			await page.isDisabled('.assistant [aria-label="Previous branch"]'),
			true,
			'nothing before the first',
		);
	});

	await check(t, 'an earlier message is edited; both branches are kept whole', {}, async (page) => {
		const sent = bodies(page, CHAT);
		await ask(page, 'First question');
		await ask(page, 'Second question');
		const answers = await page.locator('.assistant .text').allTextContents();
		await page.locator('.user').first().hover();
		await page.locator('.user [aria-label=Edit]').first().click();
		await page.fill('.edit-area', 'First question, asked better');
		await page.press('.edit-area', 'Enter');
		await done(page);
		same(await page.locator('.message').count(), 2, 'messages of the new branch');
		same(sent.at(-1).messages.length, 1, 'messages that were sent for it');
		same(await page.textContent('.user .steps span'), '2/2', 'the branch');
		await page.click('.user [aria-label="Previous branch"]');
		const kept = await page.locator('.assistant .text').allTextContents();
		same(JSON.stringify(kept), JSON.stringify(answers), 'answers of the first branch');
		await page.locator('.assistant [aria-label=Edit]').last().click();
		await page.fill('.edit-area', 'An answer of my own');
		await page.click('text=Keep as a branch');
		const last = page.locator('.assistant .text').last();
		same(await last.textContent(), 'An answer of my own', 'the edited answer');
		await ask(page, 'Third question');
		const contents = sent.at(-1).messages.map((m) => m.content);
		must(contents.includes('An answer of my own'), 'it is no part of what is sent');
	});
}

async function conversations(t) {
	// Seen red with a list that is drawn anew under the hands of who writes into it.
	await check(
		t,
		'a name that is being written stays when an answer ends',
		{own: true, slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG);
			await begun(page);
			await page.hover('.conv');
			await page.click('.conv [aria-label=Rename]');
			await page.fill('.conv input', 'Half a na');
			await page.evaluate(() => document.getElementById('stop').click());
			await done(page);
			await page.keyboard.type('me');
			await page.keyboard.press('Enter');
			await page.waitForSelector('.conv input', {state: 'detached'});
			same(await page.textContent('.conv-name'), 'Half a name', 'the name');
		},
	);

	await check(
		t,
		'several conversations: new, rename, delete, undo, export and import',
		{own: true},
		async (page) => {
			const file = (text) => ({
				name: 'x.json',
				mimeType: 'application/json',
				buffer: Buffer.from(text),
			});
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
			const [exported] = await Promise.all([page.waitForEvent('download'), page.click('#export')]);
			const saved = JSON.parse(await readFile(await exported.path(), 'utf8'));
			same(saved.conversations.length, 2, 'conversations in the file');
			const text = await page.textContent('.assistant .text');
			await page.hover('.conv.current');
			await page.click('.conv.current [aria-label=Delete]');
			same(await page.locator('.conv').count(), 1, 'after the deletion');
			await page.click('.toast >> text=Undo');
			same(await page.locator('.conv').count(), 2, 'after the undo');
			const mixed = [saved.conversations[0], 7, {nodes: {}, kids: {root: ['x']}}];
			await page.setInputFiles(
				'#import-file',
				file(JSON.stringify({...saved, conversations: mixed})),
			);
			await page.waitForFunction(() => document.querySelectorAll('.conv').length === 4);
			same(await page.textContent('.assistant .text'), text, 'what was imported');
			await page.setInputFiles('#import-file', file('{"no": 1}'));
			await page.waitForSelector('.toast:has-text("no export")');
		},
	);
}

// Another tab on the same server: it shows the conversation that was shown last.
async function beside(t, page) {
	const other = await page.context().newPage();
	await other.addInitScript((key) => sessionStorage.setItem('cohort.key', key), t.key);
	await other.goto(page.base + '/');
	await other.waitForSelector('.user');
	return other;
}

async function tabs(t) {
	const asked = (page) => page.locator('.user .text').allTextContents();

	// Seen red with tabs that keep to what they have read: the last one that wrote had its way.
	await check(t, 'two tabs on one conversation lose nothing of each other', {own: true}, async (page) => {
		await ask(page, 'One');
		const other = await beside(t, page);
		await ask(page, 'Two');
		await other.waitForSelector('.user >> text=Two');
		await ask(other, 'Three');
		await page.waitForSelector('.user >> text=Three');
		await page.reload();
		await page.waitForSelector('.user >> text=Three');
		same(JSON.stringify(await asked(page)), '["One","Two","Three"]', 'messages after a reload');
		same(await page.locator('.conv').count(), 1, 'conversations');
	});

	await check(
		t,
		'two tabs that write into one conversation at once make two of it',
		{own: true, slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG);
			await begun(page);
			const other = await beside(t, page);
			await say(other, 'Meanwhile');
			await page.waitForSelector('.toast:has-text("both are kept")');
			await begun(other); // an answer that is stopped before its first word is none
			await grows(page);
			for (const p of [page, other]) {
				await p.evaluate(() => document.getElementById('stop').click());
				await done(p);
			}
			await page.reload();
			await page.waitForSelector('.conv');
			same(await page.locator('.conv').count(), 2, 'conversations');
			const all = [];
			for (const name of await page.locator('.conv-name').all()) {
				await name.click();
				await page.waitForSelector('.conv.current');
				all.push(...(await asked(page)));
				must((await page.textContent('.assistant .text')).length > 0, 'the text is gone');
			}
			same(all.filter((text) => text === 'Meanwhile').length, 1, 'what the other tab said');
			same(all.filter((text) => text === LONG).length, 2, 'what this one said, in both');
		},
	);
}

// Takes the room that the browser has left, but for some characters.
const fill = (page, spare) =>
	page.evaluate((n_spare) => {
		let text = '';
		for (let n = 1 << 23; n >= 1; n >>= 1)
			try {
				localStorage.setItem('filler', text + 'x'.repeat(n));
				text += 'x'.repeat(n);
			} catch {
				/* half of it, then */
			}
		localStorage.setItem('filler', text.slice(n_spare));
	}, spare);

async function room(t) {
	// Seen red with a page that takes the probabilities away from the answer that is being written, which then breaks
	// off with an error of the page's own.
	await check(
		t,
		'an answer goes on when the browser has no room for its probabilities, and is kept without',
		{own: true, slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG);
			await begun(page);
			await fill(page, 12000);
			await until(
				'a long answer',
				async () => (await page.textContent('.assistant .text')).length > 1000,
			);
			await seconds(3); // it is kept every two
			await grows(page);
			same(await page.locator('.problem').count(), 0, 'errors');
			await page.click('#stop');
			await done(page);
			const text = await page.textContent('.assistant .text');
			await page.reload();
			await page.waitForSelector('.assistant .text');
			same(await page.textContent('.assistant .text'), text, 'the answer after a reload');
		},
	);

	// Seen red with a list that is written before the conversation, and with an entry that cannot be deleted because
	// what it names cannot be read.
	await check(
		t,
		'what the browser has no room for is not listed; what cannot be read can be deleted',
		{own: true},
		async (page) => {
			await fill(page, 300);
			await say(page, 'One');
			await page.waitForSelector('.toast:has-text("no room")');
			await done(page);
			await page.reload();
			await page.waitForSelector('.welcome');
			same(await page.locator('.conv').count(), 0, 'conversations after a reload');
			await page.evaluate(() => localStorage.removeItem('filler'));
			await ask(page, 'Two');
			await page.evaluate(() => {
				const [{id}] = JSON.parse(localStorage.getItem('cohort.list'));
				localStorage.setItem('cohort.c.' + id, '{');
			});
			await page.reload();
			await page.hover('.conv');
			await page.click('.conv [aria-label=Delete]');
			same(await page.locator('.conv').count(), 0, 'conversations');
		},
	);
}

export async function chat(t) {
	await sending(t);
	await stopping(t);
	await deleting(t);
	await branches(t);
	await conversations(t);
	await tabs(t);
	await room(t);
}
