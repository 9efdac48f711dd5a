// The ways to step in.

import { path, post } from "./api.js";
import { ask, field, h } from "./dom.js";
import { line, short } from "./format.js";

/** Says something to a run at work. */
export function steerBox({ run, tell }) {
  const input = h("input", { name: "steer", "aria-label": "Say something to the run", placeholder: "Say something to the agent while it works", autocomplete: "off" });
  const told = h("span", { class: "quiet", role: "status" });
  return h("form", { class: "row", onsubmit: async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    try {
      await post(path("runs", run, "steer"), { text });
      input.value = "";
      told.textContent = "Said; the agent reads it before its next step.";
    } catch (error) {
      tell(error);
    }
  } }, input, h("button", { type: "submit" }, "Steer"), told);
}

async function act(tell, after, doing) {
  try {
    const done = await doing();
    await after?.();
    return done;
  } catch (error) {
    tell(error);
  }
}

export async function cancelRun({ id, tell, after }) {
  const values = await ask("Cancel this run?", field("Why (optional)", h("input", { name: "reason", autocomplete: "off" })), {
    act: "Cancel the run", danger: true, about: "The run and all below it end; what is recorded stays. It cannot be taken back, but a cancelled run can be forked.",
  });
  if (values) await act(tell, after, () => post(path("runs", id, "cancel"), values.reason.trim() ? { reason: values.reason.trim() } : {}));
}

export const cancelCall = ({ run, operation, tell }) => act(tell, undefined, () => post(path("runs", run, "calls", operation, "cancel")));

export const retryRun = ({ id, tell, after }) => act(tell, after, () => post(path("runs", id, "retry")));

export const resumeRun = ({ id, tell, after }) => act(tell, after, () => post(path("runs", id, "resume")));

/** Begins a run that goes on from a point of this one, and shows both side by side. */
export async function forkRun({ id, tell, go, at, row }) {
  const values = await ask("Fork", [
    field("Entries that are kept", h("input", { name: "at", type: "number", min: 1, value: at ?? "", placeholder: "all before its end" }),
      row ? `up to and with ${line(row.name, 60)}` : "What is recorded before this point is copied and not done again; what comes after it is done anew, effects included."),
    field("Say instead", h("textarea", { name: "input", rows: 3, placeholder: "Another input at this point (optional)" }), "With 1 entry it takes the place of the task; later it is said to the agent there."),
    field("Session", h("input", { name: "session", placeholder: "a fresh one", autocomplete: "off" })),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "todays_team" }), "Go on with today's definition of the team"),
  ], { act: "Fork" });
  if (!values) return;
  const body = { todays_team: values.todays_team === "on" };
  if (values.at) body.at = Number(values.at);
  if (values.input.trim()) body.input = values.input;
  if (values.session.trim()) body.session = values.session.trim();
  const forked = await act(tell, undefined, () => post(path("runs", id, "fork"), body));
  if (forked) go(`#/compare/${id}/${forked.id}`);
  return forked && short(forked.id);
}
