// The running program: the tree of its actors, slots and limits, budgets, topics, schedules and sleeping runs.

import { get, poll } from "./api.js";
import { h, Kept, nothing, show } from "./dom.js";
import { count, duration, exact, line, money, short, words } from "./format.js";

const MOST = 400;
const LISTED = 50;

/** A table that draws only changed rows again. */
class Table {
  #kept = new Kept();

  constructor(names, empty) {
    this.body = h("tbody", {});
    this.table = h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))), this.body);
    this.empty = nothing(empty);
    this.element = h("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": names[0] }, this.table, this.empty);
  }

  /** Each row is its key, its cells and its version. */
  set(rows) {
    this.table.hidden = !rows.length;
    this.empty.hidden = Boolean(rows.length);
    this.#kept.into(this.body, rows.map(([key, version, cells]) => this.#kept.of(key, JSON.stringify(version), () => h("tr", {}, cells()))));
  }
}

const meter = (used, most, label) => h("meter", { min: 0, max: Math.max(1, most), value: used, "aria-label": label });
const of = (used, most, label) => h("span", {}, `${count(used)} of ${count(most)}`, meter(used, most, label));
const runLink = (run) => h("a", { href: `#/runs/${run.id}` }, line(run.title, 50) || short(run.id));

export function system(place, { signal, tell }) {
  const actors = new Table(["Actor", "Kind", "State", "Restart", "Restarts", "Id"], "Nothing is supervised.");
  const slots = new Table(["Slots of", "In use", "Waiting"], "No model or tool has slots.");
  const budgets = new Table(["Budget of", "What", "Used"], "No open run has a budget.");
  const topics = new Table(["Topic", "Queue", "Waiting", "Received", "Dropped", "Run"], "No open run has a topic.");
  const asleep = new Table(["Sleeps", "Agent", "Wakes"], "Nothing sleeps.");
  const planned = new Table(["Team", "Schedule", "Says", "Next"], "No team is woken by itself.");
  const limits = h("dl", { class: "facts wide" });
  const told = h("p", { class: "quiet", role: "status" });
  const section = (id, name, ...content) => h("section", { "aria-labelledby": id }, h("h2", { id }, name), content);
  show(place, h("div", { class: "system" }, h("div", { class: "title" }, h("h1", {}, "System"), told),
    h("div", {}, section("tree-title", "Supervision tree", h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Actors" }, actors.element)), section("topics-title", "Topics and their queues", topics.element)),
    h("div", {}, section("limits-title", "Runs, delegated ones too", limits), section("slots-title", "Slots", slots.element), section("budgets-title", "Budgets", budgets.element), section("asleep-title", "Asleep", asleep.element), section("planned-title", "Schedules", planned.element))));

  poll(signal, 1000, async () => {
    const [tree, load, open] = await Promise.all([get("/supervision", signal), get("/load", signal), get("/runs?open=true&all=true&limit=500", signal)]);
    const rows = [];
    const walk = (all, depth) => all.forEach((one) => {
      rows.push([one, depth]);
      walk(one.children ?? [], depth + 1);
    });
    walk(tree, 0);
    const restarts = rows.reduce((sum, [one]) => sum + one.restarts, 0);
    told.textContent = `${count(rows.length)} supervised actors, ${count(restarts)} restarts${rows.length > MOST ? `; the first ${count(MOST)} are shown` : ""}`;
    actors.set(rows.slice(0, MOST).map(([one, depth], index) => [`${index} ${one.id}`, [one.kind, one.state, one.restart, one.restarts, one.actor, depth], () => [
      h("td", {}, h("span", { class: "indent", style: { "--depth": depth } }, h("span", { class: `dot ${up(one) ? "good" : "warn"}` }), line(one.id, 80))),
      h("td", { class: "quiet" }, words(one.kind)), h("td", {}, words(one.state)), h("td", { class: "quiet" }, words(one.restart)),
      h("td", { class: "number" }, one.restarts ? h("strong", {}, count(one.restarts)) : "0"), h("td", { class: "quiet" }, one.actor ?? "")]]));
    slots.set([...load.models, ...load.tools].map((one, index) => [`${index} ${one.name}`, one, () => [h("td", {}, line(one.name, 60)), h("td", {}, of(one.used, one.slots, `slots of ${line(one.name, 60)}`)), h("td", { class: "number" }, one.waiting ? h("strong", {}, count(one.waiting)) : "0")]]));
    const by = (status) => open.runs.filter((one) => one.status === status).length;
    const waking = open.runs.filter((one) => one.wake_at).sort((a, b) => a.wake_at - b.wake_at);
    const facts = [["Running", by("running")], ["Waiting", by("waiting")], ["Cancelling", by("cancelling")], ["Parked", by("parked")], ["Asleep", waking.length],
      ["Live root runs", `${count(load.live_runs.used)} of ${count(load.live_runs.most)}`], ["Turns on their way", `${count(load.admissions.used)} of ${count(load.admissions.most)}`],
      ["Turns in a session", `${count(load.queued_turns)} at most`], ["Entries of a run", `${count(load.max_entries)} at most`], ["Tries of a model call", count(load.model_attempts)], ["A tool call takes", `${duration(load.tool_timeout_ms)} at most`]];
    show(limits, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "number" ? count(value) : value))));
    asleep.set(waking.slice(0, LISTED).map((one) => [one.id, [one.wake_at, one.title], () => [h("td", {}, runLink(one)), h("td", { class: "quiet" }, line(one.path.join(" › "), 60)), h("td", {}, exact(one.wake_at))]]));
  }, tell);

  // Data from the journals of open runs is requested less often.
  poll(signal, 4000, async () => {
    const [given, published, schedules] = await Promise.all([get("/budgets?limit=50", signal), get("/topics?limit=100", signal), get("/schedules", signal)]);
    budgets.set(given.flatMap(({ run, allowance }) => bounds(allowance).map(([name, used, most, shown]) => [`${run.id} ${name}`, [used, most, run.title], () => [
      h("td", {}, runLink(run)), h("td", { class: "quiet" }, name), h("td", {}, shown, meter(used, most, `${name} used`))]])));
    topics.set(published.flatMap(({ run, topics: all }) => all.flatMap((topic) => (topic.queues.length ? topic.queues : [null]).map((queue) => [`${run.id} ${topic.name} ${queue?.name}`, [topic.published, topic.blocked, queue, run.title], () => [
      h("td", {}, line(topic.name, 40), h("small", { class: "quiet" }, ` ${count(topic.published)} published${topic.blocked ? `, ${count(topic.blocked)} wait for room` : ""}`)),
      h("td", {}, queue ? line(queue.name, 40) : "–"), h("td", {}, queue ? of(queue.waiting, queue.capacity, `events in ${line(queue.name, 40)}`) : ""),
      h("td", { class: "number" }, queue ? count(queue.received) : ""), h("td", { class: "number" }, queue ? count(queue.dropped) : ""), h("td", {}, runLink(run))]]))));
    planned.set(schedules.map((one) => [`${one.team} ${one.schedule.name}`, one, () => [h("td", {}, line(one.team, 40)), h("td", {}, line(one.schedule.name, 40)),
      h("td", { class: "quiet" }, line(typeof one.schedule.say === "string" ? one.schedule.say : JSON.stringify(one.schedule.say ?? ""), 80)),
      h("td", {}, one.next ? `${exact(one.next)} (in ${duration(one.next - Date.now())})` : "–")]]));
  }, tell);
  return { title: "System" };
}

/** The limits of a run that has any: their names, the amount in use, and the amount allowed. */
function bounds({ budget = {}, spent = {}, reserved = {} }) {
  const tokens = (one) => one.tokens ?? (one.input_tokens ?? 0) + (one.output_tokens ?? 0);
  const uses = { model_calls: (one) => one.model_calls ?? 0, tool_calls: (one) => one.tool_calls ?? 0, tokens, cost_micros: (one) => one.cost_micros ?? 0 };
  return Object.entries(uses).filter(([name]) => budget[name]).map(([name, use]) => {
    const used = use(spent ?? {}) + use(reserved ?? {});
    const shown = name === "cost_micros" ? `${money(used) || "0"} of ${money(budget[name])}` : `${count(used)} of ${count(budget[name])}`;
    return [name.replace("_micros", "").replaceAll("_", " "), used, budget[name], shown];
  });
}

const up = (one) => /running|up/.test(JSON.stringify(one.state).toLowerCase());
