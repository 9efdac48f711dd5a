// A list that has only its visible rows in the document.

import { h, once } from "./dom.js";

const BEYOND = 8;

/**
 * A list of rows of one height. `draw(row, index)` gives the children of a row; `chosen(index)` is called when a
 * person picks one, by mouse or keys. `key(row)` identifies a row that was read again: the chosen row and the scroll
 * position stay.
 */
export class List {
  #rows = [];
  #height;
  #draw;
  #chosen;
  #picked = -1;
  #shown = new Map();
  #follows = true;

  constructor({ label, height, draw, chosen, key = (row) => row, className = "" }) {
    this.key = key;
    this.#height = height;
    this.#draw = draw;
    this.#chosen = chosen;
    this.body = h("div", { class: "list-body" });
    this.element = h("div", { class: `list ${className}`, role: "listbox", tabindex: "0", "aria-label": label }, this.body);
    this.render = once(() => this.#render());
    this.element.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.element;
      this.#follows = scrollTop + clientHeight > scrollHeight - 2 * height;
      this.render();
    });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("click", (event) => {
      const row = event.target.closest("[data-index]");
      if (row) this.pick(Number(row.dataset.index), true);
    });
    new ResizeObserver(this.render).observe(this.element);
  }

  get rows() {
    return this.#rows;
  }

  /** Shows these rows. With `tail`, a list that was scrolled to its end stays there. */
  set(rows, { tail = false, redraw = true } = {}) {
    const { scrollTop } = this.element;
    const top = Math.floor(scrollTop / this.#height);
    const [picked, first] = [this.#rows[this.#picked], this.#rows[top]];
    this.#rows = rows;
    if (picked) this.#picked = this.#place(picked, this.#picked);
    this.body.style.height = `${rows.length * this.#height}px`;
    if (redraw) this.#forget();
    if (tail && this.#follows) this.element.scrollTop = rows.length * this.#height;
    else if (scrollTop && first) {
      const now = this.#place(first, top);
      if (now >= 0 && now !== top) this.element.scrollTop = scrollTop + (now - top) * this.#height;
    }
    this.render();
  }

  /** The present index of the row that was at this index. */
  #place(row, index) {
    const key = this.key(row);
    const there = this.#rows[index];
    return there && this.key(there) === key ? index : this.#rows.findIndex((one) => this.key(one) === key);
  }

  /** Draws the visible rows again. */
  redraw() {
    this.#forget();
    this.render();
  }

  #forget() {
    for (const row of this.#shown.values()) row.stale = true;
  }

  pick(index, tell = false) {
    const most = this.#rows.length - 1;
    this.#picked = Math.max(-1, Math.min(index, most));
    if (this.#picked >= 0) {
      const top = this.#picked * this.#height;
      const { scrollTop, clientHeight } = this.element;
      if (top < scrollTop) this.element.scrollTop = top;
      else if (top + this.#height > scrollTop + clientHeight) this.element.scrollTop = top + this.#height - clientHeight;
    }
    this.#forget();
    this.render();
    if (tell && this.#picked >= 0) this.#chosen(this.#rows[this.#picked], this.#picked);
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#height) - 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page };
    let to;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) to = Math.max(0, this.#picked + steps[event.key]);
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = this.#rows.length - 1;
    else if (event.key === "Enter" && this.#picked >= 0) to = this.#picked;
    else return;
    event.preventDefault();
    this.pick(to, true);
  }

  #render() {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(0, Math.floor(scrollTop / this.#height) - BEYOND);
    const to = Math.min(this.#rows.length, Math.ceil((scrollTop + clientHeight) / this.#height) + BEYOND);
    for (const [index, { element }] of this.#shown) {
      if (index >= from && index < to) continue;
      element.remove();
      this.#shown.delete(index);
    }
    const id = (this.element.id ||= `list-${crypto.randomUUID().slice(0, 8)}`);
    for (let index = from; index < to; index++) {
      const known = this.#shown.get(index);
      if (known && !known.stale) continue;
      const element = known?.element ?? h("div", { role: "option", class: "list-row", "data-index": index, id: `${id}-${index}` });
      element.style.transform = `translateY(${index * this.#height}px)`;
      element.style.height = `${this.#height}px`;
      element.setAttribute("aria-selected", index === this.#picked);
      element.setAttribute("aria-posinset", index + 1);
      element.setAttribute("aria-setsize", this.#rows.length);
      element.replaceChildren(...this.#draw(this.#rows[index], index).filter(Boolean));
      if (!known) this.body.append(element);
      this.#shown.set(index, { element, stale: false });
    }
    const active = this.#picked >= from && this.#picked < to ? `${id}-${this.#picked}` : "";
    if (active) this.element.setAttribute("aria-activedescendant", active);
    else this.element.removeAttribute("aria-activedescendant");
  }
}
