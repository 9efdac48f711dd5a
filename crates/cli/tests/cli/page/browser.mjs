// A browser for the tests of the page, and what they look at in it.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const home = process.env.GHOSTLIGHT_BROWSER;
const load = createRequire(`${home}/`);
const { chromium } = load("playwright-core");
const axe = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

export const given = JSON.parse(process.argv[2]);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the test to do something, and waits until it has. */
export async function please(word) {
  console.log(`> ${word}`);
  await lines.next();
}

export function must(so, what) {
  if (!so) throw new Error(what);
}

/** Opens a browser, lets a scenario use it, and checks that nothing went wrong in the page. */
export async function scenario(play) {
  const began = Date.now();
  const browser = await chromium.launch({ executablePath: process.env.GHOSTLIGHT_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const faults = [];
  let page;
  try {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", reducedMotion: "reduce" });
    page = await context.newPage();
    page.setDefaultTimeout(20_000);
    page.on("pageerror", (error) => faults.push(`error: ${error.stack}`));
    // That the server is away for a moment is what a test does, a new session is not there yet, and some forks are refused; all else is a fault.
    page.on("console", (message) => {
      const url = message.location().url;
      const expected = /net::ERR|status of 401/.test(message.text()) || url.includes("/sessions/") || (/status of 4/.test(message.text()) && /\/(fork|branch)$/.test(url));
      if (message.type() === "error" && !expected) faults.push(`${message.text()} ${message.location().url}`);
    });
    await play(page, context);
    must(faults.length === 0, faults.join("\n"));
    console.log(`took ${Date.now() - began} ms`);
  } catch (error) {
    await page?.screenshot({ path: `${given.pictures}/failed.png` }).catch(() => {});
    console.log(`at ${page?.url()}\n${faults.join("\n")}`);
    console.error(error.stack);
    process.exitCode = 1;
  } finally {
    await browser.close();
    process.exit();
  }
}

/** Keeps a picture. */
export const picture = (page, name) => page.screenshot({ path: `${given.pictures}/${name}.png` });

/** Checks a page against the rules of axe: nothing serious may be found. */
export async function accessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
  const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
  must(serious.length === 0, `${where}: ${JSON.stringify(serious.map((one) => [one.id, one.help, one.nodes.slice(0, 3).map((node) => [node.html.slice(0, 200), node.failureSummary])]), null, 1)}`);
}

/** Checks that a page is not wider than the window. */
export async function fits(page, where) {
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  must(wide <= window, `${where} is ${wide} px wide in a window of ${window}`);
  const beside = await page.evaluate(() => [...document.querySelectorAll(".home-sessions")].map((one) => [one.scrollWidth, one.clientWidth]));
  must(beside.every(([wide, room]) => wide <= room), `the sessions of ${where} are wider than their column: ${beside}`);
}
