// Evaluations: their variants with their figures, their cells from the worst one on, and two variants beside each other.

import { get, path, poll, query } from "./api.js";
import { h, nothing, show } from "./dom.js";
import { count, counted, duration, line, money } from "./format.js";
import { folded } from "./folded.js";
import { List } from "./list.js";

/** How often an evaluation that is not finished is looked at again. */
const LOOK_MS = 4000;

const at = (name, ...more) => `#${path("evaluations", name, ...more)}`;
const percent = (share) => `${(100 * share).toFixed(0)} %`;
const number = (value) => (Math.abs(value) >= 100 ? count(Math.round(value)) : value.toFixed(3).replace(/\.?0+$/, ""));
const interval = (found, as) => (found ? ` [${as(found.lower)}, ${as(found.upper)}]` : "");
const mean = (found, as) => (found ? `${as(found.estimate)}${interval(found.interval, as)}` : "–");

/** How a cell ended, as a look and a word. */
function ending(cell) {
  if (cell.success === true) return ["good", "passed"];
  const words = { agent_failed: ["bad", "no answer"], infrastructure: ["warn", "left out"], not_run: ["wait", "not run"] };
  if (words[cell.result]) return words[cell.result];
  if (cell.success === false) return ["bad", "failed"];
  return ["warn", cell.result === "unreadable" ? "unreadable" : "not counted"];
}

const mark = (cell) => {
  const [look, word] = cell ? ending(cell) : ["", "–"];
  return h("span", { class: `pill ${look}` }, h("span", { class: "dot" }), word);
};

/** The reasons of the scores that do not pass, and what else went wrong. */
const reasons = (cell) => Object.entries(cell.scores ?? {}).filter(([, score]) => !score.passes).map(([name, score]) => `${name}: ${score.why}`).concat(cell.why ?? []).join("; ");

/** A table in a region that scrolls sideways. */
const table = (label, names, rows) => h("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": label },
  h("table", {}, h("thead", {}, h("tr", {}, names.map(([name, look]) => h("th", { scope: "col", class: look }, name)))), h("tbody", {}, rows)));

/** Looks now, and again as long as `look` says that there is more to come. */
function watch(signal, tell, look) {
  const watching = new AbortController();
  signal.addEventListener("abort", () => watching.abort());
  poll(watching.signal, LOOK_MS, async () => (await look()) || watching.abort(), tell);
}

/** The names of all evaluations. */
export function evaluations(place, { signal, tell }) {
  const cards = h("div", { class: "cards" });
  show(place, h("div", { class: "narrow-page" }, h("h1", {}, "Evaluations"), cards));
  get("/evaluations", signal).then((all) => show(cards, all.length ? all.map((one) => h("a", { class: "card", href: at(one.name) },
    h("strong", {}, line(one.name, 80)), h("p", { class: "quiet" }, line(one.variants.join(", "), 160)), h("small", {}, `${counted(one.cells, "cell")}, ${counted(one.scorers.length, "scorer")}`)))
    : nothing("No evaluation is shown here.", h("p", { class: "quiet" }, "Start the server with --eval FILE."))), tell);
  return { title: "Evaluations" };
}

/** One evaluation. */
export function evaluation(place, { signal, tell, go, parameters }, name) {
  const wanted = { variant: "", ended: "", text: "", ...Object.fromEntries(parameters) };
  const told = h("p", { class: "quiet", role: "status" });
  const figures = h("div", {});
  const beside = h("div", {});
  const detail = h("aside", { class: "cell-detail", "aria-live": "polite", "aria-label": "Cell" }, h("p", { class: "quiet" }, "Choose a cell to see its scores."));
  const list = new List({ label: "Cells", height: 36, className: "cells", key: (cell) => `${cell.variant} ${cell.repeat} ${cell.sample}`, draw: drawCell, chosen: (cell) => show(detail, ...whole(cell)) });
  const variant = h("select", { name: "variant", "aria-label": "Variant" }, h("option", { value: "" }, "All variants"));
  const ended = h("select", { name: "ended", "aria-label": "Result" }, h("option", { value: "" }, "Any result"), ["passed", "failed", "no answer", "unreadable", "left out", "not run", "not counted"].map((one) => h("option", { value: one }, one)));
  const shown = h("p", { class: "quiet", role: "status" });
  ended.value = wanted.ended;
  const filter = h("form", { class: "filter", role: "search", onsubmit: (event) => event.preventDefault(), oninput: () => {
    Object.assign(wanted, Object.fromEntries(new FormData(filter)));
    history.replaceState(null, "", at(name) + query(wanted));
    draw();
  } }, h("input", { type: "search", name: "text", id: "search", placeholder: "Search samples and reasons", "aria-label": "Search samples and reasons", value: wanted.text }), variant, ended, shown);
  show(place, h("div", { class: "evaluation" }, h("div", { class: "title" }, h("h1", {}, line(name, 80)), told), figures, beside,
    h("section", { class: "evaluation-cells", "aria-labelledby": "cells-title" }, h("h2", { id: "cells-title" }, "Cells, the worst first"), filter,
      h("div", { class: "evaluation-body" }, h("div", { class: "cells-side" }, h("div", { class: "columns cell-columns runs-head", "aria-hidden": "true" }, ["Result", "Sample", "Variant", "Repeat", "Why"].map((one) => h("span", {}, one))), list.element), detail))));
  let cells = [];

  function draw() {
    const text = wanted.text.trim().toLowerCase();
    const rows = cells.filter((cell) => (!wanted.variant || cell.variant === wanted.variant) && (!wanted.ended || ending(cell)[1] === wanted.ended)
      && (!text || `${cell.sample} ${reasons(cell)} ${(cell.tags ?? []).join(" ")}`.toLowerCase().includes(text)));
    list.set(rows);
    shown.textContent = rows.length === cells.length ? "" : `${count(rows.length)} of ${counted(cells.length, "cell")}`;
  }

  watch(signal, tell, async () => {
    const report = await get(path("evaluations", name), signal);
    cells = report.cells;
    const open = cells.filter((cell) => cell.result === "not_run").length;
    told.textContent = `${counted(cells.length - open, "cell")}${open ? ` of ${count(cells.length)}` : ""}${report.gate ? `; the gate ${report.gate.passes ? "passes" : "does not pass"}` : ""}`;
    const names = report.variants.map((one) => one.variant);
    if (variant.options.length !== names.length + 1) {
      show(variant, h("option", { value: "" }, "All variants"), names.map((one) => h("option", { value: one }, line(one, 60))));
      variant.value = wanted.variant;
    }
    show(figures, variants(report));
    if (!beside.firstChild && names.length > 1) show(beside, choice(names, go, name));
    draw();
    return open > 0;
  });
  return { title: `Evaluation ${line(name, 60)}` };
}

/** The figures of the variants, and how they compare. */
function variants(report) {
  const scorers = Object.keys(report.variants[0]?.scorers ?? {});
  const rewarded = report.variants.some((one) => one.reward);
  const said = new Map(report.comparisons.map((one) => [one.other, one]));
  return table("Variants", [["Variant"], ["Success"], ...scorers.map((scorer) => [line(scorer, 60)]), rewarded && ["Reward"], ["Against the base"], ["Cost", "number"], ["Tokens", "number"], ["Median", "number"], ["Left out", "number"]].filter(Boolean), report.variants.map((one) => {
    const compared = said.get(one.variant);
    const out = one.counts.unreadable + one.counts.infrastructure + one.counts.not_run;
    return h("tr", {}, h("th", { scope: "row" }, line(one.variant, 60)), h("td", {}, mean(one.success, percent)), scorers.map((scorer) => h("td", {}, mean(one.scorers[scorer], number))),
      rewarded && h("td", {}, mean(one.reward, number)),
      h("td", {}, compared ? `${compared.verdict.replaceAll("_", " ")}${compared.comparison ? `, ${signed(compared.comparison.difference)}${interval(compared.comparison.interval, signed)}` : ""}` : "–"),
      h("td", { class: "number" }, money(one.cost_micros) || "0"), h("td", { class: "number" }, count(one.tokens)), h("td", { class: "number" }, duration(one.median_latency_ms)), h("td", { class: "number" }, count(out)));
  }));
}

const signed = (value) => `${value < 0 ? "" : "+"}${number(value)}`;

/** The choice of two variants that are shown beside each other. */
function choice(names, go, name) {
  const side = (label, value) => h("select", { "aria-label": label, value }, names.map((one) => h("option", { value: one, selected: one === value }, line(one, 60))));
  const [base, other] = [side("The one variant", names[0]), side("The other variant", names[1])];
  return h("form", { class: "row", onsubmit: (event) => {
    event.preventDefault();
    go(at(name, base.value, other.value));
  } }, base, "and", other, h("button", { type: "submit" }, "Show beside each other"));
}

function drawCell(cell) {
  return [h("span", { class: "columns cell-columns" }, h("span", {}, mark(cell)), h("span", { class: "task" }, line(cell.sample, 80)), h("span", { class: "quiet clip" }, line(cell.variant, 60)),
    h("span", { class: "number quiet" }, count(cell.repeat)), h("span", { class: "quiet clip" }, line(reasons(cell), 300)))];
}

/** All that is known of a cell. */
function whole(cell) {
  const facts = [["Variant", cell.variant], ["Repeat", count(cell.repeat)], cell.reward !== undefined && ["Reward", number(cell.reward)], ["Took", duration(cell.latency_ms)],
    ["Consumed", [counted(cell.spent.model_calls, "model call"), counted(cell.spent.tool_calls, "tool call"), money(cell.spent.usage?.cost_micros)].filter(Boolean).join(", ")],
    cell.tags?.length && ["Tags", cell.tags.join(", ")]].filter(Boolean);
  return [h("div", { class: "row" }, h("h2", {}, line(cell.sample, 80)), mark(cell)),
    cell.runs?.length ? h("p", {}, cell.runs.map((run, index) => [index ? " " : "", h("a", { class: "button", href: `#/runs/${run}` }, cell.runs.length > 1 ? `Turn ${index + 1}` : "Open its run")])) : null,
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, line(value, 200))))),
    cell.why ? folded(cell.why) : null,
    Object.entries(cell.scores ?? {}).map(([name, score]) => h("section", { class: "score" }, h("h3", {}, `${line(name, 60)}: ${number(score.value)}, ${score.passes ? "passes" : "does not pass"}${score.counts === false ? " (does not count)" : ""}`), folded(score.why),
      score.verdicts?.length ? h("ul", {}, score.verdicts.map((one) => h("li", {}, h("a", { href: `#/runs/${one.run}` }, line(one.by, 40)), `: ${one.score === null ? "unreadable" : number(one.score)}, ${line(one.why, 300)}`))) : null))].filter(Boolean).flat();
}

/** Two variants of an evaluation beside each other: what differs by measures, and cell by cell. */
export function beside(place, { signal, tell, go }, name, base, other) {
  const told = h("p", { class: "quiet", role: "status" });
  const measures = h("div", {});
  const list = new List({ label: "Cells of both variants", height: 36, className: "cells", key: ([sample, repeat]) => `${repeat} ${sample}`, draw: drawPair, chosen: ([, , one, two]) => {
    const [left, right] = [one, two].map((cell) => cell?.runs?.at(-1));
    if (left && right && left !== right) go(`#/compare/${left}/${right}`);
    else if (left ?? right) go(`#/runs/${left ?? right}`);
  } });
  show(place, h("div", { class: "evaluation" }, h("div", { class: "title" }, h("h1", {}, `${line(base, 40)} and ${line(other, 40)}`), h("a", { href: at(name) }, line(name, 60)), told), measures,
    h("section", { class: "evaluation-cells", "aria-labelledby": "pairs-title" }, h("h2", { id: "pairs-title" }, "Cells, those that differ first"),
      h("div", { class: "columns pair-columns runs-head", "aria-hidden": "true" }, ["Sample", "Repeat", line(base, 30), line(other, 30), "Why"].map((one) => h("span", {}, one))), list.element)));

  watch(signal, tell, async () => {
    const [report, compared] = await Promise.all([get(path("evaluations", name), signal), get(path("evaluations", name, "comparison") + query({ base, other }), signal)]);
    told.textContent = `${compared.verdict.replaceAll("_", " ")} by success; ${count(compared.gained.length)} gained, ${count(compared.lost.length)} lost`;
    show(measures, table("Measures", [["Measure"], [line(base, 30), "number"], [line(other, 30), "number"], ["Difference"], ["p", "number"]], compared.measures.map((one) => h("tr", {}, h("th", { scope: "row" }, line(one.measure, 60)), h("td", { class: "number" }, number(one.base)), h("td", { class: "number" }, number(one.other)),
      h("td", {}, signed(one.difference) + interval(one.interval, signed)), h("td", { class: "number" }, typeof one.adjusted_p === "number" ? one.adjusted_p.toFixed(3) : "–")))));
    const pairs = new Map();
    for (const cell of report.cells) {
      const side = [base, other].indexOf(cell.variant);
      if (side < 0) continue;
      const key = JSON.stringify([cell.sample, cell.repeat]);
      if (!pairs.has(key)) pairs.set(key, [cell.sample, cell.repeat, undefined, undefined]);
      pairs.get(key)[2 + side] = cell;
    }
    const alike = ([, , one, two]) => one?.success === two?.success;
    list.set([...pairs.values()].sort((a, b) => alike(a) - alike(b)));
    return report.cells.some((cell) => cell.result === "not_run" && [base, other].includes(cell.variant));
  });
  return { title: `${line(base, 40)} and ${line(other, 40)}` };
}

function drawPair([sample, repeat, one, two]) {
  const worse = [one, two].find((cell) => cell && cell.success !== true);
  return [h("span", { class: "columns pair-columns" }, h("span", { class: "task" }, line(sample, 80)), h("span", { class: "number quiet" }, count(repeat)), h("span", {}, mark(one)), h("span", {}, mark(two)),
    h("span", { class: "quiet clip" }, worse ? line(reasons(worse), 300) : ""))];
}
