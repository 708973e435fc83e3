// Looks: keys, themes, phones, pictures.
import {
	ask,
	begun,
	bodies,
	check,
	done,
	hasShots,
	LONG,
	must,
	noScroll,
	same,
	say,
	seconds,
	shot,
	until,
} from './lib.mjs';

const isDark = (page) =>
	page.evaluate(() => {
		const [r] = getComputedStyle(document.body)
			.backgroundColor.match(/[\d.]+/g)
			.map(Number);
		return r < 100;
	});

async function keyboard(t) {
	await check(
		t,
		'keys: Shift+Enter makes a new line, the focus can be seen, every control has a name',
		{},
		async (page) => {
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
			const outline = await page.evaluate(
				() => getComputedStyle(document.activeElement).outlineStyle,
			);
			same(outline, 'solid', 'the outline of the focus');
		},
	);

	// Seen red with a link to #main and no more: the view is in that place of the address.
	await check(
		t,
		'the link that skips the bar leads into the view that is shown',
		{own: true, hash: '#complete'},
		async (page) => {
			await page.focus('.skip');
			await page.keyboard.press('Enter');
			await page.waitForFunction(() => document.activeElement.id === 'main');
			same(await page.isVisible('#view-complete'), true, 'the view');
			await page.keyboard.press('Tab');
			same(await page.evaluate(() => document.activeElement.id), 'text', 'what comes next');
		},
	);

	// Seen red with a page that leaves the focus nowhere after an answer.
	await check(
		t,
		'with the keyboard alone: asking, regenerating, editing, many answers, looking at the batch',
		{},
		async (page) => {
			const sent = bodies(page, '/chat/completions');
			const label = () =>
				page.evaluate(() => {
					const e = document.activeElement;
					return e.getAttribute('aria-label') || e.id || e.textContent;
				});
			const focused = () => page.evaluate(() => document.activeElement !== document.body);
			// Goes to the next thing of that name, and by that proves that one comes there.
			const go = async (name, key) => {
				for (let i = 0; i < 80; i++) {
					await page.keyboard.press(key);
					if ((await label()) === name) return;
				}
				throw new Error(`${key} never comes to ${name}`);
			};
			await page.waitForFunction(() => document.activeElement.id === 'input');
			await page.keyboard.type('Hello');
			await page.keyboard.press('Enter');
			await until('it is sent', () => sent.length === 1);
			await done(page);
			await go('Regenerate', 'Shift+Tab');
			await page.keyboard.press('Enter');
			await until('it is asked again', () => sent.length === 2);
			await done(page);
			must(await focused(), 'the focus is lost behind an answer');
			await go('Edit', 'Shift+Tab');
			await page.keyboard.press('Enter');
			await page.waitForFunction(() => document.activeElement.className === 'edit-area');
			await page.keyboard.press('Escape');
			must(await focused(), 'the focus is lost behind the editor');
			await go('Answers side by side', 'Tab');
			await page.keyboard.press('2');
			await page.waitForFunction(() => document.getElementById('n').value === '2');
			await go('Message', 'Shift+Tab');
			await page.keyboard.type('Two of them');
			await page.keyboard.press('Enter');
			await begun(page, 2);
			await done(page);
			same(sent.at(-1).n, 2, 'n');
			for (
				let i = 0;
				i < 80 && !(await page.evaluate(() => document.activeElement.dataset.view === 'batch'));
				i++
			)
				await page.keyboard.press('Tab');
			await page.keyboard.press('Enter');
			await page.waitForSelector('.slot');
			await go('Rows of each tick', 'Tab');
			await page.keyboard.press('ArrowLeft');
			must(/^Tick \d+/.test(await page.textContent('#tick-readout')), 'the tick');
		},
	);
}

async function themes(t) {
	await check(t, 'the theme follows the system and the switch, and is remembered', {dark: true}, async (page) => {
		same(await isDark(page), true, 'dark as the system');
		await page.click('#theme');
		same(await isDark(page), false, 'light by the switch');
		await page.reload();
		same(await isDark(page), false, 'light after a reload');
		await page.click('#theme');
		same(await isDark(page), true, 'dark by the switch');
	});
}

const inBox = (page, selector) =>
	page.evaluate((s) => {
		const box = document.querySelector(s).getBoundingClientRect();
		return [...document.querySelectorAll(s + ' *')]
			.map((e) => e.getBoundingClientRect())
			.every((r) => r.width === 0 || (r.left >= box.left && r.right <= box.right));
	}, selector);

// Seen red with a grid of the live view that is wider than the phone, and with the meter's whole text beside Send.
async function phone(t, width, height, dark) {
	const name = `phone-${width}-${dark ? 'dark' : 'light'}`;
	await check(
		t,
		`a phone of ${width} px, ${dark ? 'dark' : 'light'}: nothing scrolls sideways`,
		{width, height, dark},
		async (page) => {
			same(await isDark(page), dark, 'dark');
			await page.waitForSelector('#model b');
			await shot(page, name + '-welcome');
			must(await noScroll(page), 'at the start');
			must(await page.isVisible('#model b'), 'the name of the model');
			await ask(page, 'A_very_long_word_'.repeat(12) + ' and more');
			await shot(page, name + '-chat');
			must(await inBox(page, '.composer-box'), 'what is beside Send');
			await ask(page, 'And some more', 3);
			must(await noScroll(page), 'answers');
			must(await inBox(page, '.composer-box'), 'what is beside Send, then');
			await page.locator('.compare').scrollIntoViewIfNeeded();
			await shot(page, name + '-compare');
			await page.click('.segments >> text=Probabilities');
			await page.locator('.tok').nth(2).click();
			must(await noScroll(page), 'tokens');
			await page.keyboard.press('Escape');
			await page.click('#list-open');
			await seconds(hasShots ? 0.5 : 0);
			await shot(page, name + '-list');
			must(await noScroll(page), 'the list');
			await page.keyboard.press('Escape');
			await page.click('#settings-open');
			await seconds(hasShots ? 0.5 : 0);
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
			must(await noScroll(page), 'the live view');
			await shot(page, name + '-batch');
		},
	);
}

// docs/web-page.png: docs/web.md says how it is made again.
async function documented(t) {
	const settings = {max_tokens: '60', seed: '4'};
	await check(t, 'the picture of the documents', {width: 1200, height: 800, settings}, async (page) => {
		await ask(page, 'Tell me a story about a little dog.', 3);
		await seconds(0.5);
		await shot(page, 'page');
	});
}

async function pictures(t, dark) {
	const name = `desk-${dark ? 'dark' : 'light'}`;
	await check(t, `pictures, ${dark ? 'dark' : 'light'}`, {dark, settings: {max_tokens: '200'}}, async (page) => {
		await shot(page, name + '-welcome');
		await ask(page, 'Tell me about the river, and what one finds there in the morning.');
		await shot(page, name + '-chat');
		await say(page, 'Now four ways to go on.', 4);
		await begun(page, 4);
		await shot(page, name + '-writing');
		await done(page);
		await shot(page, name + '-compare');
		await page.click('.segments >> text=Probabilities');
		await page.locator('.tok').nth(14).click();
		await shot(page, name + '-tokens');
		await page.keyboard.press('Escape');
		await page.locator('.take').first().click();
		await page.click('#settings-open');
		await seconds(0.5);
		await shot(page, name + '-chat-settings');
		await page.click('#settings-close');
		await page.click('.tabs >> text=Complete');
		await page.click('#text-go');
		await page.waitForSelector('#text-go:not([hidden])', {state: 'visible'});
		await shot(page, name + '-complete');
	});
	for (const [width, height] of [
		[1280, 1000],
		[390, 844],
	]) {
		const options = {dark, width, height, slow: true, settings: {max_tokens: '1000'}};
		await check(
			t,
			`pictures of the batch, ${width} px, ${dark ? 'dark' : 'light'}`,
			options,
			async (page) => {
				await say(page, LONG, 6);
				await begun(page, 6);
				await shot(page, `${name}-${width}-writing-six`);
				await page.click('.tabs >> text=Batch');
				await page.waitForSelector('.slot');
				await seconds(4);
				await shot(page, `${name}-${width}-batch`);
				await page.locator('#slots').scrollIntoViewIfNeeded();
				await shot(page, `${name}-${width}-slots`);
			},
		);
	}
}

// All of them are the page's own affair.
export async function looks(t) {
	if (!t.last) return;
	await keyboard(t);
	await themes(t);
	for (const [width, height, dark] of [
		[360, 740, false],
		[390, 844, true],
	])
		await phone(t, width, height, dark);
	if (!hasShots) return;
	await documented(t);
	await phone(t, 390, 844, false);
	for (const dark of [false, true]) await pictures(t, dark);
}
