/**
 * A client of a Ghostlight server: turns, event streams that resume, approvals and sessions.
 *
 * It speaks the JSON interface below `/api/v1`, which `/openapi.json` of a server describes, and needs `fetch` alone.
 */

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** The longest time that one request waits for a run's end. */
const WAIT_MS = 30_000;
/** After how long a stream counts as one that worked, though no event came. */
const WORKED_MS = 1_000;
/** The refusals that pass: of the server under load or at its end, and of a proxy before it meanwhile. */
const PASSING = [429, 502, 503, 504];
/** The type of the refusal of an answer that the question has already. */
const ANSWERED = "urn:ghostlight:problem:answered";

/**
 * @typedef {object} ClientOptions
 * @property {string} [key] A key or token for the server.
 * @property {number} [timeout] How long the server may be silent, in milliseconds; 60,000 when left out. A stream sends a sign
 *   of life every 15 seconds. A request with its files must be sent within this time.
 * @property {number} [maxFailures] How often in a row a connection may fail before the error is thrown; 8 when left out.
 */

/**
 * A file that goes with a turn: its bytes in base64, or an address that the model's server can reach.
 * @typedef {{ media_type: string, name?: string, base64?: string, url?: string }} File
 */

/**
 * @typedef {object} TurnOptions
 * @property {string} [id] Names the turn: sent again under one id it is one run.
 * @property {File[]} [files]
 * @property {boolean} [dry_run] Whether to call no tool that has an effect.
 * @property {boolean} [streaming] Whether models give their answers piece by piece.
 * @property {Record<string, unknown>} [budget] The budget of this turn's run, beyond the team's.
 * @property {number} [deadline] When the run must have ended, in milliseconds since 1970.
 */

/**
 * An event of a run or of a run below it.
 * @typedef {object} Event
 * @property {string | undefined} id Its place in the store's order, from which a stream resumes. A preview, which is not
 *   recorded, has none.
 * @property {string} type Its kind, such as `tool_called`.
 * @property {any} data The fields of this kind.
 * @property {string} run The id of its run.
 * @property {string[]} path The agents from the root's to the one of its run.
 * @property {number} [at] When it was recorded, in milliseconds since 1970.
 */

/** @typedef {{ run: string, operation: string, question: Record<string, any> }} QuestionView */

/** A request that the server refused or could not serve (RFC 9457). */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} detail
   * @param {string} type
   * @param {number} retryAfter
   */
  constructor(status, detail, type = "about:blank", retryAfter = 0) {
    super(`${status}: ${detail}`);
    this.name = "Problem";
    /** The HTTP status. */
    this.status = status;
    /** What happened, and what to do next. */
    this.detail = detail;
    /** A URI that names the kind of the problem, such as `urn:ghostlight:problem:not-found`. */
    this.type = type;
    /** After how many milliseconds the server asks to try again; 0 where it does not say. */
    this.retryAfter = retryAfter;
  }
}

/** A server, and a key or token for it. */
export class Client {
  #url;
  #key;
  #timeout;
  #maxFailures;

  /**
   * @param {string} url
   * @param {ClientOptions} options
   */
  constructor(url, { key, timeout = 60_000, maxFailures = 8 } = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#timeout = timeout;
    this.#maxFailures = maxFailures;
  }

  /**
   * A session of a team. It begins with its first turn.
   * @param {string} team
   * @param {string} key
   */
  session(team, key) {
    return new Session(this, team, key);
  }

  /**
   * The run with this id.
   * @param {string} id
   */
  run(id) {
    return new Run(this, id);
  }

  /**
   * The teams that the caller may use.
   * @returns {Promise<Record<string, any>[]>}
   */
  teams() {
    return this.request("GET", "/api/v1/teams");
  }

  /**
   * Sessions, the latest first; the query is as in `/openapi.json`, such as `{ team: "helpdesk" }`.
   * @param {Record<string, string | number | boolean>} query
   */
  sessions(query = {}) {
    return this.#pages("/api/v1/sessions", "sessions", query);
  }

  /**
   * Runs, the latest first; the query is as in `/openapi.json`, such as `{ status: "waiting" }`.
   * @param {Record<string, string | number | boolean>} query
   */
  runs(query = {}) {
    return this.#pages("/api/v1/runs", "runs", query);
  }

  /** The open questions of all runs of the caller. */
  async questions() {
    return asQuestions(this, await this.request("GET", "/api/v1/questions"));
  }

  /**
   * One request with its JSON answer. `again` sends it anew after a broken connection, a 429, 502, 503 or 504.
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {boolean} [again]
   * @returns {Promise<any>}
   */
  request(method, path, body, again = method === "GET") {
    return this.attempt(method, path, body, { again });
  }

  /**
   * `until` bounds all attempts together, by `performance.now()`. `done` is the type of the refusal of what an attempt
   * has done whose response was lost.
   * @internal
   * @param {string} method
   * @param {string} path
   * @param {unknown} body
   * @param {{ again: boolean, until?: number, done?: string }} how
   * @returns {Promise<any>}
   */
  async attempt(method, path, body, { again, until = Infinity, done }) {
    let isLost = false;
    for (let failures = 0; ; failures++) {
      // A last look at the end of a time gets a second for itself.
      const silence = new Silence(Math.min(this.#timeout, Math.max(1_000, until - performance.now())));
      try {
        const text = await readText(await this.open(method, path, body, {}, silence), silence);
        return text ? JSON.parse(text) : undefined;
      } catch (error) {
        if (isLost && error instanceof Problem && error.type === done) return undefined;
        isLost ||= !(error instanceof Problem);
        await this.pause(error, failures, again, until);
      } finally {
        silence.end();
      }
    }
  }

  /**
   * The response to a request that succeeded; a `Problem` otherwise.
   * @internal
   * @param {string} method
   * @param {string} path
   * @param {unknown} body
   * @param {Record<string, string>} headers
   * @param {Silence} silence
   */
  async open(method, path, body, headers, silence) {
    const sent = { ...headers };
    // Where the server redirects to another one, `fetch` takes this header away.
    if (this.#key !== undefined) sent.Authorization = `Bearer ${this.#key}`;
    if (body !== undefined) sent["Content-Type"] = "application/json";
    const response = await silence.bounds(
      fetch(this.#url + path, {
        method,
        headers: sent,
        signal: silence.signal,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    if (response.ok) return response;
    const retryAfter = 1000 * (Number(response.headers.get("Retry-After")) || 0);
    throw asProblem(response.status, await readText(response, silence), retryAfter);
  }

  /**
   * Waits before another attempt, or throws the error.
   * @internal
   * @param {unknown} error
   * @param {number} failures
   * @param {boolean} again
   * @param {number} [until]
   */
  async pause(error, failures, again, until = Infinity) {
    const isRefused = error instanceof Problem && !PASSING.includes(error.status);
    if (isRefused || error instanceof SyntaxError || !again || failures + 1 >= this.#maxFailures) throw error;
    const asked = error instanceof Problem ? error.retryAfter : 0;
    const pause = Math.max(asked, Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS));
    if (performance.now() + pause >= until) {
      throw new Error(`no time is left for another attempt after: ${error}`, { cause: error });
    }
    await sleep(pause);
  }

  /** @internal */
  get timeout() {
    return this.#timeout;
  }

  /**
   * @param {string} path
   * @param {string} name
   * @param {Record<string, string | number | boolean>} query
   * @returns {AsyncGenerator<Record<string, any>, void, void>}
   */
  async *#pages(path, name, query) {
    const asked = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]));
    for (;;) {
      const page = await this.request("GET", `${path}?${asked}`);
      yield* page[name];
      if (page.next === null) return;
      asked.set("after", page.next);
    }
  }
}

/** A conversation with a team. */
export class Session {
  #client;
  #path;

  /**
   * @param {Client} client
   * @param {string} team
   * @param {string} key
   */
  constructor(client, team, key) {
    this.#client = client;
    this.team = team;
    this.key = key;
    this.#path = `/api/v1/sessions/${encodeURIComponent(team)}/${encodeURIComponent(key)}`;
  }

  /**
   * Sends a turn, and comes back when it is recorded.
   * @param {string} text
   * @param {TurnOptions} options
   */
  async send(text, options = {}) {
    const body = { text, ...options, id: options.id ?? crypto.randomUUID() };
    // Under one id it is one turn, however often it is sent.
    const sent = (wait = "") => this.#client.request("POST", `${this.#path}/turns${wait}`, body, true);
    return new Turn(this.#client, await sent(), () => sent("?wait=1"));
  }

  /**
   * Sends a turn, and waits until its run ends or asks something.
   * @param {string} text
   * @param {TurnOptions & { timeout?: number }} options
   */
  async ask(text, { timeout, ...options } = {}) {
    return (await this.send(text, options)).wait(timeout);
  }

  /**
   * The session's log with its turns.
   * @returns {Promise<Record<string, any>>}
   */
  turns() {
    return this.#client.request("GET", this.#path);
  }

  /**
   * The conversation, up to the last turn that ended.
   * @returns {Promise<Record<string, any>[]>}
   */
  messages() {
    return this.#client.request("GET", `${this.#path}/messages`);
  }

  /**
   * Another session, with this key, that goes on after a number of turns.
   * @param {string} key
   * @param {number} turns
   */
  async fork(key, turns) {
    await this.#client.request("POST", `${this.#path}/fork`, { key, turns });
    return new Session(this.#client, this.team, key);
  }

  /**
   * Goes back to where the session had this number of turns.
   * @param {number} turns
   * @returns {Promise<void>}
   */
  async rewind(turns) {
    await this.#client.request("POST", `${this.#path}/rewind`, { turns });
  }
}

/** A recorded turn. */
export class Turn {
  #client;
  #sent;
  #joined;

  /**
   * Its run.
   * @type {Run}
   */
  run;

  /** running, waiting, parked, cancelling, answered, stopped, failed, cancelled or continued. */
  status = "";

  /** Whether the run has ended or is parked. */
  hasEnded = false;

  /**
   * The answer, or the best one that the run had when it stopped.
   * @type {string | undefined}
   */
  answer;

  /**
   * Why it stopped before its task was done.
   * @type {string | undefined}
   */
  stopped;

  /**
   * The error with which it failed, or for which it is parked.
   * @type {string | undefined}
   */
  error;

  /**
   * The open questions, if the run waits for answers.
   * @type {Question[]}
   */
  questions = [];

  /**
   * @internal
   * @param {Client} client
   * @param {Record<string, any>} view
   * @param {() => Promise<Record<string, any>>} sent
   */
  constructor(client, view, sent) {
    this.#client = client;
    this.#sent = sent;
    // Whether the turn was said to a run under way, which may end without it.
    this.#joined = view.joined;
    this.run = new Run(client, view.run.id);
    this.#read(view);
  }

  /** @param {Record<string, any>} view */
  #read(view) {
    if (view.run.id !== this.run.id) this.run = new Run(this.#client, view.run.id);
    this.status = view.run.status;
    this.hasEnded = Boolean(view.end);
    this.answer = view.end?.answer ?? undefined;
    this.stopped = view.end?.stopped ?? undefined;
    this.error = view.end?.error ?? undefined;
    this.questions = asQuestions(this.#client, view.questions);
  }

  /**
   * Waits until the run ends or asks something, and returns this turn. Throws after `timeout` milliseconds. Where the turn
   * was said to a run that ended without it, `run` becomes the one that took it. Its key needs the scope `read`.
   * @param {number} [timeout]
   */
  async wait(timeout = Infinity) {
    const until = performance.now() + timeout;
    for (;;) {
      const path = `/api/v1/runs/${encodeURIComponent(this.run.id)}`;
      const left = Math.min(WAIT_MS, this.#client.timeout / 2, Math.max(0, until - performance.now()));
      const wait = Math.floor(left / 1000);
      let view = await this.#client.attempt("GET", `${path}?wait=${wait}`, undefined, { again: true, until });
      if (this.#joined && view.end) {
        // Sent again, the turn names the run that took it.
        view = await this.#sent();
        this.#joined = view.joined;
      }
      this.#read(view);
      if (this.hasEnded || this.questions.length > 0) return this;
      if (performance.now() >= until) throw new Error(`run ${this.run.id} is still ${this.status}`);
      // The server counts whole seconds.
      if (wait === 0) await sleep(Math.min(left, FIRST_PAUSE_MS));
    }
  }
}

/** A run of a turn, or one below it. */
export class Run {
  #client;
  #path;

  /**
   * @param {Client} client
   * @param {string} id
   */
  constructor(client, id) {
    this.#client = client;
    this.id = id;
    this.#path = `/api/v1/runs/${encodeURIComponent(id)}`;
  }

  /**
   * Its status, end, questions and budget.
   * @returns {Promise<Record<string, any>>}
   */
  details() {
    return this.#client.request("GET", this.#path);
  }

  /** The open questions of the run and of the runs below it. */
  async questions() {
    return asQuestions(this.#client, await this.#client.request("GET", `${this.#path}/questions`));
  }

  /**
   * The events of the run and of the runs below it, from the first or behind the id `after`, until the run ends.
   *
   * A stream that breaks is resumed behind the last id: each recorded event comes once. Previews (pieces of an answer) that were
   * sent meanwhile are lost. A connection that gave no event and ended within a second counts as failed.
   * @param {{ after?: string, previews?: boolean }} options
   * @returns {AsyncGenerator<Event, void, void>}
   */
  async *events({ after, previews = true } = {}) {
    let failures = 0;
    for (;;) {
      const silence = new Silence(this.#client.timeout);
      let began = Infinity;
      let came = false;
      try {
        /** @type {Record<string, string>} */
        const headers = { Accept: "text/event-stream" };
        if (after !== undefined) headers["Last-Event-ID"] = after;
        const path = `${this.#path}/events?previews=${previews}`;
        const stream = await this.#client.open("GET", path, undefined, headers, silence);
        // Nothing comes behind the last event of an ended run.
        if (stream.status === 204 || stream.body === null) return;
        began = performance.now();
        for await (const event of readEvents(stream.body, silence)) {
          came = true;
          failures = 0;
          after = event.id ?? after;
          yield event;
        }
        if (!came) throw new Error("the stream ended before its first event");
      } catch (error) {
        // A stream that tells of a problem did not work.
        if (performance.now() - began >= WORKED_MS && !(error instanceof Problem)) failures = 0;
        await this.#client.pause(error, failures, true);
        failures++;
      } finally {
        silence.end();
      }
    }
  }

  /**
   * Cancels the run and all below it. Cancelling twice is cancelling once.
   * @param {string} [reason]
   * @returns {Promise<void>}
   */
  async cancel(reason) {
    await this.#client.request("POST", `${this.#path}/cancel`, { reason }, true);
  }

  /**
   * Says something to a run at work.
   * @param {string} text
   * @returns {Promise<void>}
   */
  async steer(text) {
    await this.#client.request("POST", `${this.#path}/steer`, { text });
  }
}

/** A question of a run, which waits for its answer. */
export class Question {
  #client;

  /**
   * @internal
   * @param {Client} client
   * @param {QuestionView} view
   */
  constructor(client, { run, operation, question }) {
    this.#client = client;
    /** The id of the asking run. */
    this.run = run;
    /** The operation that asks; the answer names it. */
    this.operation = operation;
    /**
     * The kind of answer that is wanted, such as `approval` or `choice`.
     * @type {string}
     */
    this.kind = question.kind;
    /**
     * The question, for a person.
     * @type {string}
     */
    this.prompt = question.prompt;
    /**
     * The tool call in question, for an approval.
     * @type {Record<string, any> | undefined}
     */
    this.call = question.call ?? undefined;
    /**
     * The possible answers to a choice.
     * @type {string[]}
     */
    this.options = question.options ?? [];
    /** All fields, as the server gives them. */
    this.raw = question;
  }

  /**
   * Answers. The first answer to a question counts: another one is refused with 409.
   *
   * After a broken connection the answer is sent again. That the question has this answer already is then no error.
   * @param {unknown} value
   * @returns {Promise<void>}
   */
  async answer(value) {
    const path = `/api/v1/runs/${encodeURIComponent(this.run)}/answers`;
    const body = { operation: this.operation, value };
    await this.#client.attempt("POST", path, body, { again: true, done: ANSWERED });
  }

  /**
   * Approves; `more` are further fields of the decision, such as `{ remember: true }`.
   * @param {Record<string, unknown>} more
   */
  approve(more = {}) {
    return this.answer({ approved: true, ...more });
  }

  /**
   * Denies an approval, with a reason that the model reads.
   * @param {string} [reason]
   */
  deny(reason) {
    return this.answer({ approved: false, reason });
  }
}

/** Aborts a request whose server is silent for a time. */
class Silence {
  #abort = new AbortController();
  #timeout;

  /** @param {number} timeout */
  constructor(timeout) {
    this.#timeout = timeout;
    this.signal = this.#abort.signal;
  }

  /**
   * Bounds one step. The time between the steps is the caller's own.
   * @template T
   * @param {Promise<T>} step
   * @returns {Promise<T>}
   */
  async bounds(step) {
    const timer = setTimeout(() => this.#abort.abort(new Error("the server is silent")), this.#timeout);
    try {
      return await step;
    } finally {
      clearTimeout(timer);
    }
  }

  end() {
    this.#abort.abort();
  }
}

/** @param {number} pause */
function sleep(pause) {
  return new Promise((resolve) => setTimeout(resolve, pause));
}

/**
 * @param {Client} client
 * @param {QuestionView[]} views
 */
function asQuestions(client, views) {
  return views.map((view) => new Question(client, view));
}

/**
 * @param {number} status
 * @param {string} text
 * @param {number} retryAfter
 */
function asProblem(status, text, retryAfter) {
  try {
    const { detail, type } = JSON.parse(text);
    return new Problem(status, detail, type, retryAfter);
  } catch {
    return new Problem(status, text.trim(), undefined, retryAfter);
  }
}

/**
 * @param {ReadableStream<Uint8Array> | null} body
 * @param {Silence} silence
 * @returns {AsyncGenerator<string, void, void>}
 */
async function* readPieces(body, silence) {
  if (body === null) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { value, done } = await silence.bounds(reader.read());
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}

/**
 * @param {Response} response
 * @param {Silence} silence
 */
async function readText(response, silence) {
  let text = "";
  for await (const piece of readPieces(response.body, silence)) text += piece;
  return text;
}

/**
 * The events of a stream (server-sent events). One that is cut off in its middle is left out.
 * @param {ReadableStream<Uint8Array>} body
 * @param {Silence} silence
 * @returns {AsyncGenerator<Event, void, void>}
 */
async function* readEvents(body, silence) {
  let text = "";
  for await (const piece of readPieces(body, silence)) {
    text += piece;
    const parts = text.split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const event = readEvent(part);
      if (event !== undefined) yield event;
    }
  }
}

/**
 * @param {string} part
 * @returns {Event | undefined}
 */
function readEvent(part) {
  /** @type {string | undefined} */
  let id;
  let name = "message";
  const data = [];
  for (const line of part.split("\n")) {
    const colon = line.indexOf(":");
    const key = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (key === "id") id = value;
    else if (key === "event") name = value;
    else if (key === "data") data.push(value);
  }
  // A sign of life has no data.
  if (data.length === 0) return undefined;
  const view = JSON.parse(data.join("\n"));
  if (name === "problem") throw new Problem(view.status, view.detail, view.type);
  return { id, type: view.type, data: view.data, run: view.run, path: view.path ?? [], at: view.at };
}
