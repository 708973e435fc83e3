// The page in a real browser, all of it: see run.sh. Prints TAP; exits with 1 when a case failed.
//
// BASE_URL: a server that is there already, and nothing else; SLOW_URL: one that writes for long, for the cases that
// stop and watch it (default: the same); API_KEY: of a server that asks for one. SCREENSHOTS: a folder for pictures of
// the views. CHROMIUM: the browser. ONLY: a part of the names of the cases to run.
import {answers} from './answers.mjs';
import {chat} from './chat.mjs';
import {context} from './context.mjs';
import {foreign} from './foreign.mjs';
import {check, finish, same} from './lib.mjs';
import {live} from './live.mjs';
import {looks} from './looks.mjs';
import {settings} from './settings.mjs';
import {targets} from './targets.mjs';
import {trouble} from './trouble.mjs';

const all = targets();
for (const target of all) {
	const t = {...(await target()), last: target === all.at(-1)};
	for (const cases of [chat, answers, context, settings, live, trouble, looks, foreign]) await cases(t);
	for (const [i, server] of t.servers.entries())
		await check(t, `server ${i + 1} ends cleanly`, {blank: true}, async () =>
			same(await server.stop(), 0, 'its exit code'),
		);
}
process.exit(await finish());
