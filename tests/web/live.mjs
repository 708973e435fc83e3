// The live view: ticks, slots, queue, blocks, rates.
import {begun, check, done, idle, LONG, must, reads, same, say, seconds, shot, until} from './lib.mjs';

const MANY = {max_tokens: '4000'};
const N_SLOTS = 8; // of the server by default, and of the mock
const number = (text) => Number(text.replaceAll(',', ''));

// One event of the live stream, as the server sends it.
async function glance(t, page) {
	const headers = t.key ? {Authorization: 'Bearer ' + t.key} : {};
	const response = await fetch(page.base + '/cohort/live', {headers});
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let text = '',
		found = null;
	while (!(found = /^data: (.*)\n\n/m.exec(text))) {
		const {value, done} = await reader.read();
		must(!done, 'the live stream ended');
		text += value;
	}
	await reader.cancel();
	return JSON.parse(found[1]);
}

// Asks beside the page; ends with the answer's end, or when it is aborted.
export async function beside(t, page, content, max_tokens, signal) {
	const headers = t.key ? {Authorization: 'Bearer ' + t.key} : {};
	const body = JSON.stringify({messages: [{role: 'user', content}], max_tokens, stream: true});
	try {
		await (await fetch(page.base + '/v1/chat/completions', {method: 'POST', headers, body, signal})).text();
	} catch (e) {
		must(e.name === 'AbortError', e.message);
	}
}

// How many pixels of the canvas have the colour that cells of this kind are painted with.
const painted = (page, name) =>
	page.evaluate((variable) => {
		const c = document.getElementById('ticks'),
			g = document.createElement('canvas').getContext('2d');
		g.fillStyle = getComputedStyle(c).getPropertyValue(variable).trim();
		g.fillRect(0, 0, 1, 1);
		const want = g.getImageData(0, 0, 1, 1).data;
		const {data} = c.getContext('2d').getImageData(0, 0, c.width, c.height);
		let n = 0;
		for (let i = 0; i < data.length; i += 4)
			if (
				data[i] === want[0] &&
				data[i + 1] === want[1] &&
				data[i + 2] === want[2] &&
				data[i + 3] === 255
			)
				n++;
		return n;
	}, name);

// The number of the newest tick, by keyboard.
async function newest(page) {
	await page.focus('#ticks');
	await page.press('#ticks', 'ArrowRight');
	const text = await page.textContent('#tick-readout');
	must(/^Tick \d+: \d+ decode rows?, \d+ prefill rows?, \d+ sampled, [\d.]+ ms/.test(text), 'the tick: ' + text);
	await page.evaluate(() => document.activeElement.blur());
	return Number(/\d+/.exec(text)[0]);
}

// The numbers of the ticks, by a pointer that goes over all columns from the newest on. Each must be one less than the
// one before.
export async function columns(page) {
	const numbers = await page.evaluate(() => {
		const all = [],
			canvas = document.getElementById('ticks'),
			box = canvas.getBoundingClientRect();
		for (let x = box.right - 2; x > box.left; x -= 3) {
			canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: x, clientY: box.top + 60}));
			const n = Number(/^Tick (\d+)/.exec(document.getElementById('tick-readout').textContent)?.[1]);
			if (n >= 0 && n !== all.at(-1)) all.push(n);
		}
		canvas.dispatchEvent(new PointerEvent('pointerleave'));
		return all;
	});
	numbers.forEach((n, i) => same(n, numbers[0] - i, `tick ${i} from the right`));
	return numbers;
}

// Seen red against the server with a draw() that is called for the first event only, with one that leaves out the
// slots, the ticks, or the numbers of the queue or of the blocks, and with a rate that is twice what it is.
async function atWork(t) {
	const title = 'the live view shows ticks, slots, queue, blocks and rates of work that goes on';
	await check(t, title, {slow: true, settings: MANY}, async (page) => {
		await idle(t, page);
		await say(page, LONG, N_SLOTS);
		await begun(page, N_SLOTS);
		// One more has to wait.
		const abort = new AbortController();
		const waiting = beside(t, page, LONG, 50, abort.signal);
		await page.click('.tabs >> text=Batch');
		await reads(page, '#live-state', /^live$/);
		await reads(page, '#slots-text', new RegExp(`^${N_SLOTS} of ${N_SLOTS} at work$`));
		await reads(page, '#queue-text', /^\s*1 request waiting/);
		await reads(page, '#blocks-text', /^\s*[1-9]\d* used/);
		same(await page.locator('.slot[data-state=generating]').count(), N_SLOTS, 'slots that write');
		same(new Set(await page.locator('.slot-who').allTextContents()).size, N_SLOTS, 'whose they are');

		// Everything moves.
		const picture = () => page.evaluate(() => document.getElementById('ticks').toDataURL());
		const still = await picture();
		await until('the ticks move', async () => (await picture()) !== still);
		const [, before] = await reads(page, '.slot-text', /^(\d+) tokens/);
		await until(
			'a slot counts on',
			async () => (await reads(page, '.slot-text', /^(\d+) tokens/))[1] - before >= 3,
		);
		const total = page.locator('.tile strong').nth(2);
		const first = number(await total.textContent());
		await until('the total goes up', async () => number(await total.textContent()) >= first + N_SLOTS);
		const tick = await newest(page);
		await until('ticks go on', async () => (await newest(page)) > tick);
		must((await painted(page, '--paint-decode')) > 100, 'no decode rows are painted');
		must((await painted(page, '--paint-time')) > 100, 'no times are painted');
		const box = await page.locator('#ticks').boundingBox();
		await page.mouse.move(box.x + box.width - 12, box.y + 60);
		await reads(page, '#tick-readout', /^Tick \d+: /);
		await page.mouse.move(1, 1);

		// The rate is the one that the server's own counts come to.
		const rate = async () => number(await page.locator('.tile strong').first().textContent());
		await until('the rate is that of the server', async () => {
			const a = await glance(t, page);
			await seconds(2);
			const b = await glance(t, page);
			const real = (b.totals.sampled - a.totals.sampled) / (b.now_s - a.now_s);
			const shown = await rate();
			return shown > real / 1.5 && shown < real * 1.5;
		});
		await shot(page, 'batch');

		// At the end all of it is idle, and the total is the server's.
		await page.click('.tabs >> text=Chat');
		await page.click('#stop');
		await done(page);
		abort.abort();
		await waiting;
		await idle(t, page);
		await page.click('.tabs >> text=Batch');
		await reads(page, '#slots-text', new RegExp(`^0 of ${N_SLOTS} at work$`));
		await reads(page, '#queue-text', /^\s*0 requests waiting/);
		await reads(page, '#blocks-text', /^\s*0 used/);
		await until('no tokens per second', async () => (await rate()) === 0);
		same(number(await total.textContent()), (await glance(t, page)).totals.sampled, 'tokens written');
		same(await page.locator('.slot[data-state=idle]').count(), N_SLOTS, 'slots that are idle');

		// A prompt is seen, too.
		await beside(t, page, 'One word and another. '.repeat(8), 2);
		await until('prefill rows are painted', async () => (await painted(page, '--paint-prefill')) > 0);
		await reads(page, '.tile:nth-child(2) strong', /^0$/);
	});
}

async function comingBack(t) {
	await check(
		t,
		'the live view goes on after looking elsewhere, and a pause holds',
		{slow: true, settings: MANY},
		async (page) => {
			await say(page, LONG, 4);
			await begun(page, 4);
			await page.click('.tabs >> text=Batch');
			await reads(page, '#slots-text', /^4 of/);
			await page.click('.tabs >> text=Chat');
			await page.click('.tabs >> text=Batch');
			await reads(page, '#live-state', /^live$/);
			await reads(page, '#slots-text', /^4 of/);
			await page.click('#live-pause');
			await reads(page, '#live-state', /^paused$/);
			const total = await page.locator('.tile strong').nth(2).textContent();
			await page.click('.tabs >> text=Chat');
			await page.click('#stop');
			await done(page);
			await idle(t, page);
			await page.click('.tabs >> text=Batch');
			await seconds(0.5);
			same(
				await page.locator('.tile strong').nth(2).textContent(),
				total,
				'a number while it is paused',
			);
			await page.click('#live-pause');
			await reads(page, '#live-state', /^live$/);
			await reads(page, '#slots-text', /^0 of/);
			must((await columns(page)).length > 1, 'there are no columns');
		},
	);
}

export async function live(t) {
	await atWork(t);
	await comingBack(t);
}
