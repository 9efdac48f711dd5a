// Teams that are graphs: what is drawn of them, by whom it is reached, and that names are text.

import { accessible, fits, given, must, picture, scenario } from "./browser.mjs";

const same = (found, wanted, what) => must(JSON.stringify(found) === JSON.stringify(wanted), `${what}: ${JSON.stringify(found)}`);

async function open(page, team) {
  await page.goto(`${given.at[team]}/#/teams/${team}`);
  const drawn = page.getByRole("region", { name: `Graph of ${team}`, exact: true });
  await drawn.locator(".step").first().waitFor();
  return drawn;
}

async function review(page) {
  const drawn = await open(page, "review");
  same(await drawn.locator(".step .name").allTextContents(), ["draft", "facts", "style", "judge", "publish", "excuse", "end"], "the nodes");
  same((await drawn.locator(".edge-words").allTextContents()).toSorted(), ["at once", "at once", "judge contains APPROVED …", "on failure", "otherwise"], "the conditions");
  must((await drawn.locator(".edge.back").count()) === 1, "one way closes the loop");
  must((await drawn.locator(".edge.dashed").count()) === 1, "one way is taken on a failure");
  must((await drawn.locator(".edge").count()) === 9, `${await drawn.locator(".edge").count()} ways`);
  await page.getByRole("region", { name: "Graph of review, node style" }).locator(".step", { hasText: "within" }).waitFor();
  const first = await page.locator(".drawing").first().getAttribute("aria-label");
  same(first, "Graph of review", "the first drawing of a team that is a graph");

  // By the keyboard alone: in the order of the walk, each node with all that its lines show.
  await drawn.focus();
  await page.keyboard.press("Tab");
  const at = () => page.evaluate(() => [document.activeElement.dataset.key, document.activeElement.getAttribute("aria-description")]);
  same(await at(), ["draft", "leads to facts (at once), style (at once)"], "the first node");
  for (let step = 0; step < 3; step++) await page.keyboard.press("Tab");
  same(await at(), ["judge", "leads to publish (judge contains APPROVED or draft.times ≥ 3), draft (otherwise), excuse (on failure)"], "the fourth node");
  await page.keyboard.press("Enter");
  const card = page.locator(".agent-card");
  await card.getByText("draft (otherwise)").waitFor();
  await card.getByRole("heading", { name: "critic" }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press(" ");
  await card.getByText("Shall it be published?").waitFor();
  await accessible(page, "a team that is a graph");
  await fits(page, "a team that is a graph");
  await picture(page, "review");
}

async function large(page) {
  const began = Date.now();
  const drawn = await open(page, "large");
  must((await drawn.locator(".step").count()) === 300 && (await drawn.locator(".edge").count()) === 600, "more is drawn than a page holds");
  await page.getByText("Not drawn: 701 nodes and 5,400 ways.").waitFor();
  const there = await page.evaluate(() => document.querySelectorAll("*").length);
  console.log(`1,000 nodes with 20,000 ways: ${there} elements after ${Date.now() - began} ms`);
  must(there < 6000, `${there} elements`);
  await drawn.locator(".step").nth(299).click();
  await page.locator(".agent-card h2", { hasText: "n299" }).waitFor();
  await fits(page, "a large graph");
}

async function markup(page) {
  const drawn = await open(page, "markup");
  for (let at = 0; at < (await drawn.locator(".step").count()); at += 5) await drawn.locator(".step").nth(at).dispatchEvent("click");
  const found = await page.evaluate(() => {
    const acting = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/;
    const odd = document.querySelectorAll("main script, main img, main iframe, main b, main style, main form[action], [onclick], [onload]");
    const raw = [...document.querySelectorAll("svg text, svg title, .agent-card *")].filter((one) => acting.test(one.textContent));
    const named = [...document.querySelectorAll("[aria-label], [aria-description]")].filter((one) => acting.test(`${one.getAttribute("aria-label")} ${one.getAttribute("aria-description")}`));
    return [odd.length, raw.length, named.length, globalThis.hacked ?? null];
  });
  same(found, [0, 0, 0, null], "names act");
  await drawn.locator(".step", { hasText: "__proto__" }).waitFor();
  await accessible(page, "a graph of hostile names");
}

scenario(async (page) => {
  for (const part of [review, large, markup]) await part(page);
});
