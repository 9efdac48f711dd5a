// A run: who works in it, what happened when, what was said, and the ways to step in.

import { follow, get, path, poll } from "./api.js";
import { cancelRun, forkRun, resumeRun, retryRun, steerBox } from "./actions.js";
import { Conversation } from "./conversation.js";
import { h, nothing, once, show } from "./dom.js";
import { count, counted, duration, exact, line, money, short, time, words } from "./format.js";
import { Inspector } from "./inspector.js";
import { List } from "./list.js";
import { pill } from "./pill.js";
import { questionCard } from "./questions.js";
import { Recorded } from "./record.js";
import { Timeline } from "./timeline.js";

const VIEWS = [["timeline", "Timeline"], ["conversation", "Conversation"], ["events", "Events"]];

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
  const events = eventList();
  const draw = once(() => {
    drawTree();
    drawFacts();
    timeline.set(recorded, only);
    if (view === "conversation") conversation.set(recorded, only || id);
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
    show(list, VIEWS.map(([one, label]) => h("button", {
      type: "button", role: "tab", id: `tab-${one}`, "aria-selected": String(one === view), "aria-controls": "panel", tabindex: one === view ? 0 : -1,
      onclick: () => choose(one),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const at = VIEWS.findIndex(([each]) => each === view);
        choose(VIEWS[(at + step + VIEWS.length) % VIEWS.length][0]);
        list.querySelector('[aria-selected="true"]').focus();
      },
    }, label)));
    show(controls, view === "timeline" ? timeline.controls : null);
    panel.setAttribute("aria-labelledby", `tab-${view}`);
    show(panel, { timeline: timeline.element, conversation: conversation.element, events: events.element }[view]);
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

  let drawn = "";
  function drawTree() {
    const runs = [...recorded.runs.values()];
    const now = JSON.stringify([only, runs.map((one) => [one.run, one.state, one.calls, one.tools, one.errors, one.agent])]);
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
    show(tree, h("h2", {}, "Agents"), h("ul", {},
      h("li", {}, h("button", { type: "button", class: "agent", "aria-pressed": String(!only), onclick: () => choose_run("") }, h("span", {}, "All"), h("small", {}, counted(runs.length, "run")))),
      shown.map(([one, depth]) => h("li", { style: { "--depth": depth } },
        h("button", { type: "button", class: "agent", "aria-pressed": String(only === one.run), onclick: () => choose_run(only === one.run ? "" : one.run) },
          h("span", { class: "agent-name" }, h("span", { class: `dot ${look(one)}` }), one.agent || short(one.run)),
          h("small", {}, [one.calls && counted(one.calls, "call"), one.tools && counted(one.tools, "tool"), one.errors && counted(one.errors, "error")].filter(Boolean).join(" · ") || one.state)))),
      ordered.length > shown.length ? h("li", { class: "quiet" }, `and ${counted(ordered.length - shown.length, "run")} more`) : null));
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

  let headed = "";
  let steerable = false;
  function drawHead() {
    const now = JSON.stringify([details, recorded.of(id)?.input?.length]);
    if (now === headed) return;
    headed = now;
    const one = details.run;
    const open = ["running", "waiting"].includes(one.status);
    const input = recorded.of(id)?.input ?? one.title;
    const act = { id, tell, go, after: look_again };
    show(head,
      h("div", { class: "run-title" }, pill(one.status), h("h1", { dir: "auto" }, line(input, 180) || short(id))),
      h("p", { class: "quiet" }, one.session
        ? h("a", { href: `#/chat/${encodeURIComponent(one.session.team)}/${encodeURIComponent(one.session.key)}` }, `${one.session.team} / ${line(one.session.key, 40)}`) : one.team,
        ` · ${one.path.join(" › ")} · began ${time(one.started_at)} · `, h("code", { title: id }, short(id)),
        one.parent ? [" · ", h("a", { href: `#/runs/${one.root}` }, "the whole tree")] : null,
        details.forked ? [" · forked from ", h("a", { href: `#/runs/${details.forked.run}` }, short(details.forked.run)), " (", h("a", { href: `#/compare/${details.forked.run}/${id}` }, "compare"), ")"] : null),
      h("div", { class: "row acts" },
        open ? h("button", { type: "button", class: "quiet", onclick: () => resumeRun(act), title: "Takes the run up in this process, where no other carries it" }, "Resume") : null,
        one.status === "parked" ? h("button", { type: "button", class: "primary", onclick: () => retryRun(act) }, "Retry") : null,
        h("button", { type: "button", onclick: () => forkRun(act) }, "Fork…"),
        open || one.status === "parked" ? h("button", { type: "button", class: "danger", onclick: () => cancelRun(act) }, "Cancel…") : null));
    const end = details.end;
    if (end && (end.stopped || end.error)) head.append(h("p", { class: end.error ? "fault" : "caution" }, line(end.error ?? `It stopped: ${end.stopped}`, 400)));
    // Drawn anew only when it comes or goes: what a person is writing stays.
    if (open !== steerable) {
      steerable = open;
      show(steer, open ? steerBox({ run: id, tell }) : null);
    }
    context.name(line(input, 60));
  }

  let asking = "";
  async function look_again() {
    details = await get(path("runs", id), signal);
    drawHead();
    drawFacts();
    inspector.details(details);
    const now = JSON.stringify(details.questions);
    if (now === asking) return;
    asking = now;
    show(asked, details.questions.map((one) => questionCard(one, { tell, after: look_again })));
  }

  let due = 0;
  const soon = () => {
    clearTimeout(due);
    due = setTimeout(() => look_again().catch(tell), 30);
  };

  choose(view);
  const TELLING = new Set(["run_started", "question_asked", "question_answered", "run_ended", "parked", "cancelling", "restarted", "resumed"]);
  look_again().then(() => follow(id, signal, {
    events(lot) {
      recorded.add(lot);
      draw();
      if (lot.some((one) => TELLING.has(one.type))) soon();
    },
    state(state) {
      link(state);
      // A silent part of the run moves the clock alone.
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
  return { title: "Run", keys: { t: () => choose("timeline"), c: () => choose("conversation"), e: () => choose("events"), Escape: () => pick(null), f: () => forkRun({ id, tell, go, after: look_again }) } };
}

/** What an event tells, in a few words. */
function gist({ data }) {
  if (!data) return "";
  const text = data.text || data.input || data.reason || data.name || data.agent;
  if (data.result) return `${data.result.name}: ${data.result.text}`;
  if (data.question) return data.question.prompt;
  if (data.end) return words(data.end);
  if (data.tool_calls?.length && !data.text) return data.tool_calls.map((call) => `${call.name}(${call.arguments})`).join(", ");
  return typeof text === "string" ? text : JSON.stringify(text ?? data);
}
