// Files and batches, where the server has them.
import { assert, test, skip, refused, until, texts, client, OpenAI } from './lib.mjs';

const line = (i, body, url = '/v1/completions') => JSON.stringify({ custom_id: `r${i}`, method: 'POST', url, body });

/** Whether the routes are there and in use; otherwise 404 or 501. */
async function there(server) {
	return (await fetch(`${server.url}/v1/files`)).status === 200;
}

export async function files(server) {
	const ai = client(server);
	const has = await there(server);
	const upload = (text, name = 'in.jsonl') => ai.files.create({ file: new File([text], name), purpose: 'batch' });
	const run = (name, body) => test(name, async () => {
		if (!has) throw skip('the server has no /v1/files');
		await body();
	});
	const ended = async (id) => {
		let b;
		await until('the batch ends', async () => {
			b = await ai.batches.retrieve(id);
			return ['completed', 'failed', 'cancelled', 'expired'].includes(b.status);
		}, 40);
		return b;
	};

	await run('files: upload, list, retrieve, content, delete', async () => {
		const text = `${line(1, { prompt: 'Once', max_tokens: 3 })}\n`;
		const f = await upload(text);
		assert.equal(f.object, 'file');
		assert.equal(f.filename, 'in.jsonl');
		assert.equal(f.bytes, text.length);
		assert.equal(f.purpose, 'batch');
		assert.ok((await ai.files.list()).data.some((x) => x.id === f.id));
		assert.equal((await ai.files.retrieve(f.id)).id, f.id);
		assert.equal(await (await ai.files.content(f.id)).text(), text);
		assert.equal((await ai.files.delete(f.id)).deleted, true);
		await refused(OpenAI.NotFoundError, ai.files.retrieve(f.id));
	});
	await run('files: names and ids that try to leave the folder', async () => {
		const f = await upload('{}\n', '../../../etc/passwd');
		assert.equal(await (await ai.files.content(f.id)).text(), '{}\n');
		for (const id of ['..', '../x', '..%2f..%2fetc%2fpasswd', 'file-%00']) {
			const r = await fetch(`${server.url}/v1/files/${id}/content`);
			assert.ok(r.status === 404 || r.status === 400, `${id}: ${r.status}`);
		}
		await ai.files.delete(f.id);
	});
	await run('batches: answers are those of the same requests alone', async () => {
		const bodies = [1, 2, 3, 4, 5].map((seed) => ({ model: 'cohort-tiny', prompt: 'Once upon a time', max_tokens: 12, seed }));
		const f = await upload(bodies.map((b, i) => line(i, b)).join('\n'));
		const b = await ai.batches.create({ input_file_id: f.id, endpoint: '/v1/completions', completion_window: '24h', metadata: { a: 'b' } });
		assert.equal(b.object, 'batch');
		const end = await ended(b.id);
		assert.equal(end.status, 'completed');
		assert.deepEqual({ ...end.request_counts }, { total: 5, completed: 5, failed: 0 });
		const out = (await (await ai.files.content(end.output_file_id)).text()).trim().split('\n').map((l) => JSON.parse(l));
		assert.equal(out.length, 5);
		for (const o of out) {
			const alone = await ai.completions.create(bodies[Number(o.custom_id.slice(1))]);
			assert.equal(o.response.status_code, 200);
			assert.deepEqual(texts(o.response.body), texts(alone));
		}
		assert.ok((await ai.batches.list()).data.some((x) => x.id === b.id));
	});
	await run('batches: what fails is in the error file', async () => {
		const f = await upload([line(0, { prompt: 'Once', max_tokens: 2 }), line(1, { prompt: 'Once', temperature: 9 })].join('\n'));
		const b = await ai.batches.create({ input_file_id: f.id, endpoint: '/v1/completions', completion_window: '24h' });
		const end = await ended(b.id);
		assert.equal(end.request_counts.completed, 1);
		assert.equal(end.request_counts.failed, 1);
		const bad = JSON.parse((await (await ai.files.content(end.error_file_id)).text()).trim());
		assert.equal(bad.custom_id, 'r1');
	});
	await run('batches: cancel', async () => {
		const f = await upload(Array.from({ length: 60 }, (_, i) =>
			line(i, { prompt: 'Once', max_tokens: 800, ignore_eos: true, seed: i })).join('\n'));
		const b = await ai.batches.create({ input_file_id: f.id, endpoint: '/v1/completions', completion_window: '24h' });
		const c = await ai.batches.cancel(b.id);
		assert.ok(['cancelling', 'cancelled'].includes(c.status));
		assert.equal((await ended(b.id)).status, 'cancelled');
	});
	await run('batches: of a file that is not there', async () => {
		const p = ai.batches.create({ input_file_id: 'file-none', endpoint: '/v1/completions', completion_window: '24h' });
		const e = await refused(OpenAI.APIError, p);
		assert.ok(e.status === 400 || e.status === 404);
	});
}
