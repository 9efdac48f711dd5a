// Elements. Text becomes text nodes and nothing else: no string is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    // Styles are set through the object model, which the content security policy allows.
    else if (name === "style") for (const [key, to] of Object.entries(value)) element.style.setProperty(key, to);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(4).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** An element with these attributes and children. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for an SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Replaces all children of an element. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(4).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Shows these elements in another; those that are there already stay, with their input and focus. */
function arrange(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, index) => {
    const there = parent.childNodes[index];
    if (there !== element) parent.insertBefore(element, there ?? null);
  });
}

/** Elements by keys. An element is drawn again only if its version differs, so that open parts, input and focus in it stay. */
export class Kept {
  #known = new Map();
  #used = new Map();

  /** The element of a key; `draw` gets the element of the previous version. */
  of(key, version, draw) {
    let one = this.#known.get(key);
    if (one?.version !== version) one = { version, element: draw(one?.element) };
    this.#used.set(key, one);
    return one.element;
  }

  /** Shows the elements that were requested since the last call, and drops the others. */
  into(parent, ...elements) {
    [this.#known, this.#used] = [this.#used, new Map()];
    arrange(parent, elements.flat(4).filter(Boolean));
  }
}

/** Calls a function before the next frame, once for any number of calls. */
export function once(draw) {
  let asked = 0;
  const run = () => {
    asked = 0;
    draw();
  };
  const ask = () => {
    asked ||= requestAnimationFrame(run);
  };
  ask.stop = () => cancelAnimationFrame(asked);
  return ask;
}

/**
 * Opens a dialog; returns the form's values, or nothing if it was closed. `doing`, if given, gets the values; its error
 * is shown in the dialog, which then stays open with its input. A dialog without `act` only shows something.
 */
export function ask(title, fields, { act = "OK", danger = false, about, doing } = {}) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const fault = h("p", { class: "fault", role: "alert" });
    const button = act && h("button", { type: "submit", class: danger ? "danger" : "primary", value: "act" }, act);
    const form = h("form", { method: "dialog" },
      h("h2", { id: "dialog-title" }, title), about && h("p", { class: "about" }, about), fields, fault,
      h("div", { class: "row end" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close"), button));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    let values;
    form.addEventListener("submit", async (event) => {
      const written = Object.fromEntries(new FormData(form));
      if (doing) {
        event.preventDefault();
        if (button.disabled) return;
        button.disabled = true;
        try {
          await doing(written);
        } catch (error) {
          fault.textContent = error.message;
          button.disabled = false;
          return;
        }
      }
      values = written;
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus?.();
      resolve(values);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A labelled field of a form. */
export const field = (label, input, note) =>
  h("label", { class: "field" }, h("span", {}, label), input, note && h("small", {}, note));

/** The text in the place of an empty list. */
export const nothing = (text, ...more) => h("div", { class: "nothing" }, h("p", {}, text), more);
