// The client below clients/typescript against a running server: client_of_typescript.mjs SOURCE SERVER FLAKY KEY.
//
// FLAKY is the same server behind a proxy that breaks each connection after some thousand bytes.
import assert from "node:assert/strict";

const [source, server, flaky, key] = process.argv.slice(2);
const { Client, Problem } = await import(source);
const client = new Client(server, { key });
const breaking = new Client(flaky, { key });

// A stream that breaks again and again has each recorded event once, and ends with the run.
const turn = await breaking.session("desk", "talk").send("count 40", { id: "first" });
const streamed = [];
for await (const event of turn.run.events({ previews: false })) streamed.push(event);
const page = await client.request("GET", `/api/v1/runs/${turn.run.id}/events?limit=1000`);
const place = ({ position, part }) => (part ? `${position}.${part}` : `${position}`);
assert.deepEqual(streamed.map((event) => event.id), page.events.map(place));
assert.equal(streamed.filter((event) => event.type === "custom").length, 40);
assert.equal(streamed.at(-1).type, "run_ended");
const later = [];
for await (const event of client.run(turn.run.id).events({ after: streamed[9].id })) later.push(event.id);
assert.deepEqual(later, streamed.slice(10).map((event) => event.id));

// Separators of lines stand in JSON as they are.
const separated = await client.session("desk", "separated").send("one\u2028two");
const told = [];
for await (const { id } of separated.run.events({ previews: false })) told.push(id);
const recorded = await client.request("GET", `/api/v1/runs/${separated.run.id}/events?limit=1000`);
assert.deepEqual(told, recorded.events.map(place));
assert.equal((await separated.wait()).answer, "did one\u2028two");

// Under one id it is one run.
const again = await (await client.session("desk", "talk").send("count 40", { id: "first" })).wait();
assert.deepEqual([again.run.id, again.answer, again.status], [turn.run.id, "did count 40", "answered"]);

// A question, and an approval with its call; the first answer counts.
const asked = await client.session("desk", "asked").ask("ask name?");
assert.equal(asked.hasEnded, false);
assert.equal(asked.questions[0].prompt, "name?");
assert.deepEqual((await client.questions()).map((open) => open.run), [asked.run.id]);
await asked.questions[0].answer("Ada");
assert.equal((await asked.wait(30_000)).answer, 'answered "Ada"');
const decisions = [[(asks) => asks.approve(), /Success/], [(asks) => asks.deny("too much"), /too much/]];
for (const [decide, told] of decisions) {
  const refund = await client.session("shop", "refunds").ask("refund");
  const [question] = refund.questions;
  assert.deepEqual([question.kind, question.call.name], ["approval", "refund"]);
  await decide(question);
  assert.match((await refund.wait(30_000)).answer, told);
}

// Sessions: branched, rewound, listed and read.
const talk = client.session("desk", "talk");
await talk.ask("well");
const branch = await talk.fork("branch", 1);
assert.equal((await branch.messages()).length, 2);
await talk.rewind(1);
assert.equal((await talk.messages()).length, 2);
const keys = new Set();
for await (const { session } of client.sessions({ team: "desk", limit: 2 })) keys.add(session.key);
for (const key of ["talk", "branch", "asked"]) assert(keys.has(key), key);

// A turn that is said to a run which ends without it is answered by the run that takes it.
const busy = await client.session("steered", "s").send("count 300");
const joined = await client.session("steered", "s").send("well");
assert.equal(joined.run.id, busy.run.id);
assert.equal((await joined.wait(60_000)).answer, "did well");
assert.notEqual(joined.run.id, busy.run.id);
assert.equal((await busy.wait(60_000)).answer, "did count 300");

// A run that is cancelled, a failed one, and refusals.
const hanging = await client.session("desk", "hanging").send("hang");
await assert.rejects(() => hanging.wait(1_000), /still/);
await hanging.run.cancel("enough");
assert.equal((await hanging.wait(30_000)).status, "cancelled");
assert.match((await client.session("desk", "failing").ask("fail badly")).error, /failed: badly$/);
const nobodys = "00000000-0000-7000-8000-000000000000";
for (const [caller, status] of [[client, 404], [new Client(server, { key: "no key" }), 401]]) {
  await assert.rejects(
    () => caller.run(nobodys).details(),
    (problem) => problem instanceof Problem && problem.status === status && problem.detail !== "",
  );
}
// Leaving the loop closes the stream.
for await (const event of client.run(turn.run.id).events()) {
  assert.equal(event.type, "run_started");
  break;
}
