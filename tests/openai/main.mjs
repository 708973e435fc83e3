// OpenAI's client against cohort serve, all of it: see run.sh.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { assert, test, plan, serve, client } from './lib.mjs';
import { completions } from './completions.mjs';
import { chat } from './chat.mjs';
import { embeddings } from './embeddings.mjs';
import { errors, keys } from './errors.mjs';
import { load } from './load.mjs';
import { files } from './files.mjs';
import { tools } from './tools.mjs';

const work = `${process.env.COHORT_BUILD}/openai-tests`;
mkdirSync(work, { recursive: true });
// Files and batches need a folder, in a server that has them.
const help = execFileSync(`${process.env.COHORT_BUILD}/cohort`, ['serve', '-help']).toString();
rmSync(`${work}/data`, { recursive: true, force: true });
mkdirSync(`${work}/data`, { mode: 0o700 });
const data = /^ {2}-data /m.test(help) ? ['-data', `${work}/data`] : [];
const server = await serve('-np', '8', '-alias', 'cohort-tiny', ...data);
const ai = client(server);
await completions(ai);
await chat(ai);
await embeddings(ai);
await errors(server, ai);
await load(server, ai);
await files(server);
await test('the server ends cleanly', async () => {
	assert.equal(await server.stop(), 0);
	assert.match(server.said.at(-1), /all requests were finished/);
});

writeFileSync(`${work}/keys`, '# the keys of the tests\nkey-of-ann ann admin\nkey-of-bob bob\n', { mode: 0o600 });
const guarded = await serve('-api-key-file', `${work}/keys`, '-admin', '-np', '1', '-queue', '1');
await keys(guarded);
await test('the server with keys ends cleanly', async () => { assert.equal(await guarded.stop(), 0); });
rmSync(`${work}/keys`);

await tools();
process.exit(plan());
