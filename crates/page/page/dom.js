// Elements. Text becomes text nodes and nothing else: no string is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    // Styles go through the object model, which the content security policy allows.
    else if (name === "style") for (const [key, to] of Object.entries(value)) element.style.setProperty(key, to);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(4).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** An element with these attributes and children. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for a drawing. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Puts these children in the place of all that an element has. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(4).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Calls a function before the next frame, once for however many calls. */
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

/** A dialog that is open; `done` gives the form's values, or nothing where it was closed. */
export function ask(title, fields, { act = "OK", danger = false, about } = {}) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const form = h("form", { method: "dialog" },
      h("h2", { id: "dialog-title" }, title), about && h("p", { class: "about" }, about), fields,
      h("div", { class: "row end" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
        h("button", { type: "submit", class: danger ? "danger" : "primary", value: "act" }, act)));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    let values;
    form.addEventListener("submit", () => {
      values = Object.fromEntries(new FormData(form));
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

/** What stands where there is nothing. */
export const nothing = (text, ...more) => h("div", { class: "nothing" }, h("p", {}, text), more);
