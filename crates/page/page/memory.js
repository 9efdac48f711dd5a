// The memories of agents: listing, searching and forgetting.

import { get, path, poll, post, query } from "./api.js";
import { ask, field, h, Kept, nothing, show } from "./dom.js";
import { ago, counted, line, pretty } from "./format.js";
import { folded } from "./folded.js";

const KINDS = ["working", "episodic", "semantic", "task", "learning", "wisdom", "entity", "relation", "conversation"];

export function memory(place, { signal, tell, parameters }) {
  const wanted = { of: "", scope: "", kind: "", text: "", ...Object.fromEntries(parameters) };
  const of = h("select", { name: "of", "aria-label": "Memory" });
  const scope = h("input", { name: "scope", list: "scopes", placeholder: "The team's", "aria-label": "Scope", value: wanted.scope, title: "app, user:OWNER or session:KEY" });
  const scopes = h("datalist", { id: "scopes" });
  const kind = h("select", { name: "kind", "aria-label": "Kind" }, h("option", { value: "" }, "Any kind"), KINDS.map((one) => h("option", { value: one }, one)));
  kind.value = wanted.kind;
  const told = h("p", { class: "quiet", role: "status" });
  const rows = h("ul", { class: "memories" });
  const empty = h("div", {});
  const filter = h("form", { class: "filter", role: "search", onsubmit: (event) => event.preventDefault(), oninput: () => {
    Object.assign(wanted, Object.fromEntries(new FormData(filter)));
    history.replaceState(null, "", `#/memory${query(wanted)}`);
    look().catch(tell);
  } }, h("input", { type: "search", name: "text", placeholder: "Search by words", "aria-label": "Search by words", value: wanted.text }), of, scope, scopes, kind);
  show(place, h("div", { class: "narrow-page" }, h("div", { class: "title" }, h("h1", {}, "Memory"), told), filter, rows, empty));
  const kept = new Kept();
  let memories = null;

  async function look() {
    if (!memories) {
      memories = await get("/memories", signal);
      show(of, memories.map((one) => h("option", { value: JSON.stringify([one.team, one.name]) }, one.name === "memory" ? line(one.team, 60) : `${line(one.team, 40)}: ${line(one.name, 40)}`)));
      if (wanted.of) of.value = wanted.of;
      wanted.of = of.value;
      filter.hidden = !memories.length;
      show(scopes, memories.flatMap((one) => one.owners).map((owner) => h("option", { value: `user:${owner}` })));
    }
    if (!memories.length) return show(empty, nothing("No team has a memory.", h("p", { class: "quiet" }, "Give an agent one with memory: in its team file.")));
    const mine = JSON.stringify(wanted);
    const [team, name] = JSON.parse(wanted.of);
    const found = await get(`${path("memories", team, name)}${query({ scope: wanted.scope.trim(), kind: wanted.kind, text: wanted.text.trim(), limit: 200 })}`, signal).catch((error) => {
      // A half-written scope is not an error.
      if (error.status === 422) return { items: [], total: 0, fault: error.message };
      throw error;
    });
    if (mine !== JSON.stringify(wanted)) return;
    told.textContent = found.fault ?? (found.items.length < found.total ? `${counted(found.items.length, "item")} of ${found.total}` : counted(found.total, "item"));
    kept.into(rows, found.items.map((item) => kept.of(item.id, JSON.stringify([item.content, item.kind, item.tags, item.importance, item.pinned, item.updated_at]), () => h("li", {},
      h("header", { class: "row" }, h("strong", {}, item.kind), h("span", { class: "quiet" }, `importance ${item.importance.toFixed(2)}${item.pinned ? " · pinned" : ""} · ${ago(item.updated_at)}`),
        item.source ? h("a", { href: `#/runs/${item.source.run}` }, "where it comes from") : null,
        h("button", { type: "button", class: "quiet danger push", "aria-label": `Forget ${line(item.content, 40)}`, onclick: () => forget(team, name, item) }, "Forget…")),
      folded(item.content), item.tags?.length ? h("ul", { class: "chips" }, item.tags.map((tag) => h("li", {}, line(tag, 60)))) : null,
      item.detail ? h("details", {}, h("summary", {}, "More of it"), folded(pretty(item.detail), "code")) : null))));
    show(empty, found.items.length ? null : nothing(wanted.text || wanted.kind ? "Nothing is remembered of that." : "Nothing is remembered there."));
  }

  async function forget(team, name, item) {
    const done = await ask("Forget this?", field("It says", h("p", { class: "quiet" }, line(item.content, 400))), { act: "Forget", danger: true, about: "It is gone for good, also if it is pinned.",
      doing: () => post(path("memories", team, name, "forget"), { id: item.id, scope: wanted.scope.trim() || undefined }) });
    if (done) await look().catch(tell);
  }

  poll(signal, 3000, look, tell);
  return { title: "Memory" };
}
