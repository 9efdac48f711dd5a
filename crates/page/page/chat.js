// A chat with a team: its sessions, messages, the turn under way, files and artifacts.

import { follow, get, path, poll, post, query } from "./api.js";
import { cancelRun } from "./actions.js";
import { ask, field, h, Kept, nothing, once, show } from "./dom.js";
import { ago, counted, line, visible, words } from "./format.js";
import { folded } from "./folded.js";
import { Questions } from "./questions.js";
import { Recorded } from "./record.js";

const MOST_FILE_BYTES = 5 << 20;
const SHOWN = 50;
/** The names of pictures that browsers show, and their media types where they have no name. */
const PICTURE = /\.(avif|gif|jpe?g|png|webp)$|^image\/(avif|gif|jpeg|png|webp)$/i;
/** Unsent messages by session, so that leaving the chat for a moment loses nothing. */
const drafts = new Map();

export function chat(place, context, team, key) {
  if (!team) return choose(place, context);
  const { signal, tell, go, link } = context;
  const session = path("sessions", team, key);
  const said = h("div", { class: "talk-body" });
  const talk = h("div", { class: "talk", tabindex: "0", role: "log", "aria-label": "Conversation" }, said);
  const artifacts = h("div", {});
  const text = h("textarea", { name: "text", rows: 2, "aria-label": "Message", placeholder: `Message to ${team}`, id: "message", value: drafts.get(session) ?? "", oninput: () => drafts.set(session, text.value) });
  const files = h("input", { type: "file", multiple: true, "aria-label": "Files", onchange: named });
  const chosen = h("span", { class: "quiet" });
  const send = h("button", { type: "submit", class: "primary" }, "Send");
  const form = h("form", { class: "composer", onsubmit: say }, text,
    h("div", { class: "row" }, h("label", { class: "button" }, "Attach", files), chosen, h("span", { class: "grow" }), send));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  show(place, h("div", { class: "chat" },
    h("section", { class: "chat-main", "aria-label": "Chat" },
      h("div", { class: "title" }, h("h1", {}, line(key, 60)), h("p", { class: "quiet" }, h("a", { href: `#/teams/${encodeURIComponent(team)}` }, team))), talk, form),
    h("aside", { class: "chat-side" }, h("h2", {}, "Artifacts"), artifacts, h("h2", {}, "Another session"),
      h("p", {}, h("a", { href: `#/chat/${encodeURIComponent(team)}/${fresh()}` }, "Begin a new one")))));

  let log = { turns: [] };
  let current = null;
  let unsent = null;
  let kept = "";
  let all = false;
  const turns = new Kept();
  const draw = once(() => {
    const { scrollTop, scrollHeight, clientHeight } = talk;
    const follows = scrollTop + clientHeight > scrollHeight - 80;
    const shown = all ? log.turns : log.turns.slice(-SHOWN);
    const left = log.turns.length - shown.length;
    turns.into(said,
      left ? turns.of("more", left, () => h("button", { type: "button", class: "more", onclick: () => ((all = true), draw()) }, `Show ${counted(left, "earlier turn")}`)) : null,
      !log.turns.length && !unsent ? turns.of("nothing", "", () => nothing("Nothing was said yet.", h("p", { class: "quiet" }, "What you say is recorded before it is answered; a crash loses nothing."))) : null,
      shown.map(turnOf),
      unsent ? turns.of("unsent", unsent, () => h("article", { class: "said k-user" }, h("p", { class: "prose", dir: "auto" }, visible(unsent)))) : null);
    if (current) current.draw();
    if (follows) talk.scrollTop = talk.scrollHeight;
  });

  function turnOf(turn) {
    const mine = current?.run === turn.run ? current : null;
    const open = turn.ended_at === null || turn.ended_at === undefined;
    const element = turns.of(turn.run, `${turn.number} ${open} ${Boolean(open && mine)} ${textOf(turn.answer)?.length}`, () => {
      return h("section", { class: "turn" },
        h("article", { class: "said k-user" }, turn.said ? folded(turn.said) : null, (turn.files ?? []).map((name, place) => fileOf(turn, name, place))),
        mine && open ? mine.element : h("article", { class: "said k-answer" }, turn.answer ? folded(textOf(turn.answer)) : h("p", { class: "quiet" }, open ? "under way" : "no answer")),
        h("footer", { class: "row quiet" }, h("a", { href: `#/runs/${turn.run}` }, "what happened"), h("span", { class: "when" }),
          open ? h("button", { type: "button", class: "quiet", onclick: () => cancelRun({ id: turn.run, tell, after: look }) }, "Cancel…") : [
            h("button", { type: "button", class: "quiet", onclick: () => fork(turn) }, "Fork…"),
            h("button", { type: "button", class: "quiet", onclick: () => rewind(turn) }, "Rewind…")]));
    });
    element.querySelector(".when").textContent = ago(turn.began_at ?? Date.now());
    return element;
  }

  /** A file of a turn: a picture as a picture, any other by its name. */
  function fileOf(turn, name, place) {
    const href = `/api/v1${session}/turns/${turn.number}/files/${place}`;
    const picture = PICTURE.test(name) ? h("img", { src: href, alt: "", loading: "lazy" }) : null;
    // A link to somewhere else, or bytes that are no picture.
    picture?.addEventListener("error", () => picture.remove());
    return h("p", { class: "file" }, h("a", { href, download: name }, picture, `[${line(name, 200)}]`));
  }

  /** The view of a turn that is under way. */
  function underWay(recorded) {
    const doing = h("span", {});
    const dot = h("span", { class: "dot live" });
    const live = h("pre", { class: "prose live-text", dir: "auto", hidden: true });
    const asked = h("div", { class: "asked" });
    const element = h("article", { class: "said k-answer" }, h("p", { class: "quiet" }, dot, doing), live, asked);
    return { element, asked, draw() {
      const rows = recorded.rows.filter((row) => row.kind !== "run");
      const said = rows.findLast((row) => row.end === null && row.live);
      const last = rows.at(-1);
      dot.className = `dot ${asked.childElementCount ? "wait" : "live"}`;
      doing.textContent = asked.childElementCount ? " waits for an answer" : last ? ` ${line(last.path.at(-1), 40)}: ${last.kind} ${line(last.name, 60)}` : " begins";
      live.hidden = !said;
      if (said) live.textContent = visible(said.live);
    } };
  }

  async function look() {
    try {
      log = await get(session, signal);
    } catch (error) {
      if (error.status !== 404) throw error;
    }
    if (!sending) unsent = null;
    const open = log.turns.findLast((turn) => turn.ended_at === null || turn.ended_at === undefined);
    if (open && current?.run !== open.run) watch(open.run);
    draw();
    const list = log.turns.length ? await get(`${session}/artifacts`, signal) : [];
    const now = JSON.stringify(list);
    if (now === kept) return;
    kept = now;
    show(artifacts, list.length ? h("ul", {}, list.map((one) => h("li", {},
      h("a", { href: `/api/v1${session}/artifacts/${encodeURIComponent(one.name)}`, download: one.name }, line(one.name, 60)),
      h("small", {}, ` version ${one.version}`)))) : h("p", { class: "quiet" }, "None yet."));
  }

  function watch(run) {
    current?.stop.abort();
    const stop = new AbortController();
    signal.addEventListener("abort", () => stop.abort());
    const recorded = new Recorded();
    const mine = { run, recorded, stop, ...underWay(recorded) };
    current = mine;
    const questions = new Questions(mine.asked, { tell, after: () => asks() });
    const asks = async () => {
      questions.show(await get(path("runs", run, "questions"), stop.signal));
      draw();
    };
    follow(run, stop.signal, {
      events(lot) {
        mine.recorded.add(lot);
        draw();
        if (lot.some((one) => one.type.startsWith("question_"))) asks().catch(tell);
        if (lot.some((one) => one.type === "run_ended" && one.run === run)) look().catch(tell);
      },
      state: link,
    }).then(() => link(""), (error) => !stop.signal.aborted && tell(error));
  }

  function named() {
    chosen.textContent = [...files.files].map((file) => file.name).join(", ");
  }

  let sending = false;
  async function say(event) {
    event.preventDefault();
    const message = text.value.trim();
    const attached = [...files.files];
    if (sending || (!message && !attached.length)) return;
    sending = send.disabled = files.disabled = true;
    // Text that is written meanwhile belongs to the next message.
    text.value = "";
    drafts.delete(session);
    unsent = [message, ...attached.map((file) => `[${file.name}]`)].filter(Boolean).join("\n");
    draw();
    try {
      // The turn has one id, so that a repeated request does not repeat the turn.
      const body = { text: message, id: crypto.randomUUID(), streaming: true, files: [] };
      for (const file of attached) {
        if (file.size > MOST_FILE_BYTES) throw new Error(`${file.name} has more than 5 MB`);
        body.files.push({ media_type: file.type || "application/octet-stream", name: file.name, base64: await encoded(file) });
      }
      const turn = await post(`${session}/turns`, body);
      files.value = "";
      named();
      sending = false;
      watch(turn.run.id);
      await look();
    } catch (error) {
      unsent = null;
      text.value = [message, text.value].filter(Boolean).join("\n");
      drafts.set(session, text.value);
      draw();
      tell(error);
    } finally {
      sending = send.disabled = files.disabled = false;
      // A person who has moved the focus elsewhere keeps it there.
      if (document.activeElement === document.body) text.focus();
    }
  }

  async function fork(turn) {
    let made;
    await ask("Fork the session", field("Name of the new session", h("input", { name: "key", value: `${key}-${fresh().slice(0, 4)}`, required: true })), { act: "Fork",
      about: "The new session goes on behind this turn; this one stays as it is.",
      doing: async (values) => (made = await post(`${session}/fork`, { turns: turn.number, key: values.key.trim() })) });
    if (made) go(`#/chat/${encodeURIComponent(made.team)}/${encodeURIComponent(made.key)}`);
  }

  async function rewind(turn) {
    const done = await ask("Go back to this turn?", null, { act: "Rewind", danger: true, about: "The turns behind it count no more. Their runs stay in the store.",
      doing: () => post(`${session}/rewind`, { turns: turn.number }) });
    if (done) await look().catch(tell);
  }

  poll(signal, 2000, look, tell);
  text.focus();
  return { title: key };
}

/** The choice of a team and a session. */
function choose(place, { signal, tell }) {
  const teams = h("div", { class: "cards" });
  const sessions = h("ul", { class: "rows" });
  show(place, h("div", { class: "narrow-page" }, h("h1", {}, "Chat"), teams, h("h2", {}, "Sessions"), sessions));
  let seen = "";
  poll(signal, 3000, async () => {
    const [served, found] = await Promise.all([get("/teams", signal), get(`/sessions${query({ limit: 100 })}`, signal)]);
    const now = JSON.stringify([served, found.sessions]);
    if (now === seen) return;
    seen = now;
    show(teams, served.length ? served.map((one) => h("a", { class: "card", href: `#/chat/${encodeURIComponent(one.name)}/${fresh()}` },
      h("strong", {}, one.name), h("p", { class: "quiet" }, line(one.description, 160) || "New session"))) : nothing("No team is served here.", h("p", { class: "quiet" }, "Start one with ghostlight serve TEAM.yaml --listen ADDRESS.")));
    show(sessions, found.sessions.map((one) => h("li", {}, h("a", { href: `#/chat/${encodeURIComponent(one.session.team)}/${encodeURIComponent(one.session.key)}` },
      h("span", { class: "clip" }, line(one.title, 100) || one.session.key), h("small", {}, `${one.session.team} · ${counted(one.turns, "turn")} · ${ago(one.updated_at)}`)))));
  }, tell);
  return { title: "Chat" };
}

const fresh = () => crypto.getRandomValues(new Uint32Array(2)).reduce((text, one) => text + one.toString(16).padStart(8, "0"), "").slice(0, 10);

function textOf(value) {
  if (typeof value === "string") return value;
  if (value?.text) return value.text;
  const parts = value?.parts ?? value;
  return Array.isArray(parts) ? parts.map((part) => part.text ?? (part.data ? `[${part.data.name ?? part.data.media_type}]` : "")).join("\n") : words(value);
}

const encoded = (file) => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.onload = () => done(String(reader.result).split(",", 2)[1] ?? "");
  reader.onerror = () => failed(reader.error);
  reader.readAsDataURL(file);
});
