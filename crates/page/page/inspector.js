// One operation with all of its records.

import { get, path, query } from "./api.js";
import { cancelCall } from "./actions.js";
import { h, Kept } from "./dom.js";
import { count, duration, exact, line, money, pretty, short, visible, words } from "./format.js";
import { folded } from "./folded.js";
import { forkRun } from "./fork.js";
import { title } from "./timeline.js";

export class Inspector {
  #row = null;
  #version = "";
  #kept = new Kept();

  constructor({ run, recorded, context, closed }) {
    Object.assign(this, { run, recorded, context });
    this.body = h("div", { class: "inspector-body" });
    this.title = h("h2", { id: "inspected" });
    this.element = h("aside", { class: "inspector", "aria-labelledby": "inspected", hidden: true },
      h("header", {}, this.title, h("button", { type: "button", class: "quiet push", "aria-label": "Close details", onclick: closed }, "×")), this.body);
  }

  show(row) {
    if (row?.key !== this.#row?.key) {
      this.#kept = new Kept();
      this.body.scrollTop = 0;
    }
    this.#row = row;
    this.#version = "";
    this.element.hidden = !row;
    this.refresh();
  }

  /** Draws the changes of the operation; open parts stay open, and buttons stay where they are. */
  refresh() {
    const row = this.#row;
    if (!row) return;
    const version = `${row.key} ${row.state} ${row.records.length} ${row.live?.length} ${row.tries.length}`;
    if (version === this.#version) return;
    this.#version = version;
    this.title.textContent = line(title(row), 80);
    const kept = this.#kept;
    const last = row.records.at(-1);
    const sequences = [...new Set(row.records.map((record) => record.sequence))].filter((one) => one !== null && one !== undefined);
    kept.into(this.body,
      kept.of("facts", `${row.state} ${row.records.length} ${row.end}`, () => this.#facts(row)),
      kept.of("acts", `${row.state} ${row.child} ${last?.sequence}`, () => this.#acts(row)),
      row.state === "running" && row.live ? kept.of("live", version, (before) => live(row, before)) : null,
      sections(row).filter(Boolean).map(([name, text, draw]) => kept.of(`section ${name}`, text, () => h("section", {}, h("h3", {}, name), draw()))),
      row.kind === "model" ? kept.of("before", "", () => this.#before(row)) : null,
      sequences.length ? kept.of("journal", sequences.join(), (before) => this.#entries(row, sequences, before?.open)) : null);
  }

  #facts(row) {
    const call = row.call;
    const usage = row.model?.usage;
    const by = call && (typeof call.by === "string" ? call.by : words(call.by));
    const facts = [
      ["Kind", row.kind], ["State", row.state], ["Agent", row.path.join(" › ")],
      row.operation ? ["Operation", h("code", {}, row.operation)] : null,
      ["Began", exact(row.start)], row.end !== null && row.kind !== "mark" ? ["Took", duration(row.end - row.start)] : null,
      row.model ? ["Latency", duration(row.model.latency_ms)] : call?.latency_ms ? ["Latency", duration(call.latency_ms)] : null,
      row.model || call?.attempts ? ["Attempts", count(row.model?.attempts ?? call.attempts)] : row.attempt > 1 ? ["Attempt", count(row.attempt)] : null,
      usage ? ["Tokens", `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out${usage.cached_tokens ? `, ${count(usage.cached_tokens)} cached` : ""}${usage.estimated_tokens ? " (estimated)" : ""}`] : null,
      usage?.reasoning_tokens ? ["Reasoning", `${count(usage.reasoning_tokens)} tokens`] : null,
      usage?.cost_micros ? ["Cost", money(usage.cost_micros)] : null,
      row.model ? ["Finish", words(row.model.finish)] : null,
      row.result ? ["Result", row.result.status] : null,
      by ? ["Answered by", by] : null,
      call?.approval ? ["Approval", `${call.approval.decision}${call.approval.by ? ` by ${call.approval.by}` : ""}`] : null,
    ].filter(Boolean);
    return h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  #acts(row) {
    const { tell, go } = this.context;
    const last = row.records.at(-1);
    const runs = row.state === "running" && row.operation;
    return h("div", { class: "row" },
      last ? h("button", { type: "button", onclick: () => forkRun({ id: row.run, go, at: last.sequence + 1, row }) }, "Fork here…") : null,
      runs && ["tool", "other", "model"].includes(row.kind) ? h("button", { type: "button", class: "danger", onclick: () => cancelCall({ run: row.run, operation: row.operation, tell }) }, "Cancel this call") : null,
      row.child ? h("a", { class: "button", href: `#/runs/${row.child}` }, "Its run") : null,
      last ? h("button", { type: "button", class: "quiet", onclick: async (event) => {
        const button = event.currentTarget;
        await navigator.clipboard?.writeText(`${location.origin}/#/runs/${this.run}?entry=${last.position}`).then(() => (button.textContent = "Copied"), () => (button.textContent = location.href));
      } }, "Copy link") : null);
  }

  /** The messages that the model was given. */
  #before(row) {
    const place = row.records.find((record) => record.type === "model_called")?.position ?? Infinity;
    const before = this.recorded.rows.filter((one) => one.run === row.run && one !== row && ["run", "model", "tool"].includes(one.kind) && (one.records[0]?.position ?? Infinity) < place);
    const fill = (details) => {
      if (!details.open || details.childElementCount > 1) return;
      for (const one of before.slice(-40)) {
        const text = one.kind === "run" ? one.input : one.kind === "model" ? one.model?.text || one.text : one.result?.text ?? one.text;
        details.append(h("p", { class: "quiet small" }, one.kind === "run" ? "task" : one.kind === "model" ? "model" : `tool ${line(one.name, 60)}`), folded(text ?? "", one.kind === "tool" ? "code" : "prose"));
      }
      if (!before.length) details.append(h("p", { class: "quiet" }, "Nothing was said in this run before."));
    };
    return h("details", { ontoggle: (event) => fill(event.currentTarget) }, h("summary", {}, `Said in this run before it (${count(before.length)})`));
  }

  /** The entries of the journal, which only the operator may read. */
  #entries(row, sequences, open) {
    const load = async (details) => {
      if (!details.open || details.childElementCount > 1) return;
      try {
        for (const from of sequences.slice(0, 6)) {
          const [entry] = await get(`${path("runs", row.run, "entries")}${query({ from, limit: 1 })}`);
          if (entry) details.append(h("p", { class: "quiet small" }, `entry ${entry.sequence}, position ${entry.position}, ${exact(entry.at)}`), folded(pretty(entry.entry), "code"));
        }
      } catch (error) {
        details.append(h("p", { class: "fault" }, error.message));
      }
    };
    return h("details", { open, ontoggle: (event) => load(event.currentTarget) }, h("summary", {}, `Journal of run ${short(row.run)}`));
  }
}

/** The output of a model or a tool so far. The view scrolls along while its end is visible. */
function live(row, before) {
  const section = before ?? h("section", {}, h("h3", {}, "So far"), h("pre", { class: "prose live-text" }));
  const text = section.lastElementChild;
  const follows = text.scrollTop + text.clientHeight > text.scrollHeight - 20;
  text.textContent = visible(row.live);
  if (follows) text.scrollTop = text.scrollHeight;
  return section;
}

/** The records of an operation: each part with its title, its version, and its content. */
function sections(row) {
  const part = (name, text, draw) => (text === undefined || text === null || text === "" ? null : [name, text, draw ?? (() => folded(text))]);
  const code = (value) => (value === undefined || value === null ? null : pretty(value));
  const said = row.model;
  const asked = code(row.call?.arguments ?? row.asked?.arguments);
  const result = code(row.result?.text);
  const call = code(row.question?.call?.arguments);
  const answer = row.kind === "question" ? code(row.answer) : null;
  const changed = code(row.changed);
  return [
    row.tries.length ? part("Attempts that failed", row.tries.length, () => row.tries.map((one) => h("p", { class: "fault" }, `${visible(one.error)} (again in ${duration(one.pause)})`))) : null,
    row.kind === "run" ? part("Task", row.input) : null,
    row.kind === "run" && row.answer !== undefined ? part("End", words(row.answer)) : null,
    part("Reasoning", said?.reasoning), part("Text", said?.text),
    said?.tool_calls.length ? part("Calls", said.tool_calls.length, () => said.tool_calls.map((one) => h("div", { class: "call" }, h("span", { class: "tool-name" }, line(one.name, 120)), folded(pretty(one.arguments), "code")))) : null,
    part("Arguments", asked, () => folded(asked, "code")), part("Result", result, () => folded(result, "code")),
    part("Question", row.question?.prompt, () => [folded(row.question.prompt), call && folded(call, "code")]),
    part("Answer", answer, () => folded(answer, "code")), part("Change", changed, () => folded(changed, "code")),
    row.error ? part("Error", words(row.error), () => h("p", { class: "fault" }, visible(words(row.error)))) : null,
    row.kind === "mark" ? part("What happened", code(row.text)) : null,
  ];
}
