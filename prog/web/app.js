// The page as a whole: views, theme, drawers, the list of conversations, keys.
import {getJSON} from './api.js';
import {popEscape, tokensOpen} from './answers.js';
import {chatConv, chatKeptElsewhere, chatOpen, chatPossible, chatRunning, chatShow, chatStop} from './chat.js';
import {completeOpen, completeStop} from './complete.js';
import {$, choices, download, el, icon, iconButton, recall, remember, toast} from './dom.js';
import {liveOpen, liveShow} from './live.js';
import {settingsCount, settingsDefaults, settingsOpen} from './settings.js';
import {
	convDelete,
	convGet,
	convList,
	convNew,
	convRename,
	convRestore,
	exportOf,
	importFrom,
	storeLoad,
} from './store.js';

let model; // the name that requests carry
let n_ctx = 0; // tokens that a conversation can have; 0: unknown
let renaming = null;

// ---- Theme ----

const THEMES = {
	auto: ['auto', 'Theme: as the system has it'],
	light: ['sun', 'Theme: light'],
	dark: ['moon', 'Theme: dark'],
};

function theme(name) {
	const known = THEMES[name] ? name : 'auto';
	if (known === 'auto') delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = known;
	$('theme').replaceChildren(icon(THEMES[known][0]));
	$('theme').setAttribute('aria-label', THEMES[known][1]);
	$('theme').title = THEMES[known][1];
	remember('theme', known);
	document.dispatchEvent(new Event('themechange'));
}

function nextTheme() {
	const names = Object.keys(THEMES);
	theme(names[(names.indexOf(recall('theme', 'auto')) + 1) % names.length]);
}

// ---- Drawers: beside the page where there is room, over it on a phone ----

const narrow = matchMedia('(max-width: 860px)');
const middle = matchMedia('(max-width: 1180px)');

function drawer(name, on) {
	document.body.classList.toggle(name + '-on', on);
	const opener = name === 'side' ? $('list-open') : $('settings-open');
	opener.setAttribute('aria-expanded', on);
	const over = (name === 'side' ? narrow : middle).matches;
	$('scrim').hidden = !(over && on);
	if (over && on) $(name).querySelector('button, input, textarea')?.focus();
	if (name === 'settings' && !middle.matches) remember('settings-shown', on);
}

function closeDrawers() {
	const was = !$('scrim').hidden;
	if (was) {
		const opener = document.body.classList.contains('side-on') ? $('list-open') : $('settings-open');
		drawer('side', false);
		drawer('settings', false);
		opener.focus();
	}
	return was;
}

// ---- Views ----

function view() {
	const name = ['chat', 'complete', 'batch'].find((v) => location.hash === '#' + v) ?? 'chat';
	for (const v of ['chat', 'complete', 'batch']) $('view-' + v).hidden = v !== name;
	for (const tab of document.querySelectorAll('.tabs a')) {
		if (tab.dataset.view === name) tab.setAttribute('aria-current', 'page');
		else tab.removeAttribute('aria-current');
	}
	document.body.dataset.view = name;
	closeDrawers();
	liveShow(name === 'batch' && !document.hidden);
	return name;
}

// ---- Conversations ----

function when(at) {
	const days = Math.floor((new Date().setHours(24, 0, 0, 0) - at) / 864e5);
	return days <= 0
		? 'Today'
		: days === 1
			? 'Yesterday'
			: days < 7
				? 'This week'
				: days < 31
					? 'This month'
					: 'Earlier';
}

// chatShow says that something changed, and then the list is drawn.
const show = chatShow;

function fresh() {
	location.hash = '#chat';
	show(convNew());
	if (narrow.matches) closeDrawers();
	$('input').focus();
}

function remove(id) {
	const conv = convGet(id);
	if (!conv) {
		// what cannot be read can still be taken off the list
		convDelete({id});
		return drawList();
	}
	chatStop(id);
	convDelete(conv);
	if (chatConv() === conv) show(convNew());
	else drawList();
	toast(`Deleted “${conv.title.slice(0, 40)}”`, 'Undo', () => {
		convRestore(conv);
		drawList();
	});
}

function entry({id, title}) {
	const current = chatConv().id === id;
	if (renaming === id) {
		const end = (keep) => {
			if (renaming !== id) return;
			renaming = null;
			if (keep) convRename(convGet(id), input.value);
			drawList();
		};
		const input = el('input', {
			type: 'text',
			value: title,
			'aria-label': 'New name',
			onblur: () => end(true),
			onkeydown: (e) => {
				if (e.key === 'Enter') end(true);
				if (e.key === 'Escape') {
					e.stopPropagation();
					end(false);
				}
			},
		});
		queueMicrotask(() => input.select());
		return el('li', {class: 'conv'}, input);
	}
	return el(
		'li',
		{class: 'conv' + (current ? ' current' : '') + (chatRunning(id) ? ' running' : '')},
		el('button', {
			type: 'button',
			class: 'conv-name',
			text: title,
			title,
			'aria-current': current ? 'true' : null,
			onclick: () => {
				const conv = convGet(id);
				if (!conv) return toast('This conversation cannot be read');
				location.hash = '#chat';
				show(conv);
				closeDrawers();
			},
		}),
		el(
			'span',
			{class: 'conv-tools'},
			iconButton('edit', 'Rename', () => {
				renaming = id;
				drawList();
			}),
			iconButton('save', 'Export', () => download('conversation.json', exportOf([convGet(id)]))),
			iconButton('trash', 'Delete', () => remove(id)),
		),
	);
}

function drawList() {
	const title = convList().find((c) => c.id === chatConv().id)?.title;
	document.title = title ? `${title} · cohort` : 'cohort';
	remember('current', chatConv().id);
	// A name that is being written stays as it is; its end draws the list.
	if (renaming !== null && $('convs').querySelector('input')) return;
	const parts = [];
	let group = '';
	for (const c of convList()) {
		if (when(c.at) !== group) {
			group = when(c.at);
			parts.push(el('li', {class: 'conv-group', text: group}));
		}
		parts.push(entry(c));
	}
	if (parts.length === 0)
		parts.push(el('li', {class: 'conv-none', text: 'Conversations are kept in this browser only.'}));
	$('convs').replaceChildren(...parts);
}

async function importFile(file) {
	try {
		const convs = importFrom(await file.text());
		if (convs.length > 0) show(convs[0]);
		drawList();
		toast(`Imported ${convs.length}`);
	} catch (e) {
		toast(e.message);
	}
}

// ---- The server ----

async function hello() {
	try {
		const models = await getJSON('/v1/models');
		model = models?.data?.[0]?.id;
		const props = await getJSON('/props');
		settingsDefaults(props);
		// More answers than slots are refused.
		for (const id of ['n', 'text-n']) choices($(id), Math.min(16, props.total_slots || 16));
		const sizes = [props.n_ctx, props.default_generation_settings?.n_ctx].filter((n) => n > 0);
		n_ctx = sizes.length > 0 ? Math.min(...sizes) : 0; // of one conversation
		chatPossible(props.has_chat !== false);
		if (props.has_chat === false && location.hash === '') location.replace('#complete');
		const facts = [
			n_ctx ? `${n_ctx.toLocaleString('en')} tokens` : '',
			props.total_slots ? `${props.total_slots} slots` : '',
		].filter(Boolean);
		$('model').replaceChildren(
			el('b', {text: model ?? 'model'}),
			el('span', {class: 'muted', text: facts.join(' · ')}),
		);
		$('model').title = [model, ...facts].filter(Boolean).join(' · ');
	} catch (e) {
		$('model').replaceChildren(
			el('button', {
				type: 'button',
				class: 'small bad',
				text: e.status === 401 ? 'Enter a key' : 'No connection: try again',
				title: e.message,
				onclick: hello,
			}),
		);
	}
}

function settingsBadge() {
	const n = settingsCount();
	$('settings-open').dataset.n = n > 0 ? n : '';
	$('settings-open').setAttribute('aria-label', n > 0 ? `Sampler settings, ${n} set` : 'Sampler settings');
}

// ---- Keys ----

function keys(e) {
	if (e.altKey && !e.ctrlKey && !e.metaKey && e.code === 'KeyN') {
		e.preventDefault();
		fresh();
	} else if (e.key === 'Escape' && !document.querySelector('dialog[open]')) {
		const stop = {chat: chatStop, complete: completeStop}[document.body.dataset.view];
		if (popEscape() || closeDrawers() || stop?.()) e.preventDefault();
	}
}

function start() {
	theme(recall('theme', 'auto'));
	$('list-open').append(icon('menu'));
	$('settings-open').append(icon('sliders'));
	$('settings-close').append(icon('close'));
	settingsOpen(settingsBadge);
	settingsBadge();
	tokensOpen();
	storeLoad();
	chatOpen({changed: drawList, model: () => model, n_ctx: () => n_ctx});
	completeOpen(() => model);
	liveOpen(() => n_ctx);
	const current = convGet(recall('current', ''));
	if (current && convList().some((c) => c.id === current.id)) show(current);
	else drawList();
	$('theme').addEventListener('click', nextTheme);
	$('new').addEventListener('click', fresh);
	$('list-open').addEventListener('click', () => drawer('side', !document.body.classList.contains('side-on')));
	$('settings-open').addEventListener('click', () =>
		drawer('settings', !document.body.classList.contains('settings-on')),
	);
	$('settings-close').addEventListener('click', () => {
		drawer('settings', false);
		$('settings-open').focus();
	});
	$('scrim').addEventListener('click', closeDrawers);
	$('export').addEventListener('click', () =>
		download(
			'conversations.json',
			exportOf(
				convList()
					.map((c) => convGet(c.id))
					.filter(Boolean),
			),
		),
	);
	$('import').addEventListener('click', () => $('import-file').click());
	$('import-file').addEventListener('change', (e) => {
		if (e.target.files[0]) importFile(e.target.files[0]);
		e.target.value = '';
	});
	addEventListener('hashchange', view);
	document.querySelector('.skip').addEventListener('click', (e) => {
		e.preventDefault(); // the address says which view is shown
		$('main').focus();
	});
	addEventListener('keydown', keys);
	addEventListener('storage', (e) => {
		// another tab of this page
		if (e.key === 'cohort.list') {
			storeLoad();
			drawList();
		} else if (e.key?.startsWith('cohort.c.') && e.newValue !== null) {
			chatKeptElsewhere(e.key.slice('cohort.c.'.length));
		}
	});
	document.addEventListener('visibilitychange', () =>
		liveShow(document.body.dataset.view === 'batch' && !document.hidden),
	);
	for (const m of [narrow, middle])
		m.addEventListener('change', () => {
			$('scrim').hidden = true;
			document.body.classList.remove('side-on', 'settings-on');
		});
	if (!middle.matches && recall('settings-shown', false)) drawer('settings', true);
	view();
	if (!narrow.matches && document.body.dataset.view === 'chat') $('input').focus();
	hello();
}

start();
