// The JSON interface of the server, which other programs can use, too.

const BASE = "/api/v1";

/** The server's refusal of a request. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The server does not answer at all. */
export class Away extends Error {}

/** Sends a request. A request that does not get through fails differently from a fault of the page. */
async function send(address, request) {
  try {
    return await fetch(address, { ...request, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Away(error.message);
  }
}

async function refusal(answer) {
  const problem = await answer.json().catch(() => ({}));
  return new Refused(answer.status, problem.detail ?? `${answer.status} ${answer.statusText}`);
}

async function ask(method, path, body, signal, base = BASE) {
  const request = { method, signal, headers: {} };
  if (body !== undefined) {
    request.headers["content-type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  const answer = await send(base + path, request);
  if (!answer.ok) throw await refusal(answer);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path, signal) => ask("GET", path, undefined, signal);
export const post = (path, body, signal) => ask("POST", path, body ?? {}, signal);

/** Gives the server a key, which the browser keeps in a cookie that no script can read. */
export const signInWith = (key) => ask("POST", "/sign-in", { key }, undefined, "");

/** A path with escaped segments. */
export const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

/** A query without unset values. */
export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? "?" + new URLSearchParams(set) : "";
}

const pause = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

/** Waits until the tab is visible: a browser has six connections to a server, and hidden tabs must not hold any of them. */
function seen(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
  });
}

function read(block) {
  let data = "";
  let name = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) data += line.slice(6);
    else if (line.startsWith("event: ")) name = line.slice(7);
  }
  return data ? { name, data: JSON.parse(data) } : null;
}

const later = (record, last) =>
  record.position > last.position || (record.position === last.position && (record.part ?? 0) > last.part);

/**
 * Follows the events of a run from the first. After each break of the connection it resumes behind the last event, so
 * each recorded event comes once. `on.events` gets them in batches, `on.state` gets `live`, `broken` or `done`.
 */
export async function follow(run, signal, on) {
  let last = { position: -1, part: 0 };
  let wait = 100;
  while (!signal.aborted) {
    await seen(signal);
    const connection = new AbortController();
    const end = () => connection.abort();
    signal.addEventListener("abort", end);
    const hide = () => document.hidden && connection.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      const headers = { accept: "text/event-stream" };
      if (last.position >= 0) headers["last-event-id"] = last.part ? `${last.position}.${last.part}` : `${last.position}`;
      const answer = await send(`${BASE}/runs/${run}/events`, { headers, signal: connection.signal });
      if (answer.status === 204) return on.state("done");
      if (!answer.ok) throw await refusal(answer);
      on.state("live");
      wait = 100;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let left = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        left += value;
        const blocks = left.split("\n\n");
        left = blocks.pop();
        const lot = [];
        for (const block of blocks) {
          const sent = read(block);
          if (!sent) continue;
          if (sent.name === "problem") throw new Refused(sent.data.status, sent.data.detail);
          const record = sent.data;
          if (record.position !== null && record.position !== undefined) {
            if (!later(record, last)) continue;
            last = { position: record.position, part: record.part ?? 0 };
          }
          lot.push(record);
        }
        if (lot.length) on.events(lot);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status < 500 && error.status !== 429) throw error;
      if (!document.hidden) on.state("broken");
    } finally {
      signal.removeEventListener("abort", end);
      document.removeEventListener("visibilitychange", hide);
    }
    await pause(wait, signal);
    wait = Math.min(wait * 2, 2000);
  }
}

/** Calls a function now and then repeatedly while the tab is visible; `failed` gets its errors. */
export async function poll(signal, ms, look, failed) {
  while (!signal.aborted) {
    await seen(signal);
    try {
      await look();
    } catch (error) {
      if (signal.aborted) return;
      failed(error);
    }
    await pause(ms, signal);
  }
}
