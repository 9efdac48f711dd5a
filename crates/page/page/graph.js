// The operations of a run as a graph of causes. Repeated steps are one node with a counter, or a node each.

import { h, once, s, show } from "./dom.js";
import { count, duration, line } from "./format.js";
import { title } from "./timeline.js";

const BOX = { width: 176, height: 46, gap: 24, level: 86 };
/** The most nodes that are drawn, about as many as a person can follow. */
const MOST = { once: 150, each: 300 };
/** The most edges from concurrent steps to the steps after them. */
const MOST_WAYS = 64;

export class Graph {
  #recorded = null;
  #only = "";
  #each = false;
  #drawn = "";

  constructor({ chosen }) {
    this.chosen = chosen;
    this.picture = h("div", { class: "drawing graph-drawing", tabindex: "0", role: "region", "aria-label": "Graph of the run" });
    this.told = h("p", { class: "quiet small", role: "status" });
    this.element = h("div", { class: "graph" }, this.told, this.picture);
    this.mode = h("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => this.#turn() }, "Each step by itself");
    this.controls = h("div", { class: "zoom" }, this.mode);
    this.redraw = once(() => this.#draw());
  }

  set(recorded, only) {
    [this.#recorded, this.#only] = [recorded, only];
    this.redraw();
  }

  #turn() {
    this.#each = !this.#each;
    this.mode.setAttribute("aria-pressed", String(this.#each));
    this.redraw();
  }

  #draw() {
    if (!this.#recorded || this.element.hidden) return;
    const { nodes, ways, left } = graphOf(this.#recorded, this.#only, this.#each);
    const now = JSON.stringify([this.#each, nodes.map((one) => [one.key, one.times, one.open, one.failed, one.took]), ways]);
    if (now === this.#drawn) return;
    this.#drawn = now;
    const last = nodes.at(-1);
    this.told.textContent = nodes.length ? `${count(nodes.length)} ${this.#each ? "steps" : "different steps"}${left ? `, ${count(left)} more are not drawn` : ""}${last?.open ? `; at work: ${nodes.filter((one) => one.open).map((one) => line(one.name, 40)).join(", ")}` : ""}` : "Nothing was done yet.";
    const held = document.activeElement?.closest?.(".step")?.dataset.key;
    show(this.picture, nodes.length ? drawing(nodes, ways, this.chosen) : null);
    if (held) [...this.picture.querySelectorAll(".step")].find((one) => one.dataset.key === held)?.focus();
  }
}

/** The step of a run's row, if it is one; a graph's own nodes appear as marks. */
function step(row) {
  if (row.kind === "mark") {
    if (row.name !== "node") return null;
    try {
      const { node } = JSON.parse(row.text);
      return typeof node === "string" ? { kind: "step", name: node } : null;
    } catch {
      return null;
    }
  }
  return row.kind === "run" ? null : { kind: row.kind, name: title(row) };
}

/** The nodes in the order of their first step, and the edges between them by their indices. */
export function graphOf({ rows }, only, each) {
  const nodes = new Map();
  const ways = new Map();
  const asked = new Map();
  const front = new Map();
  let left = 0;
  const lead = (from, to, below) => {
    const key = `${from} ${to}`;
    const way = ways.get(key) ?? { from, to, times: 0, below };
    way.times += 1;
    ways.set(key, way);
  };
  for (const row of rows) {
    const what = step(row);
    if (!what || (only && row.run !== only)) continue;
    const key = each ? row.key : JSON.stringify([row.path.at(-1), what.kind, what.name]);
    let node = nodes.get(key);
    if (!node) {
      if (nodes.size >= (each ? MOST.each : MOST.once)) {
        left += 1;
        continue;
      }
      node = { key, place: nodes.size, ...what, agent: row.path.at(-1) ?? "", times: 0, open: 0, failed: 0, took: 0 };
      nodes.set(key, node);
    }
    node.times += 1;
    node.open += row.end === null ? 1 : 0;
    node.failed += row.state === "failed" ? 1 : 0;
    node.took += row.end === null ? 0 : row.end - row.start;
    node.row = row;
    if (row.child) asked.set(row.child, node.place);
    // A step that begins before all steps under way have ended is beside them; otherwise it comes after them.
    let at = front.get(row.run);
    const first = !at;
    at ??= { before: [], now: [], ends: Infinity };
    if (at.now.length && row.start >= at.ends) [at.before, at.now, at.ends] = [at.now, [], Infinity];
    at.now.push(node.place);
    at.ends = Math.min(at.ends, row.end ?? Infinity);
    front.set(row.run, at);
    for (const from of new Set(at.before.slice(-MOST_WAYS))) lead(from, node.place, false);
    if ((first || !at.before.length) && asked.has(row.run)) lead(asked.get(row.run), node.place, true);
  }
  return { nodes: [...nodes.values()], ways: [...ways.values()], left };
}

/** Layers from top to bottom: a node is below all nodes that lead to it; edges back to earlier nodes do not count. */
export function layers(nodes, ways) {
  const level = nodes.map(() => 0);
  const ahead = ways.filter(({ from, to }) => from < to).sort((a, b) => a.to - b.to || a.from - b.from);
  for (const { from, to } of ahead) level[to] = Math.max(level[to], level[from] + 1);
  const rows = [];
  for (const node of nodes) (rows[level[node.place]] ??= []).push(node.place);
  // Two sweeps move each node to the middle of its predecessors, which leaves few crossings.
  const at = [];
  const number = (row) => row.forEach((place, index) => (at[place] = index - row.length / 2));
  rows.forEach(number);
  for (let sweep = 0; sweep < 2; sweep++) {
    for (const row of rows) {
      const wish = new Map(row.map((place) => {
        const from = ahead.filter((way) => way.to === place).map((way) => at[way.from]);
        return [place, from.length ? from.reduce((sum, one) => sum + one, 0) / from.length : at[place]];
      }));
      row.sort((a, b) => wish.get(a) - wish.get(b) || a - b);
      number(row);
    }
  }
  return rows;
}

/** Draws named nodes, and the edges between their indices. */
export function drawing(nodes, ways, chosen, label = "Steps, each below what led to it") {
  const rows = layers(nodes, ways);
  const wide = Math.max(...rows.map((row) => row.length)) * (BOX.width + BOX.gap) - BOX.gap;
  const spot = [];
  rows.forEach((row, level) => {
    const begin = (wide - (row.length * (BOX.width + BOX.gap) - BOX.gap)) / 2;
    row.forEach((place, index) => (spot[place] = { x: begin + index * (BOX.width + BOX.gap), y: level * BOX.level }));
  });
  const high = (rows.length - 1) * BOX.level + BOX.height;
  const middle = BOX.width / 2;
  // Beside the boxes there is room for the edges that pass them, and for their words.
  const room = ways.some((way) => way.about) ? 200 : 52;
  const floor = spot.map(({ y }) => y / BOX.level);
  // The handles of a curve that passes all boxes between two levels on one side of them.
  const past = (a, b, side) => {
    const between = rows.slice(Math.min(floor[a], floor[b]) + 1, Math.max(floor[a], floor[b])).flat().map((place) => spot[place].x);
    const [x, z] = [spot[a].x, spot[b].x].map((at) => at + (side > 0 ? BOX.width : 0));
    const far = side > 0 ? Math.max(x, z, ...between.map((at) => at + BOX.width)) : Math.min(x, z, ...between);
    return (8 * (far + side * BOX.gap) - x - z) / 6;
  };
  const lines = ways.map(({ from, to, times, below, about, whole }) => {
    const [a, b] = [spot[from], spot[to]];
    const back = from >= to;
    const right = a.x + BOX.width;
    const [half, side] = [BOX.height / 2, past(from, to, back ? 1 : -1)];
    // Two ends and two handles. What skips a level goes past the boxes between on the left, what leads back on the right.
    const [p, q, r, z] = from === to
      ? [[right, a.y + 12], [right + 36, a.y - 4], [right + 36, a.y + BOX.height + 4], [right, a.y + BOX.height - 12]]
      : back
      ? [[right, a.y + half], [side, a.y + half], [side, b.y + half], [b.x + BOX.width, b.y + half]]
      : floor[to] - floor[from] > 1
      ? [[a.x, a.y + half], [side, a.y + half], [side, b.y + half], [b.x, b.y + half]]
      : [[a.x + middle, a.y + BOX.height], [a.x + middle, a.y + BOX.height + 24], [b.x + middle, b.y - 24], [b.x + middle, b.y]];
    // Words stand where a curve is out of the others' way: near its end, or beside the boxes that it passes.
    const way = p[1] < q[1] ? 0.7 : 0.5;
    const at = (axis) => [[p, 1], [q, 3], [r, 3], [z, 1]].reduce((sum, [point, share], power) => sum + share * point[axis] * way ** power * (1 - way) ** (3 - power), 0);
    const told = whole ? `${nodes[from].name} to ${nodes[to].name}: ${whole}` : times > 1 ? `${count(times)} times` : "once";
    return [s("path", { class: `edge${below ? " dashed" : ""}${back ? " back" : ""}`, d: `M${p.join(" ")} C${[q, r, z].map((one) => one.join(" ")).join(" ")}` }, s("title", {}, line(told, 400))),
      about ? s("text", { class: "edge-words", x: at(0) + (way === 0.5 ? (back ? 6 : -6) : 0), y: at(1) + 4, "text-anchor": way === 0.7 ? "middle" : back ? "start" : "end" }, about) : null];
  });
  const boxes = nodes.map((node) => {
    const { x, y } = spot[node.place];
    const about = [node.agent, node.took !== undefined && (node.times > 1 || !node.open) ? duration(node.took) : ""].filter(Boolean).join(" · ");
    const open = () => chosen(node.row, node);
    return s("g", { class: `node step k-${node.kind}${node.end ? " end" : ""}${node.open ? " lit" : ""}${node.failed ? " failed" : ""}`, transform: `translate(${x} ${y})`, tabindex: 0, role: "button", "data-key": node.key, "aria-description": node.told,
      onclick: open, onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), open()) },
    s("rect", { width: BOX.width, height: BOX.height, rx: 8 }), s("rect", { class: "kind-bar", width: 4, height: BOX.height, rx: 2 }),
    s("text", { class: "name", x: middle, y: 19 }, line(node.name, 22)), s("text", { class: "about", x: middle, y: 36 }, line(about, 26)),
    node.times > 1 ? s("text", { class: "times", x: BOX.width - 8, y: 13 }, `×${count(node.times)}`) : null);
  });
  return s("svg", { width: wide + 2 * room, height: high + 8, viewBox: `${-room} -4 ${wide + 2 * room} ${high + 8}`, role: "group", "aria-label": label }, lines, boxes);
}
