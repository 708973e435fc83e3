// The sampler's settings, and plain completion.
import {api, ask, bodies, check, done, must, same, shot, until} from './lib.mjs';

const CHAT = '/chat/completions';

async function sent(t) {
	await check(
		t,
		'settings reach the request; wrong ones are not sent; reset clears them',
		{settings: {}},
		async (page) => {
			const all = bodies(page, CHAT);
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
				same(all[0][name === 'alternatives' ? 'top_logprobs' : name], Number(value), name);
			same(JSON.stringify(all[0].stop), '["END","\\n\\n"]', 'stop');
			same(
				JSON.stringify(all[0].response_format),
				'{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}}',
				'the schema',
			);
			await page.fill('#set-temperature', '7');
			await ask(page, 'Too hot');
			same(all.length, 1, 'requests');
			must((await page.textContent('.problem')).includes('Temperature'), 'the reason');
			await page.click('#settings-reset');
			await page.fill('#set-max_tokens', '5');
			await page.click('.problem button');
			await done(page);
			same(all.at(-1).temperature, undefined, 'temperature after the reset');
			same(all.at(-1).max_tokens, 5, 'max_tokens');
			await shot(page, 'settings');
		},
	);
}

// That the server does what they say: it has the same answer for anybody who asks the same. Seen red with a page that
// does not send top-k.
async function heeded(t) {
	const skip = t.real ? '' : 'the mock heeds no settings';
	const schema =
		'{"type":"object","properties":{"sure":{"enum":["yes","no"]}},"required":["sure"],"additionalProperties":false}';
	await check(
		t,
		'the server heeds the settings',
		{skip, settings: {max_tokens: '12', temperature: '0'}},
		async (page) => {
			const question = 'Tell me a story';
			const messages = [{role: 'user', content: question}];
			const texts = () => page.locator('.answer .text').allTextContents();
			await ask(page, question, 2);
			const greedy = await api(t, page, '/v1' + CHAT, {messages, max_tokens: 12, temperature: 0});
			for (const text of await texts())
				same(text, greedy.choices[0].message.content, 'with temperature 0');
			must(
				(await page.textContent('.answer .numbers')).includes('stopped at the token limit'),
				'max_tokens',
			);

			await page.click('#settings-open');
			await page.fill('#set-temperature', '1.8');
			await page.fill('#set-top_k', '3');
			await page.fill('#set-seed', '77');
			await page.keyboard.press('Alt+n');
			await ask(page, question, 2);
			const hot = {messages, max_tokens: 12, temperature: 1.8, top_k: 3, seed: 77, n: 2};
			const {choices} = await api(t, page, '/v1' + CHAT, hot);
			const want = choices.map((c) => c.message.content);
			same(JSON.stringify(await texts()), JSON.stringify(want), 'with temperature, top-k and seed');
			must(want[0] !== greedy.choices[0].message.content, 'the temperature makes no difference');

			await page.click('#settings-reset');
			await page.fill('#set-json_schema', schema);
			await page.keyboard.press('Alt+n');
			await ask(page, question, 2);
			for (const text of await texts())
				must(['yes', 'no'].includes(JSON.parse(text).sure), 'with a schema: ' + text);

			await page.click('#settings-reset');
			await page.fill('#set-max_tokens', '60');
			await page.fill('#set-stop', 'a');
			await page.keyboard.press('Alt+n');
			await ask(page, question, 2);
			for (const text of await texts()) must(!text.includes('a'), 'with a text to stop at: ' + text);
		},
	);
}

async function completion(t) {
	const title = 'plain completion: from the caret, side by side, into the text, and out again';
	await check(t, title, {hash: '#complete'}, async (page) => {
		const all = bodies(page, '/v1/completions');
		const finished = () => page.waitForSelector('#text-go:not([hidden])', {state: 'visible'});
		await page.fill('#text', 'It was a dark night. THE END');
		await page.evaluate(() => document.getElementById('text').setSelectionRange(20, 20));
		await page.selectOption('#text-n', '3');
		await page.click('#text-go');
		await page.waitForFunction(() => document.querySelectorAll('.answer').length === 3);
		await finished();
		same(all[0].prompt, 'It was a dark night.', 'the prompt');
		same(all[0].n, 3, 'n');
		await shot(page, 'complete');
		const text = await page.locator('#text-out .answer .text').nth(1).textContent();
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
	});
}

// Seen red with the page before: 16 tokens, the API's default.
async function length(t) {
	await check(
		t,
		'a continuation has 128 tokens where nothing says otherwise',
		{hash: '#complete', settings: {}},
		async (page) => {
			const all = bodies(page, '/v1/completions');
			const go = async (n) => {
				await page.click('#text-go');
				await until('it is sent', () => all.length === n);
				await page.waitForSelector('#text-go:not([hidden])', {state: 'visible'});
			};
			await page.waitForSelector('#model b');
			await go(1);
			same(all[0].max_tokens, 128, 'max_tokens');
			await page.click('#settings-open');
			await page.fill('#set-max_tokens', '7');
			await go(2);
			same(all[1].max_tokens, 7, 'max_tokens of the settings');
		},
	);
}

// Seen red with a switch that is not remembered.
async function calm(t) {
	await check(
		t,
		'a switch hides the statistics of answers, and is remembered',
		{own: true, settings: {max_tokens: '3'}},
		async (page) => {
			await ask(page, 'Calm');
			const shown = () => page.locator('.numbers > :visible').allTextContents();
			must((await shown()).join().includes('perplexity'), 'they are shown');
			await page.click('#settings-open');
			await page.click('#set-numbers');
			same((await shown()).join(), 'stopped at the token limit', 'what is left');
			await page.reload();
			await page.waitForSelector('.assistant .text');
			same((await shown()).join(), 'stopped at the token limit', 'what is left after a reload');
		},
	);
}

export async function settings(t) {
	await sent(t);
	await heeded(t);
	await completion(t);
	await length(t);
	await calm(t);
}
