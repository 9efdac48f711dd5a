// The operations of a run as bars over time.

import { h, once } from "./dom.js";
import { count, duration, exact, line } from "./format.js";
import { List } from "./list.js";

const ROW = 28;
const TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 864e5, 6048e5];

export class Timeline {
  #recorded = null;
  #only = "";
  #from = 0;
  #to = 1;
  #zoomed = false;
  #marked = null;
  #length = -1;

  constructor({ chosen }) {
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.list = new List({ label: "Timeline", height: ROW, className: "bars", draw: (row) => this.#draw(row), chosen });
    this.lives = h("div", { class: "lives", "aria-hidden": "true" });
    this.element = h("div", { class: "timeline" },
      h("div", { class: "axis-row" }, h("span", { class: "bar-label quiet" }, "Operation"), h("span", { class: "bar-took quiet number" }, "Took"), this.axis), this.list.element);
    const button = (text, label, act) => h("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick: act }, text);
    this.controls = h("div", { class: "zoom" },
      button("−", "Zoom out", () => this.#zoom(2)), button("+", "Zoom in", () => this.#zoom(0.5)), button("Fit", "Fit to the whole time", () => this.#fit()));
    this.element.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) {
        if (!event.shiftKey || !this.#zoomed) return;
        event.preventDefault();
        return this.#move(event.deltaY / 800);
      }
      event.preventDefault();
      const box = this.axis.getBoundingClientRect();
      this.#zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - box.left) / box.width);
    }, { passive: false });
    this.list.element.addEventListener("keydown", (event) => {
      const act = { "+": () => this.#zoom(0.5), "-": () => this.#zoom(2), 0: () => this.#fit(), ArrowLeft: () => this.#move(-0.2), ArrowRight: () => this.#move(0.2) }[event.key];
      if (!act || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      act();
    });
    this.redraw = once(() => this.#frame());
  }

  set(recorded, only) {
    this.#recorded = recorded;
    this.#only = only;
    if (!this.#zoomed) [this.#from, this.#to] = this.#whole();
    this.redraw();
  }

  mark(row) {
    this.#marked = row;
    this.list.redraw();
  }

  #whole() {
    const { start, end, rows } = this.#recorded;
    if (!rows.length) return [0, 1];
    const open = rows[0].end === null;
    const to = Math.max(open ? Math.max(end, Math.min(Date.now(), end + 3_600_000)) : end, start + 10);
    return [start, to + (to - start) * 0.02];
  }

  #fit() {
    this.#zoomed = false;
    [this.#from, this.#to] = this.#whole();
    this.redraw();
  }

  #zoom(by, at = 0.5) {
    const middle = this.#from + (this.#to - this.#from) * at;
    const [start, end] = this.#whole();
    const span = Math.max(2, (this.#to - this.#from) * by);
    if (span >= end - start) return this.#fit();
    this.#zoomed = true;
    this.#from = Math.max(start, middle - span * at);
    this.#to = this.#from + span;
    this.redraw();
  }

  #move(by) {
    if (!this.#zoomed) return;
    const [start, end] = this.#whole();
    const span = this.#to - this.#from;
    this.#from = Math.min(Math.max(start, this.#from + span * by), end - span);
    this.#to = this.#from + span;
    this.redraw();
  }

  #frame() {
    if (!this.#recorded) return;
    const { rows: all, runs } = this.#recorded;
    // A task given to another agent is shown in that agent's run.
    const rows = all.filter((row) => (this.#only ? row.run === this.#only : !(row.child && runs.has(row.child))));
    this.list.set(rows, { tail: this.#length >= 0 && !this.#zoomed && rows[0]?.end === null });
    this.#length = rows.length;
    const span = this.#to - this.#from;
    const most = Math.max(2, Math.min(8, this.axis.clientWidth / 90));
    const step = TICKS.find((tick) => span / tick <= most) ?? span / most;
    const ticks = [];
    const zero = this.#recorded.start;
    for (let at = Math.ceil((this.#from - zero) / step) * step; zero + at <= this.#to; at += step) {
      ticks.push(h("span", { class: "tick", style: { left: `${(100 * (zero + at - this.#from)) / span}%` } }, at === 0 ? "0" : duration(at)));
    }
    const lives = this.#recorded.lives.slice(-100).map((life) => h("span", { class: "life", title: `epoch ${life.epoch}, ${exact(life.at)}`, style: { left: `${(100 * (life.at - this.#from)) / span}%` } }));
    this.axis.replaceChildren(...ticks, ...lives);
  }

  #draw(row) {
    const span = this.#to - this.#from;
    const place = (at) => (100 * (at - this.#from)) / span;
    const now = Math.max(this.#recorded.end, Math.min(Date.now(), this.#to));
    const end = row.end ?? now;
    const left = place(row.start);
    const width = place(end) - left;
    const off = left > 100 || left + width < 0;
    const shown = row.kind === "mark"
      ? h("span", { class: `mark is-${row.state}`, style: { left: `${left}%` } })
      : h("span", { class: `bar k-${row.kind} is-${row.state}`, style: { left: `${Math.max(left, -1)}%`, width: `${Math.min(width + Math.min(left, 0), 102 - Math.max(left, 0))}%` } });
    const tries = row.tries.map((one) => h("span", { class: "try", title: `attempt failed: ${line(one.error, 100)}`, style: { left: `${place(one.at)}%` } }));
    const lives = this.#recorded.lives.length && this.#recorded.lives.length < 20
      ? this.#recorded.lives.map((life) => h("span", { class: "life", style: { left: `${place(life.at)}%` } })) : [];
    return [h("span", { class: `bar-row${row === this.#marked ? " marked" : ""}` },
      h("span", { class: "bar-label", style: { "--depth": Math.min(row.depth, 6) } },
        h("span", { class: `glyph k-${row.kind}` }), h("span", { class: "bar-name" }, line(title(row), 60)),
        h("span", { class: "quiet bar-text" }, line(row.live || row.text, 90))),
      h("span", { class: "bar-took number quiet" }, row.kind === "mark" ? "" : duration(end - row.start)),
      h("span", { class: "bar-space" }, off ? null : shown, ...(off ? [] : tries), ...lives)),
    h("span", { class: "unseen" }, `, ${row.kind}, ${row.state}, ${count(row.path.length)} deep in ${row.path.join(", ")}`)];
  }
}

/** The title of a row. */
export const title = (row) => (row.kind === "model" ? `model ${row.name}` : row.kind === "question" ? `asks: ${row.name.replaceAll("_", " ")}` : row.name);
