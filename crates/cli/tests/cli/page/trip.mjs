// A trip is planned, watched, approved with other arguments, forked, steered and cancelled, by clicks and keys alone; the
// server is killed in the middle.

import { accessible, fits, given, must, picture, please, scenario } from "./browser.mjs";

scenario(async (page) => {
  await page.goto(`${given.at}/`);
  await page.getByText("No runs yet.").waitFor();
  await accessible(page, "empty home");

  // A turn is said to a team.
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.locator(".card", { hasText: "trip" }).click();
  await page.getByLabel("Message").fill("Two days in Ulm for two, from Friday, for less than 400 euro.");
  await page.keyboard.press("Enter");
  const card = page.locator(".question");
  await card.waitFor();
  await picture(page, "chat");
  await accessible(page, "chat");

  // Its run, with the question that it waits for.
  await page.getByRole("link", { name: "what happened" }).click();
  await page.locator(".pill.wait").waitFor();
  await page.locator(".bar-row", { hasText: "Blue Pike" }).waitFor();
  await card.waitFor();
  const agents = await page.locator(".tree .agent-name").allTextContents();
  must(["planner", "trains", "rooms"].every((name) => agents.includes(name)), `agents ${agents}`);
  const watched = page.url();
  const id = watched.match(/runs\/([0-9a-f-]+)/)[1];

  // The server is killed and comes back: the page goes on by itself, and shows no event twice.
  await page.getByRole("tab", { name: "Events" }).click();
  await please("kill");
  await page.locator(".link.broken").waitFor();
  await please("serve");
  await page.locator(".link.live").waitFor();
  const recorded = await page.evaluate(async (run) => (await (await fetch(`/api/v1/runs/${run}/events?limit=1000`)).json()).events.filter((one) => !one.type.startsWith("step_")).length, id);
  const shown = Number(await page.locator(".events .list-row").first().getAttribute("aria-setsize"));
  must(shown === recorded, `${shown} events are shown and ${recorded} recorded`);
  await page.getByRole("tab", { name: "Timeline" }).click();
  await picture(page, "waiting");
  await accessible(page, "waiting run");

  // What is waited for stands on the first page, too.
  await page.keyboard.press("Escape");
  await page.locator("a.mark").click();
  await page.locator(".home .question").waitFor();
  await page.locator(".runs .list-row").first().waitFor();
  await picture(page, "home");
  await accessible(page, "home");
  await page.locator("#search").fill("no such text");
  await page.getByText("No run is like that.").waitFor();
  await page.locator("#search").fill("ULM");
  await page.locator(".runs .list-row", { hasText: "Two days in Ulm" }).click();

  // Approved with other arguments than the model's.
  await page.getByRole("button", { name: "Edit arguments" }).click();
  const edit = page.getByLabel("Arguments");
  await edit.fill("no json");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("The arguments are no JSON").waitFor();
  await edit.fill('{"what": "a night", "price": 1, "price": 900}');
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("a name stands twice").waitFor();
  await edit.fill(JSON.stringify({ what: "train 10:12 and one night", price: 123.9 }));
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator(".pill.good", { hasText: "answered" }).waitFor();
  must((await page.locator(".question").count()) === 0, "the question is still there");
  await page.locator(".bar-row", { hasText: "recovered" }).first().waitFor();

  // An operation opens to all that is recorded of it.
  await page.locator(".bar-row", { hasText: "booked train 10:12 and one night for 123.9" }).click();
  const inspector = page.locator(".inspector");
  await inspector.getByText("edited", { exact: false }).first().waitFor();
  await inspector.locator("summary", { hasText: "Journal" }).click();
  await inspector.getByText("Completed", { exact: false }).or(inspector.getByText("completed", { exact: false })).first().waitFor();
  await picture(page, "run");
  await accessible(page, "run");
  must(page.url().includes("entry="), "an entry has no address");
  const entry = page.url();
  await page.keyboard.press("Escape");
  await inspector.waitFor({ state: "hidden" });

  // The address of an entry leads to it.
  await page.goto("about:blank");
  await page.goto(entry);
  await inspector.waitFor();
  await page.keyboard.press("Escape");

  // The conversation as the agent saw it, and by keys alone another agent's.
  await page.getByRole("tab", { name: "Conversation" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".said", { hasText: "You take the 10:12 to Ulm" }).first().waitFor();
  await accessible(page, "conversation");
  await picture(page, "conversation");
  await page.locator(".tree .agent", { hasText: "rooms" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".said", { hasText: "The Old Mill is quiet" }).first().waitFor();
  await page.getByRole("tab", { name: "Timeline" }).click();

  // Zoom keeps what is seen in bounds.
  await page.getByRole("button", { name: "All 3 runs" }).click();
  const before = await page.locator(".tick").allTextContents();
  await page.getByRole("button", { name: "Zoom in" }).click();
  await page.waitForFunction((was) => [...document.querySelectorAll(".tick")].map((one) => one.textContent).join() !== was, before.join());
  await page.getByRole("button", { name: "Fit to the whole time" }).click();

  // Forked at its first entry with another task: what was done before is not done again, and both stand side by side.
  await page.locator(".bar-row", { hasText: "planner" }).first().click();
  await page.getByRole("button", { name: "Fork…", exact: true }).click();
  const dialog = page.locator("dialog");
  await dialog.getByLabel("Entries that are kept").fill("1");
  await dialog.getByLabel("Say instead").fill("The same for one person.");
  await accessible(page, "dialog");
  await dialog.getByRole("button", { name: "Fork" }).click();
  await page.getByText("Two runs side by side").waitFor();
  await page.locator(".pair").first().waitFor();
  await page.getByText("then they differ", { exact: false }).or(page.getByText("then they differ", { exact: false })).first().waitFor();
  await accessible(page, "comparison");
  await picture(page, "compare");
  await page.locator(".pair-heads section").nth(1).getByRole("link").click();
  await page.locator("h1", { hasText: "The same for one person." }).waitFor();
  await page.getByRole("link", { name: "compare" }).waitFor();

  // Steered, denied, and the next one cancelled.
  await card.waitFor();
  await page.getByLabel("Say something to the run").fill("Trains only.");
  await page.getByRole("button", { name: "Steer" }).click();
  await page.getByText("the agent reads it before its next step").waitFor();
  await page.getByLabel("Why not").fill("too dear");
  await page.getByRole("button", { name: "Deny" }).click();
  await page.locator(".pill.good", { hasText: "answered" }).waitFor();
  await page.locator(".bar-row", { hasText: "too dear" }).first().waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.locator(".card", { hasText: "trip" }).click();
  await page.locator(".node", { hasText: "rooms" }).click();
  await page.locator(".chips", { hasText: "find_rooms" }).waitFor();
  await picture(page, "team");
  await accessible(page, "team");
  await page.getByRole("link", { name: "Talk to it" }).click();
  await page.getByLabel("Message").fill("And once more.");
  await page.getByRole("button", { name: "Send" }).click();
  await card.waitFor();
  await page.getByRole("link", { name: "what happened" }).click();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await dialog.getByLabel("Why").fill("changed my mind");
  await dialog.getByRole("button", { name: "Cancel the run" }).click();
  await page.locator(".pill.warn", { hasText: "cancelled" }).waitFor();
  await page.getByText("changed my mind").first().waitFor();

  // The program itself, dark, and on a small screen.
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.getByText("wake_service").waitFor();
  await picture(page, "system");
  await accessible(page, "system");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(entry);
  await inspector.waitFor();
  await accessible(page, "run in the dark");
  await picture(page, "dark");
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 390, height: 844 });
  await fits(page, "run on a small screen");
  await accessible(page, "run on a small screen");
  await picture(page, "narrow");
  await page.goto(`${given.at}/#/`);
  await page.locator(".runs .list-row").first().waitFor();
  await fits(page, "home on a small screen");
});
