// The page of `ghostlight open`: a token in its first address becomes a cookie, and nobody gets in without.

import { accessible, given, must, picture, scenario } from "./browser.mjs";

scenario(async (page, context) => {
  const site = new URL(given.at).origin;
  const other = await context.newPage();
  await other.goto(`${site}/`);
  await other.getByText("A key, please").waitFor();
  await accessible(other, "sign-in");
  await other.getByLabel("Key", { exact: true }).fill("wrong");
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByText("the key is unknown").waitFor();

  await page.goto(given.at);
  await page.locator("h1", { hasText: "Good morning" }).waitFor();
  await page.locator(".bar-row").first().waitFor();
  must(!page.url().includes("token"), `the token stays in the address: ${page.url()}`);
  const [cookie] = await context.cookies();
  must(cookie.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
  must((await page.evaluate(() => document.cookie)) === "", "a script reads the cookie");
  await picture(page, "opened");

  // A run that nobody carries is taken up by a click, and then answered.
  await page.goto(`${site}/#/`);
  await page.locator(".runs .list-row", { hasText: "who goes there?" }).click();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator(".bar-row", { hasText: "recovered" }).waitFor();
  const card = page.locator(".question");
  await card.getByRole("textbox").fill("a friend");
  await card.getByRole("button", { name: "Answer" }).click();
  await page.locator(".pill.good", { hasText: "answered" }).waitFor();

  // The cookie is the browser's: the other tab is in now, and another browser is not.
  await other.goto(`${site}/#/system`);
  await other.reload();
  await other.getByText("wake_service").waitFor();
  const status = (await fetch(`${site}/api/v1/runs`)).status;
  must(status === 401, `a client without the token gets ${status}`);
});
