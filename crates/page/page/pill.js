// The status of a run as a small mark with a word.

import { h } from "./dom.js";
import { STATES } from "./record.js";

export function pill(status) {
  const [look, word] = STATES[status] ?? ["warn", status];
  return h("span", { class: `pill ${look}` }, h("span", { class: "dot" }), word);
}
