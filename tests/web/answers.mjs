// Many answers: side by side, with their likelihood, where they part, and tokens with what else could have come.
import {answerWith, api, ask, begun, bodies, check, done, must, same, say, shot} from './lib.mjs';

const CHAT = '/chat/completions';
const lists = (a, b, what) => same(JSON.stringify(a), JSON.stringify(b), what);

async function four(t) {
	const title = 'four answers at once, with likelihood, differences, the likeliest marked, and one to go on with';
	await check(t, title, {}, async (page) => {
		const sent = bodies(page, CHAT);
		const {total_slots} = await api(t, page, '/props');
		await page.waitForFunction((n) => document.getElementById('n').length === n, Math.min(16, total_slots));
		await say(page, 'Tell me four stories', 4);
		await begun(page, 4);
		await done(page);
		same(sent[0].n, 4, 'n');
		same(sent[0].logprobs, true, 'logprobs');
		same(await page.locator('.answer').count(), 4, 'columns');
		same(await page.locator('.badge.best').count(), 1, 'the likeliest');
		const numbers = await page.locator('.answer .numbers').allTextContents();
		const perplexities = numbers.map((x) => Number(/perplexity (\d+\.\d\d)/.exec(x)[1]));
		const best = await page
			.locator('.answer')
			.evaluateAll((all) => all.findIndex((a) => a.querySelector('.best')));
		same(perplexities[best], Math.min(...perplexities), 'the perplexity of the likeliest');
		const lefts = await page
			.locator('.answer')
			.evaluateAll((all) => new Set(all.map((a) => a.getBoundingClientRect().left)).size);
		must(lefts > 1, 'the answers are not side by side');
		const text = await page.locator('.answer .text').nth(2).textContent();
		await shot(page, 'compare');
		await page.locator('.answer .take').nth(2).click();
		same(await page.textContent('.assistant .text'), text, 'the one that was taken');
		same(await page.textContent('.assistant .steps span'), '3/4', 'the branch');
		await ask(page, 'Go on');
		same(sent.at(-1).messages[1].content.trim(), text.trim(), 'what the next request goes on with');
		await page.locator('.assistant [aria-label="Compare the branches"]').first().click();
		same(await page.locator('.answer').count(), 4, 'the answers side by side again');
	});
}

// The server says the same to anybody who asks the same: what the page shows can be computed from that. Seen red with a
// mean over one token more.
async function asTheServer(t) {
	const skip = t.real ? '' : 'the answers of the mock are random';
	await check(t, 'texts, likelihoods and the likeliest are those of the API', {skip}, async (page) => {
		const sent = bodies(page, CHAT);
		await ask(page, 'Tell me a story', 4);
		const {stream_options, ...body} = sent[0];
		const {choices} = await api(t, page, '/v1' + CHAT, {...body, stream: false});
		const texts = choices.map((c) => c.message.content);
		lists(await page.locator('.answer .text').allTextContents(), texts, 'the texts');
		must(new Set(texts).size > 1, 'the answers are all the same');
		const means = choices.map(
			({logprobs: {content}}) => content.reduce((s, x) => s + x.logprob, 0) / content.length,
		);
		const numbers = await page.locator('.answer .numbers').allTextContents();
		const shown = numbers.map((x) => Number(/mean log p (\S+?)perplexity/.exec(x)[1].replace('−', '-')));
		shown.forEach((x, i) =>
			must(Math.abs(x - means[i]) < 0.001, `mean log p of ${i + 1}: ${x}, not ${means[i]}`),
		);
		const best = means.indexOf(Math.max(...means));
		same(await page.textContent('.answer.is-best .answer-n'), String(best + 1), 'the likeliest');
		// What an answer shares with all others is the longest common beginning.
		let n = 0;
		while (texts.every((x) => n < x.length && x[n] === texts[0][n])) n++;
		const shared = n > 0 ? texts.map(() => texts[0].slice(0, n)) : [];
		lists(await page.locator('.answer .shared-all').allTextContents(), shared, 'what all begin with');
	});
}

async function differences(t) {
	await check(t, 'where answers differ is marked, piece by piece', {own: true}, async (page) => {
		await answerWith(page, ['The cat sat down.', 'The cat sat up.', 'The dog ran.']);
		await ask(page, 'Differences', 3);
		const pieces = (kind) => page.locator('.answer .' + kind).allTextContents();
		lists(await pieces('shared-all'), ['The ', 'The ', 'The '], 'what all share');
		lists(await pieces('shared-some'), ['cat sat ', 'cat sat '], 'what some share');
		lists(await pieces('own'), ['down.', 'up.', 'dog ran.'], 'what is their own');
		same(await page.textContent('.answer.is-best .answer-n'), '1', 'the likeliest');
		const numbers = await page.locator('.answer .numbers').first().textContent();
		must(numbers.includes('mean log p −0.500perplexity 1.65'), 'its numbers: ' + numbers);
	});
}

async function tokens(t) {
	await check(t, 'tokens by probability, with their alternatives, also by keyboard', {}, async (page) => {
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
}

export async function answers(t) {
	await four(t);
	await asTheServer(t);
	await differences(t);
	await tokens(t);
}
