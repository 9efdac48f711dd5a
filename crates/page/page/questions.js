// The questions of a run, and the ways to answer them.

import { path, post } from "./api.js";
import { h, Kept, show } from "./dom.js";
import { exact, line, pretty, unambiguous, visible } from "./format.js";
import { folded } from "./folded.js";

/** The open questions. A question keeps its element, and the input in it, when others come and go. */
export class Questions {
  #kept = new Kept();

  constructor(element, options) {
    Object.assign(this, { element, options });
  }

  show(open, title = () => undefined) {
    this.#kept.into(this.element, open.map((one) => this.#kept.of(`${one.run}/${one.operation}`, "", () => questionCard(one, { ...this.options, title: title(one) }))));
  }
}

/** A question with its controls. */
function questionCard({ run, operation, question }, { tell, title, after, link }) {
  const card = h("article", { class: "question", "data-operation": operation });
  const send = async (value) => {
    for (const control of card.querySelectorAll("button, input, textarea")) control.disabled = true;
    try {
      await post(path("runs", run, "answers"), { operation, value });
      card.classList.add("answered");
      await after?.();
    } catch (error) {
      tell(error);
      for (const control of card.querySelectorAll("button, input, textarea")) control.disabled = false;
    }
  };
  const agent = question.path?.length ? question.path.join(" › ") : "an agent";
  const head = h("header", {},
    h("strong", {}, asks(question.kind)), h("span", { class: "quiet" }, ` ${agent}`),
    link && h("a", { class: "push", href: `#/runs/${run}` }, title ? line(title.title, 50) || "open" : "open the run"));
  const body = [h("p", { class: "prompt", dir: "auto" }, visible(question.prompt))];
  const expires = question.expires && h("p", { class: "quiet" }, `Counts until ${exact(question.expires)}.`);
  show(card, head, body, answers(question, send), expires);
  return card;
}

const asks = (kind) => ({ approval: "Approval", confirmation: "Yes or no", choice: "Choice", in_doubt: "In doubt", form: "Form", authentication: "Credential" })[kind] ?? "Question";

function answers(question, send) {
  switch (question.kind) {
    case "approval":
      return approval(question, send);
    case "confirmation":
      return buttons(send, [["Yes", true, "primary"], ["No", false]]);
    case "in_doubt":
      return question.options.length ? choice(question, send) : typed(send, "What happened?");
    case "choice":
      return choice(question, send);
    case "authentication":
      return typed(send, "The credential; it reaches the tool alone", "password");
    case "form":
      return h("div", {}, folded(pretty(question.schema), "code"), typed(send, "A JSON object that fits this schema"));
    default:
      return typed(send, "Your answer");
  }
}

const buttons = (send, all) =>
  h("div", { class: "row" }, all.map(([word, value, look]) => h("button", { type: "button", class: look, onclick: () => send(value) }, word)));

const choice = (question, send) => buttons(send, question.options.map((option) => [line(question.labels?.[option] ?? option, 120), option, ""]));

function typed(send, label, type = "text") {
  const input = type === "password" ? h("input", { type, "aria-label": label, placeholder: label, autocomplete: "off" })
    : h("textarea", { rows: 1, "aria-label": label, placeholder: label });
  const give = () => input.value.trim() && send(input.value);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      give();
    }
  });
  return h("div", { class: "row" }, input, h("button", { type: "button", class: "primary", onclick: give }, "Answer"));
}

function approval(question, send) {
  const call = question.call;
  const shown = pretty(call?.arguments ?? "");
  const remember = h("input", { type: "checkbox" });
  const reason = h("input", { "aria-label": "Why not", placeholder: "Why not (optional)" });
  const edit = h("textarea", { class: "code", rows: Math.min(12, shown.split("\n").length + 1), "aria-label": "Arguments", spellcheck: "false" });
  edit.value = shown;
  const fault = h("p", { class: "fault", role: "alert" });
  const edited = h("div", { hidden: true }, edit, fault);
  const view = folded(shown, "code");
  const editing = h("button", { type: "button", onclick: () => {
    edited.hidden = !edited.hidden;
    view.hidden = !edited.hidden;
    editing.textContent = edited.hidden ? "Edit arguments" : "Keep arguments";
    if (!edited.hidden) edit.focus();
  } }, "Edit arguments");
  const approve = () => {
    const value = { approved: true };
    if (!edited.hidden && edit.value !== shown) {
      try {
        value.arguments = unambiguous(edit.value);
      } catch (error) {
        fault.textContent = `The arguments are no JSON: ${error.message}`;
        return edit.focus();
      }
    }
    if (remember.checked) value.remember = true;
    return send(Object.keys(value).length > 1 ? value : true);
  };
  const deny = () => send(reason.value.trim() ? { approved: false, reason: reason.value.trim() } : false);
  return h("div", { class: "approval" },
    h("div", { class: "call" }, h("span", { class: "tool-name" }, line(call?.name ?? "", 120)), view, edited),
    h("div", { class: "row" },
      h("button", { type: "button", class: "primary", onclick: approve }, "Approve"), editing,
      h("label", { class: "check", title: "Approves later calls with these very arguments, too" }, remember, "for the whole session"),
      h("span", { class: "grow" }), reason, h("button", { type: "button", class: "danger", onclick: deny }, "Deny")));
}
