// A small Markdown, as DOM nodes: paragraphs, headings, lists, quotes, code blocks, inline code, bold, italics.
// Links and images stay the text they are, so a model can point nowhere. Everything ends in a text node.
import {copyText, el} from './dom.js';

// Every span is bounded, so that no text (a page of asterisks, say) costs more than its length times a constant.
const INLINE = new RegExp(
	[
		'(`{1,4})([^`]|[^`][^]{0,2000}?[^`])\\1(?!`)',
		'\\*\\*(?=\\S)([^]{0,2000}?\\S)\\*\\*',
		'(?<![\\w*])\\*(?=[^\\s*])([^*]{0,2000}?[^\\s*])\\*(?![\\w*])',
		'(?<!\\w)_(?=[^\\s_])([^_]{0,2000}?[^\\s_])_(?!\\w)',
	].join('|'),
);

function inline(parent, text, depth = 0) {
	let rest = text;
	while (rest !== '') {
		const m = depth < 4 ? INLINE.exec(rest) : null;
		if (!m) break;
		if (m.index > 0) parent.append(rest.slice(0, m.index));
		if (m[1] !== undefined) {
			parent.append(el('code', {text: m[2]}));
		} else {
			const child = el(m[3] !== undefined ? 'strong' : 'em');
			inline(child, m[3] ?? m[4] ?? m[5], depth + 1);
			parent.append(child);
		}
		rest = rest.slice(m.index + m[0].length);
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
		} else {
			const from = i++;
			while (i < lines.length && lines[i].trim() !== '' && !begins(lines[i])) i++;
			const p = el('p');
			inline(p, lines.slice(from, i).join('\n'));
			parent.append(p);
		}
	}
}

// Replaces what is in parent.
export function markdown(parent, text) {
	parent.replaceChildren();
	blocks(parent, text.split('\n'), 0);
}
