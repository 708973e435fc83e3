// How much of the model's context a conversation takes, and the ways on when it is full.
//
// A message with .cut is the first that is sent on its branch; those above it are shown and left out. cut names the
// newest message there was when it was made: what the server counted up to there had the left-out messages in it.
import {el} from './dom.js';
import {sentTo} from './store.js';

const MESSAGE = 5; // tokens around a message, by the template
const FULL = 0.97; // of the context: hardly an answer fits

// The message that the server counted last, if its count is of what is sent now, and what a character takes.
function counted(conv, nodes) {
	const cut = nodes.findIndex((n) => n.id === nodes[0]?.cut);
	const first = nodes[0]?.cut && cut < 0 ? nodes.length : cut; // on another branch: nothing is known
	for (let i = nodes.length - 1; i > first; i--) {
		const n = nodes[i];
		if (!(n.timings?.prompt_n > 0)) continue;
		const before = nodes.slice(0, i).reduce((sum, m) => sum + m.text.length, conv.system.length);
		const rate = before > 0 ? n.timings.prompt_n / before : 1 / 3;
		return {at: i, n: n.timings.prompt_n, rate: Math.max(0.1, Math.min(2, rate))};
	}
	return {at: -1, n: 0, rate: 1 / 3};
}

const own = (node, rate) =>
	node.tokens?.length > 0
		? node.tokens.length
		: node.text === ''
			? 0
			: Math.ceil(node.text.length * rate) + MESSAGE;

// Tokens of everything up to a message, and itself: what the server counted, and an estimate of what came since.
export function contextSize(conv, id) {
	const nodes = sentTo(conv, id);
	const {at, n, rate} = counted(conv, nodes);
	const rest = nodes.slice(Math.max(0, at)).reduce((sum, m) => sum + own(m, rate), 0);
	return at >= 0 ? n + rest : rest + (conv.system ? Math.ceil(conv.system.length * rate) + MESSAGE : 0);
}

// Whether an answer ended because there was no room for more.
export const endedFull = (conv, node, n_ctx) =>
	n_ctx > 0 && node.finish === 'length' && contextSize(conv, node.id) >= n_ctx - 1;

export const isFull = (conv, id, n_ctx) => n_ctx > 0 && contextSize(conv, id) >= FULL * n_ctx;

// The question to begin with so that half of the context is free, or the last one; null: there is nothing to leave out.
export function beginAt(conv, id, n_ctx) {
	const nodes = sentTo(conv, id);
	const {rate} = counted(conv, nodes);
	const questions = nodes.filter((n, i) => i > 0 && n.role === 'user');
	const size = (from) => nodes.slice(nodes.indexOf(from)).reduce((sum, m) => sum + own(m, rate), 0);
	return questions.find((q) => size(q) <= n_ctx / 2) ?? questions.at(-1) ?? null;
}

// A bar of how full it is, for the composer.
export function contextMeter(box, used, n_ctx) {
	box.hidden = !(n_ctx > 0) || used === 0;
	if (box.hidden) return;
	const part = Math.min(1, used / n_ctx);
	const [n, all] = [Math.min(used, n_ctx), n_ctx].map((x) => x.toLocaleString('en'));
	if (box.childElementCount === 0)
		box.append(
			el('span', {class: 'meter-bar'}, el('i')),
			el('span', {class: 'context-text'}),
			el('span', {class: 'context-part'}), // in its place on a phone
		);
	box.querySelector('i').style.width = part * 100 + '%';
	box.querySelector('.context-text').textContent = `${n} / ${all}`;
	box.querySelector('.context-part').textContent = Math.round(part * 100) + ' %';
	box.dataset.level = part >= FULL ? 'full' : part >= 0.8 ? 'high' : '';
	box.setAttribute('aria-valuenow', Math.round(part * 100));
	box.title = `The conversation takes ${n} of the ${all} tokens of the model's context`;
}
