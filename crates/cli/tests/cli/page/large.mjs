// A run of ten thousand entries, and how soon an event is on the page.

import { fits, given, must, picture, scenario } from "./browser.mjs";

/** Of 10,000 entries so many elements are in the document at most: what is seen, and no more. That holds on any machine. */
const ELEMENTS = 1500;
const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];
const elements = (page) => page.evaluate(() => document.querySelectorAll("*").length);

const say = (page, session, text) =>
  page.evaluate(async ([session, text]) => {
    const answer = await fetch(`/api/v1/sessions/desk/${session}/turns${text.startsWith("count") ? "?wait=60" : ""}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ text }) });
    return (await answer.json()).run.id;
  }, [session, text]);

scenario(async (page) => {
  await page.goto(`${given.at}/`);
  const bytes = await page.evaluate(async () => {
    const all = performance.getEntriesByType("resource").filter((one) => !one.name.includes("/api/")).map((one) => one.decodedBodySize);
    return all.reduce((sum, one) => sum + one, performance.getEntriesByType("navigation")[0].decodedBodySize);
  });
  console.log(`served: ${bytes} bytes`);
  must(bytes < 250_000, `${bytes} bytes are served`);

  const large = await say(page, "large", "count 10000");
  const paints = [];
  for (let round = 0; round < 5; round++) {
    await page.goto("about:blank");
    const began = Date.now();
    await page.goto(`${given.at}/#/runs/${large}`);
    await page.locator(".bar-row", { hasText: "counted" }).first().waitFor();
    paints.push(Date.now() - began);
  }
  console.log(`first paint of 10,000 entries: ${median(paints)} ms (median of ${paints.join(", ")})`);
  await page.waitForFunction(() => Number(document.querySelector(".bars .list-row")?.getAttribute("aria-setsize")) > 10_000);
  const drawn = await page.locator(".list-row").count();
  must(drawn < 100, `${drawn} rows are drawn`);
  const few = async (view) => {
    const there = await elements(page);
    console.log(`${view}: ${there} elements`);
    must(there < ELEMENTS, `${there} elements are in the document (${view})`);
  };
  await few("timeline");
  // While a person scrolls there are never more, and the other end is there at once.
  const [slowest, most] = await page.evaluate(async () => {
    const list = document.querySelector(".bars");
    let [last, slowest, most] = [performance.now(), 0, 0];
    for (let at = 0; at <= 40; at++) {
      list.scrollTop = (list.scrollHeight * at) / 40;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      [last, slowest] = [now, Math.max(slowest, now - last)];
      most = Math.max(most, document.querySelectorAll("*").length);
    }
    return [slowest, most];
  });
  console.log(`slowest frame while scrolling: ${slowest.toFixed(0)} ms; ${most} elements at most`);
  must(most < ELEMENTS, `${most} elements are in the document while it is scrolled`);
  await page.locator(".bar-row", { hasText: "9999" }).waitFor();
  await picture(page, "large");
  for (const view of ["Events", "Graph"]) {
    await page.getByRole("tab", { name: view }).click();
    await page.waitForTimeout(50);
    await few(view);
  }
  await page.getByRole("tab", { name: "Timeline" }).click();
  await fits(page, "large run");

  const live = await say(page, "live", "tick 100");
  await page.goto(`${given.at}/#/runs/${live}`);
  const [late, before] = await page.evaluate(() => new Promise((done) => {
    const seen = new Set();
    const late = [];
    let before = 0;
    new MutationObserver(() => {
      const now = Date.now();
      for (const one of document.querySelectorAll(".bar-text")) {
        if (!/^\d{13}$/.test(one.textContent) || seen.has(one.textContent)) continue;
        seen.add(one.textContent);
        late.push(now - Number(one.textContent));
      }
      // What was there before the page was is no measure.
      if (document.querySelector(".pill.good")) done([late.slice(-12), before]);
      else before = seen.size;
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  }));
  console.log(`an event is on the page after ${median(late)} ms (median of ${late.join(", ")})`);
  must(before > 0, "no event is on the page before its run has ended");

  // A run that sleeps is cancelled, and the page hears of it.
  const asleep = await say(page, "asleep", "wait");
  await page.goto(`${given.at}/#/runs/${asleep}`);
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.locator("dialog").getByRole("button", { name: "Cancel the run" }).click();
  await page.locator(".pill.warn", { hasText: "cancelled" }).waitFor();
});
