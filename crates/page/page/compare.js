// Two runs side by side, and where they part.

import { follow } from "./api.js";
import { h, once, show } from "./dom.js";
import { count, duration, line, short, words } from "./format.js";
import { List } from "./list.js";
import { Recorded } from "./record.js";
import { title } from "./timeline.js";

/** What makes two operations the same. */
const same = (a, b) => a && b && a.kind === b.kind && a.name === b.name && a.text === b.text && (a.call?.arguments ?? "") === (b.call?.arguments ?? "");

export function compare(place, { signal, tell, link }, left, right) {
  const sides = [left, right].map((id) => ({ id, recorded: new Recorded() }));
  const list = new List({ label: "Operations of both runs", height: 44, className: "pairs", chosen: ([a, b]) => {
    const side = b ?? a;
    const at = side.records[0]?.position;
    location.hash = `#/runs/${b ? right : left}?entry=${at}`;
  }, draw: ([a, b, differs]) => [h("span", { class: `pair${differs}` }, cell(a), cell(b))] });
  const heads = h("div", { class: "pair-heads" });
  const told = h("p", { class: "quiet", role: "status" });
  show(place, h("div", { class: "compare" }, h("div", { class: "title" }, h("h1", {}, "Two runs side by side"), told), heads, list.element));

  const draw = once(() => {
    const [a, b] = sides.map(({ recorded }) => ordered(recorded));
    let common = 0;
    while (common < Math.min(a.length, b.length) && same(a[common], b[common])) common++;
    const pairs = [];
    for (let index = 0; index < Math.max(a.length, b.length); index++) pairs.push([a[index], b[index], index === common ? " differs first" : same(a[index], b[index]) ? "" : " differs"]);
    list.set(pairs);
    told.textContent = common === pairs.length ? "No difference so far." : `The same for ${count(common)} operations; then they differ.`;
    show(heads, sides.map(({ id, recorded }, index) => {
      const root = recorded.runs.get(id);
      const end = root?.end_data?.end;
      const spent = [...recorded.runs.values()].reduce((sum, one) => sum + one.tokens, 0);
      return h("section", {}, h("h2", {}, index ? "The fork " : "The first ", h("a", { href: `#/runs/${id}` }, short(id))),
        h("p", { class: "quiet" }, `${root?.state ?? "…"} · ${duration(recorded.end - recorded.start)} · ${count(spent)} tokens`),
        h("p", { class: "answer-text", dir: "auto" }, end ? line(words(Object.values(end)[0]), 300) : "…"));
    }));
  });

  for (const { id, recorded } of sides) {
    follow(id, signal, { events: (lot) => (recorded.add(lot), draw()), state: link }).catch((error) => !signal.aborted && tell(error));
  }
  return { title: "Compare" };
}

/** What is compared: the operations, without the marks of lives, in which a run and its fork differ in any case. */
const ordered = ({ rows, runs }) => rows.filter((row) => (row.kind !== "run" || row.depth > 0) && row.name !== "recovered" && !(row.child && runs.has(row.child)));

const cell = (row) => (row
  ? h("span", { class: "cell" }, h("span", { class: `glyph k-${row.kind}` }), h("span", { class: "bar-name" }, line(title(row), 60)), h("span", { class: "quiet clip" }, line(row.text || row.live, 160)))
  : h("span", { class: "cell none" }, "–"));
