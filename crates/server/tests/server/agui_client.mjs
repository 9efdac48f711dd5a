// The official client of AG-UI: agent.mjs DESK KEY WORKSHOP. It verifies each stream while it reads.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

// The package stands beside the program that runs this.
const beside = createRequire(process.env.GHOSTLIGHT_SDK_MODULES + "/");
const { HttpAgent } = beside("@ag-ui/client");

const [desk, key, workshop] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const user = (content) => ({ id: crypto.randomUUID(), role: "user", content });

// A conversation of two turns.
const agent = new HttpAgent({ url: desk, headers, threadId: "talk" });
agent.addMessage(user("well"));
let done = await agent.runAgent();
assert.equal(done.result, "did well");
assert.equal(done.newMessages.at(-1).content, "did well");
agent.addMessage(user("count 3"));
done = await agent.runAgent({ runId: "second" });
assert.equal(agent.messages.at(-1).content, "did count 3");
assert.equal(agent.messages.filter((message) => message.role === "user").length, 2);

// A question, answered.
agent.addMessage(user("ask name?"));
await agent.runAgent();
let [asked] = agent.pendingInterrupts;
assert.equal(asked.message, "name?");
await assert.rejects(() => agent.runAgent(), /pending interrupt/);
done = await agent.runAgent({ resume: [{ interruptId: asked.id, status: "resolved", payload: "Ada" }] });
assert.equal(done.result, 'answered "Ada"');
assert.equal(agent.pendingInterrupts.length, 0);

// A tool of the client.
const tools = [{ name: "look", description: "looks", parameters: { type: "object" } }];
agent.addMessage(user("call look"));
await agent.runAgent({ tools });
const call = agent.messages.at(-1).toolCalls[0];
assert.deepEqual(JSON.parse(call.function.arguments), { place: 0 });
agent.addMessage({ id: "result", role: "tool", toolCallId: call.id, content: "a door" });
done = await agent.runAgent({ tools });
assert.equal(done.result, "Success a door");
assert.equal(agent.messages.filter((message) => message.role === "tool").length, 1);

// A wrong key, and an error of a run.
await assert.rejects(() => new HttpAgent({ url: desk, headers: { Authorization: "Bearer x" } }).runAgent());
const failing = new HttpAgent({ url: desk, headers, threadId: "failing" });
failing.addMessage(user("fail badly"));
let error;
await failing.runAgent({}, { onRunErrorEvent: ({ event }) => { error = event; } }).catch(() => {});
assert.equal(error.code, "failed");

// Reasoning, tools, approval, state, a subagent and its form.
const work = new HttpAgent({ url: workshop, threadId: "work" });
work.addMessage(user("go"));
await work.runAgent();
[asked] = work.pendingInterrupts;
assert.equal(asked.reason, "tool_call");
const calls = work.messages.flatMap((message) => message.toolCalls ?? []);
assert.deepEqual(calls.map((made) => made.function.name), ["look", "wipe"]);
await work.runAgent({ resume: [{ interruptId: asked.id, status: "resolved", payload: { approved: true } }] });
[asked] = work.pendingInterrupts;
assert.equal(asked.message, "Which size?");
assert.deepEqual(work.state, { "a/b": 1 });
done = await work.runAgent({ resume: [{ interruptId: asked.id, status: "resolved", payload: { cm: 42 } }] });
assert.equal(done.result, "It is 42 cm.");
assert.equal(work.messages.filter((message) => message.role === "tool").length, 2);
assert.ok(work.messages.some((message) => message.role === "reasoning"));

// Another front end opens the thread.
const again = new HttpAgent({ url: workshop, threadId: "work" });
await again.runAgent();
assert.equal(again.messages.at(-1).content, "It is 42 cm.");
