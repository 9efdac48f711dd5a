// What a hostile model wrote is text in every view.

import { given, must, picture, scenario } from "./browser.mjs";

/** What only markup of somebody else's could have put there. */
async function clean(page, where) {
  const found = await page.evaluate(() => {
    const odd = document.querySelectorAll("main script, main img, main iframe, main object, main embed, main base, main meta, main link, main style, main video, main audio, main math, main template, main b, body > script, form[action], [onclick], [onerror], [onload], [style*=display]");
    const links = [...document.querySelectorAll("a[href]")].map((one) => one.getAttribute("href")).filter((href) => !href.startsWith("#") && !href.startsWith("/api/v1/"));
    return { odd: [...odd].map((one) => one.outerHTML.slice(0, 100)), links, hacked: globalThis.hacked ?? null, title: document.title };
  });
  must(found.odd.length === 0 && found.links.length === 0 && found.hacked === null, `${where}: ${JSON.stringify(found)}`);
}

scenario(async (page, context) => {
  page.on("dialog", () => process.exit(9));
  await page.goto(`${given.at}/`);
  const { id, texts } = await page.evaluate(async (said) => {
    const answer = await fetch("/api/v1/sessions/desk/hostile/turns?wait=60", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ text: said }) });
    const id = (await answer.json()).run.id;
    const { events } = await (await fetch(`/api/v1/runs/${id}/events?limit=1000`)).json();
    return { id, texts: events.filter((one) => one.type === "tool_called").map((one) => one.data.result.text) };
  }, given.said);
  must(texts.length === given.texts, `${texts.length} texts came back`);
  await page.locator(".runs .list-row").first().waitFor();
  await clean(page, "home");

  await page.goto(`${given.at}/#/runs/${id}?view=conversation`);
  await page.locator(".said.k-answer").waitFor();
  // Scrolling shows earlier ones, too, so that a mouse would be too late.
  await page.evaluate(() => {
    const more = document.querySelector(".talk > .more");
    while (!more.hidden) more.click();
  });
  // Each is there as it is, but for what acts, which is an escape.
  const missing = await page.evaluate(async (texts) => {
    const { visible, pretty } = await import("/format.js");
    const shown = document.querySelector(".talk").textContent;
    return texts.map((text) => visible(pretty(text).slice(0, 1000))).filter((text) => !shown.includes(text));
  }, texts);
  must(missing.length === 0, `not shown: ${JSON.stringify(missing).slice(0, 1000)}`);
  await clean(page, "conversation");
  await picture(page, "conversation");
  // By script: what is not seen is not laid out, so that a mouse would chase it.
  const opened = await page.evaluate(() => {
    const folded = [...document.querySelectorAll(".talk .folded > button")];
    for (const button of folded) button.click();
    return folded.length;
  });
  must(opened > 2, `${opened} long texts are folded`);
  await clean(page, "unfolded conversation");

  await page.getByRole("tab", { name: "Events" }).click();
  await page.locator(".event").first().waitFor();
  await clean(page, "events");
  await page.getByRole("tab", { name: "Timeline" }).click();
  const list = page.getByRole("listbox", { name: "Timeline" });
  await list.focus();
  await page.keyboard.press("Home");
  for (let row = 0; row < 100; row++) {
    await page.keyboard.press("ArrowDown");
    if (row % 10 === 0) await clean(page, `row ${row}`);
  }
  await clean(page, "timeline");
  await picture(page, "timeline");
  await page.goto(`${given.at}/#/teams/desk`);
  await page.locator(".node").click();
  await clean(page, "team");
  await page.goto(`${given.at}/#/chat/desk/hostile`);
  await page.locator(".said.k-answer").waitFor();
  await clean(page, "chat");

  // Even a page that would make markup of a text could not: the browser refuses.
  const other = await context.newPage();
  await other.goto(`${given.at}/`);
  const refused = await other.evaluate(() => {
    try {
      document.createElement("div").innerHTML = "<b>x</b>";
      return false;
    } catch {
      return true;
    }
  });
  must(refused, "the browser makes markup of texts");
});
