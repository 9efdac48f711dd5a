// The runs, the open questions, and the sessions.

import { get, poll, query } from "./api.js";
import { h, nothing, show } from "./dom.js";
import { ago, counted, duration, line, short } from "./format.js";
import { List } from "./list.js";
import { Questions } from "./questions.js";
import { pill } from "./pill.js";

const LOOK_MS = 1000;
const PAGE = 200;

export function home(place, { signal, tell, go, parameters }) {
  const wanted = {
    text: "", team: "", state: "", agent: "", owner: "", since: "", from: "", until: "", all: "", ...Object.fromEntries(parameters),
  };
  const runs = new List({ label: "Runs", height: 44, className: "runs", key: (run) => run.id, draw: drawRun, chosen: (run) => go(`#/runs/${run.id}`) });
  const asked = h("section", { class: "asked", "aria-label": "Waiting questions" });
  const questions = new Questions(asked, { tell, after: () => look(), link: true });
  const sessions = h("div", { class: "sessions" });
  const told = h("p", { class: "quiet", role: "status" });
  const empty = h("div", {});
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => loadMore() }, "Show earlier runs");
  const team = h("select", { name: "team", "aria-label": "Team" }, h("option", { value: "" }, "All teams"));
  const between = h("span", { class: "row", hidden: wanted.since !== "between" },
    h("input", { type: "datetime-local", name: "from", "aria-label": "From", value: wanted.from }), h("input", { type: "datetime-local", name: "until", "aria-label": "Until", value: wanted.until }));
  const filter = h("form", { class: "filter", role: "search", onsubmit: (event) => event.preventDefault(), oninput: changed },
    h("input", { type: "search", name: "text", placeholder: "Search runs", "aria-label": "Search runs", value: wanted.text, id: "search" }),
    team,
    select("state", "State", wanted.state, [["", "Any state"], ["open", "Open"], ...["running", "waiting", "parked", "answered", "stopped", "failed", "cancelled"].map((one) => [one, one])]),
    h("input", { name: "agent", placeholder: "Agent", "aria-label": "Agent", value: wanted.agent, class: "narrow" }),
    h("input", { name: "owner", placeholder: "Owner", "aria-label": "Owner", value: wanted.owner, class: "narrow" }),
    select("since", "Time", wanted.since, [["", "Any time"], ["3600", "Last hour"], ["86400", "Last day"], ["604800", "Last week"], ["between", "Between…"]]),
    between,
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "all", checked: wanted.all === "on" }), "Delegated too"));
  show(place,
    h("div", { class: "home" },
      h("section", { class: "home-runs", "aria-labelledby": "runs-title" },
        h("div", { class: "title" }, h("h1", { id: "runs-title" }, "Runs"), told),
        asked, filter,
        h("div", { class: "columns runs-head", "aria-hidden": "true" }, h("span", {}, "State"), h("span", {}, "Task"), h("span", {}, "Team"), h("span", {}, "Agent"), h("span", { class: "number" }, "Took"), h("span", { class: "number" }, "Began")),
        runs.element, empty, more),
      h("section", { class: "home-sessions", "aria-labelledby": "sessions-title" }, h("h2", { id: "sessions-title" }, "Sessions"), sessions)));

  let seen = "";
  let rows = [];
  let next = null;
  let earlier = [];
  let listed = "";

  function changed() {
    Object.assign(wanted, { all: "" }, Object.fromEntries(new FormData(filter)));
    between.hidden = wanted.since !== "between";
    if (between.hidden) [wanted.from, wanted.until] = ["", ""];
    history.replaceState(null, "", `#/${query(wanted)}`);
    seen = "";
    earlier = [];
    look().catch(tell);
  }

  function asQuery(after) {
    const { state, since } = wanted;
    const at = (text) => (text ? new Date(text).getTime() : undefined);
    return query({
      text: wanted.text.trim(), team: wanted.team, agent: wanted.agent.trim(), owner: wanted.owner.trim(), all: wanted.all ? true : undefined,
      open: state === "open" ? true : undefined, status: state === "open" ? undefined : state,
      since: since === "between" ? at(wanted.from) : since ? Date.now() - Number(since) * 1000 : undefined, before: at(wanted.until), limit: PAGE, after,
    });
  }

  async function look() {
    const mine = JSON.stringify(wanted);
    const [page, open] = await Promise.all([get(`/runs${asQuery()}`, signal), get("/questions", signal)]);
    if (mine !== JSON.stringify(wanted)) return;
    const text = JSON.stringify(page);
    if (text !== seen) {
      seen = text;
      rows = page.runs;
      if (!earlier.length) next = page.next;
      draw();
    } else {
      runs.redraw();
    }
    const titles = new Map(page.runs.map((run) => [run.id, run]));
    questions.show(open, (one) => titles.get(one.run));
  }

  function draw() {
    const known = new Set(rows.map((run) => run.id));
    const all = rows.concat(earlier.filter((run) => !known.has(run.id)));
    runs.set(all);
    const open = all.filter((run) => run.status === "running" || run.status === "waiting").length;
    told.textContent = all.length ? `${counted(all.length, "run")}${next ? " and more" : ""}, ${open} open` : "";
    more.hidden = !next;
    runs.element.hidden = !all.length;
    show(empty, all.length ? null : nothing(filtered() ? "No run is like that." : "No runs yet.",
      filtered() ? h("p", { class: "quiet" }, "Change the filter above.") : h("p", {}, h("a", { href: "#/chat" }, "Talk to a team"), " to begin one.")));
  }

  const filtered = () => Object.values(wanted).some(Boolean);

  async function loadMore() {
    try {
      const page = await get(`/runs${asQuery(next)}`, signal);
      earlier = earlier.concat(page.runs);
      next = page.next;
      draw();
    } catch (error) {
      tell(error);
    }
  }

  async function beside() {
    const [found, teams] = await Promise.all([get("/sessions?limit=30", signal), get("/teams", signal)]);
    const now = JSON.stringify(found.sessions);
    if (team.options.length !== teams.length + 1) {
      show(team, h("option", { value: "" }, "All teams"), teams.map((one) => h("option", { value: one.name }, one.name)));
      team.value = wanted.team;
    }
    if (now === listed) return;
    listed = now;
    show(sessions, found.sessions.length ? h("ul", {}, found.sessions.map((one) =>
      h("li", {}, h("a", { href: `#/chat/${encodeURIComponent(one.session.team)}/${encodeURIComponent(one.session.key)}` },
        h("span", { class: "session-title" }, one.open ? h("span", { class: "dot live", title: "a turn is under way" }) : null, line(one.title, 60) || one.session.key),
        h("small", {}, `${one.session.team} · ${counted(one.turns, "turn")} · ${ago(one.updated_at)}`))))) : nothing("No sessions yet."));
  }

  poll(signal, LOOK_MS, look, tell);
  poll(signal, 3 * LOOK_MS, beside, tell);
  return { title: "Runs" };
}

function drawRun(run) {
  const ended = !["running", "waiting", "cancelling"].includes(run.status);
  const took = (ended ? run.updated_at : Date.now()) - run.started_at;
  return [h("span", { class: "columns" },
    h("span", {}, pill(run.status)),
    h("span", { class: "task" }, line(run.title, 200) || short(run.id)),
    h("span", { class: "quiet clip" }, run.team),
    h("span", { class: "quiet clip" }, run.path.join(" › ")),
    h("span", { class: "number quiet" }, duration(took)),
    h("span", { class: "number quiet" }, ago(run.started_at)))];
}

function select(name, label, value, options) {
  const element = h("select", { name, "aria-label": label }, options.map(([to, text]) => h("option", { value: to }, text)));
  element.value = value;
  return element;
}
