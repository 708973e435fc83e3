// How answers look: formatted, coloured by the probability of their tokens, or side by side with their differences.
import {announce, copyText, el, iconButton, plural, recall, remember, $} from './dom.js';
import {forks, likelihood, likeliest, timingText} from './generate.js';
import {markdown} from './markdown.js';

// ---- Tokens by probability ----

const shown = new WeakMap(); // the box of tokens -> {answer, n}: appended to while it grows
const SHADES = [0.9, 0.7, 0.4, 0.2, 0.05];
const percent = (logprob) => {
	const p = Math.exp(logprob) * 100;
	return p >= 99.95 ? '100 %' : p >= 1 ? p.toFixed(1) + ' %' : p >= 0.01 ? p.toFixed(2) + ' %' : '< 0.01 %';
};
const visible = (text) =>
	text === '' ? '(part of a character)' : text.replaceAll('\n', '↵').replaceAll('\t', '⇥').replaceAll(' ', '·');

function tokenSpans(box, answer) {
	const tokens = answer.tokens ?? [];
	let state = shown.get(box);
	if (!state || state.answer !== answer || state.n > tokens.length || box.dataset.mode !== 'probabilities') {
		box.replaceChildren();
		state = {answer, n: 0};
		shown.set(box, state);
	}
	for (; state.n < tokens.length; state.n++) {
		const [text, logprob] = tokens[state.n];
		const shade = SHADES.filter((s) => Math.exp(logprob) < s).length;
		box.append(el('span', {class: `tok p${shade}`, 'data-i': state.n, text: text.replaceAll('\n', '↵\n')}));
	}
}

// What the shades, or the tints and marks of differences, mean.
export function legend(mode) {
	const key = (name, text) => el('span', {class: 'key'}, el('i', {class: name}), text);
	if (mode === 'probabilities')
		return el(
			'p',
			{class: 'legend legend-keys', 'data-legend': mode},
			'Probability of each token:',
			...[...SHADES, 0].map((s, i) =>
				key(
					'swatch p' + i,
					i === 0 ? '90 % or more' : s === 0 ? 'below 5 %' : `from ${s * 100} %`,
				),
			),
			el('span', {text: 'Select one for its alternatives.'}),
		);
	if (mode === 'differences')
		return el(
			'p',
			{class: 'legend legend-keys', 'data-legend': mode},
			el('span', {class: 'shared-all', text: 'the same in all'}),
			el('span', {class: 'shared-some', text: 'the same in some'}),
			key('fork', 'from here on fewer are the same'),
			key('fork own-fork', 'from here on different from all others'),
		);
	return el('p', {class: 'legend legend-keys', hidden: true});
}

let current = null; // the token whose alternatives are shown

function popClose() {
	current?.classList.remove('on');
	current = null;
	$('token-pop').hidden = true;
}

function popOpen(span) {
	const state = shown.get(span.parentElement);
	const token = state?.answer.tokens?.[Number(span.dataset.i)];
	if (!token) return;
	popClose();
	current = span;
	span.classList.add('on');
	const [text, logprob, alternatives] = token;
	const row = ([name, lp]) => {
		const bar = el('i', {class: 'alt-bar'});
		bar.style.width = Math.max(1, Math.exp(lp) * 100) + '%';
		return el(
			'li',
			{class: name === text ? 'chosen' : ''},
			bar,
			el('code', {text: visible(name)}),
			el('span', {text: percent(lp)}),
		);
	};
	const rows = alternatives.some((a) => a[0] === text) ? alternatives : [...alternatives, [text, logprob]];
	const pop = $('token-pop');
	pop.replaceChildren(
		el(
			'p',
			{class: 'pop-head'},
			el('code', {text: visible(text)}),
			el('span', {text: percent(logprob)}),
			el('span', {class: 'muted', text: `log p ${logprob.toFixed(3)}`}),
		),
		el('ol', {class: 'alts'}, ...rows.map(row)),
	);
	pop.hidden = false;
	const at = span.getBoundingClientRect(),
		size = pop.getBoundingClientRect();
	const below = at.bottom + 6 + size.height < innerHeight;
	pop.style.left = Math.max(8, Math.min(at.left, innerWidth - size.width - 8)) + 'px';
	pop.style.top = Math.max(8, below ? at.bottom + 6 : at.top - size.height - 6) + 'px';
	announce(
		`${visible(text)}, ${percent(logprob)}. ` +
			rows.map(([n, lp]) => `${visible(n)} ${percent(lp)}`).join(', '),
	);
}

// True if there was one to close: then Escape has done its work.
export function popEscape() {
	const was = current !== null;
	popClose();
	return was;
}

export function tokensOpen() {
	document.addEventListener('click', (e) => {
		const span = e.target.closest?.('.tok');
		if (span && span !== current) popOpen(span);
		else if (!e.target.closest?.('#token-pop')) popClose();
	});
	document.addEventListener('scroll', popClose, {capture: true, passive: true});
	document.addEventListener('keydown', (e) => {
		const box = e.target.closest?.('.text[data-mode=probabilities]');
		if (!box || !['ArrowLeft', 'ArrowRight'].includes(e.key)) return;
		e.preventDefault();
		const here = current?.parentElement === box ? current : null;
		const next =
			e.key === 'ArrowRight'
				? here
					? here.nextElementSibling
					: box.firstElementChild
				: here?.previousElementSibling;
		if (next) {
			next.scrollIntoView({block: 'nearest'});
			popOpen(next);
		}
	});
}

// ---- One text ----

function differences(box, answers, answer) {
	const pieces = forks(answers, answers.indexOf(answer));
	box.replaceChildren();
	pieces.forEach(({text, n}, i) => {
		const kind = n === answers.length ? 'shared-all' : n > 1 ? 'shared-some' : 'own';
		if (i > 0)
			box.append(
				el('span', {
					class: n > 1 ? 'fork' : 'fork own-fork',
					title:
						n > 1
							? `${n} answers continue the same way`
							: 'Only this answer continues this way',
				}),
			);
		box.append(el('span', {class: kind, text}));
	});
}

// mode: formatted, probabilities or differences (of answers).
export function renderText(box, answer, mode, answers, running) {
	if (mode === 'probabilities' && (answer.tokens ?? []).length > 0) {
		tokenSpans(box, answer);
		box.tabIndex = 0;
	} else {
		mode = mode === 'differences' ? mode : 'formatted';
		box.removeAttribute('tabindex');
		if (mode === 'differences') differences(box, answers, answer);
		else markdown(box, answer.text);
	}
	box.dataset.mode = mode;
	box.classList.toggle('writing', running);
	box.classList.toggle('waiting', running && answer.text === '');
}

// Perplexity and the mean log-probability, with a bar for the geometric mean of the probabilities.
export function meter(answer) {
	const mean = likelihood(answer);
	if (mean === null) return el('span', {class: 'meter muted'});
	const bar = el('i');
	bar.style.width = Math.exp(mean) * 100 + '%';
	return el(
		'span',
		{
			class: 'meter',
			title:
				`On average a token had ${percent(mean)}. Mean log-probability ${mean.toFixed(3)}, ` +
				`perplexity ${Math.exp(-mean).toFixed(3)}, over ${plural(answer.tokens.length, 'token')}.`,
		},
		el('span', {class: 'meter-bar'}, bar),
		el('span', {text: `mean log p ${mean.toFixed(3).replace('-', '−')}`}),
		el('span', {text: `perplexity ${Math.exp(-mean).toFixed(2)}`}),
	);
}

export const endOf = (finish) =>
	({
		length: 'stopped at the token limit',
		context: 'stopped: the context is full',
		stopped: 'stopped',
		error: 'interrupted',
		content_filter: 'filtered',
		tool_calls: 'calls a tool',
	})[finish] ?? '';

// ---- Side by side ----

const COLUMN_MIN = 212; // px
const MODES = [
	['differences', 'Differences'],
	['probabilities', 'Probabilities'],
	['formatted', 'Formatted'],
];

// As many columns as fit, but rows of equal length where they can be: five are three and two, not four and one.
function balance(columns, n) {
	const fit = Math.max(1, Math.floor((columns.clientWidth + 12) / (COLUMN_MIN + 12)));
	columns.style.gridTemplateColumns = `repeat(${Math.ceil(n / Math.ceil(n / fit))}, minmax(0, 1fr))`;
}

// answers: live objects. running(): whether they still grow; chosen(): the one to continue with, which chosenLabel
// marks; pick(answer) takes one; ended(answer): why it ended, by the names of endOf. Returns {element, update}.
export function compareView({answers, title, running, chosen, chosenLabel, pick, pickLabel, ended, tools = []}) {
	let mode = recall('compare', 'differences');
	const buttons = MODES.map(([name, label]) =>
		el('button', {
			type: 'button',
			text: label,
			onclick: () => {
				mode = name;
				remember('compare', name);
				update();
			},
		}),
	);
	const cards = answers.map((answer, i) => {
		const text = el('div', {class: 'text', role: 'group', 'aria-label': `Text of answer ${i + 1}`});
		const badges = el('span', {class: 'badges'}),
			numbers = el('div', {class: 'numbers'});
		const take = el('button', {
			type: 'button',
			class: 'small take',
			text: pickLabel,
			onclick: () => pick(answer),
		});
		const card = el(
			'article',
			{class: 'answer', 'aria-label': `Answer ${i + 1}`, 'data-id': answer.id},
			el(
				'header',
				{},
				el('span', {class: 'answer-n', text: String(i + 1)}),
				badges,
				iconButton('copy', `Copy answer ${i + 1}`, () => copyText(answer.text)),
			),
			text,
			el('footer', {}, numbers, take),
		);
		return {answer, card, text, badges, numbers, take};
	});
	const columns = el('div', {class: 'columns'}, ...cards.map((c) => c.card));
	new ResizeObserver(() => balance(columns, cards.length)).observe(columns);
	let keys = legend(mode);
	const element = el(
		'div',
		{class: 'compare'},
		el(
			'div',
			{class: 'compare-head'},
			el('span', {class: 'compare-title', text: title}),
			el(
				'div',
				{class: 'segments', role: 'group', 'aria-label': 'How the texts are shown'},
				...buttons,
			),
			el('span', {class: 'compare-tools'}, ...tools),
		),
		keys,
		columns,
	);

	function update() {
		const busy = running(),
			best = likeliest(answers),
			mine = chosen();
		buttons.forEach((b, i) => b.setAttribute('aria-pressed', MODES[i][0] === mode));
		if ((keys.dataset.legend ?? 'formatted') !== mode) {
			const now = legend(mode);
			keys.replaceWith(now);
			keys = now;
		}
		for (const {answer, card, text, badges, numbers, take} of cards) {
			const writing = busy && !answer.finish;
			renderText(text, answer, mode, answers, writing);
			const end = endOf(ended?.(answer) ?? answer.finish);
			badges.replaceChildren(
				...(!busy && answer === mine
					? [el('span', {class: 'badge mine', text: chosenLabel})]
					: []),
				...(!busy && answer === best
					? [el('span', {class: 'badge best', text: 'likeliest'})]
					: []),
			);
			numbers.replaceChildren(
				meter(answer),
				el('span', {class: 'muted', text: plural((answer.tokens ?? []).length, 'token')}),
				...(end ? [el('span', {class: 'badge', text: end})] : []),
			);
			card.classList.toggle('chosen', !busy && answer === mine);
			card.classList.toggle('is-best', !busy && answer === best);
			take.classList.toggle('primary', !busy && answer === mine);
			take.disabled = writing || answer.text === '';
		}
	}
	update();
	return {element, update};
}

// ---- What went wrong, in place ----

// With a time to wait the button counts it down; it works at once all the same. other: buttons in place of the retry,
// for what cannot succeed as it is.
export function problem(error, retry, other = null) {
	const button = el('button', {
		type: 'button',
		text: 'Try again',
		onclick: () => {
			clearInterval(timer);
			retry();
		},
	});
	let left = error.retryAfter ?? 0;
	const tick = () => {
		button.textContent = left > 0 ? `Try again (${left} s)` : 'Try again';
		if (left-- <= 0) clearInterval(timer);
	};
	const timer = left > 0 ? setInterval(tick, 1000) : null;
	tick();
	const what =
		error.title ??
		{'-1': 'Interrupted', 0: 'No connection', 429: 'The server is busy', settings: 'Not sent'}[
			error.status
		] ??
		`Refused (${error.status})`;
	return el(
		'div',
		{class: 'problem', role: 'alert'},
		el('div', {}, el('strong', {text: what}), el('p', {text: error.message})),
		...(other ?? [button]),
	);
}

export {timingText};
