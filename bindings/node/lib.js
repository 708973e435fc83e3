// The library itself: where it is, whether it fits, structs, errors, and handles that are freed once and never too
// early.
//
// What holds:
//  1. A handle is freed when it was closed (or collected) and nothing uses it: neither a call that is under way nor
//     another handle. So a model that is closed while its context is open lives as long as the context.
//  2. What was closed throws when it is used.
//  3. A struct is a Buffer; its fields are read and written at the offsets that koffi gives to the declarations.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const koffi = require('koffi');
const abi = require('./abi.js');

const C = abi.constants;

class LibraryError extends Error {
	get name() { return 'LibraryError'; }
}

// A call of the library failed; the fields are those of struct cohort_err.
class CohortError extends Error {
	constructor(fields) {
		super(fields.text);
		Object.assign(this, fields);
		delete this.text;
	}
	get name() { return 'CohortError'; }
}

// ---- Structs ----

const types = {};
for (const [name, fields] of abi.structs) {
	const members = {};
	for (const [f, t] of Object.entries(fields)) members[f] = Array.isArray(t) ? koffi.array(t[0], t[1]) : t;
	koffi.struct(name, members);
	types[name] = { name, fields, size: koffi.sizeof(name), offsets: {} };
	for (const f of Object.keys(fields)) types[name].offsets[f] = koffi.offsetof(name, f);
}

function number(big) {
	const n = Number(big);
	return Number.isSafeInteger(n) ? n : big;
}
const readers = {
	'int': (b, at) => b.readInt32LE(at),
	'int32_t': (b, at) => b.readInt32LE(at),
	'unsigned int': (b, at) => b.readUInt32LE(at),
	'uint32_t': (b, at) => b.readUInt32LE(at),
	'uint8_t': (b, at) => b.readUInt8(at),
	'bool': (b, at) => b.readUInt8(at) !== 0,
	'int64_t': (b, at) => number(b.readBigInt64LE(at)),
	'uint64_t': (b, at) => number(b.readBigUInt64LE(at)),
	'size_t': (b, at) => number(b.readBigUInt64LE(at)),
	'float': (b, at) => b.readFloatLE(at),
	'double': (b, at) => b.readDoubleLE(at),
	'void *': (b, at) => b.readBigUInt64LE(at),
};
const writers = {
	'int': (b, at, v) => b.writeInt32LE(v, at),
	'int32_t': (b, at, v) => b.writeInt32LE(v, at),
	'unsigned int': (b, at, v) => b.writeUInt32LE(v, at),
	'uint32_t': (b, at, v) => b.writeUInt32LE(v, at),
	'uint8_t': (b, at, v) => b.writeUInt8(v, at),
	'bool': (b, at, v) => b.writeUInt8(v ? 1 : 0, at),
	'int64_t': (b, at, v) => b.writeBigInt64LE(BigInt(v), at),
	'uint64_t': (b, at, v) => b.writeBigUInt64LE(BigInt(v), at),
	'size_t': (b, at, v) => b.writeBigUInt64LE(BigInt(v), at),
	'float': (b, at, v) => b.writeFloatLE(v, at),
	'double': (b, at, v) => b.writeDoubleLE(v, at),
	'void *': (b, at, v) => b.writeBigUInt64LE(BigInt(v), at),
};

class Struct {
	constructor(name, buffer) {
		this.type = types[name];
		this.buffer = buffer || Buffer.alloc(this.type.size);
		this.kept = []; // what its pointers point to
	}
	get(field) { return readers[this.type.fields[field]](this.buffer, this.type.offsets[field]); }
	set(field, value) {
		writers[this.type.fields[field]](this.buffer, this.type.offsets[field], value);
		return this;
	}
	// Points a field at a Buffer or typed array, which lives as long as the struct.
	point(field, value) {
		this.kept.push(value);
		return this.set(field, koffi.address(value));
	}
	// A struct within it.
	sub(field) {
		const t = types[this.type.fields[field]], at = this.type.offsets[field];
		const s = new Struct(t.name, this.buffer.subarray(at, at + t.size));
		s.kept = this.kept;
		return s;
	}
	text(field) { return string(this.get(field)); }
	object() {
		const out = {};
		for (const [f, t] of Object.entries(this.type.fields))
			if (readers[t] && t !== 'void *') out[f] = this.get(f);
		return out;
	}
	// Sets a number or a flag by name; false if there is none of that name.
	option(field, value) {
		const t = this.type.fields[field];
		// Not a pointer, nor the length of what one points to: these are set by who has the memory.
		if (!writers[t] || t === 'void *' || field === 'struct_size') return false;
		if (field.startsWith('n_') && field.slice(2) in this.type.fields) return false;
		if (typeof value !== 'number' && typeof value !== 'bigint' && typeof value !== 'boolean')
			throw new TypeError(`${field}: a number or a flag is wanted`);
		this.set(field, typeof value === 'boolean' ? Number(value) : value);
		return true;
	}
}

// Sets fields by name, each in the first struct that has it.
function fill(structs, options) {
	for (const [name, value] of Object.entries(options))
		if (value !== undefined && !structs.some((s) => s.option(name, value)))
			throw new TypeError(`no such option: ${name}`);
}

// ---- Memory of the library's, copied ----

function string(p) { return p ? koffi.decode.string(p) : ''; }
function bytes(p, n) { return n && p ? Buffer.from(Buffer.from(koffi.view(p, n))) : Buffer.alloc(0); }
function floats(p, n) { return n && p ? new Float32Array(koffi.view(p, 4 * n)).slice() : new Float32Array(0); }
function ints(p, n) { return n && p ? Array.from(new Int32Array(koffi.view(p, 4 * n))) : []; }
function cstring(s) {
	const b = Buffer.from(s);
	if (b.includes(0)) throw new TypeError('a text with a NUL in it');
	return Buffer.concat([b, Buffer.alloc(1)]);
}
function pointers(list) { // of Buffers
	const b = Buffer.alloc(8 * list.length + 8);
	list.forEach((x, i) => b.writeBigUInt64LE(koffi.address(x), 8 * i));
	b.kept = list;
	return b;
}

// ---- The library ----

function load() {
	const name = 'libcohort.so.0'; // its number is not the version's: docs/abi.md
	const own = path.join(__dirname, name);
	const named = process.env.COHORT_LIBRARY;
	const places = named ? [named] : fs.existsSync(own) ? [own, name] : [name];
	const tried = [];
	for (const place of places) {
		try {
			return [koffi.load(place), place];
		} catch (e) {
			tried.push(`${place}: ${e.message}`);
		}
	}
	throw new LibraryError(`libcohort was not found: ${tried.join('; ')}. ` +
		'Install it, or set COHORT_LIBRARY to the path of libcohort.so');
}

const [library, place] = load();
const lib = {};
const wanted = `${abi.version[0]}.${abi.version[1]}`;

function bind(name) {
	const [result, params] = abi.functions[name];
	try {
		lib[name] = library.func(name, result, params);
	} catch (e) {
		throw new LibraryError(`${place} has no ${name}: it is not libcohort ${wanted}`);
	}
}
bind('cohort_version');
const version = string(lib.cohort_version());
// Until 1.0 structs may change with the minor number.
if (version.split('.').slice(0, 2).join('.') !== wanted)
	throw new LibraryError(`${place} is version ${version}; these bindings are for ${wanted}`);
Object.keys(abi.functions).forEach(bind);
for (const t of Object.values(types)) {
	const init = lib[t.name + '_init'];
	if (!init || Object.keys(t.fields)[0] !== 'struct_size') continue;
	const room = Buffer.alloc(t.size + 4096);
	init(room);
	const size = number(room.readBigUInt64LE(0));
	if (size !== t.size)
		throw new LibraryError(`struct ${t.name} has ${size} bytes in ${place} and ${t.size} in these ` +
			'bindings: they are for another version');
}

function init(name) {
	const s = new Struct(name);
	lib[name + '_init'](s.buffer);
	return s;
}

// ---- Errors ----

function errorOf(e) {
	const at = e.type.offsets.text;
	const text = e.buffer.toString('utf8', at, e.buffer.indexOf(0, at));
	const o = e.object();
	return new CohortError({ ...o, text, rule: e.get('rule') ? e.text('rule') : null });
}
function errorAt(p) {
	return p ? errorOf(new Struct('cohort_err', bytes(p, types.cohort_err.size))) : null;
}
// Calls a function whose last parameter is the error.
function call(name, ...args) {
	const e = new Struct('cohort_err');
	if (lib[name](...args, e.buffer) !== C.COHORT_OK) throw errorOf(e);
}
function callPointer(name, ...args) {
	const e = new Struct('cohort_err');
	const p = lib[name](...args, e.buffer);
	if (!p) throw errorOf(e);
	return p;
}
// The same on a thread of the pool.
function callAsync(name, ...args) {
	const e = new Struct('cohort_err');
	return new Promise((resolve, reject) => {
		lib[name].async(...args, e.buffer, (failure, status) => {
			void args; // alive until here
			if (failure) reject(failure);
			else if (status !== C.COHORT_OK) reject(errorOf(e));
			else resolve();
		});
	});
}
function opened(name, ...args) {
	const out = Buffer.alloc(8);
	call(name, ...args, out);
	return out.readBigUInt64LE(0);
}
async function openedAsync(name, ...args) {
	const out = Buffer.alloc(8);
	await callAsync(name, ...args, out);
	return out.readBigUInt64LE(0);
}

// ---- Handles ----

// Apart from the handle, so that it can be freed when the handle was collected.
function hold(state) {
	if (state.closed) throw new Error(`the ${state.what} is closed`);
	state.users++;
}
function letGo(state) {
	state.users--;
	end(state);
}
function end(state) {
	if (!state.closed || state.users > 0 || state.freed) return;
	state.freed = true;
	state.free(state.pointer);
	state.parents.forEach(letGo);
}
function close(state) {
	state.closed = true;
	end(state);
}
const collected = new FinalizationRegistry(close);

class Handle {
	constructor(what, pointer, free, parents = []) {
		const states = parents.map((p) => p._state);
		states.forEach((s) => { s.users++; }); // closed or not: they are in use by who makes this one
		this._state = { what, pointer, free, parents: states, users: 0, closed: false, freed: false };
		this._queue = Promise.resolve();
		this._busy = 0;
		collected.register(this, this._state, this._state);
	}
	get closed() { return this._state.closed; }
	// Frees it, as soon as nothing uses it any more. Twice does nothing.
	close() {
		collected.unregister(this._state);
		close(this._state);
	}
	// The library's pointer, for a call at once. One thread at a time: not while a call is under way.
	_pointer() {
		if (this._state.closed) throw new Error(`the ${this._state.what} is closed`);
		if (this._busy) throw new Error(`the ${this._state.what} is busy: wait for the call before`);
		return this._state.pointer;
	}
	// A call on another thread: one at a time, in the order they were made. `beside` are other handles it uses.
	_later(work, beside = []) {
		const all = [this, ...beside];
		all.forEach((h) => hold(h._state));
		all.forEach((h) => h._busy++);
		const done = this._queue.then(() => work(...all.map((h) => h._state.pointer))).finally(() => {
			all.forEach((h) => h._busy--);
			all.forEach((h) => letGo(h._state));
		});
		this._queue = done.catch(() => {});
		return done;
	}
}

// ---- Samplers' options, for samplers and requests ----

// Fills the params of a sampler; returns the options that are not its own, and the handles that must outlive it.
function samplerParams(p, model, { order, bias, grammar, dry_breakers: breakers, ...rest }) {
	const handles = [];
	if (order !== undefined) call('cohort_sampler_order_parse', p.buffer, cstring(order));
	const pairs = bias ? [...(bias instanceof Map ? bias : Object.entries(bias))] : [];
	if (pairs.length > 0) {
		const t = types.cohort_logit_bias, list = Buffer.alloc(t.size * pairs.length);
		pairs.forEach(([token, b], i) => {
			const s = new Struct(t.name, list.subarray(i * t.size, (i + 1) * t.size));
			s.set('token', Number(token)).set('bias', b);
		});
		p.point('bias', list).set('n_bias', pairs.length);
	}
	if (grammar) {
		p.set('grammar', grammar._pointer());
		handles.push(grammar);
	}
	if (breakers && breakers.length > 0) {
		handles.push(model._lexicon());
		p.set('lexicon', handles[handles.length - 1]._pointer());
		p.point('dry_breakers', pointers(breakers.map(cstring))).set('n_dry_breakers', breakers.length);
	}
	return { rest, handles };
}

module.exports = {
	C, CohortError, Handle, LibraryError, Struct, bytes, call, callAsync, callPointer, cstring, errorAt, fill,
	floats, init, ints, koffi, lib, opened, openedAsync, pointers, samplerParams, string, types, version,
};
