// Numbers, times and texts as people read them.

const two = (number) => String(number).padStart(2, "0");

/** A duration, from milliseconds. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.floor((ms % 60_000) / 1000);
  if (minutes < 60) return seconds ? `${minutes} min ${seconds} s` : `${minutes} min`;
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  return `${Math.floor(minutes / 1440)} days`;
}

/** The time of day, with the date if it is not today. */
export function time(ms) {
  const at = new Date(ms);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === new Date().toDateString() ? clock : `${day(at)} ${clock}`;
}

const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

/** A time with its day and milliseconds. */
export function exact(ms) {
  const at = new Date(ms);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day(at)} ${clock}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** The time since a moment. */
export function ago(ms) {
  const past = Date.now() - ms;
  if (past < 5_000) return "now";
  if (past < 60_000) return `${Math.round(past / 1000)} s ago`;
  if (past < 3_600_000) return `${Math.round(past / 60_000)} min ago`;
  if (past < 86_400_000) return `${Math.round(past / 3_600_000)} h ago`;
  return time(ms);
}

/** A number with thousands separators. */
export const count = (number) => (number ?? 0).toLocaleString("en-US");

/** A number with its noun. */
export const counted = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

/** An amount of money, from millionths. */
export function money(micros) {
  if (!micros) return "";
  const whole = micros / 1e6;
  return whole < 0.01 ? whole.toFixed(4) : whole.toFixed(2);
}

export const short = (id) => (id ?? "").slice(0, 8);

// Control characters and marks that change the direction of text are shown as escapes.
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const named = (c) => `\\u{${c.codePointAt(0).toString(16)}}`;

/** A text with an escape for each such character. */
export const visible = (text) => String(text ?? "").replace(ACTING, (c) => (c === "\r" ? "" : named(c)));

/** A text on one line, shortened. */
export function line(text, most = 160) {
  const cut = String(text ?? "").slice(0, most * 4);
  const flat = visible(cut).replace(/\s+/g, " ").trim();
  return flat.length > most ? `${flat.slice(0, most)}…` : flat;
}

/** The words of an error or a reason from the interface: `{"cancelled": "why"}` is "cancelled: why". */
export function words(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  if (typeof value.message === "string") return value.message;
  const entries = Object.entries(value);
  if (entries.length !== 1) return JSON.stringify(value);
  const [name, inner] = entries[0];
  if (name === "operation") return words(inner);
  const told = name.replaceAll("_", " ");
  return inner === null ? told : `${told}: ${words(inner)}`;
}

/** Parses JSON in which no object has a name twice: `JSON.parse` would take the last of them without a word. */
export function unambiguous(text) {
  const value = JSON.parse(text);
  // In JSON a string before a colon is a name.
  const written = [...text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g)].filter(([, colon]) => colon).length;
  if (written !== names(value)) throw new Error("a name stands twice in one object");
  return value;
}

function names(value) {
  if (typeof value !== "object" || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum, one) => sum + names(one), own);
}

/** JSON text with indentation; any other text as it is. */
export function pretty(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  if (!/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
