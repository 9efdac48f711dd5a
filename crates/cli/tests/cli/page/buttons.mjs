// Every button that the trip does not press, and that nothing is lost of what a person writes, opens or chooses while the page is
// drawn anew with each event.

import { readFileSync, writeFileSync } from "node:fs";

import { accessible, fits, given, must, picture, please, scenario } from "./browser.mjs";

/** A picture of one pixel. */
const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const post = (page, path, body) => page.evaluate(async ([path, body]) => {
  const answer = await fetch(`/api/v1${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  return { status: answer.status, ...(await answer.json().catch(() => ({}))) };
}, [path, body]);
const say = async (page, session, text, more = {}) => (await post(page, `/sessions/desk/${session}/turns`, { text, ...more })).run.id;
const end = (page, run) => page.evaluate(async (run) => {
  for (;;) {
    const { run: row, end } = await (await fetch(`/api/v1/runs/${run}`)).json();
    if (end) return { status: row.status, ...end };
    await new Promise((done) => setTimeout(done, 20));
  }
}, run);

/** A click as people make it: the button is held for a while, in which the page is drawn anew. */
async function slowly(page, button) {
  await button.waitFor();
  const box = await button.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.waitForTimeout(150);
  await page.mouse.up();
}

const inspector = (page) => page.locator(".inspector");
const dialog = (page) => page.locator("dialog");

async function chat(page) {
  await page.goto(`${given.at}/#/chat/desk/talk`);
  const text = page.getByLabel("Message");
  await text.fill("long one");
  // A message that was begun is still there after a look at something else.
  await page.getByRole("link", { name: "Teams" }).click();
  await page.locator(".card").waitFor();
  await page.goBack();
  must((await text.inputValue()) === "long one", "a message that was begun is lost");

  // Sent with files, once however often Enter is pressed.
  await page.getByLabel("Files").setInputFiles([
    { name: "<b>notes</b>.txt", mimeType: "text/plain", buffer: Buffer.from("remember the milk") },
    { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(DOT, "base64") },
  ]);
  await page.getByText("<b>notes</b>.txt").waitFor();
  await text.focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await page.keyboard.type("meanwhile");
  const answer = page.locator(".turn .k-answer").first();
  await answer.getByText("Show all 5,000 characters").waitFor();
  await page.locator(".turn .k-user", { hasText: "[<b>notes</b>.txt]" }).waitFor();
  // A picture is shown as one.
  await page.waitForFunction(() => document.querySelector(".turn .file img")?.naturalWidth === 1);
  must((await text.inputValue()) === "meanwhile", `what was written while the message was sent is ${JSON.stringify(await text.inputValue())}`);
  const kept = await page.evaluate(async () => (await (await fetch("/api/v1/sessions/desk/talk")).json()).turns);
  must(kept.length === 1, `${kept.length} turns were said`);
  const messages = await page.evaluate(async () => (await fetch("/api/v1/sessions/desk/talk/messages")).text());
  must(messages.includes(btoa("remember the milk")), `the file did not come: ${messages}`);
  await text.fill("");
  // One that is too large is told, and nothing is lost.
  await page.getByLabel("Files").setInputFiles([{ name: "large.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc((5 << 20) + 1) }]);
  await text.fill("with a large file");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("large.bin has more than 5 MB").waitFor();
  must((await text.inputValue()) === "with a large file", "the message is lost with a file that is too large");
  await page.getByLabel("Files").setInputFiles([]);

  // What is unfolded stays so while another turn is under way, and the button that folds it keeps the focus.
  await answer.getByRole("button", { name: "Show all" }).click();
  await text.fill("tick 12");
  await page.keyboard.press("Enter");
  await answer.getByRole("button", { name: "Fold" }).focus();
  await page.locator(".turn .k-answer", { hasText: "did tick 12" }).waitFor();
  must(await answer.getByRole("button", { name: "Fold" }).evaluate((one) => one === document.activeElement), "the focus is lost while a turn is under way");

  // Branched: a name that is taken is told in the dialog, which keeps what was written.
  await page.getByRole("button", { name: "Fork…" }).first().click();
  const name = dialog(page).getByLabel("Name of the new session");
  await name.fill("talk");
  await dialog(page).getByRole("button", { name: "Fork" }).click();
  await dialog(page).locator(".fault", { hasText: "talk" }).waitFor();
  must((await name.inputValue()) === "talk", "the dialog forgot what was written");
  await name.fill("other talk");
  await dialog(page).getByRole("button", { name: "Fork" }).click();
  await page.locator("h1", { hasText: "other talk" }).waitFor();
  await page.locator(".turn").first().waitFor();
  must((await page.locator(".turn").count()) === 1, "the branch has other turns");
  await page.goBack();

  // Rewound to the first turn.
  await page.locator(".turn").nth(1).waitFor();
  await page.getByRole("button", { name: "Rewind…" }).first().click();
  await dialog(page).getByRole("button", { name: "Rewind" }).click();
  await page.locator(".turn").nth(1).waitFor({ state: "detached" });
  must((await page.locator(".turn").count()) === 1, "it was not rewound");
}

async function steps(page) {
  // A run that stumbles again and again is parked; mended and tried again it goes on.
  const stumbles = await say(page, "stumbles", `stumble ${given.gate}`);
  await page.goto(`${given.at}/#/runs/${stumbles}`);
  await page.locator(".pill.bad", { hasText: "parked" }).waitFor();
  await picture(page, "parked");
  await please("mend");
  await page.getByRole("button", { name: "Retry" }).click();
  await page.locator(".pill.good", { hasText: "answered" }).waitFor();

  // One call is cancelled, and its run goes on, by a click that takes its time while events come.
  const dawdles = await say(page, "dawdles", "dawdle 150");
  await page.goto(`${given.at}/#/runs/${dawdles}`);
  await page.locator(".bar-row", { hasText: "desk" }).first().click();
  await inspector(page).locator("summary", { hasText: "Journal" }).click();
  await slowly(page, page.getByRole("button", { name: "Cancel…" }));
  await dialog(page).getByLabel("Why").fill("I write this while events come");
  await page.waitForTimeout(200);
  must((await dialog(page).getByLabel("Why").inputValue()).length === 30, "a dialog forgot what was written");
  await dialog(page).getByRole("button", { name: "Close" }).click();
  await slowly(page, page.locator(".tree .agent", { hasText: "desk" }));
  await page.locator('.tree .agent[aria-pressed="true"]', { hasText: "desk" }).waitFor();
  must(await inspector(page).locator("details", { hasText: "Journal" }).evaluate((one) => one.open), "what was opened is closed");
  await page.getByRole("tab", { name: "Graph" }).click();
  await page.locator(".step.lit", { hasText: "dawdle" }).click();
  await slowly(page, inspector(page).getByRole("button", { name: "Cancel this call" }));
  const ended = await end(page, dawdles);
  must(ended.answer === "went on: this call was cancelled", JSON.stringify(ended));
  await page.locator(".step.failed", { hasText: "dawdle" }).or(page.locator(".step", { hasText: "dawdle" })).first().waitFor();

  // A list stays where it was scrolled to when a person looks at another view of the run.
  await page.getByRole("tab", { name: "Events" }).click();
  const events = page.locator(".events");
  await events.evaluate((one) => (one.scrollTop = 600));
  await page.getByRole("tab", { name: "Timeline" }).click();
  await page.getByRole("tab", { name: "Events" }).click();
  must((await events.evaluate((one) => one.scrollTop)) === 600, "the list of events is scrolled elsewhere");

  // What repeats is one step with a counter, or each is its own.
  const loops = await say(page, "loops", "loop 5");
  await end(page, loops);
  await page.goto(`${given.at}/#/runs/${loops}?view=graph`);
  const echo = page.locator(".step", { hasText: "echo" });
  await echo.locator(".times", { hasText: "×5" }).waitFor();
  must((await echo.count()) === 1, "a step that repeats is drawn more than once");
  must((await page.locator(".step").count()) === 1, "something that is no step is drawn");
  await accessible(page, "graph");
  await page.getByRole("button", { name: "Each step by itself" }).click();
  await echo.nth(4).waitFor();
  const lower = await echo.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top).every((top, index, tops) => !index || top > tops[index - 1]));
  must(lower, "steps do not stand below those before them");
  await echo.nth(2).focus();
  await page.keyboard.press("Enter");
  await inspector(page).locator("h2", { hasText: "echo" }).waitFor();
  await picture(page, "graph");
}

async function graphs(page) {
  const flows = await say(page, "flows", "flow well");
  await page.goto(`${given.at}/#/teams/desk`);
  const drawn = page.getByRole("region", { name: "Graph of flow" }).locator(".step");
  await drawn.nth(2).waitFor();
  must(JSON.stringify(await drawn.locator(".name").allTextContents()) === JSON.stringify(["draft", "judge", "end"]), "other nodes are drawn");
  await page.locator(".step.lit", { hasText: "draft" }).waitFor();
  await accessible(page, "team with a graph");
  await picture(page, "team");
  const [{ run, operation }] = await page.evaluate(async (run) => (await fetch(`/api/v1/runs/${run}/questions`)).json(), flows);
  await post(page, `/runs/${run}/answers`, { operation, value: "yes" });
  await end(page, flows);
  await page.locator(".step.lit").waitFor({ state: "detached" });
  await page.goto(`${given.at}/#/runs/${flows}?view=graph`);
  for (const node of ["draft", "judge"]) await page.locator(".step.k-step", { hasText: node }).waitFor();
  await picture(page, "flow");
}

async function forks(page) {
  const thinks = await say(page, "thinks", "think of it");
  await end(page, thinks);
  await page.goto(`${given.at}/#/runs/${thinks}`);
  await page.locator(".pill.good").waitFor();
  await page.getByRole("button", { name: "Fork…", exact: true }).click();
  const fields = dialog(page);
  await fields.getByLabel("Entries that are kept").fill("99");
  await fields.getByLabel("Say instead").fill("think of something else");
  await fields.getByRole("button", { name: "Fork" }).click();
  await fields.locator(".fault", { hasText: /./ }).waitFor();
  must((await fields.getByLabel("Say instead").inputValue()) === "think of something else", "a fork that is refused loses what was written");
  await fields.getByLabel("Entries that are kept").fill("1");
  await fields.locator("summary", { hasText: "Another model" }).click();
  await fields.getByLabel("Model", { exact: true }).selectOption("other");
  await fields.getByLabel("Instructions").fill("be brief");
  await fields.locator("summary", { hasText: "The whole definition" }).click();
  const whole = fields.getByLabel("Whole definition");
  const written = await whole.inputValue();
  await whole.fill(written.replace("{", '{ "name": "another", '));
  await fields.getByRole("button", { name: "Fork" }).click();
  await fields.locator(".fault", { hasText: "a name stands twice" }).waitFor();
  await whole.fill(written);
  await fields.locator("summary", { hasText: "The whole definition" }).click();
  await accessible(page, "fork");
  await picture(page, "fork");
  await fields.getByRole("button", { name: "Fork" }).click();
  await page.getByText("Two runs side by side").waitFor();
  await page.locator(".answer-text", { hasText: "small, be kind" }).waitFor();
  await page.locator(".answer-text", { hasText: "large, be brief" }).waitFor();
  for (const [where, one, other] of [["task", "think of it", "think of something else"], ["agent.model", "–", "other"], ["agent.instructions", "be kind", "be brief"]]) {
    const row = page.locator(".differs-list tr", { hasText: where });
    await row.waitFor();
    must(JSON.stringify(await row.locator("td").allTextContents()) === JSON.stringify([where, one, other]), `${where}: ${await row.textContent()}`);
  }
  await accessible(page, "what differs");
  await picture(page, "differs");
}

async function home(page) {
  const first = await say(page, "asks", "ask your name?");
  await page.goto(`${given.at}/#/`);
  const answer = page.locator(".question", { hasText: "your name?" }).getByRole("textbox");
  await answer.click();
  await page.keyboard.type("A");
  // A question keeps what is written when others come.
  await page.locator(".runs .list-row", { hasText: "think of it" }).waitFor();
  await say(page, "asks too", "ask your age?");
  await page.locator(".question", { hasText: "your age?" }).waitFor();
  await page.keyboard.type("da");
  must((await answer.inputValue()) === "Ada", `of what was written there is ${await answer.inputValue()}`);
  await page.keyboard.press("Enter");
  must((await end(page, first)).answer === 'answered "Ada"', "another answer came");
  await page.locator("#search").fill("think");
  await page.locator(".home").getByText("2 runs").waitFor();
  await page.locator("#search").fill("");
  await page.getByLabel("Owner").fill("nobody");
  await page.getByText("No run is like that.").waitFor();
  await page.getByLabel("Owner").fill("");
  await page.getByLabel("Time", { exact: true }).selectOption("between");
  await page.getByLabel("Until").fill("2020-01-01T00:00");
  await page.getByText("No run is like that.").waitFor();
  await page.getByLabel("From").fill("2020-01-01T00:00");
  await page.getByLabel("Until").fill("2099-01-01T00:00");
  await page.locator(".runs .list-row", { hasText: "think of it" }).waitFor();
  await page.reload();
  must((await page.getByLabel("From").inputValue()) === "2020-01-01T00:00", "a filter is not in the address");
  await page.locator(".runs .list-row", { hasText: "think of it" }).waitFor();
}

async function places(page) {
  await say(page, "publishes", "publish hello", { budget: { model_calls: 8 } });
  await say(page, "sleeps", "wait");
  await page.goto(`${given.at}/#/system`);
  for (const [table, row] of [["Topic", /news.*1 published.*readers.*1 of 4.*publish hello/], ["Budget of", /publish hello.*model calls.*0 of 8/], ["Slots of", /all tools.*of 256/], ["Slots of", /other.*0 of 256/], ["Sleeps", /wait.*desk.*20\d\d-/]]) {
    await page.getByRole("region", { name: table }).locator("tr", { hasText: row }).first().waitFor();
  }
  await page.getByText("of 100,000").waitFor();
  await accessible(page, "system");
  await picture(page, "system");

  await end(page, await say(page, "remembers", "remember <b>Ada</b> likes tea"));
  await end(page, await say(page, "remembers", "remember Bob likes rye"));
  await page.reload();
  await page.getByRole("link", { name: "Memory" }).click();
  await page.locator(".memories li", { hasText: "<b>Ada</b> likes tea" }).waitFor();
  await accessible(page, "memory");
  await picture(page, "memory");
  await page.getByLabel("Search by words").fill("rye");
  await page.locator(".memories li", { hasText: "tea" }).waitFor({ state: "detached" });
  await page.getByLabel("Search by words").fill("");
  await page.getByLabel("Kind").selectOption("wisdom");
  await page.getByText("Nothing is remembered of that.").waitFor();
  await page.getByLabel("Kind").selectOption("");
  await page.getByRole("button", { name: "Forget <b>Ada</b>" }).click();
  await dialog(page).getByRole("button", { name: "Forget" }).click();
  await page.locator(".memories li", { hasText: "tea" }).waitFor({ state: "detached" });
  await page.locator(".memories li", { hasText: "rye" }).waitFor();
  await page.getByLabel("Scope").fill("user:nobody");
  await page.getByText("Nothing is remembered there.").waitFor();
}

/** The main regions of each view: where they begin and how wide they are does not depend on fonts. */
const REGIONS = { home: [".top", ".home-runs", ".home-sessions", ".filter", ".runs"], run: [".top", ".run-head", ".side", ".middle", ".tabs", ".panel", ".inspector"], chat: [".top", ".chat-main", ".chat-side", ".composer"],
  team: [".top", ".drawing", ".agent-card"], system: [".top", ".system > div:nth-of-type(2)", ".system > div:nth-of-type(3)"], memory: [".top", ".narrow-page", ".memories"] };
/** How far a region may be from where it was recorded, in pixels: across, and down, where texts wrap as fonts have it. */
const TOLERANCE = [2, 40];

/** Where regions are, once they move no more. */
async function settled(page, regions) {
  let [before, still] = ["", 0];
  for (;;) {
    const now = await page.evaluate((regions) => Object.fromEntries(regions.map((one) => {
      const box = document.querySelector(one)?.getBoundingClientRect();
      return [one, box ? [box.x, box.width, box.y].map(Math.round) : null];
    })), regions);
    still = JSON.stringify(now) === before ? still + 1 : 0;
    if (still === 2) return now;
    before = JSON.stringify(now);
    await page.waitForTimeout(60);
  }
}

async function layout(page, run) {
  const at = { home: "/#/", run: `/#/runs/${run}`, chat: "/#/chat/desk/talk", team: "/#/teams/desk", system: "/#/system", memory: "/#/memory" };
  const found = {};
  for (const [width, height, look] of [[1440, 900, "light"], [1440, 900, "dark"], [360, 740, "light"], [360, 740, "dark"]]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: look });
    await page.goto("about:blank");
    for (const [view, path] of Object.entries(at)) {
      await page.goto(`${given.at}${path}`);
      await page.locator(REGIONS[view][1]).first().waitFor();
      if (view === "run") {
        await page.locator(".bar-row", { hasText: "model" }).first().waitFor();
        if (width > 1000) await page.locator(".bar-row", { hasText: "model" }).first().click();
      }
      if (view === "home") await page.locator(".home .question").first().waitFor();
      if (view === "memory") await page.locator(".memories li").first().waitFor();
      if (view === "system") await page.getByText("wake_service").waitFor();
      await fits(page, `${view} at ${width}`);
      const boxes = await settled(page, REGIONS[view]);
      // Colours change nothing of where things are.
      if (look === "dark") must(JSON.stringify(boxes) === JSON.stringify(found[`${view} ${width}`]), `${view} at ${width} is laid out otherwise in the dark`);
      found[`${view} ${width}`] = boxes;
    }
  }
  if (process.env.GHOSTLIGHT_RECORD_LAYOUT === "1") return writeFileSync(given.layout, `${JSON.stringify(found, null, 1).replace(/\n +(-?\d|\])/g, "$1")}\n`);
  const recorded = JSON.parse(readFileSync(given.layout, "utf8"));
  const off = [];
  for (const [view, boxes] of Object.entries(recorded)) {
    for (const [region, box] of Object.entries(boxes)) {
      const now = found[view]?.[region];
      const same = box === null ? now === null : now && [0, 1, 2].every((side) => Math.abs(now[side] - box[side]) <= TOLERANCE[side === 2 ? 1 : 0]);
      if (!same) off.push(`${view}: ${region} is at ${JSON.stringify(now)} and was recorded at ${JSON.stringify(box)}`);
    }
  }
  must(off.length === 0, `${off.join("\n")}\nWhere that is meant, record it anew: GHOSTLIGHT_RECORD_LAYOUT=1`);
}

scenario(async (page) => {
  await page.goto(`${given.at}/`);
  await page.getByText("No runs yet.").waitFor();
  for (const part of [chat, steps, graphs, forks, home, places]) {
    const began = Date.now();
    await part(page);
    console.log(`${part.name} took ${Date.now() - began} ms`);
  }
  const run = await say(page, "laid out", "think of the layout");
  await end(page, run);
  await layout(page, run);
});
