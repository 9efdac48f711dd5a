"use strict";
// Every text of the report is put in as text, never as markup.
const report = JSON.parse(document.getElementById("data").textContent);
const PAGE = 200;
const body = document.getElementById("cells");
const more = document.getElementById("more");
const count = document.getElementById("count");
const chosen = { status: "", variant: "", text: "" };
let found = [];
let shown = 0;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function row(cell) {
  const line = element("tr");
  line.append(element("td", cell.sample, "name"));
  line.append(element("td", report.variants[cell.variant]));
  line.append(element("td", cell.repeat, "number"));
  const status = report.statuses[cell.status];
  line.append(element("td", status.label, status.kind));
  for (const score of cell.scores) {
    line.append(element("td", score === null ? "" : score.toFixed(2), "number"));
  }
  line.append(element("td", cell.why, "why"));
  line.append(element("td", cell.calls, "number"));
  line.append(element("td", cell.tokens, "number"));
  line.append(element("td", cell.ms, "number"));
  const command = element("td");
  if (cell.run) command.append(element("code", "ghostlight show " + cell.run));
  line.append(command);
  return line;
}

function showMore() {
  const part = document.createDocumentFragment();
  for (const cell of found.slice(shown, shown + PAGE)) part.append(row(cell));
  body.append(part);
  shown = Math.min(found.length, shown + PAGE);
  count.textContent = "showing " + shown + " of " + found.length;
  more.hidden = shown === found.length;
}

function show() {
  const text = chosen.text.toLowerCase();
  found = report.cells.filter((cell) =>
    (chosen.status === "" || cell.status === chosen.status) &&
    (chosen.variant === "" || cell.variant === chosen.variant) &&
    (text === "" || (cell.sample + "\n" + cell.why).toLowerCase().includes(text)));
  shown = 0;
  body.replaceChildren();
  showMore();
}

const buttons = document.getElementById("statuses");
const all = [{ label: "all", count: report.cells.length }, ...report.statuses];
all.forEach((status, place) => {
  const button = element("button", status.label + " " + status.count);
  button.setAttribute("aria-pressed", String(place === 0));
  button.addEventListener("click", () => {
    chosen.status = place === 0 ? "" : place - 1;
    for (const other of buttons.children) other.setAttribute("aria-pressed", String(other === button));
    show();
  });
  buttons.append(button);
});

const variants = document.getElementById("variant");
report.variants.forEach((name, place) => {
  const option = element("option", name);
  option.value = String(place);
  variants.append(option);
});
variants.addEventListener("change", () => {
  chosen.variant = variants.value === "" ? "" : Number(variants.value);
  show();
});
document.getElementById("search").addEventListener("input", (event) => {
  chosen.text = event.target.value;
  show();
});
more.addEventListener("click", showMore);
show();
