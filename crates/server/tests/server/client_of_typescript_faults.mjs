// The client below clients/typescript against servers that fail: client_of_typescript_faults.mjs SOURCE.
//
// Each connection gets the next of some responses, byte by byte as it stands here.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";

const { Client, Problem } = await import(process.argv[2]);

/** A server that gives each connection the next response, and keeps the requests. Pieces of a response come with pauses. */
async function scripted(...responses) {
  const requests = [];
  const server = createServer((connection) => {
    const response = responses.shift();
    let request = Buffer.alloc(0);
    connection.on("error", () => {});
    connection.on("data", async (bytes) => {
      request = Buffer.concat([request, bytes]);
      const [head, body] = request.toString().split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (body === undefined || Buffer.byteLength(body) < length) return;
      requests.push(request.toString());
      if (response === SILENCE) return;
      for (const piece of [response].flat()) {
        if (typeof piece === "number") await sleep(piece);
        else connection.write(piece);
      }
      connection.end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

const sleep = (pause) => new Promise((resolve) => setTimeout(resolve, pause));
const whole = (status, body, ...headers) => {
  const text = JSON.stringify(body);
  const head = [`HTTP/1.1 ${status} X`, `Content-Length: ${Buffer.byteLength(text)}`, "Connection: close", ...headers];
  return `${head.join("\r\n")}\r\n\r\n${text}`;
};
const problem = (status, ...headers) => whole(status, { detail: "no", type: "about:blank" }, ...headers);
const conflict = (word) => whole(409, { detail: "no", type: `urn:ghostlight:problem:${word}` });
const events = (...texts) =>
  `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n${texts.join("")}`;
const event = (id, data) => {
  const view = JSON.stringify({ type: "custom", data, run: "1" });
  return `id: ${id}\nevent: custom\ndata: ${view}\n\n`;
};
const fault = (status) => `event: problem\ndata: ${JSON.stringify({ status, detail: "the store", type: "x" })}\n\n`;
const all = async (stream) => {
  const came = [];
  for await (const { id, data } of stream) came.push([id, data]);
  return came;
};
const refusedWith = (status) => (error) => error instanceof Problem && error.status === status;

const SILENCE = Symbol("no response at all");
const END = "HTTP/1.1 204 No Content\r\n\r\n";
const LOST = "";
const NOW = { run: { id: "1", status: "running" }, end: null, questions: [] };

// Another server, to which this one redirects, does not learn the key.
const stranger = await scripted(whole(200, []));
const redirecting = await scripted(whole(302, "", `Location: ${stranger.url}/teams`));
assert.deepEqual(await new Client(redirecting.url, { key: "hunter2" }).teams(), []);
assert(!stranger.requests[0].includes("hunter2"), stranger.requests[0]);

// A stream goes on after a passing fault of the store and of a proxy, a cut within a character, and a sign of life alone.
const cut = Buffer.from(events(event(2, "zwei"), event(3, "drüben")));
const server = await scripted(
  events(event(1, "one \u2028 \u2029")),
  events(fault(503)),
  problem(502),
  cut.subarray(0, cut.indexOf("ü") + 1),
  events(":\n\n"),
  events(event(3, "3")),
  END,
);
const came = await all(new Client(server.url, { maxFailures: 3 }).run("1").events());
assert.deepEqual(came, [["1", "one \u2028 \u2029"], ["2", "zwei"], ["3", "3"]]);
const resumed = server.requests.map((request) => /last-event-id: (\d)/i.exec(request)?.[1]);
assert.deepEqual(resumed, [undefined, "1", "1", "1", "2", "2", "3"]);

// A stream that ends at once each time or tells of a fault each time is a failed connection.
const quiet = await scripted(...Array(3).fill(events(":\n\n")));
await assert.rejects(all(new Client(quiet.url, { maxFailures: 2 }).run("1").events()), /before its first event/);
const faulty = await scripted(...Array(3).fill(events(fault(503))));
await assert.rejects(all(new Client(faulty.url, { maxFailures: 2 }).run("1").events()), refusedWith(503));
const refusing = await scripted(events(fault(404)));
await assert.rejects(all(new Client(refusing.url).run("1").events()), refusedWith(404));

// A question that has the answer after a lost response is answered; one that had it before is not, nor one that is closed.
const asked = [{ run: "1", operation: "0.0.1", question: { kind: "text", prompt: "?" } }];
const ask = async (...responses) => (await new Client((await scripted(whole(200, asked), ...responses)).url).questions())[0];
await (await ask(LOST, conflict("answered"))).answer("yes");
await assert.rejects((await ask(problem(503), conflict("answered"))).answer("yes"), refusedWith(409));
await assert.rejects((await ask(LOST, conflict("conflict"))).answer("yes"), refusedWith(409));

// The time of a wait holds against a silent server, one that asks for patience, and a run that goes on; no turn is sent again.
for (const responses of [[SILENCE], [problem(503, "Retry-After: 50")], Array(9).fill(whole(200, NOW))]) {
  const server = await scripted(whole(202, NOW), ...responses);
  const turn = await new Client(server.url).session("desk", "1").send("hello");
  const began = performance.now();
  await assert.rejects(turn.wait(400), /still running|no time is left/);
  assert(performance.now() - began < 3_000);
  assert.equal(server.requests.filter((request) => request.startsWith("POST")).length, 1);
}

// Only the server's silence counts: neither the length of a response nor the time that the caller takes for an event.
const slow = whole(200, ["slow"]);
const pieces = [0, 1, 2, 3].flatMap((part) => [slow.slice(part * 30, part === 3 ? undefined : part * 30 + 30), 150]);
assert.deepEqual(await new Client((await scripted(pieces)).url, { timeout: 400 }).teams(), ["slow"]);
const patient = await scripted([events(event(1, "one")), 400, event(2, "two"), 50], SILENCE);
const taken = [];
for await (const { id } of new Client(patient.url, { timeout: 300, maxFailures: 1 }).run("1").events()) {
  taken.push(id);
  if (id === "2") break;
  await sleep(800);
}
assert.deepEqual([taken, patient.requests.length], [["1", "2"], 1]);
process.exit(0);
