// Elements, icons, notes: what every part of the page builds with. Text goes in as text nodes only; nothing here (or
// anywhere in the page) parses markup, so what a model says can never become part of the document.

// el('button', {class: 'primary', onclick: f, text: 'Send'}, child, ...). Values of null and false are left out.
export function el(tag, props = {}, ...children) {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(props)) {
		if (v === null || v === undefined || v === false) continue;
		if (k === 'class') e.className = v;
		else if (k === 'text') e.textContent = v;
		else if (k === 'value' || k === 'checked') e[k] = v;
		else if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
		else e.setAttribute(k, v === true ? '' : String(v));
	}
	e.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
	return e;
}

export const $ = (id) => document.getElementById(id);

const PATHS = {
	menu: 'M4 6h16M4 12h16M4 18h16',
	sliders: 'M4 7h9M19 7h1M4 17h1M11 17h9M16 4v6M8 14v6',
	sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5 19 19M19 5l-1.5 1.5M6.5 17.5 5 19',
	moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z',
	auto: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
	close: 'M6 6l12 12M18 6 6 18',
	copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
	edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
	again: 'M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6',
	columns: 'M4 5h6v14H4zM14 5h6v14h-6z',
	tokens: 'M4 7h5v4H4zM11 7h9v4h-9zM4 14h9v4H4zM15 14h5v4h-5z',
	left: 'M14 6l-6 6 6 6',
	right: 'M10 6l6 6-6 6',
	save: 'M12 4v11M7 11l5 5 5-5M5 20h14',
	trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
};

export function icon(name) {
	const ns = 'http://www.w3.org/2000/svg';
	const svg = document.createElementNS(ns, 'svg');
	const path = document.createElementNS(ns, 'path');
	svg.setAttribute('viewBox', '0 0 24 24');
	svg.setAttribute('aria-hidden', 'true');
	path.setAttribute('d', PATHS[name]);
	svg.append(path);
	return svg;
}

// A button that is an icon, with its name for readers and as a hint.
export function iconButton(name, label, onclick, props = {}) {
	return el(
		'button',
		{type: 'button', class: 'ghost square', 'aria-label': label, title: label, onclick, ...props},
		icon(name),
	);
}

// A note at the bottom that goes by itself; with an action it stays longer.
export function toast(text, label, action) {
	const note = el('div', {class: 'toast'}, el('span', {text}));
	const drop = () => note.remove();
	if (label) {
		note.append(
			el('button', {
				type: 'button',
				class: 'ghost small',
				text: label,
				onclick: () => {
					drop();
					action();
				},
			}),
		);
	}
	$('toasts').append(note);
	setTimeout(drop, label ? 8000 : 3500);
}

// Tells screen readers; what is streamed comes sentence by sentence, so that nothing is read twice.
export function announce(text) {
	$('announce').append(el('p', {text}));
	while ($('announce').childElementCount > 12) $('announce').firstChild.remove();
}

// Reads a growing text aloud by whole sentences.
export class Reader {
	#at = 0;

	push(text, done) {
		const fresh = text.slice(this.#at);
		const end = done ? fresh.length : fresh.search(/[.!?\n][^.!?\n]*$/) + 1;
		if (end <= 0) return;
		this.#at += end;
		announce(fresh.slice(0, end));
	}
}

export async function copyText(text) {
	try {
		if (navigator.clipboard) {
			await navigator.clipboard.writeText(text);
		} else {
			// pages over plain HTTP from elsewhere have no clipboard
			const area = el('textarea', {value: text, class: 'sr'});
			document.body.append(area);
			area.select();
			const done = document.execCommand('copy');
			area.remove();
			if (!done) throw new Error('refused');
		}
		toast('Copied');
	} catch {
		toast('The browser did not allow copying');
	}
}

export function download(name, value) {
	const url = URL.createObjectURL(
		new Blob([JSON.stringify(value, null, '\t') + '\n'], {type: 'application/json'}),
	);
	const link = el('a', {href: url, download: name});
	document.body.append(link);
	link.click();
	link.remove();
	setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// At most one call of f in ms, and one at the end.
export function throttle(f, ms) {
	let timer = null,
		last = 0;
	return () => {
		if (timer !== null) return;
		timer = setTimeout(
			() => {
				timer = null;
				last = performance.now();
				f();
			},
			Math.max(0, ms - (performance.now() - last)),
		);
	};
}

// What is remembered between visits. A browser that keeps nothing (private windows, full storage) is no failure.
export function recall(name, otherwise) {
	try {
		const text = localStorage.getItem('cohort.' + name);
		return text === null ? otherwise : JSON.parse(text);
	} catch {
		return otherwise;
	}
}

export function remember(name, value) {
	try {
		localStorage.setItem('cohort.' + name, JSON.stringify(value));
		return true;
	} catch {
		return false;
	}
}

export function forget(name) {
	try {
		localStorage.removeItem('cohort.' + name);
	} catch {
		/* there is nothing to forget then */
	}
}

export const plural = (n, one, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

// How many answers can be chosen: 1 to n. What was chosen stays, or becomes the most there is.
export function choices(select, n) {
	const was = Number(select.value) || 1;
	select.replaceChildren(...Array.from({length: n}, (_, i) => el('option', {value: i + 1, text: String(i + 1)})));
	select.value = String(Math.min(was, n));
}

// Grows with its text, up to what CSS allows.
export function autosize(area) {
	const fit = () => {
		area.style.height = 'auto';
		area.style.height = area.scrollHeight + 2 + 'px';
	};
	area.addEventListener('input', fit);
	return fit;
}
