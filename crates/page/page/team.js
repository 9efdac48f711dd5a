// A team: its diagram, which highlights working agents, and its definition.

import { get, path, poll, query } from "./api.js";
import { h, nothing, s, show } from "./dom.js";
import { counted, line, pretty } from "./format.js";
import { folded } from "./folded.js";
import { drawing as drawGraph } from "./graph.js";
import { graphsOf } from "./workflow.js";

const BOX = { width: 168, height: 56, gap: 20, level: 96 };

export function teams(place, { signal, tell }) {
  const cards = h("div", { class: "cards" });
  show(place, h("div", { class: "narrow-page" }, h("h1", {}, "Teams"), cards));
  get("/teams", signal).then((all) => show(cards, all.length ? all.map((one) => h("a", { class: "card", href: `#/teams/${encodeURIComponent(one.name)}` },
    h("strong", {}, one.name), h("p", { class: "quiet" }, line(one.description, 160)), h("small", {}, counted(size(one.agent), "agent")))) : nothing("No team is served here."))).catch((error) => !signal.aborted && tell(error));
  return { title: "Teams" };
}

const size = (agent) => 1 + agent.agents.reduce((sum, one) => sum + size(one), 0);

export function team(place, { signal, tell }, name) {
  const drawing = h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": "Drawing of the team" });
  const definition = h("div", {});
  const beside = h("aside", { class: "agent-card", "aria-live": "polite" }, h("p", { class: "quiet" }, "Choose an agent or a node to see what it is."));
  const drawings = h("div", { class: "drawings" }, drawing);
  show(place, h("div", { class: "team" },
    h("div", { class: "title" }, h("h1", {}, name), h("p", { class: "quiet", id: "about" })),
    h("p", {}, h("a", { class: "button primary", href: `#/chat/${encodeURIComponent(name)}/${Math.random().toString(16).slice(2, 12)}` }, "Talk to it"), " ",
      h("a", { class: "button", href: `#/?team=${encodeURIComponent(name)}` }, "Its runs")),
    h("div", { class: "team-body" }, drawings, beside), h("h2", {}, "Definition"), definition));
  let nodes = new Map();
  const walked = [];
  (async () => {
    const one = await get(path("teams", name), signal);
    place.querySelector("#about").textContent = one.description;
    nodes = draw(drawing, one.agent, (agent) => show(beside, ...cardOf(agent)));
    try {
      const whole = await get(`${path("teams", name)}/definition`, signal);
      show(definition, folded(pretty(whole), "code"));
      const { graphs, more } = graphsOf(whole.agent);
      const pictures = graphs.map((graph) => {
        const picture = graphOf(graph, (step) => show(beside, ...cardOfStep(step), ...(nodes.has(step.works) ? cardOf(nodes.get(step.works).agent) : [])));
        walked.push([graph.steps, [...picture.querySelectorAll(".step")]]);
        return picture;
      });
      // A team that is a graph is drawn as such first, and its agents below.
      const first = graphs.findIndex(({ agent }) => agent === whole.agent.name) === 0 ? pictures.splice(0, 1) : [];
      drawings.prepend(...first);
      drawings.append(...pictures, ...(more ? [h("p", { class: "quiet" }, `${counted(more, "more graph")} not drawn.`)] : []));
    } catch {
      show(definition, h("p", { class: "quiet" }, "The definition is the operator's."));
    }
    await poll(signal, 1000, async () => {
      const open = await get(`/runs${query({ open: true, all: true, team: name, limit: 500 })}`, signal);
      const active = Map.groupBy(open.runs.filter((run) => run.status === "running"), (run) => run.agent);
      const waiting = Map.groupBy(open.runs.filter((run) => run.status === "waiting"), (run) => run.agent);
      for (const [steps, boxes] of walked) boxes.forEach((box, place) => box.classList.toggle("lit", active.has(steps[place].works) || waiting.has(steps[place].works)));
      for (const [agent, { box, badge, about }] of nodes) {
        const [at_work, waits] = [active.get(agent)?.length ?? 0, waiting.get(agent)?.length ?? 0];
        box.setAttribute("class", `node${at_work ? " lit" : waits ? " waits" : ""}`);
        badge.textContent = at_work || waits ? [at_work && `${at_work} at work`, waits && `${waits} waiting`].filter(Boolean).join(", ") : "";
        about.toggleAttribute("hidden", Boolean(badge.textContent));
      }
    }, tell);
  })().catch((error) => !signal.aborted && (error.status === 404 ? show(place, nothing("There is no such team.")) : tell(error)));
  return { title: name };
}

/** The picture of a graph, and what of it is not drawn. */
function graphOf({ title, steps, ways, left }, chosen) {
  const missing = [left.nodes && counted(left.nodes, "node"), left.ways && counted(left.ways, "way")].filter(Boolean).join(" and ");
  return h("section", {}, h("h2", {}, `Graph of ${title}`),
    h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": `Graph of ${title}` }, drawGraph(steps, ways, (_, step) => chosen(step), `Nodes of the graph ${title}`)),
    h("p", { class: "quiet small" }, `Dashed: on failure. Coloured: back to an earlier node.${missing ? ` Not drawn: ${missing}.` : ""}`));
}

function cardOfStep({ name, agent, leads, node }) {
  const facts = [["Node", agent], ["Asks", node?.confirm], ["Result as", node?.into]].filter(([, value]) => value);
  return [h("h2", {}, line(name, 200)), h("dl", { class: "facts" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, line(value, 400))))),
    leads.length ? [h("h3", {}, "Leads to"), h("ul", {}, leads.map((one) => h("li", {}, one)))] : null].filter(Boolean).flat();
}

function cardOf(agent) {
  const list = (title, items) => (items?.length ? [h("h3", {}, title), h("ul", { class: "chips" }, items.map((one) => h("li", {}, one)))] : []);
  return [h("h2", {}, agent.name), agent.description ? h("p", {}, line(agent.description, 400)) : null,
    h("dl", { class: "facts" }, [["Behavior", agent.behavior], ["Model", agent.model ?? "the team's"], ["Reached by", agent.reach]].filter(([, value]) => value).map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
    ...list("Tools", agent.tools), ...list("Asks a person before", agent.approval), ...list("Publishes on", agent.publishes), ...list("Starts on", agent.starts_on)].filter(Boolean);
}

/** The position of each agent: parents above the middle of their children, side by side without overlap. */
function layout(root) {
  const placed = [];
  let right = 0;
  let depth = 0;
  const walk = (agent, level) => {
    depth = Math.max(depth, level);
    const below = agent.agents.map((one) => walk(one, level + 1));
    let x;
    if (below.length) x = (below[0].x + below.at(-1).x) / 2;
    else {
      x = right;
      right += BOX.width + BOX.gap;
    }
    const node = { agent, x, y: level * BOX.level, below };
    placed.push(node);
    return node;
  };
  walk(root, 0);
  return { placed, width: Math.max(right - BOX.gap, BOX.width), height: depth * BOX.level + BOX.height };
}

function draw(drawing, root, chosen) {
  const { placed, width, height } = layout(root);
  const nodes = new Map();
  const topics = new Map();
  for (const { agent } of placed) for (const topic of [...(agent.publishes ?? []), ...(agent.starts_on ?? [])]) topics.set(topic, null);
  const row = height + (topics.size ? BOX.level : 0);
  [...topics.keys()].forEach((topic, index) => topics.set(topic, { x: index * (BOX.width + BOX.gap), y: height + BOX.level - BOX.height }));
  const wide = Math.max(width, topics.size * (BOX.width + BOX.gap));
  const middle = (node) => node.x + BOX.width / 2;
  const lines = [];
  for (const node of placed) {
    for (const below of node.below) {
      const dashed = below.agent.reach === "delegate" || below.agent.reach === "hidden" ? "" : " dashed";
      const [x1, y1, x2, y2] = [middle(node), node.y + BOX.height, middle(below), below.y];
      lines.push(s("path", { class: `edge${dashed}`, d: `M${x1} ${y1} C${x1} ${y1 + 20} ${x2} ${y2 - 20} ${x2} ${y2}` }));
    }
    for (const topic of [...(node.agent.publishes ?? []), ...(node.agent.starts_on ?? [])]) {
      const at = topics.get(topic);
      lines.push(s("path", { class: "edge topic", d: `M${middle(node)} ${node.y + BOX.height} C${middle(node)} ${node.y + BOX.height + 24} ${at.x + BOX.width / 2} ${at.y - 24} ${at.x + BOX.width / 2} ${at.y}` }));
    }
  }
  const boxes = placed.map(({ agent, x, y }) => {
    const badge = s("text", { class: "badge", x: BOX.width / 2, y: 42 });
    const about = s("text", { class: "about", x: BOX.width / 2, y: 42 }, line([agent.behavior, agent.tools.length ? counted(agent.tools.length, "tool") : ""].filter(Boolean).join(" · "), 26));
    const box = s("g", { class: "node", transform: `translate(${x} ${y})`, tabindex: 0, role: "button",
      onclick: () => chosen(agent), onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), chosen(agent)) },
    s("rect", { width: BOX.width, height: BOX.height, rx: 10 }),
    s("text", { class: "name", x: BOX.width / 2, y: 24 }, line(agent.name, 20)),
    about, badge);
    nodes.set(agent.name, { agent, box, badge, about });
    return box;
  });
  const rounds = [...topics].map(([topic, { x, y }]) => s("g", { class: "node topic", transform: `translate(${x} ${y})` },
    s("rect", { width: BOX.width, height: BOX.height, rx: 28 }), s("text", { class: "name", x: BOX.width / 2, y: 33 }, line(topic, 20))));
  const svg = s("svg", { width: wide + 4, height: row + 24, viewBox: `-2 -2 ${wide + 4} ${row + 24}`, role: "group", "aria-label": `Agents of the team ${root.name}` }, lines, boxes, rounds);
  show(drawing, svg, h("p", { class: "quiet small" }, "Solid: gets tasks. Dashed: the conversation may be handed over. Dotted: events."));
  return nodes;
}
