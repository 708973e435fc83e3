// cohort serve as a process, for tests in JavaScript. COHORT_BUILD and COHORT_SOURCE say where things are.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const running = new Set();

/** Starts a server, on a free port unless one is given; resolves when it listens. stop(): its exit code or signal. */
export async function serve(...args) {
	const program = `${process.env.COHORT_BUILD}/cohort`;
	const model = args.includes('-m') ? [] : ['-m', `${process.env.COHORT_SOURCE}/models/cohort-tiny.gguf`];
	const port = args.includes('-port') ? [] : ['-port', '0'];
	const seed = args.includes('-seed') ? [] : ['-seed', '0']; // the same request, the same answer
	const env = { ...process.env, COHORT_CONFIG: '/dev/null' };
	const child = spawn(program, ['serve', ...port, ...model, ...seed, ...args], { stdio: ['ignore', 'ignore', 'pipe'], env });
	const said = [];
	running.add(child);
	const ended = new Promise((yes) => child.on('exit', (code, signal) => { running.delete(child); yes(code ?? signal); }));
	const url = await new Promise((yes, no) => {
		createInterface({ input: child.stderr }).on('line', (line) => {
			said.push(line);
			const m = /listening on (\S+)/.exec(line);
			if (m) yes(m[1]);
		});
		ended.then((code) => no(new Error(`cohort serve ended with ${code}: ${said.join(' / ')}`)));
	});
	return {
		url,
		said,
		async stop(signal = 'SIGTERM') {
			child.kill(signal);
			return ended;
		},
	};
}

// A signal would end this process without the word below.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));
process.on('exit', () => { for (const c of running) c.kill('SIGKILL'); });
