// Numbers, times and texts as people read them.

const two = (number) => String(number).padStart(2, "0");

/** A length of time, from milliseconds. */
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

/** The time of the day, and the day where it is another. */
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

/** How long ago something was. */
export function ago(ms) {
  const past = Date.now() - ms;
  if (past < 5_000) return "now";
  if (past < 60_000) return `${Math.round(past / 1000)} s ago`;
  if (past < 3_600_000) return `${Math.round(past / 60_000)} min ago`;
  if (past < 86_400_000) return `${Math.round(past / 3_600_000)} h ago`;
  return time(ms);
}

/** A count, with marks between thousands. */
export const count = (number) => (number ?? 0).toLocaleString("en-US");

/** A number of things. */
export const counted = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

/** Money, from millionths. */
export function money(micros) {
  if (!micros) return "";
  const whole = micros / 1e6;
  return whole < 0.01 ? whole.toFixed(4) : whole.toFixed(2);
}

export const short = (id) => (id ?? "").slice(0, 8);

// What acts on a terminal or turns the direction of what follows is shown, and does not act.
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const named = (c) => `\\u{${c.codePointAt(0).toString(16)}}`;

/** A text with an escape for each character that acts. */
export const visible = (text) => String(text ?? "").replace(ACTING, (c) => (c === "\r" ? "" : named(c)));

/** A text on one line, cut. */
export function line(text, most = 160) {
  const cut = String(text ?? "").slice(0, most * 4);
  const flat = visible(cut).replace(/\s+/g, " ").trim();
  return flat.length > most ? `${flat.slice(0, most)}…` : flat;
}

/** Words of an error or a reason as the interface has them: `{"cancelled": "why"}` is "cancelled: why". */
export function words(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  if (typeof value.message === "string") return value.message;
  const entries = Object.entries(value);
  if (entries.length !== 1) return JSON.stringify(value);
  const [name, inner] = entries[0];
  const told = name.replaceAll("_", " ");
  return inner === null ? told : `${told}: ${words(inner)}`;
}

/** JSON with indents where a text is JSON, and otherwise the text. */
export function pretty(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  if (!/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
