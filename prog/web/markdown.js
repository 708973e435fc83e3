// A small Markdown, as DOM nodes: paragraphs, headings, lists, quotes, tables, code blocks, inline code, bold, italics,
// links. A link goes to http or https only and shows its address; images stay the text they are, so that nothing is
// fetched. Everything ends in a text node. What a model thinks before it answers is folded.
import {copyText, el} from './dom.js';

// Every span is bounded, so that no text (a page of asterisks, say) costs more than its length times a constant.
const INLINE = new RegExp(
	[
		'(`{1,4})([^`]|[^`][^]{0,2000}?[^`])\\1(?!`)',
		'\\*\\*(?=\\S)([^]{0,2000}?\\S)\\*\\*',
		'(?<![\\w*])\\*(?=[^\\s*])([^*]{0,2000}?[^\\s*])\\*(?![\\w*])',
		'(?<!\\w)_(?=[^\\s_])([^_]{0,2000}?[^\\s_])_(?!\\w)',
		'!\\[[^\\[\\]]{0,500}\\]\\([^\\s()]{0,2000}\\)', // a picture: stays text, its address as well
		'(?<!!)\\[([^\\[\\]]{1,500})\\]\\((https?://(?:[^\\s()<>]|\\([^\\s()<>]{0,200}\\)){1,1500})(?: {1,3}"[^"\\n]{0,300}")?\\)',
		'<(https?://[^\\s<>]{1,2000})>',
		'(?<![\\w/])(https?://[^\\s<>"`|\\\\^{}\\[\\]]{1,2000})',
	].join('|'),
);

// The address as browsers read it, or null for what is none.
function address(text) {
	try {
		const url = new URL(text);
		return ['http:', 'https:'].includes(url.protocol) ? url.href : null;
	} catch {
		return null;
	}
}

// An address in a text without the punctuation behind it; a bracket that it opens itself belongs to it.
function bare(text) {
	const open = text.indexOf('(');
	let n = text.length;
	while (n > 0 && (text[n - 1] === ')' ? open < 0 : ".,;:!?*_'".includes(text[n - 1]))) n--;
	return text.slice(0, n);
}

// linked: within a link, which can have no other.
function inline(parent, text, depth = 0, linked = false) {
	let rest = text;
	while (rest !== '') {
		const m = depth < 4 ? INLINE.exec(rest) : null;
		if (!m) break;
		if (m.index > 0) parent.append(rest.slice(0, m.index));
		let length = m[0].length;
		const to = linked ? undefined : (m[7] ?? m[8] ?? (m[9] && bare(m[9])));
		const href = to === undefined ? null : address(to);
		if (m[1] !== undefined) {
			parent.append(el('code', {text: m[2]}));
		} else if (m[3] !== undefined || m[4] !== undefined || m[5] !== undefined) {
			const child = el(m[3] !== undefined ? 'strong' : 'em');
			inline(child, m[3] ?? m[4] ?? m[5], depth + 1, linked);
			parent.append(child);
		} else if (href !== null) {
			const link = el('a', {href, title: href, target: '_blank', rel: 'noopener noreferrer'});
			inline(link, m[6] ?? to, depth + 1, true);
			parent.append(link);
			if (m[9]) length = to.length;
		} else {
			parent.append(m[0]);
		}
		rest = rest.slice(m.index + length);
	}
	if (rest !== '') parent.append(rest);
}

function codeBlock(lang, lines) {
	const text = lines.join('\n');
	return el(
		'div',
		{class: 'codeblock'},
		el(
			'div',
			{class: 'codehead'},
			el('span', {text: lang}),
			el('button', {
				type: 'button',
				class: 'ghost small',
				text: 'Copy',
				onclick: () => copyText(text),
			}),
		),
		el('pre', {tabindex: '0'}, el('code', {text})),
	);
}

// A line is gone over once: no two parts of a pattern that follow each other can take the same characters.
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(?!\s)([^]*)$/;
const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(\S[^]*)$/;

const RULE = /^ {0,3}(?=[^-]*-)[|:\- \t]+$/; // below a table's head
const CELLS_MAX = 60;

// The cells of a line of a table; a bar behind a backslash is one of the text.
function cells(line) {
	const all = [''];
	const text = line.trim().replace(/^\|/, '');
	for (let i = 0; i < text.length; i++) {
		if (text[i] === '\\' && text[i + 1] === '|') all.push(all.pop() + text[++i]);
		else if (text[i] !== '|') all.push(all.pop() + text[i]);
		else if (i + 1 < text.length && all.length < CELLS_MAX) all.push('');
	}
	return all.map((c) => c.trim());
}

// A head and a rule below it, of as many cells.
const isTable = (lines, i) =>
	lines[i].includes('|') &&
	i + 1 < lines.length &&
	RULE.test(lines[i + 1]) &&
	cells(lines[i]).length === cells(lines[i + 1]).length;

function table(lines, from, parent) {
	const head = cells(lines[from]);
	const sides = cells(lines[from + 1]).map((c) =>
		!c.endsWith(':') ? '' : c.startsWith(':') ? 'to-center' : 'to-right',
	);
	const row = (kind, texts) =>
		el(
			'tr',
			{},
			...head.map((_, k) => {
				const cell = el(kind, {class: sides[k] || null});
				inline(cell, texts[k] ?? '');
				return cell;
			}),
		);
	const body = el('tbody');
	let i = from + 2;
	for (; i < lines.length && lines[i].trim() !== '' && !begins(lines[i]); i++)
		body.append(row('td', cells(lines[i])));
	parent.append(
		el('div', {class: 'table', tabindex: '0'}, el('table', {}, el('thead', {}, row('th', head)), body)),
	);
	return i;
}

const begins = (line) => FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || line.startsWith('>');

// A heading's text without the hashes that may close it.
function headed(text) {
	let n = text.trimEnd().length;
	while (n > 1 && text[n - 1] === '#') n--;
	return text.slice(0, n).trimEnd();
}

// Items by their indentation; deeper ones go into the item before them.
function list(lines, from, parent) {
	const open = []; // [{indent, list, item}], outermost first
	let i = from;
	for (; i < lines.length; i++) {
		const m = ITEM.exec(lines[i]);
		if (!m) {
			if (lines[i].trim() === '' && i + 1 < lines.length && ITEM.test(lines[i + 1])) continue;
			if (lines[i].trim() === '' || !/^\s/.test(lines[i]) || open.length === 0) break;
			open.at(-1).item.append('\n');
			inline(open.at(-1).item, lines[i].trim());
			continue;
		}
		const indent = m[1].replaceAll('\t', '    ').length;
		const ordered = /\d/.test(m[2]);
		while (open.length > 0 && indent < open.at(-1).indent) open.pop();
		let top = open.at(-1);
		if (!top || (indent > top.indent + 1 && open.length < 6)) {
			const made = el(ordered ? 'ol' : 'ul', ordered ? {start: parseInt(m[2], 10)} : {});
			(top ? top.item : parent).append(made);
			top = {indent, list: made, item: null};
			open.push(top);
		}
		top.item = el('li');
		inline(top.item, m[3]);
		top.list.append(top.item);
	}
	return i;
}

function blocks(parent, lines, depth) {
	for (let i = 0; i < lines.length;) {
		const line = lines[i];
		const fence = FENCE.exec(line),
			heading = HEADING.exec(line);
		if (line.trim() === '') {
			i++;
		} else if (fence) {
			const end = lines.findIndex(
				(l, k) =>
					k > i &&
					l.trim().startsWith(fence[1]) &&
					l.trim().replaceAll(fence[1][0], '') === '',
			);
			const to = end < 0 ? lines.length : end; // what is still being written is open
			parent.append(codeBlock(/^[\w+#.-]*/.exec(fence[2].trimStart())[0], lines.slice(i + 1, to)));
			i = to + 1;
		} else if (heading) {
			const h = el('h' + Math.min(6, heading[1].length + 2));
			inline(h, headed(heading[2]));
			parent.append(h);
			i++;
		} else if (ITEM.test(line)) {
			i = list(lines, i, parent);
		} else if (line.startsWith('>') && depth < 4) {
			const inner = [];
			for (; i < lines.length && lines[i].startsWith('>'); i++)
				inner.push(lines[i].replace(/^> ?/, ''));
			const quote = el('blockquote');
			blocks(quote, inner, depth + 1);
			parent.append(quote);
		} else if (isTable(lines, i)) {
			i = table(lines, i, parent);
		} else {
			const from = i++;
			while (i < lines.length && lines[i].trim() !== '' && !begins(lines[i]) && !isTable(lines, i))
				i++;
			const p = el('p');
			inline(p, lines.slice(from, i).join('\n'));
			parent.append(p);
		}
	}
}

// What a model thinks: between <think> and </think> at the beginning, or up to </think> where the prompt has the first.
function apart(text) {
	const begin = /^\s{0,100}<think(?:ing)?>/.exec(text)?.[0].length ?? 0;
	const end = (begin > 0 ? /<\/think(?:ing)?>/ : /\n[ \t]{0,20}<\/think(?:ing)?>(?=[ \t]{0,20}(?:\n|$))/).exec(
		text,
	);
	if (begin === 0 && !end) return {thought: null, rest: text};
	return {
		thought: text.slice(begin, end?.index ?? text.length).trim(),
		rest: end ? text.slice(end.index + end[0].length).trimStart() : '',
		ended: end !== null,
	};
}

// Replaces what is in parent. Thoughts that were unfolded stay so while the text grows.
export function markdown(parent, text) {
	const {thought, rest, ended} = apart(text);
	if (thought) {
		const old = parent.firstElementChild;
		const box = old?.classList.contains('think')
			? old
			: el('details', {class: 'think'}, el('summary'), el('div'));
		box.firstChild.textContent = ended ? 'Thoughts' : 'Thinking …';
		box.lastChild.replaceChildren();
		blocks(box.lastChild, thought.split('\n'), 0);
		if (box === old) while (old.nextSibling) old.nextSibling.remove();
		else parent.replaceChildren(box);
	} else {
		parent.replaceChildren();
	}
	blocks(parent, rest.split('\n'), 0);
}
