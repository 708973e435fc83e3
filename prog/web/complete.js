// Plain completion: the text up to the caret is the prompt, n continuations come side by side, the one that is taken
// goes in at the caret. A single continuation goes in by itself, and can be taken out again.
import {isAbort} from './api.js';
import {compareView, problem, timingText} from './answers.js';
import {$, announce, choices, el, plural, recall, remember, throttle} from './dom.js';
import {generate, likeliest} from './generate.js';
import {settingsBody} from './settings.js';

const LENGTH = 128; // of a continuation, where neither the settings nor the server say one: the API's own is 16

let model = () => undefined;
let job = null; // {answers, at, abort}
let taken = null; // {at, text}: what went in last
let asked = {prompt: null, n: 0}; // the last prompt, and how many continuations it had
let at = 0; // the end of the selection, as it was when the text had the focus

function place() {
	const area = $('text');
	at = Math.min(area.selectionEnd, area.value.length);
	const rest = area.value.length - at;
	$('text-hint').textContent =
		rest > 0
			? `continues at the caret, ${plural(rest, 'character')} before the end`
			: 'continues at the end';
}

function buttons() {
	$('text-stop').hidden = job === null;
	$('text-go').hidden = job !== null;
	$('text-undo').hidden = job !== null || taken === null;
	$('text').readOnly = job !== null; // the caret's place must hold while something is written for it
}

function put(where, answer) {
	const area = $('text');
	area.setRangeText(answer.text, where, where, 'end');
	taken = {at: where, text: answer.text};
	remember('text', area.value);
	area.focus();
	area.scrollTop = area.scrollHeight;
	place();
	buttons();
}

function undo() {
	const area = $('text');
	if (taken && area.value.startsWith(taken.text, taken.at)) {
		area.setRangeText('', taken.at, taken.at + taken.text.length, 'end');
		remember('text', area.value);
	}
	taken = null;
	area.focus();
	place();
	buttons();
}

async function go() {
	const out = $('text-out'),
		n = Number($('text-n').value) || 1;
	const area = $('text');
	let request;
	place();
	const prompt = area.value.slice(0, at);
	if (asked.prompt !== prompt) asked = {prompt, n: 0};
	try {
		request = settingsBody(asked.n, {max_tokens: LENGTH});
	} catch (e) {
		out.replaceChildren(problem(Object.assign(e, {status: 'settings'}), go));
		return;
	}
	const answers = Array.from({length: n}, () => ({text: '', tokens: [], finish: ''}));
	const mine = {answers, at, abort: new AbortController()};
	const times = el('p', {class: 'muted times'});
	let used = null;
	job = mine;
	asked.n += n;
	taken = null;
	const view = compareView({
		answers,
		title: plural(n, 'continuation'),
		pickLabel: 'Insert',
		chosenLabel: '✓ inserted',
		running: () => job === mine,
		chosen: () => used,
		pick: (answer) => {
			if (used) undo();
			used = answer;
			put(mine.at, answer);
			view.update();
		},
	});
	out.replaceChildren(view.element, times);
	buttons();
	announce(n > 1 ? `${n} continuations are being written` : 'The continuation is being written');
	let failure = null;
	try {
		await generate({
			path: '/v1/completions',
			body: {model: model(), prompt, ...request.body},
			alternatives: request.alternatives,
			answers,
			signal: mine.abort.signal,
			changed: throttle(() => view.update(), n > 4 ? 90 : 40),
		});
	} catch (e) {
		failure = e;
	}
	job = null;
	for (const a of answers) a.finish ||= failure && !isAbort(failure) ? 'error' : 'stopped';
	if (failure && !isAbort(failure)) out.append(problem(failure, go));
	if (n === 1 && answers[0].text !== '') {
		used = answers[0];
		put(mine.at, used);
	}
	times.textContent = timingText(answers[0].timings);
	view.update();
	buttons();
	const best = likeliest(answers);
	announce(best ? `All are done. Number ${answers.indexOf(best) + 1} is the likeliest` : answers[0].text);
}

export function completeStop() {
	job?.abort.abort();
	return job !== null;
}

export function completeOpen(getModel) {
	const area = $('text'),
		n = $('text-n');
	model = getModel;
	choices(n, 16);
	n.value = String(recall('text-n', 4));
	n.addEventListener('change', () => remember('text-n', Number(n.value)));
	area.value = recall('text', 'Once upon a time');
	area.setSelectionRange(area.value.length, area.value.length);
	const keep = throttle(() => remember('text', area.value), 500);
	area.addEventListener('input', () => {
		taken = null;
		keep();
		place();
		buttons();
	});
	for (const event of ['keyup', 'click', 'select', 'focus']) area.addEventListener(event, place);
	area.addEventListener('keydown', (e) => {
		if (e.key === 'Enter' && (e.ctrlKey || e.metaKey) && !job) {
			e.preventDefault();
			go();
		}
	});
	$('complete-form').addEventListener('submit', (e) => {
		e.preventDefault();
		if (!job) go();
	});
	$('text-stop').addEventListener('click', completeStop);
	$('text-undo').addEventListener('click', undo);
	place();
	buttons();
}
