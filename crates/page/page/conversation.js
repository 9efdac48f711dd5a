// The conversation of one run, as its agent saw it.

import { h, Kept, show } from "./dom.js";
import { counted, line, pretty, time, visible, words } from "./format.js";
import { folded } from "./folded.js";

const STEP = 100;

export class Conversation {
  #shown = STEP;
  #run = "";
  #kept = new Kept();
  #ended = null;
  #rows = [];

  constructor({ chosen }) {
    this.chosen = chosen;
    this.body = h("div", { class: "talk-body" });
    this.more = h("button", { type: "button", class: "more", onclick: () => this.#earlier() });
    this.element = h("div", { class: "talk", tabindex: "0", role: "log", "aria-label": "Conversation" }, this.more, this.body);
    this.element.addEventListener("scroll", () => {
      if (this.element.scrollTop < 40 && !this.more.hidden) this.#earlier();
    });
  }

  set(recorded, run) {
    if (run !== this.#run) {
      [this.#run, this.#shown] = [run, STEP];
      this.#kept = new Kept();
      this.body.replaceChildren();
    }
    this.#rows = recorded.rows.filter((row) => row.run === run && SAID.has(row.kind) && (row.kind !== "other" || row.child || row.changed));
    this.#rows.sort((a, b) => (a.records[0]?.position ?? Infinity) - (b.records[0]?.position ?? Infinity));
    this.#ended = recorded.runs.get(run)?.end_data ?? null;
    this.#draw();
  }

  #earlier() {
    const height = this.element.scrollHeight;
    this.#shown += STEP;
    this.#draw();
    this.element.scrollTop += this.element.scrollHeight - height;
  }

  #draw() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    const follows = scrollTop + clientHeight > scrollHeight - 60;
    const rows = this.#rows.slice(-this.#shown);
    this.more.hidden = rows.length === this.#rows.length;
    this.more.textContent = `Show earlier (${counted(this.#rows.length - rows.length, "message")})`;
    this.#kept.into(this.body, rows.map((row) => this.#element(row)), this.#ended ? this.#kept.of("end", JSON.stringify(this.#ended.end), () => ending(this.#ended)) : null);
    if (follows) this.element.scrollTop = this.element.scrollHeight;
  }

  #element(row) {
    return this.#kept.of(row.key, `${row.state} ${row.records.length} ${row.live.length} ${row.attempt}`, (before) => {
      const element = before ?? h("article", {});
      element.className = `said k-${row.kind} is-${row.state}`;
      return show(element, message(row, () => this.chosen(row)));
    });
  }
}

function ending({ end }) {
  const [[how, what]] = Object.entries(end);
  return how === "answered"
    ? h("article", { class: "said k-answer" }, h("header", {}, h("strong", {}, "Answer")), folded(what, "prose"))
    : h("article", { class: `said end is-${how}` }, h("header", {}, h("strong", {}, how)), h("p", {}, visible(words(what))));
}

const SAID = new Set(["run", "model", "tool", "question", "mark", "other"]);

function message(row, open) {
  const head = (who, ...more) => h("header", {}, h("strong", {}, who), more, h("button", { type: "button", class: "quiet push", title: `Details of ${line(who, 40)}`, onclick: open }, time(row.kind === "run" ? row.start : (row.end ?? row.start))));
  switch (row.kind) {
    case "run":
      return [head("Task"), folded(row.input ?? row.text)];
    case "model": {
      const said = row.model;
      if (!said) return [head(row.path.at(-1) ?? "model", h("span", { class: "quiet" }, ` ${line(row.name, 80)}${row.attempt > 1 ? `, attempt ${row.attempt}` : ""}`)), h("pre", { class: "prose live-text", dir: "auto" }, visible(row.live) || "…")];
      return [head(row.path.at(-1) ?? "model", h("span", { class: "quiet" }, ` ${line(said.model, 80)}`)),
        said.reasoning ? h("details", {}, h("summary", {}, "Reasoning"), folded(said.reasoning)) : null,
        said.text ? folded(said.text) : null,
        said.tool_calls.map((call) => h("div", { class: "call" }, h("span", { class: "tool-name" }, line(call.name, 120)), folded(pretty(call.arguments), "code")))];
    }
    case "tool":
      return [head(line(row.name, 120), h("span", { class: "quiet" }, ` ${row.result?.status ?? row.state}`)),
        row.live ? h("pre", { class: "code live-text" }, visible(row.live)) : null,
        row.result ? folded(pretty(row.result.text), "code") : row.error ? h("p", { class: "fault" }, visible(words(row.error))) : null];
    case "question":
      return [head("Asks a person"), folded(row.text), row.answer !== undefined ? h("p", { class: "given" }, "Answer: ", visible(words(row.answer))) : row.state === "running" ? h("p", { class: "quiet" }, "waits for the answer") : null];
    default:
      return [head(line(row.name, 120)), row.text ? h("p", { class: row.state === "failed" ? "fault" : "quiet" }, line(row.text, 400)) : null,
        row.child ? h("p", {}, h("a", { href: `#/runs/${row.child}` }, "its run")) : null];
  }
}
