// The chat: the branch one sees, what is being written, and everything one can do with a message.
//
// A job is what runs for a conversation; there is at most one each, and several conversations may run at once. A job
// holds the very nodes that are shown, so that going to another conversation and back loses nothing.
import {isAbort} from './api.js';
import {compareView, endOf, legend, meter, problem, renderText, timingText} from './answers.js';
import {beginAt, contextMeter, contextSize, endedFull, isFull} from './context.js';
import {
	$,
	announce,
	autosize,
	choices,
	copyText,
	el,
	iconButton,
	plural,
	Reader,
	recall,
	remember,
	throttle,
	toast,
} from './dom.js';
import {generate, likeliest} from './generate.js';
import {settingsBody} from './settings.js';
import {
	addNode,
	convGet,
	convNew,
	convPart,
	convReread,
	convSave,
	convTouch,
	messagesTo,
	path,
	picked,
	removeNode,
	ROOT,
	sentTo,
	siblings,
} from './store.js';

let conv = convNew();
let hooks = {changed() {}, model: () => undefined, n_ctx: () => 0};
const jobs = new Map(); // conversation's id -> job
const problems = new Map(); // the message without its answer -> the error
let views = []; // [{nodes, update}] of what is shown
let editing = null; // the message being edited
let lostFocus = null; // what had the focus, when it is not there for a while
let fitInput = () => {};

export const chatConv = () => conv;
export const chatRunning = (id) => jobs.has(id);

// ---- Running ----

async function run(parent, n) {
	const c = conv;
	let request;
	try {
		request = settingsBody(siblings(c, parent).length);
	} catch (e) {
		problems.set(parent, Object.assign(e, {status: 'settings'}));
		return render();
	}
	problems.delete(parent);
	editing = null;
	const messages = messagesTo(c, parent);
	const n_before = siblings(c, parent).length;
	const nodes = Array.from({length: n}, () => addNode(c, parent, 'assistant', ''));
	const job = {conv: c, nodes, abort: new AbortController(), touched: false, reader: new Reader()};
	jobs.set(c.id, job);
	c.pick[parent] = nodes[0].id;
	if (n > 1) c.compare[parent] = true;
	else delete c.compare[parent];
	render();
	if (n > 1) {
		// the question stays in sight, and the columns grow below it; behind other answers, the new ones do
		if (n_before > 0) job.anchor = nodes[0].id;
		else document.querySelector(`.message[data-id="${parent}"]`)?.scrollIntoView({block: 'start'});
	} else {
		job.follow = true;
		stick(true);
	}
	anchor(job);
	announce(n > 1 ? `${n} answers are being written` : 'The answer is being written');
	const draw = throttle(
		() => {
			if (conv === c) drawJob(job);
		},
		n > 4 ? 90 : 40,
	);
	const keep = throttle(() => jobs.get(c.id) === job && convSave(c), 2000);
	let failure = null;
	try {
		await generate({
			path: '/v1/chat/completions',
			body: {model: hooks.model(), messages, ...request.body},
			alternatives: request.alternatives,
			answers: nodes,
			signal: job.abort.signal,
			changed: () => {
				draw();
				keep();
			},
		});
	} catch (e) {
		failure = e;
	}
	jobs.delete(c.id);
	finish(job, failure);
}

// What was not finished is kept if it has a text; nothing at all is taken back, and the error says why.
function finish(job, failure) {
	const {conv: c, nodes} = job;
	const parent = nodes[0].parent;
	for (const node of nodes) {
		if (node.finish) continue;
		node.finish = failure && !isAbort(failure) ? 'error' : 'stopped';
		if (node.text === '') removeNode(c, node);
	}
	const left = nodes.filter((x) => c.nodes[x.id]);
	if (failure && !isAbort(failure)) problems.set(parent, failure);
	const best = likeliest(left);
	if (best && !job.touched) c.pick[parent] = best.id;
	if (nodes.length === 1 && left.length === 1) job.reader.push(left[0].text, true);
	else if (best) announce(`All are done. Continuing from answer ${siblings(c, parent).indexOf(best) + 1}`);
	convTouch(c);
	if (conv === c) {
		const follow = follows(job);
		render();
		anchor(job);
		if (follow) stick(false);
	}
	hooks.changed();
}

export function chatStop(id = conv.id) {
	const job = jobs.get(id);
	job?.abort.abort();
	return job !== undefined;
}

// Another tab has kept a conversation: this one shows what it kept, and does not write over it what it had read before.
// What is being written or edited here goes on beside it.
export function chatKeptElsewhere(id) {
	const job = jobs.get(id);
	if (job || (conv.id === id && editing)) {
		const mine = job?.conv ?? conv;
		jobs.delete(id);
		convPart(mine);
		if (job) jobs.set(mine.id, job);
		toast(`Another tab wrote into “${mine.title.slice(0, 40)}”, too: both are kept`);
		hooks.changed();
	} else {
		convReread(id);
		if (conv.id === id) {
			conv = convGet(id) ?? conv;
			render();
		}
	}
}

// ---- Doing ----

const wanted = () => Number($('n').value) || 1;

function send(text) {
	const tip = path(conv).at(-1);
	if (tip) delete conv.compare[tip.parent];
	const node = addNode(conv, tip?.id ?? ROOT, 'user', text);
	if (!conv.named && node.parent === ROOT) {
		conv.title = text.replace(/\s+/g, ' ').trim().slice(0, 60);
		conv.named = true;
	}
	convTouch(conv);
	hooks.changed();
	run(node.id, wanted());
}

// Leaves out the oldest messages, so that half of the context is free again.
function leaveOut(id) {
	const first = beginAt(conv, id, hooks.n_ctx());
	if (!first) return false;
	first.cut = id;
	problems.delete(id);
	convSave(conv);
	return true;
}

// The last messages again, as a conversation of their own. Returns the copy of the message.
function copyLast(id) {
	const nodes = sentTo(conv, id);
	const first = beginAt(conv, id, hooks.n_ctx());
	const made = convNew();
	Object.assign(made, {title: conv.title, named: conv.named, system: conv.system});
	let at = ROOT;
	for (const n of nodes.slice(nodes.indexOf(first))) {
		const copy = addNode(made, at, n.role, n.text);
		if (n.tokens) copy.tokens = n.tokens;
		if (n.finish) copy.finish = n.finish;
		at = copy.id;
	}
	convTouch(made);
	chatShow(made);
	return at;
}

// Ways on when the context is full: asked is the message to answer then, or null where all are answered.
function waysOn(id, asked) {
	const button = (text, onclick, props) => el('button', {type: 'button', text, onclick, ...props});
	if (!beginAt(conv, id, hooks.n_ctx()))
		return asked
			? [
					button('Edit the message', () => {
						editing = conv.nodes[id];
						render();
					}),
					button('Try again', () => run(id, wanted())),
				]
			: [button('New conversation', () => chatShow(convNew()))];
	return [
		button('Leave out the oldest messages', () => {
			leaveOut(id);
			if (asked) run(id, wanted());
			else render();
			$('input').focus();
		}),
		button('Copy the last ones into a new conversation', () => {
			const at = copyLast(id);
			if (asked) run(at, wanted());
			$('input').focus();
		}),
	];
}

// What a full context is called, and what can be done. A single message that is too long stays the server's refusal.
function contextProblem(error, id, asked) {
	const alone = !beginAt(conv, id, hooks.n_ctx());
	const text = alone
		? asked
			? 'This message does not fit into the model’s context: '
			: 'The last question and its answer fill the model’s context. '
		: 'The conversation does not fit into the model’s context any more. ';
	const hint = alone && asked ? ' Shorten it, or lower “Max tokens” in the settings.' : '';
	const said = error?.message ? error.message.replace(/[^.]$/, '$&.') : '';
	const title = alone && asked ? 'Too long' : 'The context is full';
	return problem({title, message: text + said + hint}, null, [el('div', {class: 'ways'}, ...waysOn(id, asked))]);
}

function choose(parent, node) {
	const job = jobs.get(conv.id);
	if (job) job.touched = true;
	conv.pick[parent] = node.id;
	convSave(conv);
}

function step(node, by) {
	const all = siblings(conv, node.parent);
	choose(node.parent, all[all.indexOf(node) + by]);
	render();
	document.querySelector(`[data-steps="${node.parent}"] button[data-by="${by}"]`)?.focus();
}

// An edited question is a new branch and asks again; an edited answer is a new branch.
function edited(node, text) {
	editing = null;
	if (text.trim() === '' || text === node.text) return render();
	const made = addNode(conv, node.parent, node.role, text);
	convTouch(conv);
	hooks.changed();
	if (node.role === 'user') return run(made.id, wanted());
	made.finish = 'edited';
	delete conv.compare[node.parent];
	convSave(conv);
	render();
}

// ---- Showing ----

function steps(node) {
	const all = siblings(conv, node.parent);
	if (all.length < 2) return null;
	const at = all.indexOf(node);
	return el(
		'span',
		{class: 'steps', 'data-steps': node.parent},
		iconButton('left', 'Previous branch', () => step(node, -1), {disabled: at === 0, 'data-by': '-1'}),
		el('span', {text: `${at + 1}/${all.length}`}),
		iconButton('right', 'Next branch', () => step(node, 1), {
			disabled: at === all.length - 1,
			'data-by': '1',
		}),
	);
}

function editor(node) {
	const area = el('textarea', {
		class: 'edit-area',
		value: node.text,
		'aria-label': 'Edit the message',
		onkeydown: (e) => {
			if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && node.role === 'user') {
				e.preventDefault();
				edited(node, area.value);
			} else if (e.key === 'Escape') {
				e.stopPropagation();
				editing = null;
				render();
			}
		},
	});
	const fit = autosize(area);
	queueMicrotask(() => {
		fit();
		area.focus();
	});
	return el(
		'div',
		{class: 'editor'},
		area,
		el(
			'div',
			{class: 'row-end'},
			el('button', {
				type: 'button',
				class: 'ghost small',
				text: 'Cancel',
				onclick: () => {
					editing = null;
					render();
				},
			}),
			el('button', {
				type: 'button',
				class: 'primary small',
				text: node.role === 'user' ? 'Send as a branch' : 'Keep as a branch',
				onclick: () => edited(node, area.value),
			}),
		),
	);
}

function actions(node, busy) {
	const answer = node.role === 'assistant';
	const many = answer && siblings(conv, node.parent).length > 1;
	const row = el(
		'div',
		{class: 'actions'},
		steps(node),
		iconButton('copy', 'Copy', () => copyText(node.text)),
		busy
			? null
			: iconButton('edit', 'Edit', () => {
					editing = node;
					render();
				}),
		answer && !busy ? iconButton('again', 'Regenerate', () => run(node.parent, wanted())) : null,
		many
			? iconButton('columns', 'Compare the branches', () => {
					conv.compare[node.parent] = true;
					convSave(conv);
					render();
				})
			: null,
		answer && node.tokens?.length > 0
			? iconButton(
					'tokens',
					'Token probabilities',
					() => {
						remember('tokens', !recall('tokens', false));
						render();
					},
					{'aria-pressed': String(recall('tokens', false))},
				)
			: null,
	);
	return row;
}

const ended = (node) => (endedFull(conv, node, hooks.n_ctx()) ? 'context' : node.finish);

function message(node, busy) {
	const job = jobs.get(conv.id);
	const live = job?.nodes.includes(node) ?? false;
	const text = el('div', {class: 'text'});
	const numbers = el('div', {class: 'numbers'});
	const keys = el('div');
	const box = el('article', {
		class: 'message ' + node.role,
		'data-id': node.id,
		'aria-label': node.role === 'user' ? 'You' : 'Answer',
	});
	const update = () => {
		if (node.role === 'user') {
			text.textContent = node.text;
			return;
		}
		renderText(
			text,
			node,
			recall('tokens', false) ? 'probabilities' : 'formatted',
			null,
			live && jobs.get(conv.id) === job,
		);
		keys.replaceChildren(...(text.dataset.mode === 'probabilities' ? [legend('probabilities')] : []));
		const end = endOf(ended(node));
		numbers.replaceChildren(
			...[
				end ? el('span', {class: 'badge', text: end}) : null,
				node.tokens?.length > 0 ? meter(node) : null,
				el('span', {class: 'muted', text: timingText(node.timings, node)}),
			].filter(Boolean),
		);
	};
	update();
	if (editing === node) box.append(editor(node));
	else box.append(keys, text, node.role === 'assistant' ? numbers : '', actions(node, busy));
	views.push({nodes: [node], update});
	return box;
}

function comparison(parent, busy) {
	const answers = siblings(conv, parent);
	const close = iconButton('close', 'Show one answer', () => {
		delete conv.compare[parent];
		convSave(conv);
		render();
	});
	const again = busy ? null : iconButton('again', 'Regenerate', () => run(parent, wanted()));
	const view = compareView({
		answers,
		title: plural(answers.length, 'answer'),
		pickLabel: 'Continue with this',
		chosenLabel: '✓ chosen',
		ended,
		running: () => jobs.get(conv.id)?.nodes.some((n) => answers.includes(n)) ?? false,
		chosen: () => picked(conv, parent),
		pick: (node) => {
			choose(parent, node);
			delete conv.compare[parent];
			convSave(conv);
			render();
			$('input').focus();
		},
		tools: [again, close].filter(Boolean),
	});
	views.push({nodes: answers, update: view.update});
	return view.element;
}

// Where the focus is in the thread, by names: a message, and a control of it.
function focusPlace() {
	const at = document.activeElement;
	if (!$('thread').contains(at)) return null;
	if (at === $('thread')) return lostFocus;
	const name = at.classList.contains('edit-area') ? 'Edit' : at.getAttribute('aria-label');
	return {id: at.closest('[data-id]')?.dataset.id, name};
}

// Goes there again in what was drawn anew, or to the last control of that name. While there is none (nothing can be
// regenerated while an answer is written) the thread itself has the focus, so that it is not lost.
function focusAgain(place) {
	if (!place) return;
	const all = [...$('thread').querySelectorAll(`[aria-label="${CSS.escape(place.name ?? '')}"]`)];
	const found = all.find((e) => e.closest('[data-id]')?.dataset.id === place.id) ?? all.at(-1);
	lostFocus = found ? null : place;
	(found ?? $('thread')).focus({preventScroll: true});
}

export function render() {
	const busy = jobs.has(conv.id);
	const thread = $('thread');
	const place = focusPlace();
	views = [];
	const parts = [];
	for (const node of path(conv)) {
		if (node.cut)
			parts.push(
				el(
					'div',
					{class: 'cut', role: 'note'},
					el('span', {text: 'Messages above this line are no longer sent to the model'}),
					el('button', {
						type: 'button',
						class: 'ghost small',
						text: 'Send them again',
						onclick: () => {
							delete node.cut;
							convSave(conv);
							render();
						},
					}),
				),
			);
		const compare =
			node.role === 'assistant' &&
			conv.compare[node.parent] &&
			siblings(conv, node.parent).length > 1;
		parts.push(compare ? comparison(node.parent, busy) : message(node, busy));
	}
	const tip = path(conv).at(-1);
	const asked = tip?.role === 'assistant' ? tip.parent : tip?.id;
	const error = problems.get(asked);
	if (error && !busy)
		parts.push(
			error.code === 'context_length_exceeded'
				? contextProblem(error, asked, true)
				: problem(error, () => run(asked, wanted())),
		);
	else if (tip?.role === 'assistant' && !busy && isFull(conv, tip.id, hooks.n_ctx()))
		parts.push(contextProblem(null, tip.id, false));
	if (!error && !busy && tip?.role === 'user')
		parts.push(
			el(
				'div',
				{class: 'actions lone'},
				el('button', {
					type: 'button',
					class: 'small',
					text: 'Answer this',
					onclick: () => run(tip.id, wanted()),
				}),
			),
		);
	if (parts.length === 0) parts.push(welcome());
	thread.replaceChildren(...parts);
	if (!editing) focusAgain(place); // an editor takes the focus by itself
	thread.setAttribute('aria-busy', busy);
	$('stop').hidden = !busy;
	$('send').hidden = busy;
	$('system').value = conv.system;
	$('system-hint').textContent = conv.system.trim()
		? '· ' + conv.system.trim().replace(/\s+/g, ' ').slice(0, 60)
		: '';
	const open = tip && conv.compare[tip.parent] && !busy ? siblings(conv, tip.parent) : [];
	$('hint').textContent = open.length > 1 ? `Continuing from answer ${open.indexOf(tip) + 1}` : '';
	showContext();
}

// While something is written the answer that is seen first counts.
function showContext() {
	const tip = path(conv).at(-1);
	contextMeter($('context'), tip ? contextSize(conv, tip.id) : 0, hooks.n_ctx());
}

function welcome() {
	return el(
		'div',
		{class: 'welcome'},
		el('h1', {text: 'Ask once, read many answers'}),
		el('p', {
			text:
				'Choose how many answers you want; they are written at the same time, with their likelihood, ' +
				'and you continue with the one you like.',
		}),
		el(
			'p',
			{class: 'muted keys'},
			el('kbd', {text: 'Enter'}),
			' sends  ',
			el('kbd', {text: 'Shift Enter'}),
			' new line  ',
			el('kbd', {text: 'Esc'}),
			' stops',
		),
	);
}

function drawJob(job) {
	const follow = follows(job);
	anchor(job);
	for (const v of views) {
		if (v.nodes.some((n) => job.nodes.includes(n))) v.update();
	}
	showContext();
	if (job.nodes.length === 1) job.reader.push(job.nodes[0].text, false);
	if (follow) stick(false);
}

// Keeps the first of new answers at the top, until the reader scrolls.
function anchor(job) {
	if (job.anchor) document.querySelector(`.answer[data-id="${job.anchor}"]`)?.scrollIntoView({block: 'start'});
}

// Whether the end of a single answer, and what comes below it, stays in sight. A smooth way there may take longer than
// the answer, so that where the page is does not tell.
const follows = (job) => job.nodes.length === 1 && (job.follow || atEnd());

const atEnd = () => $('scroll').scrollHeight - $('scroll').scrollTop - $('scroll').clientHeight < 80;

function stick(smooth) {
	const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
	$('scroll').scrollTo({top: $('scroll').scrollHeight, behavior: smooth && !calm ? 'smooth' : 'instant'});
}

export function chatShow(which) {
	conv = which;
	editing = null;
	render();
	$('system-box').open = false;
	stick(false);
	hooks.changed();
}

// A model without a chat template can only continue texts.
export function chatPossible(possible) {
	$('composer').hidden = !possible;
	for (const id of ['no-chat', 'complete-why']) $(id).hidden = possible;
	render();
}

export function chatOpen(given) {
	hooks = {...hooks, ...given};
	const input = $('input'),
		n = $('n');
	const thumbs = matchMedia('(hover: none) and (pointer: coarse)'); // no Shift there: Enter is the new line
	choices(n, 16);
	n.value = String(recall('n', 1));
	n.addEventListener('change', () => remember('n', Number(n.value)));
	fitInput = autosize(input);
	$('composer').addEventListener('submit', (e) => {
		e.preventDefault();
		const text = input.value;
		if (text.trim() === '' || jobs.has(conv.id)) return;
		input.value = '';
		fitInput();
		send(text);
	});
	input.addEventListener('keydown', (e) => {
		if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && !thumbs.matches) {
			e.preventDefault();
			$('composer').requestSubmit();
		}
	});
	$('stop').addEventListener('click', () => chatStop());
	for (const event of ['wheel', 'touchmove', 'pointerdown', 'keydown'])
		$('scroll').addEventListener(
			event,
			() => jobs.forEach((job) => Object.assign(job, {anchor: null, follow: false})),
			{passive: true},
		);
	$('system').addEventListener('input', (e) => {
		conv.system = e.target.value;
		if (path(conv).length > 0) convSave(conv);
		$('system-hint').textContent = '';
	});
	addEventListener('pagehide', () => jobs.forEach((job) => convSave(job.conv)));
	render();
}
