// The sampler's settings: one table makes the panel, what is kept, and the fields of a request. A field left empty is
// not sent, so the server's own default holds; it is shown as the placeholder.
import {$, el, forget, recall, remember} from './dom.js';

// kind: number (whole: no fraction), lines (one text each) or json. range: a slider, where the bounds are useful ones.
const FIELDS = [
	{group: 'Sampling'},
	{
		name: 'temperature',
		label: 'Temperature',
		min: 0,
		max: 2,
		step: 0.05,
		range: true,
		hint: '0: always the likeliest token',
	},
	{name: 'top_k', label: 'Top-k', min: 0, max: 1000000, step: 1, whole: true, hint: '0: off'},
	{name: 'top_p', label: 'Top-p', min: 0, max: 1, step: 0.01, range: true, hint: '1: off'},
	{name: 'min_p', label: 'Min-p', min: 0, max: 1, step: 0.01, range: true, hint: '0: off'},
	{name: 'typical_p', label: 'Typical-p', min: 0, max: 1, step: 0.01, range: true, hint: '1: off'},
	{
		name: 'seed',
		label: 'Seed',
		min: -1,
		max: 4294967295,
		step: 1,
		whole: true,
		hint: 'the same seed gives the same answers',
	},
	{group: 'Penalties'},
	{name: 'repeat_penalty', label: 'Repeat', min: 0.5, max: 2, step: 0.01, range: true, hint: '1: off'},
	{
		name: 'repeat_last_n',
		label: 'over the last',
		min: -1,
		max: 65536,
		step: 1,
		whole: true,
		hint: 'tokens; -1: all',
	},
	{name: 'presence_penalty', label: 'Presence', min: -2, max: 2, step: 0.05, range: true, hint: '0: off'},
	{name: 'frequency_penalty', label: 'Frequency', min: -2, max: 2, step: 0.05, range: true, hint: '0: off'},
	{group: 'Length and shape'},
	{
		name: 'max_tokens',
		label: 'Max tokens',
		min: 1,
		max: 10000000,
		step: 1,
		whole: true,
		hint: 'of each answer; empty: 128 on Complete',
	},
	{name: 'stop', label: 'Stop at', kind: 'lines', rows: 2, hint: 'one text per line; \\n for a new line'},
	{name: 'json_schema', label: 'JSON schema', kind: 'json', rows: 4, hint: 'answers follow it exactly'},
	{group: 'Shown'},
	{
		name: 'alternatives',
		label: 'Alternatives',
		min: 0,
		max: 20,
		step: 1,
		whole: true,
		local: 5,
		hint: 'per token, for its probabilities',
	},
];

let values = {}; // name -> the text as typed
let defaults = {};
const inputs = new Map(); // name -> {input, range, error}
let onChange = () => {};

// undefined: nothing to send. Throws with a reason for what cannot be sent.
function parse(field, text) {
	const given = text.trim();
	if (given === '') return undefined;
	if (field.kind === 'lines')
		return text
			.split('\n')
			.filter((s) => s !== '')
			.map((s) => s.replaceAll('\\n', '\n').replaceAll('\\t', '\t'));
	if (field.kind === 'json') {
		let schema;
		try {
			schema = JSON.parse(given);
		} catch (e) {
			throw new Error('This is no JSON: ' + e.message);
		}
		if (schema === null || typeof schema !== 'object' || Array.isArray(schema))
			throw new Error('A schema is a JSON object');
		return schema;
	}
	const x = Number(given);
	if (!Number.isFinite(x) || x < field.min || x > field.max) throw new Error(`From ${field.min} to ${field.max}`);
	if (field.whole && !Number.isInteger(x)) throw new Error('A whole number');
	return x;
}

function show(field) {
	const {input, range, error} = inputs.get(field.name);
	const text = values[field.name] ?? '';
	const fallback = field.local ?? defaults[field.name];
	let problem = '';
	try {
		parse(field, text);
	} catch (e) {
		problem = e.message;
	}
	if (input.value !== text) input.value = text;
	if (!field.kind)
		input.placeholder = typeof fallback === 'number' ? String(Math.round(fallback * 1e4) / 1e4) : 'default';
	if (range) {
		range.value =
			text !== '' && problem === ''
				? text
				: typeof fallback === 'number'
					? fallback
					: (field.min + field.max) / 2;
		range.classList.toggle('unset', text === '');
	}
	input.setAttribute('aria-invalid', problem !== '');
	error.textContent = problem;
	error.hidden = problem === '';
}

function set(field, text) {
	if (text === '') delete values[field.name];
	else values[field.name] = text;
	remember('settings', values);
	show(field);
	onChange();
}

function row(field) {
	const id = 'set-' + field.name,
		about = id + '-about';
	const common = {id, 'aria-describedby': about, autocomplete: 'off', oninput: (e) => set(field, e.target.value)};
	const input = field.kind
		? el('textarea', {
				...common,
				rows: field.rows,
				spellcheck: 'false',
				class: field.kind === 'json' ? 'mono' : '',
			})
		: el('input', {
				...common,
				type: 'text',
				inputmode: field.whole && field.min >= 0 ? 'numeric' : 'decimal',
			});
	const range = field.range
		? el('input', {
				type: 'range',
				min: field.min,
				max: field.max,
				step: field.step,
				'aria-label': field.label + ' slider',
				oninput: (e) => set(field, e.target.value),
			})
		: null;
	const error = el('p', {class: 'field-error', role: 'alert', hidden: true});
	inputs.set(field.name, {input, range, error});
	return el(
		'div',
		{class: field.kind ? 'field tall' : 'field'},
		el('label', {for: id, text: field.label}),
		input,
		range,
		el('p', {class: 'field-hint', id: about, text: field.hint}),
		error,
	);
}

// What stands under each answer can be hidden, but for why it ended.
function showNumbers(on) {
	document.body.classList.toggle('calm', !on);
	remember('numbers', on);
}

function numbersRow() {
	const input = el('input', {
		type: 'checkbox',
		id: 'set-numbers',
		checked: recall('numbers', true),
		onchange: (e) => showNumbers(e.target.checked),
	});
	showNumbers(input.checked);
	return el('div', {class: 'field'}, el('label', {for: 'set-numbers', text: 'Statistics of answers'}), input);
}

// changed: called after each change.
export function settingsOpen(changed) {
	onChange = changed;
	const kept = recall('settings', {});
	for (const f of FIELDS) {
		if (f.name && typeof kept?.[f.name] === 'string') values[f.name] = kept[f.name];
	}
	const fields = FIELDS.map((f) => (f.group ? el('h3', {text: f.group}) : row(f)));
	$('settings-fields').replaceChildren(...fields, numbersRow());
	FIELDS.filter((f) => f.name).forEach(show);
	$('settings-reset').addEventListener('click', () => {
		values = {};
		forget('settings');
		FIELDS.filter((f) => f.name).forEach(show);
		onChange();
	});
}

// The server's own values, as /props has them.
export function settingsDefaults(props) {
	const d = props?.default_generation_settings ?? {};
	defaults = {...d, ...d.params};
	defaults.max_tokens ??= defaults.n_predict;
	if (!(defaults.max_tokens >= 0)) delete defaults.max_tokens;
	FIELDS.filter((f) => f.name).forEach(show);
}

export const settingsCount = () => Object.keys(values).length;

// The fields of a request, or an Error that names the setting. again: how many answers this very request has already.
// The server has the same ones for the same request: then, unless a seed is set, another one is sent. otherwise: values
// for what neither the settings nor the server say.
export function settingsBody(again = 0, otherwise = {}) {
	const body = {};
	let alternatives = 5;
	for (const f of FIELDS.filter((x) => x.name)) {
		let v;
		try {
			v = parse(f, values[f.name] ?? '');
		} catch (e) {
			throw new Error(`${f.label} in the settings: ${e.message}`);
		}
		if (v === undefined) continue;
		if (f.name === 'alternatives') alternatives = v;
		else if (f.name === 'json_schema')
			body.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: v}};
		else body[f.name] = v;
	}
	for (const [name, v] of Object.entries(otherwise)) body[name] ??= defaults[name] ?? v;
	if (again > 0 && body.seed === undefined) body.seed = Math.max(0, Number(defaults.seed) || 0) + again;
	return {body, alternatives};
}
