// Tools, where the server has them. The template must know them, so the built-in model gets one that does.
import { writeFileSync } from 'node:fs';
import { assert, test, skip, refused, client, serve, OpenAI } from './lib.mjs';

const template = `{%- if tools %}# Tools
{% for t in tools %}{{ t | tojson }}
{% endfor %}Call one by <tool_call>{"name": NAME, "arguments": {...}}</tool_call>
{% endif %}{% for m in messages %}{% if m.role == 'tool' %}Result: {{ m.content }}
{% elif m.tool_calls %}{% for c in m.tool_calls %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>
{% endfor %}{% else %}{{ m.role }}: {{ m.content }}
{% endif %}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}`;

const weather = {
	type: 'function',
	function: {
		name: 'get_weather',
		description: 'The weather of a city',
		parameters: {
			type: 'object',
			properties: { city: { type: 'string', maxLength: 12 }, unit: { enum: ['C', 'F'] } },
			required: ['city', 'unit'],
			additionalProperties: false,
		},
	},
};
const clock = { type: 'function', function: { name: 'get_time', parameters: { type: 'object', properties: {}, additionalProperties: false } } };
const messages = [{ role: 'user', content: 'What is the weather in Paris?' }];

function checkCall(call) {
	assert.equal(call.type, 'function');
	assert.ok(call.id);
	assert.equal(call.function.name, 'get_weather');
	const args = JSON.parse(call.function.arguments);
	assert.deepEqual(Object.keys(args).sort(), ['city', 'unit']);
	assert.ok(typeof args.city === 'string' && ['C', 'F'].includes(args.unit));
}

export async function tools() {
	const path = `${process.env.COHORT_BUILD}/openai-tests/tools.jinja`;
	writeFileSync(path, template);
	const server = await serve('-chat-template', path, '-np', '4', '-ctx', '4096');
	const ai = client(server);
	const choice = { type: 'function', function: { name: 'get_weather' } };
	const ask = (more) => ai.chat.completions.create({ model: 'x', messages, tools: [weather, clock], max_completion_tokens: 200, seed: 1, ...more });
	let missing = null;
	try {
		await ask({ tool_choice: choice });
	} catch (e) {
		if (e.code === 'unsupported_parameter') missing = 'the server has no tools';
	}
	const run = (name, body) => test(name, async () => {
		if (missing) throw skip(missing);
		await body();
	});

	await run('tools: a chosen one is called with arguments of its schema', async () => {
		const a = await ask({ tool_choice: choice });
		assert.equal(a.choices[0].finish_reason, 'tool_calls');
		assert.equal(a.choices[0].message.tool_calls.length, 1);
		checkCall(a.choices[0].message.tool_calls[0]);
	});
	await run('tools: required calls one of them', async () => {
		const a = await ask({ tool_choice: 'required' });
		const calls = a.choices[0].message.tool_calls;
		assert.ok(calls.length >= 1);
		for (const c of calls) {
			assert.ok(['get_weather', 'get_time'].includes(c.function.name));
			JSON.parse(c.function.arguments);
		}
	});
	await run('tools: none calls none', async () => {
		const a = await ask({ tool_choice: 'none', max_completion_tokens: 20 });
		assert.equal(a.choices[0].message.tool_calls, undefined);
		assert.ok(a.choices[0].message.content.length > 0);
	});
	await run('tools: streamed, the same call', async () => {
		const whole = (await ask({ tool_choice: choice })).choices[0].message.tool_calls[0];
		const runner = ai.chat.completions.stream({ model: 'x', messages, tools: [weather], tool_choice: choice, max_completion_tokens: 200, seed: 1 });
		const final = await runner.finalChatCompletion();
		const call = final.choices[0].message.tool_calls[0];
		checkCall(call);
		assert.equal(final.choices[0].finish_reason, 'tool_calls');
		const again = (await ask({ tools: [weather], tool_choice: choice })).choices[0].message.tool_calls[0];
		assert.equal(call.function.arguments, again.function.arguments);
		checkCall(whole);
	});
	await run('tools: the result goes back into the conversation', async () => {
		const first = (await ask({ tool_choice: choice })).choices[0].message;
		const more = [...messages, first, { role: 'tool', tool_call_id: first.tool_calls[0].id, content: '20 C, sunny' }];
		const a = await ask({ messages: more, tool_choice: 'none', max_completion_tokens: 10 });
		assert.equal(a.choices[0].message.role, 'assistant');
	});
	await run('tools: what is no tool is refused by name', async () => {
		for (const [field, value] of [['tools', 'x'], ['tools', [{ type: 'function' }]], ['tool_choice', 'sometimes'],
			['tool_choice', { type: 'function', function: { name: 'no_such' } }]]) {
			const e = await refused(OpenAI.BadRequestError, ask({ [field]: value }));
			assert.ok(e.param?.startsWith(field), `${field}: param is ${e.param}`);
		}
	});
	await test('tools: that server ends cleanly', async () => { assert.equal(await server.stop(), 0); });
}
