// The graphs by which a team's agents work: their nodes in the order of the walk, and the ways between them with their conditions.

import { line } from "./format.js";

/** The most nodes, ways and graphs that a page draws, of all agents of a team together. */
const MOST = { nodes: 300, ways: 600, graphs: 30 };
/** The most characters of a condition beside its way, and where there is room for it. */
const SHOWN = { beside: 24, whole: 240 };

const END = "end";

/** The condition of a way in words, cut where it is long or deep. */
export function condition(rule, depth = 0) {
  if (!rule || typeof rule !== "object" || depth > 6) return "…";
  const [name, told] = Object.entries(rule)[0] ?? [];
  const each = (verb) => Object.entries(told ?? {}).slice(0, 8).map(([value, what]) => `${value} ${verb} ${typeof what === "string" ? what : JSON.stringify(what)}`).join(" and ");
  const several = (word) => (Array.isArray(told) ? told.slice(0, 8).map((one) => condition(one, depth + 1)) : []).join(` ${word} `);
  const words = { contains: () => each("contains"), equals: () => each("is"), at_least: () => each("≥"), below: () => each("<"), has: () => `there is ${told}`, all: () => several("and"), any: () => several("or"), not: () => `not (${condition(told, depth + 1)})` };
  return Object.hasOwn(words, name) ? line(words[name](), SHOWN.whole) : "…";
}

/** The ways out of a node, each with its condition in words. */
function waysOf({ then, on_failure: failed } = {}) {
  const to = typeof then === "string" ? [{ to: then }]
    : Array.isArray(then) ? then.map((one, place) => ({ to: one.to, when: one.when ? condition(one.when) : then.length > 1 || place ? "otherwise" : "" }))
    : (then?.all ?? []).map((one) => ({ to: one, when: "at once", fork: true }));
  return failed ? [...to, { to: failed, when: "on failure", failed: true }] : to;
}

/** The names of all reachable nodes in reverse postorder, in which only a way that closes a loop leads back. */
function walk(entry, out) {
  const seen = new Set([entry]);
  const stack = [[entry, out(entry).length - 1]];
  const done = [];
  while (stack.length) {
    const at = stack.at(-1);
    if (at[1] < 0) {
      done.push(stack.pop()[0]);
      continue;
    }
    // The last way first, so that the first one is drawn on the left.
    const { to } = out(at[0])[at[1]--];
    if (seen.has(to)) continue;
    seen.add(to);
    stack.push([to, out(to).length - 1]);
  }
  return done.reverse();
}

/** A graph's nodes, at most so many, and the ways between them by their places. */
export function steps({ entry, nodes = {} }, most = MOST) {
  const known = new Map();
  const out = (name) => {
    if (!known.has(name)) known.set(name, Object.hasOwn(nodes, name) ? waysOf(nodes[name]) : []);
    return known.get(name);
  };
  const all = walk(entry, out);
  const names = all.slice(0, Math.max(most.nodes, 0));
  const places = new Map(names.map((name, place) => [name, place]));
  const ways = [];
  let left = 0;
  names.forEach((name, from) => {
    for (const { to, when, fork, failed } of out(name)) {
      if (!places.has(to) || ways.length >= most.ways) left += 1;
      else ways.push({ from, to: places.get(to), times: 1, below: Boolean(failed), fork, about: line(when ?? "", SHOWN.beside), whole: when ?? "" });
    }
  });
  const drawn = names.map((name, place) => {
    const node = Object.hasOwn(nodes, name) ? nodes[name] : null;
    const work = node?.agent ? ["model", node.agent] : node?.tool ? ["tool", node.tool] : node?.graph ? ["step", "a graph"] : ["step", name === END ? "" : node?.set ? "sets values" : ""];
    const leads = out(name).slice(0, 20).map(({ to, when }) => `${line(to, 60)}${when ? ` (${when})` : ""}`);
    const about = line([place ? "" : "entry", node?.confirm ? "asks a person" : "", work[1]].filter(Boolean).join(" · "), 60);
    // What the drawing shows by its lines is told in words, too.
    const told = leads.length ? line(`leads to ${leads.join(", ")}`, 600) : null;
    return { key: name, place, name, kind: node?.confirm ? "question" : work[0], works: node?.agent ?? "", agent: about, told, leads, node, end: name === END, times: 1, open: 0, failed: 0 };
  });
  return { steps: drawn, ways, left: { nodes: all.length - names.length, ways: left } };
}

/** The graphs of an agent and of those below it, with the graphs within their nodes, as many as a page draws. */
export function graphsOf(root) {
  const found = [];
  let more = 0;
  const room = { nodes: MOST.nodes, ways: MOST.ways };
  // What is left to look at, the next one last.
  const rest = [{ agent: root }];
  while (rest.length) {
    const { agent, graph, title, of } = rest.pop();
    if (agent) {
      rest.push(...(agent.agents ?? []).map((below) => ({ agent: below })).reverse());
      if (agent.behavior?.name === "graph" && agent.behavior.nodes) rest.push({ graph: agent.behavior, title: line(agent.name, 60), of: agent.name });
      continue;
    }
    if (found.length >= MOST.graphs || room.nodes < 1) {
      more += 1;
      continue;
    }
    const one = steps(graph, room);
    room.nodes -= one.steps.length;
    room.ways -= one.ways.length;
    found.push({ title, agent: of, ...one });
    rest.push(...one.steps.filter(({ node }) => node?.graph?.nodes).map(({ name, node }) => ({ graph: node.graph, title: `${title}, node ${line(name, 60)}` })).reverse());
  }
  return { graphs: found, more };
}
