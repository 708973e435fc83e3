// A full context: the meter, why an answer ended, and the ways on; a model that cannot chat.
import {api, ask, bodies, check, must, reads, same, say, done, until} from './lib.mjs';

const CHAT = '/chat/completions';

// Words that take about this part of the context, of both the mock (a token is four characters) and the model.
async function words(t, page, part) {
	const props = await api(t, page, '/props');
	const n = Math.min(props.n_ctx, props.default_generation_settings.n_ctx);
	return {
		n,
		text: (t.real ? 'the cat sat on the mat ' : 'the cats ').repeat(
			Math.round((n * part) / (t.real ? 6 : 2.25)),
		),
	};
}
// Seen red with a page that stays where it was when the answer ended: the ways on were below the window.
const inSight = (page, selector) =>
	until(`${selector} is in sight`, () =>
		page.evaluate((s) => {
			const box = document.getElementById('scroll').getBoundingClientRect();
			const it = document.querySelector(s).getBoundingClientRect();
			return it.top >= box.top && it.bottom <= box.bottom + 1;
		}, selector),
	);
const shown = async (page) =>
	(await page.locator('.context-text').textContent()).replaceAll(',', '').split(' / ').map(Number);

// Seen red with the page before: the second question ended in "Refused (400)" and a "Try again" that could not succeed.
async function full(t) {
	await check(t, 'a full context: a meter, and two ways on that succeed', {}, async (page) => {
		page.allowed = /400/;
		const sent = bodies(page, CHAT);
		same(await page.isVisible('#context'), false, 'the meter of an empty conversation');
		const {n, text} = await words(t, page, 0.6);
		await ask(page, 'One ' + text);
		await until('the meter shows it', async () => (await shown(page))[0] > n * 0.5);
		const [used, all] = await shown(page);
		same(all, n, 'the size of the context');
		must(used < n * 0.8, `${used} of ${all}`);
		same(
			await page.getAttribute('#context', 'aria-valuenow'),
			String(Math.round((used / all) * 100)),
			'in percent',
		);

		await ask(page, 'Two ' + text);
		await reads(page, '.problem strong', /^The context is full$/);
		await inSight(page, '.problem');
		same(await page.locator('.problem >> text=Try again').count(), 0, 'buttons that cannot help');
		await page.click('.problem >> text=Leave out the oldest');
		await page.waitForSelector('.problem', {state: 'detached'});
		await done(page);
		same(sent.at(-1).messages.length, 1, 'messages that were sent');
		must(sent.at(-1).messages[0].content.startsWith('Two'), 'the last one was sent');
		must((await page.locator('.assistant .text').last().textContent()).length > 0, 'an answer');
		same(await page.locator('.user').count(), 2, 'questions that are shown');
		same(await page.locator('.cut ~ .user').count(), 1, 'questions below the line');
		must((await shown(page))[0] < n * 0.85, 'the meter leaves out what is left out');

		await page.reload();
		await page.waitForSelector('.cut');
		await page.waitForSelector('#model b');
		await ask(page, 'Three ' + text);
		await reads(page, '.problem strong', /^The context is full$/);
		await page.click('.problem >> text=new conversation');
		await page.waitForFunction(() => document.querySelectorAll('.conv').length === 2);
		await done(page);
		await page.waitForSelector('.assistant .text');
		same(await page.locator('.user').count(), 1, 'questions in the new conversation');
		same(sent.at(-1).messages.length, 1, 'messages that were sent in it');
		same(await page.locator('.problem').count(), 0, 'problems in the end');
	});

	await check(t, 'a message that does not fit by itself: it says so and can be edited', {}, async (page) => {
		page.allowed = /400/;
		const {text} = await words(t, page, 1.4);
		await ask(page, text);
		await reads(page, '.problem strong', /^Too long$/);
		await page.click('.problem >> text=Edit the message');
		await page.fill('.edit-area', 'Short');
		await page.press('.edit-area', 'Enter');
		await page.waitForSelector('.problem', {state: 'detached'});
		await done(page);
		must((await page.textContent('.assistant .text')).length > 0, 'there is no answer');
	});
}

// Seen red with the page before: "cut at its length".
async function ends(t) {
	const options = {own: true, settings: {}};
	await check(
		t,
		'an answer that fills the context says so, and what comes next can be sent',
		options,
		async (page) => {
			const {n} = await words(t, page, 0);
			const event = (v) => `data: ${JSON.stringify(v)}\n\n`;
			const token = (text) => ({
				token: text,
				logprob: -1,
				bytes: [...Buffer.from(text)],
				top_logprobs: [],
			});
			const content = Array.from({length: 40}, () => token('go '));
			await page.route('**' + CHAT, (route) =>
				route.fulfill({
					contentType: 'text/event-stream',
					body:
						event({
							choices: [
								{
									index: 0,
									delta: {content: 'go '.repeat(40)},
									logprobs: {content},
								},
							],
						}) +
						event({choices: [{index: 0, delta: {}, finish_reason: 'length'}]}) +
						event({
							choices: [],
							usage: {prompt_tokens: n - 40, completion_tokens: 40},
						}) +
						'data: [DONE]\n\n',
				}),
			);
			await page.waitForSelector('#model b');
			await ask(page, 'One');
			await ask(page, 'Two');
			must(
				(await page.locator('.assistant .numbers').last().textContent()).includes(
					'the context is full',
				),
				'why it ended',
			);
			await reads(page, '.problem strong', /^The context is full$/);
			await inSight(page, '.problem');
			same(await page.getAttribute('#context', 'data-level'), 'full', 'the meter');
			await page.unroute('**' + CHAT);
			await page.click('.problem >> text=Leave out the oldest');
			await page.waitForSelector('.problem', {state: 'detached'});
			same(await page.locator('.cut').count(), 1, 'the line');
			const sent = bodies(page, CHAT);
			await page.click('#settings-open');
			await page.fill('#set-max_tokens', '8');
			await ask(page, 'Three');
			same(sent[0].messages.map((m) => m.role).join(), 'user,assistant,user', 'what is sent');
			same(sent[0].messages[0].content, 'Two', 'what is sent first');
			await page.click('.cut >> text=Send them again');
			same(await page.locator('.cut').count(), 0, 'the line');
		},
	);
}

// Seen red with the page before: it opened on Chat, where every message was "Refused (400)".
async function noChat(t) {
	await check(
		t,
		'a model without a chat template: the page opens on Complete and says why',
		{own: true},
		async (page) => {
			await page.route('**/props', async (route) => {
				const response = await route.fetch();
				await route.fulfill({
					response,
					json: {...(await response.json()), has_chat: false, chat_template: ''},
				});
			});
			await page.reload();
			await page.waitForSelector('#view-complete:not([hidden])');
			await reads(page, '#complete-why', /no chat template, so it cannot chat/);
			await page.click('#text-go');
			await page.waitForSelector('.answer');
			await page.waitForSelector('#text-go:not([hidden])', {state: 'visible'});
			await page.click('.tabs >> text=Chat');
			await reads(page, '#no-chat', /no chat template, so it cannot hold/);
			same(await page.isVisible('#input'), false, 'the composer');
			await page.click('#no-chat a');
			await page.waitForSelector('#view-complete:not([hidden])');
		},
	);
}

export async function context(t) {
	await full(t);
	await ends(t);
	await noChat(t);
}
