// Two runs side by side: where they diverge, and how their inputs and results differ.

import { follow, get, path } from "./api.js";
import { h, once, show } from "./dom.js";
import { count, counted, duration, line, money, pretty, short, visible, words } from "./format.js";
import { List } from "./list.js";
import { Recorded } from "./record.js";
import { title } from "./timeline.js";

/** How many differences of two definitions are shown. */
const MOST = 40;

/** Whether two operations are the same. */
const same = (a, b) => a && b && a.kind === b.kind && a.name === b.name && a.text === b.text && (a.call?.arguments ?? "") === (b.call?.arguments ?? "");

/** The differences of two values, each as its path with both values. Agents are identified by their names. */
export function differences(a, b, at = "", found = []) {
  if (found.length >= MOST || JSON.stringify(a) === JSON.stringify(b)) return found;
  const isMap = (one) => one !== null && typeof one === "object";
  if (!isMap(a) || !isMap(b) || Array.isArray(a) !== Array.isArray(b)) {
    found.push([at || "all", a, b]);
    return found;
  }
  const named = (list) => Array.isArray(list) && list.every((one) => isMap(one) && typeof one.name === "string");
  const keyed = (one) => new Map(named(one) ? one.map((each) => [each.name, each]) : Object.entries(one));
  const [left, right] = [keyed(a), keyed(b)];
  for (const key of new Set([...left.keys(), ...right.keys()])) differences(left.get(key), right.get(key), at ? `${at}.${key}` : key, found);
  return found;
}

export function compare(place, { signal, tell, link }, left, right) {
  const sides = [left, right].map((id) => ({ id, recorded: new Recorded(), definition: null, spent: h("p", { class: "quiet" }), answer: h("p", { class: "answer-text", dir: "auto" }) }));
  const list = new List({ label: "Operations of both runs", height: 44, className: "pairs", key: ([a, b]) => `${a?.key} ${b?.key}`, chosen: ([a, b]) => {
    const side = b ?? a;
    const at = side.records[0]?.position;
    location.hash = `#/runs/${b ? right : left}?entry=${at}`;
  }, draw: ([a, b, differs]) => [h("span", { class: `pair${differs}` }, cell(a), cell(b))] });
  // The links stay while the runs go on, so that a click is not lost.
  const heads = h("div", { class: "pair-heads" }, sides.map(({ id, spent, answer }, index) => h("section", {}, h("h2", {}, index ? "The fork " : "The first ", h("a", { href: `#/runs/${id}` }, short(id))), spent, answer)));
  const differs = h("div", { class: "differs-list" });
  const told = h("p", { class: "quiet", role: "status" });
  show(place, h("div", { class: "compare" }, h("div", { class: "title" }, h("h1", {}, "Two runs side by side"), told), heads, differs, list.element));

  const draw = once(() => {
    const [a, b] = sides.map(({ recorded }) => ordered(recorded));
    let common = 0;
    while (common < Math.min(a.length, b.length) && same(a[common], b[common])) common++;
    const pairs = [];
    for (let index = 0; index < Math.max(a.length, b.length); index++) pairs.push([a[index], b[index], index === common ? " differs first" : same(a[index], b[index]) ? "" : " differs"]);
    list.set(pairs);
    told.textContent = common === pairs.length ? "No difference so far." : `The same for ${count(common)} operations; then they differ.`;
    for (const { id, recorded, spent, answer } of sides) {
      const root = recorded.runs.get(id);
      const end = root?.end_data?.end;
      const all = [...recorded.runs.values()];
      const sum = (what) => all.reduce((total, one) => total + one[what], 0);
      spent.textContent = [root?.state ?? "…", duration(recorded.end - recorded.start), counted(sum("calls"), "model call"), `${count(sum("tokens"))} tokens`, money(sum("cost"))].filter(Boolean).join(" · ");
      answer.textContent = end ? line(words(Object.values(end)[0]), 300) : "…";
    }
    drawDifferences();
  });

  let drawn = "";
  function drawDifferences() {
    const [a, b] = sides;
    const inputs = sides.map(({ id, recorded }) => recorded.of(id)?.input);
    const found = inputs.every((one) => one !== undefined) && inputs[0] !== inputs[1] ? [["task", ...inputs]] : [];
    if (a.definition && b.definition) differences(a.definition, b.definition, "", found);
    const now = JSON.stringify(found);
    if (now === drawn) return;
    drawn = now;
    const text = (value) => (value === undefined || value === null ? "–" : line(typeof value === "string" ? value : pretty(value), 400));
    show(differs, found.length ? h("details", { open: true }, h("summary", {}, `What was given differs in ${counted(found.length, "place")}`),
      h("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Differences" }, h("table", {}, h("thead", {}, h("tr", {}, ["Where", "The first", "The fork"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, found.map(([at, one, other]) => h("tr", {}, h("td", {}, h("code", {}, visible(at))), h("td", { dir: "auto" }, text(one)), h("td", { dir: "auto" }, text(other)))))))) : null);
  }

  for (const side of sides) {
    // Only the operator may read definitions; other callers compare the operations alone.
    get(path("runs", side.id, "definition"), signal).then((definition) => ((side.definition = definition), draw()), () => {});
    follow(side.id, signal, { events: (lot) => (side.recorded.add(lot), draw()), state: link }).catch((error) => !signal.aborted && tell(error));
  }
  return { title: "Compare" };
}

/** The compared rows: the operations, without the marks of lives, which differ between a run and its fork in any case. */
const ordered = ({ rows, runs }) => rows.filter((row) => (row.kind !== "run" || row.depth > 0) && row.name !== "recovered" && !(row.child && runs.has(row.child)));

const cell = (row) => (row
  ? h("span", { class: "cell" }, h("span", { class: `glyph k-${row.kind}` }), h("span", { class: "bar-name" }, line(title(row), 60)), h("span", { class: "quiet clip" }, line(row.text || row.live, 160)))
  : h("span", { class: "cell none" }, "–"));
