// The ways to step in; forking is in fork.js.

import { path, post } from "./api.js";
import { ask, field, h } from "./dom.js";

/** Sends a message to a run at work. */
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

export const cancelRun = ({ id, tell, after }) => ask("Cancel this run?", field("Why (optional)", h("input", { name: "reason", autocomplete: "off" })), {
  act: "Cancel the run", danger: true, about: "The run and all below it end; what is recorded stays. It cannot be taken back, but a cancelled run can be forked.",
  doing: (values) => post(path("runs", id, "cancel"), values.reason.trim() ? { reason: values.reason.trim() } : {}),
}).then((values) => values && act(tell, undefined, () => after?.()));

export const cancelCall = ({ run, operation, tell }) => act(tell, undefined, () => post(path("runs", run, "calls", operation, "cancel")));

export const retryRun = ({ id, tell, after }) => act(tell, after, () => post(path("runs", id, "retry")));

export const resumeRun = ({ id, tell, after }) => act(tell, after, () => post(path("runs", id, "resume")));
