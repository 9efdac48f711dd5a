// A text that shows its beginning, and the rest on request.

import { h } from "./dom.js";
import { count, visible } from "./format.js";

const SHOWN = 1500;
const MOST = 500_000;

/** A text; `look` is `code` or `prose`. */
export function folded(text, look = "prose") {
  const whole = String(text ?? "");
  // Scrolling areas can be reached by keys, too.
  const body = h("pre", { class: look, dir: look === "prose" ? "auto" : undefined, tabindex: look === "code" ? 0 : undefined }, visible(whole.slice(0, SHOWN)));
  if (whole.length <= SHOWN) return body;
  const more = h("button", { type: "button", class: "quiet", "aria-expanded": "false" }, `Show all ${count(whole.length)} characters`);
  body.append("…");
  more.addEventListener("click", () => {
    const open = more.getAttribute("aria-expanded") === "true";
    more.setAttribute("aria-expanded", !open);
    body.textContent = visible(open ? whole.slice(0, SHOWN) : whole.slice(0, MOST));
    if (open || whole.length > MOST) body.append("…");
    more.textContent = open ? `Show all ${count(whole.length)} characters` : "Fold";
  });
  return h("div", { class: "folded" }, body, more);
}
