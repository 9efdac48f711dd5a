// The choice of the view, and the parts that all views share.

import { Away, get, Refused, signInWith } from "./api.js";
import { chat } from "./chat.js";
import { compare } from "./compare.js";
import { ask, field, h, nothing, show } from "./dom.js";
import { beside, evaluation, evaluations } from "./evaluations.js";
import { line } from "./format.js";
import { home } from "./home.js";
import { memory } from "./memory.js";
import { run } from "./run.js";
import { system } from "./system.js";
import { team, teams } from "./team.js";

const content = document.querySelector("#content");
const told = document.querySelector("#told");
const linkState = document.querySelector("#link");
let view = null;
let keys = {};

/** Shows an error to a person; asks for a key if that is missing. */
function tell(error) {
  if (error?.name === "AbortError") return;
  if (error instanceof Refused && error.status === 401) return signIn();
  if (error instanceof Away) return link("broken");
  const text = error?.message ?? String(error);
  const box = h("div", { class: "note" }, h("span", {}, text), h("button", { type: "button", class: "quiet push", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  if (told.lastElementChild?.firstElementChild?.textContent === text) told.lastElementChild.remove();
  told.append(box);
  while (told.childElementCount > 3) told.firstElementChild.remove();
  setTimeout(() => box.remove(), 12_000);
}

const LINKS = { live: "live", broken: "reconnecting…", done: "ended", "": "" };

function link(state) {
  linkState.className = `link ${state}`;
  linkState.textContent = LINKS[state] ?? "";
}

let signing = false;

/** Asks for a key, which becomes a cookie that no script can read. */
async function signIn() {
  if (signing) return;
  signing = true;
  view?.abort();
  link("");
  const key = h("input", { type: "password", name: "key", "aria-label": "Key", autocomplete: "current-password", required: true });
  const fault = h("p", { class: "fault", role: "alert" });
  show(content, h("div", { class: "sign-in" }, h("h1", {}, "A key, please"),
    h("p", { class: "quiet" }, "The server asks for a key. The operator makes one with ", h("code", {}, "ghostlight key add NAME"), "; ", h("code", {}, "ghostlight store open"), " prints its own."),
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        await signInWith(key.value);
        signing = false;
        begin(await get("/me"));
      } catch (error) {
        fault.textContent = error.message;
      }
    } }, field("Key", key), fault, h("button", { type: "submit", class: "primary" }, "Sign in"))));
  key.focus();
}

function route() {
  if (signing) return;
  view?.abort();
  // A dialog belongs to the view in which it was opened.
  document.querySelector("dialog[open]")?.close();
  view = new AbortController();
  const [where, search] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const go = (hash) => {
    if (location.hash === hash) route();
    else location.hash = hash;
  };
  const name = (title) => (document.title = title ? `${line(title, 80)} – Ghostlight` : "Ghostlight");
  const context = { signal: view.signal, tell, go, link, name, parameters: new URLSearchParams(search ?? "") };
  const [place, first, second, third] = parts;
  const id = (text) => (/^[0-9a-f-]{32,36}$/i.test(text ?? "") ? text : null);
  link("");
  content.replaceChildren();
  content.dataset.place = place ?? "";
  let shown;
  if (!place) shown = home(content, context);
  else if (place === "runs" && id(first)) shown = run(content, context, first);
  else if (place === "compare" && id(first) && id(second)) shown = compare(content, context, first, second);
  else if (place === "chat") shown = chat(content, context, first, second);
  else if (place === "teams") shown = first ? team(content, context, first) : teams(content, context);
  else if (place === "evaluations" && third) shown = beside(content, context, first, second, third);
  else if (place === "evaluations") shown = first ? evaluation(content, context, first) : evaluations(content, context);
  else if (place === "memory") shown = memory(content, context);
  else if (place === "system") shown = system(content, context);
  else show(content, nothing("There is no such page.", h("p", {}, h("a", { href: "#/" }, "All runs"))));
  keys = shown?.keys ?? {};
  name(shown?.title);
  for (const one of document.querySelectorAll("#places a")) {
    const here = one.dataset.place === (place === "runs" || place === "compare" ? "" : (place ?? ""));
    if (here) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
}

// The colours: as the system has them, or as the person chose.
const LOOKS = ["system", "light", "dark"];
const themeButton = document.querySelector("#theme");
function look(choice) {
  document.documentElement.dataset.look = choice;
  themeButton.textContent = { system: "Auto", light: "Light", dark: "Dark" }[choice];
  themeButton.title = `Colours: ${choice === "system" ? "as this device has them" : choice}`;
}
look(LOOKS.includes(localStorage.getItem("look")) ? localStorage.getItem("look") : "system");
themeButton.addEventListener("click", () => {
  const next = LOOKS[(LOOKS.indexOf(document.documentElement.dataset.look) + 1) % LOOKS.length];
  localStorage.setItem("look", next);
  look(next);
});

const HELP = [["/", "search the runs"], ["g r", "runs"], ["g c", "chat"], ["g t", "teams"], ["g m", "memory"], ["g e", "evaluations"], ["g s", "system"], ["↑ ↓ or j k", "another row"], ["Enter", "open a row"], ["Esc", "close the details"],
  ["t  c  n  e", "timeline, conversation, graph, events of a run"], ["f", "fork the run"], ["+ − 0", "zoom the timeline, or show all of it"], ["?", "this list"]];
const help = () => ask("Keyboard", h("dl", { class: "facts wide" }, HELP.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))), { act: null });
document.querySelector("#help").addEventListener("click", help);

let before = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const places = { r: "#/", c: "#/chat", t: "#/teams", m: "#/memory", e: "#/evaluations", s: "#/system" };
  const second = before === "g" ? places[event.key] : undefined;
  before = event.key;
  if (second) {
    location.hash = second;
  } else if (event.key === "?") help();
  else if (event.key === "/") {
    const search = document.querySelector("#search");
    if (search) search.focus();
    else location.hash = "#/";
  } else if (event.key !== "g" && keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  content.focus();
});
addEventListener("hashchange", route);
addEventListener("unhandledrejection", (event) => tell(event.reason));
/** Shows the places of memories and evaluations if there are any that this caller may see. */
function begin(me) {
  const list = (name) => get(`/${name}`).then((all) => (document.querySelector(`[data-place="${name.replace("memories", "memory")}"]`).hidden = !all.length), () => {});
  list("memories");
  // Evaluations are the operator's.
  if (me.operator) list("evaluations");
  route();
}
get("/me").then(begin, (error) => (error instanceof Refused && error.status === 401 ? signIn() : route()));
