// Conversations: trees of messages, one entry of localStorage each, and a list of them.
//
// A conversation is {id, title, named, system, at, nodes, kids, pick, compare}. nodes[id] is {id, role, parent, text,
// tokens, finish, timings}; kids[parent] lists the branches in the order they were made ('root' is the parent of the
// first message); pick[parent] is the branch one sees; compare[parent] says that all are seen side by side. A node with
// cut is the first that is sent (context.js).
import {forget, recall, remember, toast} from './dom.js';

export const ROOT = 'root';
const open = new Map(); // those in memory; what runs writes into the same object that is shown
let list = []; // [{id, title, at}], newest first

const makeId = () =>
	Array.from(crypto.getRandomValues(new Uint8Array(9)), (b) => b.toString(36).padStart(2, '0')).join('');

// Foreign data (an import, or what an older page kept) becomes a conversation, or null.
function sane(raw) {
	if (raw === null || typeof raw !== 'object' || typeof raw.nodes !== 'object' || typeof raw.kids !== 'object')
		return null;
	const text = (x, max) => (typeof x === 'string' ? x.slice(0, max) : '');
	const conv = {
		id: makeId(),
		title: text(raw.title, 200) || 'Untitled',
		named: raw.named === true,
		system: text(raw.system, 1e6),
		at: Number.isFinite(raw.at) ? raw.at : Date.now(),
		nodes: {},
		kids: {},
		pick: {},
		compare: {},
	};
	const ids = new Map([[ROOT, ROOT]]),
		todo = [ROOT];
	while (todo.length > 0) {
		// from the root, so that what is not reachable is left out and no loop can be
		const from = todo.shift(),
			parent = ids.get(from);
		const kids = Object.hasOwn(raw.kids ?? {}, from) && Array.isArray(raw.kids[from]) ? raw.kids[from] : [];
		for (const k of kids) {
			const n = typeof k === 'string' && Object.hasOwn(raw.nodes ?? {}, k) ? raw.nodes[k] : null;
			if (
				n === null ||
				typeof n !== 'object' ||
				ids.has(k) ||
				!['user', 'assistant'].includes(n.role) ||
				typeof n.text !== 'string'
			)
				continue;
			if (n.text === '' && !n.finish)
				// the page was closed before anything came
				continue;
			const node = addNode(conv, parent, n.role, n.text);
			ids.set(k, node.id);
			todo.push(k);
			node.finish = text(n.finish, 40);
			if (Array.isArray(n.tokens))
				node.tokens = n.tokens
					.filter(
						(t) =>
							Array.isArray(t) &&
							typeof t[0] === 'string' &&
							Number.isFinite(t[1]),
					)
					.map((t) => [
						t[0],
						t[1],
						(Array.isArray(t[2]) ? t[2] : []).filter(
							(a) =>
								Array.isArray(a) &&
								typeof a[0] === 'string' &&
								Number.isFinite(a[1]),
						),
					]);
			if (n.timings !== null && typeof n.timings === 'object')
				node.timings = Object.fromEntries(
					Object.entries(n.timings).filter(([, v]) => Number.isFinite(v)),
				);
		}
	}
	for (const [from, to] of ids) {
		if (from !== ROOT && ids.has(raw.nodes[from].cut)) conv.nodes[to].cut = ids.get(raw.nodes[from].cut);
	}
	for (const [from, to] of Object.entries(raw.pick ?? {})) {
		if (ids.has(from) && ids.has(to)) conv.pick[ids.get(from)] = ids.get(to);
	}
	for (const from of Object.keys(raw.compare ?? {})) {
		if (ids.has(from)) conv.compare[ids.get(from)] = true;
	}
	return conv;
}

export function storeLoad() {
	const kept = recall('list', []);
	list = Array.isArray(kept) ? kept.filter((x) => typeof x?.id === 'string' && typeof x.title === 'string') : [];
	return list;
}

export const convList = () => list;

function putList(conv) {
	list = [{id: conv.id, title: conv.title, at: conv.at}, ...list.filter((x) => x.id !== conv.id)];
	list.sort((a, b) => b.at - a.at);
}

export function convNew() {
	const conv = {
		id: makeId(),
		title: 'New conversation',
		named: false,
		system: '',
		at: Date.now(),
		nodes: {},
		kids: {},
		pick: {},
		compare: {},
	};
	open.set(conv.id, conv);
	return conv;
}

export function convGet(id) {
	if (!open.has(id)) {
		const raw = recall('c.' + id, null);
		const conv = sane(raw);
		if (!conv) return null;
		conv.id = id;
		open.set(id, conv);
	}
	return open.get(id);
}

// The list names what is kept only: its entry comes behind the conversation itself.
const put = (conv, what = conv) => remember('c.' + conv.id, what) && remember('list', list);

function withoutTokens(conv) {
	const nodes = Object.entries(conv.nodes).map(([id, {tokens, ...node}]) => [id, node]);
	return {...conv, nodes: Object.fromEntries(nodes)};
}

// A full storage costs the token probabilities of the oldest conversations first, then says so. An answer that is being
// written goes on with its own, and is kept without them meanwhile.
export function convSave(conv) {
	if (conv.deleted) return;
	putList(conv);
	if (put(conv)) return;
	for (const {id} of list.toReversed()) {
		const old = convGet(id);
		for (const n of Object.values(old?.nodes ?? {})) if (n.role === 'user' || n.finish) delete n.tokens;
		if (old && remember('c.' + id, old) && put(conv)) return;
	}
	if (put(conv, withoutTokens(conv))) return;
	toast('The browser has no room left for this conversation: delete or export some');
}

export function convTouch(conv) {
	conv.at = Date.now();
	convSave(conv);
}

export function convRename(conv, title) {
	conv.title = title.trim().slice(0, 200) || 'Untitled';
	conv.named = true;
	convSave(conv);
}

// Another tab has kept the conversation: it is read anew when it is asked for, unless it cannot be.
export function convReread(id) {
	const conv = open.get(id);
	open.delete(id);
	if (conv && !convGet(id)) open.set(id, conv);
}

// Another tab has kept the conversation while this one was about to: here it becomes one of its own.
export function convPart(conv) {
	open.delete(conv.id);
	conv.id = makeId();
	open.set(conv.id, conv);
	convSave(conv);
}

export function convDelete(conv) {
	list = list.filter((x) => x.id !== conv.id);
	remember('list', list);
	forget('c.' + conv.id);
	conv.deleted = true;
}

export function convRestore(conv) {
	delete conv.deleted;
	open.set(conv.id, conv);
	convSave(conv);
}

export const exportOf = (convs) => ({format: 'cohort-conversations', version: 1, conversations: convs});

// How many were taken; throws for what is no export.
export function importFrom(text) {
	let raw;
	try {
		raw = JSON.parse(text);
	} catch {
		throw new Error('This file is no JSON');
	}
	if (raw?.format !== 'cohort-conversations' || !Array.isArray(raw.conversations))
		throw new Error('This file is no export of conversations');
	const convs = raw.conversations.map(sane).filter((c) => c !== null);
	for (const conv of convs) {
		open.set(conv.id, conv);
		convSave(conv);
	}
	return convs;
}

// ---- The tree ----

export function addNode(conv, parent, role, text) {
	const node = {id: makeId(), role, parent, text};
	conv.nodes[node.id] = node;
	(conv.kids[parent] ??= []).push(node.id);
	conv.pick[parent] = node.id;
	return node;
}

export function removeNode(conv, node) {
	const kids = conv.kids[node.parent] ?? [];
	const at = kids.indexOf(node.id);
	if (at < 0) return;
	kids.splice(at, 1);
	delete conv.nodes[node.id];
	if (kids.length < 2) delete conv.compare[node.parent];
	if (conv.pick[node.parent] === node.id) {
		if (kids.length > 0) conv.pick[node.parent] = kids[Math.min(at, kids.length - 1)];
		else delete conv.pick[node.parent];
	}
}

export const siblings = (conv, parent) => (conv.kids[parent] ?? []).map((id) => conv.nodes[id]);

export function picked(conv, parent) {
	const kids = conv.kids[parent] ?? [];
	const id = kids.includes(conv.pick[parent]) ? conv.pick[parent] : kids.at(-1);
	return id === undefined ? null : conv.nodes[id];
}

// The branch one sees, from the first message to the last.
export function path(conv) {
	const nodes = [];
	for (let n = picked(conv, ROOT); n; n = picked(conv, n.id)) nodes.push(n);
	return nodes;
}

// The messages above a node that are sent, and itself.
export function sentTo(conv, id) {
	const nodes = [];
	for (let n = conv.nodes[id]; n; n = n.cut ? null : conv.nodes[n.parent]) nodes.unshift(n);
	return nodes;
}

// What a model gets to answer the node.
export function messagesTo(conv, id) {
	const messages = sentTo(conv, id).map((n) => ({role: n.role, content: n.text}));
	if (conv.system.trim() !== '') messages.unshift({role: 'system', content: conv.system});
	return messages;
}
