// What the page is tried against: the mock, cohort serve, or a server that is there already.
//
// A target is {name, url, key, slow, real, servers}. slow is a server that writes for long, so that there is time to
// stop it and to watch it: the built-in model has said all it has to say before one can look. real: it has a model, so
// that the same request has the same answer. servers: those that the target started.
import {execFileSync, spawn} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {serve} from './serve.mjs'; // of tests/npm

const KEY = 'key-of-the-page';

async function mockTarget() {
	const program = fileURLToPath(new URL('mock.mjs', import.meta.url));
	const child = spawn(process.execPath, [program, '0', '--slow', '10', '--key', KEY], {
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	process.on('exit', () => child.kill());
	const url = await new Promise((resolve, reject) => {
		child.stdout.once('data', (text) => resolve(String(text).trim()));
		child.once('exit', () => reject(new Error('the mock did not start')));
	});
	return {name: 'mock', url, key: KEY, slow: url, real: false, servers: []};
}

// The slow server: 25 million random weights, with the reference's instructions, on one thread: some 60 tokens a second
// for one answer, some 80 for eight of them, and an end that is thousands of tokens away.
const SHAPE = 'n_vocab=4096,n_embd=512,n_layer=8,n_head=8,n_head_kv=1,n_ff=2048,n_ctx=8192';
const TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}assistant:";

async function realTarget(build) {
	const model = `${build}/web-tests/slow.gguf`,
		template = `${build}/web-tests/slow.jinja`;
	execFileSync(`${build}/cohort`, ['synth', '-s', SHAPE, '-t', 'Q8_0', '-o', model], {stdio: 'inherit'});
	writeFileSync(template, TEMPLATE);
	const slowServe = (...args) =>
		serve(
			'-m',
			model,
			'-chat-template',
			template,
			'-isa',
			'ref',
			'-threads',
			'1',
			'-c',
			'16384',
			'-api-key',
			KEY,
			...args,
		);
	const servers = [await serve('-api-key', KEY), await slowServe()];
	return {name: 'server', url: servers[0].url, key: KEY, slow: servers[1].url, real: true, servers, slowServe};
}

function givenTarget(url) {
	const base = url.replace(/\/$/, '');
	const slow = (process.env.SLOW_URL ?? base).replace(/\/$/, '');
	return {name: 'given', url: base, key: process.env.API_KEY ?? '', slow, real: true, servers: []};
}

// BASE_URL: that server, and nothing else. Else the mock, and with COHORT_BUILD the servers of that build.
export function targets() {
	if (process.env.BASE_URL) return [() => givenTarget(process.env.BASE_URL)];
	const build = process.env.COHORT_BUILD;
	return build ? [mockTarget, () => realTarget(build)] : [mockTarget];
}
