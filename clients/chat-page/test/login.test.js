// What a browser keeps of a login.

import assert from "node:assert/strict";
import test from "node:test";
import { issued, LoginShelf, parseLogin, printLogin, wayOf } from "../dist/login.js";

const text = () => ({ text: null });
const TOKEN = { token: "00ff", until: 200, renewAt: 150 };

test("a login is read as it was kept, and damaged text is none", () => {
  for (const login of [
    { account: "ann", needsPassword: false },
    { account: "ann", needsPassword: true },
    { account: "ann", needsPassword: true, token: TOKEN },
  ]) assert.deepEqual(parseLogin(printLogin(login)), login);
  for (const bad of [null, "", "{", "[]", "7", '{"account":""}', '{"account":7}']) {
    assert.equal(parseLogin(bad), undefined, bad);
  }
  const half = parseLogin('{"account":"ann","token":{"token":"00ff","until":"soon"}}');
  assert.deepEqual(half, { account: "ann", needsPassword: true }, "a damaged token is none");
});

test("a token logs in until it expires, and then the password is asked for", () => {
  assert.deepEqual(issued("00ff", 200, 100), TOKEN);
  const login = { account: "ann", needsPassword: true, token: TOKEN };
  assert.equal(wayOf(login, 199), "token");
  assert.equal(wayOf(login, 200), "ask");
  assert.equal(wayOf({ account: "ann", needsPassword: true }, 0), "ask");
  assert.equal(wayOf({ account: "ann", needsPassword: false }, 0), "open");
});

test("a login is in the tab or in the browser, never in both, and logging out clears both", () => {
  const [tab, browser] = [text(), text()];
  const shelf = new LoginShelf(tab, browser);
  assert.equal(shelf.login, undefined);
  shelf.keep({ account: "ann", needsPassword: true, token: TOKEN }, false);
  assert.ok(tab.text !== null && browser.text === null && !shelf.stays);
  shelf.keep({ account: "bob", needsPassword: true }, true);
  assert.ok(tab.text === null && browser.text !== null && shelf.stays);
  assert.equal(shelf.login.account, "bob");
  shelf.clear();
  assert.deepEqual([tab.text, browser.text], [null, null]);
});
