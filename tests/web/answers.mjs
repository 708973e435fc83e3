// Many answers: side by side, with their likelihood, where they part, and tokens with what else could have come.
import {answerWith, api, ask, begun, bodies, check, done, must, same, say, shot, until} from './lib.mjs';

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
		// What an answer shares with all others is the longest common beginning, in whole words.
		const ends = (x, k) => k === x.length || !/[\w']/.test(x[k]) || !/[\w']/.test(x[k - 1]);
		let n = texts[0].length;
		while (n > 0 && !texts.every((x) => x.startsWith(texts[0].slice(0, n)) && ends(x, n))) n--;
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

// Seen red with differences by characters: "little b" was shared by the boy and the bird.
async function byWords(t) {
	await check(t, 'answers part between words, not within one', {own: true}, async (page) => {
		await answerWith(page, [
			'Once a little boy ran.',
			'Once a little bird ran.',
			"Once a little bird's nest",
		]);
		await ask(page, 'Words', 3);
		const pieces = (i) => page.locator('.answer').nth(i).locator('.text span:not(.fork)').allTextContents();
		lists(await pieces(0), ['Once a little ', 'boy ran.'], 'the first');
		lists(await pieces(1), ['Once a little ', 'bird ran.'], 'the second');
		lists(await pieces(2), ['Once a little ', "bird's nest"], 'the third');
		same(await page.locator('.answer .own-fork').count(), 3, 'marks');
	});
}

// Seen red with the page before, which had no legend at all, and with one that does not follow the view.
async function legends(t) {
	await check(t, 'probabilities and differences have a legend', {}, async (page) => {
		await ask(page, 'Legends', 2);
		const shown = () => page.locator('.compare .legend:visible').allTextContents();
		must(/same in all.*same in some.*different from all/.test((await shown()).join()), 'of differences');
		await page.click('.segments >> text=Probabilities');
		must(
			/Probability of each token:90 % or more.*from 20 %.*below 5 %/.test((await shown()).join()),
			'of probabilities',
		);
		const colour = (selector) =>
			page
				.locator(selector)
				.first()
				.evaluate((e) => getComputedStyle(e).backgroundColor);
		for (const p of [1, 2, 3, 4, 5]) {
			if ((await page.locator('.tok.p' + p).count()) > 0)
				same(await colour('.legend .p' + p), await colour('.tok.p' + p), 'the colour of p' + p);
		}
		await page.click('.segments >> text=Formatted');
		lists(await shown(), [], 'of formatted texts');
		await page.locator('.take').first().click();
		await page.click('.assistant [aria-label="Token probabilities"]');
		same(await page.locator('.assistant .legend').count(), 1, 'of a single answer');
	});
}

// Seen red with the page before: new answers came below the window, and the likeliest looked as the chosen one.
async function chosen(t) {
	await check(t, 'the chosen answer is marked, and new ones come into view', {}, async (page) => {
		await ask(page, 'Many', 3);
		const hint = async () =>
			Number(/^Continuing from answer (\d+)$/.exec(await page.textContent('#hint'))?.[1]);
		const marked = () => page.locator('.answer:has(.badge.mine) .answer-n').allTextContents();
		lists(await marked(), [String(await hint())], 'the mark');
		same(await page.locator('.answer.chosen .badge.mine').textContent(), '✓ chosen', 'its words');
		await page.click('.compare-tools [aria-label=Regenerate]');
		await page.waitForFunction(() => document.querySelectorAll('.answer').length === 6);
		await done(page);
		same(await page.textContent('.compare-title'), '6 answers', 'how many');
		lists(await marked(), [String(await hint())], 'the mark, then');
		must((await hint()) > 3, 'it is one of the new ones');
		await until('a new answer is in view', () =>
			page.evaluate(() => {
				const box = document.getElementById('scroll').getBoundingClientRect();
				const card = document.querySelectorAll('.answer')[3].getBoundingClientRect();
				return card.top >= box.top - 1 && card.top < box.top + box.height / 2;
			}),
		);
		const edges = await page.evaluate(() => {
			const of = (e) => getComputedStyle(e).borderTopColor;
			const plain = [...document.querySelectorAll('.answer:not(.chosen)')].map(of);
			return [of(document.querySelector('.answer.chosen')), ...new Set(plain)];
		});
		same(edges.length, 2, 'edges of the others look alike');
		must(edges[0] !== edges[1], 'the edge of the chosen one');
		await shot(page, 'chosen');
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
	await byWords(t);
	await legends(t);
	await chosen(t);
	await tokens(t);
}
