// The live view: what the engine does now, from /cohort/live. It is connected only while it is looked at; pausing stops
// the drawing, not the counting, so that going on shows the present.
import {events, isAbort, request} from './api.js';
import {problem} from './answers.js';
import {$, el, plural} from './dom.js';
import {sparkline, Ticks} from './ticks.js';

const SECONDS = 60; // of the sparkline
let abort = null,
	paused = false,
	ticks = null;
let last = null; // the last event
let newest = 0; // the number of the last tick
let recent = []; // [{at_s, sampled, prefill}] of the last two seconds
let rates = []; // tokens/s, four a second
let rateAt = 0;
const slots = new Map(); // id -> its elements
let tiles = null;
let size = () => 0; // tokens that the context of a slot holds; 0: unknown

const fixed = (x, digits) => (Number.isFinite(x) ? x.toFixed(digits) : '–');
const STATES = {idle: 'idle', prefilling: 'reading', generating: 'writing', parked: 'parked'};

function tile(label, canvas) {
	const value = el('strong', {text: '–'}),
		more = el('span', {class: 'muted'});
	return {
		box: el(
			'div',
			{class: 'tile' + (canvas ? ' wide-tile' : '')},
			el('span', {class: 'tile-label', text: label}),
			el('div', {class: 'tile-row'}, el('div', {}, value, more), canvas),
		),
		value,
		more,
	};
}

function slotBox(id) {
	const state = el('span', {class: 'slot-state'}),
		who = el('span', {class: 'slot-who'});
	const bar = el('div', {class: 'slot-bar'}, el('i', {class: 'prefill'}), el('i', {class: 'decode'}));
	const text = el('span', {class: 'slot-text'}),
		room = el('span', {class: 'slot-text'});
	const box = el(
		'li',
		{class: 'slot'},
		el('div', {class: 'slot-head'}, el('b', {text: String(id)}), state, who),
		bar,
		text,
		room,
	);
	return {box, state, who, bar, text, room};
}

function drawSlots(list) {
	for (const s of list) {
		let v = slots.get(s.id);
		if (!v) {
			v = slotBox(s.id);
			slots.set(s.id, v);
			$('slots').append(v.box);
		}
		const busy = s.state !== 'idle';
		v.box.dataset.state = s.state;
		v.state.textContent = STATES[s.state] ?? s.state;
		v.who.textContent = busy ? `#${s.request}${s.output > 0 ? '.' + s.output : ''}` : '';
		v.who.title = busy ? `request ${s.request}, answer ${s.output + 1}` : '';
		const parts = busy ? [Math.min(s.n_prefilled, s.n_prompt), s.n_generated] : [0, 0];
		const most = Math.max(size() || s.n_prompt + s.n_generated, parts[0] + parts[1], 1);
		parts.forEach((n, i) => (v.bar.children[i].style.width = (n / most) * 100 + '%'));
		v.text.textContent = !busy
			? ' '
			: s.state === 'prefilling'
				? `prompt ${s.n_prefilled}/${s.n_prompt}`
				: `${plural(s.n_generated, 'token')} · ${fixed(s.age_s, s.age_s < 100 ? 1 : 0)} s`;
		v.room.textContent = busy ? plural(s.n_blocks, 'block') : ' ';
	}
	const here = new Set(list.map((s) => s.id));
	for (const [id, v] of slots) {
		if (!here.has(id)) {
			v.box.remove();
			slots.delete(id);
		}
	}
	const busy = list.filter((s) => s.state !== 'idle').length;
	$('slots-text').textContent = `${busy} of ${list.length} at work`;
}

function stack(bar, parts, total, label) {
	if (bar.childElementCount !== parts.length)
		bar.replaceChildren(...parts.map(([name]) => el('i', {class: name})));
	parts.forEach(([, n], i) => {
		bar.children[i].style.width = total > 0 ? (n / total) * 100 + '%' : '0';
	});
	bar.setAttribute('aria-label', label);
}

function legend(box, parts) {
	box.replaceChildren(
		...parts.flatMap(([name, text]) => [name ? el('i', {class: 'swatch ' + name}) : '', text + ' ']),
	);
}

function draw(e) {
	const seconds = Math.max(0.5, Math.min(2, e.now_s - (recent[0]?.at_s ?? e.now_s)));
	const sum = (name) => recent.reduce((n, t) => n + t[name], 0) / seconds;
	const rate = sum('sampled');
	tiles.rate.value.textContent = rate >= 100 ? rate.toFixed(0) : rate.toFixed(1);
	tiles.prompt.value.textContent = sum('prefill').toFixed(0);
	const t = e.totals ?? {};
	const prompt = t.prompt_tokens ?? 0;
	tiles.prompt.more.textContent =
		prompt > 0 ? ` ${((100 * (t.cached_tokens ?? 0)) / prompt).toFixed(0)} % of all from the cache` : '';
	tiles.total.value.textContent = (t.sampled ?? 0).toLocaleString('en');
	tiles.total.more.textContent = ` in ${plural(t.ticks ?? 0, 'tick')}`;
	tiles.strategy.value.textContent = e.strategy ?? '–';
	tiles.strategy.more.textContent = [
		t.parked > 0 ? `${t.parked} parked` : '',
		t.refused > 0 ? `${t.refused} refused` : '',
	]
		.filter(Boolean)
		.join(', ');
	sparkline(tiles.spark, rates);
	ticks.draw();
	drawSlots(e.slots ?? []);
	const b = e.blocks ?? {total: 0, used: 0, cached: 0, free: 0};
	stack(
		$('blocks-bar'),
		[
			['used', b.used],
			['cached', b.cached],
		],
		b.total,
		`${b.used} blocks used, ${b.cached} cached, ${b.free} free`,
	);
	legend($('blocks-text'), [
		['used', `${b.used} used`],
		['cached', `${b.cached} cached`],
		['free', `${b.free} free`],
		['', `of ${b.total}`],
	]);
	const q = e.queue ?? {requests: 0, tokens: 0, requests_max: 0};
	stack(
		$('queue-bar'),
		[['waiting', q.requests]],
		q.requests_max,
		`${q.requests} of ${q.requests_max} places of the queue are taken`,
	);
	legend($('queue-text'), [
		['waiting', `${plural(q.requests, 'request')} waiting`],
		['', `with ${plural(q.tokens, 'token')}`],
		['', `(room for ${q.requests_max})`],
	]);
}

function take(e) {
	if (e.now_s < last?.now_s || e.totals?.ticks + 2 < newest) {
		// the server was started again (its count may be a tick behind)
		ticks.clear();
		recent = [];
		rates = [];
		rateAt = newest = 0;
	}
	// A connection begins with what was before it: the ticks that came over another one are here already.
	const fresh = (Array.isArray(e.ticks) ? e.ticks : [])
		.filter((t) => !(t.n <= newest))
		.map((t) => ({n: newest + 1, at_s: e.now_s, decode: 0, prefill: 0, sampled: 0, total_ms: 0, ...t}));
	newest = fresh.at(-1)?.n ?? newest;
	ticks.add(fresh);
	recent.push(...fresh.map(({at_s, sampled, prefill}) => ({at_s, sampled, prefill})));
	recent = recent.filter((t) => t.at_s > e.now_s - 2);
	if (e.now_s - rateAt >= 0.25) {
		rateAt = e.now_s;
		rates.push(recent.reduce((n, t) => n + t.sampled, 0) / 2);
		rates = rates.slice(-SECONDS * 4);
	}
	last = e;
	if (!paused) draw(e);
}

function state(text, kind) {
	$('live-state').textContent = text;
	$('live-state').dataset.kind = kind;
	ticks.empty = kind === 'off' ? 'No connection yet.' : 'No work yet: the server is idle.';
	ticks.draw();
}

async function listen(signal) {
	const response = await request('/cohort/live', {signal});
	state(paused ? 'paused' : 'live', paused ? 'paused' : 'live');
	$('live-error').replaceChildren();
	for await (const data of events(response)) {
		let e;
		try {
			e = JSON.parse(data);
		} catch {
			continue; // one broken event is no reason to stop looking
		}
		if (Number.isFinite(e?.now_s)) take(e);
	}
}

// A lost connection is taken up again by itself; what the server refuses waits for someone to say so.
async function connect() {
	const mine = new AbortController();
	abort = mine;
	for (let wait = 500; !mine.signal.aborted; wait = Math.min(wait * 2, 8000)) {
		state('connecting', 'off');
		const from = performance.now();
		try {
			await listen(mine.signal);
		} catch (e) {
			if (isAbort(e)) return;
			if (e.status >= 400 && e.status !== 429 && e.status < 500) {
				state('not connected', 'off');
				$('live-error').replaceChildren(
					problem(e, () => {
						$('live-error').replaceChildren();
						connect();
					}),
				);
				return;
			}
		}
		if (mine.signal.aborted) return;
		if (performance.now() - from > 5000) wait = 500;
		state('connection lost, trying again', 'off');
		await new Promise((resolve) => setTimeout(resolve, wait));
	}
}

export function liveShow(visible) {
	if (visible && !abort) {
		connect();
	} else if (!visible && abort) {
		abort.abort();
		abort = null;
	}
}

export function liveOpen(n_ctx) {
	size = n_ctx;
	const spark = el('canvas', {class: 'spark', 'aria-hidden': 'true'});
	tiles = {
		rate: tile('Tokens per second', spark),
		prompt: tile('Prompt tokens per second'),
		total: tile('Tokens written'),
		strategy: tile('Strategy'),
		spark,
	};
	tiles.strategy.box.classList.add('text-tile');
	$('tiles').append(tiles.rate.box, tiles.prompt.box, tiles.total.box, tiles.strategy.box);
	ticks = new Ticks($('ticks'), (t) => {
		const text =
			`Tick ${t.n}: ${plural(t.decode, 'decode row')}, ${plural(t.prefill, 'prefill row')}, ` +
			`${t.sampled} sampled, ` +
			`${fixed(t.total_ms, 2)} ms (${fixed(t.decode_ms, 2)} ms in the model)`;
		$('tick-readout').textContent = text;
		$('ticks').setAttribute('aria-label', text);
	});
	$('live-pause').addEventListener('click', (e) => {
		paused = !paused;
		e.target.setAttribute('aria-pressed', paused);
		e.target.textContent = paused ? 'Resume' : 'Pause';
		if ($('live-state').dataset.kind !== 'off')
			state(paused ? 'paused' : 'live', paused ? 'paused' : 'live');
		if (!paused && last) draw(last);
	});
	document.addEventListener('themechange', () => last && draw(last));
}
