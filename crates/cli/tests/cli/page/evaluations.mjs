// An evaluation that was carried out: its figures, its cells by keys and clicks, a cell's run, and two variants beside each other.

import { accessible, fits, given, must, picture, scenario } from "./browser.mjs";

scenario(async (page) => {
  await page.goto(`${given.at}/`);
  await page.getByRole("link", { name: "Evaluations" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await page.locator(".card", { hasText: "desk" }).waitFor();
  await accessible(page, "evaluations");
  await page.locator(".card", { hasText: "24 cells" }).click();

  // The figures are those that the command tells.
  await page.locator("h1", { hasText: "desk" }).waitFor();
  const base = page.getByRole("region", { name: "Variants" }).locator("tr", { hasText: "base" });
  await base.getByText(given.success).waitFor();
  await page.getByText("24 cells; the gate passes").waitFor();
  await picture(page, "evaluation");

  // The cells, the worst first, by keys.
  const rows = page.locator(".cells .list-row");
  await rows.first().waitFor();
  must(/failed|no answer/.test(await rows.first().innerText()), `the first cell is ${await rows.first().innerText()}`);
  const cells = page.getByRole("listbox", { name: "Cells" });
  await cells.focus();
  await page.keyboard.press("ArrowDown");
  const detail = page.getByRole("complementary", { name: "Cell" });
  await detail.getByRole("heading", { name: /does not pass/ }).first().waitFor();
  const first = await detail.innerText();
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction((before) => document.querySelector(".cell-detail").innerText !== before, first);
  await picture(page, "cell");
  await accessible(page, "evaluation");
  await fits(page, "evaluation");

  // Filtered, which its address keeps.
  await page.getByLabel("Result", { exact: true }).selectOption("passed");
  await page.getByLabel("Variant", { exact: true }).selectOption("short");
  await page.getByText(/^\d+ of 24 cells$/).waitFor();
  const passed = await rows.allInnerTexts();
  must(passed.length > 0 && passed.every((text) => text.includes("passed") && text.includes("short")), `filtered: ${passed}`);
  await page.reload();
  await page.getByText(/^\d+ of 24 cells$/).waitFor();

  // A cell's run, and back.
  await rows.first().click();
  await detail.getByRole("link", { name: "Open its run" }).click();
  await page.locator(".pill.good", { hasText: "answered" }).waitFor();
  await page.goBack();

  // Two variants beside each other, and two of their runs.
  await page.getByRole("button", { name: "Show beside each other" }).click();
  await page.locator("h1", { hasText: "base and short" }).waitFor();
  const measures = page.getByRole("region", { name: "Measures" });
  await measures.locator("tr", { hasText: "success" }).waitFor();
  await page.locator(".pair-columns .pill").first().waitFor();
  must((await rows.count()) === 12, `${await rows.count()} pairs`);
  await picture(page, "beside");
  await accessible(page, "two variants");
  await fits(page, "two variants");
  await rows.first().click();
  await page.locator("h1", { hasText: "Two runs side by side" }).waitFor();
  await page.locator(".pair").first().waitFor();

  // On a small screen, and in the dark.
  await page.setViewportSize({ width: 390, height: 800 });
  await page.emulateMedia({ colorScheme: "dark" });
  for (const [name, where] of [["small", "#/evaluations/desk"], ["small-beside", "#/evaluations/desk/base/short"]]) {
    await page.goto(`${given.at}/${where}`);
    await rows.first().waitFor();
    await picture(page, name);
    await accessible(page, name);
    await fits(page, name);
  }
});
