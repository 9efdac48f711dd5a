// What a hostile model wrote is text in every view.

import { given, must, picture, scenario } from "./browser.mjs";

/** What only markup of somebody else's could have put there. */
async function clean(page, where) {
  const found = await page.evaluate(() => {
    const odd = document.querySelectorAll("main script, main img, main iframe, main object, main embed, main base, main meta, main link, main style, main video, main audio, main math, main template, main b, body > script, form[action], [onclick], [onerror], [onload], [style*=display]");
    const links = [...document.querySelectorAll("a[href]")].map((one) => one.getAttribute("href")).filter((href) => !href.startsWith("#") && !href.startsWith("/api/v1/"));
    // What acts on a terminal or turns the direction of a text is an escape wherever it is shown or read aloud.
    const acting = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/;
    const raw = document.title.match(acting) ? ["the title of the document"] : [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) if (acting.test(texts.currentNode.data) && !texts.currentNode.parentElement.closest("textarea")) raw.push(`${texts.currentNode.parentElement.className}: ${JSON.stringify(texts.currentNode.data.slice(0, 60))}`);
    for (const one of document.querySelectorAll("[title], [aria-label]")) if (acting.test(`${one.title} ${one.getAttribute("aria-label")}`)) raw.push(`an attribute of ${one.className}`);
    return { raw: raw.slice(0, 5), odd: [...odd].map((one) => one.outerHTML.slice(0, 100)), links, hacked: globalThis.hacked ?? null, title: document.title };
  });
  must(found.raw.length === 0 && found.odd.length === 0 && found.links.length === 0 && found.hacked === null, `${where}: ${JSON.stringify(found)}`);
}

/** Looks at all rows of a list. */
async function scrolled(page, list, where) {
  const high = await page.locator(list).evaluate((one) => one.scrollHeight);
  for (let top = 0; top < high; top += 1200) {
    await page.locator(list).evaluate((one, top) => (one.scrollTop = top), top);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await clean(page, `${where} from ${top}`);
  }
}

/** The texts as titles, as names of events, tools, topics, artifacts, files, sessions and memories, as a question and as an error. */
async function everywhere(page) {
  await page.goto(`${given.stage}/`);
  const { runs, uttering } = await page.evaluate(async (texts) => {
    const say = async (session, body, wait) => {
      const answer = await fetch(`/api/v1/sessions/desk/${encodeURIComponent(session)}/turns${wait}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      return answer.ok ? (await answer.json()).run.id : null;
    };
    const runs = [];
    for (const text of texts) {
      const key = /^[^\p{Cc}]{1,60}$/u.test(text) ? text : `s${runs.length}`;
      runs.push(await say(key, { text, files: [{ media_type: "text/plain", name: text, base64: "eA==" }] }, "?wait=20"));
    }
    return { runs, uttering: await say("uttering", { text: `utter ${JSON.stringify(texts)}` }, "") };
  }, given.short);
  must(runs.every(Boolean) && uttering, "a turn was not taken");
  await page.locator(".home .question").waitFor();
  await page.waitForFunction((many) => Number(document.querySelector(".runs .list-row")?.getAttribute("aria-setsize")) >= Math.min(many, 98), given.short.length);
  await scrolled(page, ".runs", "home");
  for (const run of runs.filter((_, index) => index % 24 === 0)) {
    await page.goto(`${given.stage}/#/runs/${run}?view=conversation`);
    await page.locator(".pill.bad").waitFor();
    await clean(page, "a run that failed");
  }
  await page.goto(`${given.stage}/#/runs/${uttering}`);
  await page.locator(".question button").first().waitFor();
  await scrolled(page, ".bars", "timeline");
  await page.getByRole("tab", { name: "Events" }).click();
  await scrolled(page, ".events", "events");
  for (const view of ["Conversation", "Graph"]) {
    await page.getByRole("tab", { name: view }).click();
    await page.locator(view === "Graph" ? ".step" : ".said").first().waitFor();
    await clean(page, view);
  }
  await page.getByRole("button", { name: "Each step by itself" }).click();
  await clean(page, "each step");
  await page.locator(".step").nth(20).click();
  await clean(page, "a step");
  await picture(page, "graph");
  await page.goto(`${given.stage}/#/system`);
  await page.getByRole("region", { name: "Topic" }).locator("tbody tr").nth(19).waitFor();
  await clean(page, "system");
  await page.goto(`${given.stage}/#/memory`);
  await page.locator(".memories li").nth(25).waitFor();
  await clean(page, "memory");
  await page.goto(`${given.stage}/#/chat/desk/uttering`);
  await page.locator(".chat-side li").nth(10).waitFor();
  await page.locator(".question").waitFor();
  await clean(page, "chat with artifacts");
  await page.goto(`${given.stage}/#/chat`);
  await page.locator(".rows li").nth(60).waitFor();
  await clean(page, "sessions");
  await page.goto(`${given.stage}/#/compare/${uttering}/${runs[0]}`);
  await page.locator(".differs-list tr").first().waitFor();
  await scrolled(page, ".pairs", "comparison");
  await page.goto(`${given.stage}/#/runs/${uttering}`);
  await page.locator(".question button").first().click();
  await page.locator(".run-head .fault").waitFor();
  await clean(page, "an error");
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

  await everywhere(page);

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
