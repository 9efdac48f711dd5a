// Forking a run at any of its entries: with another message, model, instructions or definition.

import { get, path, post } from "./api.js";
import { ask, field, h, show } from "./dom.js";
import { line, unambiguous } from "./format.js";

const walk = (agent, above = []) => [[agent, [...above, agent.name].join(" › ")], ...(agent.agents ?? []).flatMap((one) => walk(one, [...above, agent.name]))];

/** The fields that change the run's definition; only the operator may see and set one. */
function redefinition(id) {
  const body = h("div", {});
  let pinned = null;
  let changed = null;
  let whole = null;
  const details = h("details", { class: "field", ontoggle: () => details.open && !pinned && load() }, h("summary", {}, "Another model, other instructions, another definition"), body);

  async function load() {
    try {
      pinned = await get(path("runs", id, "definition"));
    } catch (error) {
      return show(body, h("p", { class: "quiet" }, error.status === 403 ? "The definition is the operator's." : error.message));
    }
    changed = structuredClone(pinned);
    const agents = walk(changed.agent);
    const models = [...new Set(["default", ...Object.keys(pinned.models ?? {}), ...agents.map(([agent]) => agent.model).filter(Boolean)])];
    const agent = h("select", { "aria-label": "Agent", onchange: choose }, agents.map(([, name], index) => h("option", { value: index }, line(name, 60))));
    const model = h("select", { "aria-label": "Model", onchange: () => ((chosen().model = model.value || null), write()) }, h("option", { value: "" }, "as the agent above"), models.map((name) => h("option", { value: name }, line(name, 60))));
    const instructions = h("textarea", { rows: 4, "aria-label": "Instructions", oninput: () => ((chosen().instructions = instructions.value), write()) });
    whole = h("textarea", { rows: 8, class: "code", "aria-label": "Whole definition", spellcheck: "false", oninput: read });
    const chosen = () => walk(changed.agent)[Number(agent.value)]?.[0] ?? changed.agent;
    function choose() {
      model.value = chosen().model ?? "";
      instructions.value = chosen().instructions ?? "";
    }
    function write() {
      whole.value = JSON.stringify(changed, null, 2);
    }
    function read() {
      try {
        changed = unambiguous(whole.value);
        choose();
      } catch {
        // The JSON is incomplete or ambiguous while it is being written; it is read again when the dialog is sent.
      }
    }
    write();
    choose();
    show(body, field("Agent", agent), field("Model", model), field("Instructions", instructions),
      h("details", { class: "field" }, h("summary", {}, "The whole definition as JSON"), whole,
        h("small", {}, "Its models, tools and interceptors stay as they are served. To change those, change the team file and go on with today's definition.")));
  }

  return { element: details, value: () => {
    if (!whole) return undefined;
    const definition = unambiguous(whole.value);
    return JSON.stringify(definition) === JSON.stringify(pinned) ? undefined : definition;
  } };
}

/** Forks this run at a point, and shows both runs side by side. */
export async function forkRun({ id, go, at, row }) {
  const other = redefinition(id);
  let forked;
  await ask("Fork", [
    field("Entries that are kept", h("input", { name: "at", type: "number", min: 1, value: at ?? "", placeholder: "all before its end" }),
      row ? `up to and with ${line(row.name, 60)}` : "What is recorded before this point is copied and not done again; what comes after it is done anew, effects included."),
    field("Say instead", h("textarea", { name: "input", rows: 3, placeholder: "Another input at this point (optional)" }), "With 1 entry it takes the place of the task; later it is said to the agent there."),
    field("Session", h("input", { name: "session", placeholder: "a fresh one", autocomplete: "off" })),
    h("label", { class: "check spaced" }, h("input", { type: "checkbox", name: "todays_team" }), "Go on with today's definition of the team"),
    other.element,
  ], { act: "Fork", doing: async (values) => {
    const body = { todays_team: values.todays_team === "on" };
    if (values.at) body.at = Number(values.at);
    if (values.input.trim()) body.input = values.input;
    if (values.session.trim()) body.session = values.session.trim();
    const definition = other.value();
    if (definition) body.definition = definition;
    forked = await post(path("runs", id, "fork"), body);
  } });
  if (forked) go(`#/compare/${id}/${forked.id}`);
}
