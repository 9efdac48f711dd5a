// A run: its agents, its timeline, its conversation, and the ways to step in.

import { follow, get, path, poll } from "./api.js";
import { cancelRun, resumeRun, retryRun, steerBox } from "./actions.js";
import { Conversation } from "./conversation.js";
import { h, Kept, nothing, once, show } from "./dom.js";
import { forkRun } from "./fork.js";
import { count, counted, duration, exact, line, money, short, time, words } from "./format.js";
import { Graph } from "./graph.js";
import { Inspector } from "./inspector.js";
import { List } from "./list.js";
import { pill } from "./pill.js";
import { Questions } from "./questions.js";
import { Recorded } from "./record.js";
import { Timeline } from "./timeline.js";

const VIEWS = [["timeline", "Timeline"], ["conversation", "Conversation"], ["graph", "Graph"], ["events", "Events"]];

export function run(place, context, id) {
  const { signal, tell, go, parameters, link } = context;
  const recorded = new Recorded();
  let details = null;
  let only = parameters.get("agent") ?? "";
  let view = VIEWS.some(([name]) => name === parameters.get("view")) ? parameters.get("view") : "timeline";
  let wanted = parameters.get("entry");

  const head = h("header", { class: "run-head" });
  const asked = h("section", { class: "asked", "aria-label": "Waiting questions" });
  const tree = h("nav", { class: "tree", "aria-label": "Agents and child runs" });
  const facts = h("dl", { class: "facts" });
  const list = h("div", { class: "tablist", role: "tablist", "aria-label": "Views of the run" });
  const controls = h("div", { class: "push" });
  const tabs = h("div", { class: "tabs" }, list, controls);
  const panel = h("div", { class: "panel", id: "panel", role: "tabpanel" });
  const steer = h("div", { class: "steer" });
  const inspector = new Inspector({ run: id, recorded, context, closed: () => pick(null) });
  const frame = h("div", { class: "run-page" }, head, asked,
    h("div", { class: "run-body" },
      h("aside", { class: "side", "aria-label": "Agents" }, tree, facts),
      h("section", { class: "middle", "aria-label": "What happened" }, tabs, panel, steer),
      inspector.element));
  show(place, frame);

  const timeline = new Timeline({ chosen: pick });
  const conversation = new Conversation({ chosen: pick });
  const graph = new Graph({ chosen: pick });
  const events = eventList();
  const questions = new Questions(asked, { tell, after: () => look_again() });
  // All views stay in the document, so that each keeps its state while another is shown.
  const views = { timeline: timeline.element, conversation: conversation.element, graph: graph.element, events: events.element };
  const tablist = VIEWS.map(([one, label]) => h("button", {
    type: "button", role: "tab", id: `tab-${one}`, "aria-controls": "panel",
    onclick: () => choose(one),
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const at = VIEWS.findIndex(([each]) => each === view);
      choose(VIEWS[(at + step + VIEWS.length) % VIEWS.length][0]);
      list.querySelector('[aria-selected="true"]').focus();
    },
  }, label));
  show(list, tablist);
  show(panel, Object.values(views));
  const draw = once(() => {
    drawTree();
    drawFacts();
    timeline.set(recorded, only);
    if (view === "conversation") conversation.set(recorded, only || id);
    if (view === "graph") graph.set(recorded, only);
    if (view === "events") events.set(recorded.events.filter((one) => !only || one.run === only), { tail: true, redraw: false });
    inspector.refresh();
    if (wanted && recorded.end) {
      const row = recorded.at(Number(wanted));
      if (row) {
        wanted = null;
        pick(row);
      }
    }
  });

  function pick(row) {
    inspector.show(row);
    frame.classList.toggle("inspecting", Boolean(row));
    timeline.mark(row);
    address(row?.records[0]?.position);
  }

  function address(entry) {
    const parts = [];
    if (view !== "timeline") parts.push(`view=${view}`);
    if (only) parts.push(`agent=${only}`);
    if (entry !== undefined && entry !== null) parts.push(`entry=${entry}`);
    history.replaceState(null, "", `#/runs/${id}${parts.length ? `?${parts.join("&")}` : ""}`);
  }

  function choose(name) {
    view = name;
    for (const [index, [one]] of VIEWS.entries()) {
      tablist[index].setAttribute("aria-selected", String(one === view));
      tablist[index].tabIndex = one === view ? 0 : -1;
      views[one].hidden = one !== view;
    }
    show(controls, { timeline: timeline.controls, graph: graph.controls }[view]);
    panel.setAttribute("aria-labelledby", `tab-${view}`);
    address();
    draw();
  }

  function eventList() {
    return new List({
      label: "Events", height: 28, className: "events", chosen: (one) => pick(recorded.at(one.position) ?? rowOf(one)),
      draw: (one) => [h("span", { class: "event" },
        h("span", { class: "number quiet" }, one.position), h("span", { class: "quiet" }, time(one.at)),
        h("span", { class: "clip" }, one.path.at(-1)), h("span", { class: "kind" }, one.type.replaceAll("_", " ")),
        h("span", { class: "quiet clip" }, line(gist(one), 240)))],
    });
  }

  const rowOf = (one) => ({ key: `event ${one.position}`, run: one.run, kind: "mark", name: one.type, path: one.path, start: one.at, end: one.at, state: "done", text: "", records: [one], tries: [] });

  const agents = new Kept();
  const agentList = h("ul", {});
  show(tree, h("h2", {}, "Agents"), agentList);
  let drawn = "";
  function drawTree() {
    const runs = [...recorded.runs.values()];
    const asks = new Set(recorded.rows.filter((row) => row.kind === "question" && row.end === null).map((row) => row.run));
    const now = JSON.stringify([only, [...asks], runs.map((one) => [one.run, one.state, one.calls, one.tools, one.errors, one.agent])]);
    if (now === drawn) return;
    drawn = now;
    const ordered = [];
    const below = Map.groupBy(runs, (one) => (recorded.runs.has(one.parent) ? one.parent : null));
    const walk = (parent, depth) => {
      for (const one of below.get(parent) ?? []) {
        ordered.push([one, depth]);
        walk(one.run, depth + 1);
      }
    };
    walk(null, 0);
    const shown = ordered.slice(0, 300);
    agents.into(agentList,
      agents.of("", `${!only} ${runs.length}`, (before) => agent(before, "", 0, [h("span", {}, "All"), h("small", {}, counted(runs.length, "run"))])),
      shown.map(([one, depth]) => agents.of(one.run, JSON.stringify([only === one.run, asks.has(one.run), one.state, one.calls, one.tools, one.errors, one.agent, depth]), (before) => agent(before, one.run, depth, [
        h("span", { class: "agent-name" }, h("span", { class: `dot ${asks.has(one.run) ? "wait" : look(one)}` }), one.agent || short(one.run)),
        h("small", {}, [one.calls && counted(one.calls, "call"), one.tools && counted(one.tools, "tool"), one.errors && counted(one.errors, "error")].filter(Boolean).join(" · ") || one.state)]))),
      ordered.length > shown.length ? agents.of("more", ordered.length, () => h("li", { class: "quiet" }, `and ${counted(ordered.length - shown.length, "run")} more`)) : null);
  }

  /** An agent of the tree. Its button stays when its text changes, so that a click is not lost. */
  function agent(before, run, depth, content) {
    const element = before ?? h("li", {}, h("button", { type: "button", class: "agent", onclick: () => choose_run(only === run ? "" : run) }));
    const button = element.firstElementChild;
    element.style.setProperty("--depth", depth);
    button.setAttribute("aria-pressed", String(only === run));
    show(button, content);
    return element;
  }

  const look = (one) => ({ running: "live", failed: "bad", parked: "bad", stopped: "warn", cancelled: "warn", cancelling: "warn" })[one.state] ?? "good";

  function choose_run(run) {
    only = run;
    address();
    draw();
  }

  function drawFacts() {
    if (!recorded.runs.size) return;
    let [calls, tools, tokens, cost] = [0, 0, 0, 0];
    for (const one of recorded.runs.values()) [calls, tools, tokens, cost] = [calls + one.calls, tools + one.tools, tokens + one.tokens, cost + one.cost];
    const budget = details?.allowance?.budget ?? {};
    const of = (used, bound) => (bound ? h("span", {}, `${count(used)} of ${count(bound)}`, h("meter", { min: 0, max: bound, value: used, "aria-label": "share used" })) : count(used));
    const over = details && !["running", "waiting", "cancelling"].includes(details.run.status);
    const rows = [
      ["Took", duration((over ? recorded.end : Date.now()) - recorded.start)],
      ["Model calls", of(calls, budget.model_calls)], ["Tool calls", of(tools, budget.tool_calls)], ["Tokens", of(tokens, budget.tokens)],
      cost || budget.cost_micros ? ["Cost", money(cost) || "0"] : null,
      details?.allowance?.deadline && !over ? ["Deadline", exact(details.allowance.deadline)] : null,
      recorded.lives.length ? ["Lives", count(recorded.lives.filter((life) => life.run === id).length + 1)] : null,
    ].filter(Boolean);
    show(facts, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  const heads = new Kept();
  let steerable = false;
  function drawHead() {
    const one = details.run;
    const open = ["running", "waiting"].includes(one.status);
    const input = line(recorded.of(id)?.input ?? one.title, 180);
    const act = { id, tell, go, after: look_again };
    const button = (label, on, rest) => h("button", { type: "button", onclick: () => on(act), ...rest }, label);
    const { end, forked } = details;
    const fault = end && (end.stopped || end.error);
    heads.into(head,
      heads.of("title", `${one.status} ${input}`, () => h("div", { class: "run-title" }, pill(one.status), h("h1", { dir: "auto" }, input || short(id)))),
      heads.of("about", JSON.stringify([one.session, one.path, forked]), () => h("p", { class: "quiet" }, one.session
        ? h("a", { href: `#/chat/${encodeURIComponent(one.session.team)}/${encodeURIComponent(one.session.key)}` }, `${line(one.session.team, 40)} / ${line(one.session.key, 40)}`) : line(one.team, 60),
        ` · ${line(one.path.join(" › "), 120)} · began ${time(one.started_at)} · `, h("code", { title: id }, short(id)),
        one.parent ? [" · ", h("a", { href: `#/runs/${one.root}` }, "the whole tree")] : null,
        forked ? [" · forked from ", h("a", { href: `#/runs/${forked.run}` }, short(forked.run)), " (", h("a", { href: `#/compare/${forked.run}/${id}` }, "compare"), ")"] : null)),
      heads.of("acts", one.status, () => h("div", { class: "row acts" },
        open ? button("Resume", resumeRun, { class: "quiet", title: "Takes the run up in this process, where no other carries it" }) : null,
        one.status === "parked" ? button("Retry", retryRun, { class: "primary" }) : null,
        button("Fork…", forkRun),
        open || one.status === "parked" ? button("Cancel…", cancelRun, { class: "danger" }) : null)),
      fault ? heads.of("end", fault, () => h("p", { class: end.error ? "fault" : "caution" }, line(end.error ?? `It stopped: ${end.stopped}`, 400))) : null);
    // The box is drawn again only when it comes or goes, so that its input stays.
    if (open !== steerable) {
      steerable = open;
      show(steer, open ? steerBox({ run: id, tell }) : null);
    }
    context.name(line(input, 60));
  }

  async function look_again() {
    details = await get(path("runs", id), signal);
    drawHead();
    drawFacts();
    questions.show(details.questions);
  }

  let due = 0;
  const soon = () => {
    clearTimeout(due);
    due = setTimeout(() => look_again().catch(tell), 30);
  };

  choose(view);
  const TELLING = new Set(["run_started", "question_asked", "question_answered", "heard", "run_ended", "parked", "cancelling", "restarted", "resumed"]);
  look_again().then(() => follow(id, signal, {
    events(lot) {
      recorded.add(lot);
      draw();
      if (lot.some((one) => TELLING.has(one.type))) soon();
    },
    state(state) {
      link(state);
      // While no events come, only the clock moves.
      if (state === "live") soon();
    },
  })).catch((error) => {
    if (signal.aborted) return;
    if (error.status === 404) show(place, nothing("There is no such run.", h("p", {}, h("a", { href: "#/" }, "All runs"))));
    else tell(error);
  });
  poll(signal, 1000, async () => {
    if (details && ["running", "waiting", "cancelling"].includes(details.run.status)) draw();
  }, tell);
  poll(signal, 5000, async () => {
    if (details && ["running", "waiting", "cancelling", "parked"].includes(details.run.status)) await look_again();
  }, () => {});
  return { title: "Run", keys: { t: () => choose("timeline"), c: () => choose("conversation"), e: () => choose("events"), Escape: () => pick(null), n: () => choose("graph"), f: () => forkRun({ id, go }) } };
}

/** An event in a few words. */
function gist({ data }) {
  if (!data) return "";
  const text = data.text || data.input || data.reason || data.name || data.agent;
  if (data.result) return `${data.result.name}: ${data.result.text}`;
  if (data.question) return data.question.prompt;
  if (data.end) return words(data.end);
  if (data.tool_calls?.length && !data.text) return data.tool_calls.map((call) => `${call.name}(${call.arguments})`).join(", ");
  return typeof text === "string" ? text : JSON.stringify(text ?? data);
}
