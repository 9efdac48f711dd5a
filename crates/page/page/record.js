// The events of a run, folded into the data of the views: its operations with their beginnings and ends, the runs of
// its tree, questions and use. It is the same for an old run and one that is under way.

import { line, words } from "./format.js";

/** The kinds of rows with a bar. */
export const KINDS = ["run", "model", "tool", "question", "sleep", "step", "other", "mark"];

const LIVE_TEXT = 200_000;

export class Recorded {
  /** The events in order, without previews and the marks of steps. */
  events = [];
  /** Operations and marks, in the order of their beginnings. */
  rows = [];
  /** The runs of the tree by their ids. */
  runs = new Map();
  /** The time of the latest event. */
  end = 0;
  start = Infinity;
  /** The times at which another process or life continued the root. */
  lives = [];
  #rows = new Map();
  #before = new Map();
  #delegations = new Map();

  /** Adds events, in order. */
  add(records) {
    for (const record of records) {
      const data = record.data ?? {};
      if (record.type === "preview") {
        this.#preview(record, data);
        continue;
      }
      this.#see(record);
      const row = this.#fold(record, data);
      if (row) row.records.push(record);
      // Marks of steps are recorded with the operation that they are about, and so begin no later than it.
      if (record.type.startsWith("step_")) continue;
      this.#before.set(record.run, record.at);
      this.events.push(record);
    }
  }

  /** The row of a run. */
  of(run) {
    return this.#rows.get(`${run}/`);
  }

  /** The row of an operation. */
  operation(run, operation) {
    return this.#rows.get(`${run}/${operation}`);
  }

  /** The row with the event of this position. */
  at(position) {
    return this.rows.find((row) => row.records.some((record) => record.position === position));
  }

  #see(record) {
    this.start = Math.min(this.start, record.at);
    this.end = Math.max(this.end, record.at);
    if (!this.runs.has(record.run)) {
      this.runs.set(record.run, {
        run: record.run, path: record.path, agent: record.path.at(-1) ?? "", parent: null, input: "",
        start: record.at, end: null, state: "running", end_data: null, calls: 0, tools: 0, tokens: 0, cost: 0, errors: 0,
      });
    }
  }

  #row(record, operation, kind, name, start) {
    const key = operation === undefined ? `${record.run}#${record.position}.${record.part ?? 0}` : `${record.run}/${operation}`;
    let row = this.#rows.get(key);
    if (row) return row;
    row = {
      key, run: record.run, operation, kind, name, path: record.path, depth: Math.max(0, record.path.length - 1),
      start, end: null, state: "running", text: "", live: "", attempt: 0, tries: [], records: [],
    };
    this.#rows.set(key, row);
    this.#place(row);
    return row;
  }

  #place(row) {
    let index = this.rows.length;
    while (index > 0 && this.rows[index - 1].start > row.start) index--;
    this.rows.splice(index, 0, row);
    this.start = Math.min(this.start, row.start);
  }

  #remove(row) {
    const index = this.rows.lastIndexOf(row);
    if (index >= 0) this.rows.splice(index, 1);
  }

  #ended(row, at, state, start) {
    row.end = at;
    row.state = state;
    row.live = "";
    if (start !== undefined && start !== row.start) {
      this.#remove(row);
      row.start = Math.min(start, at);
      this.#place(row);
    }
    return row;
  }

  #mark(record, name, text, state = "done") {
    const row = this.#row(record, undefined, "mark", name, record.at);
    row.end = record.at;
    row.state = state;
    row.text = text;
    return row;
  }

  #fold(record, data) {
    const run = this.runs.get(record.run);
    const { at } = record;
    const operation = data.operation;
    const since = this.#before.get(record.run) ?? at;
    switch (record.type) {
      case "run_started": {
        const row = this.#row(record, "", "run", data.agent, at);
        Object.assign(run, { agent: data.agent, parent: data.parent, input: data.input, start: at, path: record.path });
        row.text = data.input;
        row.input = data.input;
        return row;
      }
      case "leg_started":
        run.agent = data.agent;
        return data.request === null && this.#before.size < 1 ? null : this.#mark(record, `${data.agent} takes over`, data.request ?? "");
      case "step_started":
      case "step_ended":
        return null;
      case "model_called": {
        const row = this.#row(record, operation, "model", data.model, at - data.latency_ms);
        run.calls += 1;
        run.tokens += data.usage.input_tokens + data.usage.output_tokens;
        run.cost += data.usage.cost_micros;
        row.name = data.model;
        row.text = data.text || data.tool_calls.map((call) => `${call.name}(${call.arguments})`).join(", ");
        row.model = data;
        return this.#ended(row, at, "done", at - data.latency_ms);
      }
      case "tool_started":
        return Object.assign(this.#row(record, operation, "tool", data.tool, at), { name: data.tool });
      case "tool_called": {
        const { result, call } = data;
        // The result of another agent is in the row of its task.
        if (call?.by?.agent !== undefined) return null;
        // A call that was cut off is in the row of its operation or of its question.
        if (call?.by === "engine" && result.status === "interrupted") return null;
        run.tools += 1;
        const delegated = this.#delegations.get(`${record.run}/${operation}`);
        const known = this.#rows.get(`${record.run}/${operation}`);
        const start = known?.kind === "tool" ? known.start : at - (call?.latency_ms ?? 0);
        const row = this.#row(record, operation, "tool", result.name, start);
        row.name = result.name;
        row.text = result.text;
        row.result = result;
        row.call = call;
        row.child ??= delegated;
        if (result.status !== "success") run.errors += 1;
        return this.#ended(row, at, result.status === "success" ? "done" : "failed", start);
      }
      case "delegated": {
        this.#delegations.set(`${record.run}/${operation}`, data.run);
        const row = this.#row(record, operation, "other", `asks ${data.agent}`, at);
        row.child = data.run;
        return row;
      }
      case "delegation_ended": {
        const row = this.#row(record, operation, "other", `asks ${data.agent}`, since);
        row.text = data.text;
        return this.#ended(row, at, "done");
      }
      case "question_asked": {
        const row = this.#row(record, operation, "question", data.question.kind, at);
        Object.assign(row, { kind: "question", name: data.question.kind, question: data.question, text: data.question.prompt });
        return row;
      }
      case "question_answered": {
        const row = this.#row(record, operation, "question", "answer", since);
        row.answer = data.answer;
        return this.#ended(row, at, "done");
      }
      case "operation_failed": {
        const row = this.#row(record, operation, kind(data.kind), data.name || data.kind, since);
        row.error = data.error;
        row.text = words(data.error);
        run.errors += 1;
        if (row.kind === "model") run.calls += 1;
        return this.#ended(row, at, "failed");
      }
      case "operation_completed": {
        const row = this.#row(record, operation, kind(data.kind), named(data.name) || data.kind, since);
        if (!row.text && data.name) row.text = data.kind.replaceAll("_", " ");
        return this.#ended(row, at, "done");
      }
      case "operation_dropped": {
        const row = this.#rows.get(`${record.run}/${operation}`);
        return row ? this.#ended(row, at, "dropped") : null;
      }
      case "changed": {
        const { state, artifact } = data.changed;
        const name = state ? `${scope(state.scope)} ${state.key}` : `artifact ${artifact.artifact.name ?? ""}`;
        const row = this.#row(record, operation, "other", name, since);
        row.changed = data.changed;
        row.text = state ? (state.value === undefined ? "deleted" : JSON.stringify(state.value)) : `version ${artifact.artifact.version}`;
        return this.#ended(row, at, row.state === "running" ? "done" : row.state);
      }
      case "custom":
        return this.#mark(record, data.name, typeof data.data === "string" ? data.data : JSON.stringify(data.data));
      case "heard":
        return this.#mark(record, "heard", data.text);
      case "drifted":
        return this.#mark(record, "drifted", "the code asks its model otherwise than recorded", "warned");
      case "resumed":
        if (data.epoch > 1) this.lives.push({ at, epoch: data.epoch, run: record.run });
        return data.epoch > 1 ? this.#mark(record, "recovered", `epoch ${data.epoch}`, "warned") : null;
      case "restarted":
        return this.#mark(record, "run again", data.reason, "failed");
      case "parked":
        run.state = "parked";
        return this.#mark(record, "parked", words(data.reason), "failed");
      case "message_quarantined":
        return this.#mark(record, "message set aside", words(data.reason), "failed");
      case "cancelling":
        run.state = "cancelling";
        this.#stop(record.run, at);
        return this.#mark(record, "cancelling", data.reason, "warned");
      case "budget_warning":
        return this.#mark(record, "budget", `${data.percent}% of ${words(data.resource).replaceAll("_", " ")} used`, "warned");
      case "run_ended": {
        const row = this.#row(record, "", "run", run.agent, run.start);
        const [[how, what]] = Object.entries(data.end);
        run.end = at;
        run.end_data = data;
        run.state = how === "stopped" && what?.cancelled !== undefined ? "cancelled" : how;
        row.text = words(what);
        row.answer = what;
        this.#stop(record.run, at);
        return this.#ended(row, at, how === "failed" ? "failed" : how === "stopped" ? "warned" : "done");
      }
      default:
        return this.#mark(record, record.type.replaceAll("_", " "), line(JSON.stringify(data), 400));
    }
  }

  /** Operations without an end are dropped when their run ends. */
  #stop(run, at) {
    for (let index = this.rows.length - 1; index >= 0; index--) {
      const row = this.rows[index];
      if (row.run === run && row.end === null && row.operation) this.#ended(row, at, "dropped");
      if (row.run === run && row.kind === "run") break;
    }
  }

  #preview(record, data) {
    const [[what, told]] = Object.entries(data);
    if (!told?.operation) return;
    const known = this.#rows.get(`${record.run}/${told.operation}`);
    if (known && known.end !== null) return;
    if (what === "model_started") {
      const row = this.#row(record, told.operation, "model", told.model, record.at);
      Object.assign(row, { attempt: told.attempt, live: "", name: told.model });
    } else if (what === "delta" && known) {
      const text = told.delta.text ?? told.delta.reasoning ?? told.delta.tool_call?.arguments ?? "";
      known.live = (known.live + text).slice(-LIVE_TEXT);
    } else if (what === "model_retry" && known) {
      known.tries.push({ at: record.at, error: told.error, pause: told.pause_ms });
    } else if (what === "tool_started") {
      const row = this.#row(record, told.operation, "tool", told.call.name, record.at);
      row.asked = told.call;
    } else if (what === "tool_progress" && known) {
      known.live = `${told.fraction === null ? "" : `${Math.round(told.fraction * 100)}% `}${told.message}`;
    } else if (what === "tool_output" && known) {
      known.live = (known.live + told.text).slice(-LIVE_TEXT);
    }
    this.end = Math.max(this.end, record.at);
  }
}

/** The name of an operation for people: before an approval its run looks for a decision that a person let it remember. */
const named = (name) => name.replace(/^[^/]*\/approval:/, "remembered decisions: ");

const scope = (value) => (typeof value === "string" ? value : Object.keys(value)[0]);

function kind(name) {
  if (name === "sleep" || name.startsWith("timer")) return "sleep";
  if (name === "model" || name === "tool" || name === "step") return name;
  if (name.startsWith("ask") || name.startsWith("approv")) return "question";
  return "other";
}

/** The class and the word for each state. */
export const STATES = {
  running: ["live", "running"],
  waiting: ["wait", "waiting"],
  parked: ["bad", "parked"],
  cancelling: ["warn", "cancelling"],
  answered: ["good", "answered"],
  stopped: ["warn", "stopped"],
  failed: ["bad", "failed"],
  cancelled: ["warn", "cancelled"],
  continued: ["good", "continued"],
};
