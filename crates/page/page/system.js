// The program as it lives: the tree of its actors, its bounds, its schedules.

import { get, poll } from "./api.js";
import { h, nothing, show } from "./dom.js";
import { count, duration, exact, line, words } from "./format.js";

const MOST = 400;

export function system(place, { signal, tell }) {
  const tree = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Actors" });
  const limits = h("dl", { class: "facts wide" });
  const schedules = h("div", {});
  const told = h("p", { class: "quiet", role: "status" });
  show(place, h("div", { class: "system" }, h("div", { class: "title" }, h("h1", {}, "System"), told),
    h("section", { "aria-labelledby": "tree-title" }, h("h2", { id: "tree-title" }, "Supervision tree"), tree),
    h("section", { "aria-labelledby": "limits-title" }, h("h2", { id: "limits-title" }, "At work"), limits, h("h2", {}, "Schedules"), schedules)));
  let seen = "";
  poll(signal, 1000, async () => {
    const [actors, planned, open] = await Promise.all([get("/supervision", signal), get("/schedules", signal), get("/runs?open=true&all=true&limit=500", signal)]);
    const now = JSON.stringify([actors, planned, open.runs.map((one) => [one.id, one.status])]);
    if (now === seen) return;
    seen = now;
    const rows = [];
    const walk = (all, depth) => all.forEach((one) => {
      rows.push([one, depth]);
      walk(one.children ?? [], depth + 1);
    });
    walk(actors, 0);
    const restarts = rows.reduce((sum, [one]) => sum + one.restarts, 0);
    told.textContent = `${count(rows.length)} supervised actors, ${count(restarts)} restarts`;
    show(tree, h("table", {}, h("thead", {}, h("tr", {}, ["Actor", "Kind", "State", "Restart", "Restarts", "Id"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.slice(0, MOST).map(([one, depth]) => h("tr", {},
        h("td", {}, h("span", { class: "indent", style: { "--depth": depth } }, h("span", { class: `dot ${up(one) ? "good" : "warn"}` }), one.id)),
        h("td", { class: "quiet" }, words(one.kind)), h("td", {}, words(one.state)), h("td", { class: "quiet" }, words(one.restart)),
        h("td", { class: "number" }, one.restarts ? h("strong", {}, count(one.restarts)) : "0"), h("td", { class: "quiet" }, one.actor ?? ""))))),
      rows.length > MOST ? h("p", { class: "quiet" }, `and ${count(rows.length - MOST)} more`) : null);
    const by = (status) => open.runs.filter((one) => one.status === status).length;
    const waking = open.runs.filter((one) => one.wake_at).sort((a, b) => a.wake_at - b.wake_at);
    show(limits, [["Running", by("running")], ["Waiting", by("waiting")], ["Cancelling", by("cancelling")], ["Parked", by("parked")], ["Asleep", waking.length], ["Wakes next", waking.length ? exact(waking[0].wake_at) : "–"]]
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "number" ? count(value) : value))));
    show(schedules, planned.length ? h("table", {}, h("thead", {}, h("tr", {}, ["Team", "Schedule", "Says", "Next"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, planned.map((one) => h("tr", {}, h("td", {}, one.team), h("td", {}, one.schedule.name),
        h("td", { class: "quiet" }, line(typeof one.schedule.say === "string" ? one.schedule.say : JSON.stringify(one.schedule.say ?? ""), 80)),
        h("td", {}, one.next ? `${exact(one.next)} (in ${duration(one.next - Date.now())})` : "–"))))) : nothing("No team is woken by itself."));
  }, tell);
  return { title: "System" };
}

const up = (one) => /running|up/.test(JSON.stringify(one.state).toLowerCase());
